//! Windows of a program (`homing record --windows`): where they are in a trace and what they stand for, and the bound
//! of the whole program, estimated from a page history for each window, made in one pass over the trace.

use crate::case::Case;
use crate::error::{PipelineError, Result};
use crate::experiment::Experiment;
use crate::model::frames;
use crate::progress::{Bar, Unit};
use crate::spill::SpillFile;
use homing_core::history::{Binding, History, HistoryBuilder, Options, Spill, SpillError};
use homing_core::ids::{PageSize, Thread, Time};
use homing_core::optimal::windows::{estimate, Estimate, Window};
use homing_core::optimal::{self, Start};
use homing_core::windows::{self, Windows, FEWEST};
use homing_trace::{Event, Trace, Turn, Visitor};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// The least memory that a window has before its page runs go to a file.
const LEAST: u64 = 1 << 20;
/// Millions of words after which a window no longer waits for threads to meet (`PATIENCE` of the recorder).
const PATIENCE: u32 = 4;

/// The bound of the program, as far as its windows tell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimated {
    /// How the windows were chosen.
    pub chosen: String,
    /// How much of the program is in them, from 0 to 1.
    pub share: f64,
    /// References of the trace that are in no window, and not used.
    pub references_outside: u64,
    /// The bound.
    #[serde(flatten)]
    pub estimate: Estimate,
    /// What a reader must know of it.
    #[serde(skip)]
    pub notes: Vec<String>,
}

impl Estimated {
    /// As policies are estimated.
    pub fn of_program(&self) -> windows::Estimate {
        let Estimate { windows, references, mcpr, cost, .. } = self.estimate;
        windows::Estimate { windows, references, mcpr, cost, nonlocal_percent: None }
    }
}

/// An estimate, or why there is none.
#[derive(Clone, Debug, PartialEq)]
pub enum Bound {
    /// The trace is of all of a program.
    Whole,
    /// What was asked cannot be estimated from windows.
    Not(String),
    /// It is estimated.
    From(Box<Estimated>),
}

/// What a reader of any results must know of a trace of windows.
pub fn note(trace: &Trace<'_>) -> Option<String> {
    trace.header().windows().map(|chosen| {
        format!(
            "the trace is of windows of the program (--windows {chosen}): figures are those of the windows, one after \
             the other, as though they were the whole program, but for what is called estimated; `homing optimal`, \
             `compare` and `why` estimate the whole from every reference, without caches"
        )
    })
}

/// Estimates the bound of the program of which a trace has windows. `start`: where pages of the whole program may
/// begin.
///
/// # Errors
/// If the trace should have windows and has none, or it cannot be read.
pub fn bound(case: &Case<'_>, start: Start) -> Result<Bound> {
    let Some(chosen) = case.trace.header().windows() else { return Ok(Bound::Whole) };
    let experiment = &case.ready.experiment;
    let asked = match experiment {
        Experiment { model, .. } if model.misses => {
            Some("behind caches (--misses), which windows begin with cold")
        }
        Experiment { choice, .. } if !choice.is_everything() => {
            Some("of some phases or threads, of which windows do not tell how long they are")
        }
        _ => None,
    };
    if let Some(asked) = asked {
        return Ok(Bound::Not(format!("the bound of the whole program is not estimated {asked}")));
    }
    let cut = cut(case)?;
    if cut.lengths.is_empty() {
        return Err(PipelineError::Failed(format!(
            "{}: the trace says that it is of windows ({chosen}), and no window begins in it: it is damaged, or the \
             program ended before the first; `homing trace info` says which; else record again, with shorter periods",
            case.file.path.display()
        )));
    }
    if let Some(why) = unordered(&cut.lengths) {
        return Ok(Bound::Not(why));
    }
    let windows = weighted(cut.histories, &cut.lengths);
    let options = optimal::Options { replication: case.ready.replication(), start };
    let Some(estimate) = estimate(&windows.weighted, &case.layout.costs, options)? else {
        return Err(PipelineError::Failed(format!(
            "{}: no reference of the trace is in a window of which the length is known: record again, with more or \
             longer windows",
            case.file.path.display()
        )));
    };
    let mut notes = Vec::new();
    let mut say = |count: u64, what: &str| {
        if count > 0 {
            notes.push(format!("left out of the estimate: {what}: {count}"));
        }
    };
    say(cut.outside, "references between windows, the first to their pages");
    say(windows.unknown, "windows that no thread has ended, as where a program is killed in one");
    let unended: u64 = cut.lengths.values().map(|length| length.begun.len() as u64).sum();
    say(unended, "lengths of windows of threads that did not end them");
    if cut.lost > 0 {
        notes
            .push(format!("the estimate is of a damaged trace: {} references of windows are lost", cut.lost));
    }
    if estimate.windows < FEWEST {
        notes.push(format!(
            "{} windows are too few to say how much they differ: no interval; it takes {FEWEST}",
            estimate.windows
        ));
    }
    if start == Start::FirstTouch {
        notes.push(
            "the estimate does not use who touched pages first between windows: its upper end pays for a move of each \
             page to its first home"
                .to_owned(),
        );
    }
    Ok(Bound::From(Box::new(Estimated {
        chosen: chosen.to_owned(),
        share: windows.share,
        references_outside: cut.outside,
        estimate,
        notes,
    })))
}

