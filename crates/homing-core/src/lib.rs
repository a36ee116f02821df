//! The pure core of Homing. It does no I/O of its own beyond the readers, writers and byte slices that it is handed,
//! reads no clock and starts no thread that outlives a call.
//!
//! The modules follow the data path: [`trace`] (references on disk, a crate of its own) -> [`history`] (page runs) ->
//! [`policy`] and [`optimal`] (decisions) -> [`engine`] and [`simulate`] (what they cost) -> [`report`] (what people
//! read).
#![forbid(unsafe_code)]

pub mod account;
pub mod action;
pub mod areas;
pub mod cache;
pub mod compare;
pub mod engine;
pub mod history;
pub mod information;
pub mod machine;
pub mod monitor;
pub mod optimal;
pub mod page_sizes;
pub mod policy;
pub mod process;
pub mod refine;
pub mod report;
pub mod sharing;
pub mod simulate;
pub mod system;
pub mod time;
pub mod timeline;
pub mod why;
pub mod windows;

pub use homing_trace as trace;
pub use homing_trace::ids;
