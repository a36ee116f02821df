//! Threads that have moved, and have not stayed long enough yet to count (Nikolopoulos 2000, section 4): they are
//! polled before and after each parallel construct.

use super::super::ThreadMoved;
use crate::ids::{Node, Thread};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Move {
    thread: Thread,
    /// Where it was at the last poll, and where it is.
    from: Node,
    to: Node,
    /// Constructs that have run since it was noticed; none until then.
    constructs: Option<u64>,
}

/// The moves that are still to count.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Moves {
    /// Constructs for which a thread must stay.
    needed: u64,
    moves: Vec<Move>,
    /// A construct runs.
    running: bool,
}

impl Moves {
    pub(super) fn new(needed: u64) -> Moves {
        Moves { needed, ..Moves::default() }
    }

    /// A thread moves. Between two polls only its last place is seen.
    pub(super) fn moved(&mut self, moved: &ThreadMoved) {
        let known = self.moves.iter().position(|known| known.thread == moved.thread);
        let known = known.map(|at| self.moves.remove(at));
        let unseen = known.filter(|known| known.constructs.is_none());
        let from = unseen.map_or(moved.from, |known| known.from);
        if from != moved.to {
            self.moves.push(Move { thread: moved.thread, from, to: moved.to, constructs: None });
        }
    }

    /// A construct begins, and ends the one before. Returns where threads went whose moves count now.
    pub(super) fn construct_begins(&mut self) -> Vec<Node> {
        let ran = std::mem::replace(&mut self.running, true);
        self.poll(ran)
    }

    /// As [`Moves::construct_begins`], where an iteration ends.
    pub(super) fn construct_ends(&mut self) -> Vec<Node> {
        let ran = std::mem::take(&mut self.running);
        self.poll(ran)
    }

    /// Without marked constructs every move counts.
    pub(super) fn all(&mut self) -> Vec<Node> {
        self.moves.drain(..).map(|moved| moved.to).collect()
    }

    /// `ran`: a construct has run since the last poll.
    fn poll(&mut self, ran: bool) -> Vec<Node> {
        let mut lasted = Vec::new();
        self.moves.retain_mut(|moved| {
            let constructs = moved.constructs.map_or(0, |run| run + u64::from(ran));
            moved.constructs = Some(constructs);
            if constructs >= self.needed {
                lasted.push(moved.to);
            }
            constructs < self.needed
        });
        lasted
    }
}
