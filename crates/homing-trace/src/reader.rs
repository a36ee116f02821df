//! Opens a trace.

use super::error::{Damage, TraceError};
use super::format::{self, BlockKind, Header, Placed, BLOCK_MAGIC, HEADER, VERSION};
use super::frames::MOST_FRAMES;
use super::grain::Grain;
use super::names::{Names, Symbol, MOST_NAMES};
use super::order::{OrderBlock, Turns};
use super::summary::Summary;
use super::varint::{unzigzag, Cursor};
use crate::ids::Thread;
use rayon::prelude::*;
use std::collections::BTreeMap;

/// Missing references before a block that are believed: a hundred times the largest recording that Homing is made for.
/// More would keep whoever walks over them busy for ever.
const MAX_GAP: u64 = 1 << 40;
/// The most frames that a damaged file is allowed to leave out.
const MAX_FRAME_GAP: u32 = 1 << 26;

/// The references blocks of one thread.
#[derive(Clone, Debug, Default)]
pub(super) struct ThreadBlocks {
    /// In order, none of them overlapping.
    pub blocks: Vec<Placed>,
    /// References up to the end of the last block.
    pub references: u64,
}

/// A trace in memory (a mapped file). Opening reads the index and the tables; references are decoded when visited.
#[derive(Debug)]
pub struct Trace<'a> {
    pub(super) bytes: &'a [u8],
    header: Header,
    /// What the summary has of the header.
    header_copy: Option<Header>,
    summary: Option<Summary>,
    frames: Vec<u64>,
    /// Frames that were filled in.
    missing: usize,
    names: Names,
    symbols: Vec<Symbol>,
    pub(super) threads: BTreeMap<Thread, ThreadBlocks>,
    pub(super) order: Vec<Placed>,
    damage: Vec<Damage>,
    indexed: bool,
    blocks_end: u64,
    /// All blocks but the index, in file order.
    pub(super) blocks: Vec<Placed>,
}

