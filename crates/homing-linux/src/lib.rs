//! All of Homing that touches the Linux kernel, in small files with pre- and postconditions.

pub mod channel;
pub mod follow;
pub mod inherit;
pub mod interrupts;
pub mod mapped;
pub mod topology;
