//! The encoder of one thread: executions of code blocks into references blocks.
//!
//! Executions are collected in a batch first: where their words lie and the order in which they came. A full batch is
//! encoded column by column (`slots`): one access of a code block through all its executions, which gives every
//! execution the mask of its explicit accesses. Then the executions go out as tokens, in order, equal neighbours as one
//! run. Only at the end of a block it is known which slots are best encoded how (`modes`); the next block makes use of
//! it.

mod dictionary;
mod modes;
mod slots;
mod taking;
mod tokens;

use super::code::{CodeBlock, CodeBlockId, CodeBlocks};
use super::columns::{self, Mode};
use super::event::Event;
use super::format::{BlockHeader, BlockKind, FRAME_SHIFT};
use super::frames::FrameTable;
use super::kind::Kind;
use super::varint;
use crate::ids::Thread;
use dictionary::{Cell, Entry};
use modes::Choice;
use slots::{Row, Scan, Slot};
use std::collections::HashMap;
use taking::Line;
pub(super) use taking::{Known, Taken};
use tokens::TokenWriter;

/// References after which a references block is full; an execution may add 63 more.
pub(super) const MAX_REFERENCES: u32 = 1 << 20;
/// Explicit values after which a references block is full; the batch in progress may add its own.
const MAX_EXPLICIT: usize = 1 << 18;
const MAX_TOKENS: usize = 1 << 20;
const MAX_SLOTS: usize = 1 << 16;
/// Words of a batch: they fit into a core's own caches.
const BATCH_WORDS: usize = 1 << 14;
/// Executions, events and stretches of idle time of a batch.
const BATCH_ITEMS: usize = 1 << 11;
/// Instructions of code blocks without accesses are collected up to this many before they become a token, so that they
/// do not interrupt runs: the virtual time of a reference is late by less than this.
const MAX_IDLE: u64 = 1024;
const NO_ENTRY: u32 = u32::MAX;

pub(super) use tokens::{ADVANCE, EVENT, LOOP, MANY, MANY_MASKED, MAX_BODY, ONE_MASKED};

/// What happened, in order: a number of an entry, an event, or virtual time that passed.
#[derive(Clone, Copy, Debug)]
enum Item {
    Execution(u32),
    Event,
    /// As much of it as the next of [`Batch::advances`] says.
    Advance,
}

/// What is not encoded yet.
#[derive(Debug, Default)]
struct Batch {
    items: Vec<Item>,
    advances: Vec<u64>,
    /// The executions of each code block, by its entry, and which entries have any.
    rows: Vec<Vec<Row>>,
    touched: Vec<u32>,
    /// Scratch: the explicit accesses of each item; rows with accesses in more than one frame.
    masks: Vec<u64>,
    crossings: Vec<u32>,
}

/// The two parts of a sealed references block.
#[derive(Debug, Default)]
pub(super) struct Sealed {
    /// Dictionary, tokens and events.
    pub steps: Vec<u8>,
    /// Slots and explicit values.
    pub values: Vec<u8>,
    /// Scratch: the values by themselves.
    planes: Vec<u8>,
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
    /// The same, or the batch is to be encoded before the next execution.
    blocked: bool,
    cells: Vec<Cell>,
    /// By the recorder's number of a code block, where executions are taken from its words.
    lines: Vec<Line>,
    entries: Vec<Entry>,
    /// The entry of the first n accesses of a code block at its slot + n.
    prefixes: Vec<u32>,
    kinds: Vec<Kind>,
    /// Slots of this block; `slots` may have more, kept for their memory.
    used: usize,
    slots: Vec<Slot>,
    /// Memory of long columns of blocks before. The next block's long columns are those of other slots.
    spare: Vec<Vec<u64>>,
    batch: Batch,
    /// The words of the batch's executions, where they are not taken from where they lie ([`taking`]).
    words: Vec<u64>,
    dictionary: Vec<u8>,
    tokens: TokenWriter,
    events: Vec<u8>,
    /// How a code block's slots are encoded, as the last block found best.
    choices: HashMap<CodeBlockId, Box<[Choice]>>,
    /// References by kind in sealed blocks.
    by_kind: Box<[u64; 256]>,
}

impl ThreadEncoder {
    /// Of a thread that has made `references` references before, up to virtual time `time`.
    pub(super) fn new(thread: Thread, references: u64, time: u64) -> ThreadEncoder {
        ThreadEncoder {
            thread,
            sealed: references,
            references: 0,
            explicit: 0,
            time,
            start_time: time,
            idle: 0,
            generation: 1,
            full: false,
            blocked: false,
            cells: Vec::new(),
            lines: Vec::new(),
            entries: Vec::new(),
            prefixes: Vec::new(),
            kinds: Vec::new(),
            used: 0,
            slots: Vec::new(),
            spare: Vec::new(),
            batch: Batch::default(),
            words: Vec::new(),
            dictionary: Vec::new(),
            tokens: TokenWriter::default(),
            events: Vec::new(),
            choices: HashMap::new(),
            by_kind: Box::new([0; 256]),
        }
    }

    /// Virtual time so far.
    pub(super) fn time(&self) -> u64 {
        self.time
    }

