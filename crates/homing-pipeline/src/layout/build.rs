//! Page runs of all references of a trace, or of those that get past caches.

use super::demand::{Asked, Demand};
use crate::chosen::{Choice, Chooser, ITERATION};
use crate::error::{PipelineError, Result};
use crate::family::is_forked;
use crate::mappings::Mappings;
use crate::model::{cpus, frames};
use crate::progress::Bar;
use crate::spill::SpillFile;
use crate::windows::Seen;
use homing_core::cache::cpus::{CpusInUse, Whereabouts};
use homing_core::cache::misses::Misses;
use homing_core::cache::Counts;
use homing_core::history::{Binding, History, HistoryBuilder, Options, Spill, SpillError};
use homing_core::ids::{PageSize, Thread, Time};
use homing_core::why::parts::{Counting, PageUsage, Usage};
use homing_trace::{Event, NameId, Names, Trace, Turn, Visitor};
use rayon::prelude::*;
use std::collections::HashSet;
use std::ops::Range;

/// How page runs are built.
pub struct Runs<'a> {
    /// Where threads run.
    pub binding: &'a Binding,
    /// The size of pages.
    pub page_size: PageSize,
    /// The most reads in a run.
    pub read_gap: u32,
    /// Bytes of memory; what is beyond goes to a temporary file.
    pub memory: u64,
    /// Which references are looked at.
    pub choice: &'a Choice,
    /// Whether who refers to what in which phase is counted.
    pub usage: bool,
    /// Who is shown how far it is, in references.
    pub progress: &'a dyn Bar,
}

/// What a trace gave.
pub struct Built {
    /// The page runs.
    pub history: History,
    /// References that were read.
    pub found: u64,
    /// References that damage in the file has lost.
    pub lost: u64,
    /// Why the first of those are lost.
    pub why: String,
    /// What the caches of each CPU in use counted, if references went through them.
    pub caches: Option<Vec<Counts>>,
    /// When each of these CPUs asks memories for what they do not hold.
    pub demand: Demand,
    /// What the program marked.
    pub marks: Vec<(Time, NameId)>,
    /// Where windows begin and end.
    pub windows: Vec<Seen>,
    /// What a reader must know of the references that were chosen, if not all are.
    pub chosen: Option<String>,
    /// Who refers to what in which phase.
    pub usage: Option<PageUsage>,
    /// What the program has mapped.
    pub mappings: Mappings,
}

impl Runs<'_> {
    /// Builds the runs of a trace. Without caches, whose state goes through the whole trace, parts of the trace are
    /// read at the same time.
    pub fn of(&self, trace: &Trace<'_>, misses: Option<Misses>) -> Result<Built> {
        let frames = frames(trace);
        // Whether a reference is the first to its page can only be told from the start.
        let all = misses.is_none() && self.choice.is_everything() && trace.header().windows().is_none();
        let in_parts = if all { self.in_parts(trace, &frames)? } else { None };
        // What does not fit into memory is read once more, in one go, with a file to spill to.
        let mut build = match in_parts {
            Some(build) => build,
            None => {
                self.progress.restart();
                let spill = Some(Box::new(SpillFile::new()) as Box<dyn Spill>);
                let builder = HistoryBuilder::new(self.options(self.memory, spill));
                let mut build = Build { misses, ..Build::new(self, trace, builder, false, &frames) };
                trace.visit_all(&mut build)?;
                build
            }
        };
        if let Some(error) = build.error {
            return Err(error.into());
        }
        let misses = build.misses.take();
        let caches = match (misses, &mut build.usage) {
            (None, _) => None,
            (Some(misses), None) => {
                Some(misses.finish(&mut Asked { to: &mut build.builder, demand: &mut build.demand })?)
            }
            (Some(misses), Some(usage)) => {
                let to = &mut Counting { builder: &mut build.builder, usage };
                Some(misses.finish(&mut Asked { to, demand: &mut build.demand })?)
            }
        };
        let Build { found, lost, why, marks, windows, mappings, demand, .. } = build;
        let chosen = build.chooser.as_ref().map(Chooser::note);
        let usage = build.usage.map(|usage| usage.by_page(&build.builder));
        let history = build.builder.finish(&frames)?;
        Ok(Built { history, found, lost, why, caches, demand, marks, windows, chosen, usage, mappings })
    }

    /// Reads parts of the trace at the same time; nothing if they do not fit into memory, or if there is only one.
    fn in_parts<'b>(&'b self, trace: &'b Trace<'_>, frames: &[u64]) -> Result<Option<Build<'b>>> {
        let parts = trace.parts(rayon::current_num_threads());
        if parts.len() < 2 {
            return Ok(None);
        }
        let budget = self.memory / parts.len() as u64;
        let part = |(number, range): (usize, Range<usize>)| {
            let builder = if number == 0 { HistoryBuilder::new } else { HistoryBuilder::continuing };
            let mut build = Build::new(self, trace, builder(self.options(budget, None)), true, frames);
            trace.visit(range, &mut build)?;
            Ok::<_, PipelineError>((!build.full).then_some(build))
        };
        let parts: Option<Vec<Build<'_>>> =
            parts.into_par_iter().enumerate().map(part).collect::<Result<_>>()?;
        Ok(parts.into_iter().flatten().reduce(Build::followed_by))
    }

    fn options(&self, budget: u64, spill: Option<Box<dyn Spill>>) -> Options {
        Options { page_size: self.page_size, read_gap: self.read_gap, budget, spill }
    }
}

