//! Who uses a page, as hint faults tell it. A scan shows who came first after it, not who came after that and how
//! often, so one fault is a guess at all users of the page: those seen lately, the last one most. A fault stands for
//! several *bursts* of use until the next scan, of which each user has its share ([`Users::shares`]). A page with one
//! user is known at the first fault; one that all nodes use in turn gives no node an advantage by chance.

use super::changes::Era;
use homing_core::ids::{Node, Thread};
use smallvec::SmallVec;

/// What a fault counts, as a part of what the next one does.
const MEMORY: f32 = 0.85;

/// Faults in a row by one node after which the page is its own, whoever used it before.
const ROW: u8 = 3;

/// A user whose faults have faded below this part of one has left.
const LEAST: f32 = 0.15;

/// The users of one page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Users {
    /// Faults by node, older ones for less.
    recent: SmallVec<[f32; 4]>,
    /// The last one, and how many in a row were its own.
    last: Option<Node>,
    row: u8,
    /// All nodes of this era, by number modulo 64.
    met: u64,
    /// The thread that was seen last, how many faults in a row were its own, and whether there were others before.
    thread: Option<Thread>,
    thread_row: u8,
    others: bool,
    era: Era,
}

impl Users {
    /// Takes a fault. True if the node was not seen at the page before in this era.
    pub fn fault(&mut self, by: Node, thread: Option<Thread>, era: Era) -> bool {
        let before = std::mem::replace(&mut self.era, era);
        if before.division != era.division {
            *self = Users { era, ..Users::default() };
        } else if before != era {
            let Users { thread, thread_row, others, .. } = *self;
            *self = Users { thread, thread_row, others, era, ..Users::default() };
        }
        self.note_thread(thread);
        self.row = if self.last.replace(by) == Some(by) { self.row.saturating_add(1) } else { 1 };
        if self.row == ROW {
            self.recent.clear();
        }
        if self.recent.len() <= by.index() {
            self.recent.resize(by.index() + 1, 0.0);
        }
        self.recent.iter_mut().for_each(|count| *count *= MEMORY);
        self.recent[by.index()] += 1.0;
        let (before, bit) = (self.met, 1 << (by.index() % 64));
        self.met |= bit;
        before & bit == 0
    }

    fn note_thread(&mut self, thread: Option<Thread>) {
        if thread.is_some() && self.thread == thread {
            self.thread_row = self.thread_row.saturating_add(1);
        } else {
            self.others |= self.thread_row > 0;
            (self.thread, self.thread_row) = (thread, 1);
        }
        self.others &= self.thread_row < ROW;
    }

    /// The only thread that was seen lately, since the work was last divided.
    pub fn owner(&self, era: Era) -> Option<Thread> {
        self.thread.filter(|_| !self.others && self.era.division == era.division)
    }

    /// Adds the share that each user has in the bursts that a fault by `seen` stands for. `seen` comes last.
    pub fn shares(&self, seen: Node, shares: &mut Vec<(Node, f64)>) {
        let users = || self.recent.iter().enumerate().filter(|(index, _)| *index != seen.index());
        let own = self.recent.get(seen.index()).copied().unwrap_or(1.0);
        let sum: f32 = own + users().map(|(_, count)| count).filter(|count| **count >= LEAST).sum::<f32>();
        let share = |(index, count): (usize, &f32)| (Node(index as u16), f64::from(count / sum));
        shares.extend(users().filter(|(_, count)| **count >= LEAST).map(share));
        shares.push((seen, f64::from(own / sum)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In percent.
    fn shares(users: &Users, seen: u16) -> Vec<(u16, u32)> {
        let mut shares = Vec::new();
        users.shares(Node(seen), &mut shares);
        shares.into_iter().map(|(node, share)| (node.0, (share * 100.0) as u32)).collect()
    }

    const ERA: Era = Era { division: 0, nodes: 0 };

    #[test]
    fn a_page_with_one_user_is_its_own_and_a_shared_one_is_everybodys() {
        let mut users = Users::default();
        assert!(users.fault(Node(2), None, ERA));
        assert_eq!(shares(&users, 2), [(2, 100)]);
        assert!(
            users.fault(Node(1), None, ERA)
                && !users.fault(Node(2), None, ERA)
                && !users.fault(Node(1), None, ERA)
        );
        assert_eq!(shares(&users, 1), [(2, 45), (1, 54)]);
        for _ in 0..ROW {
            users.fault(Node(3), None, ERA);
        }
        assert_eq!(shares(&users, 3), [(3, 100)], "users of long ago are forgotten");
    }

    #[test]
    fn another_era_begins_anew() {
        let mut users = Users::default();
        users.fault(Node(0), None, ERA);
        users.fault(Node(0), None, ERA);
        assert!(users.fault(Node(1), None, Era { nodes: 1, ..ERA }));
        assert_eq!(shares(&users, 1), [(1, 100)]);
        assert!(users.fault(Node(0), None, Era { division: 1, nodes: 1 }));
    }

    #[test]
    fn a_page_is_a_threads_own_while_nobody_else_is_seen_there() {
        let mut users = Users::default();
        let mut owner = |thread: u32, era| {
            users.fault(Node(0), Some(Thread(thread)), era);
            users.owner(era)
        };
        let elsewhere = Era { nodes: 1, ..ERA };
        assert_eq!((owner(3, ERA), owner(3, elsewhere)), (Some(Thread(3)), Some(Thread(3))));
        assert_eq!((owner(4, elsewhere), owner(4, elsewhere)), (None, None), "two used it");
        assert_eq!(owner(4, elsewhere), Some(Thread(4)), "and one does now");
        let anew = Era { division: 1, nodes: 1 };
        assert_eq!(users.owner(anew), None);
        users.fault(Node(0), None, anew);
        assert_eq!(users.owner(anew), None, "nobody knows the thread");
    }
}
