//! The frame of the file: header, blocks, trailer (`docs/trace-format.md`).

use super::error::TraceError;
use super::grain::Grain;
use serde::{Deserialize, Serialize};
use std::io::Write;
use xxhash_rust::xxh3::{xxh3_64, Xxh3};

/// The newest version of the format that this program reads. It is written where readers of version 2 would take coarse
/// addresses for exact ones, or windows for all of a program.
pub const VERSION: u32 = 3;
/// The version that it writes otherwise, and the oldest that it reads.
const EXACT: u32 = 2;
/// Base-2 logarithm of the frame size.
pub const FRAME_SHIFT: u32 = 12;
/// The frame size in bytes: the granularity of dense addresses.
pub const FRAME_BYTES: u64 = 1 << FRAME_SHIFT;

pub(super) const MAGIC: [u8; 8] = *b"HOMINGTR";
pub(super) const BLOCK_MAGIC: [u8; 4] = *b"HBLK";
pub(super) const TRAILER_MAGIC: [u8; 8] = *b"HOMINGND";
pub(super) const BLOCK_HEADER: usize = 48;
pub(super) const TRAILER: usize = 16;
/// The most that a reader will decompress for one part of a block: guards against hostile lengths.
pub(super) const MAX_RAW: usize = 1 << 28;
/// The most accesses that a code block has; longer ones are split.
pub(super) const MAX_ACCESSES: usize = 64;

/// The header's field of [`Header::is_child`].
const CHILD: &str = "child";
/// Its fields of [`Header::process`] and [`Header::set_processes`].
const PROCESS: &str = "process";
const PROCESSES: &str = "processes";

/// The header's field of [`Header::recovered_lost`].
pub(super) const RECOVERED_LOST: &str = "recovered_lost";

/// What the trace says about itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Header {
    /// The recorded command line; empty for imports.
    pub command: Vec<String>,
    /// The recorder: `valgrind`, `tsan`, `import`, ...
    pub recorder: String,
    /// Its version.
    pub recorder_version: String,
    /// `none` or `line`.
    pub filter: String,
    /// Kernel and CPU of the machine that recorded.
    pub host: serde_json::Map<String, serde_json::Value>,
    /// Bytes of a frame; 4096.
    pub frame_bytes: u64,
    /// How fine addresses are; not in the file where they are exact.
    #[serde(skip_serializing_if = "Grain::is_exact")]
    pub grain: Grain,
    /// Further fields.
    #[serde(flatten)]
    pub more: serde_json::Map<String, serde_json::Value>,
}

/// Bytes of the file before the header's JSON.
pub(super) const HEADER: usize = 24;

impl Header {
    /// A header with the recorder's name and version, no filter, and 4 KiB frames.
    pub fn new(recorder: &str, recorder_version: &str) -> Header {
        Header {
            recorder: recorder.to_owned(),
            recorder_version: recorder_version.to_owned(),
            filter: "none".to_owned(),
            frame_bytes: FRAME_BYTES,
            ..Header::default()
        }
    }

    /// The version of the format that a trace with this header has when it is written.
    pub fn version(&self) -> u32 {
        if self.grain.is_exact() && self.windows().is_none() {
            EXACT
        } else {
            VERSION
        }
    }

    /// How the windows were chosen in which the program was recorded, if it was recorded in windows.
    pub fn windows(&self) -> Option<&str> {
        self.more.get("windows")?.as_str()
    }

    /// Says whether another recorded process made the program's.
    pub fn set_child(&mut self, child: bool) {
        self.more.remove(CHILD);
        if child {
            self.more.insert(CHILD.into(), true.into());
        }
    }

    /// Whether another recorded process made the program's: they may share memory.
    pub fn is_child(&self) -> bool {
        self.more.get(CHILD).and_then(serde_json::Value::as_bool).unwrap_or(false)
    }

    /// Says which process the trace is of.
    pub fn set_process(&mut self, id: u32) {
        self.more.insert(PROCESS.into(), id.into());
    }

    /// The process id of the program, if the recorder has said it.
    pub fn process(&self) -> Option<u64> {
        self.more.get(PROCESS)?.as_u64()
    }

