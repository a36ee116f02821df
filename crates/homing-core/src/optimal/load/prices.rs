//! From weights to prices at which the optimum is a bound on time.
//!
//! With weights w of threads that add up to 1 an interval takes T >= sum of w (time of the thread). In that requests
//! wait: at least min(w) e W, with e the share of a wait that is exposed, and W what the n requests to a part that is
//! busy for b with each wait there together, n b u / (2 (1 - u)) with u = n b / T. That is T u^2 / (2 (1 - u)), convex
//! in u. Its tangent at any v is below it:
//!
//! ```text
//! W >= g n b - h T,   g = v (2 - v) / (2 (1 - v)^2),   h = v^2 / (2 (1 - v)^2)
//! ```
//!
//! So (1 + min(w) e sum h) T is at least the weighted times without waits and min(w) e g b more for each request. That
//! is linear in T and in all counts, and so it holds for sums over intervals. Where v goes to 1 it says T >= n b.
//!
//! Histories know nodes, not threads. The least weight of a node's threads goes with all misses of the node, wherever
//! pages are; what a thread weighs beyond that goes with its own misses, as if they were to the nearest memory.

use super::{Flows, Program};
use crate::cache::Counts;
use crate::ids::Node;
use crate::machine::General;
use crate::time::{CpuWork, Mover, Times};

/// Of a part that is never idle no tangent is taken.
const BUSIEST: f64 = 0.9999;

/// What times are made of.
pub(super) struct Terms<'a> {
    times: &'a Times,
    mover: Mover,
    pub nodes: usize,
    cpus: Vec<Cpu>,
    /// How many of them each node has.
    on: Vec<f64>,
}

/// A CPU in use.
struct Cpu {
    node: usize,
    /// What it takes besides misses.
    fixed: f64,
    /// Misses that it has at least in the history.
    misses: f64,
    /// What it takes at least, if all memory was the nearest.
    nearest: f64,
}

/// What each thread's time counts, and where tangents are taken.
#[derive(Clone, Debug)]
pub(super) struct Weights {
    /// Of each CPU in use; together 1.
    threads: Vec<f64>,
    /// Utilisations of memories and links.
    memories: Vec<f64>,
    links: Vec<f64>,
}

/// T >= (constant + cost at these prices) / divisor.
pub(super) struct Prices {
    pub costs: General,
    pub constant: f64,
    pub divisor: f64,
}

/// Slope of the tangent at a utilisation.
fn slope(used: f64) -> f64 {
    used * (2.0 - used) / (2.0 * (1.0 - used) * (1.0 - used))
}

/// How far the tangent is below 0 at none.
fn below(used: f64) -> f64 {
    used * used / (2.0 * (1.0 - used) * (1.0 - used))
}

