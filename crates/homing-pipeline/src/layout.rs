//! Traces laid over machines: page histories, and what happens besides references.

use crate::error::{PipelineError, Result};
use crate::model::{frames, Model};
use crate::placement::Begins;
use crate::progress::{Bar, Show};
use crate::scene::Scene;
use crate::spill::SpillFile;
use homing_core::cache::misses::Misses;
use homing_core::cache::Counts;
use homing_core::history::{Binding, History, HistoryBuilder, Options, Spill, SpillError};
use homing_core::ids::{Node, PageSize, Thread, Time};
use homing_core::machine::{Costs, Machine};
use homing_core::policy::placement::Placement;
use homing_core::timeline::{Mark, Timeline};
use homing_trace::{Event, NameId, Trace, TraceError, Turn, Visitor};
use rayon::prelude::*;
use std::ops::Range;

/// A trace laid over a machine at one page size.
pub struct Layout {
    /// The machine's costs at that page size.
    pub costs: Costs,
    /// The page runs.
    pub history: History,
    /// References that damage in the file has lost.
    pub lost: u64,
    /// The file is damaged or unfinished.
    pub partial: bool,
    /// What a reader of the results must know.
    pub notes: Vec<String>,
    /// What the caches counted, if references went through them.
    pub caches: Option<Counts>,
    /// What happens besides references.
    pub timeline: Timeline,
    /// Where pages begin, if the user said it.
    pub placement: Option<Placement>,
}

impl Layout {
    /// Lays `trace` over `machine`. `read_gap`: at most this, for sweeps; else what is exact for the machine.
    pub fn new(
        model: &Model,
        scene: &Scene,
        machine: &Machine,
        trace: &Trace<'_>,
        page_size: PageSize,
        read_gap: Option<u32>,
    ) -> Result<Layout> {
        let costs = machine.costs(page_size).map_err(PipelineError::usage)?;
        let gap = costs.read_gap().min(read_gap.unwrap_or(u32::MAX));
        let mut binding = model.binding(machine)?;
        let scheduled = scene.schedule(trace, machine, &mut binding)?;
        let misses =
            model.misses.then(|| crate::model::misses(machine, trace, &binding, page_size)).transpose()?;
        let Laid { history, lost, partial, notes, caches, mut marks } =
            lay(trace, &binding, page_size, gap, model.memory, misses, model.show)?;
        marks.extend(scheduled);
        let timeline = scene.timeline(marks, history.duration());
        Ok(Layout { costs, history, lost, partial, notes, caches, timeline, placement: None })
    }

    /// The same with pages that begin as the user said.
    pub fn begun(mut self, begins: Option<&Begins>, trace: &Trace<'_>) -> Layout {
        self.placement = begins.map(|begins| begins.of(trace, &self.history).into_owned());
        self
    }
}

/// A trace laid over a machine.
pub struct Laid {
    /// The page runs.
    pub history: History,
    /// References that damage in the file has lost.
    pub lost: u64,
    /// The file is damaged or unfinished.
    pub partial: bool,
    /// What a reader of the results must know.
    pub notes: Vec<String>,
    /// What the caches counted, if references went through them.
    pub caches: Option<Counts>,
    /// Iterations and phases that the program marked.
    pub marks: Vec<(Time, Mark)>,
}

/// Builds the page histories of a trace: of all its references, or of those that get past `misses`. Without caches, whose
/// state goes through the whole trace, parts of the trace are read at the same time.
pub fn lay(
    trace: &Trace<'_>,
    binding: &Binding,
    page_size: PageSize,
    read_gap: u32,
    memory: u64,
    misses: Option<Misses>,
    show: Show,
) -> Result<Laid> {
    let frames = frames(trace);
    let progress = show(trace.references(), "page runs");
    let options = |budget, spill| Options { page_size, read_gap, budget, spill };
    let new = |builder, is_part| Build::new(binding, &*progress, builder, is_part, &frames);
    let parts = match misses {
        None => trace.parts(rayon::current_num_threads()),
        Some(_) => Vec::new(),
    };
    let mut built = None;
    if parts.len() > 1 {
        let budget = memory / parts.len() as u64;
        let part = |(number, range): (usize, Range<usize>)| {
            let builder = if number == 0 { HistoryBuilder::new } else { HistoryBuilder::continuing };
            let mut build = new(builder(options(budget, None)), true);
            trace.visit(range, &mut build)?;
            Ok::<_, PipelineError>((!build.full).then_some(build))
        };
        let parts: Option<Vec<Build<'_>>> =
            parts.into_par_iter().enumerate().map(part).collect::<Result<_>>()?;
        built = parts.into_iter().flatten().reduce(Build::followed_by);
    }
    // What does not fit into memory is read once more, in one go, with a file to spill to.
    let mut build = match built {
        Some(build) => build,
        None => {
            progress.restart();
            let spill = Some(Box::new(SpillFile::new()) as Box<dyn Spill>);
            let mut build = new(HistoryBuilder::new(options(memory, spill)), false);
            build.misses = misses;
            trace.visit_all(&mut build)?;
            build
        }
    };
    if let Some(error) = build.error {
        return Err(error.into());
    }
    if build.found == 0 {
        return Err(nothing_found(trace, build.lost, build.why).into());
    }
    let caches = build.misses.map(|misses| misses.finish(&mut build.builder)).transpose()?;
    let (history, lost) = (build.builder.finish(&frames)?, build.lost);
    let partial = lost > 0 || !trace.complete() || !trace.damage().is_empty();
    let mut notes = notes(trace, binding, lost, partial);
    notes.extend(caches.as_ref().map(filtered));
    Ok(Laid { history, lost, partial, notes, caches, marks: marks(trace, &build.marks) })
}

