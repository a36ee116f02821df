//! Part 2 of a references block: the values of the slots, and the executions' way through them.

use super::super::columns::Head;
use super::super::format::FRAME_SHIFT;
use super::super::varint::Cursor;
use super::tokens::{Source, Tokens, OWN};
use super::{Addresses, Entry, ROOM};

/// The last address of a slot that begins: in no frame.
const NOWHERE: u64 = 1 << 63;

/// An execution of a code block, and its place in the chunk.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Row {
    /// Its explicit accesses that were not expected.
    pub mask: u64,
    pub at: u16,
    pub accesses: u8,
    /// Derived accesses have slots of their own.
    pub spread: bool,
}

impl Row {
    /// Adds `count` executions, `step` apart, that are like this one, the first of them. One row each: a row for all of
    /// them would cost every access a branch that is hard to guess.
    #[inline(always)]
    pub(super) fn put(self, rows: &mut Vec<Row>, count: usize, step: usize) {
        if count == 1 {
            return rows.push(self);
        }
        rows.extend((0..count).map(|i| Row { at: self.at + (i * step) as u16, ..self }));
    }
}

/// Calls `place` for the access `j` of each execution that has it, with its place in the chunk and whether it is
/// explicit (0 or 1). `WHOLE`: every execution has all accesses.
#[inline(always)]
fn each<const WHOLE: bool>(rows: &[Row], j: usize, mut place: impl FnMut(usize, u64)) {
    for row in rows.iter().filter(|row| WHOLE || usize::from(row.accesses) > j) {
        place(usize::from(row.at) + j, row.mask >> j & 1);
    }
}

/// What the predictor has learned of a slot.
#[derive(Clone, Copy, Debug)]
struct State {
    last: u64,
    stride: u64,
    candidate: u64,
    source: Source,
}

impl State {
    /// One access; `value` is its explicit address, if it has one.
    #[inline(always)]
    fn step(&mut self, explicit: bool, value: u64) -> u64 {
        let next = if explicit { value } else { self.last.wrapping_add(self.stride) };
        let difference = value.wrapping_sub(self.last);
        // The rule of strides: two equal differences in a row within a frame.
        let learns = explicit && (next ^ self.last) >> FRAME_SHIFT == 0;
        self.stride = if learns && difference == self.candidate { difference } else { self.stride };
        self.candidate = if learns { difference } else { self.candidate };
        self.last = next;
        next
    }
}

/// The state of the slots: what part 2 says and what the predictor learns.
#[derive(Debug, Default)]
pub(super) struct Slots {
    states: Vec<State>,
    /// The accesses of each code block, by its entry, that are expected to miss.
    expected: Vec<u64>,
    values: Vec<u64>,
    /// The next value of each slot.
    at: Vec<u32>,
    /// Where its values end.
    end: Vec<u32>,
}

impl Slots {
    pub(super) fn parse(bytes: &[u8], tokens: &Tokens, references: u32) -> Option<Slots> {
        let mut cursor = Cursor::new(bytes);
        let mut heads = Vec::with_capacity(tokens.sources.len());
        let mut explicit = 0u64;
        for _ in 0..tokens.sources.len() {
            let head = Head::decode(&mut cursor)?;
            explicit += u64::from(head.count);
            heads.push(head);
        }
        if explicit > u64::from(references) {
            return None;
        }
        let mut slots = Slots {
            values: Vec::with_capacity(explicit as usize),
            expected: tokens.expected.clone(),
            ..Slots::default()
        };
        for (head, &source) in heads.iter().zip(&tokens.sources) {
            slots.at.push(slots.values.len() as u32);
            head.values(&mut cursor, &mut slots.values)?;
            slots.end.push(slots.values.len() as u32);
            slots.states.push(State { last: NOWHERE, stride: 0, candidate: 0, source });
        }
        cursor.is_empty().then_some(slots)
    }

    /// Other accesses of a code block are expected to miss; those that change begin anew.
    pub(super) fn expect(&mut self, entry: &Entry, misses: u64) {
        let expected = &mut self.expected[entry.root as usize];
        let changed = std::mem::replace(expected, misses) ^ misses;
        for (j, state) in self.states[entry.slot as usize..].iter_mut().enumerate().take(64) {
            if changed >> j & 1 == 1 {
                *state = State { last: NOWHERE, stride: 0, candidate: 0, source: state.source };
            }
        }
    }

