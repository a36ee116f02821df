//! What is known of one access of a code block besides its vectors: the rule of strides, and its explicit addresses.

use super::super::format::FRAME_SHIFT;
use super::super::frames::FrameTable;
use super::vectors::{NEVER, PAGE};

/// Values from which on the memory of a column is not kept with its slot.
const LONG: usize = 1 << 12;
/// Values of a column by which it is judged whether they could have been predicted.
const SAMPLE: usize = 1 << 9;
/// Fewer values tell nothing.
const ENOUGH: usize = 32;

/// The state of one access of a code block in the block in progress.
#[derive(Debug, Default)]
pub(super) struct Slot {
    /// The last address and what the next one is compared with, where the access has no word of its own: the other
    /// slots have theirs in [`super::vectors`].
    pub last: u64,
    pub check: u64,
    /// By the rules of the format.
    stride: u64,
    candidate: u64,
    /// Misses since the expectations of its code block were revised; of an expected slot those in which the difference
    /// was as the time before.
    pub misses: u32,
    pub repeats: u32,
    difference: u64,
    /// Its explicit addresses: virtual ones as the recorder gave them, but for the first `dense` of them.
    pub column: Vec<u64>,
    dense: usize,
}

impl Slot {
    pub(super) fn restart(&mut self) {
        let mut column = std::mem::take(&mut self.column);
        column.clear();
        *self = Slot { column, check: NEVER, ..Slot::default() };
    }

    /// Notes an explicit address.
    #[inline(always)]
    pub(super) fn push(&mut self, word: u64, spare: &mut Vec<Vec<u64>>) {
        if self.column.len() == self.column.capacity() {
            self.grow(spare);
        }
        self.column.push(word);
    }

    /// Notes explicit addresses.
    #[inline(always)]
    pub(super) fn push_all(&mut self, count: usize, spare: &mut Vec<Vec<u64>>, word: impl Fn(usize) -> u64) {
        if self.column.capacity() - self.column.len() < count {
            self.grow(spare);
        }
        self.column.extend((0..count).map(word));
    }

    /// The same of words that lie one behind the other.
    #[inline(always)]
    pub(super) fn push_words(&mut self, words: &[u64], spare: &mut Vec<Vec<u64>>) {
        if self.column.capacity() - self.column.len() < words.len() {
            self.grow(spare);
        }
        self.column.extend_from_slice(words);
    }

    /// Makes room in the memory of a long column of the block before, if there is any.
    #[cold]
    fn grow(&mut self, spare: &mut Vec<Vec<u64>>) {
        if self.column.len() < LONG / 4 {
            return self.column.reserve(8);
        }
        let largest = (0..spare.len()).max_by_key(|&i| spare[i].capacity());
        match largest.filter(|&i| spare[i].capacity() >= 2 * self.column.len()) {
            Some(i) => {
                let mut column = spare.swap_remove(i);
                column.extend_from_slice(&self.column);
                self.column = column;
            }
            None => self.column.reserve(self.column.len()),
        }
    }

    /// Leaves the memory of its column, if that is long, to whoever needs it next, but no more than `most` values in
    /// all; its values are no longer needed.
    pub(super) fn give_memory(&mut self, spare: &mut Vec<Vec<u64>>, most: usize) {
        self.column.clear();
        if self.column.capacity() < LONG {
            return;
        }
        let mut column = std::mem::take(&mut self.column);
        column.clear();
        if spare.iter().map(Vec::capacity).sum::<usize>() + column.capacity() <= most {
            spare.push(column);
        }
    }

    /// An access that was not as predicted: `difference` to the last one, in the same page or not. Returns what the
    /// next difference is compared with. `check` is what this one was.
    #[inline]
    pub(super) fn learn(&mut self, difference: u64, same_page: bool, check: u64) -> u64 {
        self.misses += 1;
        // The rule of strides: two equal differences in a row within a frame.
        if same_page && check != NEVER {
            if difference == self.candidate {
                self.stride = difference;
            }
            self.candidate = difference;
        }
        self.stride
    }

    /// Looks whether an access that was expected to miss could have been predicted.
    #[inline]
    pub(super) fn sample(&mut self, difference: u64) {
        self.misses += 1;
        self.repeats += u32::from(difference == self.difference);
        self.difference = difference;
    }

    /// It is expected to miss from now on, or no longer: it begins anew.
    pub(super) fn forget_strides(&mut self) {
        (self.stride, self.candidate, self.difference) = (0, 0, 0);
    }

    /// Makes its addresses dense, of which the bits `kept` count. Returns how many of them were none.
    pub(super) fn translate(&mut self, frames: &mut FrameTable, kept: u64) -> u64 {
        let (mut page, mut offset, mut wrong) = (u64::MAX, 0, 0);
        for word in &mut self.column[self.dense..] {
            if *word >> FRAME_SHIFT != page {
                page = *word >> FRAME_SHIFT;
                offset = (u64::from(frames.frame(page)) << FRAME_SHIFT).wrapping_sub(page << FRAME_SHIFT);
                wrong += u64::from(*word == 0);
            }
            *word = (*word & kept).wrapping_add(offset);
        }
        self.dense = self.column.len();
        wrong
    }

    /// Whether few of the accesses of an expected slot were unpredictable, as far as its first addresses tell.
    pub(super) fn is_predictable(&self) -> bool {
        let sample = &self.column[..self.column.len().min(SAMPLE)];
        let predicted = |three: &[u64]| {
            three[2].wrapping_sub(three[1]) == three[1].wrapping_sub(three[0])
                && (three[2] ^ three[1]) & PAGE == 0
        };
        let hits = sample.windows(3).filter(|three| predicted(three)).count();
        sample.len() >= ENOUGH && hits * 4 > sample.len() * 3
    }
}
