//! Several parallel jobs on one machine, where processors and pages are decided together (Corbalan, Martorell &
//! Labarta 2003).
//!
//! A queue ([`workload`], [`swf`]) hands jobs of [`app`]lications to a CPU [`manager`], which gives them processors,
//! helped by what [`measure`] finds of their speed-up at run time. [`simulate`] plays that on a machine whose memory
//! makes jobs slower the farther away and the more crowded their pages are, with a page policy of
//! [`homing_core::policy`] moving them; [`outcome`] is what came of it. Managers read no clock and start nothing, as
//! policies do: through [`driver`] the same code decides for real processes. A machine can be divided into
//! [`partition`]s with managers of their own.
//!
//! To add a manager: write a file beside [`manager::equipartition`], headed by its source, and add a line to
//! [`manager::table`].
#![forbid(unsafe_code)]

pub mod app;
pub mod driver;
pub mod jobs;
pub mod layout;
pub mod manager;
pub mod mapping;
pub mod measure;
pub mod outcome;
pub mod partition;
pub mod simulate;
pub mod swf;
pub mod workload;

use serde::{Deserialize, Serialize};

/// The longest time that a job may come or run after: 31 years in seconds. Beyond it a number of seconds does not tell
/// microseconds apart.
pub const MOST_S: f64 = 1e9;

/// A job, numbered from 0 by arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(pub u32);

impl JobId {
    /// The number as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Text that cannot be read: a job log, a file of applications.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{file}{}: {message}", line.map_or(String::new(), |line| format!(", line {line}")))]
pub struct BadInput {
    /// Name or path.
    pub file: String,
    /// Line, from 1, where there is one.
    pub line: Option<usize>,
    /// What is wrong, and what was expected.
    pub message: String,
}
