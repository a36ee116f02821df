//! The executions of a references block on their way into a chunk.

use super::super::format::MAX_ACCESSES;
use super::slots::{Row, Slots};
use super::tokens::{Expect, Tokens};
use super::{copy_kinds, Chunk, Filled, Run, Token, CHUNK};

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
    /// A column ended before its executions.
    short: bool,
}

impl Decoder {
    /// Of these tokens, and the bytes of part 2.
    pub(super) fn new(tokens: Tokens, bytes: &[u8], references: u32) -> Result<Decoder, String> {
        let slots = Slots::parse(bytes, &tokens, references).ok_or("malformed columns")?;
        let rows = vec![Vec::new(); tokens.entries.len()];
        Ok(Decoder { tokens, slots, rest: None, rows, touched: Vec::new(), short: false })
    }

    /// Gives executions their places in the chunk, and their kinds.
    pub(super) fn collect(&mut self, chunk: &mut Chunk) -> Result<Filled, String> {
        if let Some(rest) = self.rest.take() {
            self.place(rest, chunk);
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
                Some(Token::Nothing) => self.expect(chunk),
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
        let row =
            Row { mask: run.mask, at: chunk.len as u16, accesses: accesses as u8, spread: entry.spread };
        row.put(rows, count, accesses);
        let kinds = &self.tokens.kinds[entry.kinds as usize..];
        copy_kinds(&mut chunk.kinds[chunk.len..], kinds, accesses, count);
        chunk.len += count * accesses;
    }

    /// Lets other accesses be expected to miss, if a token said so: after what was executed before.
    #[cold]
    fn expect(&mut self, chunk: &mut Chunk) {
        let Some(Expect { entry, misses }) = self.tokens.expect.take() else { return };
        let line = self.tokens.entries[entry as usize];
        let rows = &mut self.rows[entry as usize];
        if !rows.is_empty() {
            self.short |= self.slots.decode(&line, rows, &mut chunk.addresses).is_none();
            rows.clear();
            self.touched.retain(|&root| root != entry);
        }
        self.slots.expect(&line, misses);
    }

    /// Decodes the executions that have their places.
    pub(super) fn decode(&mut self, chunk: &mut Chunk) -> Result<(), String> {
        for root in self.touched.drain(..) {
            let entry = self.tokens.entries[root as usize];
            let rows = &mut self.rows[root as usize];
            self.short |= self.slots.decode(&entry, rows, &mut chunk.addresses).is_none();
            rows.clear();
        }
        if self.short {
            return Err("a column ends early".to_owned());
        }
        Ok(())
    }
}
