//! From references to page runs.

use super::placed::Log;
use super::run::{By, OpenRun};
use super::store::{Spill, Store};
use super::{History, SpillError};
use crate::ids::{Node, PageSize, Time};
use crate::trace::{Event, Kind};
use std::collections::HashMap;

/// Base-2 logarithm of the bytes of a frame, the granule of dense addresses in a trace.
const FRAME_LOG2: u32 = 12;
/// A page number that is not given yet, and never will be: no page has it.
const NONE: u32 = u32::MAX;

/// How a history is built.
pub struct Options {
    /// Page size of the history, whatever the recorded machine's was.
    pub page_size: PageSize,
    /// See [`PageRun`](super::PageRun); `Costs::read_gap` gives the largest that is exact for a machine.
    pub read_gap: u32,
    /// Packed runs kept in memory, in bytes; beyond it they go to `spill`.
    pub budget: u64,
    /// Where runs go beyond the budget; without it they stay in memory.
    pub spill: Option<Box<dyn Spill>>,
}

impl Default for Options {
    fn default() -> Options {
        Options { page_size: PageSize::KIB4, read_gap: 2, budget: 8 << 30, spill: None }
    }
}

/// Which granules have their run in progress in one place: those of one page.
#[derive(Debug, Default)]
struct Places {
    /// The place of each granule, where pages are larger than frames.
    of: Vec<u32>,
    /// The places in it. A granule that is not in it has a place of its own behind them.
    shared: usize,
}

impl Places {
    fn of_frames(frames: &[u64], page_size: PageSize) -> Places {
        let mut births: HashMap<u64, u32> = HashMap::new();
        let mut places: HashMap<(u64, u32), u32> = HashMap::new();
        let place = |&address: &u64| {
            let birth = births.entry(address).or_insert(0);
            let base = address & !(page_size.bytes() - 1);
            let next = places.len() as u32;
            let place = *places.entry((base, *birth)).or_insert(next);
            *birth += 1;
            place
        };
        let of = frames.iter().map(place).collect();
        Places { of, shared: places.len() }
    }

    #[inline]
    fn of(&self, granule: usize) -> usize {
        match self.of.get(granule) {
            Some(&place) => place as usize,
            None => self.shared + granule - self.of.len(),
        }
    }

    /// Whether the place of each granule is its own number.
    #[inline]
    fn are_granules(&self) -> bool {
        self.of.is_empty()
    }
}

/// Takes references that follow one another in Time, with who makes them: a [`HistoryBuilder`], or one that somebody
/// counts beside.
pub trait References {
    /// References of one CPU, by its number among those in use, on `node`.
    ///
    /// # Errors
    /// If runs cannot be spilled.
    fn references(
        &mut self,
        cpu: u16,
        node: Node,
        first: Time,
        addresses: &[u64],
        kinds: &[Kind],
    ) -> Result<(), SpillError>;
}

impl References for HistoryBuilder {
    #[inline]
    fn references(
        &mut self,
        _cpu: u16,
        node: Node,
        first: Time,
        addresses: &[u64],
        kinds: &[Kind],
    ) -> Result<(), SpillError> {
        self.turn(node, first, addresses, kinds)
    }
}

/// Builds a [`History`]. Memory: 72 bytes a page for the run in progress and what else is known of it, and the packed
/// runs up to the budget.
pub struct HistoryBuilder {
    page_size: PageSize,
    granule_log2: u32,
    /// Where the run in progress of a granule (a frame, or a page where pages are smaller than frames) is.
    places: Places,
    /// The runs in progress, so that a reference finds its run by its address, and the page that has it.
    runs: Vec<OpenRun>,
    page_of: Vec<u32>,
    /// By page, until [`HistoryBuilder::finish`] knows the frames' virtual addresses: its granule of the first
    /// reference.
    addresses: Vec<u64>,
    /// By page: the Time of its first reference.
    firsts: Vec<Time>,
    placed: Log,
    pub(super) store: Store,
    references: u64,
    duration: u64,
}

