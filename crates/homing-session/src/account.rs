//! What a session saw and did: the numbers of the exit summary and of `/metrics`.

use super::orders::Settled;
use super::sight::Sight;
use homing_core::action::Outcome;
use homing_core::ids::{Micros, Node};
use homing_core::process::Class;
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

/// Pages that were seen in use, by where they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Placed {
    /// On the node that used them last, as far as was seen.
    pub on_user: u64,
    /// On another one.
    pub elsewhere: u64,
}

impl Placed {
    /// A page is on a node, and was used last by one; nothing is known of it if either is missing.
    pub fn add(&mut self, at: Option<Node>, user: Option<Node>) {
        let (Some(at), Some(user)) = (at, user) else { return };
        match at == user {
            true => self.on_user += 1,
            false => self.elsewhere += 1,
        }
    }
}

/// Uses of pages after a policy has moved them: the first four after each move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AfterMoves {
    /// All.
    pub uses: u64,
    /// By the node that has the page now.
    pub by_new: u64,
    /// By the node that it left.
    pub by_old: u64,
}

impl AfterMoves {
    /// A use, by its worth: +1 by the new node, -1 by the old one, 0 by another; `None` if it does not count.
    pub(super) fn add(&mut self, worth: Option<i8>) {
        let Some(worth) = worth else { return };
        self.uses += 1;
        self.by_new += u64::from(worth > 0);
        self.by_old += u64::from(worth < 0);
    }
}

/// Counts since the session began.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// Per interval, oldest first; all of the same length in the beginning, joined later.
    pub intervals: Vec<Interval>,
    /// The interval that is open.
    pub now: Interval,
    /// Everything.
    pub total: Interval,
    /// What was seen.
    pub sight: Sight,
    /// Pages of processes that have ended, as they were then.
    pub placed: Placed,
    /// What moves have brought.
    pub after_moves: AfterMoves,
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_count_by_where_they_are_and_uses_by_what_moves_have_brought() {
        let mut placed = Placed::default();
        for (at, user) in [(Some(0), Some(0)), (Some(0), Some(1)), (Some(1), None), (None, Some(1))] {
            placed.add(at.map(Node), user.map(Node));
        }
        assert_eq!(placed, Placed { on_user: 1, elsewhere: 1 });
        let mut after = AfterMoves::default();
        [Some(1), Some(1), Some(0), Some(-1), None].into_iter().for_each(|worth| after.add(worth));
        assert_eq!(after, AfterMoves { uses: 4, by_new: 2, by_old: 1 });
        assert_eq!(Interval::default().nonlocal_percent(), None);
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