/// A thread's beginning or end of a window.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    thread: Thread,
    time: Time,
    number: u32,
    begins: bool,
    words: u64,
    apart: bool,
}

impl Seen {
    /// The one that an event is, if it is one.
    pub fn of(thread: Thread, time: Time, event: &Event) -> Option<Seen> {
        match *event {
            Event::Window { number, begins, words, apart } => {
                Some(Seen { thread, time, number, begins, words, apart })
            }
            _ => None,
        }
    }
}

/// How long a window is, and what was not seen before it, in words of the recording of all threads.
#[derive(Debug, Default)]
struct Length {
    /// Threads that are in it and have not ended it, with what was not seen of them before.
    begun: HashMap<Thread, u64>,
    unseen: u64,
    seen: u64,
    /// When the first thread began it, and the last one ended it.
    times: Option<Range<Time>>,
    /// It opened or closed where threads do not meet.
    apart: bool,
    /// The threads that sent references in it and ended it.
    threads: u32,
}

impl Length {
    fn add(&mut self, seen: Seen) {
        let times = self.times.get_or_insert(seen.time..seen.time);
        times.end = times.end.max(seen.time);
        self.apart |= seen.apart;
        self.threads += u32::from(!seen.begins && seen.words > 0);
        if seen.begins {
            self.begun.insert(seen.thread, seen.words);
        } else if let Some(unseen) = self.begun.remove(&seen.thread) {
            // Without a beginning its part of the length is not known.
            self.unseen = self.unseen.saturating_add(unseen);
            self.seen = self.seen.saturating_add(seen.words);
        }
    }
}

/// How many times as long the program is as its windows together: all of these have that weight, as each word of the
/// program was as likely to be in one as any other.
fn weight(lengths: &BTreeMap<u32, Length>) -> f64 {
    let (mut all, mut seen) = (0u64, 0u64);
    for length in lengths.values() {
        all = all.saturating_add(length.unseen).saturating_add(length.seen);
        seen = seen.saturating_add(length.seen);
    }
    all as f64 / (seen as f64).max(1.0)
}

/// Why windows do not tell of the program in which order its threads used what they share, if they do not: windows of
/// several threads that opened or closed where these do not meet.
fn unordered(lengths: &BTreeMap<u32, Length>) -> Option<String> {
    let apart = lengths.values().filter(|length| length.apart && length.threads > 1).count();
    (apart > 0).then(|| {
        format!(
            "the whole program is not estimated: {apart} of {} windows opened or closed where its threads do not meet \
             (no barrier for {PATIENCE} M words), so some were ahead of others there by an unknown amount; record the \
             whole program (without --windows), with a smaller input if that takes too long",
            lengths.len()
        )
    })
}

/// The windows of a trace that is laid out as one, as far as the program can be told from them: not behind caches,
/// which hold at first what they held at the end of the window before, nor of parts of which windows do not tell how
/// long they are. And why they do not tell of it, where the recording is the reason.
pub(crate) fn of_program(experiment: &Experiment, seen: &[Seen]) -> (Windows, Option<String>) {
    let mut lengths: BTreeMap<u32, Length> = BTreeMap::new();
    seen.iter().for_each(|&seen| lengths.entry(seen.number).or_default().add(seen));
    let unordered = unordered(&lengths);
    if unordered.is_some() || experiment.model.misses || !experiment.choice.is_everything() {
        return (Windows::default(), unordered);
    }
    let weight = weight(&lengths);
    let known = lengths.into_values().filter(|length| length.seen > 0);
    let spans = known.filter_map(|length| Some((length.times?, length.seen as f64)));
    (Windows::new(spans, weight), None)
}

struct Weighted {
    weighted: Vec<Window>,
    /// Windows of which the length is not known.
    unknown: u64,
    share: f64,
}

