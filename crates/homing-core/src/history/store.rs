//! The runs of all pages: for each page the one in progress and the packed ones, in memory up to a budget; older parts go
//! to a spill file beyond it.

use super::run::OpenRun;
use super::{PageRun, SpillError};
use crate::ids::{Node, Page, Time};
use std::borrow::Cow;
use std::io::{Read, Seek, SeekFrom, Write};
use std::sync::Mutex;

/// What a spill file can do; `std::fs::File` and `std::io::Cursor` can.
pub trait Spill: Read + Write + Seek + Send {}
impl<T: Read + Write + Seek + Send> Spill for T {}

/// Pages that hold fewer packed words stay in memory when the rest is spilled.
const SPILL_AT_LEAST: usize = 512;

/// A part of a page's packed words in the spill file.
#[derive(Clone, Copy, Debug)]
struct Segment {
    /// In bytes.
    offset: u64,
    words: u32,
    /// The segment of the same page before this one, +1; 0 for none.
    previous_plus_1: u32,
}

/// One page; a cache line, since a reference to a random page costs one miss for each line it needs.
#[repr(align(64))]
#[derive(Clone, Debug)]
struct PageState {
    run: OpenRun,
    /// The Time of the page's first reference, then its packed runs.
    packed: Vec<u64>,
}

/// What finished runs add up to.
#[derive(Clone, Copy, Debug, Default)]
struct Finished {
    runs: u64,
    reads: u64,
}

impl PageState {
    /// Ends the run in progress and begins the next.
    #[inline(never)]
    fn begin(&mut self, node: Node, time: Time, write: bool, finished: &mut Finished) {
        let before = std::mem::replace(&mut self.run, OpenRun::begin(node, time, write));
        match before.finished() {
            Some(run) => {
                run.pack(time.0 - run.last.0, &mut self.packed);
                finished.add(&run);
            }
            None => self.packed.push(time.0),
        }
    }
}

impl Finished {
    #[inline]
    fn add(&mut self, run: &PageRun) {
        self.runs += 1;
        self.reads += run.reads();
    }
}

/// A store that takes references.
pub(super) struct Open<'a> {
    pages: &'a mut [PageState],
    read_gap: u32,
    finished: Finished,
    total: &'a mut Finished,
}

impl Open<'_> {
    /// Adds a reference to a page.
    #[inline]
    pub(super) fn reference(&mut self, page: u32, node: Node, time: Time, write: bool) {
        let state = &mut self.pages[page as usize];
        if !state.run.extend(node, time, write, self.read_gap) {
            state.begin(node, time, write, &mut self.finished);
        }
    }

    /// Counts what was finished.
    pub(super) fn close(self) {
        self.total.runs += self.finished.runs;
        self.total.reads += self.finished.reads;
    }
}

/// See the module.
pub(super) struct Store {
    pages: Vec<PageState>,
    read_gap: u32,
    /// Newest segment of each page, +1; 0 for none. Empty until something is spilled.
    newest_plus_1: Vec<u32>,
    segments: Vec<Segment>,
    spill: Option<Mutex<Box<dyn Spill>>>,
    budget: u64,
    spilled: u64,
    finished: Finished,
    runs_at_check: u64,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Store({} pages, {} runs, {} bytes spilled)", self.pages.len(), self.runs(), self.spilled)
    }
}

impl Store {
    /// An empty store that spills once it holds more than `budget` bytes, if it has somewhere to spill to.
    pub(super) fn new(read_gap: u32, budget: u64, spill: Option<Box<dyn Spill>>) -> Store {
        Store {
            pages: Vec::new(),
            read_gap,
            newest_plus_1: Vec::new(),
            segments: Vec::new(),
            spill: spill.map(Mutex::new),
            budget,
            spilled: 0,
            finished: Finished::default(),
            runs_at_check: 0,
        }
    }

    /// Adds `count` pages without references.
    pub(super) fn add_pages(&mut self, count: usize) {
        let none = PageState { run: OpenRun::NONE, packed: Vec::new() };
        self.pages.resize(self.pages.len() + count, none);
    }

