//! Who refers to which memory, and which pages move, summed over the run.

use super::Program;
use crate::history::SpillError;
use crate::ids::{Node, Page};
use crate::time::{CpuWork, Work};
use serde::Serialize;

/// Pages are where they are first touched.
pub const FIRST_TOUCH: &str = "first touch";
/// Pages are striped over all memories by address.
pub const STRIPED: &str = "striped";
/// The optimum of the mean thread, without load.
pub const CHEAPEST: &str = "cheapest";
/// As in the mixture of placements that the bound was taken at: each of them has its share of the pages.
pub const SPREAD: &str = "spread";

/// What placements make of a program's misses.
#[derive(Clone, Debug, PartialEq)]
pub struct Flows {
    nodes: usize,
    /// By (requester's node, memory).
    references: Vec<f64>,
    /// By (from, to).
    moves: Vec<f64>,
}

/// What a placement takes if its load is even over the run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Placed {
    /// Its name.
    pub placement: &'static str,
    /// Modelled nanoseconds.
    pub ns: f64,
    /// Of which beyond what the same misses take without queues.
    pub contention_ns: f64,
    /// Share of the misses to other nodes' memory.
    pub nonlocal_percent: f64,
    /// Utilisation of the busiest memory.
    pub memory_utilisation: f64,
    /// Utilisation of the busiest link.
    pub link_utilisation: f64,
    /// Page moves.
    pub moves: u64,
}

impl Flows {
    /// Nothing.
    pub(super) fn none(nodes: usize) -> Flows {
        Flows { nodes, references: vec![0.0; nodes * nodes], moves: vec![0.0; nodes * nodes] }
    }

    /// Adds references by (requester, memory) and copies by (from, to).
    pub(super) fn count(&mut self, (references, moves): (&[u64], &[u64])) {
        self.references.iter_mut().zip(references).for_each(|(sum, &n)| *sum += n as f64);
        self.moves.iter_mut().zip(moves).for_each(|(sum, &n)| *sum += n as f64);
    }

    /// Adds other flows.
    pub(super) fn add(&mut self, other: &Flows) {
        self.references.iter_mut().zip(&other.references).for_each(|(sum, n)| *sum += n);
        self.moves.iter_mut().zip(&other.moves).for_each(|(sum, n)| *sum += n);
    }

    /// A mixture with this share of the other.
    pub(super) fn towards(&self, other: &Flows, share: f64) -> Flows {
        let mix = |of: &[f64], other: &[f64]| {
            of.iter().zip(other).map(|(a, b)| a * (1.0 - share) + b * share).collect()
        };
        let references = mix(&self.references, &other.references);
        Flows { nodes: self.nodes, references, moves: mix(&self.moves, &other.moves) }
    }

    /// References from a node to a memory.
    pub fn references(&self, by: usize, at: usize) -> f64 {
        self.references[by * self.nodes + at]
    }

    /// Page moves: from, to, how many.
    pub fn moves(&self) -> impl Iterator<Item = (usize, usize, f64)> + '_ {
        let some = self.moves.iter().enumerate().filter(|(_, &moves)| moves > 0.0);
        some.map(|(pair, &moves)| (pair / self.nodes, pair % self.nodes, moves))
    }

    /// Lines that each memory and each node's link serves.
    pub fn served(&self) -> (Vec<f64>, Vec<f64>) {
        let (mut memories, mut links) = (vec![0.0; self.nodes], vec![0.0; self.nodes]);
        for (pair, &n) in self.references.iter().enumerate() {
            let (by, at) = (pair / self.nodes, pair % self.nodes);
            memories[at] += n;
            if by != at {
                links[by] += n;
                links[at] += n;
            }
        }
        (memories, links)
    }

    /// As work of CPUs: a node's references are its CPUs' as their misses are, and shoot-downs, one a move, evenly all
    /// CPUs'.
    fn work(&self, program: &Program<'_>) -> Work {
        let mut left = self.references.clone();
        let mut misses = vec![0u64; self.nodes];
        let of = |counts: &crate::cache::Counts| counts.demand().max(1);
        program.cpus.iter().for_each(|(node, counts)| misses[node.index()] += of(counts));
        let moves: Vec<u64> = self.moves.iter().map(|n| n.round() as u64).collect();
        let shootdowns = moves.iter().sum::<u64>().div_ceil(program.cpus.len().max(1) as u64);
        let cpu = |(node, counts): &(Node, crate::cache::Counts)| {
            let (row, all) = (node.index() * self.nodes, &mut misses[node.index()]);
            let share = of(counts) as f64 / *all as f64;
            *all -= of(counts);
            let take = |left: &mut f64| {
                let taken = (*left * share).round();
                *left -= taken;
                taken as u64
            };
            let demand = left[row..row + self.nodes].iter_mut().map(take).collect();
            CpuWork { demand, shootdowns, ..CpuWork::of(*node, counts) }
        };
        let cpus = program.cpus.iter().map(cpu).collect();
        Work { cpus, write_backs: vec![0; self.nodes * self.nodes], moves }
    }
}

impl Placed {
    pub(super) fn new(placement: &'static str, flows: &Flows, program: &Program<'_>) -> Placed {
        let work = flows.work(program);
        let elapsed = program.times.elapsed(&work, program.mover);
        let all: f64 = flows.references.iter().sum();
        let local: f64 = (0..flows.nodes).map(|node| flows.references(node, node)).sum();
        Placed {
            placement,
            ns: elapsed.total_ns,
            contention_ns: elapsed.contention_ns,
            nonlocal_percent: 100.0 * (all - local) / all.max(1.0),
            memory_utilisation: elapsed.memory_utilisation,
            link_utilisation: elapsed.link_utilisation,
            moves: work.moves.iter().sum(),
        }
    }
}

/// Pages that stay.
pub(super) struct Still {
    /// References of each node.
    pub references: Vec<u64>,
    /// Where they are first touched.
    pub first_touch: Flows,
    /// Striped over all memories.
    pub striped: Flows,
}

impl Still {
    pub fn of(program: &Program<'_>) -> Result<Still, SpillError> {
        let (history, nodes) = (program.history, program.times.nodes());
        let (first_touch, striped) = (Flows::none(nodes), Flows::none(nodes));
        let mut still = Still { references: vec![0; nodes], first_touch, striped };
        for page in (0..history.pages()).map(Page) {
            let stripe = (history.address(page) >> history.page_size().log2()) as usize % nodes;
            let first = history.first_touch(page)?.map_or(0, Node::index);
            for run in history.runs(page)? {
                let (by, n) = (run.node.index(), run.references());
                still.references[by] += n;
                still.first_touch.references[by * nodes + first] += n as f64;
                still.striped.references[by * nodes + stripe] += n as f64;
            }
        }
        Ok(still)
    }
}
