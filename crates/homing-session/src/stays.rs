//! Threads that come to other nodes between two process scans. A thread counts as moved when it stays: for two parallel
//! constructs in a row (Nikolopoulos 2000, section 4) where the program reports them, and else for a while. A thread
//! that moved a short while ago must stay for a longer while.
//!
//! A scan holds all threads and lets them go at once, while the engine uses CPUs itself; a process scan uses them, too.
//! Threads that find theirs taken take others, also of other nodes, and nothing brings them back. So what comes to
//! another node during such a **disturbance**, or right after it, is **displaced**: it counts as where it was, and is
//! sent back once all have settled. If that does not help it has moved, as any other.
//!
//! A thread that may run on no other node was put there, by its program or by an operator: it stays as soon as it
//! comes.

use super::input::Arrival;
use homing_core::ids::{Micros, Node};
use homing_core::process::{ProcessId, ThreadId};
use std::collections::{BTreeMap, BTreeSet};

/// How long a thread must stay, at first and at most.
const STAYS: Micros = Micros::from_millis(150);
const STAYS_AT_MOST: Micros = Micros::from_millis(5000);

/// Constructs in a row that a thread must begin and end on another node.
const CONSTRUCTS: u32 = 2;

/// A thread that moved must stay twice as long the next time. That is forgotten after 16 times its length.
const RESTLESS: u32 = 16;

/// How long after a disturbance threads still take each other's CPUs.
const SETTLES: Micros = Micros::from_millis(200);
/// A displaced thread is sent back at the latest after this, should one disturbance follow the other.
const AT_LAST: Micros = Micros::from_millis(1000);
/// Times that a thread is sent back; one that sleeps does not go anywhere.
const TRIES: u32 = 4;

/// How long a thread that has moved must stay when it moves again.
#[derive(Clone, Copy, Debug)]
struct Patience {
    moved: Micros,
    stays: Micros,
}

/// A thread on another node.
#[derive(Clone, Copy, Debug)]
struct Away {
    arrival: Arrival,
    /// Constructs in a row that it has ended there.
    constructs: u32,
    /// Times that it can still be sent back; 0 unless a disturbance brought it here.
    tries: u32,
}

/// A scan or process scan, and those that followed at once.
#[derive(Clone, Copy, Debug)]
struct Disturbance {
    from: Micros,
    /// When all have settled; `None` as long as it lasts.
    until: Option<Micros>,
}

/// What has become of threads that were away.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Taken {
    /// They stay.
    pub(super) stay: Vec<(ProcessId, ThreadId, Node)>,
    /// They are to be sent back.
    pub(super) back: Vec<Back>,
}

/// A displaced thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Back {
    pub(super) process: ProcessId,
    pub(super) thread: ThreadId,
    /// It was not sent back before in this disturbance.
    pub(super) first: bool,
}

/// Threads that are on nodes that are not known to be theirs.
#[derive(Debug, Default)]
pub(super) struct Stays {
    away: BTreeMap<ThreadId, Away>,
    patience: BTreeMap<ThreadId, Patience>,
    disturbance: Option<Disturbance>,
    /// Threads that were sent back in this disturbance.
    sent_back: BTreeSet<ThreadId>,
}

impl Stays {
    /// A scan or process scan begins.
    pub(super) fn disturbed(&mut self, now: Micros) {
        let goes_on = self.disturbance.filter(|before| before.until.is_none_or(|until| now < until));
        if goes_on.is_none() {
            self.sent_back.clear();
        }
        self.disturbance = Some(Disturbance { from: goes_on.map_or(now, |before| before.from), until: None });
    }

    /// It is over, and threads run again.
    pub(super) fn over(&mut self, now: Micros) {
        if let Some(disturbance) = &mut self.disturbance {
            disturbance.until = Some(now.plus(SETTLES));
        }
    }

    /// True if a thread is on another node because of a disturbance.
    pub(super) fn is_displaced(&self, thread: ThreadId) -> bool {
        self.away.get(&thread).is_some_and(|away| away.tries > 0)
    }

