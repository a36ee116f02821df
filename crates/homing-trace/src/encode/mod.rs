//! The encoder of one thread: executions of code blocks into references blocks.
//!
//! An execution is compared with what its code block predicts in vectors (`vectors`). If all of its words are as
//! predicted or expected to miss, and its block is the one that the block before predicts, it is only counted, and the
//! expected misses go to their columns. All else goes the slow way ([`ThreadEncoder::slow`]): a token, the mask of what
//! missed, the rule of strides. Addresses stay virtual until a block is sealed, or a mapping changes: then whole
//! columns become dense.

mod dictionary;
mod loops;
mod sealing;
mod slots;
mod taking;
mod tokens;
mod vectors;

use super::code::{CodeBlock, CodeBlockId, CodeBlocks};
use super::event::Event;
use super::format::{FRAME_SHIFT, MAX_ACCESSES};
use super::frames::FrameTable;
use super::grain::Grain;
use super::kind::Kind;
use super::rounds::Places;
use crate::ids::Thread;
use dictionary::{Cell, Entry};
pub(super) use sealing::Sealed;
use slots::Slot;
use std::collections::HashMap;
use taking::Line;
pub(super) use taking::{Known, Taken};
use tokens::TokenWriter;
pub(super) use tokens::{
    ADVANCE, EVENT, EXPECT, MASKED, NAMED, NAMED_MASKED, NOTHING, OTHER, SECOND, SECOND_MASKED, SWAP,
};
pub(super) use vectors::Window;
use vectors::{Vectors, NEVER, PAGE};

/// References after which a references block is full; an execution may add 63 more.
pub(super) const MAX_REFERENCES: u32 = 1 << 20;
/// Explicit values after which a references block is full; an execution may add 63 more.
const MAX_EXPLICIT: u32 = 1 << 18;
const MAX_TOKENS: usize = 1 << 20;
const MAX_SLOTS: usize = 1 << 16;
/// Instructions of code blocks without accesses are collected up to this many before they become a token, so that they
/// do not interrupt runs: the virtual time of a reference is late by less than this.
const MAX_IDLE: u64 = 1024;
/// Executions with unexpected misses after which the expectations of their code block are revised.
const REVISE: u32 = 128;
const NO_ENTRY: u32 = u32::MAX;
const NOTHING_YET: Window = [0; 1 + MAX_ACCESSES];

/// What every execution changes: the loop over executions has it in registers.
#[derive(Clone, Copy, Debug)]
struct Hot {
    references: u32,
    /// Explicit values.
    explicit: u32,
    /// Virtual time.
    time: u64,
    /// The entry that was executed last, and the one that it predicts.
    current: u32,
    next: u32,
    /// Executions as predicted that are not written yet.
    predicted: u32,
}

impl Hot {
    #[inline(always)]
    fn is_full(&self) -> bool {
        self.references >= MAX_REFERENCES || self.explicit >= MAX_EXPLICIT
    }
}

/// The references of one thread on their way into blocks.
#[derive(Debug)]
pub(super) struct ThreadEncoder {
    thread: Thread,
    /// References in sealed blocks.
    sealed: u64,
    hot: Hot,
    start_time: u64,
    idle: u64,
    generation: u32,
    /// The block is to be sealed before the next execution, for other reasons than [`Hot::is_full`].
    full: bool,
    cells: Vec<Cell>,
    /// By the recorder's number of a code block, where executions are taken from its words.
    lines: Vec<Line>,
    entries: Vec<Entry>,
    /// The entry of the first n accesses of a code block at its slot + n.
    prefixes: Vec<u32>,
    /// The entries of the first n accesses of code blocks that are spread over frames.
    spread: HashMap<(u32, usize), u32>,
    kinds: Vec<Kind>,
    vectors: Vectors,
    /// Slots of this block; `slots` may have more, kept for their memory. Those of a code block's words come first.
    used: usize,
    slots: Vec<Slot>,
    /// Memory of long columns of blocks before. The next block's long columns are those of other slots.
    spare: Vec<Vec<u64>>,
    dictionary: Vec<u8>,
    tokens: TokenWriter,
    events: Vec<u8>,
    /// The words of code blocks that miss mostly, as the last block found.
    expected: HashMap<CodeBlockId, u64>,
    /// References by kind in sealed blocks.
    by_kind: Box<[u64; 256]>,
    /// ... and by code block.
    by_block: HashMap<CodeBlockId, u64>,
    /// Explicit words of recorders that were no addresses.
    wrong: u64,
    /// Scratch: the words of a loop of executions, and those of one of them.
    places: Places,
    room: Option<Box<Window>>,
}

