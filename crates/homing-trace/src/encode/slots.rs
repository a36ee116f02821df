//! The predictor state of one access of a code block, and how the executions of a batch go through it.
//!
//! A batch is taken column by column: one access of a code block in all its executions, with the state in registers. It
//! works on virtual addresses; the dense ones are looked up only where an access is not predicted.

use super::super::columns::Mode;
use super::super::format::FRAME_SHIFT;
use super::super::frames::FrameTable;
use super::super::varint;

/// A stride that no access within a frame can have: makes the check of the prediction fail.
const NEVER: u64 = 1 << 40;
/// Executions of a batch from which a slot is judged by it.
const ENOUGH: usize = 16;
/// Values of an `always` slot whose width and repetition are looked at in a references block, or a few more.
const SAMPLE: u32 = 1 << 12;
/// Values from which on the memory of a column is not kept with its slot.
const LONG: usize = 1 << 12;
/// Executions that are looked at for links in a references block.
const LINK_SAMPLE: u32 = 256;

/// One execution in a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    /// Its number in the batch.
    pub item: u32,
    /// Where its words begin.
    pub at: u16,
    /// How many accesses it has.
    pub accesses: u8,
}

/// The executions of one code block in a batch, and what a scan of them needs.
pub(super) struct Scan<'a> {
    pub rows: &'a [Row],
    pub words: &'a [u64],
    /// The bits of a word that are an address.
    pub mask: u64,
    /// The explicit accesses of each item, a bit an access.
    pub masks: &'a mut [u64],
    pub frames: &'a mut FrameTable,
    /// Explicit words that are no addresses: 0, or with bit 63.
    pub wrong: u64,
}

impl<'a> Scan<'a> {
    /// The rows that have access `j`, each with its word at `place`.
    #[inline]
    fn column(&self, place: usize, j: usize) -> impl Iterator<Item = (u32, u64)> + 'a {
        let Scan { rows, words, mask, .. } = *self;
        let rows = rows.iter().filter(move |row| usize::from(row.accesses) > j);
        rows.map(move |row| (row.item, words[usize::from(row.at) + place] & mask))
    }

    #[inline]
    fn word(&self, row: Row, place: usize) -> Option<u64> {
        Some(*self.words.get(usize::from(row.at) + place)? & self.mask)
    }

    #[inline]
    fn check(&mut self, word: u64) {
        self.wrong += word.wrapping_sub(1) >> 63;
    }

    /// The dense address minus the virtual one.
    #[inline]
    fn offset(&mut self, address: u64) -> u64 {
        let frame = u64::from(self.frames.frame(address >> FRAME_SHIFT));
        (frame << FRAME_SHIFT).wrapping_sub(address >> FRAME_SHIFT << FRAME_SHIFT)
    }

    /// The difference of the dense addresses that belong to two virtual ones.
    #[inline]
    fn difference(&mut self, address: u64, base: u64) -> u64 {
        let difference = address.wrapping_sub(base);
        if (address ^ base) >> FRAME_SHIFT == 0 {
            return difference;
        }
        let (offset, base_offset) = (self.offset(address), self.offset(base));
        difference.wrapping_add(offset).wrapping_sub(base_offset)
    }

    /// The rows in which the accesses at these offsets from a word do not all lie in one frame.
    pub(super) fn crossings(&self, place: usize, (low, high): (i64, i64), out: &mut Vec<u32>) {
        out.clear();
        if (low, high) == (0, 0) {
            return;
        }
        for (i, row) in self.rows.iter().enumerate() {
            let Some(word) = self.word(*row, place) else { continue };
            if (word.wrapping_add(low as u64) ^ word.wrapping_add(high as u64)) >> FRAME_SHIFT != 0 {
                out.push(i as u32);
            }
        }
    }
}

/// The state of one access of a code block in the block in progress.
#[derive(Debug)]
pub(super) struct Slot {
    /// The last virtual address.
    last: u64,
    /// Dense address - virtual address, in the frame of the last access.
    offset: u64,
    /// Stride and candidate by the rules of the format.
    stride: u64,
    candidate: u64,
    pub first: u64,
    started: bool,
    /// The frame of the last access was retired or moved: `offset` holds for the last address only.
    stale: bool,
    /// Seldom predicted: every access takes an explicit value, whatever the prediction.
    pub always: bool,
    /// Its definition derives it from another access.
    pub derived: bool,
    /// Others are derived from it.
    pub anchor: bool,
    pub mode: Mode,
    /// Values taken as an `always` slot, how many of them were sampled, and in how many of these the difference was
    /// equal to the one before.
    always_taken: u32,
    sampled: u32,
    repeats: u32,
    /// How often the difference to the address of the explicit access just before was as last time, of how many.
    pub link_hits: u32,
    pub link_rows: u32,
    pub link_to: u8,
    pub column: Vec<u64>,
    pub smallest: u64,
    pub largest: u64,
    /// All explicit differences (a sample of an `always` slot's), as they are and zigzag, by inclusive or: their
    /// alignment and width.
    pub any_delta: u64,
    pub any_zigzag: u64,
}

