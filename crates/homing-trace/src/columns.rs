//! Columns of explicit values: one for each slot, with one byte width, split into byte planes so that zstd sees equal
//! things side by side.

use super::varint::{self, unzigzag, zigzag, Cursor};

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

fn width_of(value: u64) -> u8 {
    (64 - value.leading_zeros()).div_ceil(8) as u8
}

/// Appends a slot's head and its values (differences as two's complement, or addresses).
pub(super) fn encode(heads: &mut Vec<u8>, planes: &mut Vec<u8>, mode: Mode, first: u64, values: &mut [u64]) {
    let mut head = match mode {
        Mode::Delta => 0,
        Mode::Absolute => ABSOLUTE,
        Mode::Linked(_) => LINKED,
    };
    let base = if mode == Mode::Absolute { values.iter().copied().min().unwrap_or(0) } else { 0 };
    let mut any = 0;
    for value in values.iter_mut() {
        *value = value.wrapping_sub(base);
        any |= *value;
    }
    let shift = if any == 0 { 0 } else { any.trailing_zeros() };
    let mut largest = 0;
    for value in values.iter_mut() {
        *value = if mode == Mode::Absolute { *value >> shift } else { zigzag(*value as i64 >> shift) };
        largest |= *value;
    }
    let width = width_of(largest);
    head |= width | if values.is_empty() { 0 } else { HAS_VALUES };
    heads.push(head);
    varint::put(heads, zigzag(first as i64));
    if let Mode::Linked(to) = mode {
        heads.push(to);
    }
    if values.is_empty() {
        return;
    }
    varint::put(heads, values.len() as u64);
    heads.push(shift as u8);
    if mode == Mode::Absolute {
        varint::put(heads, base);
    }
    for plane in 0..u32::from(width) {
        planes.extend(values.iter().map(|v| (v >> (8 * plane)) as u8));
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(mode: Mode, values: &[u64]) -> usize {
        let (mut heads, mut planes) = (Vec::new(), Vec::new());
        encode(&mut heads, &mut planes, mode, 99, &mut values.to_vec());
        let mut cursor = Cursor::new(&heads);
        let head = SlotHead::decode(&mut cursor).unwrap();
        assert!(cursor.is_empty());
        assert_eq!((head.mode, head.first, head.count as usize), (mode, 99, values.len()));
        let mut out = vec![7];
        head.values(&mut Cursor::new(&planes), &mut out).unwrap();
        assert_eq!(&out[1..], values);
        planes.len()
    }

    #[test]
    fn columns_come_back() {
        let minus = |v: i64| v as u64;
        for mode in [Mode::Delta, Mode::Absolute, Mode::Linked(3)] {
            round_trip(mode, &[]);
            round_trip(mode, &[0, 0, 0]);
            round_trip(mode, &[u64::MAX, 0, 1, 1 << 63, 5]);
            round_trip(mode, &[minus(-8), 8, 16, minus(-64)]);
        }
        assert_eq!(round_trip(Mode::Delta, &[minus(-8), 8, 16, minus(-64)]), 4);
        assert_eq!(round_trip(Mode::Absolute, &[1 << 40, (1 << 40) + 255 * 8]), 2);
    }
}
