//! Code blocks: the sequences of accesses that a recorder defines, or that are discovered in a stream without blocks.

use super::format::{FRAME_SHIFT, MAX_ACCESSES};
use super::kind::Kind;
use std::collections::HashMap;

/// One access of a code block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Index of its instruction in the block.
    pub instruction: u16,
    /// Size in bytes.
    pub bytes: u32,
    /// Whether it writes.
    pub write: bool,
    /// Whether it is an atomic read-modify-write.
    pub atomic: bool,
    /// Where its address comes from.
    pub source: AddressSource,
    /// Whether an execution may end just before it (a side exit).
    pub exit: bool,
    /// Whether it may not happen; its word is 0 then.
    pub guarded: bool,
}

/// Where the address of an access comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AddressSource {
    /// The next word of the execution.
    #[default]
    Word,
    /// Another word of the execution (counted from 0) plus an offset.
    Derived {
        /// The word.
        word: u16,
        /// What is added to it.
        offset: i16,
    },
}

impl Access {
    /// A plain access with an address of its own.
    pub fn new(instruction: u16, bytes: u32, write: bool) -> Access {
        Access {
            instruction,
            bytes,
            write,
            atomic: false,
            source: AddressSource::Word,
            exit: false,
            guarded: false,
        }
    }
}

/// What a recorder says about a code block before it executes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockDef {
    /// The accesses in the order of execution.
    pub accesses: Vec<Access>,
    /// Instructions of a full execution.
    pub instructions: u32,
}

/// A code block that a writer knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CodeBlockId(pub(super) u32);

impl CodeBlockId {
    #[inline]
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A code block of at most 64 accesses; longer ones are a chain of them.
#[derive(Clone, Debug)]
pub(super) struct CodeBlock {
    pub kinds: Vec<Kind>,
    /// Instructions of the accesses before each access, and of all at the end: what a side exit has executed.
    pub executed: Vec<u32>,
    /// The rest of a longer block.
    pub next: Option<CodeBlockId>,
    /// How the words of an execution become addresses, if some accesses have no word of their own.
    pub expansion: Option<Box<Expansion>>,
    /// How accesses and words belong together (in a chain, of this part with all addresses given).
    pub layout: Layout,
    /// Words of a full execution of the whole chain.
    pub words: usize,
}

/// How the accesses of a code block and the words of its executions belong together. Slots are arranged so that those
/// of words come first: the fast check of the encoder then runs over a slice.
#[derive(Clone, Debug, Default)]
pub(super) struct Layout {
    /// The place of each access among the slots.
    pub place: Vec<u8>,
    /// The access of each place.
    pub access: Vec<u8>,
    /// Words of a full execution.
    pub words: usize,
    /// How many accesses an execution with 0, 1, .. words has.
    pub accesses: Vec<u8>,
    /// For each word the smallest and the largest offset of the accesses derived from it, 0 included.
    pub spans: Vec<(i64, i64)>,
    /// Bit n: an execution may end where its n-th word would be.
    pub exits: u64,
    /// The derived accesses: the access of the word and the offset; `None` for others.
    pub derived: Vec<Option<(u8, i64)>>,
    /// Where the address of each access comes from: a word of the execution and what is added to it.
    pub origin: Vec<(u8, i64)>,
}

impl Layout {
    /// Whether every access has a word.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        self.words == self.place.len()
    }

    /// A mask with a bit an access of one with a bit a word.
    pub(super) fn by_access(&self, words: u64) -> u64 {
        if self.is_plain() {
            return words;
        }
        let access = self.access.iter().take(self.words).enumerate();
        access.fold(0, |mask, (word, &j)| mask | (words >> word & 1) << j)
    }

    /// Whether one of the first `n` accesses of an execution with these words lies in another page than the word that
    /// it is derived from.
    pub(super) fn is_spread(&self, words: &[u64], n: usize) -> bool {
        self.derived[..n].iter().flatten().any(|&(of, offset)| {
            let word = words[usize::from(self.place[usize::from(of)])];
            (word ^ word.wrapping_add(offset as u64)) >> FRAME_SHIFT != 0
        })
    }

    /// The layout of a block in which every access has a word.
    fn plain(accesses: usize) -> Layout {
        Layout::of(&vec![AddressSource::Word; accesses], &vec![true; accesses])
    }