/// Builds the histories of a trace, or of a part of it.
struct Build<'a> {
    builder: HistoryBuilder,
    binding: &'a Binding,
    names: &'a Names,
    /// If not all references are looked at.
    chooser: Option<Chooser<'a>>,
    /// If it was asked, with the CPUs in use.
    usage: Option<Usage>,
    cpus: CpusInUse,
    whereabouts: Whereabouts,
    misses: Option<Misses>,
    demand: Demand,
    error: Option<SpillError>,
    /// A part has no file to spill to: if it takes more memory than it may have, it is full, and its rest is skipped.
    is_part: bool,
    full: bool,
    /// References that were read.
    found: u64,
    lost: u64,
    /// Why the first of those are lost.
    why: String,
    marks: Vec<(Time, NameId)>,
    windows: Vec<Seen>,
    /// Threads that are in a window.
    inside: HashSet<Thread>,
    mappings: Mappings,
    /// The process began as a copy of another one.
    forked: bool,
    progress: &'a dyn Bar,
    unreported: u64,
}

impl<'a> Build<'a> {
    fn new(
        runs: &'a Runs<'a>,
        trace: &'a Trace<'_>,
        mut builder: HistoryBuilder,
        is_part: bool,
        frames: &[u64],
    ) -> Build<'a> {
        builder.group_frames(frames);
        let chooser = (!runs.choice.is_everything()).then(|| Chooser::new(runs.choice, frames.len()));
        let usage = runs.usage.then(|| Usage::new(builder.granule_log2()));
        Build {
            builder,
            binding: runs.binding,
            names: trace.names(),
            chooser,
            usage,
            cpus: cpus(trace, runs.binding),
            whereabouts: Whereabouts::default(),
            misses: None,
            demand: Demand::new(trace.references()),
            error: None,
            is_part,
            full: false,
            found: 0,
            lost: 0,
            why: String::new(),
            marks: Vec::new(),
            windows: Vec::new(),
            inside: HashSet::new(),
            mappings: Mappings::default(),
            forked: is_forked(trace.header()),
            progress: runs.progress,
            unreported: 0,
        }
    }

    /// Adds what comes after this part.
    fn followed_by(mut self, later: Build<'a>) -> Build<'a> {
        self.builder.append(later.builder);
        if let (Some(usage), Some(later)) = (&mut self.usage, later.usage) {
            usage.append(later);
        }
        self.found += later.found;
        self.lost += later.lost;
        self.marks.extend(later.marks);
        self.windows.extend(later.windows);
        self.mappings.append(later.mappings);
        self
    }
}

impl Build<'_> {
    /// Adds references where their thread runs at their Time.
    fn bound(&mut self, turn: Turn<'_>) -> std::result::Result<(), SpillError> {
        for (node, part) in self.binding.stretches(turn.thread, turn.first, turn.addresses.len()) {
            let first = Time(turn.first.0 + part.start as u64);
            let (addresses, kinds) = (&turn.addresses[part.clone()], &turn.kinds[part]);
            if let Some(usage) = &mut self.usage {
                usage.add(self.whereabouts.of(&self.cpus, turn.thread, first).cpu, first, addresses);
            }
            self.builder.turn(node, first, addresses, kinds)?;
        }
        Ok(())
    }
}

impl Build<'_> {
    /// Adds references that are looked at.
    fn add(&mut self, turn: Turn<'_>) {
        if self.error.is_some() || self.full {
            return;
        }
        self.error = match (&mut self.misses, &mut self.usage) {
            (Some(misses), None) => {
                misses.turn(turn, &mut Asked { to: &mut self.builder, demand: &mut self.demand }).err()
            }
            (Some(misses), Some(usage)) => {
                let to = &mut Counting { builder: &mut self.builder, usage };
                misses.turn(turn, &mut Asked { to, demand: &mut self.demand }).err()
            }
            (None, _) => self.bound(turn).err(),
        };
        self.found += turn.addresses.len() as u64;
        self.unreported += turn.addresses.len() as u64;
        if self.unreported > 1 << 22 {
            self.progress.advance(std::mem::take(&mut self.unreported));
            self.full = self.is_part && self.builder.is_full();
        }
    }
}

impl Build<'_> {
    /// Runs end where a window begins or ends, so that what is counted of it is what is in it.
    fn window(&mut self, thread: Thread, time: Time, event: &Event) {
        let before = self.inside.is_empty();
        match event {
            Event::Window { begins: true, .. } => self.inside.insert(thread),
            Event::Window { begins: false, .. } | Event::ThreadEnd => self.inside.remove(&thread),
            _ => return,
        };
        if self.inside.is_empty() != before {
            self.builder.cut();
        }
        self.windows.extend(Seen::of(thread, time, event));
    }
}

impl Visitor for Build<'_> {
    fn turn(&mut self, turn: Turn<'_>) {
        match self.chooser.take() {
            None => self.add(turn),
            Some(mut chooser) => {
                chooser.choose(turn, |turn| self.add(turn));
                self.chooser = Some(chooser);
            }
        }
    }

    fn event(&mut self, thread: Thread, time: Time, event: &Event) {
        self.window(thread, time, event);
        self.mappings.event(event, self.names, self.forked && time.0 == 0);
        let binding = self.binding;
        self.builder.event(time, event, || binding.node_at(thread, time).0);
        if let Event::Mark { name, .. } = event {
            self.marks.push((time, *name));
            let text = self.names.get(*name);
            self.chooser.iter_mut().for_each(|chooser| chooser.mark(text));
            if text != ITERATION {
                self.usage.iter_mut().for_each(|usage| usage.begin_phase(time, *name));
            }
        }
    }

    fn lost(&mut self, _first: Time, references: u64, reason: &str) {
        if self.lost == 0 {
            self.why = reason.to_owned();
        }
        self.lost += references;
    }
}
