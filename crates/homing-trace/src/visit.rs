//! Visits references in the total order.

use super::decode::{Chunk, Decoder, Filled};
use super::error::{Damage, TraceError};
use super::event::Event;
use super::format::{self, Placed};
use super::kind::Kind;
use super::reader::{ThreadBlocks, Trace};
use crate::ids::{Thread, Time};
use std::collections::HashMap;
use std::ops::Range;

/// Why references between two order blocks are lost.
const GAP: &str = "an order block is missing";
/// References that a visit decodes and discards for each thread, if it begins inside the trace: half a block.
const WARM_UP: u64 = 1 << 19;

/// References of one thread that follow one another in the total order.
#[derive(Clone, Copy, Debug)]
pub struct Turn<'a> {
    /// The thread.
    pub thread: Thread,
    /// Time of the first reference; the others follow without a gap.
    pub first: Time,
    /// Dense addresses: `frame << 12 | offset`.
    pub addresses: &'a [u64],
    /// The kind of each reference.
    pub kinds: &'a [Kind],
}

/// Takes what a trace consists of, in order of Time.
pub trait Visitor {
    /// Some references. A turn may arrive in pieces.
    fn turn(&mut self, turn: Turn<'_>);

    /// An event of `thread`; its next reference has this Time or a later one.
    fn event(&mut self, _thread: Thread, _time: Time, _event: &Event) {}

    /// References that are lost to damage. The next reference has Time `first + references`.
    fn lost(&mut self, _first: Time, _references: u64, _reason: &str) {}
}

/// What a visit delivered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VisitStats {
    /// References delivered.
    pub references: u64,
    /// References lost to damage.
    pub lost: u64,
    /// Events delivered.
    pub events: u64,
    /// The damage found.
    pub damage: Vec<Damage>,
}

/// One step of a thread.
enum Piece<'c> {
    References(&'c [u64], &'c [Kind]),
    Event(Event),
    Lost(u64),
    End,
}

/// Reads one thread's references in their order.
struct ThreadCursor<'a> {
    bytes: &'a [u8],
    frames: u32,
    blocks: &'a [Placed],
    total: u64,
    /// The thread's index of the next reference.
    index: u64,
    next_block: usize,
    decoder: Option<Decoder>,
    block_end: u64,
    chunk: Chunk,
    chunk_at: usize,
    pending: Option<Event>,
    lost: u64,
    reason: String,
    damage: Vec<Damage>,
    thread: Thread,
}

