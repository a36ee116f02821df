//! What kind of access a reference is, in one byte.

/// Bit 0: write; bit 1: atomic; bits 4-7: base-2 logarithm of the size in bytes.
///
/// A size that is no power of two (an 80-bit float, an `fxsave` area) is rounded up to the next one, so that a kind
/// never covers fewer bytes than the access did; sizes end at 32 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Kind(pub u8);

impl Kind {
    const WRITE: u8 = 1;
    const ATOMIC: u8 = 2;

    /// The kind of an access to `bytes` bytes.
    pub fn new(bytes: u32, write: bool, atomic: bool) -> Kind {
        let log2 = bytes.clamp(1, 1 << 15).next_power_of_two().trailing_zeros() as u8;
        Kind(log2 << 4 | if write { Self::WRITE } else { 0 } | if atomic { Self::ATOMIC } else { 0 })
    }

    /// A read of `bytes` bytes.
    pub fn read(bytes: u32) -> Kind {
        Kind::new(bytes, false, false)
    }

    /// A write of `bytes` bytes.
    pub fn write(bytes: u32) -> Kind {
        Kind::new(bytes, true, false)
    }

    /// Whether the access writes (an atomic read-modify-write does).
    #[inline]
    pub fn is_write(self) -> bool {
        self.0 & Self::WRITE != 0
    }

    /// Whether the access is atomic.
    #[inline]
    pub fn is_atomic(self) -> bool {
        self.0 & Self::ATOMIC != 0
    }

    /// Size in bytes: a power of two.
    #[inline]
    pub fn bytes(self) -> u32 {
        1 << (self.0 >> 4)
    }

    /// How far behind its first byte an access has its last one.
    #[inline]
    pub fn last(self) -> u64 {
        const LAST: [u64; 16] = {
            let mut last = [0; 16];
            let mut log2 = 0;
            while log2 < 16 {
                last[log2] = (1 << log2) - 1;
                log2 += 1;
            }
            last
        };
        LAST[usize::from(self.0 >> 4)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_round_up_to_powers_of_two() {
        for (bytes, rounded) in [(0, 1), (1, 1), (3, 4), (8, 8), (10, 16), (512, 512), (u32::MAX, 1 << 15)] {
            let kind = Kind::new(bytes, true, false);
            assert_eq!(kind.bytes(), rounded);
            assert!(kind.is_write() && !kind.is_atomic());
        }
        assert!(Kind::new(4, true, true).is_atomic());
        assert!(!Kind::read(4).is_write());
    }
}