/// The error of a trace of which no reference can be read: a table of zeros would look like a result.
fn nothing_found(trace: &Trace<'_>, lost: u64, reason: String) -> TraceError {
    if lost == 0 {
        return TraceError::NoReferences;
    }
    let advice = match trace.damaged_blocks() {
        0 => "only the order of its references is damaged: `homing trace merge TRACE -o NEW` makes another",
        _ => "`homing trace info` says where it is damaged, `homing trace recover TRACE -o NEW` keeps what is whole",
    };
    TraceError::NothingLeft { lost, reason, advice }
}

fn notes(trace: &Trace<'_>, binding: &Binding, lost: u64, partial: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if partial {
        let lost = match lost {
            0 => "no reference is lost".to_owned(),
            lost => format!("{lost} references are lost and are not counted"),
        };
        notes.push(format!(
            "the trace is damaged or unfinished: {lost}; `homing trace info` says where, `homing trace recover` makes a \
             whole trace of what is there"
        ));
    }
    let mut nodes: Vec<Node> = trace.threads().map(|(thread, _)| binding.node(thread)).collect();
    let threads = nodes.len();
    nodes.sort_unstable();
    nodes.dedup();
    if threads > 1 && nodes.len() == 1 {
        notes.push(format!(
            "all {threads} threads run on node {}, so that every page can be local to all of them; `--threads-on \
             one-per-node` spreads them over the machine",
            nodes[0]
        ));
    }
    notes
}

/// What the caches let through, in words.
fn filtered(counts: &Counts) -> String {
    let share = |part: u64, of: u64| 100.0 * part as f64 / (of as f64).max(1.0);
    format!(
        "behind caches: of {} references {:.2} % missed the first level and {:.3} % reached memory ({} fetches, {} upgrades; \
         {} write-backs not counted among them); {:.3} % missed the TLBs. Pages have one copy, as writes that hit are not seen",
        counts.references,
        share(counts.l1_misses, counts.references),
        share(counts.demand(), counts.references),
        counts.fetches_read + counts.fetches_write,
        counts.upgrades,
        counts.write_backs,
        share(counts.tlb_misses, counts.references),
    )
}

/// Iterations and phases as a program marks them: a mark named `iteration` ends one, any other begins the phase of its
/// name.
fn marks(trace: &Trace<'_>, named: &[(Time, NameId)]) -> Vec<(Time, Mark)> {
    let mut names: Vec<NameId> = Vec::new();
    let mark = |&(time, name): &(Time, NameId)| {
        if trace.names().get(name) == "iteration" {
            return (time, Mark::IterationEnd);
        }
        let phase = names.iter().position(|&known| known == name).unwrap_or_else(|| {
            names.push(name);
            names.len() - 1
        });
        (time, Mark::PhaseBegin(phase as u32))
    };
    named.iter().map(mark).collect()
}

/// Builds the histories of a trace, or of a part of it.
struct Build<'a> {
    builder: HistoryBuilder,
    binding: &'a Binding,
    misses: Option<Misses>,
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
    progress: &'a dyn Bar,
    unreported: u64,
}

impl<'a> Build<'a> {
    fn new(
        binding: &'a Binding,
        progress: &'a dyn Bar,
        mut builder: HistoryBuilder,
        is_part: bool,
        frames: &[u64],
    ) -> Build<'a> {
        builder.group_frames(frames);
        Build {
            builder,
            binding,
            misses: None,
            error: None,
            is_part,
            full: false,
            found: 0,
            lost: 0,
            why: String::new(),
            marks: Vec::new(),
            progress,
            unreported: 0,
        }
    }

    /// Adds what comes after this part.
    fn followed_by(mut self, later: Build<'a>) -> Build<'a> {
        self.builder.append(later.builder);
        self.found += later.found;
        self.lost += later.lost;
        self.marks.extend(later.marks);
        self
    }
}

impl Build<'_> {
    /// Adds references where their thread runs at their Time.
    fn bound(&mut self, turn: Turn<'_>) -> std::result::Result<(), SpillError> {
        let mut done = 0;
        while done < turn.addresses.len() {
            let first = Time(turn.first.0 + done as u64);
            let (node, until) = self.binding.node_at(turn.thread, first);
            let rest = turn.addresses.len() - done;
            let part = done..done + until.map_or(rest, |until| rest.min((until.0 - first.0) as usize));
            self.builder.turn(node, first, &turn.addresses[part.clone()], &turn.kinds[part.clone()])?;
            done = part.end;
        }
        Ok(())
    }
}

impl Visitor for Build<'_> {
    fn turn(&mut self, turn: Turn<'_>) {
        if self.error.is_some() || self.full {
            return;
        }
        self.error = match &mut self.misses {
            Some(misses) => misses.turn(turn, &mut self.builder).err(),
            None => self.bound(turn).err(),
        };
        self.found += turn.addresses.len() as u64;
        self.unreported += turn.addresses.len() as u64;
        if self.unreported > 1 << 22 {
            self.progress.advance(std::mem::take(&mut self.unreported));
            self.full = self.is_part && self.builder.is_full();
        }
    }

    fn event(&mut self, _thread: Thread, time: Time, event: &Event) {
        if let Event::Mark { name, .. } = event {
            self.marks.push((time, *name));
        }
    }

    fn lost(&mut self, _first: Time, references: u64, reason: &str) {
        if self.lost == 0 {
            self.why = reason.to_owned();
        }
        self.lost += references;
    }
}
