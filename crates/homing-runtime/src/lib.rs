//! libhoming: a program that brings its own pages home (Nikolopoulos 2000, section 2.3). The interface is that of
//! `include/homing/runtime.h`; `abi.rs` is its other side, and the only file with unsafe code. Behind it a *manager*
//! (`manager.rs`), a thread of its own, drives the live engine of `homing-live` on its own process, while the program
//! runs. What both share is in `library.rs`: what the program says (`areas.rs`, marks), and what the manager counts.

pub mod abi;
mod areas;
mod library;
mod manager;
mod settings;
mod statistics;
mod status;
