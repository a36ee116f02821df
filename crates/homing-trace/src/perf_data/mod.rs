//! Files of `perf record`, `perf mem record` and `perf c2c record`: what was sampled, and what the file says of the
//! processes and of the machine.
//!
//! Bytes in, records out: [`read`] hands on each record with its time, in the order of the file, which is not that of
//! time where several CPUs wrote. It takes files and what perf writes to a pipe, compressed or not, of machines whose
//! bytes have the order of this one (little-endian). What it cannot use is counted ([`Counts`]).
//!
//! The format: tools/perf/Documentation/perf.data-file-format.txt and include/uapi/linux/perf_event.h of Linux.

mod bytes;
mod compressed;
mod event;
mod facts;
mod record;
mod sample;

pub use event::Event;
pub use facts::{Facts, FileNode, Memory};
pub use record::{Mapped, Record};
pub use sample::Sample;

use bytes::Bytes;
use compressed::Unpacked;
use event::Events;
use record::kind;

/// What a file begins with.
const MAGIC: &[u8; 8] = b"PERFILE2";
const SWAPPED: &[u8; 8] = b"2ELIFREP";
const OLD: &[u8; 8] = b"PERFFILE";

/// The header of what was written to a pipe: magic and size alone.
const PIPE_HEADER: u64 = 16;
/// Features that a header has room for.
const FEATURES: u32 = 256;
/// `PERF_EVENT_UPDATE__NAME`.
const UPDATE_NAME: u64 = 2;

/// Addresses from here on are the kernel's.
pub const KERNEL: u64 = 1 << 63;

/// Whether a file begins as perf's do, of any version and byte order.
pub fn looks_so(start: &[u8]) -> bool {
    [MAGIC, SWAPPED, OLD].iter().any(|magic| start.starts_with(*magic))
}

/// Why a file cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PerfDataError {
    /// It is something else.
    #[error("not a perf.data file: expected one that begins with `PERFILE2`")]
    Magic,
    /// Its bytes are in the other order.
    #[error("recorded on a machine of the other byte order (big-endian): expected a little-endian one")]
    Swapped,
    /// It is of the first version of the format.
    #[error("of the old format `PERFFILE`, before Linux 3.7: record it again with a newer perf")]
    Old,
    /// It ends within its header.
    #[error("cut within its header: expected {expected} bytes, found {found}")]
    Cut {
        /// Bytes there should be.
        expected: u64,
        /// Bytes there are.
        found: u64,
    },
    /// No event is described in it.
    #[error("no event is described in it: it is damaged, or perf was killed before it wrote anything")]
    NoEvents,
}

/// What was found besides the records that were handed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Samples that were handed on.
    pub samples: u64,
    /// Records that make no sense, or of an event that the file does not describe.
    pub malformed: u64,
    /// Records that the kernel lost, a ring being full.
    pub lost: u64,
    /// Samples that were lost.
    pub lost_samples: u64,
    /// Times that the kernel throttled an event.
    pub throttled: u64,
    /// Bytes of traces of the processor (Arm SPE, Intel PT) that perf has not decoded.
    pub undecoded: u64,
    /// The file ends before its data do, or was never finished.
    pub cut: bool,
}

/// What the processor wrote by itself (`PERF_AUXTRACE_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traced {
    /// Arm's statistical profiling extension.
    Spe,
    /// Another, by its number.
    Other(u32),
}

/// A file that was read.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    /// What it says of the machine.
    pub facts: Facts,
    /// Its events; [`Sample::event`] is a place in them.
    pub events: Vec<Event>,
    /// What was counted.
    pub counts: Counts,
    /// What traces of the processor are in it.
    pub traced: Option<Traced>,
}

