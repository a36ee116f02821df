//! Columns of explicit addresses, one for each slot: addresses above a base or differences, shifted by the zeros that
//! all have in common, in as many bytes as the largest needs, split into byte planes so that compression sees equal
//! things side by side.

use super::varint::{self, unzigzag, zigzag, Cursor};

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
fn changes(width: u32, values: impl Iterator<Item = u64>) -> u32 {
    let (mut changes, mut last) = (0, 0);
    for value in values.take(SAMPLE) {
        let differs = value ^ last;
        changes += (0..width).map(|plane| u32::from(differs >> (8 * plane) & 0xff != 0)).sum::<u32>();
        last = value;
    }
    changes
}

/// Appends a slot's head to `heads` and its values to `planes`. The values are overwritten.
pub(super) fn encode(heads: &mut Vec<u8>, planes: &mut Vec<u8>, values: &mut [u64]) {
    let Some(&first) = values.first() else { return heads.push(0) };
    let (mut smallest, mut largest, mut any, mut last) = (first, first, 0, first);
    for &value in values.iter() {
        smallest = smallest.min(value);
        largest = largest.max(value);
        any |= value ^ last;
        last = value;
    }
    // All values have the same bits below the lowest one in which any two neighbours differ.
    let shift = if any == 0 { 0 } else { any.trailing_zeros() };
    let step = |pair: &[u64]| zigzag(pair[1].wrapping_sub(pair[0]) as i64 >> shift);
    let widest = values.windows(2).map(step).fold(0, |widest, step| widest | step);
    let (of_steps, of_values) = (width_of(widest), width_of((largest - smallest) >> shift));
    let differences = changes(of_steps, values.windows(2).map(step))
        < changes(of_values, values.iter().map(|value| (value - smallest) >> shift));
    let (width, base) = if differences { (of_steps, first) } else { (of_values, smallest) };
    heads.push(width as u8 | HAS_VALUES | if differences { DIFFERENCES } else { 0 });
    varint::put(heads, values.len() as u64);
    heads.push(shift as u8);
    varint::put(heads, base);
    if differences {
        let mut last = first;
        for value in values.iter_mut() {
            let step = zigzag(value.wrapping_sub(last) as i64 >> shift);
            last = std::mem::replace(value, step);
        }
    } else {
        values.iter_mut().for_each(|value| *value = (*value - base) >> shift);
    }
    for plane in 0..width {
        planes.extend(values.iter().map(|v| (v >> (8 * plane)) as u8));
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
        let (shift, mut base) = (u32::from(self.shift), self.base);
        for value in &mut out[start..] {
            if self.differences {
                base = base.wrapping_add((unzigzag(*value) << shift) as u64);
                *value = base;
            } else {
                *value = (*value << shift).wrapping_add(base);
            }
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
