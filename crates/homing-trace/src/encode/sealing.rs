//! The end of a references block: its two parts, what it counted, and what the next one is to expect.

use super::super::code::{CodeBlockId, CodeBlocks};
use super::super::columns;
use super::super::format::{BlockHeader, BlockKind};
use super::super::varint;
use super::{Hot, ThreadEncoder, MAX_EXPLICIT, NO_ENTRY, REVISE};
use std::collections::HashMap;

/// The two parts of a sealed references block.
#[derive(Debug, Default)]
pub(crate) struct Sealed {
    /// Dictionary, tokens and events.
    pub steps: Vec<u8>,
    /// Slots and explicit values.
    pub values: Vec<u8>,
    /// Scratch: the values by themselves.
    planes: Vec<u8>,
}

impl ThreadEncoder {
    /// Ends the block in progress, whose addresses are dense, and replaces `sealed` by it; `None` if there is nothing
    /// in it.
    /// Virtual time that has passed since the last reference stays for the next block, so that what the times of
    /// references are does not depend on where blocks end.
    pub(crate) fn seal(&mut self, sealed: &mut Sealed, blocks: &CodeBlocks) -> Option<BlockHeader> {
        self.tokens.behind(std::mem::take(&mut self.hot.predicted));
        if self.tokens.is_empty() {
            return None;
        }
        self.sum_kinds();
        self.choose();
        let Sealed { steps, values, planes } = sealed;
        [&mut *steps, &mut *values, &mut *planes].into_iter().for_each(Vec::clear);
        varint::put(steps, self.entries.len() as u64);
        let tokens = self.tokens.end();
        varint::put(steps, tokens.len() as u64);
        steps.append(&mut self.dictionary);
        steps.append(tokens);
        steps.append(&mut self.events);
        for (_, entry) in self.entries.iter().enumerate().filter(|(n, entry)| entry.root as usize == *n) {
            for &place in &blocks.get(entry.block).layout.place {
                let slot = &mut self.slots[entry.slot as usize + usize::from(place)];
                columns::encode(values, planes, &mut slot.column);
                slot.give_memory(&mut self.spare, 4 * MAX_EXPLICIT as usize);
            }
        }
        values.append(planes);
        let header = BlockHeader {
            kind: BlockKind::References,
            stored: 0,
            raw: 0,
            a: self.thread.0,
            b: self.hot.references,
            c: self.sealed,
            d: self.start_time,
        };
        self.restart();
        Some(header)
    }

    fn restart(&mut self) {
        self.sealed = self.sealed.saturating_add(self.hot.references.into());
        self.start_time = self.hot.time;
        self.hot =
            Hot { references: 0, explicit: 0, current: NO_ENTRY, next: NO_ENTRY, predicted: 0, ..self.hot };
        self.generation += 1;
        self.entries.clear();
        self.prefixes.clear();
        self.spread.clear();
        self.kinds.clear();
        self.vectors.clear();
        self.used = 0;
        self.full = false;
    }

    /// Adds the references of this block to `by_kind` and `by_block`.
    fn sum_kinds(&mut self) {
        for entry in &self.entries {
            let references = u64::from(entry.executions) * u64::from(entry.accesses);
            *self.by_block.entry(entry.block).or_default() += references;
            for kind in &self.kinds[entry.kinds as usize..][..usize::from(entry.accesses)] {
                self.by_kind[usize::from(kind.0)] += u64::from(entry.executions);
            }
        }
    }

    /// Adds the references of sealed blocks, by kind.
    pub(crate) fn count_kinds(&self, by_kind: &mut [u64; 256]) {
        by_kind.iter_mut().zip(self.by_kind.iter()).for_each(|(sum, count)| *sum += count);
    }

    /// Adds the references of sealed blocks, by code block.
    pub(crate) fn count_blocks(&self, by_block: &mut HashMap<CodeBlockId, u64>) {
        self.by_block.iter().for_each(|(&block, count)| *by_block.entry(block).or_default() += count);
    }

    /// Chooses which words are expected to miss in the next block from what this one saw.
    fn choose(&mut self) {
        for (_, entry) in self.entries.iter().enumerate().filter(|(n, entry)| entry.root as usize == *n) {
            let executions = (entry.executions + entry.others) as usize;
            if executions < REVISE as usize {
                continue;
            }
            let slots = &self.slots[entry.slot as usize..][..usize::from(entry.words)];
            let misses = slots.iter().enumerate().filter(|(word, slot)| {
                if entry.expect >> word & 1 == 1 {
                    !slot.is_predictable()
                } else {
                    slot.column.len() * 4 >= executions
                }
            });
            self.expected.insert(entry.block, misses.fold(0, |expect, (word, _)| expect | 1 << word));
        }
    }
}
