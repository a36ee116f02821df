//! Columns of explicit values of version 1: one for each slot, with one byte width, split into byte planes.

use super::super::super::varint::{unzigzag, Cursor};

/// How the values of a column relate to addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Differences to the slot's last address.
    Delta,
    /// Addresses: better than differences where a table is accessed at random.
    Absolute,
    /// Differences to the address of an earlier access of the same execution.
    Linked(u8),
}

/// What part 2 of a references block says about a slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlotHead {
    pub mode: Mode,
    /// The slot's first address (the first difference, if linked).
    pub first: u64,
    pub count: u32,
    width: u8,
    shift: u8,
    /// What is added to the shifted values of an absolute column.
    base: u64,
}

const ABSOLUTE: u8 = 1 << 4;
const LINKED: u8 = 1 << 5;
const HAS_VALUES: u8 = 1 << 6;

impl SlotHead {
    pub(super) fn decode(cursor: &mut Cursor<'_>) -> Option<SlotHead> {
        let head = cursor.byte()?;
        let first = unzigzag(cursor.varint()?) as u64;
        let mode = match head & (ABSOLUTE | LINKED) {
            0 => Mode::Delta,
            ABSOLUTE => Mode::Absolute,
            LINKED => Mode::Linked(cursor.byte()?),
            _ => return None,
        };
        let mut slot = SlotHead { mode, first, count: 0, width: head & 15, shift: 0, base: 0 };
        if head & HAS_VALUES != 0 {
            slot.count = cursor.varint32()?;
            slot.shift = cursor.byte()?;
            if mode == Mode::Absolute {
                slot.base = cursor.varint()?;
            }
        }
        (slot.width <= 8 && slot.shift < 64).then_some(slot)
    }

    /// Appends the slot's values to `out`. The caller has checked `count` against the references of the block.
    pub(super) fn values(&self, planes: &mut Cursor<'_>, out: &mut Vec<u64>) -> Option<()> {
        let count = self.count as usize;
        let start = out.len();
        let low = if self.width == 0 { &[][..] } else { planes.take(count)? };
        out.extend(low.iter().map(|&b| u64::from(b)));
        out.resize(start + count, 0);
        for plane in 1..u32::from(self.width) {
            let bytes = planes.take(count)?;
            for (value, &byte) in out[start..].iter_mut().zip(bytes) {
                *value |= u64::from(byte) << (8 * plane);
            }
        }
        let (shift, base) = (u32::from(self.shift), self.base);
        if self.mode == Mode::Absolute {
            out[start..].iter_mut().for_each(|v| *v = (*v << shift).wrapping_add(base));
        } else {
            out[start..].iter_mut().for_each(|v| *v = (unzigzag(*v) << shift) as u64);
        }
        Some(())
    }
}
