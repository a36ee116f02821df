//! The encoder of one thread: executions of code blocks into references blocks.
//!
//! The common case is an execution whose accesses all advance by their strides and stay in their frames: one pass over
//! the addresses without a branch, then one more repetition of the run in progress. It works on virtual addresses; the
//! dense ones are looked up only where an access is not predicted.

use super::code::{CodeBlock, CodeBlockId, Layout};
use super::columns::{self, Mode};
use super::event::Event;
use super::format::{BlockHeader, BlockKind, FRAME_SHIFT};
use super::frames::FrameTable;
use super::kind::Kind;
use super::varint;
use crate::ids::Thread;
use std::collections::HashMap;

/// References after which a references block is full; an execution may add 63 more.
pub(super) const MAX_REFERENCES: u32 = 1 << 20;
/// Explicit values after which a references block is full.
const MAX_EXPLICIT: usize = 1 << 18;
const MAX_TOKENS: usize = 1 << 20;
const MAX_SLOTS: usize = 1 << 16;
/// Instructions of code blocks without accesses are collected up to this many before they become a token, so that they
/// do not interrupt runs: the virtual time of a reference is late by less than this.
const MAX_IDLE: u64 = 1024;
/// A stride that no access within a frame can have: makes the fast check fail.
const NEVER: u64 = 1 << 40;
const NO_ENTRY: u32 = u32::MAX;
/// Misses of a slot at most this many executions apart make it irregular.
const CLOSE: u32 = 4;

/// Token forms (`docs/trace-format.md`).
pub(super) const ONE: u64 = 0;
pub(super) const ONE_MASKED: u64 = 1;
pub(super) const MANY_MASKED: u64 = 2;
pub(super) const MANY: u64 = 3;
/// Tokens that are no execution.
pub(super) const EVENT: u64 = 0;
pub(super) const ADVANCE: u64 = 1;

/// The state of a slot that only unpredicted accesses need.
#[derive(Debug)]
struct Slot {
    /// Dense address - virtual address, in the frame of the last access.
    offset: u64,
    /// The stride by the rules of the format; the array `stride` holds it, or `NEVER`.
    stride: u64,
    candidate: u64,
    first: u64,
    started: bool,
    /// The frame of the last access was retired or moved: `offset` holds for the last address only.
    stale: bool,
    /// Missed often of late: worth an explicit value where the prediction happens to be right.
    irregular: bool,
    /// Its definition derives it from another access.
    derived: bool,
    /// Others are derived from it.
    anchor: bool,
    mode: Mode,
    /// The execution (counted for the code block) of the last miss.
    missed: u32,
    /// How often the difference to the address of the access that missed just before was as last time.
    link_hits: u32,
    link_to: u8,
    link_difference: u64,
    column: Vec<u64>,
    smallest: u64,
    largest: u64,
    /// All explicit deltas, as they are and zigzag, by inclusive or: their alignment and width.
    any_delta: u64,
    any_zigzag: u64,
}

impl Slot {
    fn new() -> Slot {
        Slot {
            offset: 0,
            stride: 0,
            candidate: 0,
            first: 0,
            started: false,
            stale: false,
            irregular: false,
            derived: false,
            anchor: false,
            mode: Mode::Delta,
            missed: 0,
            link_hits: 0,
            link_to: u8::MAX,
            link_difference: 0,
            column: Vec::new(),
            smallest: u64::MAX,
            largest: 0,
            any_delta: 0,
            any_zigzag: 0,
        }
    }

    fn restart(&mut self, mode: Mode, derived: bool) {
        let mut column = std::mem::take(&mut self.column);
        column.clear();
        column.shrink_to(1 << 12);
        *self = Slot { column, mode, derived, ..Slot::new() };
    }

    /// Notes an explicit value.
    fn push(&mut self, delta: u64, address: u64) {
        self.column.push(if self.mode == Mode::Absolute { address } else { delta });
        self.smallest = self.smallest.min(address);
        self.largest = self.largest.max(address);
        self.any_delta |= delta;
        self.any_zigzag |= varint::zigzag(delta as i64);
    }

    /// The rule of strides: two equal deltas in a row within a frame.
    fn learn(&mut self, delta: u64, same_frame: bool) {
        if same_frame {
            if delta == self.candidate {
                self.stride = delta;
            }
            self.candidate = delta;
        }
    }
}

