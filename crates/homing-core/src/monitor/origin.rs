//! The Origin 2000's reference counters: for each page and node 11 bits in hardware, which the kernel adds to 32-bit
//! counters of its own when one overflows (Nikolopoulos et al. 2000, section 4). They count all transactions that miss
//! the second level; nodes, not processors.

use super::{Monitor, Observed, Poll, Reports, Seen};
use crate::ids::Node;
use std::collections::BTreeMap;

/// One more than what a hardware counter holds.
const OVERFLOW: u32 = 1 << 11;

#[derive(Debug, Clone, Copy, Default)]
struct Counter {
    hardware: u32,
    software: u32,
    /// The sum at the last reading.
    read: u64,
}

/// Counters by page and node.
#[derive(Debug, Default)]
pub struct Counters {
    pages: BTreeMap<u32, BTreeMap<Node, Counter>>,
}

impl Monitor for Counters {
    fn transaction(&mut self, seen: &Seen, reports: &mut Reports) {
        if !seen.kind.is_demand() {
            return;
        }
        let page = self.pages.entry(seen.page).or_default();
        let counter = page.entry(seen.node).or_default();
        counter.hardware += 1;
        if counter.hardware == OVERFLOW {
            reports.interrupts += 1;
            // The interrupt takes the counters of all nodes of the page along.
            for counter in page.values_mut() {
                counter.software = counter.software.saturating_add(std::mem::take(&mut counter.hardware));
            }
        }
    }

    fn interval_end(&mut self, _: &mut Poll, reports: &mut Reports) {
        for (&page, nodes) in &mut self.pages {
            for (&node, counter) in nodes {
                let sum = u64::from(counter.hardware) + u64::from(counter.software);
                let reads = sum - std::mem::replace(&mut counter.read, sum);
                if reads > 0 {
                    reports.samples.push(Observed { cpu: None, node, page, reads, writes: 0, weight: 1.0 });
                }
            }
        }
    }
}
