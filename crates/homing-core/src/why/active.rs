//! In which intervals each node refers to each page at all. A run of a page's history tells its first and its last
//! reference only: between them a thread may wait for others, or do something else.

use super::facts::{PageFacts, Use, INTERVALS};
use crate::ids::Node;

/// Bytes of a frame of a trace.
const FRAME_LOG2: u32 = 12;
const _: () = assert!(INTERVALS <= u32::BITS as usize);

/// Intervals in which nodes refer to the frames of a trace.
pub struct Active {
    nodes: usize,
    /// A bit for each interval: `[frame * nodes + node]`.
    intervals: Vec<u32>,
}

impl Active {
    /// Nothing is referred to yet.
    pub fn new(nodes: usize, frames: usize) -> Active {
        Active { nodes, intervals: vec![0; nodes * frames] }
    }

    /// References of a thread on `node` to dense addresses (`frame << 12 | offset`).
    pub fn turn(&mut self, node: Node, interval: usize, addresses: &[u64]) {
        let bit = 1 << interval;
        for &address in addresses {
            self.intervals[(address >> FRAME_LOG2) as usize * self.nodes + node.index()] |= bit;
        }
    }

    /// Adds those of a frame to `intervals` of its page, which has a word for each node.
    pub fn add_to(&self, frame: u32, intervals: &mut [u32]) {
        let of_frame = &self.intervals[frame as usize * self.nodes..][..self.nodes];
        intervals.iter_mut().zip(of_frame).for_each(|(all, of_frame)| *all |= of_frame);
    }
}

impl PageFacts {
    /// Takes the references that were spread over intervals without any to the others, a node at a time: their number
    /// stays. `active`: a bit for each interval, by node.
    pub fn refer_only_in(&mut self, active: &[u32]) {
        let uses = std::mem::take(&mut self.uses);
        for (node, &active) in active.iter().enumerate() {
            let of_node = || uses.iter().filter(|used| usize::from(used.node) == node);
            let is_active = |used: &&Use| active >> used.interval & 1 == 1;
            let sum =
                |all: &mut dyn Iterator<Item = &Use>| all.map(|used| u64::from(used.count)).sum::<u64>();
            let (all, kept) = (sum(&mut of_node()), sum(&mut of_node().filter(is_active)));
            if kept == 0 {
                self.uses.extend(of_node());
                continue;
            }
            let (mut before, mut given) = (0, 0);
            self.uses.extend(of_node().filter(is_active).map(|used| {
                before += u64::from(used.count);
                let due = (u128::from(all) * u128::from(before) / u128::from(kept)) as u64;
                let count = (due - std::mem::replace(&mut given, due)).try_into().unwrap_or(u32::MAX);
                Use { count, ..*used }
            }));
        }
        self.uses.sort_by_key(|used| (used.interval, used.node));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::History;
    use crate::machine::Machine;
    use crate::policy::placement::Placement;
    use crate::why::facts::facts;

    #[test]
    fn a_node_that_waits_refers_to_nothing_meanwhile() {
        let mut active = Active::new(2, 2);
        for interval in [0, 4, 5] {
            active.turn(Node(0), interval, &[1 << 12 | 8, 1 << 12 | 16]);
        }
        let mut intervals = [0, 0];
        active.add_to(0, &mut intervals);
        assert_eq!(intervals, [0, 0]);
        active.add_to(1, &mut intervals);
        assert_eq!(intervals, [0b110001, 0]);

        let used = |interval, node, count| Use { interval, node, count };
        // 102 references of node 0 that were spread evenly, and those of node 1, of whose intervals nothing is known.
        let spread = (0..6).map(|interval| used(interval, 0, 17)).chain([used(3, 1, 7)]);
        let machine = Machine::builtin("two-socket").unwrap();
        let history = History::from_references(&[(0, 0, false)], 2);
        let costs = machine.costs(machine.page_size()).unwrap();
        let mut page = facts(&history, &costs, &Placement::FirstTouch).unwrap().remove(0);
        page.uses = spread.collect();
        page.refer_only_in(&intervals);
        assert_eq!(page.uses, [used(0, 0, 34), used(3, 1, 7), used(4, 0, 34), used(5, 0, 34)]);
    }
}
