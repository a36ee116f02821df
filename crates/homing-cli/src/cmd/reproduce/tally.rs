//! A monitor around another one that counts who misses on which page, for tables of where accesses went.

use homing_core::ids::Node;
use homing_core::monitor::{Missed, Monitor, Poll, Reports, Seen};

/// The other monitor, and the counts.
pub struct Tally {
    inner: Box<dyn Monitor>,
    nodes: usize,
    /// Demand transactions by page and node: `[page * nodes + node]`.
    demand: Vec<u64>,
    home: Vec<Option<Node>>,
    /// Non-local ones by page, of each interval.
    pub remote: Vec<Vec<u64>>,
    now: Vec<u64>,
}

impl Tally {
    /// Nothing counted yet.
    pub fn new(inner: Box<dyn Monitor>, pages: usize, nodes: u16) -> Tally {
        let nodes = usize::from(nodes);
        Tally {
            inner,
            nodes,
            demand: vec![0; pages * nodes],
            home: vec![None; pages],
            remote: Vec::new(),
            now: vec![0; pages],
        }
    }

    /// How many pages there are.
    pub fn pages(&self) -> usize {
        self.home.len()
    }

    /// Whether another node than its home misses on a page most often.
    pub fn misplaced(&self, page: usize) -> bool {
        let counts = &self.demand[page * self.nodes..(page + 1) * self.nodes];
        counts.iter().any(|&count| count > self.home[page].map_or(u64::MAX, |home| counts[home.index()]))
    }
}

impl Monitor for Tally {
    fn transaction(&mut self, seen: &Seen, reports: &mut Reports) {
        if seen.kind.is_demand() {
            self.demand[seen.page as usize * self.nodes + seen.node.index()] += 1;
            self.home[seen.page as usize] = Some(seen.home);
            self.now[seen.page as usize] += u64::from(seen.node != seen.home);
        }
        self.inner.transaction(seen, reports);
    }

    fn tlb_miss(&mut self, miss: &Missed, reports: &mut Reports) {
        self.inner.tlb_miss(miss, reports);
    }

    fn poll_every(&self) -> Option<u64> {
        self.inner.poll_every()
    }

    fn poll(&mut self, poll: &mut Poll, reports: &mut Reports) {
        self.inner.poll(poll, reports);
    }

    fn interval_end(&mut self, poll: &mut Poll, reports: &mut Reports) {
        let pages = self.now.len();
        self.remote.push(std::mem::replace(&mut self.now, vec![0; pages]));
        self.inner.interval_end(poll, reports);
    }
}
