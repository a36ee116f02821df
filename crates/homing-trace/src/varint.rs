//! Variable-length integers: seven bits a byte, low bits first, bit 7 set on all but the last byte.

/// Appends `value`.
#[inline]
pub(super) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Maps small magnitudes of either sign to small numbers.
#[inline]
pub(super) fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

/// The inverse of [`zigzag`].
#[inline]
pub(super) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Reads values one after the other; `None` where the bytes end or a number has more than 64 bits.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    #[inline]
    pub(super) fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { bytes, at: 0 }
    }

    #[inline]
    pub(super) fn at(bytes: &'a [u8], at: usize) -> Cursor<'a> {
        Cursor { bytes, at }
    }

    #[inline]
    pub(super) fn position(&self) -> usize {
        self.at
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.at >= self.bytes.len()
    }

    #[inline]
    pub(super) fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    /// The next `count` bytes.
    #[inline]
    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(count)?)?;
        self.at += count;
        Some(taken)
    }

    #[inline]
    pub(super) fn varint(&mut self) -> Option<u64> {
        let first = self.byte()?;
        if first < 0x80 {
            return Some(u64::from(first));
        }
        let mut value = u64::from(first & 0x7f);
        for shift in (7..64).step_by(7) {
            let byte = self.byte()?;
            if shift == 63 && byte > 1 {
                return None;
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// A varint that must fit into 32 bits.
    pub(super) fn varint32(&mut self) -> Option<u32> {
        u32::try_from(self.varint()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back() {
        let values = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX];
        let mut bytes = Vec::new();
        values.iter().for_each(|&v| put(&mut bytes, v));
        let mut cursor = Cursor::new(&bytes);
        values.iter().for_each(|&v| assert_eq!(cursor.varint(), Some(v)));
        assert!(cursor.is_empty() && cursor.varint().is_none());
        for v in [0, 1, -1, i64::MAX, i64::MIN] {
            assert_eq!(unzigzag(zigzag(v)), v);
        }
    }

    #[test]
    fn overlong_and_short_numbers_are_refused() {
        assert_eq!(Cursor::new(&[0xff; 10]).varint(), None);
        assert_eq!(Cursor::new(&[0xff; 3]).varint(), None);
        assert_eq!(Cursor::new(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 2]).varint(), None);
        assert_eq!(Cursor::new(&[0x80; 20]).varint(), None);
    }
}