impl<'a> Trace<'a> {
    /// Opens a trace. A damaged or unfinished one opens as far as it is readable ([`Trace::damage`],
    /// [`Trace::complete`]); only a damaged header without its copy in the summary, another version, or another kind of
    /// file are errors.
    pub fn open(bytes: &'a [u8]) -> Result<Trace<'a>, TraceError> {
        let reason = match Header::decode(bytes) {
            Ok((header, start)) => return Ok(Trace::of_blocks(bytes, header, start, Vec::new())),
            Err(TraceError::Header(reason)) => reason,
            Err(other) => return Err(other),
        };
        let mut trace = Trace::headless(bytes, format!("header: {reason}; its copy in the summary is used"));
        trace.header = trace.header_copy.take().ok_or(TraceError::Header(reason))?;
        Ok(trace)
    }

    /// Opens a trace even if its header is damaged: command, recorder and host are unknown then, and the first
    /// [`Trace::damage`] says so. The blocks need nothing of it.
    pub fn salvage(bytes: &'a [u8]) -> Result<Trace<'a>, TraceError> {
        let reason = match Trace::open(bytes) {
            Err(TraceError::Header(reason)) => reason,
            other => return other,
        };
        Ok(Trace::headless(bytes, format!("header: {reason}")))
    }

    /// The trace without its header, which is damaged as `reason` says.
    fn headless(bytes: &'a [u8], reason: String) -> Trace<'a> {
        let damage = vec![Damage { offset: 0, reason, thread: None, references: 0 }];
        let mut header = Header::new("unknown", "");
        // The version stands before what is damaged. It alone says how fine addresses are then.
        if format::read_u32(bytes, 8) == Some(VERSION) {
            header.grain = Grain::Page;
        }
        Trace::of_blocks(bytes, header, HEADER.min(bytes.len()), damage)
    }

    fn of_blocks(bytes: &'a [u8], header: Header, start: usize, mut damage: Vec<Damage>) -> Trace<'a> {
        let (indexed, blocks_end, blocks) = match format::read_index(bytes) {
            Some((offset, blocks)) => (true, offset, blocks),
            None => {
                let (end, blocks) = scan(bytes, start, &mut damage);
                (false, end, blocks)
            }
        };
        let mut trace = Trace {
            bytes,
            header,
            header_copy: None,
            summary: None,
            frames: Vec::new(),
            missing: 0,
            names: Names::default(),
            symbols: Vec::new(),
            threads: BTreeMap::new(),
            order: Vec::new(),
            damage,
            indexed,
            blocks_end,
            blocks,
        };
        for placed in trace.blocks.clone() {
            trace.take(placed);
        }
        trace.order_threads();
        trace.order_order();
        trace
    }

    fn take(&mut self, placed: Placed) {
        let header = placed.header;
        let reason = match header.kind {
            BlockKind::References => {
                self.threads.entry(Thread(header.a)).or_default().blocks.push(placed);
                return;
            }
            BlockKind::Order => return self.order.push(placed),
            BlockKind::Index => return,
            BlockKind::Frames | BlockKind::Names | BlockKind::Symbols | BlockKind::Summary => {
                let raw = format::stored(self.bytes, placed.offset)
                    .and_then(|(_, stored)| format::decompress(stored, header.raw as usize));
                match raw.map(|raw| self.take_table(&placed, &raw)) {
                    Ok(Some(())) => return,
                    Ok(None) => format!("malformed {:?} block", header.kind),
                    Err(reason) => format!("{:?} block: {reason}", header.kind),
                }
            }
        };
        if header.kind == BlockKind::Frames {
            self.missing_frames(header.a, header.b);
        }
        self.damage.push(Damage { offset: placed.offset, reason, thread: None, references: 0 });
    }

    /// Takes in a block that is no references and no order; `None` if it is malformed.
    fn take_table(&mut self, placed: &Placed, raw: &[u8]) -> Option<()> {
        let (a, b) = (placed.header.a, placed.header.b);
        let mut cursor = Cursor::new(raw);
        match placed.header.kind {
            BlockKind::Frames => {
                if b as usize > raw.len() {
                    return None;
                }
                self.missing_frames(a, 0)?;
                let mut page = 0u64;
                for number in a..a.checked_add(b).filter(|&end| end <= MOST_FRAMES)? {
                    page = page.wrapping_add(unzigzag(cursor.varint()?) as u64);
                    match self.frames.get_mut(number as usize) {
                        Some(frame) => *frame = page,
                        None => self.frames.push(page),
                    }
                }
            }
            BlockKind::Names => self.names.decode(a, b, raw)?,
            BlockKind::Symbols => {
                if self.symbols.len() + a as usize > MOST_NAMES as usize {
                    return None;
                }
                for _ in 0..a {
                    self.symbols.push(Symbol::decode(&mut cursor)?);
                }
            }
            _ => {
                let (summary, header) = Summary::decode(raw)?;
                (self.summary, self.header_copy) = (Some(summary), header);
            }
        }
        Some(())
    }

    /// Fills in frames that are lost, of which only the number is known.
    fn missing_frames(&mut self, first: u32, count: u32) -> Option<()> {
        let end = first.checked_add(count).filter(|&end| end <= MOST_FRAMES)?;
        let missing = self.missing + (end as usize).saturating_sub(self.frames.len());
        if missing > MAX_FRAME_GAP as usize {
            return None;
        }
        self.missing = missing;
        self.frames.resize(self.frames.len().max(end as usize), u64::MAX);
        Some(())
    }

    /// Sorts each thread's blocks; drops those that overlap others, and notes gaps.
    fn order_threads(&mut self) {
        for (&thread, blocks) in &mut self.threads {
            blocks.blocks.sort_by_key(|p| (p.header.c, p.offset));
            let mut end = 0u64;
            let (damage, file_end) = (&mut self.damage, self.bytes.len() as u64);
            blocks.blocks.retain(|placed| {
                let (first, count) = (placed.header.c, u64::from(placed.header.b));
                let mut note = |reason: &str, offset, references| {
                    let reason = reason.to_owned();
                    damage.push(Damage { offset, reason, thread: Some(thread), references });
                };
                let Some(next) = first.checked_add(count).filter(|_| first >= end) else {
                    note("a block overlaps the one before it; it is ignored", placed.offset, 0);
                    return false;
                };
                if first - end > MAX_GAP {
                    let reason =
                        "a block claims more missing references before it than any recording has; it is \
                                  ignored";
                    note(reason, placed.offset, count);
                    return false;
                }
                if first > end {
                    note("a block is missing before this one", placed.offset.min(file_end), first - end);
                }
                end = next;
                true
            });
            blocks.references = end;
        }
    }

    /// Keeps the last total order of the file: blocks that follow one another from Time 0.
    fn order_order(&mut self) {
        if let Some(start) = self.order.iter().rposition(|p| p.header.c == 0) {
            self.order.drain(..start);
        }
        let mut end = 0;
        let damage = &mut self.damage;
        self.order.retain(|placed| {
            let (first, next) = (placed.header.c, placed.header.c.checked_add(placed.header.d));
            let Some(next) = next.filter(|_| first >= end) else {
                let reason = "an order block overlaps the one before it; it is ignored".to_owned();
                damage.push(Damage { offset: placed.offset, reason, thread: None, references: 0 });
                return false;
            };
            if first - end > MAX_GAP {
                let reason =
                    "an order block claims more missing references before it than any recording has; it \
                              is ignored";
                damage.push(Damage {
                    offset: placed.offset,
                    reason: reason.to_owned(),
                    thread: None,
                    references: 0,
                });
                return false;
            }
            if first > end {
                let reason = "an order block is missing before this one".to_owned();
                damage.push(Damage { offset: placed.offset, reason, thread: None, references: first - end });
            }
            end = next;
            true
        });
    }

    /// Fails if references have the addresses of pages alone: `needs` says what needs more, with its verb.
    pub fn check_exact(&self, needs: impl Into<String>, advice: &'static str) -> Result<(), TraceError> {
        match self.header.grain.is_exact() {
            true => Ok(()),
            false => Err(TraceError::Coarse { needs: needs.into(), advice }),
        }
    }

    /// The header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The writer's counts; of an unfinished trace only what its index or blocks tell.
    pub fn summary(&self) -> Summary {
        self.summary.clone().unwrap_or_else(|| Summary {
            references: self.threads.values().map(|t| t.references).sum(),
            threads: self.threads.len() as u32,
            frames: self.frames.len() as u32,
            ..Summary::default()
        })
    }

    /// The page (virtual address / 4096) of each frame, when it was first referenced; `u64::MAX` where a damaged block
    /// has lost it.
    pub fn frames(&self) -> &[u64] {
        &self.frames
    }

    /// The names.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// The data symbols.
    pub fn symbols(&self) -> &[Symbol] {
        &self.symbols
    }

    /// The threads with their numbers of references, lost ones between undamaged blocks included.
    pub fn threads(&self) -> impl Iterator<Item = (Thread, u64)> + '_ {
        self.threads.iter().map(|(&thread, blocks)| (thread, blocks.references))
    }

    /// References of all threads.
    pub fn references(&self) -> u64 {
        self.threads.values().map(|t| t.references).fold(0, u64::saturating_add)
    }

    /// Whether the trace was finished, and its order, if there is one yet, has a place for all its references.
    pub fn complete(&self) -> bool {
        let ordered = self.order.last().map_or(0, |p| p.header.c.saturating_add(p.header.d));
        self.indexed && (self.order.is_empty() || ordered >= self.references())
    }

    /// Whether the trace was finished, and putting its references in order was left to its first reader.
    pub fn awaits_order(&self) -> bool {
        self.indexed && self.order.is_empty() && self.references() > 0
    }

    /// Whether there is a total order (of at least a part of the references).
    pub fn ordered(&self) -> bool {
        !self.order.is_empty()
    }

    /// What was found damaged when opening. Visiting finds damage inside of blocks.
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// Whether a part of what its recorder saw is not in the trace, as far as that is known without reading the blocks:
    /// it was not finished, is damaged, or was recovered of such a one.
    pub fn is_partial(&self) -> bool {
        !self.complete() || !self.damage.is_empty() || self.header.recovered_lost().is_some()
    }

    /// Reads all blocks and gives the number of those whose checksum is wrong, the order's left out: what a new order
    /// cannot mend.
    pub fn damaged_blocks(&self) -> usize {
        let kept = self.blocks.par_iter().filter(|p| p.header.kind != BlockKind::Order);
        kept.filter(|placed| format::stored(self.bytes, placed.offset).is_err()).count()
    }

    /// Reads all blocks; true if the trace was finished and none of them is damaged, the order's included.
    pub fn whole(&self) -> bool {
        let sound = |placed: &Placed| format::stored(self.bytes, placed.offset).is_ok();
        self.complete() && self.damage.is_empty() && self.blocks.par_iter().all(sound)
    }

    /// The stretches of the total order that can be visited by themselves.
    pub fn order_blocks(&self) -> impl ExactSizeIterator<Item = OrderBlock> + '_ {
        self.order.iter().map(OrderBlock::of)
    }

    /// The end of the last block in the file that is not the index: where order blocks can be appended.
    pub fn blocks_end(&self) -> u64 {
        self.blocks_end
    }

    /// Bytes of the file.
    pub fn file_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// The turns of an order block.
    pub(super) fn turns(&self, placed: &Placed) -> Result<Turns, String> {
        let (header, stored) = format::stored(self.bytes, placed.offset)?;
        if header != placed.header {
            return Err("not the block that the index names".to_owned());
        }
        let raw = format::decompress(stored, header.raw as usize)?;
        Turns::decode(&header, &raw).ok_or_else(|| "malformed order block".to_owned())
    }

    /// The turns of the order block number `block`: (thread, references) in order.
    pub fn order_turns(&self, block: usize) -> Result<Vec<(Thread, u64)>, Damage> {
        let placed = &self.order[block];
        let turns = self.turns(placed).map_err(|reason| Damage {
            offset: placed.offset,
            reason,
            thread: None,
            references: placed.header.d,
        })?;
        Ok(turns.turns.iter().map(|&(local, count)| (turns.starts[local as usize].0, count)).collect())
    }
}

/// Finds the blocks of a file without an index. Returns the end of the last one.
fn scan(bytes: &[u8], start: usize, damage: &mut Vec<Damage>) -> (u64, Vec<Placed>) {
    let mut blocks = Vec::new();
    let (mut at, mut end) = (start as u64, start as u64);
    while at < bytes.len() as u64 {
        match format::stored(bytes, at) {
            Ok((header, _)) => {
                if header.kind != BlockKind::Index {
                    blocks.push(Placed { offset: at, header });
                    end = at + header.length();
                }
                at += header.length();
            }
            Err(reason) => {
                let trailer = bytes.len() as u64 - at == format::TRAILER as u64
                    && bytes.ends_with(&format::TRAILER_MAGIC);
                if !trailer {
                    damage.push(Damage { offset: at, reason, thread: None, references: 0 });
                }
                let rest = &bytes[at as usize + 1..];
                match (0..rest.len()).find(|&i| {
                    rest[i..].starts_with(&BLOCK_MAGIC) && format::stored(bytes, at + 1 + i as u64).is_ok()
                }) {
                    Some(skip) => at += 1 + skip as u64,
                    None => break,
                }
            }
        }
    }
    (end, blocks)
}