/// A line of the block's dictionary: a code block, or the first accesses of one.
#[derive(Clone, Copy, Debug)]
struct Entry {
    slot: u32,
    accesses: u32,
    /// Words of a full execution.
    words: u32,
    instructions: u32,
    /// Executions of it; of its code block also those of prefixes.
    executions: u32,
    block: CodeBlockId,
    /// The entry of the whole code block.
    root: u32,
    /// Where its kinds are in `kinds`.
    kinds: u32,
    /// Whether it has derived accesses.
    spanned: bool,
    /// The derived accesses have the offsets of their definition while this is larger than `dirty` of the code block.
    clean: u32,
    dirty: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    generation: u32,
    entry: u32,
}

/// Executions with the same mask in a row.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    entry: u32,
    count: u32,
    mask: u64,
}

/// A sealed references block.
pub(super) struct Sealed {
    pub header: BlockHeader,
    /// Dictionary, tokens and events.
    pub steps: Vec<u8>,
    /// Slots and explicit values.
    pub values: Vec<u8>,
}

/// The references of one thread on their way into blocks.
#[derive(Debug)]
pub(super) struct ThreadEncoder {
    thread: Thread,
    /// References in sealed blocks.
    sealed: u64,
    references: u32,
    explicit: usize,
    time: u64,
    start_time: u64,
    idle: u64,
    generation: u32,
    /// The block is to be sealed before the next execution.
    full: bool,
    cells: Vec<Cell>,
    entries: Vec<Entry>,
    /// The entry of the first n accesses of a code block at its slot + n.
    prefixes: Vec<u32>,
    kinds: Vec<Kind>,
    /// By place: the last (virtual) address, the stride or `NEVER`, the span of the accesses derived from the word, and
    /// the slot.
    last: Vec<u64>,
    stride: Vec<u64>,
    spans: Vec<(u64, u64)>,
    slot_of: Vec<u32>,
    slots: Vec<Slot>,
    run: Run,
    dictionary: Vec<u8>,
    tokens: Vec<u8>,
    events: Vec<u8>,
    /// The modes of a code block's slots, as the last block found them best.
    modes: HashMap<CodeBlockId, Box<[Mode]>>,
    /// References by kind in sealed blocks.
    by_kind: Box<[u64; 256]>,
}

impl ThreadEncoder {
    pub(super) fn new(thread: Thread) -> ThreadEncoder {
        ThreadEncoder {
            thread,
            sealed: 0,
            references: 0,
            explicit: 0,
            time: 0,
            start_time: 0,
            idle: 0,
            generation: 1,
            full: false,
            cells: Vec::new(),
            entries: Vec::new(),
            prefixes: Vec::new(),
            kinds: Vec::new(),
            last: Vec::new(),
            stride: Vec::new(),
            spans: Vec::new(),
            slot_of: Vec::new(),
            slots: Vec::new(),
            run: Run::default(),
            dictionary: Vec::new(),
            tokens: Vec::new(),
            events: Vec::new(),
            modes: HashMap::new(),
            by_kind: Box::new([0; 256]),
        }
    }

    /// References so far.
    pub(super) fn references(&self) -> u64 {
        self.sealed + u64::from(self.references)
    }

    pub(super) fn is_full(&self) -> bool {
        self.full
    }

    /// Executes the whole of `id` if `rest` begins with all its words just as predicted, and returns their number; else
    /// does nothing. What is behind the words may have another meaning, and so may the words where they have bit 63 set.
    #[inline]
    pub(super) fn execute_predicted(&mut self, id: CodeBlockId, rest: &[u64]) -> Option<usize> {
        let cell = *self.cells.get(id.index())?;
        if cell.generation != self.generation || self.full {
            return None;
        }
        let words = rest.get(..self.entries[cell.entry as usize].words as usize)?;
        self.predicted(cell.entry, cell.entry, words).then_some(words.len())
    }

    /// Executes `entry` if its words are as predicted.
    #[inline]
    fn predicted(&mut self, root: u32, entry: u32, words: &[u64]) -> bool {
        let line = self.entries[entry as usize];
        let slot = line.slot as usize;
        let last = &mut self.last[slot..slot + words.len()];
        let stride = &self.stride[slot..slot + words.len()];
        let mut wrong = 0;
        for ((&word, &last), &stride) in words.iter().zip(last.iter()).zip(stride) {
            wrong |= (word.wrapping_sub(last) ^ stride) | (word ^ last) >> FRAME_SHIFT;
        }
        if line.spanned {
            if line.clean <= self.entries[root as usize].dirty {
                return false;
            }
            for (&word, &(low, high)) in words.iter().zip(&self.spans[slot..]) {
                wrong |= (word.wrapping_add(low) ^ word.wrapping_add(high)) >> FRAME_SHIFT;
            }
        }
        if wrong != 0 {
            return false;
        }
        last.copy_from_slice(words);
        self.executed(root, entry, 0);
        true
    }

