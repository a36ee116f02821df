//! The decoder of references blocks of version 1.

mod columns;
mod slots;
mod tokens;

use super::super::format::MAX_ACCESSES;
use super::{copy_kinds, Chunk, Filled, Run, Token, CHUNK};
use slots::{Row, Slots};
pub(in super::super) use tokens::Tokens;
use tokens::{Loop, MAX_BODY};

/// References of a round from which on a loop is decoded run by run.
const LARGE_BODY: u64 = CHUNK as u64 / 8;

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
}

impl Decoder {
    /// Of these tokens, and the bytes of part 2.
    pub(super) fn new(tokens: Tokens, bytes: &[u8], references: u32) -> Result<Decoder, String> {
        let slots = Slots::parse(bytes, tokens.slots, references).ok_or("malformed columns")?;
        if !slots.links_are_sound(&tokens.entries) {
            return Err("malformed links".to_owned());
        }
        let rows = vec![Vec::new(); tokens.entries.len()];
        Ok(Decoder { tokens, slots, rest: None, rows, touched: Vec::new() })
    }

    /// Gives executions their places in the chunk, and their kinds.
    pub(super) fn collect(&mut self, chunk: &mut Chunk) -> Result<Filled, String> {
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
                Some(Token::Nothing) if self.place_loop(chunk) => return Ok(Filled::Full),
                Some(Token::Nothing) => {}
                Some(Token::Event(event)) => return Ok(Filled::Event(*event)),
                Some(Token::Run(run)) => self.place(run, chunk),
            }
        }
        Ok(Filled::Full)
    }

    /// Gives the executions of a run their places, as many as the chunk has room for.
    #[inline(always)]
    fn place(&mut self, mut run: Run, chunk: &mut Chunk) {
        let entry = self.tokens.entries[run.entry as usize];
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
            let entry = self.tokens.entries[run.entry as usize];
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
    pub(super) fn decode(&mut self, chunk: &mut Chunk) -> Result<(), String> {
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
