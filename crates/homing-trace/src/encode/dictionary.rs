//! The dictionary of a references block: the code blocks that are executed in it, and the first accesses of some.

use super::super::code::{CodeBlock, CodeBlockId};
use super::super::columns::Mode;
use super::super::varint;
use super::modes::Choice;
use super::slots::Slot;
use super::{ThreadEncoder, MAX_SLOTS, NO_ENTRY};

/// A line of the block's dictionary: a code block, or the first accesses of one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub slot: u32,
    pub accesses: u32,
    /// Words of an execution.
    pub words: u32,
    pub instructions: u32,
    /// Of a whole code block: bit n, an execution may end where the n-th word would be.
    pub exits: u64,
    /// Executions of just this.
    pub executions: u32,
    pub block: CodeBlockId,
    /// The entry of the whole code block.
    pub root: u32,
    /// Where its kinds are in `kinds`.
    pub kinds: u32,
    /// Of a whole code block: the accesses that take an explicit value in every execution of the batch.
    pub always: u64,
}

/// Where a code block stands in the dictionary of a block.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cell {
    pub generation: u32,
    pub entry: u32,
}

impl ThreadEncoder {
    /// The dictionary entry of a whole code block.
    pub(super) fn entry(&mut self, id: CodeBlockId, block: &CodeBlock) -> u32 {
        if let Some(cell) = self.cells.get(id.index()).filter(|c| c.generation == self.generation) {
            return cell.entry;
        }
        if self.cells.len() <= id.index() {
            self.cells.resize((id.index() + 1).next_power_of_two(), Cell::default());
        }
        let (entry, slot, n) = (self.entries.len() as u32, self.used, block.kinds.len());
        self.cells[id.index()] = Cell { generation: self.generation, entry };
        let instructions = block.instructions(n);
        self.entries.push(Entry {
            slot: slot as u32,
            accesses: n as u32,
            words: block.layout.words as u32,
            instructions,
            exits: block.layout.exits,
            executions: 0,
            block: id,
            root: entry,
            kinds: self.kinds.len() as u32,
            always: 0,
        });
        if self.batch.rows.len() < self.entries.len() {
            self.batch.rows.push(Vec::new());
        }
        self.kinds.extend_from_slice(&block.kinds);
        varint::put(&mut self.dictionary, 0);
        varint::put(&mut self.dictionary, n as u64);
        varint::put(&mut self.dictionary, u64::from(instructions));
        self.dictionary.extend(block.kinds.iter().map(|k| k.0));
        self.used += n;
        self.prefixes.resize(self.used, NO_ENTRY);
        self.full |= self.used >= MAX_SLOTS;
        if self.slots.len() < self.used {
            self.slots.resize_with(self.used, Slot::new);
        }
        let choices = self.choices.get(&id);
        for j in 0..n {
            let derived = block.layout.derived[j];
            let choice = match derived {
                Some((of, _)) => Choice { mode: Mode::Linked(of), always: false },
                None => choices.map_or(Choice::FIRST, |choices| choices[j]),
            };
            self.slots[slot + j].restart(choice.mode, choice.always, derived.is_some());
        }
        for &(of, _) in block.layout.derived.iter().flatten() {
            self.slots[slot + usize::from(of)].anchor = true;
        }
        entry
    }

    /// The dictionary entry of the first `n` accesses, which take `words` words, of the block that `root` stands for.
    pub(super) fn prefix(&mut self, root: u32, block: &CodeBlock, n: usize, words: usize) -> u32 {
        let whole = self.entries[root as usize];
        let known = self.prefixes[whole.slot as usize + n];
        if known != NO_ENTRY {
            return known;
        }
        let entry = self.entries.len() as u32;
        let instructions = block.instructions(n);
        self.entries.push(Entry {
            accesses: n as u32,
            words: words as u32,
            instructions,
            executions: 0,
            ..whole
        });
        if self.batch.rows.len() < self.entries.len() {
            self.batch.rows.push(Vec::new());
        }
        for value in [u64::from(root) + 1, n as u64, u64::from(instructions)] {
            varint::put(&mut self.dictionary, value);
        }
        self.prefixes[whole.slot as usize + n] = entry;
        entry
    }
}