impl HistoryBuilder {
    /// A builder without references.
    pub fn new(options: Options) -> HistoryBuilder {
        HistoryBuilder::with_store(options, false)
    }

    /// A builder for references that follow those of another one, which [appends](HistoryBuilder::append) it.
    pub fn continuing(options: Options) -> HistoryBuilder {
        HistoryBuilder::with_store(options, true)
    }

    fn with_store(options: Options, leads: bool) -> HistoryBuilder {
        HistoryBuilder {
            page_size: options.page_size,
            granule_log2: options.page_size.log2().min(FRAME_LOG2),
            places: Places::default(),
            runs: Vec::new(),
            page_of: Vec::new(),
            addresses: Vec::new(),
            firsts: Vec::new(),
            placed: Log::new(options.page_size),
            store: Store::new(options.read_gap, options.budget, options.spill, leads),
            references: 0,
            duration: 0,
        }
    }

    /// For pages larger than a frame: says which virtual addresses the frames of the trace have, in frame order. Call
    /// it before the first reference. Frames of one page whose address was never born before share the page's first
    /// number, those born again its second, and so on: a page whose mapping came back is a new page.
    pub fn group_frames(&mut self, frames: &[u64]) {
        if self.page_size.log2() > FRAME_LOG2 {
            self.places = Places::of_frames(frames, self.page_size);
        }
    }

    /// Adds one reference of a thread on `node`; `address` is dense.
    pub fn reference(&mut self, node: Node, time: Time, address: u64, write: bool) {
        self.add::<false>(self.granule_log2, node, time, &[address], &[Kind::new(1, write, false)]);
    }

    /// Adds references of one thread on `node` that follow one another in Time.
    #[inline]
    pub fn turn(
        &mut self,
        node: Node,
        first: Time,
        addresses: &[u64],
        kinds: &[Kind],
    ) -> Result<(), SpillError> {
        if self.granule_log2 == FRAME_LOG2 && self.places.are_granules() {
            // A constant shift, and nothing to look up.
            self.add::<true>(FRAME_LOG2, node, first, addresses, kinds);
        } else {
            self.add::<false>(self.granule_log2, node, first, addresses, kinds);
        }
        self.store.spill_if_full()
    }

    /// `DIRECT`: the place of each granule is its own number.
    #[inline(always)]
    fn add<const DIRECT: bool>(
        &mut self,
        granule_log2: u32,
        node: Node,
        first: Time,
        addresses: &[u64],
        kinds: &[Kind],
    ) {
        let mut at = 0;
        while at < addresses.len() {
            let time = Time(first.0 + at as u64);
            let by = By::new(node, time);
            let end = addresses.len().min(at + By::room(time) as usize);
            while at < end {
                let time = Time(first.0 + at as u64);
                at += self.extend::<DIRECT>(granule_log2, by, time, &addresses[at..end], &kinds[at..end]);
                if at < end {
                    let time = Time(first.0 + at as u64);
                    self.begin((addresses[at] >> granule_log2) as usize, by, time, kinds[at].is_write());
                    at += 1;
                }
            }
        }
        self.references += addresses.len() as u64;
        self.duration = first.0 + addresses.len() as u64;
    }

    /// Adds references up to the first one that begins a run; how many. A loop that calls nothing and so has all that
    /// it needs in registers.
    #[inline(always)]
    fn extend<const DIRECT: bool>(
        &mut self,
        granule_log2: u32,
        by: By,
        first: Time,
        addresses: &[u64],
        kinds: &[Kind],
    ) -> usize {
        let (runs, places) = (&mut self.runs[..], &self.places);
        let (within, read_gap) = (By::within(first), self.store.read_gap);
        let extends = |(number, (&address, kind)): (usize, (&u64, &Kind))| {
            let granule = (address >> granule_log2) as usize;
            let run = runs.get_mut(if DIRECT { granule } else { places.of(granule) });
            run.is_some_and(|run| run.extend(by, within + number as u32, kind.is_write(), read_gap))
        };
        let begins = addresses.iter().zip(kinds).enumerate().map(extends).position(|extends| !extends);
        begins.unwrap_or(addresses.len())
    }

