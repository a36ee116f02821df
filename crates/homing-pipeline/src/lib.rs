//! An experiment as a value: trace x machine x placement x monitor x policy -> page histories -> results -> report. The
//! program `homing` parses options into these structures and prints what comes out; a script or a service can do the
//! same.
//!
//! An [`Experiment`] says what is asked. [`Experiment::ready`] looks names up, and [`Ready::case`] opens a trace and
//! lays it over the machine. Of such a [`Case`], [`optimal`] gives the bound, [`simulate`] runs a policy, [`watched`]
//! runs one with a monitor in the loop. [`compare`] and [`study`] do so for many.
//!
//! ```
//! use homing_pipeline::compare::Comparison;
//! use homing_pipeline::{Experiment, Model};
//!
//! // All references of a trace, on a machine of `homing machines`, as the command line would take them.
//! let experiment = Experiment::new(Model::of("butterfly"));
//! let traces = vec!["../homing-trace/tests/fixtures/threads.trace".into()];
//! let policies = vec!["first-touch".into(), "homing".into()];
//! let report = Comparison { policies, ..Comparison::new(traces, experiment) }.run()?.report;
//!
//! let rows = &report.traces[0].rows;
//! let names: Vec<&str> = rows.iter().map(|row| row.policy.as_str()).collect();
//! assert_eq!(names, ["optimal", "first-touch", "homing"]);
//! // Costs are in local references; no policy is below the bound.
//! assert!(rows.iter().all(|row| row.cost >= rows[0].cost));
//! # Ok::<(), homing_pipeline::PipelineError>(())
//! ```
#![forbid(unsafe_code)]

mod case;
pub mod chosen;
pub mod compare;
mod error;
mod experiment;
mod external;
pub mod family;
pub mod honest;
pub mod host;
mod info;
pub mod job_model;
mod layout;
pub mod load;
pub mod manifest;
pub mod mappings;
pub mod model;
pub mod online;
pub mod optimal;
pub mod order;
pub mod perf_data;
pub mod placement;
pub mod policies;
pub mod progress;
pub mod refine;
pub mod rig;
pub mod sampled;
pub mod scene;
pub mod sched;
mod scratch;
pub mod shares;
pub mod simulate;
mod spill;
pub mod study;
pub mod threads;
mod trace_file;
mod trace_names;
pub mod watched;
pub mod why;
pub mod windows;

pub use case::Case;
pub use error::{PipelineError, Result};
pub use experiment::{Experiment, Ready};
pub use layout::Layout;
pub use model::Model;
pub use progress::Progress;
pub use scene::Scene;
pub use trace_file::TraceFile;