    /// Counts an execution.
    #[inline]
    fn executed(&mut self, root: u32, entry: u32, missed: u64) {
        self.entries[root as usize].executions += 1;
        let line = &mut self.entries[entry as usize];
        if entry != root {
            line.executions += 1;
        }
        self.time += u64::from(line.instructions);
        self.references += line.accesses;
        self.full |= self.references >= MAX_REFERENCES;
        self.repeat(entry, missed);
    }

    /// One execution of `block` that ends after the accesses that `words` are enough for.
    pub(super) fn execute(
        &mut self,
        id: CodeBlockId,
        block: &CodeBlock,
        words: &[u64],
        frames: &mut FrameTable,
    ) {
        let layout = &block.layout;
        let n = usize::from(layout.accesses[words.len()]);
        if n == 0 {
            return self.advance(u64::from(block.instructions(0)));
        }
        let root = self.entry(id, block);
        let entry = if n == block.kinds.len() { root } else { self.prefix(root, block, n) };
        // A whole execution was tried before it came here.
        if entry != root && self.predicted(root, entry, words) {
            return;
        }
        let line = self.entries[entry as usize];
        let slot = line.slot as usize;
        let execution = self.entries[root as usize].executions;
        let (mut mask, mut crossed) = (0u64, 0);
        let slots = slot..slot + words.len();
        for (w, ((&word, &last), &stride)) in
            words.iter().zip(&self.last[slots.clone()]).zip(&self.stride[slots.clone()]).enumerate()
        {
            let wrong = (word.wrapping_sub(last) ^ stride) | (word ^ last) >> FRAME_SHIFT;
            mask |= u64::from(wrong != 0) << w;
        }
        if line.spanned {
            mask = bits(mask).fold(0, |mask, w| mask | 1 << layout.access[w]);
            for (&word, &(low, high)) in words.iter().zip(&self.spans[slots.clone()]) {
                crossed |= (word.wrapping_add(low) ^ word.wrapping_add(high)) >> FRAME_SHIFT;
            }
            if crossed != 0 || line.clean <= self.entries[root as usize].dirty {
                mask |= (0..n).filter(|&j| layout.derived[j].is_some()).fold(0, |mask, j| mask | 1 << j);
                crossed = 1;
            }
        }
        let mut missed = self.resolve(mask, slot, execution, layout, words, frames);
        if self.run.entry == entry && self.run.count > 0 && self.run.mask & !missed != 0 {
            missed |= self.irregular(self.run.mask & !missed, slot, execution, layout, words);
        }
        if crossed != 0 {
            self.check_derived(root, entry, layout, n);
        }
        self.last[slots].copy_from_slice(words);
        self.explicit += missed.count_ones() as usize;
        self.full |= self.explicit >= MAX_EXPLICIT;
        self.executed(root, entry, missed);
    }

    /// Notes whether all derived accesses have the offsets of their definition, so that executions need not look at them.
    fn check_derived(&mut self, root: u32, entry: u32, layout: &Layout, n: usize) {
        let slot = self.entries[root as usize].slot as usize;
        let clean = (0..n).all(|j| {
            let state = &self.slots[slot + j];
            layout.derived[j].is_none_or(|(_, offset)| state.started && state.stride == offset as u64)
        });
        let dirty = &mut self.entries[root as usize].dirty;
        if clean {
            let now = *dirty + 1;
            self.entries[entry as usize].clean = now;
        } else {
            *dirty += 1;
        }
    }

