//! State per page. Page numbers are dense, so that tables of chunks find it.

use crate::ids::Page;
use serde::{Deserialize, Serialize};

/// Pages of a chunk.
const CHUNK: usize = 1024;

/// A small value for each page, the default one where none was set. Memory: the chunks of pages that have one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Table<T> {
    chunks: Vec<Option<Box<[T]>>>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Table { chunks: Vec::new() }
    }
}

impl<T: Copy + Default> Table<T> {
    /// The value of `page`.
    #[inline]
    pub fn get(&self, page: Page) -> T {
        match self.chunks.get(page.index() / CHUNK) {
            Some(Some(chunk)) => chunk[page.index() % CHUNK],
            _ => T::default(),
        }
    }

    /// The value of `page`, to be changed.
    #[inline]
    pub fn get_mut(&mut self, page: Page) -> &mut T {
        let number = page.index() / CHUNK;
        if self.chunks.len() <= number {
            self.chunks.resize_with(number + 1, || None);
        }
        let chunk = &mut self.chunks[number];
        &mut chunk.get_or_insert_with(|| vec![T::default(); CHUNK].into())[page.index() % CHUNK]
    }
}

/// A map from pages to state. Entries are made on first use and go with [`Pages::remove`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pages<T> {
    /// Where a page's state is in `slots`, plus 1; 0 if it has none.
    index: Table<u32>,
    slots: Vec<T>,
    free: Vec<u32>,
}

impl<T> Default for Pages<T> {
    fn default() -> Self {
        Pages { index: Table::default(), slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Pages<T> {
    /// The state of `page`, made by `new` if there is none.
    #[inline]
    pub fn entry(&mut self, page: Page, new: impl FnOnce() -> T) -> &mut T {
        let slot = self.index.get_mut(page);
        if *slot == 0 {
            *slot = match self.free.pop() {
                Some(slot) => {
                    self.slots[slot as usize - 1] = new();
                    slot
                }
                None => {
                    self.slots.push(new());
                    self.slots.len() as u32
                }
            };
        }
        &mut self.slots[*slot as usize - 1]
    }

    /// The state of `page`, if there is any.
    #[inline]
    pub fn get_mut(&mut self, page: Page) -> Option<&mut T> {
        let slot = self.index.get(page).checked_sub(1)?;
        Some(&mut self.slots[slot as usize])
    }

    /// Forgets `page`.
    pub fn remove(&mut self, page: Page) {
        if self.index.get(page) != 0 {
            self.free.push(std::mem::take(self.index.get_mut(page)));
        }
    }

    /// Number of pages with state.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// True if no page has state.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
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