    /// Says which processes the trace has, of several: each with `process`, `command`, `first_thread`, `threads`.
    pub fn set_processes(&mut self, processes: Vec<serde_json::Value>) {
        self.more.remove(PROCESS);
        self.more.insert(PROCESSES.into(), processes.into());
    }

    /// How many processes the trace is of.
    pub fn processes(&self) -> usize {
        self.more.get(PROCESSES).and_then(serde_json::Value::as_array).map_or(1, Vec::len)
    }

    /// References known to be missing, of what [`super::recover`] found of a damaged or unfinished trace; `None` of any
    /// other trace. What a killed recorder had not yet written is not known.
    pub fn recovered_lost(&self) -> Option<u64> {
        self.more.get(RECOVERED_LOST)?.as_u64()
    }

    pub(super) fn encode(&self) -> Result<Vec<u8>, TraceError> {
        let json = serde_json::to_vec(self).map_err(|e| TraceError::Header(e.to_string()))?;
        let mut bytes = MAGIC.to_vec();
        bytes.extend(self.version().to_le_bytes());
        bytes.extend((json.len() as u32).to_le_bytes());
        bytes.extend(xxh3_64(&json).to_le_bytes());
        bytes.extend(json);
        Ok(bytes)
    }

    /// The header that a file begins with, if it can be read.
    pub fn of(bytes: &[u8]) -> Option<Header> {
        Header::decode(bytes).ok().map(|(header, _)| header)
    }

    /// The header and its length in the file.
    pub(super) fn decode(bytes: &[u8]) -> Result<(Header, usize), TraceError> {
        if bytes.get(..8) != Some(&MAGIC[..]) {
            return Err(TraceError::NotATrace);
        }
        let short = || TraceError::Header(format!("the file ends after {} bytes", bytes.len()));
        let found = read_u32(bytes, 8).ok_or_else(short)?;
        if !(EXACT..=VERSION).contains(&found) {
            return Err(TraceError::Version { found, known: VERSION });
        }
        let length = read_u32(bytes, 12).ok_or_else(short)? as usize;
        let checksum = read_u64(bytes, 16).ok_or_else(short)?;
        let json = bytes.get(HEADER..HEADER + length).ok_or_else(short)?;
        if xxh3_64(json) != checksum {
            return Err(TraceError::Header("its checksum is wrong".to_owned()));
        }
        let header: Header = serde_json::from_slice(json).map_err(|e| TraceError::Header(e.to_string()))?;
        header.check()?;
        Ok((header, HEADER + length))
    }

    /// Fails if the blocks mean what this program does not know.
    pub(super) fn check(&self) -> Result<(), TraceError> {
        if self.frame_bytes == FRAME_BYTES {
            return Ok(());
        }
        let reason = format!("frames of {} bytes; expected {FRAME_BYTES}", self.frame_bytes);
        Err(TraceError::Header(reason))
    }
}

/// The kinds of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum BlockKind {
    Frames = 2,
    Names = 3,
    Order = 4,
    Summary = 5,
    Index = 6,
    Symbols = 7,
    References = 8,
}

impl BlockKind {
    fn from_code(code: u8) -> Option<BlockKind> {
        use BlockKind::*;
        [References, Frames, Names, Order, Summary, Index, Symbols].into_iter().find(|k| *k as u8 == code)
    }
}

/// A block header without its checksum: also the entry of the index, with the offset in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockHeader {
    pub kind: BlockKind,
    /// Bytes behind the header.
    pub stored: u32,
    /// Bytes when decompressed (both parts of a references block).
    pub raw: u32,
    pub a: u32,
    pub b: u32,
    pub c: u64,
    pub d: u64,
}

impl BlockHeader {
    pub(super) fn encode(&self) -> [u8; 40] {
        let mut bytes = [0; 40];
        bytes[..4].copy_from_slice(&BLOCK_MAGIC);
        bytes[4] = self.kind as u8;
        bytes[8..12].copy_from_slice(&self.stored.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.raw.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.a.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.b.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.c.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.d.to_le_bytes());
        bytes
    }

