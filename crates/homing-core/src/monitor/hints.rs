//! Hint faults: the kernel takes the mappings of a window of pages away again and again; the next reference to such a
//! page faults and tells who made it (Linux NUMA balancing, kernel/sched/fair.c: task_numa_work). No performance
//! counters needed.

use super::{Missed, Monitor, Poll, Reports, NO_HOME};
use crate::ids::Page;

/// The scanner.
#[derive(Debug)]
pub struct HintFaults {
    /// References between two scans.
    every: u64,
    /// Pages of each scan.
    window: u32,
    next: u32,
    unmapped: Vec<bool>,
    /// Pages that have a mapping to take away.
    mapped_pages: u64,
}

impl HintFaults {
    /// Scans `window` pages every time this many references of all CPUs have gone by.
    pub fn new(every: u64, window: u32, pages: u32) -> HintFaults {
        HintFaults {
            every: every.max(1),
            window: window.max(1),
            next: 0,
            unmapped: vec![false; pages as usize],
            mapped_pages: 0,
        }
    }
}

impl Monitor for HintFaults {
    fn tlb_miss(&mut self, miss: &Missed, reports: &mut Reports) {
        if std::mem::take(&mut self.unmapped[miss.page as usize]) {
            reports.interrupts += 1;
            // One fault is all that is seen of the time since the last scan of the page.
            let weight = (self.mapped_pages as f64 / f64::from(self.window)).max(1.0);
            reports.one(miss.cpu, miss.node, miss.page, false, weight);
        }
    }

    fn poll_every(&self) -> Option<u64> {
        Some(self.every)
    }

    fn poll(&mut self, poll: &mut Poll, _: &mut Reports) {
        let pages = self.unmapped.len() as u32;
        self.mapped_pages = poll.homes.iter().filter(|&&home| home != NO_HOME).count() as u64;
        let (mut left, mut looked) = (self.window, 0);
        while left > 0 && looked < pages {
            let page = self.next;
            self.next = (self.next + 1) % pages;
            looked += 1;
            if poll.homes[page as usize] != NO_HOME {
                poll.hierarchy.unmap(Page(page));
                self.unmapped[page as usize] = true;
                left -= 1;
            }
        }
    }
}
