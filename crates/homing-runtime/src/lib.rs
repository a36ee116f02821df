//! libhoming: a program that brings its own pages home (Nikolopoulos 2000, section 2.3). The interface is that of
//! `include/homing/runtime.h`; `abi.rs`, `abi_rset.rs`, `abi_ompt.rs`, `abi_allocation.rs`, `abi_rights.rs` and
//! `abi_signals.rs` are its other side, and the only files with unsafe code.
//! Resource sets (`rset.rs`) work without a manager. Behind the rest a *manager*
//! (`manager.rs`), a thread of its own, drives the live engine of `homing-live` on its own process, while the program
//! runs. Programs that call nothing are followed by their parallel regions (`regions.rs`), and their threads by where
//! they are in these (`places.rs`); in jobs of `homing sched run` their number follows the job's processors
//! (`allocation.rs`). What both share is in `library.rs`: what the program says (`areas.rs`, marks), and
//! what the manager counts.

pub mod abi;
mod abi_allocation;
pub mod abi_ompt;
pub mod abi_rights;
pub mod abi_rset;
#[cfg(target_arch = "x86_64")]
pub mod abi_signals;
mod allocation;
mod areas;
mod library;
mod manager;
mod places;
mod regions;
#[cfg(target_arch = "x86_64")]
mod rehearsal;
mod rset;
mod settings;
mod statistics;
mod status;
