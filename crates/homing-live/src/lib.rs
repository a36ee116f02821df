//! The live engine: the same policies and the same loop as in simulation (`homing_core::engine`), with the kernel at both
//! ends. A [`source`] says which thread accessed which page, the policy decides, the [`executor`] queues, the [`mover`]
//! moves and asks the kernel whether it did.
//!
//! [`session`] holds these together and gives policies their time; sources and movers read the clock for their own dates
//! only. Everything unsafe is in `homing-linux`.
#![forbid(unsafe_code)]

pub mod account;
pub mod config;
pub mod evacuate;
pub mod executor;
pub mod host;
pub mod journal;
pub mod mover;
mod movers;
mod neighbours;
pub mod observe;
pub mod pages;
pub mod phases;
pub mod plan;
pub mod regions;
pub mod session;
pub mod source;
pub mod targets;
pub mod users;
