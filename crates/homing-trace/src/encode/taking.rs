//! Executions taken from where their words lie, in a recorder's segment.

use super::super::code::{CodeBlockId, CodeBlocks};
use super::super::format::MAX_ACCESSES;
use super::super::wide::{wide, Work};
use super::super::wire::{BLOCK, CONTROL, LOOP};
use super::loops::LoopAt;
use super::{ThreadEncoder, NOTHING_YET, NO_ENTRY};

/// What is known of a recorder's code block.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known {
    /// `None`: there is no such block, or its executions are not taken this way.
    pub id: Option<CodeBlockId>,
    /// Some of its accesses may not happen.
    pub guarded: bool,
    /// Of a block without accesses: its instructions.
    pub idle: u32,
    /// Words of an execution, and which of them have a step in loops of executions. 0 words: its loops are not taken
    /// this way.
    pub words: u8,
    pub steps: u64,
}

/// What an execution needs to know of its code block as long as that is in the dictionary of the block in progress: all
/// in one place, since where the next execution begins is known only then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    pub generation: u32,
    /// Its entry; none if it has no accesses.
    root: u32,
    /// The same, but for executions that are to be looked at more closely.
    pub fast: u32,
    guarded: bool,
}

impl Line {
    /// Of a code block that was not executed yet: no block has this generation.
    const NONE: Line = Line { generation: 0, root: NO_ENTRY, fast: NO_ENTRY, guarded: false };
}

/// What was taken.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Taken {
    /// Words.
    pub words: usize,
    /// References that were not kept.
    pub left_out: u64,
}

/// The code block whose execution `words` begins with, and how many words follow; `None` if it needs another treatment.
#[inline]
fn given(known: &[Known], words: &[u64], blocks: &CodeBlocks) -> Option<(CodeBlockId, usize)> {
    let block = known.get((words.first()? ^ BLOCK) as usize)?;
    let id = block.id?;
    let layout = &blocks.get(id).layout;
    let rest = &words[1..];
    let ends = |given: usize| rest.get(given).is_none_or(|&word| word & CONTROL != 0);
    let mut exits = layout.exits;
    let mut given = layout.words;
    while exits != 0 {
        let exit = exits.trailing_zeros() as usize;
        if ends(exit) {
            given = exit;
            break;
        }
        exits &= exits - 1;
    }
    let wrong = |&word: &u64| word == 0 || word & CONTROL != 0;
    (!rest.get(..given)?.iter().any(wrong)).then_some((id, given))
}

struct Take<'a> {
    encoder: &'a mut ThreadEncoder,
    known: &'a [Known],
    words: &'a [u64],
    blocks: &'a CodeBlocks,
}

impl Work for Take<'_> {
    type Result = usize;

    #[inline(always)]
    fn run(self) -> usize {
        self.encoder.take_all(self.known, self.words, self.blocks)
    }
}

impl ThreadEncoder {
    /// Takes executions of the serial flavour from the start of `words`, until one needs another treatment or the block
    /// is full. `known` is by the recorder's number. Returns how many words were taken.
    pub(crate) fn take(&mut self, known: &[Known], words: &[u64], blocks: &CodeBlocks) -> usize {
        wide(Take { encoder: self, known, words, blocks })
    }

    #[inline(always)]
    fn take_all(&mut self, known: &[Known], words: &[u64], blocks: &CodeBlocks) -> usize {
        let mut at = 0;
        while !self.is_full() {
            at = self.take_fast(words, at);
            if self.is_full() {
                break;
            }
            let number = words.get(at).map_or(usize::MAX, |&word| (word ^ LOOP) as usize);
            let after = match known.get(number) {
                Some(known) => self.take_loop_at(known, number, &words[at..], blocks).map(|taken| at + taken),
                None => self.take_slowly(known, words, at, blocks),
            };
            match after {
                Some(after) => at = after,
                None => break,
            }
        }
        at
    }