/// Reads a file, and hands each record to `take` with its time, if it has one.
///
/// # Errors
/// If it is no such file. Damage further on is counted.
pub fn read(
    file: &[u8],
    mut take: impl FnMut(Option<u64>, Record),
) -> std::result::Result<Contents, PerfDataError> {
    let mut at = Bytes(file);
    match at.take(8) {
        Some(magic) if magic == MAGIC => {}
        Some(magic) if magic == SWAPPED => return Err(PerfDataError::Swapped),
        Some(magic) if magic == OLD => return Err(PerfDataError::Old),
        _ => return Err(PerfDataError::Magic),
    }
    let short = |expected: u64| PerfDataError::Cut { expected, found: file.len() as u64 };
    let size = at.u64().ok_or(short(PIPE_HEADER))?;
    let mut reader = Reader::default();
    let data = match size {
        PIPE_HEADER => at.0,
        _ => reader.header(file, at).ok_or(short(size.max(104)))?,
    };
    let whole = reader.records(data, &mut take, &mut Unpack::default());
    reader.contents.counts.cut |= !whole;
    reader.contents.events = reader.events.all;
    match reader.contents.events.is_empty() {
        true => Err(PerfDataError::NoEvents),
        false => Ok(reader.contents),
    }
}

/// What is needed while a file is read.
#[derive(Default)]
struct Reader {
    contents: Contents,
    events: Events,
}

/// Compressed records, once there are any.
#[derive(Default)]
struct Unpack {
    unpacked: Option<Unpacked>,
    broken: bool,
}

/// A part of a file, as far as it is there.
fn section(file: &[u8], offset: u64, size: u64) -> (&[u8], bool) {
    let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(file.len());
    let (start, end) = (place(offset), place(offset.saturating_add(size)));
    (&file[start..end], (end - start) as u64 == size)
}

impl Reader {
    /// Reads the header of a file (no pipe) behind magic and size; what is left is the part with the records.
    fn header<'a>(&mut self, file: &'a [u8], mut at: Bytes<'a>) -> Option<&'a [u8]> {
        let attr_size = at.u64()?;
        let [attrs, data, _types] = [at.pair64()?, at.pair64()?, at.pair64()?];
        let features: [u64; 4] = [at.u64()?, at.u64()?, at.u64()?, at.u64()?];
        let (attrs, mut whole) = section(file, attrs.0, attrs.1);
        // Each is followed by the place of its identifiers.
        if let Some(size) = usize::try_from(attr_size).ok().filter(|&size| size > 16) {
            for attr in attrs.chunks_exact(size) {
                let (attr, ids) = attr.split_at(size - 16);
                let mut ids = Bytes(ids);
                let (ids, there) = section(file, ids.u64()?, ids.u64()?);
                whole &= there;
                if let Some(event) = Event::parse(attr) {
                    self.events.add(event, Bytes(ids));
                }
            }
        }
        // Who was killed has not said how long the data are, nor written features behind them.
        let (records, there) = match data.1 {
            0 => (section(file, data.0, u64::MAX).0, false),
            size => section(file, data.0, size),
        };
        whole &= there;
        let mut places = Bytes(section(file, data.0.saturating_add(data.1), u64::MAX).0);
        let set = |bit: &u32| features[(*bit / 64) as usize] >> (*bit % 64) & 1 == 1;
        for bit in (0..FEATURES).filter(set) {
            let Some((offset, size)) = places.pair64().filter(|_| data.1 > 0) else {
                whole = false;
                break;
            };
            let (section, there) = section(file, offset, size);
            whole &= there;
            self.contents.facts.feature(bit, section, &mut self.events);
        }
        self.contents.counts.cut |= !whole;
        Some(records)
    }

    /// Reads all records; false if they end within one.
    fn records(
        &mut self,
        data: &[u8],
        take: &mut dyn FnMut(Option<u64>, Record),
        unpack: &mut Unpack,
    ) -> bool {
        self.some(data, take, unpack) == data.len() && !unpack.unfinished()
    }

    /// Reads the records that are there as a whole; how many bytes they have.
    fn some(&mut self, data: &[u8], take: &mut dyn FnMut(Option<u64>, Record), unpack: &mut Unpack) -> usize {
        let mut at = Bytes(data);
        loop {
            let taken = data.len() - at.0.len();
            let mut next = at;
            let header = (next.u32(), next.u16(), next.u16());
            let (Some(kind), Some(misc), Some(size)) = header else { return taken };
            let Some(body) = u64::from(size).checked_sub(8).and_then(|size| next.take(size)) else {
                return taken;
            };
            match kind {
                kind::AUXTRACE => {
                    let bytes = Bytes(body).u64().unwrap_or_default();
                    self.contents.counts.undecoded = self.contents.counts.undecoded.saturating_add(bytes);
                    if next.skip(bytes).is_none() {
                        return taken;
                    }
                }
                kind::COMPRESSED | kind::COMPRESSED2 => self.unpack(kind, body, take, unpack),
                _ => self.record(kind, misc, &data[taken..data.len() - next.0.len()], take),
            }
            at = next;
        }
    }

