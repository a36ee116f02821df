//! The exit summary.

use crate::source::{Losses, Scans};
use homing_core::session::account::Interval;
use homing_linux::move_pages;
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
    /// How much its counts can be trusted.
    pub confidence: &'static str,
    /// True if nothing was moved on purpose.
    pub dry_run: bool,
    /// Length of the session.
    pub seconds: f64,
    /// Accesses that were seen.
    pub samples: u64,
    /// Share of remote accesses before the first move; absent if none was seen.
    pub nonlocal_percent_before: Option<f64>,
    /// ... and in the last quarter of the session. In a dry run: with pages where they would be.
    pub nonlocal_percent_after: Option<f64>,
    /// Pages that the engine knew at the end.
    pub pages: u64,
    /// Pages moved.
    pub pages_moved: u64,
    /// Bytes moved.
    pub bytes_moved: u64,
    /// Decisions to move that a dry run did not carry out.
    pub would_move: u64,
    /// Pages moved for each pair of nodes (the kernel's numbers), as [from, to, pages].
    pub moves: Vec<[u64; 3]>,
    /// Failed moves by name of the error.
    pub failures: BTreeMap<String, u64>,
    /// Refused actions by rule.
    pub refused: BTreeMap<String, u64>,
    /// Pages that somebody else moved.
    pub moved_by_others: u64,
    /// Orders that were still waiting at the end.
    pub left_waiting: u64,
    /// Accesses whose page was in no memory or in no mapping any more.
    pub unmapped: u64,
    /// Accesses that the engine had no time to process before the end.
    pub unheard: u64,
    /// Threads that moved and stayed.
    pub threads_moved: u64,
    /// Why the kernel gave no event for threads that move, so that only looks at /proc reported them; absent if it
    /// gave it.
    pub thread_events_refused: Option<String>,
    /// Pages that were sent after a thread that moved.
    pub forwarded: u64,
    /// Huge pages that were split, since several nodes use them.
    pub huge_pages_split: u64,
    /// Huge pages that the kernel would not split.
    pub huge_pages_not_split: u64,
    /// Accesses by class of mapping.
    pub by_class: BTreeMap<String, u64>,
    /// What the source did not see.
    pub losses: Losses,
    /// What the source did to the processes.
    pub scans: Scans,
    /// Processes left alone because this user may not trace them.
    pub denied: u64,
    /// CPU time of the engine, its helpers in the processes included.
    pub engine_cpu_seconds: f64,
    /// ... by what it was used for: wait, look (at processes), scan (for hint faults), take (accesses), locate
    /// (pages), decide, move, end, helpers.
    pub engine_cpu_by_phase: BTreeMap<String, f64>,
    /// Time spent moving.
    pub moving_seconds: f64,
    /// Time in which the program was stopped for moves.
    pub stopped_seconds: f64,
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