    /// Updates the slots whose bit is set; returns those that take an explicit value.
    fn resolve(
        &mut self,
        mask: u64,
        slot: usize,
        execution: u32,
        layout: &Layout,
        words: &[u64],
        frames: &mut FrameTable,
    ) -> u64 {
        let mut missed = 0;
        let mut recent = None;
        for j in bits(mask) {
            let address = layout.address(j, words);
            let hot = slot + usize::from(layout.place[j]);
            let last = self.last[hot];
            let base = match self.slots[slot + j].mode {
                Mode::Linked(to) => {
                    let to_address = layout.address(usize::from(to), words);
                    Some((to_address, self.slots[slot + usize::from(to)].offset, to))
                }
                _ => None,
            };
            let state = &mut self.slots[slot + j];
            let old = last.wrapping_add(state.offset);
            let same = state.started && !state.stale && (address ^ last) >> FRAME_SHIFT == 0;
            if !same {
                let frame = u64::from(frames.frame(address >> FRAME_SHIFT));
                state.offset = (frame << FRAME_SHIFT).wrapping_sub(address >> FRAME_SHIFT << FRAME_SHIFT);
                state.stale = false;
            }
            let dense = address.wrapping_add(state.offset);
            if let Some((base, offset, to)) = base {
                // Only words are written to `last` elsewhere.
                self.last[hot] = address;
                let difference = dense.wrapping_sub(base.wrapping_add(offset));
                if !state.started {
                    state.first = difference;
                    state.started = true;
                } else if difference != state.stride {
                    state.push(difference, dense);
                    missed |= 1 << j;
                }
                state.stride = difference;
                recent = Some((to, base));
                continue;
            }
            if !state.started {
                state.started = true;
                state.first = dense;
                self.stride[hot] = 0;
                continue;
            }
            missed |= 1 << j;
            let delta = dense.wrapping_sub(old);
            state.push(delta, dense);
            state.learn(delta, (dense ^ old) >> FRAME_SHIFT == 0);
            self.stride[hot] = state.stride;
            state.irregular = execution - state.missed <= CLOSE;
            state.missed = execution;
            if let Some((to, base)) = recent {
                let difference = address.wrapping_sub(base);
                if state.link_to == to && state.link_difference == difference {
                    state.link_hits += 1;
                }
                (state.link_to, state.link_difference) = (to, difference);
            }
            recent = Some((j as u8, address));
        }
        missed
    }

    /// Of the predicted accesses in `candidates`, those that take an explicit value nevertheless, so that the run in
    /// progress goes on.
    fn irregular(
        &mut self,
        candidates: u64,
        slot: usize,
        execution: u32,
        layout: &Layout,
        words: &[u64],
    ) -> u64 {
        let mut chosen = 0;
        for j in bits(candidates) {
            let hot = slot + usize::from(layout.place[j]);
            let state = &mut self.slots[slot + j];
            let linked = matches!(state.mode, Mode::Linked(_));
            if !linked && state.irregular && execution - state.missed <= CLOSE {
                let address = layout.address(j, words);
                let delta = address.wrapping_sub(self.last[hot]);
                state.push(delta, address.wrapping_add(state.offset));
                state.learn(delta, true);
                self.stride[hot] = state.stride;
                chosen |= 1 << j;
            }
        }
        chosen
    }

    /// The dictionary entry of a whole code block.
    fn entry(&mut self, id: CodeBlockId, block: &CodeBlock) -> u32 {
        if let Some(cell) = self.cells.get(id.index()).filter(|c| c.generation == self.generation) {
            return cell.entry;
        }
        if self.cells.len() <= id.index() {
            self.cells.resize((id.index() + 1).next_power_of_two(), Cell::default());
        }
        let (entry, slot, n) = (self.entries.len() as u32, self.last.len(), block.kinds.len());
        self.cells[id.index()] = Cell { generation: self.generation, entry };
        let instructions = block.instructions(n);
        self.entries.push(Entry {
            slot: slot as u32,
            accesses: n as u32,
            words: block.layout.words as u32,
            instructions,
            executions: 0,
            block: id,
            root: entry,
            kinds: self.kinds.len() as u32,
            spanned: !block.layout.is_plain(),
            clean: 0,
            dirty: 0,
        });
        self.kinds.extend_from_slice(&block.kinds);
        varint::put(&mut self.dictionary, 0);
        varint::put(&mut self.dictionary, n as u64);
        varint::put(&mut self.dictionary, u64::from(instructions));
        self.dictionary.extend(block.kinds.iter().map(|k| k.0));
        self.last.resize(slot + n, 0);
        self.stride.resize(slot + n, NEVER);
        self.spans.extend(block.layout.spans.iter().map(|&(low, high)| (low as u64, high as u64)));
        self.spans.resize(slot + n, (0, 0));
        self.slot_of.extend(block.layout.access.iter().map(|&j| (slot + usize::from(j)) as u32));
        self.prefixes.resize(slot + n, NO_ENTRY);
        self.full |= self.last.len() >= MAX_SLOTS;
        if self.slots.len() < slot + n {
            self.slots.resize_with(slot + n, Slot::new);
        }
        let modes = self.modes.get(&id);
        for j in 0..n {
            let mode = match block.layout.derived[j] {
                Some((of, _)) => Mode::Linked(of),
                None => modes.map_or(Mode::Delta, |modes| modes[j]),
            };
            self.slots[slot + j].restart(mode, block.layout.derived[j].is_some());
        }
        for &(of, _) in block.layout.derived.iter().flatten() {
            self.slots[slot + usize::from(of)].anchor = true;
        }
        entry
    }

