//! Dense frame numbers: from a 4 KiB page of the recorded process's virtual memory to its number.
//!
//! A table of two levels, as the hardware's own: a hash map of 2 MiB regions behind a small direct-mapped cache, and in
//! each region an array of 512 numbers.

use super::event::Event;
use super::format::FRAME_SHIFT;
use std::collections::HashMap;

const REGION_PAGES: usize = 512;
const CACHE: usize = 256;
/// The most regions with frames: 1 TiB of a program's memory, for which the tables take 3 GiB.
const MOST_REGIONS: usize = 1 << 19;
const NONE: u32 = u32::MAX;
/// The most frames of a trace: those of 2 TiB, each counted again where its mapping comes back.
pub(super) const MOST_FRAMES: u32 = 1 << 29;
/// mmap(2): the mapping replaces what was there.
const MAP_FIXED: u16 = 0x10;

/// What an event does to frames: addresses and lengths in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    /// Those of a range go away.
    Retired { address: u64, length: u64 },
    /// A mapping moves with them.
    Moved { old: u64, old_length: u64, new: u64, new_length: u64 },
}

/// The whole frames between two addresses.
fn retired_behind(kept: u64, end: u64) -> Change {
    let kept = kept.saturating_add((1 << FRAME_SHIFT) - 1) >> FRAME_SHIFT << FRAME_SHIFT;
    Change::Retired { address: kept, length: end.saturating_sub(kept) }
}

impl Change {
    pub(super) fn of(event: &Event) -> Option<Change> {
        Some(match *event {
            Event::Munmap { address, length } => Change::Retired { address, length },
            // Any other new mapping lies where nothing is; threads may even have used it before its event arrives.
            Event::Mmap { flags, address, length, .. } if flags & MAP_FIXED != 0 => {
                Change::Retired { address, length }
            }
            Event::Brk { old, new } if new < old => retired_behind(new, old),
            // It grew or shrank where it is: what is behind the shorter of the two goes away.
            Event::Mremap { old, old_length, new, new_length } if old == new => {
                let kept = new.saturating_add(old_length.min(new_length));
                let end = new.saturating_add(old_length.max(new_length));
                retired_behind(kept, end)
            }
            Event::Mremap { old, old_length, new, new_length } => {
                Change::Moved { old, old_length, new, new_length }
            }
            _ => return None,
        })
    }
}

/// Numbers frames in the order in which they are asked for; a retired frame's page gets a new number when it comes
/// back.
#[derive(Debug)]
pub struct FrameTable {
    regions: HashMap<u64, u32>,
    leaves: Vec<[u32; REGION_PAGES]>,
    /// (region, leaf) by the low bits of the region's number.
    cache: Box<[(u64, u32); CACHE]>,
    /// The page of each frame.
    pages: Vec<u64>,
    most_regions: usize,
}

impl Default for FrameTable {
    fn default() -> Self {
        FrameTable {
            regions: HashMap::new(),
            leaves: Vec::new(),
            cache: Box::new([(u64::MAX, 0); CACHE]),
            pages: Vec::new(),
            most_regions: MOST_REGIONS,
        }
    }
}

impl FrameTable {
    /// The frame of the page, which is numbered if it has none.
    #[inline]
    pub fn frame(&mut self, page: u64) -> u32 {
        let region = page / REGION_PAGES as u64;
        let slot = page as usize % REGION_PAGES;
        let (cached, leaf) = self.cache[region as usize % CACHE];
        if cached == region {
            let frame = self.leaves[leaf as usize][slot];
            if frame != NONE {
                return frame;
            }
        }
        self.frame_slow(page)
    }

    #[cold]
    fn frame_slow(&mut self, page: u64) -> u32 {
        let next = self.pages.len() as u32;
        let number = self.cell(page);
        if *number == NONE {
            *number = next;
            self.pages.push(page);
            return next;
        }
        *number
    }

    fn cell(&mut self, page: u64) -> &mut u32 {
        let region = page / REGION_PAGES as u64;
        let leaves = &mut self.leaves;
        let leaf = *self.regions.entry(region).or_insert_with(|| {
            leaves.push([NONE; REGION_PAGES]);
            leaves.len() as u32 - 1
        });
        self.cache[region as usize % CACHE] = (region, leaf);
        &mut self.leaves[leaf as usize][page as usize % REGION_PAGES]
    }

    /// Number of frames so far.
    pub fn len(&self) -> u32 {
        self.pages.len() as u32
    }

    /// Whether more regions have frames than a trace can have. Numbers go on, so that whoever asks can end what it
    /// has begun.
    pub fn is_full(&self) -> bool {
        self.leaves.len() > self.most_regions || self.pages.len() > MOST_FRAMES as usize
    }

    /// Whether no frame was numbered yet.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// The pages (virtual address / 4096) of the frames from `first` on, as they were when numbered.
    pub fn pages_from(&self, first: u32) -> &[u64] {
        &self.pages[first as usize..]
    }

