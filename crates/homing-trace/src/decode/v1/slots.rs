//! Part 2 of a references block of version 1: the values of the slots, and the executions' way through them.

use super::super::super::format::FRAME_SHIFT;
use super::super::super::varint::Cursor;
use super::super::{Addresses, Entry, ROOM};
use super::columns::{Mode, SlotHead};

/// An execution of a code block, and its place in the chunk.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Row {
    /// Its explicit accesses.
    pub mask: u64,
    pub at: u16,
    pub accesses: u8,
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

/// The state of the slots: what part 2 says and what the predictor learns.
#[derive(Debug, Default)]
pub(super) struct Slots {
    last: Vec<u64>,
    stride: Vec<u64>,
    candidate: Vec<u64>,
    modes: Vec<Mode>,
    values: Vec<u64>,
    /// The next value of each slot.
    at: Vec<u32>,
    /// Where its values end.
    end: Vec<u32>,
}

impl Slots {
    pub(super) fn parse(bytes: &[u8], count: u32, references: u32) -> Option<Slots> {
        let mut cursor = Cursor::new(bytes);
        let mut heads = Vec::new();
        let mut explicit = 0u64;
        for _ in 0..count {
            let head = SlotHead::decode(&mut cursor)?;
            explicit += u64::from(head.count);
            heads.push(head);
        }
        if explicit > u64::from(references) {
            return None;
        }
        let mut slots = Slots { values: Vec::with_capacity(explicit as usize), ..Slots::default() };
        for head in &heads {
            slots.at.push(slots.values.len() as u32);
            head.values(&mut cursor, &mut slots.values)?;
            slots.end.push(slots.values.len() as u32);
            slots.modes.push(head.mode);
            slots.last.push(head.first);
        }
        slots.stride = vec![0; heads.len()];
        slots.candidate = vec![0; heads.len()];
        for (slot, head) in heads.iter().enumerate() {
            if let Mode::Linked(_) = head.mode {
                slots.stride[slot] = head.first;
            }
        }
        cursor.is_empty().then_some(slots)
    }

    /// Whether every linked slot is linked to an earlier one that is not linked itself.
    pub(super) fn links_are_sound(&self, entries: &[Entry]) -> bool {
        entries.iter().all(|entry| {
            let modes = &self.modes[entry.slot as usize..][..entry.accesses as usize];
            modes.iter().enumerate().all(|(j, mode)| match mode {
                Mode::Linked(to) => {
                    usize::from(*to) < j && !matches!(modes[usize::from(*to)], Mode::Linked(_))
                }
                _ => true,
            })
        })
    }

    /// Decodes executions of one code block, one access after the other.
    pub(super) fn decode(&mut self, entry: &Entry, rows: &[Row], out: &mut Addresses) -> Option<()> {
        let (mut explicit, mut whole) = (0, true);
        for row in rows {
            explicit |= row.mask;
            whole &= u32::from(row.accesses) == entry.accesses;
        }
        if whole {
            self.columns::<true>(entry, explicit, rows, out)
        } else {
            self.columns::<false>(entry, explicit, rows, out)
        }
    }

    /// `explicit`: the accesses that are explicit in some execution.
    fn columns<const WHOLE: bool>(
        &mut self,
        entry: &Entry,
        explicit: u64,
        rows: &[Row],
        out: &mut Addresses,
    ) -> Option<()> {
        (0..entry.accesses as usize).try_for_each(|j| {
            let slot = entry.slot as usize + j;
            match (self.modes[slot], explicit >> j & 1 == 1) {
                (Mode::Linked(to), false) => self.follow::<WHOLE>(slot, usize::from(to), j, rows, out),
                (Mode::Linked(to), true) => self.linked::<WHOLE>(slot, usize::from(to), j, rows, out),
                (_, false) => self.predicted::<WHOLE>(slot, j, rows, out),
                (Mode::Absolute, true) => self.explicit::<WHOLE, true>(slot, j, rows, out),
                (Mode::Delta, true) => self.explicit::<WHOLE, false>(slot, j, rows, out),
            }
            (self.at[slot] <= self.end[slot]).then_some(())
        })
    }

    /// An access that is as predicted in all executions.
    fn predicted<const WHOLE: bool>(&mut self, slot: usize, j: usize, rows: &[Row], out: &mut Addresses) {
        let (mut last, stride) = (self.last[slot], self.stride[slot]);
        each::<WHOLE>(rows, j, |at, _| {
            last = last.wrapping_add(stride);
            out[at % ROOM] = last;
        });
        self.last[slot] = last;
    }

    /// An access with an explicit value in some executions. The compiler makes a branch of whether there is one: code
    /// without any was slower, since each address then waits for all that the one before depends on.
    fn explicit<const WHOLE: bool, const ABSOLUTE: bool>(
        &mut self,
        slot: usize,
        j: usize,
        rows: &[Row],
        out: &mut Addresses,
    ) {
        let (mut last, mut stride, mut candidate) =
            (self.last[slot], self.stride[slot], self.candidate[slot]);
        let mut values = self.values_of(slot);
        each::<WHOLE>(rows, j, |at, explicit| {
            let value = values.peek();
            values.skip(explicit);
            let delta = if ABSOLUTE { value.wrapping_sub(last) } else { value };
            let next = match (explicit == 1, ABSOLUTE) {
                (false, _) => last.wrapping_add(stride),
                (true, true) => value,
                (true, false) => last.wrapping_add(delta),
            };
            // The rule of strides: two equal differences in a row within a frame.
            let learns = explicit == 1 && (next ^ last) >> FRAME_SHIFT == 0;
            stride = if learns && delta == candidate { delta } else { stride };
            candidate = if learns { delta } else { candidate };
            last = next;
            out[at % ROOM] = next;
        });
        self.at[slot] = values.at as u32;
        (self.last[slot], self.stride[slot], self.candidate[slot]) = (last, stride, candidate);
    }

    /// An access that is predicted by another one in all executions.
    fn follow<const WHOLE: bool>(&self, slot: usize, to: usize, j: usize, rows: &[Row], out: &mut Addresses) {
        let stride = self.stride[slot];
        each::<WHOLE>(rows, j, |at, _| out[at % ROOM] = out[(at - j + to) % ROOM].wrapping_add(stride));
    }

    /// An access that is predicted by another one of the same execution, in some executions with an explicit
    /// difference.
    fn linked<const WHOLE: bool>(
        &mut self,
        slot: usize,
        to: usize,
        j: usize,
        rows: &[Row],
        out: &mut Addresses,
    ) {
        let mut stride = self.stride[slot];
        let mut values = self.values_of(slot);
        each::<WHOLE>(rows, j, |at, explicit| {
            let value = values.peek();
            values.skip(explicit);
            stride = if explicit == 1 { value } else { stride };
            out[at % ROOM] = out[(at - j + to) % ROOM].wrapping_add(stride);
        });
        self.at[slot] = values.at as u32;
        self.stride[slot] = stride;
    }

    fn values_of(&self, slot: usize) -> Values<'_> {
        Values { values: &self.values, at: self.at[slot] as usize }
    }
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