    /// The dictionary entry of the first `n` accesses of the block that `root` stands for.
    fn prefix(&mut self, root: u32, block: &CodeBlock, n: usize) -> u32 {
        let whole = self.entries[root as usize];
        let known = self.prefixes[whole.slot as usize + n];
        if known != NO_ENTRY {
            return known;
        }
        let entry = self.entries.len() as u32;
        let instructions = block.instructions(n);
        self.entries.push(Entry { accesses: n as u32, instructions, executions: 0, clean: 0, ..whole });
        for value in [u64::from(root) + 1, n as u64, u64::from(instructions)] {
            varint::put(&mut self.dictionary, value);
        }
        self.prefixes[whole.slot as usize + n] = entry;
        entry
    }

    #[inline]
    fn repeat(&mut self, entry: u32, mask: u64) {
        if self.run.entry == entry && self.run.mask == mask && self.run.count > 0 {
            self.run.count += 1;
        } else {
            self.end_run();
            self.run = Run { entry, mask, count: 1 };
        }
    }

    fn end_run(&mut self) {
        let Run { entry, count, mask } = self.run;
        if count == 0 {
            return;
        }
        self.run.count = 0;
        let form = match (count, mask) {
            (1, 0) => ONE,
            (1, _) => ONE_MASKED,
            (_, 0) => MANY,
            _ => MANY_MASKED,
        };
        varint::put(&mut self.tokens, (u64::from(entry) + 1) << 2 | form);
        if count > 1 {
            varint::put(&mut self.tokens, u64::from(count));
        }
        if mask != 0 {
            let bytes = (self.entries[entry as usize].accesses as usize).div_ceil(8);
            self.tokens.extend_from_slice(&mask.to_le_bytes()[..bytes]);
        }
        self.full |= self.tokens.len() >= MAX_TOKENS;
    }

    /// Adds to the virtual time.
    #[inline]
    pub(super) fn advance(&mut self, units: u64) {
        self.idle = self.idle.saturating_add(units);
        if self.idle >= MAX_IDLE {
            self.end_idle();
        }
    }

    fn end_idle(&mut self) {
        if self.idle > 0 {
            self.end_run();
            varint::put(&mut self.tokens, ADVANCE);
            varint::put(&mut self.tokens, self.idle);
            self.time = self.time.saturating_add(self.idle);
            self.idle = 0;
        }
    }

    pub(super) fn event(&mut self, event: &Event) {
        self.end_idle();
        self.end_run();
        varint::put(&mut self.tokens, EVENT);
        event.encode(&mut self.events);
        self.full |= self.events.len() >= MAX_TOKENS;
    }

    /// Forgets the frames of the slots whose last address lies in the range: it was retired or moved.
    pub(super) fn forget(&mut self, address: u64, length: u64) {
        let (first, last) =
            (address >> FRAME_SHIFT, address.saturating_add(length.saturating_sub(1)) >> FRAME_SHIFT);
        for (place, &at) in self.last.iter().enumerate() {
            let state = &mut self.slots[self.slot_of[place] as usize];
            if (first..=last).contains(&(at >> FRAME_SHIFT)) && state.started {
                state.stale = true;
                self.stride[place] = NEVER;
            }
        }
    }

