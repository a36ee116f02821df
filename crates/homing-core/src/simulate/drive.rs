//! How page runs reach a policy: page by page where pages are independent of one another, otherwise all pages in order
//! of Time or interval by interval; and what of them it sees ([`Information`](crate::information::Information)).

use super::memory::{finish, Modelled};
use super::{Setup, Simulation};
use crate::engine::shape::Shape;
use crate::engine::{Engine, Observation};
use crate::history::{Runs, SpillError};
use crate::ids::{Node, Page, Time};
use crate::information::{Sampler, Sampling};
use crate::policy::{Context, Decides, End, Policy, Sample};
use crate::timeline::{Mark, Moment};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// References of one run that are told at a time where pages are told in order of Time.
const PIECE: u64 = 512;

/// What a policy hears of references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hears {
    /// It is asked at faults and told of everything.
    All,
    /// Samples as they happen.
    Samples,
    /// Profiles at ends.
    Profiles,
    /// Nothing but ends and marks.
    Nothing,
}

/// A setup with its moments, ready to drive policies.
pub(super) struct Drive<'a> {
    setup: &'a Setup<'a>,
    hears: Hears,
    marks: bool,
    moments: Vec<Moment>,
    context: Context,
}

impl<'a> Drive<'a> {
    pub(super) fn new(setup: &'a Setup<'a>, policy: &dyn Policy) -> Drive<'a> {
        let level = &setup.information;
        let at_ends = level.only_at_ends || policy.decides() == Decides::AtEnds;
        let hears = match policy.wants_samples() {
            _ if level.is_perfect() && !at_ends => Hears::All,
            false => Hears::Nothing,
            true if at_ends => Hears::Profiles,
            true => Hears::Samples,
        };
        let interval = level.interval_length(setup.history.duration());
        let context = Context {
            monitor: "references".into(),
            weight: level.weight(),
            interval: Some(interval),
            iterations: setup.timeline.has_iterations(),
            phases: setup.timeline.has_phases(),
            page_bytes: setup.history.page_size().bytes(),
            nodes: setup.costs.memories(),
            loads: false,
            moves: None,
        };
        let moments = setup.timeline.moments(interval, setup.history.duration());
        Drive { setup, hears, marks: policy.wants_marks(), moments, context }
    }

    /// Pages one after the other, each from its first run to its last.
    pub(super) fn page_by_page(
        &self,
        policy: &dyn Policy,
        first: u32,
        end: u32,
    ) -> Result<Simulation, SpillError> {
        let (memory, not_in_file) = Modelled::new(self.setup, first, end)?;
        let mut policy = policy.boxed_clone();
        let mut engine = Engine::new(&mut *policy, memory, self.setup.log);
        engine.begin(&self.context);
        let mut profile = Profile::new(self.setup);
        for page in (first..end).map(Page) {
            self.one_page(page, &mut engine, &mut profile)?;
            engine.observe(Observation::PageGone(page));
        }
        Ok(finish(engine, self.setup, not_in_file))
    }

    fn one_page(
        &self,
        page: Page,
        engine: &mut Engine<Modelled>,
        profile: &mut Profile,
    ) -> Result<(), SpillError> {
        let mut cursor = Cursor::new(self.setup, page)?;
        engine.observe(Observation::PageNew(page, self.setup.history.address(page)));
        // Which ends were reached since the page was seen: [interval, iteration].
        let mut unseen = [true; 2];
        let mut next = 0;
        loop {
            let time = cursor.time();
            let due = |moment: &Moment| time.is_none_or(|time| moment.time <= time);
            if !self.marks && unseen == [true; 2] {
                next += self.moments[next..].partition_point(due);
            }
            while let Some(moment) = self.moments.get(next).filter(|moment| due(moment)) {
                next += 1;
                let kind = match moment.mark {
                    Mark::IntervalEnd => 0,
                    Mark::IterationEnd => 1,
                    _ if self.marks => {
                        if moment.mark.ends_profile() {
                            profile.tell(page, moment.time, engine);
                        }
                        tell(engine, moment);
                        continue;
                    }
                    _ => continue,
                };
                if !std::mem::replace(&mut unseen[kind], true) {
                    profile.tell(page, moment.time, engine);
                    tell(engine, moment);
                }
            }
            if time.is_none() {
                return Ok(());
            }
            let limit = self.moments.get(next).map(|moment| moment.time);
            while cursor.time().is_some_and(|time| limit.is_none_or(|limit| time < limit)) {
                self.step(&mut cursor, page, limit, engine, profile);
            }
            unseen = [false; 2];
        }
    }

    /// All pages together, for policies with state across pages.
    pub(super) fn all_pages(&self, policy: &dyn Policy) -> Result<Simulation, SpillError> {
        let pages = self.setup.history.pages();
        let (memory, not_in_file) = Modelled::new(self.setup, 0, pages)?;
        let mut policy = policy.boxed_clone();
        let mut engine = Engine::new(&mut *policy, memory, self.setup.log);
        engine.begin(&self.context);
        let cursors = (0..pages).map(|page| Cursor::new(self.setup, Page(page)));
        let cursors: Vec<Cursor> = cursors.collect::<Result<_, _>>()?;
        match self.hears {
            Hears::All | Hears::Samples => self.in_time_order(cursors, &mut engine),
            Hears::Profiles | Hears::Nothing => self.by_interval(cursors, &mut engine),
        }
        Ok(finish(engine, self.setup, not_in_file))
    }

    /// Runs by the Time of their first reference; one that spans a moment is cut there, and a long one
    /// into pieces.
    fn in_time_order(&self, mut cursors: Vec<Cursor>, engine: &mut Engine<Modelled>) {
        let mut profile = Profile::new(self.setup);
        let mut moments = self.moments.iter().peekable();
        let mut known = vec![false; cursors.len()];
        let starts = cursors.iter().enumerate();
        let starts = starts.filter_map(|(page, cursor)| Some(Reverse((cursor.time()?, Page(page as u32)))));
        let mut next: BinaryHeap<_> = starts.collect();
        while let Some(Reverse((time, page))) = next.pop() {
            while let Some(moment) = moments.next_if(|moment| moment.time <= time) {
                tell(engine, moment);
            }
            if !std::mem::replace(&mut known[page.index()], true) {
                engine.observe(Observation::PageNew(page, self.setup.history.address(page)));
            }
            let cursor = &mut cursors[page.index()];
            let limit = moments.peek().map(|moment| moment.time);
            // What a policy learns from a long run must not come before what other pages do meanwhile.
            let limit = limit.into_iter().chain(cursor.time_after(PIECE)).min();
            self.step(cursor, page, limit, engine, &mut profile);
            next.extend(cursor.time().map(|time| Reverse((time, page))));
        }
        moments.for_each(|moment| tell(engine, moment));
    }

    /// Between two moments the pages one after the other; at ends first the profiles of all pages, then the end.
    fn by_interval(&self, mut cursors: Vec<Cursor>, engine: &mut Engine<Modelled>) {
        let mut profile = Profile::new(self.setup);
        let mut heard: Vec<Sample> = Vec::new();
        let mut known = vec![false; cursors.len()];
        let mut times: Vec<Option<Time>> = cursors.iter().map(Cursor::time).collect();
        for moment in &self.moments {
            for (index, due) in times.iter_mut().enumerate() {
                if due.is_none_or(|due| due >= moment.time) {
                    continue;
                }
                let (cursor, page) = (&mut cursors[index], Page(index as u32));
                if !std::mem::replace(&mut known[index], true) {
                    engine.observe(Observation::PageNew(page, self.setup.history.address(page)));
                }
                while cursor.time().is_some_and(|time| time < moment.time) {
                    self.step(cursor, page, Some(moment.time), engine, &mut profile);
                }
                profile.take(page, moment.time, engine, &mut heard);
                *due = cursor.time();
            }
            if moment.mark.ends_profile() {
                // What was counted before a mark within the interval is told with the rest, at the end.
                heard.iter_mut().for_each(|count| count.time = moment.time);
                engine.profiles(&mut heard);
            }
            tell(engine, moment);
        }
    }

    /// The references of the cursor's run before `limit`.
    #[inline]
    fn step(
        &self,
        cursor: &mut Cursor,
        page: Page,
        limit: Option<Time>,
        engine: &mut Engine<Modelled>,
        profile: &mut Profile,
    ) {
        let cut = match self.setup.windows.is_empty() {
            true => None,
            false => cursor.time().and_then(|time| self.setup.windows.next_cut(time)),
        };
        let (shape, from, to) = cursor.part(limit.into_iter().chain(cut).min());
        match self.hears {
            Hears::All => engine.part(page, &shape, from, to),
            Hears::Nothing => engine.unseen(page, &shape, from, to),
            Hears::Profiles => {
                engine.unseen(page, &shape, from, to);
                match self.setup.information.sampling {
                    Sampling::All => profile.add(&shape, from, to),
                    Sampling::Every(_) => cursor.seen(from, to, |at| profile.add(&shape, at, at + 1)),
                }
            }
            Hears::Samples => {
                let mut served = from;
                cursor.seen(from, to, |at| {
                    engine.unseen(page, &shape, served, at + 1);
                    served = at + 1;
                    let sample = shape.sample(page, at, at + 1, engine.at(page));
                    let weight = self.context.weight;
                    engine.observe(Observation::Sample(Sample { weight, ..sample }));
                });
                engine.unseen(page, &shape, served, to);
            }
        }
    }
}

