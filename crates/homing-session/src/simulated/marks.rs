//! The mappings of a simulated process: scans take them away, references bring them back and fault.

use homing_core::cache::Addresses;
use homing_core::ids::{Micros, Page};
use homing_core::monitor::mapping::{Mapping, Touch};
use homing_core::monitor::{Missed, Monitor, Reports};
use homing_core::process::{name_regions, Class, Region};

/// Pages further apart than this are in two mappings: the reach of a page table of the last level.
const GAP: u64 = 2 << 20;

/// Mappings of pages, and the mappings of the process that hold them.
#[derive(Debug)]
pub(super) struct Marks {
    pages: Vec<Mapping<Micros>>,
    /// The region of each page.
    of_page: Vec<u32>,
    regions: Vec<Region>,
    /// Regions with a page that was referred to, and those that a scan has met.
    touched: Vec<bool>,
    met: Vec<bool>,
    scanned: bool,
    pub(super) faults: Faults,
}

/// Faults so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Faults {
    /// At pages whose mapping a scan had taken away.
    pub(super) hints: u64,
    /// At pages that nobody had referred to, before the first scan: the session is not told.
    pub(super) before: u64,
}

impl Marks {
    pub(super) fn new(addresses: &Addresses) -> Marks {
        let size = addresses.page_size().bytes();
        let all: Vec<u64> = (0..addresses.pages()).map(|page| addresses.address(Page(page))).collect();
        let mut sorted = all.clone();
        sorted.sort_unstable();
        let stretches = sorted.chunk_by(|a, b| b - a <= size + GAP);
        let mapping = |pages: &[u64]| {
            ("memory", pages[0], pages[pages.len() - 1].saturating_add(size), Class::Anonymous)
        };
        let regions = name_regions(stretches.map(mapping));
        let of_page = |address: &u64| regions.partition_point(|region| region.start <= *address) as u32 - 1;
        Marks {
            pages: vec![Mapping::default(); all.len()],
            of_page: all.iter().map(of_page).collect(),
            touched: vec![false; regions.len()],
            met: vec![false; regions.len()],
            regions,
            scanned: false,
            faults: Faults::default(),
        }
    }

    /// All mappings that are there now.
    pub(super) fn regions(&self) -> Vec<Region> {
        let touched = self.regions.iter().zip(&self.touched).filter(|(_, touched)| **touched);
        touched.map(|(region, _)| region.clone()).collect()
    }

    /// The mapping of that name.
    pub(super) fn named(&self, name: &str) -> Option<&Region> {
        self.regions.iter().find(|region| region.name == name)
    }

    /// The mapping of one page is taken away.
    pub(super) fn take_away(&mut self, page: Page, now: Micros) {
        self.pages[page.index()].take_away(now);
    }

    /// Pages that the next scan takes mappings from.
    pub(super) fn to_mark(&self) -> usize {
        let pages = self.pages.iter().zip(&self.of_page);
        pages.filter(|(mapping, region)| self.met[**region as usize] && **mapping != Mapping::None).count()
    }

    /// A scan of everything: says which pages have no mapping any more. What no scan has met before it leaves for the
    /// next (Linux 6.4 and later: `task_numa_work`).
    pub(super) fn scan(&mut self, now: Micros, mut unmap: impl FnMut(Page)) {
        for (page, mapping) in self.pages.iter_mut().enumerate() {
            let known = self.met[self.of_page[page] as usize];
            if known && *mapping != Mapping::None {
                mapping.take_away(now);
                unmap(Page(page as u32));
            }
        }
        self.met.clone_from(&self.touched);
        self.scanned = true;
    }
}

impl Monitor for Marks {
    fn tlb_miss(&mut self, miss: &Missed, reports: &mut Reports) {
        let page = miss.page as usize;
        match self.pages[page].touch() {
            Touch::Mapped => return,
            Touch::Hint(_) => self.faults.hints += 1,
            Touch::First => {
                self.touched[self.of_page[page] as usize] = true;
                if !self.scanned {
                    self.faults.before += 1;
                    return;
                }
            }
        }
        reports.interrupts += 1;
        reports.one(miss.cpu, miss.node, miss.page, false, 1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use homing_core::ids::{Node, PageSize, Time};

    #[test]
    fn a_scan_leaves_what_it_meets_for_the_first_time_and_every_page_faults_once() {
        let addresses = Addresses::new(PageSize::KIB4, &[0x5000, 0x4000, 0x4000_0000]);
        let mut marks = Marks::new(&addresses);
        let faults = |marks: &mut Marks, page| {
            let mut reports = Reports::default();
            let miss = Missed { cpu: 0, node: Node(0), page, time: Time(0) };
            (0..2).for_each(|_| marks.tlb_miss(&miss, &mut reports));
            reports.samples.len()
        };
        let scan = |marks: &mut Marks| {
            let mut unmapped = Vec::new();
            marks.scan(Micros(7), |page| unmapped.push(page.0));
            unmapped
        };
        assert_eq!((faults(&mut marks, 0), marks.faults.before), (0, 1), "before the first scan");
        assert_eq!((scan(&mut marks), marks.regions().len()), (vec![], 1));
        assert_eq!(faults(&mut marks, 1), 1, "made after it");
        assert_eq!(faults(&mut marks, 2), 1, "in a mapping that no scan has met");
        assert_eq!((scan(&mut marks), marks.regions().len()), (vec![0, 1], 2));
        assert_eq!((faults(&mut marks, 0), faults(&mut marks, 2), marks.faults.hints), (1, 0, 1));
        assert_eq!(marks.to_mark(), 3);
        assert_eq!(scan(&mut marks), [0, 1, 2]);
        assert_eq!(marks.regions()[0].name, "memory#0");
    }
}