    /// Decodes executions of one code block, one access after the other.
    pub(super) fn decode(&mut self, entry: &Entry, rows: &[Row], out: &mut Addresses) -> Option<()> {
        let (mut explicit, mut whole, mut spread) = (0, true, false);
        for row in rows {
            explicit |= row.mask;
            whole &= u32::from(row.accesses) == entry.accesses;
            spread |= row.spread;
        }
        if whole {
            self.columns::<true>(entry, explicit, spread, rows, out)
        } else {
            self.columns::<false>(entry, explicit, spread, rows, out)
        }
    }

    /// `explicit`: the accesses that are explicit in some execution and not expected to be; `spread`: some executions
    /// have slots for all accesses.
    fn columns<const WHOLE: bool>(
        &mut self,
        entry: &Entry,
        explicit: u64,
        spread: bool,
        rows: &[Row],
        out: &mut Addresses,
    ) -> Option<()> {
        let expected = self.expected[entry.root as usize];
        (0..entry.accesses as usize).try_for_each(|j| {
            let slot = entry.slot as usize + j;
            let state = self.states[slot];
            let derived = state.source.of != OWN;
            match (derived, expected >> j & 1 == 1, explicit >> j & 1 == 1) {
                (true, ..) if spread => self.derived_or_own(slot, j, rows, out),
                (true, ..) => follow::<WHOLE>(state.source, j, rows, out),
                (_, true, _) => self.expected::<WHOLE>(slot, j, rows, out),
                (_, _, true) => self.explicit::<WHOLE>(slot, j, rows, out),
                _ => self.predicted::<WHOLE>(slot, j, rows, out),
            }
            (self.at[slot] <= self.end[slot]).then_some(())
        })
    }

    /// An access that is as predicted in all executions.
    fn predicted<const WHOLE: bool>(&mut self, slot: usize, j: usize, rows: &[Row], out: &mut Addresses) {
        let State { mut last, stride, .. } = self.states[slot];
        each::<WHOLE>(rows, j, |at, _| {
            last = last.wrapping_add(stride);
            out[at % ROOM] = last;
        });
        self.states[slot].last = last;
    }

    /// An access that is explicit in all executions.
    fn expected<const WHOLE: bool>(&mut self, slot: usize, j: usize, rows: &[Row], out: &mut Addresses) {
        let mut values = self.values_of(slot);
        each::<WHOLE>(rows, j, |at, _| {
            out[at % ROOM] = values.peek();
            values.skip(1);
        });
        self.at[slot] = values.at as u32;
    }

    /// An access with an explicit value in some executions. The compiler makes a branch of whether there is one: code
    /// without any was slower, since each address then waits for all that the one before depends on.
    fn explicit<const WHOLE: bool>(&mut self, slot: usize, j: usize, rows: &[Row], out: &mut Addresses) {
        let mut state = self.states[slot];
        let mut values = self.values_of(slot);
        each::<WHOLE>(rows, j, |at, explicit| {
            let value = values.peek();
            values.skip(explicit);
            out[at % ROOM] = state.step(explicit == 1, value);
        });
        self.at[slot] = values.at as u32;
        self.states[slot] = state;
    }

    /// A derived access, in executions of which some are spread over frames.
    fn derived_or_own(&mut self, slot: usize, j: usize, rows: &[Row], out: &mut Addresses) {
        let mut state = self.states[slot];
        let Source { of, offset } = state.source;
        let mut values = self.values_of(slot);
        for row in rows.iter().filter(|row| usize::from(row.accesses) > j) {
            let at = usize::from(row.at);
            out[(at + j) % ROOM] = if row.spread {
                let (value, explicit) = (values.peek(), row.mask >> j & 1);
                values.skip(explicit);
                state.step(explicit == 1, value)
            } else {
                out[(at + usize::from(of)) % ROOM].wrapping_add(offset)
            };
        }
        self.at[slot] = values.at as u32;
        self.states[slot] = state;
    }

    fn values_of(&self, slot: usize) -> Values<'_> {
        Values { values: &self.values, at: self.at[slot] as usize }
    }
}

/// An access that is derived from another one of the same execution in all executions.
fn follow<const WHOLE: bool>(source: Source, j: usize, rows: &[Row], out: &mut Addresses) {
    let Source { of, offset } = source;
    let of = usize::from(of);
    each::<WHOLE>(rows, j, |at, _| out[at % ROOM] = out[(at - j + of) % ROOM].wrapping_add(offset));
}

/// The values that a slot has yet to take.
struct Values<'a> {
    values: &'a [u64],
    at: usize,
}

impl Values<'_> {
    /// The next value, or any where there is none: a prediction discards it, and the count finds a block that ends
    /// early.
    #[inline]
    fn peek(&self) -> u64 {
        self.values.get(self.at).copied().unwrap_or(0)
    }

    #[inline]
    fn skip(&mut self, explicit: u64) {
        self.at += explicit as usize;
    }
}