impl<'a> ThreadCursor<'a> {
    fn new(trace: &Trace<'a>, thread: Thread, blocks: &'a ThreadBlocks) -> ThreadCursor<'a> {
        ThreadCursor {
            bytes: trace.bytes,
            frames: trace.frames().len() as u32,
            blocks: &blocks.blocks,
            total: blocks.references,
            index: 0,
            next_block: 0,
            decoder: None,
            block_end: 0,
            chunk: Chunk::default(),
            chunk_at: 0,
            pending: None,
            lost: 0,
            reason: String::new(),
            damage: Vec::new(),
            thread,
        }
    }

    /// Goes to the reference with this index, so that the events just before it come next.
    fn seek(&mut self, index: u64) {
        if index < self.index {
            (self.index, self.next_block, self.block_end, self.lost) = (0, 0, 0, 0);
            (self.decoder, self.pending) = (None, None);
            self.chunk.clear();
            self.chunk_at = 0;
        }
        if index >= self.block_end + self.lost.min(u64::MAX - self.block_end) {
            // Events just before `index` may stand at the end of the block before.
            let block = self.blocks.partition_point(|p| p.header.c < index).saturating_sub(1);
            if block >= self.next_block && self.decoder.is_none() || block > self.next_block {
                self.next_block = block;
                self.decoder = None;
                self.pending = None;
                self.chunk.clear();
                self.chunk_at = 0;
                self.lost = 0;
                self.index = self.blocks.get(block).map_or(index, |p| p.header.c.min(index));
                self.block_end = self.index;
            }
        }
        let known = self.damage.len();
        while self.index < index {
            if let Piece::End = self.next(index - self.index) {
                self.lost = index - self.index;
                self.reason = "a turn beyond the references of its thread".to_owned();
            }
        }
        // What was skipped is no loss of this visit.
        self.damage.truncate(known);
    }

    /// The next piece, of at most `want` references.
    fn next(&mut self, want: u64) -> Piece<'_> {
        loop {
            let ready = self.chunk.len() - self.chunk_at;
            if ready > 0 {
                let count = ready.min(usize::try_from(want).unwrap_or(usize::MAX));
                let from = self.chunk_at;
                self.chunk_at += count;
                self.index += count as u64;
                let (addresses, kinds) = self.chunk.range(from, from + count);
                return Piece::References(addresses, kinds);
            }
            if let Some(event) = self.pending.take() {
                return Piece::Event(event);
            }
            if self.lost > 0 && want > 0 {
                let count = self.lost.min(want);
                self.lost -= count;
                self.index += count;
                return Piece::Lost(count);
            }
            if self.lost > 0 || !self.refill() {
                return Piece::End;
            }
        }
    }

    /// Decodes on, or opens the next block; false at the end.
    fn refill(&mut self) -> bool {
        if let Some(decoder) = &mut self.decoder {
            self.chunk.clear();
            self.chunk_at = 0;
            match decoder.fill(&mut self.chunk) {
                Ok(Filled::Full) => {}
                Ok(Filled::Event(event)) => self.pending = Some(event),
                Ok(Filled::End) => self.decoder = None,
                Err(reason) => {
                    let lost = self.block_end - self.index - self.chunk.len() as u64;
                    self.lose(lost, self.blocks[self.next_block - 1].offset, reason);
                    self.decoder = None;
                }
            }
            return true;
        }
        let Some(&placed) = self.blocks.get(self.next_block) else { return false };
        let first = placed.header.c;
        if first > self.index {
            // Opening the trace has reported this gap.
            self.lost = first - self.index;
            self.reason = "a block is missing".to_owned();
            self.block_end = first;
            return true;
        }
        self.next_block += 1;
        self.block_end = first + u64::from(placed.header.b);
        match self.open(&placed) {
            Ok(decoder) => self.decoder = Some(decoder),
            Err(reason) => self.lose(u64::from(placed.header.b), placed.offset, reason),
        }
        true
    }

    fn open(&self, placed: &Placed) -> Result<Decoder, String> {
        let (header, stored) = format::stored(self.bytes, placed.offset)?;
        if header != placed.header {
            return Err("not the block that the index names".to_owned());
        }
        Decoder::open(&header, stored, self.frames)
    }

    fn lose(&mut self, references: u64, offset: u64, reason: String) {
        self.lost = references;
        self.damage.push(Damage { offset, reason: reason.clone(), thread: Some(self.thread), references });
        self.reason = reason;
    }
}

/// A visit in progress.
struct Visit<'v, V> {
    visitor: &'v mut V,
    time: u64,
    stats: VisitStats,
}

impl<V: Visitor> Visit<'_, V> {
    fn lost(&mut self, references: u64, reason: &str) {
        self.visitor.lost(Time(self.time), references, reason);
        self.stats.lost += references;
        self.time += references;
    }

    fn turn(&mut self, cursor: &mut ThreadCursor<'_>, references: u64) {
        let thread = cursor.thread;
        let mut left = references;
        while left > 0 {
            match cursor.next(left) {
                Piece::References(addresses, kinds) => {
                    let count = addresses.len() as u64;
                    self.visitor.turn(Turn { thread, first: Time(self.time), addresses, kinds });
                    self.time += count;
                    self.stats.references += count;
                    left -= count;
                }
                Piece::Event(event) => self.event(thread, &event),
                Piece::Lost(count) => {
                    self.lost(count, &cursor.reason);
                    left -= count;
                }
                Piece::End => {
                    self.lost(left, "a turn beyond the references of its thread");
                    left = 0;
                }
            }
        }
        if cursor.index == cursor.total {
            self.rest(cursor);
        }
    }

    /// The events after a thread's last reference.
    fn rest(&mut self, cursor: &mut ThreadCursor<'_>) {
        while let Piece::Event(event) = cursor.next(0) {
            self.event(cursor.thread, &event);
        }
    }

    fn event(&mut self, thread: Thread, event: &Event) {
        self.visitor.event(thread, Time(self.time), event);
        self.stats.events += 1;
    }
}

