//! The number of the page that begins at an address. Programs use neighbours one after the other, so numbers are kept
//! by block of neighbours, and the blocks that were asked for last are found without a hash.

use super::pages::Key;
use super::PAGE;
use ahash::AHashMap;
use homing_core::ids::Page;
use std::cell::Cell;

/// Pages of a block: 256 bytes for each.
const PAGES: usize = 64;
/// Bytes of a block.
const BYTES: u64 = PAGES as u64 * PAGE;
/// Blocks that are found without a hash: several threads at a time are each in one of their own.
const RECENT: usize = 16;
/// No page.
const NONE: u32 = u32::MAX;

#[derive(Clone, Debug)]
struct Block {
    pages: [u32; PAGES],
    known: usize,
}

/// A map from keys of pages, which are rounded, to their numbers.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    /// Where the block of a key that is rounded to it is in `blocks`.
    index: AHashMap<Key, u32>,
    blocks: Vec<Block>,
    free: Vec<u32>,
    recent: [Cell<Option<(Key, u32)>>; RECENT],
    known: usize,
}

/// The place of a page in its block.
fn place(key: Key) -> usize {
    (key.place() % BYTES / PAGE) as usize
}

impl Numbers {
    /// Blocks that fall on the same place push each other out. Those of threads that are equally far in equal parts do
    /// not.
    #[inline]
    fn recent(&self, of: Key) -> &Cell<Option<(Key, u32)>> {
        let hash = (of.place() / BYTES).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        &self.recent[hash as usize % RECENT]
    }

    #[inline]
    fn block(&self, key: Key) -> Option<usize> {
        let of = key.rounded(BYTES);
        let recent = self.recent(of);
        if let Some((known, block)) = recent.get().filter(|(known, _)| *known == of) {
            debug_assert_eq!(self.index.get(&known), Some(&block));
            return Some(block as usize);
        }
        let block = *self.index.get(&of)?;
        recent.set(Some((of, block)));
        Some(block as usize)
    }

    /// The page of that key, if it has a number.
    #[inline]
    pub(super) fn get(&self, key: Key) -> Option<Page> {
        let page = self.blocks[self.block(key)?].pages[place(key)];
        (page != NONE).then_some(Page(page))
    }

    /// Gives a number to the page of a key that has none.
    pub(super) fn insert(&mut self, key: Key, page: Page) {
        let block = self.block(key).unwrap_or_else(|| {
            let block = self.free.pop().unwrap_or_else(|| {
                self.blocks.push(Block { pages: [NONE; PAGES], known: 0 });
                self.blocks.len() as u32 - 1
            });
            self.index.insert(key.rounded(BYTES), block);
            block as usize
        });
        let block = &mut self.blocks[block];
        debug_assert_eq!(block.pages[place(key)], NONE);
        block.pages[place(key)] = page.0;
        block.known += 1;
        self.known += 1;
    }

    /// Takes the number of a page away, which has one.
    pub(super) fn remove(&mut self, key: Key) {
        let Some(number) = self.block(key) else { return };
        let block = &mut self.blocks[number];
        debug_assert_ne!(block.pages[place(key)], NONE);
        block.pages[place(key)] = NONE;
        block.known -= 1;
        self.known -= 1;
        if block.known == 0 {
            let of = key.rounded(BYTES);
            self.recent(of).set(None);
            self.index.remove(&of);
            self.free.push(number as u32);
        }
    }

    /// Pages that have a number.
    pub(super) fn len(&self) -> usize {
        self.known
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use homing_core::process::ProcessId;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        /// It is a map.
        #[test]
        fn numbers_are_those_that_were_given(
            steps in proptest::collection::vec((0..3i32, 0..300u64, 0..40u64, any::<bool>()), 1..400),
        ) {
            let (mut numbers, mut model) = (Numbers::default(), HashMap::new());
            for (at, (of, page, far, insert)) in steps.into_iter().enumerate() {
                // Neighbours, blocks far away, and other objects with the same addresses.
                let address = page * PAGE + far * RECENT as u64 * BYTES;
                let key = if of == 0 { Key::Shared(7, address) } else { Key::Own(ProcessId(of), address) };
                prop_assert_eq!(numbers.get(key), model.get(&key).copied());
                match (model.contains_key(&key), insert) {
                    (false, true) => {
                        numbers.insert(key, Page(at as u32));
                        model.insert(key, Page(at as u32));
                    }
                    (true, false) => {
                        numbers.remove(key);
                        model.remove(&key);
                    }
                    _ => {}
                }
                prop_assert_eq!(numbers.len(), model.len());
                prop_assert!(numbers.blocks.len() - numbers.free.len() <= model.len(), "none is empty");
            }
            prop_assert!(model.iter().all(|(key, page)| numbers.get(*key) == Some(*page)));
        }
    }
}
