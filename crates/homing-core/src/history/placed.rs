//! Pages that the kernel places for a thread before the program refers to them: what read(2) and other calls write to
//! fresh memory, and mappings that are populated when they are made (MAP_POPULATE, MAP_LOCKED). First touch puts them
//! on that thread's node, whoever uses them first.

use super::ranges::Ranges;
use crate::ids::{Node, PageSize, Time};
use crate::trace::Event;
use std::collections::HashMap;
use std::ops::Range;

/// mmap(2).
const MAP_FIXED: u16 = 0x10;
const MAP_LOCKED: u16 = 0x2000;
const MAP_POPULATE: u16 = 0x8000;

/// What an event does to pages that nothing has referred to yet, in bytes of virtual memory.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Change {
    /// The kernel places those that are nowhere yet.
    Placed(Node, Range<u64>),
    /// They go away.
    Gone(Range<u64>),
    /// They move with their mapping.
    Moved(Range<u64>, u64),
}

fn range(address: u64, length: u64) -> Range<u64> {
    address..address.saturating_add(length)
}

impl Change {
    /// In the order in which they happen.
    fn of(event: &Event, node: impl FnOnce() -> Node) -> [Option<Change>; 2] {
        match *event {
            Event::KernelAccess { address, bytes, write: true } if bytes > 0 => {
                [Some(Change::Placed(node(), range(address, bytes))), None]
            }
            Event::Mmap { protection, flags, address, length, .. } => {
                let fixed = flags & MAP_FIXED != 0;
                let populated = protection != 0 && flags & (MAP_POPULATE | MAP_LOCKED) != 0;
                [
                    fixed.then(|| Change::Gone(range(address, length))),
                    populated.then(|| Change::Placed(node(), range(address, length))),
                ]
            }
            Event::Munmap { address, length } => [Some(Change::Gone(range(address, length))), None],
            Event::Brk { old, new } if new < old => [Some(Change::Gone(new..old)), None],
            Event::Mremap { old, old_length, new, new_length } => {
                let kept = old_length.min(new_length);
                let moved = (old != new).then(|| Change::Moved(range(old, kept), new));
                let behind = old.saturating_add(kept)..old.saturating_add(old_length);
                [moved, (!behind.is_empty()).then_some(Change::Gone(behind))]
            }
            _ => [None, None],
        }
    }
}

/// The pages that the kernel has placed, as long as their mappings stay.
#[derive(Clone, Debug)]
pub struct Placed {
    log2: u32,
    /// Of pages, by their numbers.
    ranges: Ranges<Node>,
}

impl Placed {
    /// None yet.
    pub fn new(page_size: PageSize) -> Placed {
        Placed { log2: page_size.log2(), ranges: Ranges::default() }
    }

    /// Takes an event of a thread on `node`.
    pub fn event(&mut self, event: &Event, node: impl FnOnce() -> Node) {
        Change::of(event, node).iter().flatten().for_each(|change| {
            self.apply(change);
        });
    }

    /// The node that the kernel has placed the page of an address on; none if it has not.
    pub fn node(&self, address: u64) -> Option<Node> {
        self.ranges.get(address >> self.log2)
    }

    /// Whether anything has changed.
    fn apply(&mut self, change: &Change) -> bool {
        match change {
            Change::Placed(node, bytes) => self.ranges.fill(self.touched(bytes), *node),
            Change::Gone(bytes) => !self.ranges.remove(self.whole(bytes)).is_empty(),
            Change::Moved(bytes, to) => {
                let moved = self.ranges.remove(self.whole(bytes));
                let by = (to >> self.log2).wrapping_sub(bytes.start >> self.log2);
                for (pages, node) in &moved {
                    self.ranges.fill(pages.start.wrapping_add(by)..pages.end.wrapping_add(by), *node);
                }
                !moved.is_empty()
            }
        }
    }

    /// The pages that have any of these bytes.
    fn touched(&self, bytes: &Range<u64>) -> Range<u64> {
        bytes.start >> self.log2..bytes.end.div_ceil(1 << self.log2)
    }

    /// The pages that have none but these bytes.
    fn whole(&self, bytes: &Range<u64>) -> Range<u64> {
        let start = bytes.start.div_ceil(1 << self.log2);
        start..(bytes.end >> self.log2).max(start)
    }
}

/// What events did to pages, in Time order, as long as pages are not known.
#[derive(Clone, Debug)]
pub(super) struct Log {
    /// Since where this log begins.
    now: Placed,
    changes: Vec<(Time, Change)>,
}

impl Log {
    pub(super) fn new(page_size: PageSize) -> Log {
        Log { now: Placed::new(page_size), changes: Vec::new() }
    }

    /// Takes an event of a thread on `node`. The next reference has this Time or a later one.
    pub(super) fn event(&mut self, time: Time, event: &Event, node: impl FnOnce() -> Node) {
        for change in Change::of(event, node).into_iter().flatten() {
            // What is gone may have been placed before this log began.
            if self.now.apply(&change) || !matches!(change, Change::Placed(..)) {
                self.changes.push((time, change));
            }
        }
    }