    fn of_def(def: &BlockDef) -> Layout {
        let sources: Vec<AddressSource> = def.accesses.iter().map(|a| a.source).collect();
        let exits: Vec<bool> = def.accesses.iter().map(|a| a.exit).collect();
        Layout::of(&sources, &exits)
    }

    fn of(sources: &[AddressSource], exits: &[bool]) -> Layout {
        let (mut own, mut others) = (Vec::new(), Vec::new());
        for (j, source) in sources.iter().enumerate() {
            (if *source == AddressSource::Word { &mut own } else { &mut others }).push(j as u8);
        }
        let words = own.len();
        let mut spans = vec![(0i64, 0i64); words];
        let mut derived = vec![None; sources.len()];
        for (j, source) in sources.iter().enumerate() {
            if let AddressSource::Derived { word, offset } = *source {
                let (span, offset) = (&mut spans[usize::from(word)], i64::from(offset));
                *span = (span.0.min(offset), span.1.max(offset));
                derived[j] = Some((own[usize::from(word)], offset));
            }
        }
        let ends = |given: usize| {
            let mut taken = 0;
            for (j, source) in sources.iter().enumerate() {
                if taken == given && (exits[j] || *source == AddressSource::Word) {
                    return j as u8;
                }
                taken += usize::from(*source == AddressSource::Word);
            }
            sources.len() as u8
        };
        let accesses = (0..=words).map(ends).collect();
        let mut taken = 0;
        let mut early = 0;
        for (source, &exit) in sources.iter().zip(exits) {
            early |= u64::from(exit && taken < words) << taken.min(63);
            taken += usize::from(*source == AddressSource::Word);
        }
        own.append(&mut others);
        let mut place = vec![0; sources.len()];
        own.iter().enumerate().for_each(|(at, &j)| place[usize::from(j)] = at as u8);
        let origin = (0..sources.len()).map(|j| match derived[j] {
            Some((of, offset)) => (place[usize::from(of)], offset),
            None => (place[j], 0),
        });
        let origin = origin.collect();
        Layout { place, access: own, words, accesses, spans, exits: early, derived, origin }
    }
}

/// How the words of an execution become addresses.
#[derive(Clone, Debug)]
pub(super) struct Expansion {
    sources: Vec<AddressSource>,
    exits: Vec<bool>,
}

impl Expansion {
    fn of(def: &BlockDef) -> Option<Box<Expansion>> {
        let sources: Vec<AddressSource> = def.accesses.iter().map(|a| a.source).collect();
        if sources.iter().all(|&s| s == AddressSource::Word) {
            return None;
        }
        Some(Box::new(Expansion { sources, exits: def.accesses.iter().map(|a| a.exit).collect() }))
    }

    /// Appends the addresses of the accesses that happened in an execution with these words.
    pub(super) fn expand(&self, words: &[u64], addresses: &mut Vec<u64>) {
        let mut taken = 0;
        for (source, &exit) in self.sources.iter().zip(&self.exits) {
            if exit && taken == words.len() {
                return;
            }
            match *source {
                AddressSource::Word => {
                    let Some(&word) = words.get(taken) else { return };
                    taken += 1;
                    addresses.push(word);
                }
                AddressSource::Derived { word, offset } => {
                    let base = words.get(usize::from(word)).copied().unwrap_or(0);
                    addresses.push(if base == 0 { 0 } else { base.wrapping_add(offset as u64) });
                }
            }
        }
    }
}

impl BlockDef {
    /// The words of a full execution.
    pub fn words(&self) -> usize {
        self.accesses.iter().filter(|a| a.source == AddressSource::Word).count()
    }
}

impl CodeBlock {
    /// A block by itself in which every access has a word.
    fn plain(kinds: Vec<Kind>, executed: Vec<u32>) -> CodeBlock {
        let (layout, words) = (Layout::plain(kinds.len()), kinds.len());
        CodeBlock { kinds, executed, next: None, expansion: None, layout, words }
    }

    /// Instructions of an execution of the first `accesses` accesses.
    #[inline]
    pub(super) fn instructions(&self, accesses: usize) -> u32 {
        self.executed[accesses]
    }
}

