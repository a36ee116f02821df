//! Little-endian fields out of bytes that may end anywhere.

/// What is left to read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    /// The next bytes of that number, if they are there.
    pub(super) fn take(&mut self, length: u64) -> Option<&'a [u8]> {
        let (first, rest) = self.0.split_at_checked(usize::try_from(length).ok()?)?;
        self.0 = rest;
        Some(first)
    }

    /// Passes over bytes.
    pub(super) fn skip(&mut self, length: u64) -> Option<()> {
        self.take(length).map(drop)
    }

    /// Passes over that number of 64-bit words.
    pub(super) fn skip_words(&mut self, words: u64) -> Option<()> {
        self.skip(words.checked_mul(8)?)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.take(2)?.try_into().ok()?))
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    /// Two 32-bit fields.
    pub(super) fn pair(&mut self) -> Option<(u32, u32)> {
        Some((self.u32()?, self.u32()?))
    }

    /// A `struct perf_file_section`: offset and size.
    pub(super) fn pair64(&mut self) -> Option<(u64, u64)> {
        Some((self.u64()?, self.u64()?))
    }

    /// `struct perf_header_string`: a length, and text up to a zero within it.
    pub(super) fn string(&mut self) -> Option<String> {
        let length = self.u32()?;
        Some(text(self.take(length.into())?))
    }
}

/// Text up to the first zero.
pub(super) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
