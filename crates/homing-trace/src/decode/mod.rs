//! The decoder of references blocks.
//!
//! Part 1 of a block (dictionary, tokens, events) is enough for [`super::steps`]; addresses need part 2 as well. As in
//! the encoder, executions are collected first and then decoded column by column: one access of a code block through
//! all its executions, with the state of its slot in registers.

mod slots;
mod tokens;

use super::encode::MAX_BODY;
use super::event::Event;
use super::format::{self, BlockHeader, FRAME_SHIFT, MAX_ACCESSES};
use super::kind::Kind;
use slots::{Row, Slots};
use tokens::{parts, Loop};
pub(super) use tokens::{Entry, Run, Token, Tokens};

/// References that a [`Chunk`] takes, but for the last execution. Those of a few threads, and the pages that they use,
/// fit into a core's first-level cache together.
const CHUNK: usize = 1 << 11;
/// Places of a chunk; a power of two, so that a place needs no check against it.
const ROOM: usize = (CHUNK + 2 * MAX_ACCESSES).next_power_of_two();
/// The addresses of a chunk.
type Addresses = [u64; ROOM];
/// References of a round from which on a loop is decoded run by run.
const LARGE_BODY: u64 = CHUNK as u64 / 8;

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

/// A run of a loop's body: its code block, its first execution and how many there are.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    root: u32,
    row: Row,
    count: usize,
}

/// Decodes one references block.
#[derive(Debug)]
pub(super) struct Decoder {
    tokens: Tokens,
    slots: Slots,
    /// What the last chunk had no room for.
    rest: Option<Run>,
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
        Ok(Decoder { tokens, slots, rest: None, rows, touched: Vec::new(), frames: u64::from(frames) })
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
        if let Some(rest) = self.rest.take() {
            self.place(rest, chunk);
        }
        if self.place_loop(chunk) {
            return Ok(Filled::Full);
        }
        while chunk.len < CHUNK {
            // Runs, of which there are millions, by themselves: in registers.
            if let Some(run) = self.tokens.run() {
                self.place(run, chunk);
                continue;
            }
            match self.tokens.next()? {
                None => return Ok(Filled::End),
                Some(Token::Advance(_)) => {}
                Some(Token::Loop) if self.place_loop(chunk) => return Ok(Filled::Full),
                Some(Token::Loop) => {}
                Some(Token::Event(event)) => return Ok(Filled::Event(*event)),
                Some(Token::Run(run)) => self.place(run, chunk),
            }
        }
        Ok(Filled::Full)
    }

    /// Gives the executions of a run their places, as many as the chunk has room for.
    #[inline(always)]
    fn place(&mut self, mut run: Run, chunk: &mut Chunk) {
        let entry = *self.tokens.entry(&run);
        let accesses = entry.accesses as usize;
        let mut count = run.count;
        if count.saturating_mul(accesses as u64) > (CHUNK + MAX_ACCESSES - chunk.len) as u64 {
            count = (CHUNK - chunk.len).div_ceil(accesses) as u64;
            run.count -= count;
            self.rest = Some(run);
        }
        let count = count as usize;
        let rows = &mut self.rows[entry.root as usize];
        if rows.is_empty() {
            self.touched.push(entry.root);
        }
        let row = Row { mask: run.mask, at: chunk.len as u16, accesses: accesses as u8 };
        row.put(rows, count, accesses);
        let kinds = &self.tokens.kinds[entry.kinds as usize..];
        copy_kinds(&mut chunk.kinds[chunk.len..], kinds, accesses, count);
        chunk.len += count * accesses;
    }

    /// Gives the rounds of the loop in progress, if there is one, their places, as many as the chunk has room for; true
    /// if it had not enough. Leaves loops with large bodies to [`Decoder::place`].
    fn place_loop(&mut self, chunk: &mut Chunk) -> bool {
        let Loop { references, rounds: left, .. } = self.tokens.repeating;
        if left == 0 || references > LARGE_BODY {
            return false;
        }
        let room = (CHUNK + MAX_ACCESSES - chunk.len) as u64;
        let rounds = left.min(room / references);
        self.tokens.repeating.rounds -= rounds;
        if rounds > 0 {
            self.place_rounds(rounds as usize, references as usize, chunk);
        }
        rounds < left
    }

    /// Gives `rounds` rounds of the loop in progress, of `length` references each, their places.
    fn place_rounds(&mut self, rounds: usize, length: usize, chunk: &mut Chunk) {
        let start = chunk.len;
        let body = self.tokens.repeating;
        let body = body.body();
        let mut parts = [Part::default(); MAX_BODY];
        let parts = &mut parts[..body.len()];
        for (part, run) in parts.iter_mut().zip(body) {
            let entry = *self.tokens.entry(run);
            let (accesses, count) = (entry.accesses as usize, run.count as usize);
            let kinds = &self.tokens.kinds[entry.kinds as usize..];
            copy_kinds(&mut chunk.kinds[chunk.len..], kinds, accesses, count);
            let row = Row { mask: run.mask, at: chunk.len as u16, accesses: entry.accesses as u8 };
            *part = Part { root: entry.root, row, count };
            chunk.len += count * accesses;
        }
        for (number, part) in parts.iter().enumerate() {
            let same_root = |other: &&Part| other.root == part.root;
            if parts[..number].iter().any(|other| same_root(&other)) {
                continue;
            }
            let rows = &mut self.rows[part.root as usize];
            if rows.is_empty() {
                self.touched.push(part.root);
            }
            if part.count == 1 && parts.iter().filter(same_root).count() == 1 {
                part.row.put(rows, rounds, length);
                continue;
            }
            // The executions of a code block are decoded in their order.
            for round in 0..rounds {
                for part in parts.iter().filter(same_root) {
                    let at = part.row.at + (round * length) as u16;
                    Row { at, ..part.row }.put(rows, part.count, usize::from(part.row.accesses));
                }
            }
        }
        let end = start + rounds * length;
        while chunk.len < end {
            let count = (chunk.len - start).min(end - chunk.len);
            chunk.kinds.copy_within(start..start + count, chunk.len);
            chunk.len += count;
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
