//! The dictionary of a references block: the code blocks that are executed in it, and what some executions have of
//! them.

use super::super::code::{CodeBlock, CodeBlockId, CodeBlocks};
use super::super::mask;
use super::super::varint::{self, zigzag};
use super::slots::Slot;
use super::vectors::Place;
use super::{ThreadEncoder, MAX_SLOTS, NO_ENTRY};

/// A line of the block's dictionary: a code block, the first accesses of one, or one whose accesses do not all lie in
/// the frames of the words that they are derived from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// The state of its words.
    pub place: Place,
    pub accesses: u8,
    /// Words of an execution.
    pub words: u8,
    pub instructions: u32,
    /// The words that are expected to miss, and how many there are.
    pub expect: u64,
    pub expected: u8,
    pub slot: u32,
    /// The entry of the whole code block.
    pub root: u32,
    /// What is predicted to come next, and what else came after it last.
    pub next: [u32; 2],
    /// Executions of just this; how many there were when another one came next than predicted.
    pub executions: u32,
    pub mispredicted: u32,
    /// Of a whole code block: executions of its other entries; those with unexpected misses since it was revised, and
    /// all executions at that time.
    pub others: u32,
    pub slow: u32,
    pub revised: u32,
    /// Where its kinds are in `kinds`.
    pub kinds: u32,
    pub block: CodeBlockId,
}

/// Where a code block stands in the dictionary of a block.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cell {
    pub generation: u32,
    pub entry: u32,
}

impl ThreadEncoder {
    /// The dictionary entry of a code block; none if that has no accesses.
    #[inline]
    pub(super) fn root(&mut self, id: CodeBlockId, blocks: &CodeBlocks) -> u32 {
        match self.cells.get(id.index()) {
            Some(cell) if cell.generation == self.generation => cell.entry,
            _ => self.new_root(id, blocks.get(id)),
        }
    }

    #[cold]
    fn new_root(&mut self, id: CodeBlockId, block: &CodeBlock) -> u32 {
        if block.kinds.is_empty() {
            return NO_ENTRY;
        }
        if self.cells.len() <= id.index() {
            self.cells.resize((id.index() + 1).next_power_of_two(), Cell::default());
        }
        let (entry, slot, n) = (self.entries.len() as u32, self.used, block.kinds.len());
        self.cells[id.index()] = Cell { generation: self.generation, entry };
        let (layout, instructions) = (&block.layout, block.instructions(n));
        let expect = self.expected.get(&id).copied().unwrap_or(0);
        let place = self.vectors.add(&layout.spans);
        (0..layout.words)
            .filter(|word| expect >> word & 1 == 1)
            .for_each(|word| self.vectors.expect(place, word, true));
        self.entries.push(Entry {
            place,
            accesses: n as u8,
            words: layout.words as u8,
            instructions,
            expect,
            expected: expect.count_ones() as u8,
            slot: slot as u32,
            root: entry,
            next: [NO_ENTRY; 2],
            executions: 0,
            mispredicted: 0,
            others: 0,
            slow: 0,
            revised: 0,
            kinds: self.kinds.len() as u32,
            block: id,
        });
        self.kinds.extend_from_slice(&block.kinds);
        // Where addresses are those of pages, all that is derived within a page has the address of its word.
        let exact = self.vectors.is_exact();
        let out = &mut self.dictionary;
        [0, n as u64, u64::from(instructions)].iter().for_each(|&value| varint::put(out, value));
        out.extend(block.kinds.iter().map(|k| k.0));
        let derived = || layout.derived.iter().enumerate().filter_map(|(j, derived)| Some((j, (*derived)?)));
        varint::put(out, derived().count() as u64);
        for (j, (of, offset)) in derived() {
            out.extend([j as u8, of]);
            varint::put(out, zigzag(if exact { offset } else { 0 }));
        }
        mask::put(out, layout.by_access(expect));
        self.used += n;
        self.prefixes.resize(self.used, NO_ENTRY);
        self.full |= self.used >= MAX_SLOTS;
        if self.slots.len() < self.used {
            self.slots.resize_with(self.used, Slot::default);
        }
        self.slots[slot..self.used].iter_mut().for_each(Slot::restart);
        entry
    }

    /// The dictionary entry of the first `n` accesses, which take `words` words, of the block that `root` stands for;
    /// if `spread`, of those executions in which an access lies in another frame than the word that it is derived from.
    pub(super) fn variant(
        &mut self,
        root: u32,
        block: &CodeBlock,
        n: usize,
        words: usize,
        spread: bool,
    ) -> u32 {
        let whole = self.entries[root as usize];
        if n == block.kinds.len() && !spread {
            return root;
        }
        let known = if spread {
            self.spread.get(&(root, n)).copied().unwrap_or(NO_ENTRY)
        } else {
            self.prefixes[whole.slot as usize + n]
        };
        if known != NO_ENTRY {
            return known;
        }
        let entry = self.entries.len() as u32;
        let instructions = block.instructions(n);
        self.entries.push(Entry {
            accesses: n as u8,
            words: words as u8,
            instructions,
            next: [NO_ENTRY; 2],
            executions: 0,
            mispredicted: 0,
            ..whole
        });
        let first = [u64::from(root) + 1, (n as u64) << 1 | u64::from(spread), u64::from(instructions)];
        first.into_iter().for_each(|value| varint::put(&mut self.dictionary, value));
        if spread {
            self.spread.insert((root, n), entry);
        } else {
            self.prefixes[whole.slot as usize + n] = entry;
        }
        entry
    }
}
