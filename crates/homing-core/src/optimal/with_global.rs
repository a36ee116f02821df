//! With replication and global memory (Bolosky & Scott 1991, section 3.2: "the modifications required to handle it are
//! straightforward"), in time that does not depend on the number of nodes.
//!
//! As [`super::replicated`], but an epoch can be spent in two modes. In mode A global memory holds no copy: reader j
//! pays m_j = min(k_j (r - 1), R). In mode B it holds one from the epoch's first read, bought for G unless the page was
//! there already: reader j pays p_j = min(k_j (g - 1), G), because by equation (2) every copy then costs G. Adding
//! global memory later than the first read saves nothing, dropping it never helps. With A = sum of m_j, B = sum of p_j,
//! X = min over nodes s of W[s] - m_s and Y = min of W[s] - p_s:
//!
//! > W'[e] = min(W[e] - m_e + A, X + R - m_e + A, W[e] - p_e + B + G, Y + 2G - p_e + B, W[global] + G - p_e + B)
//! >
//! > W'[global] = min(W[global] + B, Y + G + B)
//!
//! and then r - 1 more for every node but the writer, g - 1 more for global memory. Untouched nodes all rise by
//! min(A, B + G) + r - 1, which is left out; what a copy could have brought them earlier, it still brings them when
//! they are touched (`docs/optimal.md` has the argument, the exhaustive search the proof by test).

use super::replicated::Epoch;
use super::trail::{Forward, Link, State, Trail};
use crate::history::PageRun;
use crate::machine::{Global, Uniform};

pub(super) struct WithGlobal {
    states: Vec<State>,
    global: State,
    best: usize,
    epoch: Epoch,
    free_reads: bool,
    page_move: f64,
    global_move: f64,
    /// r - 1
    local_gain: f64,
    /// g - 1
    global_excess: f64,
}

/// The sums and minima of an epoch.
struct Sums {
    a: f64,
    b: f64,
    x: (f64, usize),
    y: (f64, usize),
}

impl WithGlobal {
    pub fn new(costs: &Uniform, global: &Global) -> WithGlobal {
        let nodes = usize::from(costs.nodes);
        WithGlobal {
            states: vec![State::FREE; nodes],
            global: State::FREE,
            best: 0,
            epoch: Epoch::new(nodes),
            free_reads: false,
            page_move: costs.page_move,
            global_move: global.page_move,
            local_gain: costs.remote - 1.0,
            global_excess: global.access - 1.0,
        }
    }

    /// (m_j, p_j)
    #[inline]
    fn paid(&self, node: usize) -> (f64, f64) {
        let reads = self.epoch.reads[node] as f64;
        ((reads * self.local_gain).min(self.page_move), (reads * self.global_excess).min(self.global_move))
    }

    #[inline]
    fn sums(&self) -> Sums {
        let best = self.states[self.best].cost;
        let (m, p) = self.paid(self.best);
        let mut sums = Sums { a: 0.0, b: 0.0, x: (best - m, self.best), y: (best - p, self.best) };
        for &node in &self.epoch.readers {
            let node = usize::from(node);
            let (m, p) = self.paid(node);
            sums.a += m;
            sums.b += p;
            let cost = self.states[node].cost;
            if cost - m < sums.x.0 {
                sums.x = (cost - m, node);
            }
            if cost - p < sums.y.0 {
                sums.y = (cost - p, node);
            }
        }
        sums
    }

    /// Ends the epoch at a write by `writer`.
    fn close(&mut self, event: u32, writer: usize, trail: &mut Trail) {
        let Sums { a, b, x, y } = self.sums();
        let common = a.min(b + self.global_move);
        let nodes = self.states.len();
        let old_global = self.global;
        let y_trail = self.states[y.1].trail;
        // Arrivals by a copy, before m_e or p_e of the node that they arrive at is taken off: cost, trail, source.
        let by_a = (x.0 + a + self.page_move, self.states[x.1].trail, x.1);
        let from_global = old_global.cost + b + self.global_move;
        let through_global = y.0 + b + 2.0 * self.global_move;
        let by_b = if from_global <= through_global {
            (from_global, old_global.trail, nodes)
        } else {
            (through_global, y_trail, y.1)
        };
        let mut settle = |this: &mut Self, node: usize| {
            let (m, p) = this.paid(node);
            let state = &mut this.states[node];
            let stay = (state.cost + a - m).min(state.cost + b + this.global_move - p);
            let (arrive, link, from) = if by_a.0 - m <= by_b.0 - p {
                (by_a.0 - m, by_a.1, by_a.2)
            } else {
                (by_b.0 - p, by_b.1, by_b.2)
            };
            if arrive < stay {
                *state = State { cost: arrive - common, trail: trail.step(link, event, from, node) };
            } else {
                state.cost = stay - common;
            }
        };
        for i in 0..self.epoch.readers.len() {
            let node = usize::from(self.epoch.readers[i]);
            settle(self, node);
        }
        if self.epoch.reads[writer] == 0 {
            settle(self, writer);
        }
        let arrive = y.0 + b + self.global_move;
        if arrive < old_global.cost + b {
            self.global = State { cost: arrive - common, trail: trail.step(y_trail, event, y.1, nodes) };
        } else {
            self.global.cost = old_global.cost + b - common;
        }
        for i in 0..self.epoch.readers.len() {
            self.prefer(usize::from(self.epoch.readers[i]));
        }
        self.epoch.clear();
    }

    /// Makes `node` the best if it is cheaper.
    #[inline]
    fn prefer(&mut self, node: usize) {
        if self.states[node].cost < self.states[self.best].cost {
            self.best = node;
        }
    }
}

impl Forward for WithGlobal {
    fn begin(&mut self, first: Option<usize>, free_reads: bool) {
        self.states.fill(if first.is_none() { State::FREE } else { State::NEVER });
        self.global = if first.is_none() { State::FREE } else { State::NEVER };
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
        // No copy pays between the writes of a run (`Costs::read_gap`), so its reads count like writes.
        let references = f64::from(run.writes + run.reads_between);
        self.states[node].cost -= references * self.local_gain;
        self.global.cost -= references * (self.local_gain - self.global_excess);
        self.prefer(node);
        self.epoch.add(node, run.reads_after);
    }

    fn end(&mut self) -> (usize, Link) {
        let Sums { a, b, x, y } = self.sums();
        self.epoch.clear();
        let choices = [
            (x.0 + a, x.1, self.states[x.1].trail),
            (self.global.cost + b, self.states.len(), self.global.trail),
            (y.0 + b + self.global_move, y.1, self.states[y.1].trail),
        ];
        let least = choices.iter().map(|c| c.0).fold(f64::INFINITY, f64::min);
        let &(_, home, trail) = choices.iter().find(|c| c.0 == least).expect("one of them is the least");
        (home, trail)
    }
}