fn tell(engine: &mut Engine<Modelled>, moment: &Moment) {
    let &Moment { time, number, mark } = moment;
    match mark {
        Mark::IntervalEnd => engine.interval_end(&End { number, time }),
        Mark::IterationEnd => engine.iteration_end(&End { number, time }),
        Mark::PhaseBegin(phase) => engine.observe(Observation::PhaseBegin(phase, time)),
        Mark::ThreadMoved(moved) => engine.observe(Observation::ThreadMoved(moved)),
        Mark::ThreadsChanged(changed) => engine.observe(Observation::ThreadsChanged(changed)),
    }
}

/// How far the runs of one page have come.
struct Cursor<'a> {
    runs: Runs<'a>,
    /// The run in progress and its next reference.
    now: Option<(Shape, u64)>,
    sampler: Sampler,
}

impl<'a> Cursor<'a> {
    fn new(setup: &Setup<'a>, page: Page) -> Result<Cursor<'a>, SpillError> {
        let mut runs = setup.history.runs(page)?;
        let now = runs.next().map(|run| (Shape::new(&run), 0));
        Ok(Cursor { runs, now, sampler: setup.information.sampler(page) })
    }

    /// Time of the next reference.
    #[inline]
    fn time(&self) -> Option<Time> {
        self.now.as_ref().map(|(shape, from)| shape.time(*from))
    }

    /// Time of the reference that comes so many later, if the present run has it.
    fn time_after(&self, references: u64) -> Option<Time> {
        let (shape, from) = self.now.as_ref()?;
        (from + references < shape.len()).then(|| shape.time(from + references))
    }

    /// Takes the references of the present run before `limit`.
    #[inline]
    fn part(&mut self, limit: Option<Time>) -> (Shape, u64, u64) {
        let (shape, from) = self.now.take().expect("there is a next reference");
        let to = match limit {
            Some(limit) if shape.last() >= limit => shape.position(limit),
            _ => shape.len(),
        };
        self.now = match to == shape.len() {
            true => self.runs.next().map(|run| (Shape::new(&run), 0)),
            false => Some((shape, to)),
        };
        (shape, from, to)
    }

    /// Calls `each` with those of the references `from..to` that are seen.
    #[inline]
    fn seen(&mut self, mut from: u64, to: u64, mut each: impl FnMut(u64)) {
        while let Some(skipped) = self.sampler.next(to - from) {
            each(from + skipped);
            from += skipped + 1;
        }
    }
}

/// What a monitor counted of one page.
struct Profile {
    /// Reads and writes of each node.
    counts: Vec<(u64, u64)>,
    /// Nodes that were counted.
    nodes: Vec<Node>,
    weight: f64,
    /// What [`Profile::tell`] tells.
    heard: Vec<Sample>,
}

impl Profile {
    fn new(setup: &Setup) -> Profile {
        let counts = vec![(0, 0); usize::from(setup.costs.memories())];
        Profile { counts, nodes: Vec::new(), weight: setup.information.weight(), heard: Vec::new() }
    }

    #[inline]
    fn add(&mut self, shape: &Shape, from: u64, to: u64) {
        let writes = shape.writes_before(to) - shape.writes_before(from);
        let count = &mut self.counts[shape.node().index()];
        if *count == (0, 0) {
            self.nodes.push(shape.node());
        }
        count.0 += to - from - writes;
        count.1 += writes;
    }

    /// Moves what was counted of `page` to `heard`, one sample a node.
    fn take(&mut self, page: Page, time: Time, engine: &Engine<Modelled>, heard: &mut Vec<Sample>) {
        self.nodes.sort_unstable();
        for node in self.nodes.drain(..) {
            let (reads, writes) = std::mem::take(&mut self.counts[node.index()]);
            heard.push(Sample { page, node, reads, writes, weight: self.weight, time, at: engine.at(page) });
        }
    }

    /// Tells the policy at once.
    fn tell(&mut self, page: Page, time: Time, engine: &mut Engine<Modelled>) {
        let mut heard = std::mem::take(&mut self.heard);
        self.take(page, time, engine, &mut heard);
        engine.profiles(&mut heard);
        self.heard = heard;
    }
}