    /// Ends the block in progress; `None` if there is nothing in it.
    pub(super) fn seal(&mut self) -> Option<Sealed> {
        self.end_idle();
        self.end_run();
        if self.tokens.is_empty() {
            return None;
        }
        self.choose_modes();
        self.sum_kinds();
        let mut steps =
            Vec::with_capacity(self.dictionary.len() + self.tokens.len() + self.events.len() + 16);
        varint::put(&mut steps, self.entries.len() as u64);
        varint::put(&mut steps, self.tokens.len() as u64);
        steps.append(&mut self.dictionary);
        steps.append(&mut self.tokens);
        steps.append(&mut self.events);
        let (mut heads, mut planes) = (Vec::new(), Vec::new());
        for slot in &mut self.slots[..self.last.len()] {
            columns::encode(&mut heads, &mut planes, slot.mode, slot.first, &mut slot.column);
        }
        heads.append(&mut planes);
        let header = BlockHeader {
            kind: BlockKind::References,
            stored: 0,
            raw: 0,
            a: self.thread.0,
            b: self.references,
            c: self.sealed,
            d: self.start_time,
        };
        self.restart();
        Some(Sealed { header, steps, values: heads })
    }

    fn restart(&mut self) {
        self.sealed += u64::from(self.references);
        self.start_time = self.time;
        (self.references, self.explicit) = (0, 0);
        self.generation += 1;
        self.entries.clear();
        self.prefixes.clear();
        self.kinds.clear();
        self.last.clear();
        self.stride.clear();
        self.spans.clear();
        self.slot_of.clear();
        self.full = false;
    }

    /// Adds the references of this block to `by_kind`.
    fn sum_kinds(&mut self) {
        let mut executions: Vec<u32> = self.entries.iter().map(|e| e.executions).collect();
        for (number, entry) in self.entries.iter().enumerate().filter(|(n, e)| e.root as usize != *n) {
            executions[entry.root as usize] -= executions[number];
        }
        for (entry, count) in self.entries.iter().zip(executions) {
            for kind in &self.kinds[entry.kinds as usize..][..entry.accesses as usize] {
                self.by_kind[usize::from(kind.0)] += u64::from(count);
            }
        }
    }

    /// Adds the references of sealed blocks, by kind.
    pub(super) fn count_kinds(&self, by_kind: &mut [u64; 256]) {
        by_kind.iter_mut().zip(self.by_kind.iter()).for_each(|(sum, count)| *sum += count);
    }

    /// Chooses each slot's mode for the next block from what this one saw.
    fn choose_modes(&mut self) {
        for (number, entry) in self.entries.iter().enumerate() {
            if entry.root as usize != number {
                continue;
            }
            let slot = entry.slot as usize;
            let slots = &self.slots[slot..slot + entry.accesses as usize];
            let mut modes: Box<[Mode]> = slots.iter().map(|s| s.mode).collect();
            for j in 0..slots.len() {
                modes[j] = best_mode(slots, j, &modes[..j], entry.executions);
            }
            if modes.iter().any(|&m| m != Mode::Delta) || self.modes.contains_key(&entry.block) {
                self.modes.insert(entry.block, modes);
            }
        }
    }
}

/// The numbers of the bits that are set, ascending.
fn bits(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = mask.trailing_zeros() as usize;
        mask &= mask.wrapping_sub(1);
        (lowest < 64).then_some(lowest)
    })
}

/// The mode of slot `j` of a code block, given those chosen for the slots before it.
fn best_mode(slots: &[Slot], j: usize, before: &[Mode], executions: u32) -> Mode {
    let slot = &slots[j];
    let misses = slot.column.len();
    if slot.derived {
        return slot.mode;
    }
    if let Mode::Linked(to) = slot.mode {
        let base = usize::from(to);
        let regular = slots[base].column.len() * 8 < executions as usize;
        let linked =
            !regular && misses * 2 <= executions as usize && !matches!(before[base], Mode::Linked(_));
        return if linked { slot.mode } else { Mode::Delta };
    }
    if misses < 32 {
        return slot.mode;
    }
    // A slot that only misses at the ends of frames is better off with its stride.
    let irregular = misses * 8 >= executions as usize;
    if irregular && slot.link_hits as usize * 4 >= misses * 3 && !slot.anchor {
        return match before[usize::from(slot.link_to)] {
            Mode::Linked(root) => Mode::Linked(root),
            _ => Mode::Linked(slot.link_to),
        };
    }
    let shift = if slot.any_delta == 0 { 0 } else { slot.any_delta.trailing_zeros() };
    let bytes = |value: u64| (64 - (value >> shift).leading_zeros()).div_ceil(8);
    if bytes(slot.largest - slot.smallest) < bytes(slot.any_zigzag) {
        Mode::Absolute
    } else {
        Mode::Delta
    }
}
