//! What a session saw and did: the numbers of the exit summary and of `/metrics`.

use super::orders::Settled;
use crate::action::Outcome;
use crate::ids::{Micros, Node};
use crate::process::Class;
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

/// Accesses after which a share is that of the accesses since, but for 1/e.
const MEMORY: f64 = 100.0;

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
    /// Actions that a rule refused, by rule. One that is asked for again and refused for the same reason counts once.
    pub refused: BTreeMap<&'static str, u64>,
    /// Pages that were spread since no node is their home.
    pub spread: u64,
    /// Pages that were sent back to where they were, since moves made it worse.
    pub undone: u64,
    /// Times that the pages of a process were left where they are for a while, since moves did not pay.
    pub pauses: u64,
    /// Pages whose node changed without the engine moving them: the kernel or somebody else did.
    pub moved_by_others: u64,
    /// Threads that moved and stayed.
    pub threads_moved: u64,
    /// Times that a thread was sent back to its node, which the engine had displaced.
    pub sent_back: u64,
    /// Threads that wander from node to node.
    pub wanderers: u64,
    /// Times that one of them was kept on a node, and was let go since it waited there.
    pub kept: u64,
    /// See `kept`.
    pub let_go: u64,
    /// Pages that were sent after a thread that moved.
    pub forwarded: u64,
    /// Huge pages that were split.
    pub split: u64,
    /// Huge pages that the kernel would not split.
    pub not_split: u64,
    /// Accesses by class of mapping.
    pub by_class: [u64; Class::ALL.len()],
    /// Accesses to pages that stay whoever uses them, by the reason.
    pub staying: BTreeMap<&'static str, u64>,
    /// Accesses whose page is in no memory or in no mapping any more.
    pub unmapped: u64,
    /// Accesses outside of the areas that their program has named.
    pub outside_areas: u64,
    /// Accesses that a watcher left out, having enough others.
    pub thinned: u64,
    /// Inputs that made no sense: a node that does not exist, a count that is no number.
    pub malformed: u64,
    /// Decisions to move that a dry run did not carry out.
    pub would_move: u64,
    /// Time in which pages were being moved.
    pub moving: Micros,
    /// Time in which threads were stopped for moves.
    pub stopped: Micros,
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
            Outcome::Refused(why) => *self.refused.entry(why).or_default() += 1,
            Outcome::Pending | Outcome::Already => {}
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

    /// The share of remote accesses in the last quarter of the session, where it settled: the mean over time, in
    /// percent.
    /// What was seen last holds until something else is seen, since scans are rare where nothing changes; accesses that
    /// come in a burst at the end count for the time that they last. `None` if none was seen.
    pub fn settled_percent(&self) -> Option<f64> {
        let end = self.intervals.last()?.ms;
        let quarter = end - end / 4;
        let (mut share, mut last): (Option<f64>, u64) = (None, 0);
        let (mut sum, mut time) = (0.0, 0.0);
        for interval in &self.intervals {
            if let Some(seen) = interval.nonlocal_percent() {
                let kept = (-((interval.local + interval.remote) as f64) / MEMORY).exp();
                share = Some(share.map_or(seen, |share| share * kept + seen * (1.0 - kept)));
            }
            let lasted = interval.ms.max(quarter) - last.max(quarter);
            last = interval.ms;
            if let Some(share) = share {
                sum += share * lasted as f64;
                time += lasted as f64;
            }
        }
        if time > 0.0 {
            Some(sum / time)
        } else {
            share
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn before_ends_with_the_first_move_and_where_it_settled_is_the_last_quarter() {
        let mut account = Account::default();
        for ms in 1..=100u64 {
            let by = if ms <= 80 { Node(0) } else { Node(1) };
            (0..1000).for_each(|_| account.access(by, Node(1), Class::Heap));
            account.now.moved = u64::from(ms == 20);
            account.end_interval(ms);
        }
        assert_eq!((account.before.remote, account.before.ms), (20_000, 20));
        assert!((account.settled_percent().unwrap() - 20.0).abs() < 0.1, "5 of 25 ms");
        assert_eq!(Interval::default().nonlocal_percent(), None);
        assert_eq!(account.by_class[Class::Heap as usize], 100_000);
    }

    #[test]
    fn a_share_holds_until_the_next_scan_and_a_burst_at_the_end_counts_for_its_time() {
        let mut account = Account::default();
        let mut interval = |ms, local, remote| {
            (0..local).for_each(|_| account.access(Node(0), Node(0), Class::Heap));
            (0..remote).for_each(|_| account.access(Node(1), Node(0), Class::Heap));
            account.end_interval(ms);
            account.settled_percent()
        };
        assert_eq!(interval(100, 0, 0), None);
        assert_eq!(interval(1000, 0, 1000), Some(100.0));
        assert!(interval(10_000, 990, 10).unwrap() < 1.1);
        // Nothing is seen for a while, and a few by chance.
        assert!(interval(39_000, 0, 0).unwrap() < 1.1);
        assert!(interval(39_500, 0, 2).unwrap() < 1.3);
        // At the end one thread reads all.
        assert!(interval(40_000, 250, 750).unwrap() < 6.0);
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
}
