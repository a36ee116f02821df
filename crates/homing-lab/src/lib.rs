//! The lab: a virtual ccNUMA machine under QEMU's software emulation, with a real Linux kernel, that runs one command
//! of the host and is gone afterwards (`docs/lab.md`).
//!
//! The modules follow a run: [`parts`] (what must be installed) -> [`topology`] (the machine) -> [`job`] and [`gather`]
//! (the files that the command needs) -> [`initramfs`] (the guest's file system) -> [`machine`] (QEMU, its streams, its
//! end); [`observer`] counts what runs in it.

pub mod error;
pub mod gather;
pub mod initramfs;
pub mod job;
pub mod machine;
pub mod observer;
pub mod parts;
pub mod topology;

pub use error::LabError;
