//! With replication on a uniform machine without global memory (Bolosky & Scott 1991, section 3.2), in time that does
//! not depend on the number of nodes.
//!
//! The reads between two writes form an *epoch*. If the page's home at its start is s, each other reader j pays m_j =
//! min(k_j (r - 1), R) above local references: it reads from afar or gets a replica. The home after the write that ends
//! the epoch is s, or another node e that was copied to (R instead of m_e). With W the cost of the cheapest way to each
//! home, B the sum of all m_j and X = min over s of W[s] - m_s:
//!
//! > W'[e] = B - m_e + min(W[e], X + R), and r - 1 more unless e writes.
//!
//! B and r - 1 are common to all nodes but those that read or write, so the others stay as they are and are compared
//! with X + R only when they are touched; X never rises.

use super::trail::{Forward, Link, State, Trail};
use crate::history::PageRun;
use crate::machine::Uniform;

pub(super) struct Replicated {
    states: Vec<State>,
    best: usize,
    epoch: Epoch,
    free_reads: bool,
    page_move: f64,
    local_gain: f64,
}

/// The reads since the last write, by node.
pub(super) struct Epoch {
    /// Reads of each node.
    pub reads: Vec<u64>,
    /// Nodes with reads, by first read.
    pub readers: Vec<u16>,
}

impl Epoch {
    pub fn new(nodes: usize) -> Epoch {
        Epoch { reads: vec![0; nodes], readers: Vec::with_capacity(nodes) }
    }

    #[inline]
    pub fn add(&mut self, node: usize, reads: u32) {
        if reads > 0 {
            if self.reads[node] == 0 {
                self.readers.push(node as u16);
            }
            self.reads[node] += u64::from(reads);
        }
    }

    #[inline]
    pub fn clear(&mut self) {
        for &node in &self.readers {
            self.reads[usize::from(node)] = 0;
        }
        self.readers.clear();
    }
}

impl Replicated {
    pub fn new(costs: &Uniform) -> Replicated {
        let nodes = usize::from(costs.nodes);
        Replicated {
            states: vec![State::FREE; nodes],
            best: 0,
            epoch: Epoch::new(nodes),
            free_reads: false,
            page_move: costs.page_move,
            local_gain: costs.remote - 1.0,
        }
    }

    /// m_j
    #[inline]
    fn paid(&self, node: usize) -> f64 {
        (self.epoch.reads[node] as f64 * self.local_gain).min(self.page_move)
    }

    /// X and the node that attains it.
    #[inline]
    fn cheapest_source(&self) -> (usize, f64) {
        let mut source = self.best;
        let mut least = self.states[source].cost;
        for &node in &self.epoch.readers {
            let node = usize::from(node);
            let cost = self.states[node].cost - self.paid(node);
            if cost < least || node == source {
                (source, least) = (node, cost);
            }
        }
        (source, least)
    }

    /// Ends the epoch at a write by `writer`.
    #[inline]
    fn close(&mut self, event: u32, writer: usize, trail: &mut Trail) {
        let (source, least) = self.cheapest_source();
        let link = self.states[source].trail;
        let by_copy = least + self.page_move;
        let mut settle = |this: &mut Self, node: usize, paid: f64| {
            let state = &mut this.states[node];
            if by_copy < state.cost {
                *state = State { cost: by_copy, trail: trail.step(link, event, source, node) };
            }
            state.cost -= paid;
        };
        for i in 0..self.epoch.readers.len() {
            let node = usize::from(self.epoch.readers[i]);
            let paid = self.paid(node);
            settle(self, node, paid);
            if self.states[node].cost < self.states[self.best].cost {
                self.best = node;
            }
        }
        if self.epoch.reads[writer] == 0 {
            settle(self, writer, 0.0);
        }
        self.epoch.clear();
    }
}

impl Forward for Replicated {
    fn begin(&mut self, first: Option<usize>, free_reads: bool) {
        self.states.fill(if first.is_none() { State::FREE } else { State::NEVER });
        self.best = first.unwrap_or(0);
        self.states[self.best] = State::FREE;
        self.free_reads = free_reads;
        self.epoch.clear();
    }

    #[inline]
    fn run(&mut self, event: u32, run: &PageRun, trail: &mut Trail) {
        let node = run.node.index();
        if !self.free_reads {
            self.epoch.add(node, run.reads_before);
        }
        if run.writes == 0 {
            return;
        }
        self.free_reads = false;
        self.close(event, node, trail);
        // No replica pays between the writes of a run (`Costs::read_gap`), so its reads count like writes.
        self.states[node].cost -= f64::from(run.writes + run.reads_between) * self.local_gain;
        if self.states[node].cost < self.states[self.best].cost {
            self.best = node;
        }
        self.epoch.add(node, run.reads_after);
    }

    fn end(&mut self) -> (usize, Link) {
        let (source, _) = self.cheapest_source();
        self.epoch.clear();
        (source, self.states[source].trail)
    }
}