    /// Takes executions from the one at `at` on as long as they are as predicted and expected; returns where the next
    /// one begins.
    #[inline(always)]
    fn take_fast(&mut self, words: &[u64], at: usize) -> usize {
        let mut at = at;
        let mut hot = self.hot;
        let generation = self.generation;
        while !hot.is_full() {
            let Some(window) = words.get(at..).and_then(|words| words.first_chunk()) else { break };
            let Some(&line) = self.lines.get((window[0] ^ BLOCK) as usize) else { break };
            if line.generation != generation {
                break;
            }
            // An early end shows as a word with the highest bit, which is never as expected.
            let Some(count) = self.fast(&mut hot, line.fast, window) else { break };
            at += 1 + count;
        }
        self.hot = hot;
        at
    }

    /// Forgets a code block, whose number the recorder gives to another one.
    pub(crate) fn forget_block(&mut self, number: usize) {
        if let Some(line) = self.lines.get_mut(number) {
            *line = Line::NONE;
        }
    }

    /// The same as [`ThreadEncoder::take`] with only those references that `passes` keeps.
    pub(crate) fn take_some(
        &mut self,
        known: &[Known],
        words: &[u64],
        blocks: &mut CodeBlocks,
        mut passes: impl FnMut(u64, bool) -> bool,
    ) -> Taken {
        let mut taken = Taken::default();
        while !self.is_full() {
            let Some((id, given)) = given(known, &words[taken.words..], blocks) else { break };
            let first = taken.words + 1;
            taken.words = first + given;
            taken.left_out += self.take_some_of_one(id, &words[first..taken.words], blocks, &mut passes);
        }
        taken
    }

    /// Takes the references of an execution that pass, and returns how many do not.
    fn take_some_of_one(
        &mut self,
        id: CodeBlockId,
        words: &[u64],
        blocks: &mut CodeBlocks,
        passes: &mut impl FnMut(u64, bool) -> bool,
    ) -> u64 {
        let block = blocks.get(id);
        let accesses = usize::from(block.layout.accesses[words.len()]);
        let (mut kept, mut addresses) = (0u64, [0; MAX_ACCESSES]);
        let mut count = 0;
        for (j, (&(place, offset), kind)) in
            block.layout.origin.iter().zip(&block.kinds).take(accesses).enumerate()
        {
            let address = words[usize::from(place)].wrapping_add(offset as u64);
            let stays = passes(address, kind.is_write());
            addresses[count] = address;
            count += usize::from(stays);
            kept |= u64::from(stays) << j;
        }
        if count == 0 {
            self.advance(u64::from(block.instructions(accesses)));
        } else if count == accesses {
            self.execute(id, words, blocks);
        } else {
            self.execute_some(id, kept, &addresses[..count], accesses, blocks);
        }
        (accesses - count) as u64
    }

    /// An execution of the first `accesses` accesses of a code block of which only some count.
    fn execute_some(
        &mut self,
        id: CodeBlockId,
        kept: u64,
        addresses: &[u64],
        accesses: usize,
        blocks: &mut CodeBlocks,
    ) {
        if accesses == blocks.get(id).kinds.len() {
            if let Some(some) = blocks.with_accesses(id, kept) {
                return self.execute(some, addresses, blocks);
            }
        }
        let instructions = blocks.get(id).instructions(accesses);
        let which = (0..accesses).filter(|j| kept >> j & 1 == 1);
        for (j, address) in which.zip(addresses) {
            let single = blocks.single(id, j);
            self.execute(single, std::slice::from_ref(address), blocks);
        }
        self.advance(u64::from(instructions));
    }