impl Slot {
    pub(super) fn new() -> Slot {
        Slot {
            last: 0,
            offset: 0,
            stride: 0,
            candidate: 0,
            first: 0,
            started: false,
            stale: false,
            always: false,
            derived: false,
            anchor: false,
            mode: Mode::Delta,
            always_taken: 0,
            sampled: 0,
            repeats: 0,
            link_hits: 0,
            link_rows: 0,
            link_to: u8::MAX,
            column: Vec::new(),
            smallest: u64::MAX,
            largest: 0,
            any_delta: 0,
            any_zigzag: 0,
        }
    }

    pub(super) fn restart(&mut self, mode: Mode, always: bool, derived: bool) {
        let mut column = std::mem::take(&mut self.column);
        column.clear();
        *self = Slot { column, mode, always, derived, ..Slot::new() };
    }

    /// Makes room for `count` values more: in the memory of a long column of the block before, if there is any.
    #[inline]
    pub(super) fn make_room(&mut self, count: usize, spare: &mut Vec<Vec<u64>>) {
        if self.column.capacity() - self.column.len() < count && self.column.len() >= LONG / 4 {
            self.grow(count, spare);
        }
    }

    #[cold]
    fn grow(&mut self, count: usize, spare: &mut Vec<Vec<u64>>) {
        let largest = (0..spare.len()).max_by_key(|&i| spare[i].capacity());
        let larger = largest.filter(|&i| spare[i].capacity() >= 2 * self.column.len() + count);
        if let Some(i) = larger {
            let mut column = spare.swap_remove(i);
            column.extend_from_slice(&self.column);
            self.column = column;
        }
    }

    /// Leaves the memory of its column, if that is long, to whoever needs it next, but no more than `most` values in
    /// all; its values are no longer needed.
    pub(super) fn give_memory(&mut self, spare: &mut Vec<Vec<u64>>, most: usize) {
        self.column.clear();
        if self.column.capacity() < LONG {
            return;
        }
        let column = std::mem::take(&mut self.column);
        if spare.iter().map(Vec::capacity).sum::<usize>() + column.capacity() <= most {
            spare.push(column);
        }
    }

    /// Notes an explicit value.
    #[inline]
    fn push(&mut self, delta: u64, address: u64) {
        self.column.push(if self.mode == Mode::Absolute { address } else { delta });
        self.smallest = self.smallest.min(address);
        self.largest = self.largest.max(address);
        self.any_delta |= delta;
        self.any_zigzag |= varint::zigzag(delta as i64);
    }

    /// The frame of its last address was retired or moved if that lies in these pages.
    pub(super) fn forget(&mut self, first: u64, last: u64) {
        self.stale |= self.started && (first..=last).contains(&(self.last >> FRAME_SHIFT));
    }

    /// Goes to the dense address of `word`; returns it and the dense address before.
    #[inline]
    fn advance(&mut self, word: u64, scan: &mut Scan<'_>) -> (u64, u64) {
        let old = self.last.wrapping_add(self.offset);
        if !self.started || self.stale || (word ^ self.last) >> FRAME_SHIFT != 0 {
            self.offset = scan.offset(word);
            self.stale = false;
        }
        self.last = word;
        let dense = word.wrapping_add(self.offset);
        if !self.started {
            self.started = true;
            self.first = dense;
            return (dense, dense);
        }
        (dense, old)
    }

    /// An access with a word of its own: `place` in the execution, access `j` of the code block.
    pub(super) fn scan_word(&mut self, scan: &mut Scan<'_>, place: usize, j: usize) {
        let (mut last, mut stride) = (self.last, self.check());
        let explicit = self.column.len();
        for (item, word) in scan.column(place, j) {
            if (word.wrapping_sub(last) ^ stride) | (word ^ last) >> FRAME_SHIFT != 0 {
                self.last = last;
                if self.unpredicted(word, scan) {
                    scan.masks[item as usize] |= 1 << j;
                }
                stride = self.check();
            }
            last = word;
        }
        self.last = last;
        let explicit = self.column.len() - explicit;
        // Mode and masks of the batches to come; this one has the masks that it has.
        self.always = scan.rows.len() >= ENOUGH && explicit * 4 > scan.rows.len();
    }

    /// The stride to compare with; one that never fits where the state holds no prediction.
    #[inline]
    fn check(&self) -> u64 {
        if self.started && !self.stale {
            self.stride
        } else {
            NEVER
        }
    }

    /// An access that is not as predicted; false if it needs no explicit value, being the first.
    fn unpredicted(&mut self, word: u64, scan: &mut Scan<'_>) -> bool {
        let first = !self.started;
        scan.check(word);
        let (dense, old) = self.advance(word, scan);
        if first {
            return false;
        }
        let delta = dense.wrapping_sub(old);
        self.push(delta, dense);
        // The rule of strides: two equal differences in a row within a frame.
        if (dense ^ old) >> FRAME_SHIFT == 0 {
            if delta == self.candidate {
                self.stride = delta;
            }
            self.candidate = delta;
        }
        true
    }

