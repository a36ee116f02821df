//! Makes a trace of this version of one of an older one: the same references, events, order, names and counts.
//!
//! Each references block is decoded and encoded again by itself; all others are copied. What is damaged is copied as it
//! is, so that it stays counted as lost.

use super::code::CodeBlocks;
use super::decode::{Chunk, Decoder, Filled, Token, Tokens};
use super::encode::{Sealed, ThreadEncoder};
use super::format::{self, BlockHeader, BlockKind, BlockSink, Placed};
use super::{Trace, TraceError};
use crate::ids::Thread;
use rayon::prelude::*;
use std::io::Write;

/// Blocks that are converted at the same time.
const AT_ONCE: usize = 16;

/// What an upgrade did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Upgraded {
    /// References blocks that were encoded again, and their references.
    pub blocks: u64,
    /// References in them.
    pub references: u64,
    /// References blocks that could not be read and were copied as they are.
    pub damaged: u64,
}

/// Writes `trace` to `out` in this version of the format. `done` receives the number of references of each block.
pub fn upgrade<W: Write>(
    trace: &Trace<'_>,
    out: W,
    done: impl Fn(u64) + Sync,
) -> Result<(W, Upgraded), TraceError> {
    let mut sink = BlockSink::new(out, 0, Vec::new())?;
    sink.put_bytes(&trace.header().encode()?)?;
    let mut upgraded = Upgraded::default();
    for some in trace.blocks.chunks(AT_ONCE) {
        let converted: Vec<Option<(BlockHeader, Sealed)>> = some
            .par_iter()
            .map(|placed| {
                let old = placed.header.kind == BlockKind::OldReferences;
                let converted = old.then(|| convert(trace, placed).ok()).flatten();
                if placed.header.kind.is_references() {
                    done(u64::from(placed.header.b));
                }
                converted
            })
            .collect();
        for (placed, converted) in some.iter().zip(converted) {
            if let Some((header, sealed)) = converted {
                sink.put_parts(header, &sealed.steps, &sealed.values)?;
                upgraded.blocks += 1;
                upgraded.references += u64::from(header.b);
                continue;
            }
            upgraded.damaged += u64::from(placed.header.kind == BlockKind::OldReferences);
            let from = placed.offset as usize;
            let to = from.saturating_add(placed.header.length() as usize).min(trace.bytes.len());
            sink.copy_block(placed.header, trace.bytes.get(from..to).unwrap_or(&[]))?;
        }
    }
    Ok((sink.finish()?, upgraded))
}

/// The addresses of a block, one execution's after the other.
struct Addresses {
    decoder: Decoder,
    chunk: Chunk,
    at: usize,
}

impl Addresses {
    /// The next `count` of them.
    fn take(&mut self, count: usize, out: &mut Vec<u64>) -> Result<(), String> {
        out.clear();
        while out.len() < count {
            if self.at == self.chunk.len() {
                self.at = 0;
                self.chunk.clear();
                if matches!(self.decoder.fill(&mut self.chunk)?, Filled::End) && self.chunk.len() == 0 {
                    return Err("it has fewer references than executions".to_owned());
                }
            }
            let to = self.chunk.len().min(self.at + count - out.len());
            out.extend_from_slice(self.chunk.range(self.at, to).0);
            self.at = to;
        }
        Ok(())
    }
}

/// Decodes an old references block and encodes it again.
fn convert(trace: &Trace<'_>, placed: &Placed) -> Result<(BlockHeader, Sealed), String> {
    let (header, stored) = format::stored(trace.bytes, placed.offset)?;
    if header != placed.header {
        return Err("not the block that the index names".to_owned());
    }
    let mut tokens = Tokens::open(&header, stored)?;
    let decoder = Decoder::open(&header, stored, trace.frames().len() as u32)?;
    let mut addresses = Addresses { decoder, chunk: Chunk::default(), at: 0 };
    let mut blocks = CodeBlocks::default();
    let codes = define(&tokens, &mut blocks);
    let mut encoder = ThreadEncoder::new(Thread(header.a), header.c, header.d, trace.header().grain);
    let mut words = Vec::new();
    while let Some(token) = tokens.next()? {
        match token {
            Token::Run(run) => {
                let accesses = tokens.entry(&run).accesses as usize;
                for _ in 0..run.count {
                    addresses.take(accesses, &mut words)?;
                    encoder.execute(codes[run.entry as usize], &words, &blocks);
                }
            }
            Token::Event(event) => encoder.event(&event),
            Token::Advance(units) => encoder.pass(units),
            Token::Nothing => {}
        }
    }
    let mut sealed = Sealed::default();
    encoder.end_idle();
    match encoder.seal(&mut sealed, &blocks) {
        Some(new) if new.b == header.b => Ok((new, sealed)),
        _ => Err("it has another number of references than it says".to_owned()),
    }
}

/// Makes the code blocks of a dictionary known; returns that of each line.
fn define(tokens: &Tokens, blocks: &mut CodeBlocks) -> Vec<super::CodeBlockId> {
    let lines = tokens.entries();
    let mut executed: Vec<Vec<u32>> = lines.iter().map(|line| vec![0; line.accesses as usize + 1]).collect();
    for line in lines {
        executed[line.root as usize][line.accesses as usize] = line.instructions;
    }
    let mut codes = Vec::with_capacity(lines.len());
    for (number, line) in lines.iter().enumerate() {
        codes.push(match line.root as usize == number {
            true => {
                let kinds = tokens.kinds(line).to_vec();
                blocks.enter_plain(kinds, std::mem::take(&mut executed[number]))
            }
            false => codes[line.root as usize],
        });
    }
    codes
}
