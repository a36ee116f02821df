//! All of Homing that touches the Linux kernel, in small files with pre- and postconditions.

pub mod channel;
pub mod child;
pub mod claim;
pub mod clock;
pub mod fail;
pub mod follow;
pub mod guard;
pub mod hint_faults;
pub mod huge;
pub mod inherit;
pub mod interrupts;
pub mod lock;
pub mod mapped;
pub mod memory;
pub mod move_pages;
pub mod pagemap;
pub mod perf;
pub mod policy;
pub mod proc;
pub mod ptrace;
pub mod stderr;
pub mod terminal;
pub mod topology;
pub mod tunables;
pub mod unnamed;
pub mod wait;
