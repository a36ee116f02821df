//! From references to page runs.

use super::store::{Spill, Store};
use super::{History, PageRun, SpillError};
use crate::ids::{Node, PageSize, Time};
use std::collections::HashMap;

/// Base-2 logarithm of the bytes of a frame, the granule of dense addresses in a trace.
const FRAME_LOG2: u32 = 12;
/// A page number that is not given yet.
const NONE: u32 = u32::MAX;

/// How a history is built.
pub struct Options {
    /// Page size of the history, whatever the recorded machine's was.
    pub page_size: PageSize,
    /// See [`PageRun`]; `Costs::read_gap` gives the largest that is exact for a machine.
    pub read_gap: u32,
    /// Packed runs kept in memory, in bytes; beyond it they go to `spill`.
    pub budget: u64,
    /// Where runs go beyond the budget; without it they stay in memory.
    pub spill: Option<Box<dyn Spill>>,
}

impl Default for Options {
    fn default() -> Options {
        Options { page_size: PageSize::KIB4, read_gap: 2, budget: 8 << 30, spill: None }
    }
}

/// Builds a [`History`]. Memory: 40 bytes a page for the run in progress, and the packed runs up to the budget.
pub struct HistoryBuilder {
    page_size: PageSize,
    read_gap: u32,
    granule_log2: u32,
    /// Page number of each granule (a frame, or a page where pages are smaller than frames).
    page_of: Vec<u32>,
    /// Numbers of pages that span frames, by (page base address, how often its frames were born before).
    groups: HashMap<(u64, u32), u32>,
    /// Births of each frame's virtual address so far, for pages larger than a frame.
    births: HashMap<u64, u32>,
    addresses: Vec<u64>,
    open: Vec<PageRun>,
    pub(super) store: Store,
    references: u64,
    duration: u64,
    since_check: u64,
}

impl HistoryBuilder {
    /// A builder without references.
    pub fn new(options: Options) -> HistoryBuilder {
        HistoryBuilder {
            page_size: options.page_size,
            read_gap: options.read_gap,
            granule_log2: options.page_size.log2().min(FRAME_LOG2),
            page_of: Vec::new(),
            groups: HashMap::new(),
            births: HashMap::new(),
            addresses: Vec::new(),
            open: Vec::new(),
            store: Store::new(options.budget, options.spill),
            references: 0,
            duration: 0,
            since_check: 0,
        }
    }

    /// For pages larger than a frame: says which virtual addresses the frames of the trace have, in frame order. Call
    /// it before the first reference.
    pub fn group_frames(&mut self, frames: &[u64]) {
        if self.page_size.log2() <= FRAME_LOG2 {
            return;
        }
        for &address in frames {
            let birth = self.births.entry(address).or_insert(0);
            let base = address & !(self.page_size.bytes() - 1);
            let next = self.groups.len() as u32;
            let group = *self.groups.entry((base, *birth)).or_insert(next);
            *birth += 1;
            self.page_of.push(group);
            if group == next {
                self.addresses.push(base);
            }
        }
        self.open = vec![PageRun::NONE; self.groups.len()];
    }

    /// Adds one reference of a thread on `node`; `address` is dense.
    #[inline]
    pub fn reference(&mut self, node: Node, time: Time, address: u64, write: bool) {
        let granule = (address >> self.granule_log2) as usize;
        let page = match self.page_of.get(granule) {
            Some(&page) if page != NONE => page,
            _ => self.new_page(granule),
        };
        self.references += 1;
        self.duration = time.0 + 1;
        if let Some(run) = self.open[page as usize].extend(node, time, write, self.read_gap) {
            self.close(page, &run);
        }
    }

    /// Adds references of one thread on `node` that follow one another in Time.
    #[inline]
    pub fn turn(
        &mut self,
        node: Node,
        first: Time,
        addresses: &[u64],
        writes: impl Iterator<Item = bool>,
    ) -> Result<(), SpillError> {
        for ((time, &address), write) in (first.0..).zip(addresses).zip(writes) {
            self.reference(node, Time(time), address, write);
        }
        if self.since_check > 1 << 16 {
            self.since_check = 0;
            self.store.spill_if_full()?;
        }
        Ok(())
    }

    #[cold]
    fn new_page(&mut self, granule: usize) -> u32 {
        if granule >= self.page_of.len() {
            self.page_of.resize((granule + 1).next_power_of_two().max(1024), NONE);
        }
        let page = self.open.len() as u32;
        self.page_of[granule] = page;
        // Until finish() knows the frames' virtual addresses, a page remembers its granule.
        self.addresses.push(granule as u64);
        self.open.push(PageRun::NONE);
        page
    }

    #[inline]
    fn close(&mut self, page: u32, run: &PageRun) {
        if run.references() > 0 {
            self.store.push(page, run);
            self.since_check += 1;
        }
    }

    /// Closes all runs. `frames`: the virtual address of each frame of the trace, in frame order.
    pub fn finish(mut self, frames: &[u64]) -> Result<History, SpillError> {
        let mut reads = 0;
        for page in 0..self.open.len() {
            let run = self.open[page];
            self.close(page as u32, &run);
        }
        self.store.spill_if_full()?;
        if self.page_size.log2() <= FRAME_LOG2 {
            let shift = FRAME_LOG2 - self.granule_log2;
            for address in &mut self.addresses {
                let (frame, part) = ((*address >> shift) as usize, *address & ((1 << shift) - 1));
                *address = frames.get(frame).copied().unwrap_or(0) + (part << self.granule_log2);
            }
        }
        for page in 0..self.addresses.len() as u32 {
            reads += self.store.page(crate::ids::Page(page))?.map(|run| run.reads()).sum::<u64>();
        }
        Ok(History {
            page_size: self.page_size,
            addresses: self.addresses,
            store: self.store,
            references: self.references,
            reads,
            duration: Time(self.duration),
        })
    }
}