    /// Adds what comes after this log.
    pub(super) fn append(&mut self, later: Log) {
        self.changes.extend(later.changes);
    }

    /// The nodes of the pages that the kernel placed before their first references. `pages`: the Time of that, and the
    /// address.
    pub(super) fn makers(self, pages: impl Iterator<Item = (Time, u64)>) -> HashMap<u32, Node> {
        let mut makers = HashMap::new();
        if !self.changes.iter().any(|(_, change)| matches!(change, Change::Placed(..))) {
            return makers;
        }
        let mut placed = Placed { ranges: Ranges::default(), ..self.now };
        let mut changes = self.changes.into_iter().peekable();
        let mut pages: Vec<(Time, u32, u64)> =
            pages.zip(0..).map(|((time, address), page)| (time, page, address)).collect();
        pages.sort_unstable();
        for (first, page, address) in pages {
            while let Some((_, change)) = changes.next_if(|&(time, _)| time <= first) {
                placed.apply(&change);
            }
            makers.extend(placed.node(address).map(|node| (page, node)));
        }
        makers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAGE: u64 = 4096;

    fn written(page: u64, pages: u64) -> Event {
        Event::KernelAccess { address: page * PAGE + 8, bytes: pages * PAGE - 16, write: true }
    }

    fn mapped(page: u64, pages: u64, flags: u16) -> Event {
        let name = crate::trace::NameId(0);
        let (address, length) = (page * PAGE, pages * PAGE);
        Event::Mmap { protection: 3, flags, address, length, offset: 0, name }
    }

    fn nodes(placed: &Placed, pages: Range<u64>) -> Vec<Option<u16>> {
        pages.map(|page| placed.node(page * PAGE).map(|node| node.0)).collect()
    }

    #[test]
    fn the_first_who_makes_the_kernel_place_a_page_has_made_it() {
        let mut placed = Placed::new(PageSize::KIB4);
        let mut event = |event: Event, node| placed.event(&event, || Node(node));
        event(written(2, 2), 1);
        event(written(0, 6), 0);
        event(Event::KernelAccess { address: 9 * PAGE, bytes: PAGE, write: false }, 1);
        event(mapped(7, 1, MAP_POPULATE), 1);
        event(mapped(8, 1, 0), 1);
        assert_eq!(
            nodes(&placed, 0..10),
            [Some(0), Some(0), Some(1), Some(1), Some(0), Some(0), None, Some(1), None, None]
        );
        placed.event(&Event::Munmap { address: PAGE, length: 2 * PAGE }, || Node(0));
        placed.event(&mapped(1, 1, MAP_FIXED | MAP_LOCKED), || Node(2));
        let (old, old_length) = (4 * PAGE, 2 * PAGE);
        placed.event(&Event::Mremap { old, old_length, new: 20 * PAGE, new_length: PAGE }, || Node(0));
        assert_eq!(nodes(&placed, 0..6), [Some(0), Some(2), None, Some(1), None, None]);
        assert_eq!(nodes(&placed, 19..22), [None, Some(0), None]);
    }

    #[test]
    fn a_page_is_made_by_what_came_before_its_first_reference() {
        let mut log = Log::new(PageSize::KIB4);
        log.event(Time(0), &written(1, 1), || Node(1));
        log.event(Time(5), &written(2, 1), || Node(1));
        log.event(Time(6), &Event::Munmap { address: PAGE, length: PAGE }, || Node(0));
        let mut later = Log::new(PageSize::KIB4);
        later.event(Time(9), &Event::Munmap { address: 2 * PAGE, length: PAGE }, || Node(0));
        log.append(later);
        // The page at 1 before it goes and after; that at 2 too early, in time, and after it went.
        let pages = [(0, 1), (7, 1), (4, 2), (5, 2), (9, 2)].map(|(time, page)| (Time(time), page * PAGE));
        assert_eq!(log.makers(pages.into_iter()), HashMap::from([(0, Node(1)), (3, Node(1))]));
    }

    proptest! {
        #[test]
        fn ranges_are_as_page_by_page(
            changes in prop::collection::vec((0..4u8, 0..40u64, 1..12u64, 0..40u64), 1..60),
        ) {
            let mut placed = Placed::new(PageSize::KIB4);
            let mut model = [None; 60];
            for (number, (what, first, length, to)) in (0..).zip(changes) {
                let (bytes, node) = (first * PAGE..(first + length) * PAGE, Node(number));
                let pages = first as usize..(first + length) as usize;
                let change = match what {
                    0 | 1 => {
                        model[pages].iter_mut().for_each(|page| *page = page.or(Some(number)));
                        Change::Placed(node, bytes)
                    }
                    2 => {
                        model[pages].fill(None);
                        Change::Gone(bytes)
                    }
                    _ => {
                        let moved = model[pages.clone()].to_vec();
                        model[pages].fill(None);
                        let there = model[to as usize..].iter_mut().zip(moved);
                        there.for_each(|(page, moved)| *page = page.or(moved));
                        Change::Moved(bytes, to * PAGE)
                    }
                };
                placed.apply(&change);
                prop_assert_eq!(nodes(&placed, 0..60), model);
            }
        }
    }
}