    /// `None` if these bytes are no block header.
    pub(super) fn decode(bytes: &[u8]) -> Option<BlockHeader> {
        if bytes.get(..4)? != BLOCK_MAGIC {
            return None;
        }
        Some(BlockHeader {
            kind: BlockKind::from_code(*bytes.get(4)?)?,
            stored: read_u32(bytes, 8)?,
            raw: read_u32(bytes, 12)?,
            a: read_u32(bytes, 16)?,
            b: read_u32(bytes, 20)?,
            c: read_u64(bytes, 24)?,
            d: read_u64(bytes, 32)?,
        })
    }

    /// Bytes of the whole block in the file.
    pub(super) fn length(&self) -> u64 {
        BLOCK_HEADER as u64 + u64::from(self.stored)
    }
}

/// A block as the index knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Placed {
    pub offset: u64,
    pub header: BlockHeader,
}

pub(super) fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

pub(super) fn read_u64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

fn checksum(header: &[u8; 40], stored: &[u8]) -> u64 {
    let mut hash = Xxh3::new();
    hash.update(header);
    hash.update(stored);
    hash.digest()
}

/// Writes blocks one after the other and keeps the index. After an error it writes no more.
pub(super) struct BlockSink<W> {
    out: W,
    offset: u64,
    index: Vec<Placed>,
    compressor: zstd::bulk::Compressor<'static>,
    /// Scratch: what was compressed last; the parts of a block.
    compressed: Vec<u8>,
    parts: Vec<u8>,
    failed: bool,
}

impl<W: Write> BlockSink<W> {
    /// Continues a file that has `offset` bytes and these blocks.
    pub(super) fn new(out: W, offset: u64, index: Vec<Placed>) -> std::io::Result<Self> {
        let compressor = zstd::bulk::Compressor::new(LEVEL)?;
        Ok(BlockSink {
            out,
            offset,
            index,
            compressor,
            compressed: Vec::new(),
            parts: Vec::new(),
            failed: false,
        })
    }

    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// The bytes as a zstd frame.
    pub(super) fn compress(&mut self, raw: &[u8]) -> std::io::Result<&[u8]> {
        self.compressed.clear();
        self.compressed.reserve(zstd::zstd_safe::compress_bound(raw.len()));
        self.compressor.compress_to_buffer(raw, &mut self.compressed)?;
        Ok(&self.compressed)
    }

    /// Writes a block whose raw bytes are one zstd frame. `header.stored` and `header.raw` are filled in here.
    pub(super) fn put(&mut self, header: BlockHeader, raw: &[u8]) -> std::io::Result<()> {
        let stored = self.compress(raw)?.to_vec();
        self.put_stored(BlockHeader { raw: raw.len() as u32, ..header }, &stored)
    }

    /// Writes a references block of these two parts. `header.stored` and `header.raw` are filled in here.
    pub(super) fn put_parts(
        &mut self,
        header: BlockHeader,
        steps: &[u8],
        values: &[u8],
    ) -> std::io::Result<()> {
        // Kept, since new memory for each costs as much as the compression.
        let mut stored = std::mem::take(&mut self.parts);
        stored.clear();
        stored.resize(8, 0);
        stored.extend_from_slice(self.compress(steps)?);
        let first = (stored.len() - 8) as u32;
        stored[..4].copy_from_slice(&first.to_le_bytes());
        stored[4..8].copy_from_slice(&(steps.len() as u32).to_le_bytes());
        stored.extend_from_slice(self.compress(values)?);
        let raw = (steps.len() + values.len()) as u32;
        let written = self.put_stored(BlockHeader { raw, ..header }, &stored);
        self.parts = stored;
        written
    }

    /// Writes a block whose stored bytes are ready, and passes it on to the file: who kills the writer loses no block.
    pub(super) fn put_stored(&mut self, header: BlockHeader, stored: &[u8]) -> std::io::Result<()> {
        let header = BlockHeader { stored: stored.len() as u32, ..header };
        let head = header.encode();
        let sum = checksum(&head, stored).to_le_bytes();
        let placed = Placed { offset: self.offset, header };
        self.put_bytes(&head)?;
        self.put_bytes(&sum)?;
        self.put_bytes(stored)?;
        self.flush()?;
        self.index.push(placed);
        Ok(())
    }

