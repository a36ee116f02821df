//! Columns of explicit addresses, one for each slot: addresses above a base or differences, shifted by the zeros that
//! all have in common, in as many bytes as the largest needs, split into byte planes so that compression sees equal
//! things side by side.

use super::varint::{self, unzigzag, zigzag, Cursor};
use super::wide::{wide, Work};

/// Head byte: the values are differences to the one before.
const DIFFERENCES: u8 = 1 << 4;
/// Head byte: there are values.
const HAS_VALUES: u8 = 1 << 6;
/// Values by which the coding is chosen.
const SAMPLE: usize = 1 << 10;

/// What part 2 of a references block says about a slot.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Head {
    pub count: u32,
    differences: bool,
    width: u8,
    shift: u8,
    /// What is added to the shifted values; of differences the first value.
    base: u64,
}

fn width_of(value: u64) -> u32 {
    (64 - value.leading_zeros()).div_ceil(8)
}

/// What compression will make of values about: bytes that are not as the one before in their plane.
#[inline(always)]
fn changes(width: u32, values: impl Iterator<Item = u64>) -> u32 {
    const LOW_BITS: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let mask = u64::MAX.checked_shr(64 - 8 * width).unwrap_or(0);
    let (mut changes, mut last) = (0, 0);
    for value in values.take(SAMPLE) {
        // Bit 7 of each byte in which they differ.
        let differs = value ^ last;
        let marks = ((differs & LOW_BITS) + LOW_BITS | differs) & !LOW_BITS;
        changes += (marks & mask).count_ones();
        last = value;
    }
    changes
}

/// Appends a slot's head to `heads` and its values to `planes`. The values are overwritten.
pub(super) fn encode(heads: &mut Vec<u8>, planes: &mut Vec<u8>, values: &mut [u64]) {
    wide(Encode { heads, planes, values });
}

struct Encode<'a> {
    heads: &'a mut Vec<u8>,
    planes: &'a mut Vec<u8>,
    values: &'a mut [u64],
}

impl Work for Encode<'_> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        let Encode { heads, planes, values } = self;
        let Some(&first) = values.first() else { return heads.push(0) };
        let (mut smallest, mut largest, mut any) = (first, first, 0);
        for &value in values.iter() {
            smallest = smallest.min(value);
            largest = largest.max(value);
            // All values have the same bits below the lowest one in which any differs from the first.
            any |= value ^ first;
        }
        let shift = if any == 0 { 0 } else { any.trailing_zeros() };
        // Since all are multiples of it, steps may be shifted after they are zigzag.
        let step = |before: u64, value: u64| zigzag(value.wrapping_sub(before) as i64);
        let mut widest = 0;
        for (&before, &value) in values.iter().zip(&values[1..]) {
            widest |= step(before, value);
        }
        let (of_steps, of_values) = (width_of(widest >> shift), width_of((largest - smallest) >> shift));
        let steps = values.windows(2).map(|pair| step(pair[0], pair[1]) >> shift);
        let differences = changes(of_steps, steps)
            < changes(of_values, values.iter().map(|value| (value - smallest) >> shift));
        let (width, base) = if differences { (of_steps, first) } else { (of_values, smallest) };
        heads.push(width as u8 | HAS_VALUES | if differences { DIFFERENCES } else { 0 });
        varint::put(heads, values.len() as u64);
        heads.push(shift as u8);
        varint::put(heads, base);
        if differences {
            for at in (1..values.len()).rev() {
                values[at] = step(values[at - 1], values[at]) >> shift;
            }
            values[0] = 0;
        } else {
            values.iter_mut().for_each(|value| *value = (*value - base) >> shift);
        }
        for plane in 0..width {
            planes.extend(values.iter().map(|v| (v >> (8 * plane)) as u8));
        }
    }
}

impl Head {
    pub(super) fn decode(cursor: &mut Cursor<'_>) -> Option<Head> {
        let head = cursor.byte()?;
        if head & HAS_VALUES == 0 {
            return (head == 0).then_some(Head::default());
        }
        let (count, shift, base) = (cursor.varint32()?, cursor.byte()?, cursor.varint()?);
        let head = Head { count, differences: head & DIFFERENCES != 0, width: head & 15, shift, base };
        (head.width <= 8 && shift < 64).then_some(head)
    }

    /// Appends the slot's values to `out`. The caller has checked `count` against the references of the block.
    pub(super) fn values(&self, planes: &mut Cursor<'_>, out: &mut Vec<u64>) -> Option<()> {
        wide(Decode { head: *self, planes, out })
    }
}

struct Decode<'a, 'b> {
    head: Head,
    planes: &'a mut Cursor<'b>,
    out: &'a mut Vec<u64>,
}

impl Work for Decode<'_, '_> {
    type Result = Option<()>;

    #[inline(always)]
    fn run(self) -> Option<()> {
        let Decode { head, planes, out } = self;
        let count = head.count as usize;
        let start = out.len();
        let low = if head.width == 0 { &[][..] } else { planes.take(count)? };
        out.extend(low.iter().map(|&b| u64::from(b)));
        out.resize(start + count, 0);
        for plane in 1..u32::from(head.width) {
            let bytes = planes.take(count)?;
            for (value, &byte) in out[start..].iter_mut().zip(bytes) {
                *value |= u64::from(byte) << (8 * plane);
            }
        }
        let (shift, mut base) = (u32::from(head.shift), head.base);
        if head.differences {
            for value in &mut out[start..] {
                base = base.wrapping_add((unzigzag(*value) << shift) as u64);
                *value = base;
            }
        } else {
            out[start..].iter_mut().for_each(|value| *value = (*value << shift).wrapping_add(base));
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(values: &[u64]) -> usize {
        let (mut heads, mut planes) = (Vec::new(), Vec::new());
        encode(&mut heads, &mut planes, &mut values.to_vec());
        let mut cursor = Cursor::new(&heads);
        let head = Head::decode(&mut cursor).unwrap();
        assert!(cursor.is_empty());
        assert_eq!(head.count as usize, values.len());
        let mut out = vec![7];
        head.values(&mut Cursor::new(&planes), &mut out).unwrap();
        assert_eq!(&out[1..], values);
        planes.len()
    }

    #[test]
    fn columns_come_back() {
        let lists: [&[u64]; 6] = [
            &[],
            &[5],
            &[0, 0, 0],
            &[u64::MAX, 0, 1, 1 << 63, 5],
            &[1 << 63, 1, 1 << 63 | 1, 0, u64::MAX, u64::MAX - 1],
            &[u64::MAX, u64::MAX - 8, u64::MAX - 16],
        ];
        lists.into_iter().for_each(|list| _ = round_trip(list));
        assert_eq!(round_trip(&[1 << 40, (1 << 40) + 255 * 8, (1 << 40) + 9 * 8]), 3);
        let pages: Vec<u64> = (0..1000).map(|page| 12 << 40 | page << 12).collect();
        assert_eq!(round_trip(&pages), 1000, "differences of one page each");
    }
}
