//! Order blocks: the total order as turns (thread, number of references).

use super::by_thread::ByThread;
use super::format::{BlockHeader, BlockKind, Placed};
use super::varint::{self, Cursor};
use crate::ids::{Thread, Time};

/// References after which an order block ends, so that workers can share a file.
const MAX_REFERENCES: u64 = 1 << 20;
/// Turns after which an order block ends.
const MAX_TURNS: usize = 1 << 18;

/// A stretch of the total order that can be visited by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderBlock {
    /// Time of its first reference.
    pub first: Time,
    /// Its references.
    pub references: u64,
}

impl OrderBlock {
    pub(super) fn of(placed: &Placed) -> OrderBlock {
        OrderBlock { first: Time(placed.header.c), references: placed.header.d }
    }
}

#[derive(Clone, Copy, Debug)]
struct OrderedThread {
    references: u64,
    local: u32,
}

/// The number of a thread that is not in the block.
const ABSENT: u32 = u32::MAX;
const NEW: OrderedThread = OrderedThread { references: 0, local: ABSENT };

/// Collects turns into order blocks.
#[derive(Debug, Default)]
pub(super) struct OrderEncoder {
    /// By thread: its references in all turns so far, and its number in the block.
    threads: ByThread<OrderedThread>,
    /// The block's threads, with the index of their first reference.
    starts: Vec<(Thread, u64)>,
    turns: Vec<(u32, u64)>,
    first: u64,
    references: u64,
}

impl OrderEncoder {
    /// Takes as much of a turn as fits into the block in progress; returns what is left of it.
    pub(super) fn push(&mut self, thread: Thread, count: u64) -> u64 {
        let taken = count.min(MAX_REFERENCES - self.references);
        if taken == 0 {
            return count;
        }
        let state = self.threads.get_or_insert_with(thread, || NEW);
        if state.local == ABSENT {
            state.local = self.starts.len() as u32;
            self.starts.push((thread, state.references));
        }
        match self.turns.last_mut() {
            Some(turn) if turn.0 == state.local => turn.1 += taken,
            _ => self.turns.push((state.local, taken)),
        }
        state.references += taken;
        self.references += taken;
        count - taken
    }

    pub(super) fn is_full(&self) -> bool {
        self.references >= MAX_REFERENCES || self.turns.len() >= MAX_TURNS
    }

    /// References in all turns so far.
    pub(super) fn total(&self) -> u64 {
        self.first + self.references
    }

    /// Ends the block in progress; `None` if it is empty.
    pub(super) fn seal(&mut self) -> Option<(BlockHeader, Vec<u8>)> {
        if self.references == 0 {
            return None;
        }
        let mut raw = Vec::with_capacity(self.turns.len() * 4 + self.starts.len() * 16);
        for &(thread, index) in &self.starts {
            varint::put(&mut raw, u64::from(thread.0));
            varint::put(&mut raw, index);
        }
        self.turns.iter().for_each(|turn| varint::put(&mut raw, u64::from(turn.0)));
        self.turns.iter().for_each(|turn| varint::put(&mut raw, turn.1));
        let header = BlockHeader {
            kind: BlockKind::Order,
            stored: 0,
            raw: 0,
            a: self.turns.len() as u32,
            b: self.starts.len() as u32,
            c: self.first,
            d: self.references,
        };
        self.first += self.references;
        self.references = 0;
        for (thread, _) in self.starts.drain(..) {
            self.threads.get_or_insert_with(thread, || NEW).local = ABSENT;
        }
        self.turns.clear();
        Some((header, raw))
    }
}

/// A decoded order block.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Its threads, with the index of their first reference in it.
    pub starts: Vec<(Thread, u64)>,
    /// (index into `starts`, references).
    pub turns: Vec<(u32, u64)>,
}

impl Turns {
    pub(super) fn decode(header: &BlockHeader, raw: &[u8]) -> Option<Turns> {
        if header.a as usize > raw.len() || header.b as usize > raw.len() {
            return None;
        }
        let mut cursor = Cursor::new(raw);
        let mut order = Turns::default();
        for _ in 0..header.b {
            order.starts.push((Thread(cursor.varint32()?), cursor.varint()?));
        }
        for _ in 0..header.a {
            let local = cursor.varint32().filter(|&local| local < header.b)?;
            order.turns.push((local, 0));
        }
        let mut left = header.d;
        for turn in &mut order.turns {
            turn.1 = cursor.varint()?;
            left = left.checked_sub(turn.1)?;
        }
        (left == 0 && cursor.is_empty()).then_some(order)
    }
}