    /// The same with an explicit value in every execution; the caller has set the masks. Such a slot predicts nothing
    /// any more until the block ends, so stride and candidate need not follow.
    pub(super) fn scan_always(&mut self, scan: &mut Scan<'_>, place: usize, j: usize) {
        let before = self.column.len();
        if self.sampled < SAMPLE {
            self.sample_always(scan, place, j);
            self.sampled += (self.column.len() - before) as u32;
        } else {
            self.column.reserve(scan.rows.len());
            let (mut last, mut offset) = (self.last, self.offset);
            // A relocated frame's offset no longer holds: look it up at the first word.
            let mut page = if self.stale { u64::MAX } else { last >> FRAME_SHIFT };
            self.stale = false;
            for (_, word) in scan.column(place, j) {
                let old = last.wrapping_add(offset);
                if word >> FRAME_SHIFT != page {
                    page = word >> FRAME_SHIFT;
                    offset = scan.offset(word);
                    scan.check(word);
                }
                last = word;
                let dense = word.wrapping_add(offset);
                self.column.push(if self.mode == Mode::Absolute { dense } else { dense.wrapping_sub(old) });
            }
            (self.last, self.offset) = (last, offset);
        }
        self.always_taken += (self.column.len() - before) as u32;
    }

    fn sample_always(&mut self, scan: &mut Scan<'_>, place: usize, j: usize) {
        let mut before = 0;
        for (_, word) in scan.column(place, j) {
            scan.check(word);
            let (dense, old) = self.advance(word, scan);
            let delta = dense.wrapping_sub(old);
            self.push(delta, dense);
            self.repeats += u32::from(delta == before);
            before = delta;
        }
    }

    /// About how many of the explicit values would have been so by the rule of strides.
    pub(super) fn unpredictable(&self) -> usize {
        let repeats = u64::from(self.repeats) * u64::from(self.always_taken) / u64::from(self.sampled.max(1));
        self.column.len() - repeats as usize
    }

    /// An access that is predicted by the one whose word is at `base`; also where it has a word of its own.
    pub(super) fn scan_linked(&mut self, scan: &mut Scan<'_>, place: usize, base: usize, j: usize) {
        for row in scan.rows.iter().filter(|row| usize::from(row.accesses) > j) {
            let (Some(word), Some(base)) = (scan.word(*row, place), scan.word(*row, base)) else { continue };
            let difference = scan.difference(word, base);
            self.linked(difference, row.item, j, scan);
        }
    }

    #[inline]
    fn linked(&mut self, difference: u64, item: u32, j: usize, scan: &mut Scan<'_>) {
        if !self.started {
            self.started = true;
            self.first = difference;
        } else if difference != self.stride {
            self.column.push(difference);
            scan.masks[item as usize] |= 1 << j;
        }
        self.stride = difference;
    }

    /// An access without a word: at `offset` from the word at `base`. Only rows in which the two may lie in different
    /// frames (`crossings`), and those after them, can differ from the offset.
    pub(super) fn scan_derived(
        &mut self,
        scan: &mut Scan<'_>,
        (base, offset): (usize, i64),
        j: usize,
        crossings: &[u32],
    ) {
        let rows = scan.rows;
        let mut at = 0;
        for &crossing in crossings.iter().chain(&[rows.len() as u32]) {
            let crossing = crossing as usize;
            while at < crossing && !(self.started && self.stride == offset as u64) {
                if usize::from(rows[at].accesses) > j {
                    self.linked(offset as u64, rows[at].item, j, scan);
                }
                at += 1;
            }
            let Some(row) = rows.get(crossing) else { return };
            if let Some(word) = scan.word(*row, base).filter(|_| usize::from(row.accesses) > j) {
                let difference = scan.difference(word.wrapping_add(offset as u64), word);
                self.linked(difference, row.item, j, scan);
            }
            at = crossing + 1;
        }
    }

    /// Looks how often this access lies at the same distance from access `to` of the same execution.
    pub(super) fn sample_links(&mut self, scan: &Scan<'_>, place: usize, to: u8, base: usize) {
        if self.link_rows >= LINK_SAMPLE {
            return;
        }
        if self.link_to != to {
            (self.link_to, self.link_hits, self.link_rows) = (to, 0, 0);
        }
        let mut before = None;
        for row in scan.rows.iter().take(LINK_SAMPLE as usize) {
            let (Some(word), Some(other)) = (scan.word(*row, place), scan.word(*row, base)) else { continue };
            let difference = word.wrapping_sub(other);
            self.link_hits += u32::from(before == Some(difference));
            self.link_rows += u32::from(before.is_some());
            before = Some(difference);
        }
    }
}