impl ThreadEncoder {
    /// Of a thread that has made `references` references before, up to virtual time `time`.
    pub(super) fn new(thread: Thread, references: u64, time: u64, grain: Grain) -> ThreadEncoder {
        ThreadEncoder {
            thread,
            sealed: references,
            hot: Hot { references: 0, explicit: 0, time, current: NO_ENTRY, next: NO_ENTRY, predicted: 0 },
            start_time: time,
            idle: 0,
            generation: 1,
            full: false,
            cells: Vec::new(),
            lines: Vec::new(),
            entries: Vec::new(),
            prefixes: Vec::new(),
            spread: HashMap::new(),
            kinds: Vec::new(),
            vectors: Vectors::new(grain.mask()),
            used: 0,
            slots: Vec::new(),
            spare: Vec::new(),
            dictionary: Vec::new(),
            tokens: TokenWriter::default(),
            events: Vec::new(),
            expected: HashMap::new(),
            by_kind: Box::new([0; 256]),
            by_block: HashMap::new(),
            wrong: 0,
            places: Places::new(),
            room: None,
        }
    }

    /// Virtual time so far.
    pub(super) fn time(&self) -> u64 {
        self.hot.time
    }

    /// References so far.
    pub(super) fn references(&self) -> u64 {
        self.sealed + u64::from(self.hot.references)
    }

