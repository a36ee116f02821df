//! The runs of all pages: for each page the one in progress and the packed ones, in memory up to a budget; older parts go
//! to a spill file beyond it.

use super::run::{By, OpenRun};
use super::{PageRun, SpillError};
use crate::ids::{Page, Time};
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
    /// A page without references.
    const NONE: PageState = PageState { run: OpenRun::NONE, packed: Vec::new() };

    /// Ends the run in progress and begins the next. `leads`: see [`Store::new`].
    #[inline]
    fn begin(&mut self, by: By, time: Time, write: bool, leads: bool, finished: &mut Finished) {
        self.end(time, finished);
        self.run = OpenRun::begin(by, time, write);
        if leads && self.packed.len() == 1 {
            self.run.lead();
        }
    }

    /// Ends the run in progress; the next one begins at `next`.
    #[inline]
    fn end(&mut self, next: Time, finished: &mut Finished) {
        match self.run.finished() {
            Some(run) => {
                run.pack(next.0 - run.last.0, &mut self.packed);
                finished.add(&run);
            }
            None => self.packed.push(next.0),
        }
    }

    /// Adds what a store that continues this one has of the page. `finished` counts the runs of both.
    fn append(&mut self, later: &PageState, read_gap: u32, finished: &mut Finished) {
        let mut open = later.run;
        open.follow();
        // The first run may go on with what is here, and the one after it with that; then all is as it is.
        let mut ended = false;
        let mut goes_on = |this: &mut Self, run: &PageRun, finished: &mut Finished| {
            let joined = this.run.join(run, read_gap);
            let take = joined || !ended;
            if take && !joined {
                ended = true;
                this.end(run.first, finished);
                this.run = OpenRun::of(run);
            }
            take
        };
        let (mut at, mut first) = (1, Time(later.packed[0]));
        while let Some((run, used, gap)) = PageRun::unpack(&later.packed[at..], first) {
            if !goes_on(self, &run, finished) {
                break;
            }
            finished.remove(&run);
            (at, first) = (at + used, Time(run.last.0 + gap));
        }
        let only_open = at == later.packed.len();
        if only_open && open.finished().is_none_or(|run| goes_on(self, &run, finished)) {
            return;
        }
        self.end(first, finished);
        self.packed.extend_from_slice(&later.packed[at..]);
        self.run = open;
    }
}

impl Finished {
    #[inline]
    fn add(&mut self, run: &PageRun) {
        self.runs += 1;
        self.reads += run.reads();
    }

    fn remove(&mut self, run: &PageRun) {
        self.runs -= 1;
        self.reads -= run.reads();
    }
}

/// The runs in progress of a store.
pub(super) struct Open<'a> {
    pages: &'a mut [PageState],
    read_gap: u32,
}

impl Open<'_> {
    /// Adds a reference to the run in progress of a page; false, and nothing done, if it belongs to another run or there is no
    /// such page.
    #[inline(always)]
    pub(super) fn extend(&mut self, page: u32, by: By, time: Time, write: bool) -> bool {
        let state = self.pages.get_mut(page as usize);
        state.is_some_and(|state| state.run.extend(by, time, write, self.read_gap))
    }
}

/// See the module.
pub(super) struct Store {
    pages: Vec<PageState>,
    read_gap: u32,
    leads: bool,
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
    /// An empty store that spills once it holds more than `budget` bytes, if it has somewhere to spill to. `leads`: it
    /// continues another one, and so knows only later to which run its first references of a page belong.
    pub(super) fn new(read_gap: u32, budget: u64, spill: Option<Box<dyn Spill>>, leads: bool) -> Store {
        Store {
            pages: Vec::new(),
            read_gap,
            leads,
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
        self.pages.resize(self.pages.len() + count, PageState::NONE);
    }

    /// Number of pages.
    pub(super) fn pages(&self) -> usize {
        self.pages.len()
    }

    /// The runs in progress.
    #[inline]
    pub(super) fn open(&mut self) -> Open<'_> {
        Open { pages: &mut self.pages, read_gap: self.read_gap }
    }

    /// Adds a reference to a page.
    #[inline]
    pub(super) fn reference(&mut self, page: u32, by: By, time: Time, write: bool) {
        let state = &mut self.pages[page as usize];
        if !state.run.extend(by, time, write, self.read_gap) {
            state.begin(by, time, write, self.leads, &mut self.finished);
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

    /// Adds what a store that continues this one has of the page `page` there.
    pub(super) fn append(&mut self, page: u32, later: &mut Store, there: usize) {
        let state = std::mem::replace(&mut later.pages[there], PageState::NONE);
        self.pages[page as usize].append(&state, self.read_gap, &mut self.finished);
    }

    /// Adds what was counted in a store whose pages come next.
    pub(super) fn add_counts(&mut self, later: &Store) {
        self.finished.runs += later.finished.runs;
        self.finished.reads += later.finished.reads;
    }

    /// Whether the budget is reached. Cheap to call often.
    #[inline]
    pub(super) fn is_full(&mut self) -> bool {
        // A run takes six words at most, so the budget cannot be reached sooner than this.
        if (self.runs() - self.runs_at_check) * 48 < self.budget / 8 {
            return false;
        }
        self.runs_at_check = self.runs();
        self.bytes().0 > self.budget
    }

    /// Moves packed runs to the spill file if the budget is reached. Cheap to call often.
    #[inline]
    pub(super) fn spill_if_full(&mut self) -> Result<(), SpillError> {
        if self.spill.is_some() && self.is_full() {
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