    /// Number of pages.
    pub(super) fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Takes references. [`Open::close`] it before asking for counts.
    #[inline]
    pub(super) fn open(&mut self) -> Open<'_> {
        Open {
            pages: &mut self.pages,
            read_gap: self.read_gap,
            finished: Finished::default(),
            total: &mut self.finished,
        }
    }

    /// Ends the runs in progress.
    pub(super) fn close(&mut self) {
        for state in &mut self.pages {
            if let Some(run) = std::mem::replace(&mut state.run, OpenRun::NONE).finished() {
                run.pack(0, &mut state.packed);
                self.finished.add(&run);
            }
        }
    }

    /// Moves packed runs to the spill file if the budget is reached. Cheap to call often.
    #[inline]
    pub(super) fn spill_if_full(&mut self) -> Result<(), SpillError> {
        // A run takes six words at most, so the budget cannot be reached sooner than this.
        if self.spill.is_none() || (self.runs() - self.runs_at_check) * 48 < self.budget / 8 {
            return Ok(());
        }
        self.runs_at_check = self.runs();
        if self.bytes().0 > self.budget {
            self.write_spill().map_err(|source| SpillError { action: "write", source })?;
        }
        Ok(())
    }

    #[cold]
    fn write_spill(&mut self) -> std::io::Result<()> {
        let Some(spill) = self.spill.as_mut() else { return Ok(()) };
        let spill = spill.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut out = std::io::BufWriter::with_capacity(1 << 20, spill);
        let mut at = out.seek(SeekFrom::End(0))?;
        self.newest_plus_1.resize(self.pages.len(), 0);
        let least = SPILL_AT_LEAST.min(self.budget as usize / 8 / self.pages.len().max(1));
        for (state, newest) in self.pages.iter_mut().zip(&mut self.newest_plus_1) {
            if state.packed.len() <= least {
                continue;
            }
            for word in &state.packed {
                out.write_all(&word.to_le_bytes())?;
            }
            let words = state.packed.len() as u32;
            self.segments.push(Segment { offset: at, words, previous_plus_1: *newest });
            *newest = self.segments.len() as u32;
            at += u64::from(words) * 8;
            self.spilled += u64::from(words) * 8;
            state.packed = Vec::new();
        }
        out.flush()
    }

    /// Number of finished runs.
    pub(super) fn runs(&self) -> u64 {
        self.finished.runs
    }

    /// Number of reads in finished runs.
    pub(super) fn reads(&self) -> u64 {
        self.finished.reads
    }

    /// Bytes of packed runs (in memory, spilled).
    pub(super) fn bytes(&self) -> (u64, u64) {
        (self.pages.iter().map(|state| state.packed.capacity() as u64 * 8).sum(), self.spilled)
    }

    /// The runs of a page.
    pub(super) fn page(&self, page: Page) -> Result<Runs<'_>, SpillError> {
        let Some(state) = self.pages.get(page.index()) else { return Ok(Runs::new(Cow::Borrowed(&[]))) };
        let newest = self.newest_plus_1.get(page.index()).copied().unwrap_or(0);
        if newest == 0 {
            return Ok(Runs::new(Cow::Borrowed(&state.packed)));
        }
        let words = self.read_back(newest, &state.packed);
        words
            .map(|words| Runs::new(Cow::Owned(words)))
            .map_err(|source| SpillError { action: "read back", source })
    }

    fn read_back(&self, newest: u32, tail: &[u64]) -> std::io::Result<Vec<u64>> {
        let mut chain = Vec::new();
        let mut next = newest;
        while let Some(segment) = next.checked_sub(1).map(|i| self.segments[i as usize]) {
            chain.push(segment);
            next = segment.previous_plus_1;
        }
        let mut words = Vec::new();
        let mut bytes = Vec::new();
        let spill = self.spill.as_ref().expect("a segment is only made in a spill file");
        let mut spill = spill.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        for segment in chain.iter().rev() {
            bytes.resize(segment.words as usize * 8, 0);
            spill.seek(SeekFrom::Start(segment.offset))?;
            spill.read_exact(&mut bytes)?;
            words.extend(bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)));
        }
        words.extend_from_slice(tail);
        Ok(words)
    }
}

/// The runs of one page, in Time order.
#[derive(Clone, Debug)]
pub struct Runs<'a> {
    words: Cow<'a, [u64]>,
    at: usize,
    first: Time,
}

impl<'a> Runs<'a> {
    fn new(words: Cow<'a, [u64]>) -> Runs<'a> {
        let first = Time(words.first().copied().unwrap_or(0));
        Runs { words, at: 1, first }
    }
}

impl Iterator for Runs<'_> {
    type Item = PageRun;

    #[inline]
    fn next(&mut self) -> Option<PageRun> {
        let (run, used, gap) = PageRun::unpack(self.words.get(self.at..)?, self.first)?;
        self.at += used;
        self.first = Time(run.last.0 + gap);
        Some(run)
    }
}