/// All code blocks of a writer.
#[derive(Debug, Default)]
pub(super) struct CodeBlocks {
    blocks: Vec<CodeBlock>,
    /// For each the one that was defined: of further pieces of long ones, and of blocks with only some accesses.
    defined: Vec<CodeBlockId>,
    /// Blocks with only some of the accesses of another (a bit an access), and blocks of single accesses.
    derived: HashMap<(CodeBlockId, u64), CodeBlockId>,
    /// The latest of those with only some accesses, by a hash of block and accesses.
    recent: Vec<(CodeBlockId, u64, CodeBlockId)>,
    discovered: HashMap<Box<[(u64, Kind)]>, CodeBlockId>,
}

/// Beyond this many discovered or derived blocks, new sequences are split into single references, so that no stream
/// makes the table grow without bound.
const MAX_DISCOVERED: usize = 1 << 17;

/// Entries of [`CodeBlocks::recent`].
const RECENT: usize = 1 << 11;

#[inline]
fn recent_cell(id: CodeBlockId, present: u64) -> usize {
    let key = (present ^ u64::from(id.0) << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (key >> 53) as usize
}

impl CodeBlocks {
    #[inline]
    pub(super) fn get(&self, id: CodeBlockId) -> &CodeBlock {
        &self.blocks[id.index()]
    }

    fn push(&mut self, block: CodeBlock) -> CodeBlockId {
        let id = CodeBlockId(self.blocks.len() as u32);
        self.push_of(id, block)
    }

    /// The same of a block that is made of another.
    fn push_of(&mut self, defined: CodeBlockId, block: CodeBlock) -> CodeBlockId {
        self.blocks.push(block);
        self.defined.push(defined);
        CodeBlockId(self.blocks.len() as u32 - 1)
    }

    /// The block that a recorder defined, of which this one is made.
    pub(super) fn defined(&self, id: CodeBlockId) -> CodeBlockId {
        self.defined[id.index()]
    }

    /// Enters a block and returns its id, or that of the first of its chain. An access that is derived from a word that
    /// does not come before it gets a word of its own.
    pub(super) fn define(&mut self, def: &BlockDef) -> CodeBlockId {
        let mut def = def.clone();
        let mut words = 0;
        for access in &mut def.accesses {
            match access.source {
                AddressSource::Derived { word, .. } if word < words => {}
                _ => {
                    access.source = AddressSource::Word;
                    words += 1;
                }
            }
        }
        let pieces = def.accesses.len().div_ceil(MAX_ACCESSES).max(1);
        let first = CodeBlockId(self.blocks.len() as u32);
        let mut before = 0;
        for piece in 0..pieces {
            let rest = &def.accesses[piece * MAX_ACCESSES..];
            let accesses = &rest[..rest.len().min(MAX_ACCESSES)];
            let mut executed = Vec::with_capacity(accesses.len() + 1);
            let mut count = 0;
            executed.push(0);
            for access in accesses {
                count = count
                    .max((u32::from(access.instruction) + 1).min(def.instructions).saturating_sub(before));
                executed.push(count);
            }
            let last = piece + 1 == pieces;
            if let (true, Some(full)) = (last, executed.last_mut()) {
                *full = def.instructions.saturating_sub(before).max(count);
                count = *full;
            }
            before += count;
            let kinds = accesses.iter().map(|a| Kind::new(a.bytes, a.write, a.atomic)).collect();
            let next = (!last).then_some(CodeBlockId(first.0 + piece as u32 + 1));
            let expansion = if piece == 0 { Expansion::of(&def) } else { None };
            let layout = if pieces == 1 { Layout::of_def(&def) } else { Layout::plain(accesses.len()) };
            self.push_of(first, CodeBlock { kinds, executed, next, expansion, layout, words: def.words() });
        }
        first
    }

    /// The block with only those accesses of `id` whose bit in `present` is set, with all its instructions; `None` if
    /// there are too many such blocks already.
    pub(super) fn with_accesses(&mut self, id: CodeBlockId, present: u64) -> Option<CodeBlockId> {
        let cell = recent_cell(id, present);
        match self.recent.get(cell) {
            Some(&(block, accesses, known)) if block == id && accesses == present => return Some(known),
            Some(_) => {}
            None => self.recent.resize(RECENT, (CodeBlockId(u32::MAX), 0, CodeBlockId(0))),
        }
        let known = self.subset(id, present)?;
        self.recent[cell] = (id, present, known);
        Some(known)
    }

    #[cold]
    fn subset(&mut self, id: CodeBlockId, present: u64) -> Option<CodeBlockId> {
        if let Some(&known) = self.derived.get(&(id, present)) {
            return Some(known);
        }
        if self.derived.len() >= MAX_DISCOVERED {
            return None;
        }
        let block = self.get(id);
        let (mut kinds, mut executed) = (Vec::new(), vec![0]);
        for j in (0..block.kinds.len()).filter(|j| present >> j & 1 == 1) {
            kinds.push(block.kinds[j]);
            executed.push(block.executed[j + 1]);
        }
        if let (Some(full), Some(&all)) = (executed.last_mut(), block.executed.last()) {
            *full = all;
        }
        let derived = self.push_of(self.defined(id), CodeBlock::plain(kinds, executed));
        self.derived.insert((id, present), derived);
        Some(derived)
    }

    /// The block of one access of `id` by itself, which executes no instructions: the caller counts them.
    pub(super) fn single(&mut self, id: CodeBlockId, access: usize) -> CodeBlockId {
        // The top bit keeps these apart from blocks of the same access with its block's instructions.
        let key = (CodeBlockId(id.0 | 1 << 31), access as u64);
        if let Some(&known) = self.derived.get(&key) {
            return known;
        }
        let kind = self.get(id).kinds[access];
        let single = self.push_of(self.defined(id), CodeBlock::plain(vec![kind], vec![0, 0]));
        self.derived.insert(key, single);
        single
    }

    /// The block that consists of these (instruction address, kind) references, each of which counts as one
    /// instruction; `None` if there are too many already.
    pub(super) fn discover(&mut self, sequence: &[(u64, Kind)]) -> Option<CodeBlockId> {
        if let Some(&known) = self.discovered.get(sequence) {
            return Some(known);
        }
        (self.discovered.len() < MAX_DISCOVERED).then(|| self.enter(sequence))
    }

    /// The block of one reference, however many there are.
    pub(super) fn discover_single(&mut self, reference: (u64, Kind)) -> CodeBlockId {
        match self.discovered.get(&[reference][..]) {
            Some(&known) => known,
            None => self.enter(&[reference]),
        }
    }

    fn enter(&mut self, sequence: &[(u64, Kind)]) -> CodeBlockId {
        let kinds = sequence.iter().map(|s| s.1).collect();
        let executed = (0..=sequence.len() as u32).collect();
        let block = self.push(CodeBlock::plain(kinds, executed));
        self.discovered.insert(sequence.into(), block);
        block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn def(accesses: usize, instructions: u32) -> BlockDef {
        let access = |i| Access::new(i as u16, 8, i % 2 == 1);
        BlockDef { accesses: (0..accesses).map(access).collect(), instructions }
    }

    #[test]
    fn long_blocks_are_chains_that_keep_the_instructions() {
        let mut blocks = CodeBlocks::default();
        let first = blocks.define(&def(150, 200));
        let (mut at, mut accesses, mut instructions) = (Some(first), 0, 0);
        while let Some(id) = at {
            let block = blocks.get(id);
            accesses += block.kinds.len();
            instructions += block.instructions(block.kinds.len());
            at = block.next;
        }
        assert_eq!((accesses, instructions), (150, 200));
        assert_eq!(blocks.get(first).instructions(3), 3);
        let empty = blocks.define(&def(0, 7));
        assert_eq!(blocks.get(empty).instructions(0), 7);
    }

    #[test]
    fn derived_blocks_are_found_again() {
        let mut blocks = CodeBlocks::default();
        let id = blocks.define(&def(4, 9));
        let odd = blocks.with_accesses(id, 0b1010).unwrap();
        assert_eq!(blocks.with_accesses(id, 0b1010), Some(odd));
        assert_eq!(blocks.get(odd).kinds, [Kind::write(8), Kind::write(8)]);
        assert_eq!(blocks.get(odd).instructions(2), 9);
        let one = blocks.single(id, 2);
        assert_eq!(blocks.single(id, 2), one);
        assert_eq!(blocks.get(one).instructions(1), 0);
        let found = blocks.discover(&[(1, Kind::read(4)), (2, Kind::write(4))]);
        assert_eq!(blocks.discover(&[(1, Kind::read(4)), (2, Kind::write(4))]), found);
    }
}
