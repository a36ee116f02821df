//! What a session saw and did: the numbers of the exit summary, of `homing top` and of `/metrics`.

use crate::executor::Settled;
use crate::source::{Losses, Scans};
use homing_core::action::Outcome;
use homing_core::ids::Node;
use homing_linux::move_pages;
use homing_linux::proc::maps::Class;
use serde::Serialize;
use std::collections::BTreeMap;

/// One interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Interval {
    /// Its end, in milliseconds of the session.
    pub ms: u64,
    /// Accesses seen by CPUs of the node that holds the page.
    pub local: u64,
    /// Accesses seen by others.
    pub remote: u64,
    /// Pages moved.
    pub moved: u64,
    /// Moves that failed.
    pub failed: u64,
}

impl Interval {
    /// Share of remote accesses in percent; `None` if none was seen.
    pub fn nonlocal_percent(&self) -> Option<f64> {
        let seen = self.local + self.remote;
        (seen > 0).then(|| 100.0 * self.remote as f64 / seen as f64)
    }

    fn add(&mut self, other: &Interval) {
        self.ms = other.ms;
        self.local += other.local;
        self.remote += other.remote;
        self.moved += other.moved;
        self.failed += other.failed;
    }
}

/// Intervals kept for curves; older ones are joined in pairs when there are more.
const KEPT: usize = 4096;

/// Counts since the session began.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// Per interval, oldest first; all of the same length in the beginning, joined later.
    pub intervals: Vec<Interval>,
    /// The interval that is open.
    pub now: Interval,
    /// Accesses before the first page moved.
    pub before: Interval,
    /// Everything.
    pub total: Interval,
    /// Bytes moved.
    pub bytes_moved: u64,
    /// Pages moved by the engine, by (from, to).
    pub moves: BTreeMap<(Node, Node), u64>,
    /// Moves that failed, by error number.
    pub failures: BTreeMap<i32, u64>,
    /// Actions that a rule refused, by rule.
    pub refused: BTreeMap<&'static str, u64>,
    /// Pages whose node changed without the engine moving them: the kernel or somebody else did.
    pub moved_by_others: u64,
    /// Threads that moved and stayed.
    pub threads_moved: u64,
    /// Pages that were sent after a thread that moved.
    pub forwarded: u64,
    /// Huge pages that were split.
    pub split: u64,
    /// Huge pages that the kernel would not split.
    pub not_split: u64,
    /// Accesses whose page is not movable, by class.
    pub by_class: [u64; Class::ALL.len()],
    /// Accesses seen whose address is in no mapping any more.
    pub unmapped: u64,
    /// Time in which pages were being moved, in microseconds.
    pub moving_us: u64,
    /// Time in which threads were stopped, in microseconds.
    pub stopped_us: u64,
}

impl Account {
    /// An access to a page at `at` by a CPU of `by`.
    pub fn access(&mut self, by: Node, at: Node, class: Class) {
        match by == at {
            true => self.now.local += 1,
            false => self.now.remote += 1,
        }
        self.by_class[class as usize] += 1;
    }

    /// What came of a move.
    pub fn settled(&mut self, settled: &Settled) {
        let Settled { to, bytes, .. } = *settled;
        match settled.outcome {
            Outcome::Done => {
                self.now.moved += 1;
                self.bytes_moved += bytes;
                if let Some(from) = settled.from {
                    *self.moves.entry((from, to)).or_default() += 1;
                }
            }
            Outcome::Failed(errno) => {
                self.now.failed += 1;
                *self.failures.entry(errno).or_default() += 1;
            }
            Outcome::Refused(_) | Outcome::Pending | Outcome::Already => {}
        }
    }

    /// Ends the interval.
    pub fn end_interval(&mut self, ms: u64) {
        self.now.ms = ms;
        if self.total.moved == 0 {
            self.before.add(&self.now);
        }
        self.total.add(&self.now);
        self.intervals.push(std::mem::take(&mut self.now));
        if self.intervals.len() > KEPT {
            let join = |pair: &[Interval]| {
                let mut joined = pair[0];
                pair[1..].iter().for_each(|interval| joined.add(interval));
                joined
            };
            self.intervals = self.intervals.chunks(2).map(join).collect();
        }
    }

    /// The last quarter of the session: where it settled.
    pub fn after(&self) -> Interval {
        let end = self.intervals.last().map_or(0, |interval| interval.ms);
        let mut after = Interval::default();
        self.intervals.iter().filter(|i| i.ms * 4 > end * 3).for_each(|interval| after.add(interval));
        after
    }
}

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
    /// Pages that the engine heard of and that were there at the end.
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
    /// Samples that the engine had no time to hear before the end.
    pub unheard: u64,
    /// Threads that moved and stayed.
    pub threads_moved: u64,
    /// Why the kernel gave no event for threads that move, so that looks at /proc alone told of them; absent if it gave it.
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
    /// ... by what it was used for: wait, look (at processes), scan (for hint faults), take (accesses), locate (pages), decide,
    /// move, end, helpers.
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
    fn before_ends_with_the_first_move_and_after_is_the_last_quarter() {
        let mut account = Account::default();
        for ms in 1..=100u64 {
            let (by, at) = if ms <= 80 { (Node(0), Node(1)) } else { (Node(1), Node(1)) };
            account.access(by, at, Class::Heap);
            account.now.moved = u64::from(ms == 20);
            account.end_interval(ms);
        }
        assert_eq!((account.before.remote, account.before.ms), (20, 20));
        let after = account.after();
        assert_eq!((after.local, after.remote), (20, 5));
        assert_eq!(after.nonlocal_percent(), Some(20.0));
        assert_eq!(Interval::default().nonlocal_percent(), None);
        assert_eq!(account.by_class[Class::Heap as usize], 100);
    }

    #[test]
    fn curves_stay_bounded_and_keep_their_sums() {
        let mut account = Account::default();
        for ms in 0..100_000 {
            account.access(Node(0), Node(0), Class::Heap);
            account.end_interval(ms);
        }
        assert!(account.intervals.len() <= KEPT);
        assert_eq!(account.intervals.iter().map(|interval| interval.local).sum::<u64>(), 100_000);
    }

    #[test]
    fn failures_have_names() {
        let named = by_name(&BTreeMap::from([(12, 3), (999, 1)]));
        assert_eq!((named["ENOMEM"], named["errno 999"]), (3, 1));
    }
}
