//! References that go no further than the first level of TLB and cache, which are most of them: where the lines that a
//! CPU referred to lately are in both, so that such a reference takes a few comparisons and two stores and no search.

use super::stamped::{tag, Stamped};
use crate::trace::Kind as Access;

/// Lines that are remembered for a CPU: four times as many as first-level caches mostly hold, since two can want one
/// place.
const LINES: usize = 2048;
/// No line of a trace has this number.
const NONE: u32 = u32::MAX;

/// Where a line of the trace's dense addresses was found. It may not be there any more.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// The line's number, by dense addresses.
    number: u32,
    /// Tags of the physical line and of its page.
    tag: u32,
    page_tag: u32,
    /// Their slots in the cache and in the TLB.
    slot: u16,
    page_slot: u16,
}

/// Where a CPU's last lines are.
#[derive(Clone, Debug)]
pub(super) struct Quick {
    lines: Box<[Known; LINES]>,
    line_log2: u32,
}

impl Quick {
    /// Nothing is known.
    pub fn new(line_log2: u32) -> Quick {
        let none = Known { number: NONE, tag: 0, page_tag: 0, slot: 0, page_slot: 0 };
        Quick { lines: vec![none; LINES].try_into().expect("LINES entries"), line_log2 }
    }

    /// False if the reference to this address is certainly not quick.
    #[inline]
    pub fn knows(&self, address: u64) -> bool {
        let number = (address >> self.line_log2) as u32;
        self.lines[number as usize % LINES].number == number
    }

    /// How many references from the first on are quick: to a page in the TLB and a line in the cache, that may be
    /// written if it is.
    #[inline]
    pub fn serve(
        &self,
        tlb: &mut Stamped,
        cache: &mut Stamped,
        addresses: &[u64],
        accesses: &[Access],
    ) -> usize {
        match self.line_log2 {
            // By far the most usual one: shifts by what is not known take three times as long.
            6 => self.serve_lines(6, tlb, cache, addresses, accesses),
            log2 => self.serve_lines(log2, tlb, cache, addresses, accesses),
        }
    }

    #[inline(always)]
    fn serve_lines(
        &self,
        line_log2: u32,
        tlb: &mut Stamped,
        cache: &mut Stamped,
        addresses: &[u64],
        accesses: &[Access],
    ) -> usize {
        let line = 1u64 << line_log2;
        // Only the order within each of them counts.
        let clock = tlb.clock.max(cache.clock) + 1;
        let (entries, used) = cache.slots();
        let (pages, pages_used) = tlb.slots();
        let mut served = 0;
        for (&address, &access) in addresses.iter().zip(accesses) {
            let number = (address >> line_log2) as u32;
            let known = &self.lines[number as usize % LINES];
            let (slot, page_slot) = (usize::from(known.slot), usize::from(known.page_slot));
            let entry = entries[slot] | u32::from(!access.is_write());
            let within = (address & (line - 1)) + access.last() < line;
            if known.number != number || entry != known.tag || pages[page_slot] != known.page_tag || !within {
                break;
            }
            used[slot] = clock + served as u64;
            pages_used[page_slot] = clock + served as u64;
            served += 1;
        }
        (tlb.clock, cache.clock) = (clock + served as u64, clock + served as u64);
        served
    }

    /// The line at an address of the trace is line `line` of memory, in that slot of the cache, and its page is in that
    /// of the TLB.
    #[inline]
    pub fn learn(&mut self, address: u64, (line, slot): (u32, usize), (page, page_slot): (u32, usize)) {
        // A first level of more slots than are counted here has others than the first looked for each time.
        let (Ok(slot), Ok(page_slot)) = (u16::try_from(slot), u16::try_from(page_slot)) else { return };
        let number = (address >> self.line_log2) as u32;
        let known = Known { number, tag: tag(line), page_tag: tag(page), slot, page_slot };
        self.lines[number as usize % LINES] = known;
    }

    /// Lines of a granule of dense addresses are elsewhere from now on.
    pub fn forget(&mut self, address: u64, bytes: u64) {
        let (from, to) = (address >> self.line_log2, (address + bytes - 1) >> self.line_log2);
        for number in from..=to {
            let known = &mut self.lines[number as usize % LINES];
            if u64::from(known.number) == number {
                known.number = NONE;
            }
        }
    }
}
