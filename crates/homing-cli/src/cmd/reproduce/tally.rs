//! A monitor around another one that counts who misses on which page, for tables of where accesses went.

use homing_core::ids::Node;
use homing_core::monitor::{Missed, Monitor, Poll, Reports, Seen};

/// The other monitor, and the counts.
pub struct Tally {
    inner: Box<dyn Monitor>,
    nodes: usize,
    /// Demand transactions of each interval by page and node: `[page * nodes + node]`; the last is not over.
    demand: Vec<Vec<u64>>,
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
            demand: vec![vec![0; pages * nodes]],
            home: vec![None; pages],
            remote: Vec::new(),
            now: vec![0; pages],
        }
    }

    /// How many pages there are.
    pub fn pages(&self) -> usize {
        self.home.len()
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Where a page was when it was last fetched from.
    pub fn home(&self, page: usize) -> Option<Node> {
        self.home[page]
    }

    /// Demand transactions on a page by each node, in the intervals that are `wanted`.
    pub fn users(&self, page: usize, wanted: impl Fn(usize) -> bool) -> Vec<u64> {
        let mut users = vec![0; self.nodes];
        for (_, demand) in self.demand.iter().enumerate().filter(|(interval, _)| wanted(*interval)) {
            let counts = &demand[page * self.nodes..(page + 1) * self.nodes];
            users.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        users
    }

    /// Whether another node than its home misses on a page most often.
    pub fn misplaced(&self, page: usize) -> bool {
        let counts = self.users(page, |_| true);
        counts.iter().any(|&count| count > self.home[page].map_or(u64::MAX, |home| counts[home.index()]))
    }
}

impl Monitor for Tally {
    fn transaction(&mut self, seen: &Seen, reports: &mut Reports) {
        if seen.kind.is_demand() {
            if let Some(demand) = self.demand.last_mut() {
                demand[seen.page as usize * self.nodes + seen.node.index()] += 1;
            }
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

    fn poll_each(&self) -> Option<u64> {
        self.inner.poll_each()
    }

    fn poll(&mut self, poll: &mut Poll, reports: &mut Reports) {
        self.inner.poll(poll, reports);
    }

    fn interval_end(&mut self, poll: &mut Poll, reports: &mut Reports) {
        let pages = self.now.len();
        self.remote.push(std::mem::replace(&mut self.now, vec![0; pages]));
        self.demand.push(vec![0; pages * self.nodes]);
        self.inner.interval_end(poll, reports);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use homing_core::cache::Kind;
    use homing_core::ids::Time;

    #[test]
    fn users_are_those_of_the_intervals_wanted() {
        let mut tally = Tally::new(Box::new(()), 2, 2);
        let seen = |node, kind| {
            let (home, time) = (Node(0), Time(0));
            Seen { cpu: node, node: Node(node), home, page: 1, address: 4096, kind, latency: 1.0, time }
        };
        let mut reports = Reports::default();
        tally.transaction(&seen(1, Kind::Read), &mut reports);
        tally.transaction(&seen(1, Kind::WriteBack), &mut reports);
        tally.demand.push(vec![0; 4]);
        tally.transaction(&seen(0, Kind::ReadOwn), &mut reports);
        tally.transaction(&seen(1, Kind::Upgrade), &mut reports);
        assert_eq!((tally.users(1, |_| true), tally.users(0, |_| true)), (vec![1, 2], vec![0, 0]));
        assert_eq!(tally.users(1, |interval| interval == 1), [1, 1]);
        assert_eq!((tally.home(1), tally.home(0), tally.nodes(), tally.pages()), (Some(Node(0)), None, 2, 2));
        assert!(tally.misplaced(1) && !tally.misplaced(0));
    }
}