    /// Threads that are on other nodes because of a disturbance.
    pub(super) fn displaced(&self) -> impl Iterator<Item = (ProcessId, ThreadId)> + '_ {
        let displaced = self.away.values().filter(|away| away.tries > 0);
        displaced.map(|away| (away.arrival.process, away.arrival.thread))
    }

    /// Times that a thread can be sent back that came to another node then.
    fn tries(&self, thread: ThreadId, at: Micros) -> u32 {
        let during = |scan: &Disturbance| at >= scan.from && scan.until.is_none_or(|until| at < until);
        let displaced = self.disturbance.is_some_and(|scan| during(&scan));
        if displaced && !self.sent_back.contains(&thread) {
            TRIES
        } else {
            0
        }
    }

    /// A thread came to a CPU; `home`: the node where it stays, if that is known.
    pub(super) fn came(&mut self, arrival: Arrival, home: Option<Node>) {
        let thread = arrival.thread;
        if home == Some(arrival.node) {
            self.away.remove(&thread);
        } else if self.away.get(&thread).is_none_or(|before| before.arrival.node != arrival.node) {
            let tries = home.filter(|_| !arrival.bound).map_or(0, |_| self.tries(thread, arrival.at));
            self.away.insert(thread, Away { arrival, constructs: 0, tries });
        }
    }

    /// A thread works in parallel constructs there, and has ended that many in a row.
    pub(super) fn works(&mut self, arrival: Arrival, ended: u32, home: Option<Node>) {
        self.came(arrival, home);
        if let Some(away) = self.away.get_mut(&arrival.thread) {
            away.constructs = ended;
        }
    }

    /// Threads that have been away for so long that they stay, and those to be sent back. One that is `kept` on a node
    /// stays there as soon as it comes.
    pub(super) fn take(&mut self, now: Micros, kept: impl Fn(ThreadId) -> Option<Node>) -> Taken {
        let mut taken = Taken::default();
        if self.away.is_empty() {
            return taken;
        }
        let settled = self.disturbance.is_none_or(|scan| scan.until.is_some_and(|until| now >= until));
        // Expire old entries: their threads may have ended.
        self.patience.retain(|_, patience| now.since(patience.moved) < patience.stays.times(RESTLESS));
        self.away.retain(|thread, away| {
            let kept = kept(*thread);
            if away.tries > 0 && kept.is_none() {
                let Arrival { process, thread, at, .. } = away.arrival;
                if settled || now.since(at) >= AT_LAST {
                    away.tries -= 1;
                    let first = self.sent_back.insert(thread);
                    taken.back.push(Back { process, thread, first });
                    // It must stay from now on to have moved.
                    (away.arrival.at, away.constructs) = (now.max(at), 0);
                }
                return true;
            }
            let restless = self.patience.get(thread).map(|patience| patience.stays);
            let patience = restless.unwrap_or(STAYS);
            let works = restless.is_none() && away.constructs >= CONSTRUCTS;
            let there = away.arrival.bound || kept == Some(away.arrival.node);
            let stays = there || works || now.since(away.arrival.at) >= patience;
            if stays {
                let longer = patience.times(2).min(STAYS_AT_MOST);
                self.patience.insert(*thread, Patience { moved: now, stays: longer });
                taken.stay.push((away.arrival.process, *thread, away.arrival.node));
            }
            !stays
        });
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: Option<Node> = Some(Node(0));
    const NOBODY: fn(ThreadId) -> Option<Node> = |_| None;

    #[test]
    fn a_thread_moved_when_it_stays_and_a_restless_one_must_stay_longer() {
        let mut stays = Stays::default();
        let (process, thread, ms) = (ProcessId(7), ThreadId(8), Micros::from_millis);
        let away = |node, at| Arrival { process, thread, node: Node(node), at: ms(at), bound: false };
        let moved = |node| [(process, thread, Node(node))];
        stays.came(away(1, 1000), HOME);
        assert_eq!(stays.take(ms(1100), NOBODY).stay, []);
        stays.came(away(0, 1120), HOME);
        assert_eq!(stays.take(ms(2000), NOBODY).stay, [], "it went home");
        stays.came(away(1, 2000), HOME);
        stays.came(away(1, 2140), HOME);
        assert_eq!(stays.take(ms(2150), NOBODY).stay, moved(1), "another CPU of the node is the same place");
        assert_eq!(stays.take(ms(2160), NOBODY).stay, [], "reported once");
        stays.came(away(2, 2200), HOME);
        assert_eq!(stays.take(ms(2400), NOBODY).stay, []);
        assert_eq!(stays.take(ms(2500), NOBODY).stay, moved(2));
        stays.came(away(3, 60_000), HOME);
        assert_eq!(stays.take(ms(60_150), NOBODY).stay, moved(3), "long ago is forgotten");
    }

    #[test]
    fn a_thread_moved_when_it_ended_two_constructs_in_a_row_there() {
        let mut stays = Stays::default();
        let (process, thread, ms) = (ProcessId(7), ThreadId(8), Micros::from_millis);
        let at = |node, at| Arrival { process, thread, node: Node(node), at: ms(at), bound: false };
        stays.works(at(1, 1000), 1, HOME);
        assert_eq!(stays.take(ms(1001), NOBODY).stay, [], "one construct");
        stays.works(at(2, 1002), 0, HOME);
        assert_eq!(stays.take(ms(1003), NOBODY).stay, [], "two, on two nodes");
        stays.works(at(2, 1004), 2, HOME);
        assert_eq!(stays.take(ms(1005), NOBODY).stay, [(process, thread, Node(2))]);
        stays.works(at(1, 1010), 9, HOME);
        assert_eq!(stays.take(ms(1100), NOBODY).stay, [], "it moved a short while ago");
        stays.works(at(2, 1110), 9, Some(Node(2)));
        assert_eq!(stays.take(ms(2000), NOBODY).stay, [], "it is back");
    }
    #[test]
    fn what_a_scan_displaced_is_sent_back_once_and_has_moved_if_that_does_not_help() {
        let mut stays = Stays::default();
        let (process, thread, ms) = (ProcessId(7), ThreadId(8), Micros::from_millis);
        let away = |node, at| Arrival { process, thread, node: Node(node), at: ms(at), bound: false };
        let back = |first| Taken { stay: vec![], back: vec![Back { process, thread, first }] };
        let moved = Taken { stay: vec![(process, thread, Node(1))], back: vec![] };
        stays.disturbed(ms(1000));
        stays.came(away(1, 1010), HOME);
        stays.over(ms(1050));
        assert!(stays.is_displaced(thread));
        assert_eq!(stays.take(ms(1240), NOBODY), Taken::default(), "others may still move");
        assert_eq!(stays.take(ms(1250), NOBODY), back(true));
        stays.came(away(0, 1251), HOME);
        assert!(
            !stays.is_displaced(thread) && stays.take(ms(3000), NOBODY) == Taken::default(),
            "it is back"
        );

        stays.disturbed(ms(4000));
        stays.over(ms(4050));
        stays.came(away(1, 4249), HOME);
        let took: Vec<Taken> = [4250, 4270, 4290, 4310].map(|at| stays.take(ms(at), NOBODY)).into();
        assert_eq!(took, [back(true), back(false), back(false), back(false)], "it slept each time");
        assert_eq!(stays.take(ms(4459), NOBODY), Taken::default());
        assert_eq!(stays.take(ms(4460), NOBODY), moved);

        stays.came(away(1, 8000), HOME);
        assert!(!stays.is_displaced(thread), "no scan at that time");
        stays.disturbed(ms(20_000));
        stays.over(ms(20_010));
        stays.came(away(0, 20_020), HOME);
        stays.came(away(1, 20_030), None);
        assert!(!stays.is_displaced(thread), "nobody knows where it stays");
    }

    #[test]
    fn a_thread_that_is_kept_stays_where_that_is_at_once_and_is_not_sent_back() {
        let mut stays = Stays::default();
        let (process, thread, ms) = (ProcessId(7), ThreadId(8), Micros::from_millis);
        let kept = |_| Some(Node(2));
        stays.disturbed(ms(1000));
        stays.came(Arrival { process, thread, node: Node(2), at: ms(1010), bound: false }, HOME);
        stays.over(ms(1050));
        assert_eq!(
            stays.take(ms(1051), kept),
            Taken { stay: vec![(process, thread, Node(2))], back: vec![] }
        );
        stays.came(Arrival { process, thread, node: Node(1), at: ms(1060), bound: false }, HOME);
        assert_eq!(stays.take(ms(1250), kept), Taken::default());
    }

    #[test]
    fn a_displaced_thread_does_not_wait_for_ever_while_one_scan_follows_the_other() {
        let mut stays = Stays::default();
        let (process, thread, ms) = (ProcessId(7), ThreadId(8), Micros::from_millis);
        stays.disturbed(ms(0));
        stays.came(Arrival { process, thread, node: Node(1), at: ms(1), bound: false }, HOME);
        for at in (100..=1000).step_by(100) {
            stays.over(ms(at - 50));
            stays.disturbed(ms(at));
            assert_eq!(stays.take(ms(at), NOBODY), Taken::default());
        }
        assert_eq!(stays.take(ms(1001), NOBODY).back.len(), 1);
    }
}