    /// Adds a reference that begins a run, and a page if it is the first to its place.
    #[inline(never)]
    fn begin(&mut self, granule: usize, by: By, time: Time, write: bool) {
        let place = self.places.of(granule);
        let page = match self.page_of.get(place) {
            Some(&page) if page != NONE => page,
            _ => self.new_page(granule, place, time),
        };
        self.store.begin(page, &mut self.runs[place], by, time, write);
    }

    #[cold]
    fn new_page(&mut self, granule: usize, place: usize, first: Time) -> u32 {
        if place >= self.page_of.len() {
            let room = (place + 1).next_power_of_two().max(1024);
            self.page_of.resize(room, NONE);
            self.runs.resize(room, OpenRun::NONE);
        }
        let page = self.store.pages() as u32;
        self.page_of[place] = page;
        self.addresses.push(granule as u64);
        self.firsts.push(first);
        self.store.add_page();
        page
    }

    /// Takes an event of a thread on `node`, which may place pages; the next reference has this Time or a later one.
    pub fn event(&mut self, time: Time, event: &Event, node: impl FnOnce() -> Node) {
        self.placed.event(time, event, node);
    }

    /// Ends all runs in progress: what comes next begins new ones. Takes a step a page. Not for builders whose
    /// references are [appended](HistoryBuilder::append) to others'.
    pub fn cut(&mut self) {
        self.runs.iter_mut().for_each(OpenRun::cut);
    }

    /// Adds the references of `later`, which [continues](HistoryBuilder::continuing) this builder: all of them come
    /// after those that are here. The history is that of one builder that took all references.
    ///
    /// # Panics
    /// If `later` has spilled: it must be without a spill file.
    pub fn append(&mut self, mut later: HistoryBuilder) {
        assert_eq!(later.store.bytes().1, 0, "a builder that continues another one must not spill");
        self.store.add_counts(&later.store);
        self.placed.append(later.placed);
        for (there, (&granule, &first)) in later.addresses.iter().zip(&later.firsts).enumerate() {
            let granule = granule as usize;
            let (place, open) = (self.places.of(granule), later.runs[later.places.of(granule)]);
            let page = match self.page_of.get(place) {
                Some(&page) if page != NONE => page,
                _ => self.new_page(granule, place, first),
            };
            self.store.append(page, &mut self.runs[place], &mut later.store, there, open);
        }
        self.references += later.references;
        self.duration = self.duration.max(later.duration);
    }

    /// The page of a dense address; none if nothing has referred to it.
    pub fn page_of(&self, address: u64) -> Option<u32> {
        let place = self.places.of((address >> self.granule_log2) as usize);
        self.page_of.get(place).copied().filter(|&page| page != NONE)
    }

    /// Base-2 logarithm of the bytes of dense addresses that always are in one page.
    pub fn granule_log2(&self) -> u32 {
        self.granule_log2
    }

    /// Whether the packed runs have reached the budget. Cheap to call often.
    pub fn is_full(&mut self) -> bool {
        self.store.is_full()
    }

    /// Closes all runs. `frames`: the virtual address of each frame of the trace, in frame order.
    pub fn finish(mut self, frames: &[u64]) -> Result<History, SpillError> {
        for (page, &granule) in self.addresses.iter().enumerate() {
            self.store.close(page as u32, &self.runs[self.places.of(granule as usize)]);
        }
        self.store.spill_if_full()?;
        let shift = FRAME_LOG2 - self.granule_log2;
        for address in &mut self.addresses {
            let (frame, part) = ((*address >> shift) as usize, *address & ((1 << shift) - 1));
            let first = frames.get(frame).copied().unwrap_or(0) + (part << self.granule_log2);
            *address = first & !(self.page_size.bytes() - 1);
        }
        let reads = self.store.reads();
        let makers = self.placed.makers(self.firsts.into_iter().zip(self.addresses.iter().copied()));
        Ok(History {
            makers,
            page_size: self.page_size,
            addresses: self.addresses,
            store: self.store,
            references: self.references,
            reads,
            duration: Time(self.duration),
        })
    }
}
