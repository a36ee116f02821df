//! Who fetches from whom in each interval, and how long the program takes with that (modelled: [`crate::time`]).

use super::facts::{PageFacts, INTERVALS};
use super::lines::Ended;
use super::remedy::Remedy;
use super::CpuCounts;
use crate::ids::Node;
use crate::time::{CpuWork, Elapsed, Mover, Times, Work};

/// Where references of one node to a page go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Flow {
    /// The share that becomes local.
    pub local: f64,
    /// The share that is no more.
    pub gone: f64,
    /// Where the page is, for the remainder.
    pub home: Node,
}

impl Flow {
    /// All to one home.
    pub fn to(home: Node) -> Flow {
        Flow { local: 0.0, gone: 0.0, home }
    }
}

/// References from each node to each memory, in each of [`INTERVALS`].
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    nodes: usize,
    /// Some pages are small that were huge.
    small_pages: bool,
    /// `[(interval * nodes + by) * nodes + home]`.
    counts: Vec<f64>,
    /// By CPU: misses of its caches that are no more. Empty where all are.
    ended: Vec<Ended>,
}

impl Traffic {
    /// That of pages where they are.
    pub(super) fn new(nodes: usize, facts: &[PageFacts]) -> Traffic {
        let mut traffic = Traffic::none(nodes);
        for page in facts {
            for used in &page.uses {
                traffic.row(used.interval, used.node)[page.home.index()] += f64::from(used.count);
            }
        }
        traffic
    }

    /// That of CPUs whose references are all local.
    pub(super) fn all_local(nodes: usize, cpus: &[CpuCounts]) -> Traffic {
        let mut traffic = Traffic::none(nodes);
        for cpu in cpus {
            for interval in 0..INTERVALS {
                traffic.row(interval as u16, cpu.node.0)[cpu.node.index()] += cpu.demand[interval];
            }
        }
        traffic
    }

    fn none(nodes: usize) -> Traffic {
        let counts = vec![0.0; INTERVALS * nodes * nodes];
        Traffic { nodes, small_pages: false, counts, ended: Vec::new() }
    }

    /// Whether some pages are small that were huge.
    pub(super) fn has_small_pages(&self) -> bool {
        self.small_pages
    }

    fn row(&mut self, interval: u16, by: u16) -> &mut [f64] {
        let begin = (usize::from(interval) * self.nodes + usize::from(by)) * self.nodes;
        &mut self.counts[begin..begin + self.nodes]
    }

    /// That with some pages, which this has at their homes, under a remedy.
    pub(super) fn with(&self, facts: &[PageFacts], pages: &[usize], remedy: Remedy) -> Traffic {
        if !matches!(remedy, Remedy::SmallPages(_)) {
            let mut traffic = self.flowing(facts, pages, |page, by| remedy.flow(page, by));
            pages.iter().for_each(|&page| traffic.end(&remedy.ended(&facts[page])));
            return traffic;
        }
        let mut traffic = self.clone();
        for page in pages.iter().map(|&page| &facts[page]) {
            traffic.take(page);
            page.parts().iter().for_each(|part| traffic.put(part, |by| remedy.flow(part, by)));
            traffic.small_pages |= !page.small.is_empty();
        }
        traffic
    }

    /// That with the references to some pages, which this has at their homes, elsewhere.
    pub(super) fn flowing(
        &self,
        facts: &[PageFacts],
        pages: &[usize],
        flow: impl Fn(&PageFacts, usize) -> Flow,
    ) -> Traffic {
        let mut traffic = self.clone();
        for page in pages.iter().map(|&page| &facts[page]) {
            traffic.take(page);
            traffic.put(page, |by| flow(page, by));
        }
        traffic
    }

    /// Takes the references to a page, which it has at the page's home, out.
    fn take(&mut self, page: &PageFacts) {
        for used in &page.uses {
            self.row(used.interval, used.node)[page.home.index()] -= f64::from(used.count);
        }
    }

