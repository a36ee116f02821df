//! Masks of accesses in a references block: a byte if one bit or none is set, which most have, else a few more.

use super::varint::Cursor;

/// From this byte on: the number of bytes of the mask, low ones first, that follow.
const BYTES: u8 = 64;

/// Appends a mask.
pub(super) fn put(out: &mut Vec<u8>, mask: u64) {
    if mask.count_ones() == 1 {
        return out.push(mask.trailing_zeros() as u8);
    }
    let bytes = (64 - mask.leading_zeros()).div_ceil(8) as usize;
    out.push(BYTES + bytes as u8);
    out.extend_from_slice(&mask.to_le_bytes()[..bytes]);
}

/// Reads a mask.
#[inline]
pub(super) fn take(cursor: &mut Cursor<'_>) -> Option<u64> {
    let byte = cursor.byte()?;
    if byte < BYTES {
        return Some(1 << byte);
    }
    let mut bytes = [0; 8];
    let given = cursor.take(usize::from(byte - BYTES))?;
    bytes.get_mut(..given.len())?.copy_from_slice(given);
    Some(u64::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_come_back() {
        for mask in [0, 1, 2, 3, 1 << 63, u64::MAX, 0xff00, 1 << 40 | 1] {
            let mut bytes = Vec::new();
            put(&mut bytes, mask);
            let mut cursor = Cursor::new(&bytes);
            assert_eq!(take(&mut cursor), Some(mask));
            assert!(cursor.is_empty());
        }
        assert_eq!(take(&mut Cursor::new(&[73, 0, 0, 0, 0, 0, 0, 0, 0, 0])), None);
        assert_eq!(take(&mut Cursor::new(&[66, 1])), None);
    }
}
