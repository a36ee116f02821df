//! Who fetches from whom, and how long the program takes with that (modelled: [`crate::time`]).

use super::facts::PageFacts;
use super::remedy::Remedy;
use super::CpuCounts;
use crate::ids::Node;
use crate::time::{CpuWork, Elapsed, Times, Work};

/// References from each node to each memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traffic {
    nodes: usize,
    /// `[by * nodes + home]`.
    counts: Vec<u64>,
}

impl Traffic {
    /// That of pages at the homes that `home` gives.
    pub(super) fn new(nodes: usize, facts: &[PageFacts], home: impl Fn(&PageFacts) -> Node) -> Traffic {
        let mut traffic = Traffic::none(nodes);
        for page in facts {
            let by_node = page.by_node.iter().enumerate();
            by_node.for_each(|(by, &count)| traffic.add(Node(by as u16), home(page), count));
        }
        traffic
    }

    /// None at all.
    pub(super) fn none(nodes: usize) -> Traffic {
        Traffic { nodes, counts: vec![0; nodes * nodes] }
    }

    /// Adds references by CPUs of a node to a memory.
    pub(super) fn add(&mut self, by: Node, home: Node, count: u64) {
        self.counts[by.index() * self.nodes + home.index()] += count;
    }

    /// That with some pages, which this has at their homes, under a remedy.
    pub(super) fn with(&self, facts: &[PageFacts], pages: &[usize], remedy: Remedy) -> Traffic {
        let mut traffic = self.clone();
        for page in pages.iter().map(|&page| &facts[page]) {
            for (by, &count) in page.by_node.iter().enumerate() {
                let flow = remedy.flow(page, by);
                let row = &mut traffic.counts[by * self.nodes..][..self.nodes];
                row[page.home.index()] -= count;
                row[by] += flow.local;
                row[flow.home.index()] += count - flow.local - flow.gone;
            }
        }
        traffic
    }

    /// References by CPUs of `by` to memory of `home`.
    pub fn between(&self, by: Node, home: Node) -> u64 {
        self.counts[by.index() * self.nodes + home.index()]
    }

    /// Rows of the matrix: one for each node that refers.
    pub fn rows(&self) -> impl Iterator<Item = &[u64]> {
        self.counts.chunks(self.nodes)
    }

    /// References served by the memory of each node.
    pub fn served(&self) -> Vec<u64> {
        (0..self.nodes).map(|home| self.rows().map(|row| row[home]).sum()).collect()
    }

    /// 100 * (references to other nodes' memory) / references; 0 without references.
    pub fn nonlocal_percent(&self) -> f64 {
        let all: u64 = self.counts.iter().sum();
        let local: u64 = self.rows().enumerate().map(|(by, row)| row[by]).sum();
        100.0 * (all - local) as f64 / (all as f64).max(1.0)
    }

    /// How much more the busiest memory serves than the mean one; 1 if all serve the same.
    pub fn imbalance(&self) -> f64 {
        let served = self.served();
        let all: u64 = served.iter().sum();
        let most = served.iter().max().copied().unwrap_or(0);
        if all == 0 {
            return 1.0;
        }
        most as f64 * self.nodes as f64 / all as f64
    }

    /// How long the program takes. What reaches memory from a node is divided among its CPUs as what their caches let
    /// through. One interval for the whole program, so that bursts are smoothed: contention is not overstated.
    pub(super) fn elapsed(&self, times: &Times, cpus: &[CpuCounts]) -> Elapsed {
        let all: u64 = self.counts.iter().sum();
        let write_backs = cpus.iter().map(|cpu| cpu.caches.write_backs).sum();
        let mut by_node = vec![0; self.nodes];
        cpus.iter().for_each(|cpu| by_node[cpu.node.index()] += cpu.caches.demand());
        let work = |cpu: &CpuCounts| {
            let (by, caches) = (cpu.node.index(), &cpu.caches);
            let share = caches.demand() as f64 / (by_node[by] as f64).max(1.0);
            let row = &self.counts[by * self.nodes..][..self.nodes];
            CpuWork {
                node: cpu.node,
                references: caches.references,
                l1_misses: caches.l1_misses,
                l3_hits: caches.l3_hits,
                tlb_misses: caches.tlb_misses,
                shootdowns: 0,
                demand: row.iter().map(|&count| (count as f64 * share) as u64).collect(),
            }
        };
        let cpus = cpus.iter().map(work).collect();
        times.elapsed(&Work { cpus, write_backs: self.spread(write_backs, all), moves: 0 }, false)
    }

    /// A count divided as the references are.
    fn spread(&self, count: u64, all: u64) -> Vec<u64> {
        let part = |&n: &u64| (count as f64 * n as f64 / (all as f64).max(1.0)) as u64;
        self.counts.iter().map(part).collect()
    }
}