impl<'a> Terms<'a> {
    /// `references`: misses of each node in the history.
    pub fn new(program: &Program<'a>, references: &[u64]) -> Terms<'a> {
        let (times, nodes) = (program.times, program.times.nodes());
        let (mut on, mut demand) = (vec![0.0; nodes], vec![0; nodes]);
        for (node, counts) in program.cpus {
            on[node.index()] += 1.0;
            demand[node.index()] += counts.demand();
        }
        let cpu = |(node, counts): &(Node, Counts)| {
            // A reference that misses two lines is one in the history. Any CPU of the node may have made those.
            let twice = demand[node.index()].saturating_sub(references[node.index()]);
            let misses = counts.demand().saturating_sub(twice) as f64;
            let fixed = times.besides_misses_ns(&CpuWork::of(*node, counts));
            let latency = |at: usize| times.latency_ns(*node, Node(at as u16));
            let least = (0..nodes).map(latency).fold(f64::INFINITY, f64::min);
            let nearest = fixed + misses * least * times.parameters().exposed;
            Cpu { node: node.index(), fixed, misses, nearest }
        };
        Terms { times, mover: program.mover, nodes, cpus: program.cpus.iter().map(cpu).collect(), on }
    }

    /// The least weight of a thread.
    fn least(&self, weights: &Weights) -> f64 {
        weights.threads.iter().copied().fold(1.0, f64::min)
    }

    /// The least weight of a thread of each node (0 without threads), and the mean of those of a node.
    fn of_nodes(&self, weights: &Weights) -> (Vec<f64>, Vec<f64>) {
        let (mut least, mut mean) = (vec![f64::INFINITY; self.nodes], vec![0.0; self.nodes]);
        for (cpu, &weight) in self.cpus.iter().zip(&weights.threads) {
            least[cpu.node] = least[cpu.node].min(weight);
            mean[cpu.node] += weight / self.on[cpu.node];
        }
        least.iter_mut().filter(|least| least.is_infinite()).for_each(|least| *least = 0.0);
        (least, mean)
    }

    /// What does not depend on where pages are.
    fn constant(&self, weights: &Weights, least: &[f64]) -> f64 {
        let cpu = |(cpu, &weight): (&Cpu, &f64)| {
            least[cpu.node] * cpu.fixed + (weight - least[cpu.node]) * cpu.nearest
        };
        self.cpus.iter().zip(&weights.threads).map(cpu).sum()
    }

    /// What a page move counts: surely the mover's time, if threads spend it, and one shoot-down.
    fn moved(&self, weights: &Weights, mean: &[f64], (from, to): (usize, usize), standing: f64) -> f64 {
        let ns = self.times.move_ns(Node(from as u16), Node(to as u16));
        let movers = match self.mover {
            Mover::Own => 0.0,
            Mover::Stopped => standing,
            Mover::Program if self.on[to] > 0.0 => mean[to],
            Mover::Program => 1.0 / self.cpus.len().max(1) as f64,
        };
        ns * movers + self.least(weights) * self.times.parameters().shootdown_ns
    }

    /// Waiting for a miss at rest.
    fn miss(&self, by: usize, at: usize) -> f64 {
        self.times.parameters().exposed * self.times.latency_ns(Node(by as u16), Node(at as u16))
    }

    pub fn prices(&self, weights: &Weights) -> Prices {
        let p = self.times.parameters();
        let waits = self.least(weights) * p.exposed;
        let (least, mean) = self.of_nodes(weights);
        let parts = || weights.memories.iter().chain(&weights.links);
        let divisor = 1.0 + waits * parts().map(|&used| below(used)).sum::<f64>();
        let memory = |at: usize| waits * p.memory_busy_ns * slope(weights.memories[at]);
        let link = |at: usize| waits * p.link_busy_ns * slope(weights.links[at]);
        let pairs = || (0..self.nodes).flat_map(|a| (0..self.nodes).map(move |b| (a, b)));
        let access = |(by, at): (usize, usize)| {
            let links = if by == at { 0.0 } else { link(by) + link(at) };
            least[by] * self.miss(by, at) + memory(at) + links
        };
        let copy = |(from, to): (usize, usize)| match from == to {
            true => 0.0,
            false => self.moved(weights, &mean, (from, to), divisor),
        };
        let constant = self.constant(weights, &least);
        let (access, copy) = (pairs().map(access).collect(), pairs().map(copy).collect());
        Prices { costs: General { nodes: self.nodes as u16, access, copy }, constant, divisor }
    }

    /// What the misses of each node wait at rest.
    fn at_rest(&self, flows: &Flows) -> Vec<f64> {
        let node =
            |by: usize| (0..self.nodes).map(|at| flows.references(by, at) * self.miss(by, at)).sum::<f64>();
        (0..self.nodes).map(node).collect()
    }

    /// What each thread takes without waiting in queues, and without moves.
    fn threads_ns(&self, flows: &Flows) -> Vec<f64> {
        let at_rest = self.at_rest(flows);
        let misses = |by: usize| (0..self.nodes).map(|at| flows.references(by, at)).sum::<f64>();
        let each: Vec<f64> = at_rest.iter().enumerate().map(|(by, ns)| ns / misses(by).max(1.0)).collect();
        self.cpus.iter().map(|cpu| cpu.fixed + cpu.misses * each[cpu.node]).collect()
    }

    /// The time of a mixture of placements, for which threads have these weights: what a bound by tangents at its load
    /// cannot exceed, if the mixture is the best one.
    pub fn mixed_ns(&self, flows: &Flows, weights: &Weights) -> f64 {
        let p = self.times.parameters();
        let (least, mean) = self.of_nodes(weights);
        let misses: f64 = self.at_rest(flows).iter().zip(&least).map(|(ns, weight)| ns * weight).sum();
        let mut quiet = self.constant(weights, &least) + misses;
        let mut standing = 0.0;
        for (from, to, moves) in flows.moves() {
            let moved = |standing: f64| self.moved(weights, &mean, (from, to), standing);
            let (all, some) = (moved(1.0), moved(0.0));
            (quiet, standing) = (quiet + moves * some, standing + moves * (all - some));
        }
        let waits = self.least(weights) * p.exposed;
        let (memories, links) = flows.served();
        let busy: Vec<f64> = memories.iter().map(|n| n * p.memory_busy_ns).collect();
        let busy: Vec<f64> = busy.into_iter().chain(links.iter().map(|n| n * p.link_busy_ns)).collect();
        let time = |over: f64| {
            let wait = |busy: &f64| match busy / over {
                used if used < 1.0 => busy * used / (2.0 * (1.0 - used)),
                _ => f64::INFINITY,
            };
            quiet + waits * busy.iter().filter(|&&busy| busy > 0.0).map(wait).sum::<f64>()
        };
        let (mut low, mut high) = (busy.iter().copied().fold(quiet, f64::max), 2.0 * quiet + 1.0);
        while time(high) > high {
            high *= 2.0;
        }
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            if time(middle) > middle {
                low = middle;
            } else {
                high = middle;
            }
        }
        high + standing
    }
}

