//! Pages of a thread that was moved (Nikolopoulos 2000, sections 3.2 and 4). A page that only one node used, that
//! nobody has used since a thread left that node, and that is now used by the thread's new node belongs to the thread:
//! it comes at once, with all that is known of it. Pages of threads that stayed are not disturbed, and no false alarm
//! is paid but by pages that are really used. `constructs` is the paper's rule: a move counts when that many parallel
//! constructs (or iterations) have begun since.

use crate::ids::Node;
use crate::policy::ThreadMoved;
use serde::{Deserialize, Serialize};

/// Thread moves that may still bring pages along.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Heirs {
    constructs: u32,
    moves: u32,
    list: Vec<Heir>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Heir {
    thread: u32,
    from: Node,
    to: Node,
    /// How many moves there were, this one counted.
    number: u32,
    /// Constructs until it counts.
    left: u32,
}

impl Heirs {
    pub(super) fn new(constructs: u32) -> Heirs {
        Heirs { constructs, moves: 0, list: Vec::new() }
    }

    /// How many thread moves there were: pages note it when they are used.
    #[inline]
    pub(super) fn now(&self) -> u32 {
        self.moves
    }

    /// A thread was moved; what it left before is forgotten.
    pub(super) fn moved(&mut self, moved: &ThreadMoved) {
        self.moves += 1;
        let thread = moved.thread.0;
        let before = self.list.iter().position(|heir| heir.thread == thread);
        // A thread that goes on before its first move counted still has its pages where that began.
        let from = before
            .map(|at| self.list.remove(at))
            .filter(|heir| heir.left > 0)
            .map_or(moved.from, |heir| heir.from);
        if from != moved.to {
            let (to, number, left) = (moved.to, self.moves, self.constructs);
            self.list.push(Heir { thread, from, to, number, left });
        }
    }

    /// A parallel construct or an iteration begins.
    pub(super) fn construct(&mut self) {
        self.list.iter_mut().for_each(|heir| heir.left = heir.left.saturating_sub(1));
    }

    /// True if a page of `owner`, last used when there were `seen` moves, is inherited by a reference from `by`.
    #[inline]
    pub(super) fn inherits(&self, owner: Node, by: Node, seen: u32) -> bool {
        let fits = |heir: &Heir| heir.left == 0 && heir.to == by && heir.from == owner && seen < heir.number;
        self.list.iter().any(fits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Thread, Time};

    fn moved(thread: u32, from: u16, to: u16) -> ThreadMoved {
        ThreadMoved { thread: Thread(thread), from: Node(from), to: Node(to), time: Time(0) }
    }

    #[test]
    fn a_move_counts_after_two_constructs_and_not_if_the_thread_went_back() {
        let mut heirs = Heirs::new(2);
        heirs.moved(&moved(0, 0, 1));
        assert!(!heirs.inherits(Node(0), Node(1), 0));
        heirs.construct();
        heirs.construct();
        assert!(heirs.inherits(Node(0), Node(1), 0));
        assert!(!heirs.inherits(Node(0), Node(1), 1), "used by another since");
        assert!(!heirs.inherits(Node(2), Node(1), 0));
        heirs.moved(&moved(3, 2, 0));
        heirs.moved(&moved(3, 0, 2));
        heirs.construct();
        heirs.construct();
        assert!(!heirs.inherits(Node(2), Node(0), 0), "it went back at once: a false alarm");
    }
}
