//! The live engine: drives the pure session of `homing_session` with the kernel at both ends, and decides
//! nothing. A [`source`] says which thread accessed which page, [`targets`] what the processes are; the session asks
//! and orders; the [`mover`] moves and asks the kernel whether it did.
//!
//! [`session`] holds these together and gives all their time. Everything unsafe is in `homing-linux`.
#![forbid(unsafe_code)]

pub mod account;
pub mod config;
pub mod contribute;
pub mod counters;
pub mod evacuate;
pub mod evidence;
pub mod heirs;
pub mod host;
pub mod hot;
pub mod inside;
pub mod jobs;
pub mod journal;
pub mod keep;
pub mod lint;
mod masks;
pub mod mover;
pub mod movers;
pub mod observe;
pub mod phases;
pub mod place;
pub mod refine;
pub mod regions;
pub mod rset;
pub mod session;
mod shared_marks;
pub mod sharers;
pub mod source;
pub mod targets;
pub mod trial;
