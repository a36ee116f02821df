//! The lab: a virtual ccNUMA machine under QEMU's software emulation, with a real Linux kernel, that runs commands
//! of the host and is gone afterwards (`docs/lab.md`).
//!
//! The modules follow a run: [`parts`] (what must be installed) -> [`topology`] (the machine) -> [`job`] and [`gather`]
//! (the files that the commands need) -> [`initramfs`] (the guest's file system) -> [`machine`] (QEMU, its streams, its
//! end); [`session`] does all that from start to end, [`batch`] reads a file of jobs for it, and [`observer`] counts
//! what runs in it. [`baseline`] runs one command under several ways to place its memory.
//!
//! The crate prints nothing: who looks on is told ([`watch`]).

pub mod baseline;
pub mod batch;
mod elf;
pub mod error;
pub mod gather;
pub mod initramfs;
pub mod job;
pub mod kernel;
pub mod machine;
pub mod observer;
pub mod parts;
pub mod session;
pub mod topology;
pub mod watch;

pub use error::LabError;
