//! Without replication on a uniform machine (Bolosky & Scott 1991, section 3.1), in time that does not depend on the
//! number of nodes.
//!
//! Costs are kept less r for every reference so far, so a reference by node i changes only i (by -(r - 1)) and global
//! memory (by -(r - g)). That another node could be reached by a move from the cheapest place is taken into account
//! only when the node is touched: the cheapest cost never rises, so a move made late never costs more than one made
//! early. Moving to a node other than the requester never helps.

use super::trail::{Forward, Link, State, Trail};
use crate::history::PageRun;
use crate::machine::Uniform;

/// `GLOBAL`: the machine has global memory.
pub(super) struct Single<const GLOBAL: bool> {
    states: Vec<State>,
    global: State,
    best: usize,
    best_state: State,
    page_move: f64,
    global_move: f64,
    /// r - 1
    local_gain: f64,
    /// r - g
    global_gain: f64,
}

impl<const GLOBAL: bool> Single<GLOBAL> {
    pub fn new(costs: &Uniform) -> Self {
        let (g, global_move) = costs.global.map_or((costs.remote, 0.0), |g| (g.access, g.page_move));
        Single {
            states: vec![State::FREE; usize::from(costs.nodes)],
            global: State::NEVER,
            best: 0,
            best_state: State::FREE,
            page_move: costs.page_move,
            global_move,
            local_gain: costs.remote - 1.0,
            global_gain: costs.remote - g,
        }
    }
}

impl<const GLOBAL: bool> Forward for Single<GLOBAL> {
    fn begin(&mut self, first: Option<usize>, _free_reads: bool) {
        self.states.fill(if first.is_none() { State::FREE } else { State::NEVER });
        self.global = if GLOBAL && first.is_none() { State::FREE } else { State::NEVER };
        self.best = first.unwrap_or(0);
        self.best_state = State::FREE;
        self.states[self.best] = State::FREE;
    }

    #[inline]
    fn run(&mut self, event: u32, run: &PageRun, trail: &mut Trail) {
        let node = run.node.index();
        let references = run.references() as f64;
        let mut state = self.states[node];
        let by_move = self.best_state.cost + self.page_move;
        let from_global = if GLOBAL { self.global.cost + self.global_move } else { f64::INFINITY };
        if by_move.min(from_global) < state.cost {
            let nodes = self.states.len();
            state = if by_move <= from_global {
                State { cost: by_move, trail: trail.step(self.best_state.trail, event, self.best, node) }
            } else {
                State { cost: from_global, trail: trail.step(self.global.trail, event, nodes, node) }
            };
        }
        if GLOBAL {
            let arrival = self.best_state.cost + self.global_move;
            if arrival < self.global.cost {
                let link = trail.step(self.best_state.trail, event, self.best, self.states.len());
                self.global = State { cost: arrival, trail: link };
            }
            self.global.cost -= references * self.global_gain;
        }
        state.cost -= references * self.local_gain;
        self.states[node] = state;
        if state.cost < self.best_state.cost || node == self.best {
            (self.best, self.best_state) = (node, state);
        }
    }

    fn end(&mut self) -> (usize, Link) {
        if GLOBAL && self.global.cost < self.best_state.cost {
            return (self.states.len(), self.global.trail);
        }
        (self.best, self.best_state.trail)
    }
}