impl Weights {
    /// All threads alike, and no load.
    pub fn equal(terms: &Terms<'_>) -> Weights {
        let threads = vec![1.0 / terms.cpus.len().max(1) as f64; terms.cpus.len()];
        Weights { threads, memories: vec![0.0; terms.nodes], links: vec![0.0; terms.nodes] }
    }

    /// Tangents at a load in a time.
    pub fn load(&mut self, terms: &Terms<'_>, flows: &Flows, ns: f64) {
        let p = terms.times.parameters();
        let (memories, links) = flows.served();
        let used = |busy: f64| move |lines: &f64| (lines * busy / ns.max(1e-9)).min(BUSIEST);
        self.memories = memories.iter().map(used(p.memory_busy_ns)).collect();
        self.links = links.iter().map(used(p.link_busy_ns)).collect();
    }

    /// Slow threads come to count more. False if there are none, or no time passes.
    pub fn follow(&mut self, terms: &Terms<'_>, flows: &Flows, rate: f64) -> bool {
        let ns = terms.threads_ns(flows);
        let (all, most) = (ns.iter().sum::<f64>(), ns.iter().copied().fold(0.0, f64::max));
        if most * ns.len() as f64 <= 1.01 * all {
            return false;
        }
        self.threads.iter_mut().zip(&ns).for_each(|(weight, ns)| *weight *= (rate * (ns / most - 1.0)).exp());
        let all: f64 = self.threads.iter().sum();
        self.threads.iter_mut().for_each(|weight| *weight /= all);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tangents_touch_waits_and_are_never_above() {
        let waits = |used: f64| used * used / (2.0 * (1.0 - used));
        for at in (0..100).map(|i| f64::from(i) / 100.0) {
            assert!((slope(at) * at - below(at) - waits(at)).abs() < 1e-9 * (1.0 + waits(at)), "{at}");
            for used in (0..100).map(|i| f64::from(i) / 100.0) {
                let tangent = slope(at) * used - below(at);
                assert!(tangent <= waits(used) + 1e-9 * (1.0 + slope(at)), "{at} {used}");
            }
        }
    }
}