/// Windows with how much of the program they stand for.
fn weighted(histories: Vec<(u32, History)>, lengths: &BTreeMap<u32, Length>) -> Weighted {
    let weight = weight(lengths);
    let (mut weighted, mut unknown) = (Vec::new(), 0);
    for (number, history) in histories {
        match lengths[&number].seen {
            0 => unknown += u64::from(history.references() > 0),
            seen => weighted.push(Window { history, weight, length: seen as f64 }),
        }
    }
    Weighted { weighted, unknown, share: 1.0 / weight.max(1.0) }
}

/// A trace in windows.
struct Cut<'a> {
    binding: &'a Binding,
    frames: Vec<u64>,
    page_size: PageSize,
    read_gap: u32,
    /// Bytes of memory that page runs may still take.
    memory: u64,
    open: Option<(u32, HistoryBuilder)>,
    histories: Vec<(u32, History)>,
    lengths: BTreeMap<u32, Length>,
    /// Which window each thread is in.
    inside: HashMap<Thread, u32>,
    outside: u64,
    lost: u64,
    error: Option<SpillError>,
    progress: &'a dyn Bar,
    unreported: u64,
}

/// Lays out each window of a trace, as the experiment says.
fn cut(case: &Case<'_>) -> Result<CutTrace> {
    let (ready, trace): (_, &Trace<'_>) = (case.ready, &case.trace);
    let experiment = &ready.experiment;
    let progress = experiment.progress.begin(trace.references(), Unit::References, "windows");
    let mut cut = Cut {
        binding: &case.layout.binding,
        frames: frames(trace),
        page_size: ready.page_size,
        read_gap: case.layout.costs.read_gap(),
        memory: experiment.model.memory,
        open: None,
        histories: Vec::new(),
        lengths: BTreeMap::new(),
        inside: HashMap::new(),
        outside: 0,
        lost: 0,
        error: None,
        progress: &*progress,
        unreported: 0,
    };
    trace.visit_all(&mut cut)?;
    cut.close();
    if let Some(error) = cut.error {
        return Err(error.into());
    }
    let Cut { histories, lengths, outside, lost, .. } = cut;
    Ok(CutTrace { histories, lengths, outside, lost })
}

/// What a [`Cut`] has made.
struct CutTrace {
    histories: Vec<(u32, History)>,
    lengths: BTreeMap<u32, Length>,
    outside: u64,
    lost: u64,
}

impl Cut<'_> {
    /// A window begins for the trace where the first thread begins it.
    fn begin(&mut self, number: u32) {
        if self.open.as_ref().is_some_and(|&(open, _)| number <= open) {
            return;
        }
        self.close();
        let spill = Some(Box::new(SpillFile::new()) as Box<dyn Spill>);
        let (page_size, read_gap) = (self.page_size, self.read_gap);
        let mut builder =
            HistoryBuilder::new(Options { page_size, read_gap, budget: self.memory.max(LEAST), spill });
        builder.group_frames(&self.frames);
        self.open = Some((number, builder));
    }

    fn close(&mut self) {
        let Some((number, builder)) = self.open.take() else { return };
        match builder.finish(&self.frames) {
            Ok(history) => {
                self.memory = self.memory.saturating_sub(history.bytes().0);
                self.histories.push((number, history));
            }
            Err(error) => self.error = self.error.take().or(Some(error)),
        }
    }

    /// Adds references where their thread runs at their Time.
    fn add(&mut self, turn: Turn<'_>) -> std::result::Result<(), SpillError> {
        let Some((_, builder)) = &mut self.open else { return Ok(()) };
        for (node, part) in self.binding.stretches(turn.thread, turn.first, turn.addresses.len()) {
            let first = Time(turn.first.0 + part.start as u64);
            builder.turn(node, first, &turn.addresses[part.clone()], &turn.kinds[part])?;
        }
        Ok(())
    }
}

impl Visitor for Cut<'_> {
    fn turn(&mut self, turn: Turn<'_>) {
        if self.error.is_some() {
            return;
        }
        let references = turn.addresses.len() as u64;
        self.unreported += references;
        if self.unreported > 1 << 22 {
            self.progress.advance(std::mem::take(&mut self.unreported));
        }
        match self.inside.contains_key(&turn.thread) {
            true => self.error = self.add(turn).err(),
            false => self.outside += references,
        }
    }

    fn event(&mut self, thread: Thread, time: Time, event: &Event) {
        if let Some(seen) = Seen::of(thread, time, event) {
            if seen.begins {
                self.begin(seen.number);
                self.inside.insert(thread, seen.number);
            } else {
                self.inside.remove(&thread);
            }
            self.lengths.entry(seen.number).or_default().add(seen);
        }
        if matches!(event, Event::ThreadEnd) {
            self.inside.remove(&thread);
        }
    }

    fn lost(&mut self, _first: Time, references: u64, _reason: &str) {
        self.lost += references;
    }
}
