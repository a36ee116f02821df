//! Records that perf compressed (`perf record -z`): one zstd stream over all of them, in which records lie across.

use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

/// Decompressed at a time.
const PIECE: usize = 128 << 10;
/// Records compress some 10 to 50 times; what unpacks to more than this is no recording.
const MOST: u64 = 256;

/// What was decompressed and not taken yet.
pub(super) struct Unpacked {
    decoder: Decoder<'static>,
    pub(super) pending: Vec<u8>,
    packed: u64,
    unpacked: u64,
}

impl Unpacked {
    pub(super) fn new() -> Option<Unpacked> {
        let decoder = Decoder::new().ok()?;
        Some(Unpacked { decoder, pending: Vec::new(), packed: 0, unpacked: 0 })
    }

    /// Decompresses; `take` gets all that is pending after each piece, and says how much of it it has taken. `None` if
    /// the bytes make no sense.
    pub(super) fn add(&mut self, packed: &[u8], mut take: impl FnMut(&[u8]) -> usize) -> Option<()> {
        self.packed += packed.len() as u64;
        let mut input = InBuffer::around(packed);
        loop {
            let before = self.pending.len();
            self.pending.resize(before + PIECE, 0);
            let mut output = OutBuffer::around_pos(&mut self.pending[..], before);
            let ran = self.decoder.run(&mut input, &mut output);
            let (end, at) = (output.pos(), input.pos());
            self.pending.truncate(end);
            ran.ok()?;
            self.unpacked += (end - before) as u64;
            if self.unpacked > MOST * self.packed {
                return None;
            }
            let taken = take(&self.pending).min(self.pending.len());
            self.pending.drain(..taken);
            // Room that is left in the output says that nothing more comes of this input.
            if at == packed.len() && end < before + PIECE {
                return Some(());
            }
        }
    }
}