    /// Reads compressed records.
    fn unpack(
        &mut self,
        kind: u32,
        mut body: &[u8],
        take: &mut dyn FnMut(Option<u64>, Record),
        unpack: &mut Unpack,
    ) {
        if kind == kind::COMPRESSED2 {
            let mut at = Bytes(body);
            let size = at.u64().unwrap_or_default();
            body = at.take(size).unwrap_or(at.0);
        }
        if unpack.broken {
            self.contents.counts.malformed += 1;
            return;
        }
        if unpack.unpacked.is_none() {
            unpack.unpacked = Unpacked::new();
        }
        let Some(unpacked) = &mut unpack.unpacked else { return };
        let mut flat = Unpack { unpacked: None, broken: true };
        let mut stuck = false;
        let whole = unpacked.add(body, |bytes| {
            let taken = self.some(bytes, take, &mut flat);
            // No record is longer than this: what is not taken by now never will be.
            stuck |= bytes.len() - taken > usize::from(u16::MAX);
            if stuck {
                bytes.len()
            } else {
                taken
            }
        });
        if whole.is_none() || stuck {
            unpack.broken = true;
            self.contents.counts.malformed += 1;
        }
    }

    /// Takes one record, header and all.
    fn record(&mut self, kind: u32, misc: u16, record: &[u8], take: &mut dyn FnMut(Option<u64>, Record)) {
        let body = &record[8..];
        let mut at = Bytes(body);
        let counts = &mut self.contents.counts;
        match kind {
            kind::SAMPLE => {
                let number = self.events.of_sample(at);
                let event = number.and_then(|number| Some((number, self.events.all.get(number)?)));
                match event.and_then(|(number, event)| Sample::decode(at, number, event)) {
                    Some(sample) => {
                        counts.samples += 1;
                        take(sample.time, Record::Sample(sample));
                    }
                    None => counts.malformed += 1,
                }
            }
            kind::MMAP | kind::MMAP2 | kind::COMM | kind::FORK => {
                if let Some(record) = record::process(kind, misc, body) {
                    take(self.events.time(body), record);
                }
            }
            kind::LOST => {
                let lost = at.skip(8).and_then(|()| at.u64()).unwrap_or_default();
                counts.lost = counts.lost.saturating_add(lost);
            }
            kind::LOST_SAMPLES => {
                counts.lost_samples = counts.lost_samples.saturating_add(at.u64().unwrap_or_default());
            }
            kind::THROTTLE => counts.throttled += 1,
            kind::AUXTRACE_INFO => {
                self.contents.traced = at.u32().map(|kind| match kind {
                    4 => Traced::Spe,
                    other => Traced::Other(other),
                });
            }
            kind::HEADER_ATTR => {
                let size = body.get(4..8).map_or(0, |size| Bytes(size).u32().unwrap_or_default());
                let attr = at.take(size.into());
                match attr.and_then(Event::parse) {
                    Some(event) => self.events.add(event, at),
                    None => counts.malformed += 1,
                }
            }
            kind::EVENT_UPDATE => {
                if let (Some(UPDATE_NAME), Some(id)) = (at.u64(), at.u64()) {
                    self.events.name(Some(id), None, bytes::text(at.0));
                }
            }
            kind::HEADER_FEATURE => {
                if let Some(number) = at.u64().and_then(|number| u32::try_from(number).ok()) {
                    self.contents.facts.feature(number, at.0, &mut self.events);
                }
            }
            kind::HEADER_BUILD_ID => self.contents.facts.build_id(record),
            _ => {}
        }
    }
}

impl Unpack {
    /// What was decompressed ends within a record, or could not be decompressed.
    fn unfinished(&self) -> bool {
        self.broken || self.unpacked.as_ref().is_some_and(|unpacked| !unpacked.pending.is_empty())
    }
}
