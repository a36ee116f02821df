//! The packed runs of all pages: one byte string a page in memory, older parts in a spill file once a budget is reached.

use super::{PageRun, SpillError};
use crate::ids::{Page, Time};
use std::borrow::Cow;
use std::io::{Read, Seek, SeekFrom, Write};
use std::sync::Mutex;

/// What a spill file can do; `std::fs::File` and `std::io::Cursor` can.
pub trait Spill: Read + Write + Seek + Send {}
impl<T: Read + Write + Seek + Send> Spill for T {}

/// A page whose tail is smaller than this stays in memory when the rest is spilled.
const SPILL_AT_LEAST: usize = 4096;

/// A part of a page's runs in the spill file.
#[derive(Clone, Copy, Debug)]
struct Segment {
    offset: u64,
    length: u32,
    /// The segment of the same page before this one, +1; 0 for none.
    previous_plus_1: u32,
}

#[derive(Clone, Debug, Default)]
struct PagePart {
    tail: Vec<u8>,
    /// End of the last packed run.
    last: Time,
    /// The page's newest segment, +1; 0 for none.
    newest_plus_1: u32,
}

/// See the module.
pub(super) struct Store {
    parts: Vec<PagePart>,
    segments: Vec<Segment>,
    spill: Option<Mutex<Box<dyn Spill>>>,
    budget: u64,
    in_memory: u64,
    spilled: u64,
    runs: u64,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Store({} pages, {} runs, {} bytes spilled)", self.parts.len(), self.runs, self.spilled)
    }
}

impl Store {
    /// An empty store that spills once it holds more than `budget` bytes, if it has somewhere to spill to.
    pub(super) fn new(budget: u64, spill: Option<Box<dyn Spill>>) -> Store {
        let spill = spill.map(Mutex::new);
        Store { parts: Vec::new(), segments: Vec::new(), spill, budget, in_memory: 0, spilled: 0, runs: 0 }
    }

    /// Appends a run to a page. Never fails: what cannot be spilled stays in memory until [`Store::spill_if_full`].
    #[inline]
    pub(super) fn push(&mut self, page: u32, run: &PageRun) {
        if page as usize >= self.parts.len() {
            self.parts.resize_with(page as usize + 1, PagePart::default);
        }
        let part = &mut self.parts[page as usize];
        let before = part.tail.len();
        run.pack(part.last, &mut part.tail);
        part.last = run.last;
        self.in_memory += (part.tail.len() - before) as u64;
        self.runs += 1;
    }

    /// Moves what it can to the spill file if the budget is reached.
    pub(super) fn spill_if_full(&mut self) -> Result<(), SpillError> {
        let Some(spill) = self.spill.as_mut().filter(|_| self.in_memory > self.budget) else { return Ok(()) };
        let spill = spill.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut out = std::io::BufWriter::with_capacity(1 << 20, spill);
        let mut at = out.seek(SeekFrom::End(0)).map_err(|source| SpillError { action: "write", source })?;
        let least = SPILL_AT_LEAST.min(self.budget as usize / self.parts.len().max(1));
        for part in self.parts.iter_mut().filter(|part| part.tail.len() > least) {
            out.write_all(&part.tail).map_err(|source| SpillError { action: "write", source })?;
            let length = part.tail.len() as u32;
            self.segments.push(Segment { offset: at, length, previous_plus_1: part.newest_plus_1 });
            part.newest_plus_1 = self.segments.len() as u32;
            at += u64::from(length);
            self.in_memory -= u64::from(length);
            self.spilled += u64::from(length);
            part.tail = Vec::new();
        }
        out.flush().map_err(|source| SpillError { action: "write", source })
    }

    /// Number of runs.
    pub(super) fn runs(&self) -> u64 {
        self.runs
    }

    /// Packed bytes (in memory, spilled).
    pub(super) fn bytes(&self) -> (u64, u64) {
        (self.in_memory, self.spilled)
    }

    /// The runs of a page.
    pub(super) fn page(&self, page: Page) -> Result<Runs<'_>, SpillError> {
        let Some(part) = self.parts.get(page.index()) else { return Ok(Runs::new(Cow::Borrowed(&[]))) };
        if part.newest_plus_1 == 0 {
            return Ok(Runs::new(Cow::Borrowed(&part.tail)));
        }
        let mut chain = Vec::new();
        let mut next = part.newest_plus_1;
        while let Some(segment) = next.checked_sub(1).map(|i| self.segments[i as usize]) {
            chain.push(segment);
            next = segment.previous_plus_1;
        }
        let mut bytes = Vec::new();
        let spill = self.spill.as_ref().expect("a segment is only made in a spill file");
        let mut spill = spill.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        for segment in chain.iter().rev() {
            let start = bytes.len();
            bytes.resize(start + segment.length as usize, 0);
            spill
                .seek(SeekFrom::Start(segment.offset))
                .and_then(|_| spill.read_exact(&mut bytes[start..]))
                .map_err(|source| SpillError { action: "read back", source })?;
        }
        bytes.extend_from_slice(&part.tail);
        Ok(Runs::new(Cow::Owned(bytes)))
    }
}

/// The runs of one page, in Time order.
#[derive(Clone, Debug)]
pub struct Runs<'a> {
    bytes: Cow<'a, [u8]>,
    at: usize,
    previous: Time,
}

impl<'a> Runs<'a> {
    fn new(bytes: Cow<'a, [u8]>) -> Runs<'a> {
        Runs { bytes, at: 0, previous: Time(0) }
    }
}

impl Iterator for Runs<'_> {
    type Item = PageRun;

    #[inline]
    fn next(&mut self) -> Option<PageRun> {
        let all = &self.bytes[self.at..];
        let mut rest = all;
        let run = PageRun::unpack(&mut rest, self.previous)?;
        self.at += all.len() - rest.len();
        self.previous = run.last;
        Some(run)
    }
}
