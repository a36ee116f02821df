//! Which pages come next: those that are in memory, part after part, round after round.

use super::parts::{self, Range, Segment, HUGE, PAGE};
use super::shared::{SEGMENTS, UNITS};
use crate::pagemap::PageMap;
use crate::proc::Pid;
use std::io;

/// How often the kernel is asked for one plan, at some thousand pages each: there may be much that is only reserved.
const QUESTIONS: usize = 64;

/// Goes round the memory of its own process.
#[derive(Debug)]
pub struct Planner {
    map: PageMap,
    /// Where the next part begins.
    next: u64,
}

impl Planner {
    /// Begins at the lowest address.
    ///
    /// # Errors
    /// If `/proc/self/pagemap` cannot be read.
    pub fn new() -> io::Result<Planner> {
        Ok(Planner { map: PageMap::open(Pid(std::process::id() as i32))?, next: 0 })
    }

    /// The next part of what is in the areas, or of all memory where there are none, and whether it is the last one of
    /// this round.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub fn next(&mut self, areas: &[Range]) -> io::Result<(Vec<Segment>, bool)> {
        let maps = std::fs::read("/proc/self/maps")?;
        let mut ranges = Vec::new();
        if parts::eligible(&maps, |range| ranges.push(range)).is_none() {
            ranges.clear();
        }
        let ranges = within(&ranges, areas);
        let mut part = Part::default();
        let mut questions = 0;
        for (begin, end) in ranges.into_iter().filter(|range| range.1 > self.next) {
            let mut at = begin.max(self.next);
            while at < end {
                if part.is_full() || questions == QUESTIONS {
                    self.next = at;
                    return Ok((part.segments, false));
                }
                questions += 1;
                let mut found = Vec::new();
                let to = self.map.present(at, end.min(at + UNITS as u64 * PAGE), &mut found)?;
                at = part.take(&found, (begin, end), |address| self.is_huge(address)).unwrap_or(to);
            }
        }
        self.next = 0;
        Ok((part.segments, true))
    }

    /// Kernels before 6.7 do not tell: then pages are taken for small ones.
    fn is_huge(&self, address: u64) -> bool {
        self.map.is_huge(address).unwrap_or(false)
    }
}

/// What of the ranges is in the areas, whole pages.
fn within(ranges: &[Range], areas: &[Range]) -> Vec<Range> {
    if areas.is_empty() {
        return ranges.to_vec();
    }
    let pages = |area: &Range| (area.0 & !(PAGE - 1), area.1.saturating_add(PAGE - 1) & !(PAGE - 1));
    let common = |a: Range, b: Range| (a.0.max(b.0), a.1.min(b.1));
    let mut found: Vec<Range> = ranges
        .iter()
        .flat_map(|range| areas.iter().map(move |area| common(*range, pages(area))))
        .filter(|range| range.0 < range.1)
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

#[derive(Debug, Default)]
struct Part {
    segments: Vec<Segment>,
    units: u64,
}

impl Part {
    fn is_full(&self) -> bool {
        self.units >= UNITS as u64 || self.segments.len() >= SEGMENTS / 2
    }

    /// Adds pages of a range. Returns where to go on, if that is not behind all of them.
    fn take(&mut self, pages: &[u64], range: Range, is_huge: impl Fn(u64) -> bool) -> Option<u64> {
        let mut behind = 0;
        for &page in pages.iter() {
            if page < behind {
                continue;
            }
            if self.is_full() {
                return Some(page);
            }
            let block = page & !(HUGE - 1);
            // What is known of a block holds for all of it.
            let known = self.segments.last().is_some_and(|last| last.unit == PAGE && last.end > block);
            let whole = range.0 <= block && block + HUGE <= range.1;
            let huge = whole && !known && is_huge(page);
            let unit = if huge { HUGE } else { PAGE };
            let start = if huge { block } else { page };
            self.add(start, unit);
            behind = start + unit;
        }
        // A huge page reaches beyond what was asked for.
        pages.last().filter(|last| behind > **last + PAGE).map(|_| behind)
    }

    fn add(&mut self, start: u64, unit: u64) {
        self.units += 1;
        match self.segments.last_mut() {
            Some(last) if last.unit == unit && last.end == start => last.end += unit,
            _ => self.segments.push(Segment { start, end: start + unit, unit }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_become_segments_and_huge_ones_are_whole() {
        let mut part = Part::default();
        let pages: Vec<u64> = [0, 1, 2, 5].iter().map(|page| page * PAGE).collect();
        assert_eq!(part.take(&pages, (0, HUGE), |_| false), None);
        let segment = |start, end, unit| Segment { start, end, unit };
        assert_eq!(part.segments, [segment(0, 3 * PAGE, PAGE), segment(5 * PAGE, 6 * PAGE, PAGE)]);
        let pages: Vec<u64> = (0..4).map(|page| 2 * HUGE + page * PAGE).collect();
        assert_eq!(part.take(&pages, (2 * HUGE, 4 * HUGE), |_| true), Some(3 * HUGE));
        assert_eq!((part.segments[2], part.units), (segment(2 * HUGE, 3 * HUGE, HUGE), 5));
        let many: Vec<u64> = (0..2000).map(|page| 8 * HUGE + page * PAGE).collect();
        assert_eq!(part.take(&many, (8 * HUGE, 16 * HUGE), |_| false), Some(8 * HUGE + 1019 * PAGE));
        assert!(part.is_full());
    }

    #[test]
    fn areas_are_whole_pages_of_what_may_be_protected() {
        let ranges = [(0x1000, 0x9000), (0x20000, 0x30000)];
        assert_eq!(within(&ranges, &[]), ranges);
        assert_eq!(within(&ranges, &[(0x8fff, 0x2_0001)]), [(0x8000, 0x9000), (0x20000, 0x21000)]);
        assert_eq!(within(&ranges, &[(0x10000, 0x11000)]), []);
    }
}
