//! Access bits: hardware sets a page's bit when it loads the translation; software clears it and looks again later, one
//! page for each region (Linux DAMON). A bit does not tell who: per-node page tables are assumed (Mitosis, ASPLOS
//! 2020), with one bit a page and node.

use super::{Missed, Monitor, Observed, Poll, Reports, NO_HOME};
use crate::ids::{Node, Page};
use std::collections::BTreeSet;

/// Regions of equal length, and the page of each that is watched now.
#[derive(Debug)]
pub struct AccessBits {
    every: u64,
    region: u32,
    round: u32,
    set: BTreeSet<(u32, Node)>,
    watched: Vec<bool>,
}

impl AccessBits {
    /// References of all CPUs from one look to the next, at one page of each `region` pages.
    pub fn new(every: u64, region: u32, pages: u32) -> AccessBits {
        AccessBits {
            every: every.max(1),
            region: region.max(1),
            round: 0,
            set: BTreeSet::new(),
            watched: vec![false; pages as usize],
        }
    }
}

impl Monitor for AccessBits {
    fn tlb_miss(&mut self, miss: &Missed, _: &mut Reports) {
        if self.watched[miss.page as usize] {
            self.set.insert((miss.page, miss.node));
        }
    }

    fn poll_every(&self) -> Option<u64> {
        Some(self.every)
    }

    fn poll(&mut self, poll: &mut Poll, reports: &mut Reports) {
        let pages = self.watched.len() as u32;
        for (page, node) in std::mem::take(&mut self.set) {
            let first = page / self.region * self.region;
            for page in (first..pages.min(first + self.region)).filter(|&p| poll.homes[p as usize] != NO_HOME)
            {
                reports.samples.push(Observed { cpu: None, node, page, reads: 1, writes: 0, weight: 1.0 });
            }
        }
        self.watched.fill(false);
        // Another page of each region, in an order that visits all.
        let step = self.round % self.region;
        self.round += 1;
        for page in (step..pages).step_by(self.region as usize) {
            if poll.homes[page as usize] != NO_HOME {
                self.watched[page as usize] = true;
                poll.hierarchy.unmap(Page(page));
            }
        }
    }
}
