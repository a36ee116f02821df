//! The decoder of references blocks (`tokens`, `slots`, `executions`).
//!
//! Part 1 of a block (dictionary, tokens, events) is enough for [`super::steps`]; addresses need part 2 as well.
//! Executions are collected first and then decoded column by column: one access of a code block through all its
//! executions, with the state of its slot in registers.

mod executions;
mod slots;
mod tokens;

use super::event::Event;
use super::format::{self, BlockHeader, FRAME_SHIFT, MAX_ACCESSES};
use super::kind::Kind;

pub(crate) use tokens::Tokens;

/// References that a [`Chunk`] takes, but for the last execution. Those of a few threads, and the pages that they use,
/// fit into a core's first-level cache together.
const CHUNK: usize = 1 << 11;
/// Places of a chunk; a power of two, so that a place needs no check against it.
const ROOM: usize = (CHUNK + 2 * MAX_ACCESSES).next_power_of_two();
/// The addresses of a chunk.
type Addresses = [u64; ROOM];

/// Decoded references on their way to a visitor.
#[derive(Debug)]
pub(super) struct Chunk {
    addresses: Box<Addresses>,
    kinds: Vec<Kind>,
    len: usize,
}

impl Default for Chunk {
    fn default() -> Self {
        Chunk { addresses: Box::new([0; ROOM]), kinds: vec![Kind(0); ROOM], len: 0 }
    }
}

impl Chunk {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
    }

    #[inline]
    pub(super) fn range(&self, from: usize, to: usize) -> (&[u64], &[Kind]) {
        (&self.addresses[from..to], &self.kinds[from..to])
    }
}

/// Why [`Decoder::fill`] stopped.
#[derive(Debug)]
pub(super) enum Filled {
    /// The chunk is full.
    Full,
    /// This event comes next.
    Event(Event),
    /// The block has ended.
    End,
}

/// A line of a block's dictionary.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub slot: u32,
    pub kinds: u32,
    pub accesses: u32,
    pub instructions: u32,
    pub atomics: u32,
    /// The code block's own entry (itself, if it is no other's).
    pub root: u32,
    /// Accesses that are derived from words have slots of their own.
    pub spread: bool,
}

impl Entry {
    /// Of no accesses.
    pub(crate) const NONE: Entry =
        Entry { slot: 0, kinds: 0, accesses: 0, instructions: 0, atomics: 0, root: 0, spread: false };
}

/// Executions with one mask.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Run {
    /// The number of the dictionary's entry.
    pub entry: u32,
    pub count: u64,
    pub mask: u64,
}

/// What a block consists of.
#[derive(Debug)]
pub(crate) enum Token {
    Run(Run),
    /// What matters to the decoder alone.
    Nothing,
    /// Boxed to keep runs, of which there are millions, small.
    Event(Box<Event>),
    Advance(u64),
}

/// The two compressed parts of a references block and the raw length of each.
fn parts(header: &BlockHeader, stored: &[u8]) -> Option<[(usize, usize, usize); 2]> {
    let first = format::read_u32(stored, 0)? as usize;
    let raw = format::read_u32(stored, 4)?;
    let second = header.raw.checked_sub(raw)?;
    (first <= stored.len() - 8)
        .then_some([(8, 8 + first, raw as usize), (8 + first, stored.len(), second as usize)])
}

/// Decodes one references block.
#[derive(Debug)]
pub(super) struct Decoder {
    executions: executions::Decoder,
    frames: u64,
}

impl Decoder {
    /// `frames` is the number of frames of the trace: no address may lie beyond.
    pub(super) fn open(header: &BlockHeader, stored: &[u8], frames: u32) -> Result<Decoder, String> {
        let tokens = Tokens::open(header, stored)?;
        let [_, (from, to, raw)] = parts(header, stored).ok_or("lengths of its parts are wrong")?;
        let bytes = format::decompress(&stored[from..to], raw)?;
        let executions = executions::Decoder::new(tokens, &bytes, header.b)?;
        Ok(Decoder { executions, frames: u64::from(frames) })
    }

    /// Appends references to the chunk until it is full, an event comes, or the block ends.
    pub(super) fn fill(&mut self, chunk: &mut Chunk) -> Result<Filled, String> {
        let start = chunk.len;
        let filled = self.executions.collect(chunk);
        if let Err(reason) = self.executions.decode(chunk) {
            chunk.len = start;
            return Err(reason);
        }
        // Addresses beyond the last frame have bit 63 set in `limit - address` or in themselves.
        let limit = (self.frames << FRAME_SHIFT).wrapping_sub(1);
        let mut beyond = 0;
        for &address in &chunk.addresses[start..chunk.len] {
            beyond |= limit.wrapping_sub(address) | address;
        }
        if chunk.len > start && beyond >> 63 != 0 {
            chunk.len = start;
            return Err("an address beyond the last frame".to_owned());
        }
        filled
    }
}

/// Writes the kinds of `count` executions. Copies eight at a time and so may write up to seven beyond.
#[inline]
fn copy_kinds(out: &mut [Kind], kinds: &[Kind], accesses: usize, count: usize) {
    let (first, _) = kinds.as_chunks::<8>();
    if accesses <= 8 {
        for execution in 0..count {
            out[execution * accesses..][..8].copy_from_slice(&first[0]);
        }
        return;
    }
    for execution in 0..count {
        let (rows, _) = out[execution * accesses..].as_chunks_mut::<8>();
        for (to, from) in rows.iter_mut().zip(first).take(accesses.div_ceil(8)) {
            *to = *from;
        }
    }
}