    /// Whether the block is to be sealed before the next execution or event.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.full || self.hot.is_full()
    }

    /// One execution of `block` that ends after the accesses that `words` are enough for. The block is not full.
    pub(super) fn execute(&mut self, id: CodeBlockId, words: &[u64], blocks: &CodeBlocks) {
        let block = blocks.get(id);
        let n = usize::from(block.layout.accesses[words.len()]);
        if n == 0 {
            return self.advance(u64::from(block.instructions(0)));
        }
        let root = self.root(id, blocks);
        if words.len() < block.layout.words {
            return self.part(root, words, blocks);
        }
        let mut room = NOTHING_YET;
        room[1..=words.len()].copy_from_slice(words);
        self.whole(root, &room, blocks);
    }

    /// An execution of a whole code block, whose words `words` has.
    #[inline(always)]
    fn whole(&mut self, root: u32, words: &Window, blocks: &CodeBlocks) {
        let mut hot = self.hot;
        let fast = self.fast(&mut hot, root, words);
        self.hot = hot;
        if fast.is_none() {
            let count = usize::from(self.entries[root as usize].words);
            self.slow(root, &words[1..=count], blocks);
        }
    }

    /// Takes an execution of a whole code block if it is as predicted or expected, and returns how many words it has;
    /// `None`: nothing is done.
    #[inline(always)]
    fn fast(&mut self, hot: &mut Hot, root: u32, words: &Window) -> Option<usize> {
        let entry = self.entries.get_mut(root as usize)?;
        if !self.vectors.check(entry.place, words) {
            return None;
        }
        let count = usize::from(entry.words);
        let (mut expect, slot) = (entry.expect, entry.slot as usize);
        if expect != 0 {
            hot.explicit += u32::from(entry.expected);
            while expect != 0 {
                let word = expect.trailing_zeros() as usize % MAX_ACCESSES;
                self.slots[slot + word].push(words[1 + word], &mut self.spare);
                expect &= expect - 1;
            }
        }
        self.count(hot, root, 0);
        Some(count)
    }

    /// An execution that ends before its last words.
    fn part(&mut self, root: u32, words: &[u64], blocks: &CodeBlocks) {
        let entry = self.entries[root as usize];
        if !self.vectors.check_some(entry.place, words) {
            return self.slow(root, words, blocks);
        }
        let block = blocks.get(entry.block);
        let mut expect = entry.expect & !(u64::MAX << words.len());
        self.hot.explicit += expect.count_ones();
        while expect != 0 {
            let word = expect.trailing_zeros() as usize;
            self.slots[entry.slot as usize + word].push(words[word], &mut self.spare);
            expect &= expect - 1;
        }
        let n = usize::from(block.layout.accesses[words.len()]);
        let part = self.variant(root, block, n, words.len(), false);
        let mut hot = self.hot;
        self.count(&mut hot, part, 0);
        self.hot = hot;
        self.entries[root as usize].others += 1;
    }

    /// Counts an execution and writes what is not as predicted of its place in the order.
    #[inline(always)]
    fn count(&mut self, hot: &mut Hot, entry: u32, explicit: u64) {
        let line = &mut self.entries[entry as usize];
        line.executions += 1;
        hot.time = hot.time.wrapping_add(line.instructions.into());
        hot.references += u32::from(line.accesses);
        if hot.next == entry && explicit == 0 {
            hot.predicted += 1;
            hot.next = line.next[0];
        } else {
            self.unpredicted(hot, entry, explicit);
        }
        hot.current = entry;
    }

    /// Writes the token of an execution.
    #[cold]
    #[inline(never)]
    fn unpredicted(&mut self, hot: &mut Hot, entry: u32, explicit: u64) {
        self.full |= self.tokens.len() >= MAX_TOKENS;
        self.tokens.behind(std::mem::take(&mut hot.predicted));
        let last = hot.current;
        if let Some(before) = self.entries.get_mut(last as usize) {
            let since = before.executions - before.mispredicted - u32::from(last == entry);
            if before.next[0] == entry {
                self.tokens.masked(explicit);
            } else if before.next[1] != entry {
                before.next[usize::from(before.next[0] != NO_ENTRY)] = entry;
                before.mispredicted = before.executions;
                self.tokens.named(entry, explicit);
            } else if since <= 1 {
                before.next.swap(0, 1);
                before.mispredicted = before.executions;
                self.tokens.swap();
                if explicit == 0 {
                    hot.predicted = 1;
                } else {
                    self.tokens.masked(explicit);
                }
            } else {
                before.mispredicted = before.executions;
                self.tokens.second(explicit);
            }
        } else {
            self.tokens.named(entry, explicit);
        }
        hot.next = self.entries[entry as usize].next[0];
    }

    /// An execution, the first one of its code block or one of which something is not as predicted.
    #[cold]
    #[inline(never)]
    fn slow(&mut self, root: u32, words: &[u64], blocks: &CodeBlocks) {
        let Entry { place, slot, expect, block, .. } = self.entries[root as usize];
        let block = blocks.get(block);
        let layout = &block.layout;
        let n = usize::from(layout.accesses[words.len()]);
        let slots = &mut self.slots[slot as usize..];
        let kept = self.vectors.kept;
        let mut explicit = 0u64;
        let mut taken = 0;
        for (at, &word) in words.iter().enumerate() {
            let (slot, word) = (&mut slots[at], word & kept);
            let last = std::mem::replace(self.vectors.last(place, at), word);
            let difference = word.wrapping_sub(last);
            if expect >> at & 1 == 1 {
                slot.sample(difference);
                slot.push(word, &mut self.spare);
                taken += 1;
                continue;
            }
            let stride = self.vectors.stride(place, at);
            let same_page = (word ^ last) & PAGE == 0;
            if difference != *stride || !same_page {
                *stride = slot.learn(difference, same_page, *stride);
                slot.push(word, &mut self.spare);
                explicit |= 1 << layout.access[at];
            }
        }
        let spread = place.spans && layout.is_spread(words, n);
        if spread {
            explicit |= spread_slots(slots, block, (words, kept), n, &mut self.spare);
        }
        self.hot.explicit += taken + explicit.count_ones();
        let entry = self.variant(root, block, n, words.len(), spread);
        let mut hot = self.hot;
        self.count(&mut hot, entry, explicit);
        self.hot = hot;
        let line = &mut self.entries[root as usize];
        line.others += u32::from(entry != root);
        line.slow += u32::from(explicit != 0);
        if line.slow >= REVISE {
            self.revise(root, block);
        }
    }

    /// Decides anew which words of a code block are expected to miss.
    fn revise(&mut self, root: u32, block: &CodeBlock) {
        let line = &mut self.entries[root as usize];
        let executions = line.executions + line.others - line.revised;
        (line.revised, line.slow) = (line.executions + line.others, 0);
        let mut expect = line.expect;
        let slots = &mut self.slots[line.slot as usize..][..usize::from(line.words)];
        for (word, slot) in slots.iter_mut().enumerate() {
            let expected = expect >> word & 1 == 1;
            let (misses, repeats) = (std::mem::take(&mut slot.misses), std::mem::take(&mut slot.repeats));
            let (misses, of) = if expected { (misses - repeats, misses) } else { (misses, executions) };
            if expected != (misses * 4 >= of) {
                expect ^= 1 << word;
                slot.forget_strides();
                self.vectors.expect(line.place, word, !expected);
            }
        }
        if expect != line.expect {
            (line.expect, line.expected) = (expect, expect.count_ones() as u8);
            self.tokens.behind(std::mem::take(&mut self.hot.predicted));
            self.tokens.expect(root, block.layout.by_access(expect));
        }
    }

    /// Adds to the virtual time.
    #[inline]
    pub(super) fn advance(&mut self, units: u64) {
        self.idle = self.idle.saturating_add(units);
        if self.idle >= MAX_IDLE {
            self.end_idle();
        }
    }

    /// Writes the virtual time that has passed without references.
    pub(super) fn end_idle(&mut self) {
        let idle = std::mem::take(&mut self.idle);
        if idle > 0 {
            self.hot.time = self.hot.time.saturating_add(idle);
            self.tokens.behind(std::mem::take(&mut self.hot.predicted));
            self.tokens.advance(idle);
            self.full |= self.tokens.len() >= MAX_TOKENS;
        }
    }

    pub(super) fn event(&mut self, event: &Event) {
        self.end_idle();
        self.tokens.behind(std::mem::take(&mut self.hot.predicted));
        self.tokens.event();
        event.encode(&mut self.events);
        self.full |= self.events.len() >= MAX_TOKENS || self.tokens.len() >= MAX_TOKENS;
    }

    /// Makes all addresses so far dense: before a mapping changes, and before the block is sealed.
    pub(super) fn translate(&mut self, frames: &mut FrameTable) {
        for slot in &mut self.slots[..self.used] {
            self.wrong += slot.translate(frames, self.vectors.kept);
        }
    }

    /// Explicit words so far that were no addresses.
    pub(super) fn wrong(&self) -> u64 {
        self.wrong
    }

    /// Forgets the frames of the slots whose last address lies in the range, which was retired.
    pub(super) fn forget(&mut self, address: u64, length: u64) {
        let pages = address >> FRAME_SHIFT..=address.saturating_add(length.saturating_sub(1)) >> FRAME_SHIFT;
        for entry in self.entries.iter().enumerate().filter(|(n, entry)| entry.root as usize == *n) {
            let entry = entry.1;
            let slots = &mut self.slots[entry.slot as usize..][..usize::from(entry.accesses)];
            let (words, derived) = slots.split_at_mut(usize::from(entry.words));
            for word in (0..words.len()).filter(|word| entry.expect >> word & 1 == 0) {
                if pages.contains(&(*self.vectors.last(entry.place, word) >> FRAME_SHIFT)) {
                    *self.vectors.stride(entry.place, word) = NEVER;
                }
            }
            for slot in derived.iter_mut().filter(|slot| pages.contains(&(slot.last >> FRAME_SHIFT))) {
                slot.check = NEVER;
            }
        }
    }
}

/// Takes the accesses without a word of their own of an execution that is spread over frames through their slots;
/// returns the explicit ones. `kept` are the bits of addresses that count.
fn spread_slots(
    slots: &mut [Slot],
    block: &CodeBlock,
    (words, kept): (&[u64], u64),
    n: usize,
    spare: &mut Vec<Vec<u64>>,
) -> u64 {
    let layout = &block.layout;
    let mut explicit = 0;
    for (j, derived) in layout.derived[..n].iter().enumerate().filter(|(_, derived)| derived.is_some()) {
        let Some((of, offset)) = *derived else { continue };
        let address = words[usize::from(layout.place[usize::from(of)])].wrapping_add(offset as u64) & kept;
        let slot = &mut slots[usize::from(layout.place[j])];
        let difference = address.wrapping_sub(slot.last);
        let same_page = (address ^ slot.last) & PAGE == 0;
        if difference != slot.check || !same_page {
            slot.check = slot.learn(difference, same_page, slot.check);
            slot.push(address, spare);
            explicit |= 1 << j;
        }
        slot.last = address;
    }
    explicit
}
