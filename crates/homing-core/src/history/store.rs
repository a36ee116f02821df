//! The finished runs of all pages, packed, in memory up to a budget; older parts go to a spill file beyond it.

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

/// The Time of a page's first reference, then its packed runs.
type Packed = Vec<u64>;

/// What finished runs add up to.
#[derive(Clone, Copy, Debug, Default)]
struct Finished {
    runs: u64,
    reads: u64,
}

/// Ends the run in progress of a page; the next one begins at `next`.
#[inline]
fn end(run: &OpenRun, next: Time, packed: &mut Packed, finished: &mut Finished) {
    match run.finished() {
        Some(run) => {
            run.pack(next.0 - run.last.0, packed);
            finished.add(&run);
        }
        None => packed.push(next.0),
    }
}

/// Adds to a page what a store that continues this one has of it: packed runs and the one in progress. `finished`
/// counts the runs of both.
fn append(
    (packed, run): (&mut Packed, &mut OpenRun),
    (later, mut open): (&Packed, OpenRun),
    read_gap: u32,
    finished: &mut Finished,
) {
    open.follow();
    // The first run may go on with what is here, and the one after it with that; then all is as it is.
    let mut ended = false;
    let mut goes_on = |packed: &mut Packed, run: &mut OpenRun, next: &PageRun, finished: &mut Finished| {
        let joined = run.join(next, read_gap);
        let take = joined || !ended;
        if take && !joined {
            ended = true;
            end(run, next.first, packed, finished);
            *run = OpenRun::of(next);
        }
        take
    };
    let (mut at, mut first) = (1, Time(later[0]));
    while let Some((next, used, gap)) = PageRun::unpack(&later[at..], first) {
        if !goes_on(packed, run, &next, finished) {
            break;
        }
        finished.remove(&next);
        (at, first) = (at + used, Time(next.last.0 + gap));
    }
    let only_open = at == later.len();
    if only_open && open.finished().is_none_or(|next| goes_on(packed, run, &next, finished)) {
        return;
    }
    end(run, first, packed, finished);
    packed.extend_from_slice(&later[at..]);
    *run = open;
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

/// See the module.
pub(super) struct Store {
    pages: Vec<Packed>,
    pub(super) read_gap: u32,
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

    /// Adds a page without runs.
    pub(super) fn add_page(&mut self) {
        self.pages.push(Vec::new());
    }

    /// Number of pages.
    pub(super) fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Ends the run in progress of a page and begins the next with a reference.
    #[inline]
    pub(super) fn begin(&mut self, page: u32, run: &mut OpenRun, by: By, time: Time, write: bool) {
        let packed = &mut self.pages[page as usize];
        end(run, time, packed, &mut self.finished);
        *run = OpenRun::begin(by, time, write);
        if self.leads && packed.len() == 1 {
            run.lead();
        }
    }

    /// Ends the last run of a page.
    pub(super) fn close(&mut self, page: u32, run: &OpenRun) {
        if let Some(run) = run.finished() {
            run.pack(0, &mut self.pages[page as usize]);
            self.finished.add(&run);
        }
    }

    /// Adds what a store that continues this one has of the page `there` to the page `page` here; each with its run in
    /// progress.
    pub(super) fn append(
        &mut self,
        page: u32,
        run: &mut OpenRun,
        later: &mut Store,
        there: usize,
        open: OpenRun,
    ) {
        let later = std::mem::take(&mut later.pages[there]);
        append((&mut self.pages[page as usize], run), (&later, open), self.read_gap, &mut self.finished);
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
        for (packed, newest) in self.pages.iter_mut().zip(&mut self.newest_plus_1) {
            if packed.len() <= least {
                continue;
            }
            for word in &*packed {
                out.write_all(&word.to_le_bytes())?;
            }
            let words = packed.len() as u32;
            self.segments.push(Segment { offset: at, words, previous_plus_1: *newest });
            *newest = self.segments.len() as u32;
            at += u64::from(words) * 8;
            self.spilled += u64::from(words) * 8;
            *packed = Vec::new();
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
        (self.pages.iter().map(|packed| packed.capacity() as u64 * 8).sum(), self.spilled)
    }

    /// The runs of a page.
    pub(super) fn page(&self, page: Page) -> Result<Runs<'_>, SpillError> {
        let Some(packed) = self.pages.get(page.index()) else { return Ok(Runs::new(Cow::Borrowed(&[]))) };
        let newest = self.newest_plus_1.get(page.index()).copied().unwrap_or(0);
        if newest == 0 {
            return Ok(Runs::new(Cow::Borrowed(packed)));
        }
        let words = self.read_back(newest, packed);
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
