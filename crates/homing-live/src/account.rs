//! The exit summary.

use crate::counters::Counts;
use crate::sharers::Staying;
use homing_linux::move_pages;
use homing_session::account::{AfterMoves, Interval, Placed};
use homing_session::hot::{AreaCounts, IterationCounts};
use homing_session::sight::{Missing, Sight};
use serde::Serialize;
use std::collections::BTreeMap;

/// The exit summary.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Version of this structure.
    pub schema: u32,
    /// The policy.
    pub policy: String,
    /// The source.
    pub source: &'static str,
    /// How much its counts can be trusted: by what was seen, and at best as much as the source can be.
    pub confidence: String,
    /// What is missing for anything to be decided, if something is.
    pub missing: Option<Missing>,
    /// What was seen.
    pub sight: Sight,
    /// True if nothing was moved on purpose.
    pub dry_run: bool,
    /// Length of the session.
    pub seconds: f64,
    /// Accesses that were seen.
    pub samples: u64,
    /// Where pages are now that were seen in use, or were when their process ended, as the kernel says.
    pub placed: Placed,
    /// What moves have brought, as far as was seen.
    pub after_moves: AfterMoves,
    /// Shared memory and files whose pages stay, and why.
    pub staying_memory: Vec<Staying>,
    /// Pages that the engine knew at the end.
    pub pages: u64,
    /// Why the kernel gave no event for threads that move, so that only looks at /proc reported them; absent if it
    /// gave it.
    pub thread_events_refused: Option<String>,
    /// Threads that change nodes were to be kept (`--bind auto`).
    #[serde(skip)]
    pub keeps: bool,
    /// What was counted.
    #[serde(flatten)]
    pub counts: Counts,
    /// Most pages that were in memory at a look.
    pub resident_pages: u64,
    /// Hot areas, by first access; one without a name is all memory of processes without areas.
    pub areas: Vec<AreaCounts>,
    /// Iterations that the program has reported.
    pub iterations: u64,
    /// What had been counted when they ended: the first two and some of the others, evenly.
    pub by_iteration: Vec<IterationCounts>,
    /// Per interval.
    pub intervals: Vec<Interval>,
}

/// Failures by name.
pub fn by_name(failures: &BTreeMap<i32, u64>) -> BTreeMap<String, u64> {
    let name = |errno: i32| match move_pages::explain(errno).0 {
        "errno" => format!("errno {errno}"),
        name => name.to_owned(),
    };
    failures.iter().map(|(&errno, &count)| (name(errno), count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_have_names() {
        let named = by_name(&BTreeMap::from([(12, 3), (999, 1)]));
        assert_eq!((named["ENOMEM"], named["errno 999"]), (3, 1));
    }
}