    /// References so far.
    pub(super) fn references(&self) -> u64 {
        self.sealed + u64::from(self.references)
    }

    /// Whether the block is to be sealed before the next execution or event.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.full
    }

    /// Whether the batch is to be encoded ([`ThreadEncoder::encode_batch`]) before the next execution.
    #[inline]
    pub(super) fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Adds an execution, whose words begin at `at` in those of the batch, to its items.
    #[inline(always)]
    fn append(&mut self, root: u32, entry: u32, at: usize, accesses: u8) {
        let batch = &mut self.batch;
        let rows = &mut batch.rows[root as usize];
        if rows.is_empty() {
            batch.touched.push(root);
        }
        rows.push(Row { item: batch.items.len() as u32, at: at as u16, accesses });
        batch.items.push(Item::Execution(entry));
        let line = &mut self.entries[entry as usize];
        line.executions += 1;
        self.time += u64::from(line.instructions);
        self.references += line.accesses;
        self.full |= self.references >= MAX_REFERENCES;
        self.blocked |= self.full || batch.items.len() >= BATCH_ITEMS;
    }

    /// One execution of `block` that ends after the accesses that `words` are enough for. The encoder is not blocked.
    pub(super) fn execute(&mut self, id: CodeBlockId, block: &CodeBlock, words: &[u64]) {
        let n = usize::from(block.layout.accesses[words.len()]);
        if n == 0 {
            return self.advance(u64::from(block.instructions(0)));
        }
        let root = self.entry(id, block);
        let entry = if n == block.kinds.len() { root } else { self.prefix(root, block, n, words.len()) };
        let at = self.words.len();
        self.words.extend_from_slice(words);
        self.append(root, entry, at, n as u8);
        self.blocked |= self.words.len() >= BATCH_WORDS;
    }

    /// Encodes the batch.
    pub(super) fn encode_batch(&mut self, blocks: &CodeBlocks, frames: &mut FrameTable) {
        let mut words = std::mem::take(&mut self.words);
        self.encode_words(&words, u64::MAX, blocks, frames);
        words.clear();
        self.words = words;
    }

    /// Encodes the batch, the words of whose executions lie in `words`; the bits of `mask` are their addresses. Returns
    /// how many explicit ones of them were no addresses.
    fn encode_words(
        &mut self,
        words: &[u64],
        mask: u64,
        blocks: &CodeBlocks,
        frames: &mut FrameTable,
    ) -> u64 {
        let mut batch = std::mem::take(&mut self.batch);
        batch.masks.clear();
        batch.masks.resize(batch.items.len(), 0);
        let mut wrong = 0;
        for root in batch.touched.drain(..) {
            let rows = &mut batch.rows[root as usize];
            let mut scan = Scan {
                rows: rows.as_slice(),
                words,
                mask,
                masks: &mut batch.masks,
                frames: &mut *frames,
                wrong: 0,
            };
            let block = blocks.get(self.entries[root as usize].block);
            self.scan(root, block, &mut scan, &mut batch.crossings);
            wrong += scan.wrong;
            rows.clear();
        }
        self.emit(&batch);
        batch.items.clear();
        batch.advances.clear();
        self.batch = batch;
        self.full |= self.explicit >= MAX_EXPLICIT;
        self.blocked = self.full;
        wrong
    }

    /// Encodes the last batch of a block.
    pub(super) fn end_batch(&mut self, blocks: &CodeBlocks, frames: &mut FrameTable) {
        self.end_idle();
        self.encode_batch(blocks, frames);
    }

    /// Takes the executions of one code block through its slots.
    fn scan(&mut self, root: u32, block: &CodeBlock, scan: &mut Scan<'_>, crossings: &mut Vec<u32>) {
        let layout = &block.layout;
        let slot = self.entries[root as usize].slot as usize;
        let slots = &mut self.slots[slot..slot + block.kinds.len()];
        let explicit = |slots: &[Slot]| slots.iter().map(|s| s.column.len()).sum::<usize>();
        let before = explicit(slots);
        let mut always = 0;
        // Of the explicit accesses before: the access that is not linked, and the place of its word.
        let mut recent = None;
        for (j, slot) in slots.iter_mut().enumerate() {
            slot.make_room(scan.rows.len(), &mut self.spare);
            let place = usize::from(layout.place[j]);
            match (layout.derived[j], slot.mode) {
                (Some(_), _) => {}
                (None, Mode::Linked(to)) => {
                    let base = usize::from(layout.place[usize::from(to)]);
                    slot.scan_linked(scan, place, base, j);
                    recent = Some((to, base));
                }
                _ if slot.always => {
                    always |= 1 << j;
                    slot.scan_always(scan, place, j);
                    if let Some((to, base)) = recent {
                        slot.sample_links(scan, place, to, base);
                    }
                    recent = Some((j as u8, place));
                }
                _ => slot.scan_word(scan, place, j),
            }
        }
        let others = if layout.is_plain() { &[][..] } else { &layout.spans[..] };
        for (word, &span) in others.iter().enumerate() {
            scan.crossings(word, span, crossings);
            for (j, derived) in layout.derived.iter().enumerate() {
                if let Some((_, offset)) =
                    derived.filter(|&(of, _)| usize::from(layout.place[usize::from(of)]) == word)
                {
                    slots[j].scan_derived(scan, (word, offset), j, crossings);
                }
            }
        }
        self.explicit += explicit(slots) - before;
        self.entries[root as usize].always = always;
    }

    /// Writes the items of a batch as tokens.
    fn emit(&mut self, batch: &Batch) {
        let (mut current, mut always) = (NO_ENTRY, 0);
        let mut advances = batch.advances.iter();
        let mut run = self.tokens.take_run();
        for (&item, &mask) in batch.items.iter().zip(&batch.masks) {
            match item {
                Item::Execution(entry) => {
                    if entry != current {
                        current = entry;
                        let line = self.entries[entry as usize];
                        always = self.entries[line.root as usize].always & u64::MAX >> (64 - line.accesses);
                    }
                    run = self.tokens.execution(run, entry, mask | always, &self.entries);
                }
                Item::Event => {
                    self.tokens.resume(std::mem::take(&mut run));
                    self.tokens.event(&self.entries);
                }
                Item::Advance => {
                    let units = advances.next().expect("each item of passing time has its length");
                    self.tokens.resume(std::mem::take(&mut run));
                    self.tokens.advance(*units, &self.entries);
                }
            }
        }
        self.tokens.resume(run);
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
        let idle = std::mem::take(&mut self.idle);
        if idle > 0 {
            self.time = self.time.saturating_add(idle);
            self.batch.advances.push(idle);
            self.push_item(Item::Advance);
        }
    }

    /// Adds what is no execution to the batch.
    fn push_item(&mut self, item: Item) {
        self.batch.items.push(item);
        self.blocked |= self.batch.items.len() >= BATCH_ITEMS;
    }

    pub(super) fn event(&mut self, event: &Event) {
        self.end_idle();
        self.push_item(Item::Event);
        event.encode(&mut self.events);
        self.full |= self.events.len() >= MAX_TOKENS;
        self.blocked |= self.full;
    }

    /// Forgets the frames of the slots whose last address lies in the range: it was retired or moved. The batch is
    /// empty.
    pub(super) fn forget(&mut self, address: u64, length: u64) {
        let (first, last) =
            (address >> FRAME_SHIFT, address.saturating_add(length.saturating_sub(1)) >> FRAME_SHIFT);
        self.slots[..self.used].iter_mut().for_each(|slot| slot.forget(first, last));
    }

    /// Ends the block in progress, whose batch is empty, and replaces `sealed` by it; `None` if there is nothing in it.
    pub(super) fn seal(&mut self, sealed: &mut Sealed) -> Option<BlockHeader> {
        self.tokens.end(&self.entries);
        if self.tokens.len() == 0 {
            return None;
        }
        self.sum_kinds();
        self.choose();
        let Sealed { steps, values, planes } = sealed;
        [&mut *steps, &mut *values, &mut *planes].into_iter().for_each(Vec::clear);
        varint::put(steps, self.entries.len() as u64);
        varint::put(steps, self.tokens.len() as u64);
        steps.append(&mut self.dictionary);
        steps.append(self.tokens.bytes());
        steps.append(&mut self.events);
        for slot in &mut self.slots[..self.used] {
            columns::encode(values, planes, slot.mode, slot.first, &mut slot.column);
            slot.give_memory(&mut self.spare, 4 * MAX_EXPLICIT);
        }
        values.append(planes);
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
        Some(header)
    }

    fn restart(&mut self) {
        self.sealed += u64::from(self.references);
        self.start_time = self.time;
        (self.references, self.explicit) = (0, 0);
        self.generation += 1;
        self.entries.clear();
        self.prefixes.clear();
        self.kinds.clear();
        self.used = 0;
        (self.full, self.blocked) = (false, false);
    }

    /// Adds the references of this block to `by_kind`.
    fn sum_kinds(&mut self) {
        for entry in &self.entries {
            for kind in &self.kinds[entry.kinds as usize..][..entry.accesses as usize] {
                self.by_kind[usize::from(kind.0)] += u64::from(entry.executions);
            }
        }
    }

    /// Adds the references of sealed blocks, by kind.
    pub(super) fn count_kinds(&self, by_kind: &mut [u64; 256]) {
        by_kind.iter_mut().zip(self.by_kind.iter()).for_each(|(sum, count)| *sum += count);
    }

    /// Chooses how each slot is encoded in the next block from what this one saw.
    fn choose(&mut self) {
        for number in 0..self.entries.len() {
            let Entry { root, executions, .. } = self.entries[number];
            if root as usize != number {
                self.entries[root as usize].executions += executions;
            }
        }
        for (number, entry) in self.entries.iter().enumerate() {
            if entry.root as usize != number {
                continue;
            }
            let slot = entry.slot as usize;
            let choices = modes::choose(&self.slots[slot..slot + entry.accesses as usize], entry.executions);
            if choices.iter().any(|&c| c != Choice::FIRST) || self.choices.contains_key(&entry.block) {
                self.choices.insert(entry.block, choices);
            }
        }
    }
}
