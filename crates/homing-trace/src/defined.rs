//! The code blocks that a recorder has defined, by its numbers.

use super::code::{Access, BlockDef, CodeBlockId};
use super::encode::Known;
use super::format::MAX_ACCESSES;
use std::collections::HashMap;

/// Blocks with numbers below this are looked up in an array.
const MAX_DIRECT: u64 = 1 << 22;
/// ... but for those whose number is more than this beyond twice the number of blocks: recorders number them as they
/// come.
const FEW: u64 = 1 << 16;

/// A recorder's code block.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub id: CodeBlockId,
    /// Words of a full execution.
    pub words: usize,
    pub def: Box<[Access]>,
    /// Some of its accesses are atomic.
    pub atomic: bool,
    /// Which of the words have a start and a step in loops.
    pub steps: Box<[bool]>,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Defined {
    near: Vec<Option<Block>>,
    /// For the same, what the writer needs to take executions from where they lie.
    pub known: Vec<Known>,
    far: HashMap<u64, Block>,
    count: u64,
}

impl Defined {
    /// Enters a code block, whose loops can be taken at once where `loops` says so. Returns whether another block had
    /// its number, which the writer knows.
    pub fn add(&mut self, number: u64, id: CodeBlockId, def: &BlockDef, steps: &[bool], loops: bool) -> bool {
        self.count += 1;
        let words = def.words();
        let atomic = def.accesses.iter().any(|access| access.atomic);
        let block = Block { id, words, def: def.accesses.clone().into(), atomic, steps: steps.into() };
        if number >= MAX_DIRECT.min(FEW + 2 * self.count) {
            self.far.insert(number, block);
            return false;
        }
        let number = number as usize;
        if self.near.len() <= number {
            let room = (number + 1).next_power_of_two();
            self.near.resize(room, None);
            self.known.resize(room, Known::default());
        }
        self.known[number] = Known {
            id: (def.accesses.len() <= MAX_ACCESSES && !atomic).then_some(id),
            guarded: def.accesses.iter().any(|access| access.guarded),
            idle: def.instructions,
            words: if loops && words <= MAX_ACCESSES { words as u8 } else { 0 },
            steps: steps.iter().take(MAX_ACCESSES).rev().fold(0, |all, &steps| all << 1 | u64::from(steps)),
        };
        self.near[number].replace(block).is_some()
    }

    /// The block of a number.
    pub fn get(&self, number: u64) -> Option<&Block> {
        let block = usize::try_from(number).ok().and_then(|number| self.near.get(number)?.as_ref());
        block.or_else(|| self.far.get(&number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_far_from_others_costs_no_more_than_they() {
        let def = BlockDef { accesses: vec![Access::new(0, 8, false)], instructions: 1 };
        let mut defined = Defined::default();
        for number in [MAX_DIRECT - 1, MAX_DIRECT, u64::MAX >> 8, 0, 7] {
            assert!(!defined.add(number, CodeBlockId(number as u32), &def, &[false], true));
            assert_eq!(defined.get(number).map(|block| block.id), Some(CodeBlockId(number as u32)));
        }
        assert!(defined.known.len() == 8 && defined.near.len() == 8 && defined.get(6).is_none());
        assert!(defined.add(7, CodeBlockId(1), &def, &[false], true));
        assert_eq!(defined.get(7).map(|block| block.id), Some(CodeBlockId(1)));
    }
}
