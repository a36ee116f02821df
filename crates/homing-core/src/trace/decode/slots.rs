//! Part 2 of a references block: the values of the slots, and the executions' way through them.

use super::super::columns::{Mode, SlotHead};
use super::super::format::FRAME_SHIFT;
use super::super::varint::Cursor;
use super::tokens::Entry;

/// One execution with its place in the chunk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    /// Its explicit accesses.
    pub mask: u64,
    pub at: u16,
    pub accesses: u8,
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
        let mut slots = Slots { values: Vec::with_capacity(explicit as usize + 1), ..Slots::default() };
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
        slots.values.push(0);
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
    pub(super) fn decode(&mut self, entry: &Entry, rows: &[Row], out: &mut [u64]) -> Option<()> {
        let explicit = rows.iter().fold(0, |mask, row| mask | row.mask);
        let most = rows.iter().map(|row| row.accesses).max()?;
        (0..usize::from(most)).try_for_each(|j| {
            let slot = entry.slot as usize + j;
            match (self.modes[slot], explicit >> j & 1 == 1) {
                (Mode::Linked(to), _) => self.linked(slot, usize::from(to), j, rows, out),
                (_, false) => {
                    self.predicted(slot, j, rows, out);
                    Some(())
                }
                (mode, true) => self.explicit(slot, mode == Mode::Absolute, j, rows, out),
            }
        })
    }

    /// An access that is as predicted in all executions.
    fn predicted(&mut self, slot: usize, j: usize, rows: &[Row], out: &mut [u64]) {
        let (mut last, stride) = (self.last[slot], self.stride[slot]);
        for row in rows.iter().filter(|row| usize::from(row.accesses) > j) {
            last = last.wrapping_add(stride);
            out[usize::from(row.at) + j] = last;
        }
        self.last[slot] = last;
    }

    /// An access with an explicit value in some executions. Which ones is hard to guess, so there is no branch for it.
    fn explicit(
        &mut self,
        slot: usize,
        absolute: bool,
        j: usize,
        rows: &[Row],
        out: &mut [u64],
    ) -> Option<()> {
        let (mut last, mut stride, mut candidate) =
            (self.last[slot], self.stride[slot], self.candidate[slot]);
        let mut at = self.at[slot] as usize;
        let absolute = if absolute { u64::MAX } else { 0 };
        for row in rows.iter().filter(|row| usize::from(row.accesses) > j) {
            let explicit = row.mask >> j & 1;
            // Behind the last value there is one more, for a prediction to read in vain.
            let delta = self.values.get(at)?.wrapping_sub(last & absolute);
            at += explicit as usize;
            let delta = if explicit == 1 { delta } else { stride };
            let next = last.wrapping_add(delta);
            // The rule of strides: two equal differences in a row within a frame.
            let learns = explicit == 1 && (next ^ last) >> FRAME_SHIFT == 0;
            stride = if learns && delta == candidate { delta } else { stride };
            candidate = if learns { delta } else { candidate };
            last = next;
            out[usize::from(row.at) + j] = next;
        }
        (self.last[slot], self.stride[slot], self.candidate[slot]) = (last, stride, candidate);
        self.at[slot] = at as u32;
        (self.at[slot] <= self.end[slot]).then_some(())
    }

    /// An access that is predicted by another one of the same execution.
    fn linked(&mut self, slot: usize, to: usize, j: usize, rows: &[Row], out: &mut [u64]) -> Option<()> {
        let mut stride = self.stride[slot];
        let mut at = self.at[slot] as usize;
        for row in rows.iter().filter(|row| usize::from(row.accesses) > j) {
            let explicit = row.mask >> j & 1;
            let value = *self.values.get(at)?;
            at += explicit as usize;
            stride = if explicit == 1 { value } else { stride };
            out[usize::from(row.at) + j] = out[usize::from(row.at) + to].wrapping_add(stride);
        }
        self.stride[slot] = stride;
        self.at[slot] = at as u32;
        (self.at[slot] <= self.end[slot]).then_some(())
    }
}