    /// Takes a loop of executions, with which `words` begins, if all of it fits into the block in progress and nothing
    /// about it is odd. Returns how many words it has.
    #[inline(never)]
    fn take_loop_at(
        &mut self,
        known: &Known,
        number: usize,
        words: &[u64],
        blocks: &CodeBlocks,
    ) -> Option<usize> {
        let root = match self.lines.get(number) {
            _ if known.words == 0 => return None,
            Some(line) if line.generation == self.generation => line.fast,
            _ => self.new_line(known, number, blocks)?.fast,
        };
        wide(LoopAt { encoder: self, known, root, words, blocks })
    }

    /// Takes the execution at `at`, which may be guarded, end early, or not be as predicted; returns where the next one
    /// begins.
    #[inline(never)]
    fn take_slowly(
        &mut self,
        known: &[Known],
        words: &[u64],
        at: usize,
        blocks: &CodeBlocks,
    ) -> Option<usize> {
        let (number, first) = ((words.get(at)? ^ BLOCK) as usize, at + 1);
        let line = match self.lines.get(number) {
            Some(line) if line.generation == self.generation => *line,
            _ => self.new_line(known.get(number)?, number, blocks)?,
        };
        if line.root == NO_ENTRY {
            self.advance(u64::from(known.get(number)?.idle));
            return Some(first);
        }
        let entry = &self.entries[line.root as usize];
        let (id, end) = (entry.block, first + usize::from(entry.words));
        let mut exits = blocks.get(id).layout.exits;
        while exits != 0 {
            let given = exits.trailing_zeros() as usize;
            if words.get(first + given).is_none_or(|&word| word & CONTROL != 0) {
                return self.take_part(line.root, words, first..first + given, blocks);
            }
            exits &= exits - 1;
        }
        let own = words.get(first..end)?;
        if own.iter().any(|&word| word & CONTROL != 0 || line.guarded && word == 0) {
            return None;
        }
        self.execute(id, own, blocks);
        Some(end)
    }

    /// Notes a code block that is executed for the first time since a block began; none if its executions are not taken
    /// this way.
    #[cold]
    fn new_line(&mut self, block: &Known, number: usize, blocks: &CodeBlocks) -> Option<Line> {
        let root = self.root(block.id?, blocks);
        let fast = if block.guarded { NO_ENTRY } else { root };
        let line = Line { generation: self.generation, root, fast, guarded: block.guarded };
        if self.lines.len() <= number {
            self.lines.resize((number + 1).next_power_of_two(), Line::NONE);
        }
        self.lines[number] = line;
        Some(line)
    }

    /// Takes an execution that left its block by a side exit.
    fn take_part(
        &mut self,
        root: u32,
        words: &[u64],
        part: std::ops::Range<usize>,
        blocks: &CodeBlocks,
    ) -> Option<usize> {
        let own = words.get(part.clone())?;
        // Words that end elsewhere than at an exit are damaged.
        if own.iter().any(|&word| word == 0 || word & CONTROL != 0) {
            return None;
        }
        let block = blocks.get(self.entries[root as usize].block);
        if block.layout.accesses[own.len()] == 0 {
            self.advance(u64::from(block.instructions(0)));
        } else {
            self.part(root, own, blocks);
        }
        Some(part.end)
    }

    /// Takes references of the parallel flavour from the start of `words`, until the block is full; returns how many.
    /// `find` gives the code block that some words begin with and its length; the bits of `mask` are addresses.
    pub(crate) fn take_runs(
        &mut self,
        words: &[u64],
        mask: u64,
        blocks: &mut CodeBlocks,
        mut find: impl FnMut(&[u64], &mut CodeBlocks) -> (CodeBlockId, usize),
    ) -> usize {
        let mut at = 0;
        let mut room = NOTHING_YET;
        while !self.is_full() && at < words.len() {
            let (id, count) = find(&words[at..], blocks);
            let root = self.root(id, blocks);
            let own = &words[at..at + count];
            room[1..].iter_mut().zip(own).for_each(|(address, word)| *address = word & mask);
            self.whole(root, &room, blocks);
            at += count;
        }
        at
    }
}
