//! Threads that come to other nodes between two process scans. A thread counts as moved when it stays: for two parallel
//! constructs in a row (Nikolopoulos 2000, section 4) where the program reports them, and else for a while. A thread
//! that moved a short while ago must stay for a longer while.

use super::input::Arrival;
use crate::ids::{Micros, Node};
use crate::process::{ProcessId, ThreadId};
use std::collections::BTreeMap;

/// How long a thread must stay, at first and at most.
const STAYS: Micros = Micros::from_millis(150);
const STAYS_AT_MOST: Micros = Micros::from_millis(5000);

/// Constructs in a row that a thread must begin and end on another node.
const CONSTRUCTS: u32 = 2;

/// A thread that moved must stay twice as long the next time. That is forgotten after 16 times its length.
const RESTLESS: u32 = 16;

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
}

/// Threads that are on nodes that are not known to be theirs.
#[derive(Debug, Default)]
pub(super) struct Stays {
    away: BTreeMap<ThreadId, Away>,
    patience: BTreeMap<ThreadId, Patience>,
}

impl Stays {
    /// A thread came to a CPU; `home`: of the node where it stays.
    pub(super) fn came(&mut self, arrival: Arrival, home: bool) {
        let thread = arrival.thread;
        if home {
            self.away.remove(&thread);
        } else if self.away.get(&thread).is_none_or(|before| before.arrival.node != arrival.node) {
            self.away.insert(thread, Away { arrival, constructs: 0 });
        }
    }

    /// A thread works in parallel constructs there, and has ended that many in a row.
    pub(super) fn works(&mut self, arrival: Arrival, ended: u32, home: bool) {
        self.came(arrival, home);
        if let Some(away) = self.away.get_mut(&arrival.thread) {
            away.constructs = ended;
        }
    }

    /// Threads that have been away for so long that they stay.
    pub(super) fn take(&mut self, now: Micros) -> Vec<(ProcessId, ThreadId, Node)> {
        if self.away.is_empty() {
            return Vec::new();
        }
        // Expire old entries: their threads may have ended.
        self.patience.retain(|_, patience| now.since(patience.moved) < patience.stays.times(RESTLESS));
        let mut moved = Vec::new();
        self.away.retain(|thread, away| {
            let restless = self.patience.get(thread).map(|patience| patience.stays);
            let patience = restless.unwrap_or(STAYS);
            let works = restless.is_none() && away.constructs >= CONSTRUCTS;
            let stays = works || now.since(away.arrival.at) >= patience;
            if stays {
                let longer = patience.times(2).min(STAYS_AT_MOST);
                self.patience.insert(*thread, Patience { moved: now, stays: longer });
                moved.push((away.arrival.process, *thread, away.arrival.node));
            }
            !stays
        });
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_moved_when_it_stays_and_a_restless_one_must_stay_longer() {
        let mut stays = Stays::default();
        let (process, thread, ms) = (ProcessId(7), ThreadId(8), Micros::from_millis);
        let away = |node, at| Arrival { process, thread, node: Node(node), at: ms(at) };
        let moved = |node| [(process, thread, Node(node))];
        stays.came(away(1, 1000), false);
        assert_eq!(stays.take(ms(1100)), []);
        stays.came(away(0, 1120), true);
        assert_eq!(stays.take(ms(2000)), [], "it went home");
        stays.came(away(1, 2000), false);
        stays.came(away(1, 2140), false);
        assert_eq!(stays.take(ms(2150)), moved(1), "another CPU of the node is the same place");
        assert_eq!(stays.take(ms(2160)), [], "reported once");
        stays.came(away(2, 2200), false);
        assert_eq!(stays.take(ms(2400)), []);
        assert_eq!(stays.take(ms(2500)), moved(2));
        stays.came(away(3, 60_000), false);
        assert_eq!(stays.take(ms(60_150)), moved(3), "long ago is forgotten");
    }

    #[test]
    fn a_thread_moved_when_it_ended_two_constructs_in_a_row_there() {
        let mut stays = Stays::default();
        let (process, thread, ms) = (ProcessId(7), ThreadId(8), Micros::from_millis);
        let at = |node, at| Arrival { process, thread, node: Node(node), at: ms(at) };
        stays.works(at(1, 1000), 1, false);
        assert_eq!(stays.take(ms(1001)), [], "one construct");
        stays.works(at(2, 1002), 0, false);
        assert_eq!(stays.take(ms(1003)), [], "two, on two nodes");
        stays.works(at(2, 1004), 2, false);
        assert_eq!(stays.take(ms(1005)), [(process, thread, Node(2))]);
        stays.works(at(1, 1010), 9, false);
        assert_eq!(stays.take(ms(1100)), [], "it moved a short while ago");
        stays.works(at(2, 1110), 9, true);
        assert_eq!(stays.take(ms(2000)), [], "it is back");
    }
}
