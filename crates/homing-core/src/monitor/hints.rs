//! Hint faults at a fixed rate: the mappings of a window of pages are taken away after every Nth reference, and the
//! next reference to such a page faults and tells who made it ([`crate::monitor::mapping`]). No performance
//! counters needed. Linux paces its scans by time, and so does the live engine, which is simulated apart
//! (`homing_session::simulated`).

use super::{Missed, Monitor, Poll, Reports, NO_HOME};
use crate::ids::{Page, Time};
use crate::monitor::mapping::{Mapping, Touch, Walk};

/// The scanner.
#[derive(Debug)]
pub struct HintFaults {
    /// References between two scans.
    every: u64,
    /// Pages of each scan.
    window: u32,
    walk: Walk,
    mappings: Vec<Mapping<Time>>,
    /// Pages that have a mapping to take away.
    mapped_pages: u64,
}

impl HintFaults {
    /// Scans `window` pages every time this many references of all CPUs have gone by.
    pub fn new(every: u64, window: u32, pages: u32) -> HintFaults {
        HintFaults {
            every: every.max(1),
            window: window.max(1),
            walk: Walk::default(),
            mappings: vec![Mapping::default(); pages as usize],
            mapped_pages: 0,
        }
    }
}

impl Monitor for HintFaults {
    fn tlb_miss(&mut self, miss: &Missed, reports: &mut Reports) {
        if let Touch::Hint(_) = self.mappings[miss.page as usize].touch() {
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
        let Poll { hierarchy, homes, time, .. } = poll;
        self.mapped_pages = homes.iter().filter(|&&home| home != NO_HOME).count() as u64;
        let mappings = &mut self.mappings;
        self.walk.around(mappings.len(), self.window.into(), |place| {
            let mapped = homes[place] != NO_HOME;
            if mapped {
                hierarchy.unmap(Page(place as u32));
                mappings[place].take_away(*time);
            }
            mapped
        });
    }
}
