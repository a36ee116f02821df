//! What a scan does to a page, and what a hint fault is: one definition for the live session's simulation
//! (`homing_session::simulated`), the scanner at a fixed rate ([`crate::monitor::hints`]) and the kernel's own
//! balancing ([`crate::policy::linux`]). They differ in when they scan, in how much, and in what they make of a fault.
//!
//! A scan walks over the address space and takes the mappings of pages away. The next access to such a page faults,
//! whoever makes it, and maps the page again for all (Linux, kernel/sched/fair.c: `task_numa_work`; mm/memory.c:
//! `do_numa_page`). A page that was never accessed has no mapping; its first access faults as well, and is no hint.

use serde::{Deserialize, Serialize};

/// The mapping of a page; `T` is what time is measured in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mapping<T> {
    /// The page was never accessed.
    #[default]
    None,
    /// Accesses do not fault.
    Mapped,
    /// A scan took it away then: the next access faults.
    Taken(T),
}

/// What an access found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch<T> {
    /// It did not fault.
    Mapped,
    /// It made the page.
    First,
    /// A hint fault: a scan had taken the mapping away then.
    Hint(T),
}

impl<T: Copy> Mapping<T> {
    /// A scan comes by. A mapping that it already took away counts from now.
    pub fn take_away(&mut self, now: T) {
        *self = Mapping::Taken(now);
    }

    /// An access, after which the page is mapped.
    #[inline]
    pub fn touch(&mut self) -> Touch<T> {
        match std::mem::replace(self, Mapping::Mapped) {
            Mapping::None => Touch::First,
            Mapping::Mapped => Touch::Mapped,
            Mapping::Taken(at) => Touch::Hint(at),
        }
    }
}

/// Where in the address space a scanner is, and how often it has come to the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Walk {
    next: usize,
    passes: u64,
}

impl Walk {
    /// Times that the scanner came to the end.
    pub fn passes(&self) -> u64 {
        self.passes
    }

    /// One scan, which ends at the end of the address space at the latest: calls `take` for each next one of that many
    /// pages until it has said `most` times that there was a mapping. True if the pass is over.
    pub fn to_the_end(&mut self, pages: usize, most: u64, mut take: impl FnMut(usize) -> bool) -> bool {
        let mut left = most;
        while left > 0 && self.next < pages {
            left -= u64::from(take(self.next));
            self.next += 1;
        }
        self.came_to_the_end(pages)
    }

    /// As [`Walk::to_the_end`], but goes on at the beginning, once round at most.
    pub fn around(&mut self, pages: usize, most: u64, mut take: impl FnMut(usize) -> bool) {
        let (mut left, mut looked) = (most, 0);
        while left > 0 && looked < pages {
            left -= u64::from(take(self.next));
            (self.next, looked) = (self.next + 1, looked + 1);
            self.came_to_the_end(pages);
        }
    }

    fn came_to_the_end(&mut self, pages: usize) -> bool {
        let over = self.next >= pages;
        if over {
            self.next = 0;
            self.passes += 1;
        }
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_access_makes_a_page_and_the_next_after_a_scan_is_a_hint_fault() {
        let mut mapping = Mapping::default();
        assert_eq!((mapping.touch(), mapping.touch()), (Touch::First, Touch::Mapped));
        mapping.take_away(5);
        mapping.take_away(7);
        assert_eq!((mapping.touch(), mapping.touch()), (Touch::Hint(7), Touch::Mapped));
    }

    /// Three scans of at most two mappings, among five pages of which one has none.
    fn three_scans(mut scan: impl FnMut(&mut Walk, &mut Vec<usize>)) -> (Vec<usize>, u64) {
        let (mut walk, mut seen) = (Walk::default(), Vec::new());
        (0..3).for_each(|_| scan(&mut walk, &mut seen));
        (seen, walk.passes())
    }

    #[test]
    fn a_window_ends_at_the_end_or_goes_on_at_the_beginning() {
        let take = |seen: &mut Vec<usize>, page: usize| {
            seen.push(page);
            page != 1
        };
        let ends = three_scans(|walk, seen| {
            walk.to_the_end(5, 2, |page| take(seen, page));
        });
        assert_eq!(ends, (vec![0, 1, 2, 3, 4, 0, 1, 2], 1));
        let goes_on = three_scans(|walk, seen| walk.around(5, 3, |page| take(seen, page)));
        assert_eq!(goes_on, (vec![0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0], 2));
        let once_round = three_scans(|walk, seen| walk.around(2, 9, |page| take(seen, page)));
        assert_eq!(once_round, (vec![0, 1, 0, 1, 0, 1], 3));
        assert!(Walk::default().to_the_end(0, 1, |_| true), "of nothing every pass is over at once");
    }
}
