//! Finds code blocks in the words of the parallel flavour: runs of ascending instruction addresses, whose (instruction,
//! kind) sequence, the upper 16 bits of the words, names the block. A loop executes the same runs in the same order, so
//! each run remembers the last two that came after it (an inner loop goes on or ends), and the usual case is a
//! comparison instead of a look-up.

use super::code::{CodeBlockId, CodeBlocks};
use super::kind::Kind;
use homing_wire::bit;
use std::collections::HashMap;

/// The longest run.
const MAX_RUN: usize = 32;
/// The bits of a word that are the address.
pub(super) const ADDRESS: u64 = (1 << bit::REFERENCE_CODE) - 1;
/// The bits of a word's upper half that are of the instruction's address.
const INSTRUCTION: u16 = (1 << (bit::REFERENCE_SIZE - bit::REFERENCE_CODE)) - 1;

#[derive(Debug)]
struct Run {
    id: CodeBlockId,
    signature: Box<[u16]>,
    /// The runs that came after it: last time, and the last time that it was another one.
    next: [u32; 2],
}

/// All runs seen so far.
#[derive(Debug, Default)]
pub(super) struct Runs {
    runs: Vec<Run>,
    numbers: HashMap<Box<[u16]>, u32>,
}

/// A run at the start of some words.
pub(super) struct Found {
    pub id: CodeBlockId,
    pub len: usize,
    /// Its number, for the next look-up.
    pub number: u32,
}

#[inline]
fn signature(word: u64) -> u16 {
    (word >> bit::REFERENCE_CODE) as u16
}

/// The kind of a reference.
#[inline]
pub(super) fn kind(word: u64) -> Kind {
    Kind::new(1 << (word >> bit::REFERENCE_SIZE & 7).min(6), is_write(word), false)
}

/// Whether a reference writes.
#[inline]
pub(super) fn is_write(word: u64) -> bool {
    word >> bit::REFERENCE_WRITE & 1 == 1
}

/// The address of a reference.
#[inline]
pub(super) fn address(word: u64) -> u64 {
    word & ADDRESS
}

impl Runs {
    /// The run that `words` (not empty) begins with; `after` is the number of the thread's run before.
    pub(super) fn find(&mut self, words: &[u64], after: u32, blocks: &mut CodeBlocks) -> Found {
        let [last, other] = self.runs.get(after as usize).map_or([0; 2], |run| run.next);
        let fits = |guess: u32| self.runs.get(guess as usize).is_some_and(|run| run.matches(words));
        let number = if fits(last) {
            last
        } else {
            let number = if fits(other) { other } else { self.look_up(words, blocks) };
            if let Some(run) = self.runs.get_mut(after as usize) {
                run.next = [number, last];
            }
            number
        };
        let run = &self.runs[number as usize];
        Found { id: run.id, len: run.signature.len(), number }
    }

    #[cold]
    fn look_up(&mut self, words: &[u64], blocks: &mut CodeBlocks) -> u32 {
        let mut len = 1;
        while len < words.len().min(MAX_RUN) && ascends(words[len - 1], words[len]) {
            len += 1;
        }
        let signatures: Vec<u16> = words[..len].iter().map(|&w| signature(w)).collect();
        if let Some(&known) = self.numbers.get(&signatures[..]) {
            return known;
        }
        let sequence: Vec<(u64, Kind)> =
            words[..len].iter().map(|&w| (u64::from(signature(w) & INSTRUCTION), kind(w))).collect();
        let (id, signature) = match blocks.discover(&sequence) {
            Some(id) => (id, signatures.into_boxed_slice()),
            // Too many sequences: the reference by itself, of which there are at most 2^15.
            None => match self.numbers.get(&signatures[..1]) {
                Some(&known) => return known,
                None => (blocks.discover_single(sequence[0]), signatures[..1].into()),
            },
        };
        let number = self.runs.len() as u32;
        self.numbers.insert(signature.clone(), number);
        self.runs.push(Run { id, signature, next: [number; 2] });
        number
    }
}

#[inline]
fn ascends(before: u64, word: u64) -> bool {
    signature(word) & INSTRUCTION > signature(before) & INSTRUCTION
}

impl Run {
    /// Whether `words` begins with this run, and it ends there.
    fn matches(&self, words: &[u64]) -> bool {
        let len = self.signature.len();
        let Some(own) = words.get(..len) else { return false };
        let mut wrong = 0;
        for (&word, &signature) in own.iter().zip(self.signature.iter()) {
            wrong |= word >> 48 ^ u64::from(signature);
        }
        wrong == 0 && (len == MAX_RUN || words.get(len).is_none_or(|&next| !ascends(own[len - 1], next)))
    }
}