    pub(super) fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush().inspect_err(|_| self.failed = true)
    }

    /// Writes the bytes of a block of another file as they are.
    pub(super) fn copy_block(&mut self, header: BlockHeader, bytes: &[u8]) -> std::io::Result<()> {
        let placed = Placed { offset: self.offset, header };
        self.put_bytes(bytes)?;
        self.index.push(placed);
        Ok(())
    }

    pub(super) fn put_bytes(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        if self.failed {
            return Err(std::io::Error::other("an earlier write failed; the trace ends there"));
        }
        self.out.write_all(bytes).inspect_err(|_| self.failed = true)?;
        self.offset += bytes.len() as u64;
        Ok(())
    }

    /// Writes index and trailer.
    pub(super) fn finish(mut self) -> std::io::Result<W> {
        let offset = self.offset;
        let mut raw = Vec::with_capacity(self.index.len() * 48);
        for placed in &self.index {
            raw.extend(placed.offset.to_le_bytes());
            raw.extend(placed.header.encode());
        }
        let entries = self.index.len() as u32;
        self.put(
            BlockHeader { kind: BlockKind::Index, stored: 0, raw: 0, a: entries, b: 0, c: 0, d: 0 },
            &raw,
        )?;
        self.put_bytes(&offset.to_le_bytes())?;
        self.put_bytes(&TRAILER_MAGIC)?;
        self.out.flush()?;
        Ok(self.out)
    }
}

/// The zstd level: the fastest of the regular ones, since the recorder compresses while the program runs.
const LEVEL: i32 = 1;

/// The stored bytes of the block at `offset`, if it lies in the file and its checksum is right.
pub(super) fn stored(bytes: &[u8], offset: u64) -> Result<(BlockHeader, &[u8]), String> {
    let at = usize::try_from(offset).map_err(|_| "beyond the end of the file".to_owned())?;
    let head = bytes.get(at..at.saturating_add(BLOCK_HEADER)).ok_or("the file ends in a block header")?;
    let header = BlockHeader::decode(head).ok_or("no block header")?;
    let start = at + BLOCK_HEADER;
    let stored = bytes.get(start..start + header.stored as usize).ok_or("the file ends in a block")?;
    let mut head_bytes = [0; 40];
    head_bytes.copy_from_slice(&head[..40]);
    if read_u64(head, 40) != Some(checksum(&head_bytes, stored)) {
        return Err("wrong checksum".to_owned());
    }
    Ok((header, stored))
}

/// Decompresses one zstd frame that must give exactly `raw` bytes.
pub(super) fn decompress(frame: &[u8], raw: usize) -> Result<Vec<u8>, String> {
    if raw > MAX_RAW {
        return Err(format!("a block of {raw} bytes when decompressed; the most is {MAX_RAW}"));
    }
    let bytes = zstd::bulk::decompress(frame, raw).map_err(|e| format!("decompression: {e}"))?;
    if bytes.len() != raw {
        return Err(format!("decompressed to {} bytes; expected {raw}", bytes.len()));
    }
    Ok(bytes)
}

/// The index block at the place that the trailer names, if there is an undamaged one.
pub(super) fn read_index(bytes: &[u8]) -> Option<(u64, Vec<Placed>)> {
    let trailer = bytes.len().checked_sub(TRAILER)?;
    if bytes[trailer + 8..] != TRAILER_MAGIC {
        return None;
    }
    let offset = read_u64(bytes, trailer)?;
    let (header, stored) = stored(bytes, offset).ok()?;
    if header.kind != BlockKind::Index || header.a as usize * 48 != header.raw as usize {
        return None;
    }
    let raw = decompress(stored, header.raw as usize).ok()?;
    let entries = raw
        .chunks_exact(48)
        .map(|entry| Some(Placed { offset: read_u64(entry, 0)?, header: BlockHeader::decode(&entry[8..])? }));
    Some((offset, entries.collect::<Option<Vec<_>>>()?))
}