impl<'a> Trace<'a> {
    /// Visits the references of some order blocks (by number) in order of Time. Events come just before their thread's
    /// next reference, or after its last one; those of threads without references come first of all.
    ///
    /// # Errors
    /// [`TraceError::NoOrder`] if there are references but no total order.
    pub fn visit(&self, blocks: Range<usize>, visitor: &mut impl Visitor) -> Result<VisitStats, TraceError> {
        if self.order.is_empty() && self.references() > 0 {
            return Err(TraceError::NoOrder);
        }
        let range = blocks.start.min(self.order.len())..blocks.end.min(self.order.len());
        let mut cursors: HashMap<Thread, ThreadCursor<'_>> = HashMap::new();
        // What is missing before the first block belongs to the visit that begins at the beginning.
        let first = if range.start == 0 { None } else { self.order.get(range.start) };
        let time = first.map_or(0, |p| p.header.c);
        let mut visit = Visit { visitor, time, stats: VisitStats::default() };
        if blocks.start == 0 {
            for (&thread, blocks) in self.threads.iter().filter(|(_, t)| t.references == 0) {
                visit.rest(&mut ThreadCursor::new(self, thread, blocks));
            }
        }
        let range_end = range.end;
        // What is missing at the end belongs to the visit of the last block.
        let to_the_end = range.end == self.order.len() && (!range.is_empty() || self.order.is_empty());
        for placed in &self.order[range] {
            if placed.header.c > visit.time {
                visit.lost(placed.header.c - visit.time, GAP);
            }
            match self.turns(placed) {
                Ok(turns) => {
                    let mut active: Vec<Option<ThreadCursor<'_>>> = Vec::new();
                    for &(thread, index) in &turns.starts {
                        let cursor = cursors
                            .remove(&thread)
                            .or_else(|| Some(ThreadCursor::new(self, thread, self.threads.get(&thread)?)));
                        active.push(cursor.map(|mut cursor| {
                            cursor.seek(index);
                            cursor
                        }));
                    }
                    for &(local, references) in &turns.turns {
                        match &mut active[local as usize] {
                            Some(cursor) => visit.turn(cursor, references),
                            None => visit.lost(references, "a turn of a thread that has no references"),
                        }
                    }
                    cursors.extend(active.into_iter().flatten().map(|cursor| (cursor.thread, cursor)));
                }
                Err(reason) => {
                    let (offset, references) = (placed.offset, placed.header.d);
                    visit.lost(references, &reason);
                    visit.stats.damage.push(Damage { offset, reason, thread: None, references });
                }
            }
        }
        if let Some(next) = self.order.get(range_end).filter(|next| next.header.c > visit.time) {
            visit.lost(next.header.c - visit.time, GAP);
        }
        let total = self.references();
        if to_the_end && visit.time < total {
            let references = total - visit.time;
            let reason = "the end of the total order is missing".to_owned();
            visit.lost(references, &reason);
            let offset = self.blocks_end();
            visit.stats.damage.push(Damage { offset, reason, thread: None, references });
        }
        let mut stats = visit.stats;
        let mut cursors: Vec<_> = cursors.into_values().collect();
        cursors.sort_by_key(|cursor| cursor.thread);
        cursors.iter_mut().for_each(|cursor| stats.damage.append(&mut cursor.damage));
        Ok(stats)
    }

    /// Cuts the total order into at most `most` ranges of order blocks, of about as many references each, to visit them
    /// at the same time. There are fewer where a part would not be worth it: a visit that begins within the trace
    /// decodes and discards some references of each thread.
    pub fn parts(&self, most: usize) -> Vec<Range<usize>> {
        let worth = (self.threads.len() as u64).saturating_mul(4 * WARM_UP).max(8 * WARM_UP);
        let ordered = self.order.last().map_or(0, |p| p.header.c.saturating_add(p.header.d));
        let most = (ordered / worth).min(most as u64).max(1);
        let cut = |part: u64| match part {
            0 => 0,
            part if part == most => self.order.len(),
            part => {
                let time = (u128::from(ordered) * u128::from(part) / u128::from(most)) as u64;
                self.order.partition_point(|placed| placed.header.c < time)
            }
        };
        let ranges = (0..most).map(|part| cut(part)..cut(part + 1));
        ranges.filter(|range| !range.is_empty() || self.order.is_empty()).collect()
    }

    /// Visits the whole trace.
    pub fn visit_all(&self, visitor: &mut impl Visitor) -> Result<VisitStats, TraceError> {
        self.visit(0..self.order.len(), visitor)
    }
}
