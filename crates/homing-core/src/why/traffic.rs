//! Who fetches from whom, and how long the program takes with that (modelled: [`crate::time`]).

use super::facts::PageFacts;
use crate::cache;
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
        let mut traffic = Traffic { nodes, counts: vec![0; nodes * nodes] };
        for page in facts {
            let home = home(page).index();
            for (by, &count) in page.by_node.iter().enumerate() {
                traffic.counts[by * nodes + home] += count;
            }
        }
        traffic
    }

    /// That with some pages, which this has at their homes, elsewhere; or at whoever refers to them, where `home` gives
    /// none.
    pub(super) fn with(
        &self,
        facts: &[PageFacts],
        pages: &[usize],
        home: impl Fn(&PageFacts) -> Option<Node>,
    ) -> Traffic {
        let mut traffic = self.clone();
        for page in pages.iter().map(|&page| &facts[page]) {
            let (from, to) = (page.home.index(), home(page));
            for (by, &count) in page.by_node.iter().enumerate() {
                traffic.counts[by * self.nodes + from] -= count;
                traffic.counts[by * self.nodes + to.map_or(by, Node::index)] += count;
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

    /// How long the program takes: the work of each node is divided among its CPUs in use, and what the caches counted
    /// among the nodes by their references. One interval for the whole program, so that bursts are smoothed: contention
    /// is not overstated.
    pub(super) fn elapsed(&self, times: &Times, cpus: &[u32], caches: &cache::Counts) -> Elapsed {
        let all: u64 = self.counts.iter().sum();
        let mut work = Work { write_backs: self.spread(caches.write_backs, all), ..Work::default() };
        for (by, row) in self.rows().enumerate() {
            let in_use = u64::from(cpus.get(by).copied().unwrap_or(0).max(1));
            let share = row.iter().sum::<u64>() as f64 / (all as f64).max(1.0) / in_use as f64;
            let part = |count: u64| (count as f64 * share) as u64;
            let cpu = CpuWork {
                node: Node(by as u16),
                references: part(caches.references),
                l1_misses: part(caches.l1_misses),
                l3_hits: part(caches.l3_hits),
                tlb_misses: part(caches.tlb_misses),
                shootdowns: 0,
                demand: row.iter().map(|count| count / in_use).collect(),
            };
            if row.iter().any(|&count| count > 0) {
                work.cpus.extend((0..in_use).map(|_| cpu.clone()));
            }
        }
        times.elapsed(&work, false)
    }

    /// A count divided as the references are.
    fn spread(&self, count: u64, all: u64) -> Vec<u64> {
        let part = |&n: &u64| (count as f64 * n as f64 / (all as f64).max(1.0)) as u64;
        self.counts.iter().map(part).collect()
    }
}
