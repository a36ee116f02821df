//! The decoder of references blocks.
//!
//! Part 1 of a block (dictionary, tokens, events) is enough for [`super::steps`]; addresses need part 2 as well. As in
//! the encoder, executions are collected first and then decoded column by column: one access of a code block through all
//! its executions, with the state of its slot in registers.

mod slots;
mod tokens;

use super::event::Event;
use super::format::{self, BlockHeader, FRAME_SHIFT, MAX_ACCESSES};
use super::kind::Kind;
use slots::{Row, Slots};
use tokens::parts;
pub(super) use tokens::{join_parts, Entry, Run, Token, Tokens};

/// References that a [`Chunk`] takes, but for the last execution.
const CHUNK: usize = 1 << 12;

/// Decoded references on their way to a visitor.
#[derive(Debug)]
pub(super) struct Chunk {
    addresses: Vec<u64>,
    kinds: Vec<Kind>,
    len: usize,
}

impl Default for Chunk {
    fn default() -> Self {
        let room = CHUNK + 2 * MAX_ACCESSES;
        Chunk { addresses: vec![0; room], kinds: vec![Kind(0); room], len: 0 }
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

/// Decodes one references block.
#[derive(Debug)]
pub(super) struct Decoder {
    tokens: Tokens,
    slots: Slots,
    run: Option<Run>,
    /// The executions of each code block, by its entry, that are in the chunk but not decoded, and which have any.
    rows: Vec<Vec<Row>>,
    touched: Vec<u32>,
    frames: u64,
}

impl Decoder {
    /// `frames` is the number of frames of the trace: no address may lie beyond.
    pub(super) fn open(header: &BlockHeader, stored: &[u8], frames: u32) -> Result<Decoder, String> {
        let tokens = Tokens::open(header, stored)?;
        let [_, (from, to, raw)] = parts(header, stored).ok_or("lengths of its parts are wrong")?;
        let bytes = format::decompress(&stored[from..to], raw)?;
        let slots = Slots::parse(&bytes, tokens.slots, header.b).ok_or("malformed columns")?;
        if !slots.links_are_sound(&tokens.entries) {
            return Err("malformed links".to_owned());
        }
        let rows = vec![Vec::new(); tokens.entries.len()];
        Ok(Decoder { tokens, slots, run: None, rows, touched: Vec::new(), frames: u64::from(frames) })
    }

    /// Appends references to the chunk until it is full, an event comes, or the block ends.
    pub(super) fn fill(&mut self, chunk: &mut Chunk) -> Result<Filled, String> {
        let start = chunk.len;
        let filled = self.collect(chunk);
        if let Err(reason) = self.decode(chunk) {
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

    /// Gives executions their places in the chunk, and their kinds.
    fn collect(&mut self, chunk: &mut Chunk) -> Result<Filled, String> {
        loop {
            let Some(run) = &mut self.run else {
                match self.tokens.next()? {
                    None => return Ok(Filled::End),
                    Some(Token::Advance(_)) => {}
                    Some(Token::Event(event)) => return Ok(Filled::Event(*event)),
                    Some(Token::Run(run)) => self.run = Some(run),
                }
                continue;
            };
            if chunk.len >= CHUNK {
                return Ok(Filled::Full);
            }
            let entry = *self.tokens.entry(run);
            let accesses = entry.accesses as usize;
            let room = (CHUNK - chunk.len).div_ceil(accesses);
            let now =
                if run.count == 1 { 1 } else { room.min(usize::try_from(run.count).unwrap_or(usize::MAX)) };
            let mask = run.mask;
            run.count -= now as u64;
            if run.count == 0 {
                self.run = None;
            }
            let end = chunk.len + now * accesses;
            let rows = &mut self.rows[entry.root as usize];
            if rows.is_empty() {
                self.touched.push(entry.root);
            }
            let row = |at| Row { mask, at: at as u16, accesses: accesses as u8 };
            rows.extend((chunk.len..end).step_by(accesses).map(row));
            let kinds = &self.tokens.kinds[entry.kinds as usize..];
            copy_kinds(&mut chunk.kinds[chunk.len..], kinds, accesses, now);
            chunk.len = end;
        }
    }

    /// Decodes the executions that have their places.
    fn decode(&mut self, chunk: &mut Chunk) -> Result<(), String> {
        let mut whole = true;
        for root in self.touched.drain(..) {
            let entry = self.tokens.entries[root as usize];
            let rows = &mut self.rows[root as usize];
            whole &= self.slots.decode(&entry, rows, &mut chunk.addresses).is_some();
            rows.clear();
        }
        if whole {
            Ok(())
        } else {
            Err("a column ends early".to_owned())
        }
    }
}

/// Writes the kinds of `count` executions. Copies eight at a time and so may write up to seven beyond.
#[inline]
fn copy_kinds(out: &mut [Kind], kinds: &[Kind], accesses: usize, count: usize) {
    for execution in 0..count {
        let row = &mut out[execution * accesses..];
        for (to, from) in row.chunks_exact_mut(8).zip(kinds.chunks_exact(8)).take(accesses.div_ceil(8)) {
            to.copy_from_slice(from);
        }
    }
}
