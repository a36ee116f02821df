//! An experiment as a value: trace x machine x placement x monitor x policy -> page histories -> results -> report. The
//! program `homing` parses options into these structures and prints what comes out; a script or a service can do the same.
//!
//! An [`Experiment`] says what is asked. [`Experiment::ready`] looks names up; [`Ready::lay_out`] lays a trace over the
//! machine ([`Layout`]); the core's `compare`, `simulate` and `optimal` answer, or a [`rig::Rig`] with a monitor in the loop.
#![forbid(unsafe_code)]

pub mod compare;
mod error;
pub mod experiment;
pub mod external;
mod host;
pub mod info;
pub mod layout;
pub mod manifest;
pub mod model;
pub mod placement;
pub mod policies;
pub mod progress;
pub mod rig;
pub mod scene;
mod spill;
pub mod study;
mod trace_file;
pub mod trace_names;

pub use error::{PipelineError, Result};
pub use experiment::{Experiment, Ready};
pub use layout::Layout;
pub use model::Model;
pub use scene::Scene;
pub use trace_file::{naming, TraceFile};