    /// Puts the references of every node to a page where they flow.
    fn put(&mut self, page: &PageFacts, flow: impl Fn(usize) -> Flow) {
        let flows: Vec<Flow> = (0..self.nodes).map(flow).collect();
        for used in &page.uses {
            let Flow { local, gone, home } = flows[usize::from(used.node)];
            let (row, count) = (self.row(used.interval, used.node), f64::from(used.count));
            row[usize::from(used.node)] += count * local;
            row[home.index()] += count * (1.0 - local - gone);
        }
    }

    /// These misses of CPUs' caches are no more.
    fn end(&mut self, ended: &[Ended]) {
        self.ended.resize(self.ended.len().max(ended.len()), Ended::default());
        self.ended.iter_mut().zip(ended).for_each(|(sum, &more)| *sum += more);
    }

    /// References by node and memory: a row for each node that refers.
    pub fn rows(&self) -> Vec<Vec<u64>> {
        let sum = |by: usize, home: usize| {
            let matrices = self.counts.chunks(self.nodes * self.nodes);
            matrices.map(|matrix| matrix[by * self.nodes + home]).sum::<f64>().round() as u64
        };
        (0..self.nodes).map(|by| (0..self.nodes).map(|home| sum(by, home)).collect()).collect()
    }

    /// 100 * (references to other nodes' memory) / references; 0 without references.
    pub fn nonlocal_percent(&self) -> f64 {
        let rows = self.rows();
        let all: u64 = rows.iter().flatten().sum();
        let local: u64 = rows.iter().enumerate().map(|(by, row)| row[by]).sum();
        100.0 * (all - local) as f64 / (all as f64).max(1.0)
    }

    /// How much more the busiest memory serves than the mean one; 1 if all serve the same.
    pub fn imbalance(&self) -> f64 {
        let rows = self.rows();
        let served: Vec<u64> = (0..self.nodes).map(|home| rows.iter().map(|row| row[home]).sum()).collect();
        let (all, most) = (served.iter().sum::<u64>(), served.iter().max().copied().unwrap_or(0));
        match all {
            0 => 1.0,
            all => most as f64 * self.nodes as f64 / all as f64,
        }
    }

    /// How long the program takes: in each interval as long as its slowest CPU. A node's traffic is divided among its
    /// CPUs as they ask for it in that interval; hits of a CPU's caches are spread over the intervals as its references
    /// are.
    pub(super) fn elapsed(&self, times: &Times, cpus: &[CpuCounts]) -> Elapsed {
        let write_backs: u64 = cpus.iter().map(|cpu| cpu.caches.write_backs).sum();
        let all: f64 = self.counts.iter().sum();
        let mut total = Elapsed::default();
        for (interval, matrix) in self.counts.chunks(self.nodes * self.nodes).enumerate() {
            let part = |count: &f64| (write_backs as f64 * count / all.max(1.0)) as u64;
            let cpus = self.work(interval, matrix, cpus);
            total.add(&times.elapsed(
                &Work { cpus, write_backs: matrix.iter().map(part).collect(), moves: Vec::new() },
                Mover::Own,
            ));
        }
        total
    }

    fn work(&self, interval: usize, matrix: &[f64], cpus: &[CpuCounts]) -> Vec<CpuWork> {
        let mut demand = vec![0.0; self.nodes];
        let weight = |cpu: &CpuCounts| cpu.demand[interval];
        cpus.iter().for_each(|cpu| demand[cpu.node.index()] += weight(cpu));
        let work = |(index, cpu): (usize, &CpuCounts)| {
            let ended = self.ended.get(index).copied().unwrap_or_default();
            let (by, share) = (cpu.node.index(), cpu.share_in(interval));
            let part = |count: u64| (count as f64 * share) as u64;
            let of_node = weight(cpu) / demand[by].max(1e-9);
            CpuWork {
                node: cpu.node,
                references: part(cpu.caches.references),
                l1_misses: part(cpu.caches.l1_misses.saturating_sub(ended.l1_misses)),
                l3_hits: part(cpu.caches.l3_hits.saturating_sub(ended.within)),
                tlb_misses: part(cpu.caches.tlb_misses),
                shootdowns: 0,
                demand: matrix[by * self.nodes..][..self.nodes]
                    .iter()
                    .map(|n| (n * of_node) as u64)
                    .collect(),
            }
        };
        cpus.iter().enumerate().map(work).collect()
    }
}
