//! State per page: a slab with an index, quick when the same page is asked for again.

use crate::ids::Page;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Page numbers are dense, so that one multiplication spreads them well (Fibonacci hashing, Knuth 6.4).
#[derive(Clone, Debug, Default)]
struct PageHasher(u64);

impl Hasher for PageHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u32(byte.into()));
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}

/// A map from pages to state. Entries are made on first use and go with [`Pages::remove`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pages<T> {
    index: HashMap<Page, u32, BuildHasherDefault<PageHasher>>,
    slots: Vec<T>,
    free: Vec<u32>,
    last: Option<(Page, u32)>,
}

impl<T> Default for Pages<T> {
    fn default() -> Self {
        Pages { index: HashMap::default(), slots: Vec::new(), free: Vec::new(), last: None }
    }
}

impl<T> Pages<T> {
    /// The state of `page`, made by `new` if there is none.
    #[inline]
    pub fn entry(&mut self, page: Page, new: impl FnOnce() -> T) -> &mut T {
        let slot = match self.last {
            Some((last, slot)) if last == page => slot,
            _ => self.find(page, new),
        };
        &mut self.slots[slot as usize]
    }

    fn find(&mut self, page: Page, new: impl FnOnce() -> T) -> u32 {
        let slot = match self.index.get(&page) {
            Some(&slot) => slot,
            None => {
                let slot = match self.free.pop() {
                    Some(slot) => {
                        self.slots[slot as usize] = new();
                        slot
                    }
                    None => {
                        self.slots.push(new());
                        self.slots.len() as u32 - 1
                    }
                };
                self.index.insert(page, slot);
                slot
            }
        };
        self.last = Some((page, slot));
        slot
    }

    /// The state of `page`, if there is any.
    #[inline]
    pub fn get_mut(&mut self, page: Page) -> Option<&mut T> {
        let slot = match self.last {
            Some((last, slot)) if last == page => slot,
            _ => *self.index.get(&page)?,
        };
        Some(&mut self.slots[slot as usize])
    }

    /// Forgets `page`.
    pub fn remove(&mut self, page: Page) {
        if let Some(slot) = self.index.remove(&page) {
            self.free.push(slot);
        }
        self.last = self.last.filter(|&(last, _)| last != page);
    }

    /// Number of pages with state.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// True if no page has state.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_reused_and_made_anew() {
        let mut pages: Pages<u32> = Pages::default();
        *pages.entry(Page(7), || 1) += 1;
        *pages.entry(Page(8), || 10) += 1;
        assert_eq!((*pages.entry(Page(7), || 0), *pages.entry(Page(8), || 0)), (2, 11));
        pages.remove(Page(7));
        assert_eq!(pages.get_mut(Page(7)), None);
        assert_eq!(*pages.entry(Page(9), || 5), 5);
        assert_eq!((pages.len(), pages.slots.len()), (2, 2));
        assert!(!pages.is_empty());
    }
}