    /// Does what an event does to them. Returns whether any frame was touched.
    pub(super) fn change(&mut self, change: Change) -> bool {
        match change {
            Change::Retired { address, length } => self.retire(address, length),
            Change::Moved { old, old_length, new, new_length } => {
                self.remap(old, old_length, new, new_length)
            }
        }
    }

    /// Retires the frames of all pages that overlap `length` bytes at `address`. Returns whether there were any.
    pub fn retire(&mut self, address: u64, length: u64) -> bool {
        let mut any = false;
        self.each(address, length, |number, _| any |= std::mem::replace(number, NONE) != NONE);
        any
    }

    /// Gives the frames of a mapping that moves to its new address; frames there before are retired, and so are those
    /// beyond `new_length`. Returns whether any frame was touched.
    pub fn remap(&mut self, old: u64, old_length: u64, new: u64, new_length: u64) -> bool {
        let mut moved = Vec::new();
        self.each(old, old_length, |number, page| {
            if *number != NONE {
                moved.push((page - (old >> FRAME_SHIFT), std::mem::replace(number, NONE)));
            }
        });
        let any = self.retire(new, new_length);
        let pages = new_length.div_ceil(1 << FRAME_SHIFT);
        for &(index, number) in moved.iter().filter(|m| m.0 < pages) {
            if let Some(page) = (new >> FRAME_SHIFT).checked_add(index) {
                *self.cell(page) = number;
            }
        }
        any || !moved.is_empty()
    }

    /// Calls `visit` for the pages of a range that lie in regions with any frame.
    fn each(&mut self, address: u64, length: u64, mut visit: impl FnMut(&mut u32, u64)) {
        if length == 0 {
            return;
        }
        let first = address >> FRAME_SHIFT;
        let last = address.saturating_add(length - 1) >> FRAME_SHIFT;
        let (low, high) = (first / REGION_PAGES as u64, last / REGION_PAGES as u64);
        let mut regions: Vec<(u64, u32)> = if (high - low) as usize >= self.regions.len() {
            self.regions.iter().map(|(&r, &l)| (r, l)).filter(|(r, _)| (low..=high).contains(r)).collect()
        } else {
            (low..=high).filter_map(|r| Some((r, *self.regions.get(&r)?))).collect()
        };
        regions.sort_unstable();
        for (region, leaf) in regions {
            let base = region * REGION_PAGES as u64;
            let from = first.max(base) - base;
            let to = last.min(base + REGION_PAGES as u64 - 1) - base;
            for slot in from..=to {
                visit(&mut self.leaves[leaf as usize][slot as usize], base + slot);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_numbered_in_order_of_first_reference() {
        let mut table = FrameTable::default();
        let pages = [7, 1 << 40, 7, 8, (1 << 52) - 1, 0, 1 << 40];
        let numbers: Vec<_> = pages.iter().map(|&p| table.frame(p)).collect();
        assert_eq!(numbers, [0, 1, 0, 2, 3, 4, 1]);
        assert_eq!(table.pages_from(3), [(1 << 52) - 1, 0]);
    }

    #[test]
    fn a_table_says_when_it_is_full() {
        let mut table = FrameTable { most_regions: 2, ..FrameTable::default() };
        assert!([0, 1, 511, 512].iter().all(|&page| table.frame(page) < 4 && !table.is_full()));
        assert_eq!((table.frame(1 << 40), table.is_full()), (4, true));
    }

    #[test]
    fn a_mapping_that_comes_back_is_new() {
        let mut table = FrameTable::default();
        (0..1000).for_each(|p| assert_eq!(table.frame(p), p as u32));
        assert!(table.retire(500 << 12, 100 << 12));
        assert!(!table.retire(500 << 12, 100 << 12));
        assert!(!table.retire(1 << 60, u64::MAX));
        assert_eq!(table.frame(499), 499);
        assert_eq!(table.frame(500), 1000);
        assert_eq!(table.frame(599), 1001);
        assert_eq!(table.frame(600), 600);
    }

    #[test]
    fn a_mapping_that_moves_keeps_its_frames() {
        let mut table = FrameTable::default();
        (0..600).for_each(|p| assert_eq!(table.frame(p), p as u32));
        table.frame(1 << 30);
        assert!(table.remap(100 << 12, 500 << 12, 1 << 42, 450 << 12));
        assert_eq!(table.frame(1 << 30), 100, "moved over an existing mapping");
        assert_eq!(table.frame((1 << 30) + 449), 549);
        assert_eq!(table.frame((1 << 30) + 450), 601, "cut off");
        assert_eq!(table.frame(100), 602);
        assert_eq!(table.frame(99), 99);
        assert!(table.remap(0, 99 << 12, 0, 10 << 12), "shrunk in place");
        assert_eq!((table.frame(9), table.frame(10)), (9, 603));
    }
}
