//! Traces laid over machines: page histories, and what happens besides references.

mod build;
mod demand;

use crate::chosen::ITERATION;
use crate::error::Result;
use crate::experiment::Experiment;
use crate::mappings::Mappings;
use crate::model;
use crate::placement::Begins;
use crate::progress::Unit;
use crate::windows;
use build::Runs;
use demand::Demand;
use homing_core::cache::Counts;
use homing_core::history::{Binding, History};
use homing_core::ids::{Node, PageSize, Time};
use homing_core::machine::{Costs, Machine, TimePrices};
use homing_core::policy::placement::Placement;
use homing_core::timeline::{Mark, Timeline};
use homing_core::why::parts::PageUsage;
use homing_core::windows::Windows;
use homing_trace::{NameId, Trace, TraceError};

/// A trace laid over a machine at one page size.
pub struct Layout {
    /// The machine's costs at that page size.
    pub costs: Costs,
    /// All prices in time, if costs are in time.
    pub prices: Option<TimePrices>,
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
    /// ... of each CPU that threads run on, in the order of [`model::cpus`].
    pub caches_by_cpu: Option<Vec<Counts>>,
    /// ... and when each of these asks memories for what its caches do not hold.
    pub demand: Demand,
    /// What happens besides references.
    pub timeline: Timeline,
    /// Its windows, if it is of windows of a program and tells of the whole.
    pub windows: Windows,
    /// Where pages begin, if the user said it.
    pub placement: Option<Placement>,
    /// Who refers to what in which phase, if that was asked.
    pub usage: Option<PageUsage>,
    /// Where threads run.
    pub binding: Binding,
    /// What the program has mapped.
    pub mappings: Mappings,
}

impl Layout {
    /// How many of the notes, the first ones, are on the trace. The last one says what caches did, if there are any.
    pub fn notes_on_trace(&self) -> usize {
        self.notes.len() - usize::from(self.caches.is_some())
    }

    /// Lays `trace` over `machine`. `read_gap`: the most reads in a page run, for sweeps; else what is exact for
    /// the machine.
    pub(crate) fn new(
        experiment: &Experiment,
        machine: &Machine,
        begins: Option<&Begins>,
        trace: &Trace<'_>,
        page_size: PageSize,
        read_gap: Option<u32>,
    ) -> Result<Layout> {
        check_region(trace)?;
        check_grain(trace, experiment, page_size)?;
        let Experiment { model, scene, choice, usage, progress, .. } = experiment;
        choice.check_threads(trace)?;
        let costs = model.costs(machine, page_size)?;
        let read_gap = costs.read_gap().min(read_gap.unwrap_or(u32::MAX));
        let mut binding = model.binding(machine, trace)?;
        let scheduled = scene.schedule(trace, machine, &mut binding)?;
        let in_use = model::cpus(trace, &binding).cpus().len();
        let prices = model.time_prices(machine, page_size, in_use)?;
        let misses = model.misses.then(|| model::misses(machine, trace, &binding, page_size)).transpose()?;
        let progress = progress.begin(trace.references(), Unit::References, "page runs");
        let runs = Runs {
            binding: &binding,
            page_size,
            read_gap,
            memory: model.memory,
            choice,
            usage: *usage,
            progress: &*progress,
        };
        let built = runs.of(trace, misses)?;
        choice.check_phase(trace, built.marks.iter().map(|&(_, name)| name))?;
        if built.found == 0 {
            return Err(nothing_found(trace, built.lost, built.why).into());
        }
        let (history, lost, caches_by_cpu) = (built.history, built.lost, built.caches);
        let caches = caches_by_cpu.as_ref().map(Counts::sum);
        let partial = lost > 0 || trace.is_partial();
        let mut notes: Vec<String> =
            of_region(trace).into_iter().chain(of_attached(trace)).chain(of_grain(trace)).collect();
        notes.extend(of_program(trace));
        notes.extend(windows::note(trace));
        let (windows, unordered) = windows::of_program(experiment, &built.windows);
        notes.extend(unordered);
        notes.extend(self::notes(trace, &binding, lost, partial));
        notes.extend(built.chosen);
        // The last: `notes_on_trace` leaves it out.
        notes.extend(caches.as_ref().map(filtered));
        let mut marks = marks(trace, &built.marks);
        marks.extend(scheduled);
        let timeline = scene.timeline(marks, history.duration());
        let placement = begins.map(|begins| begins.of(trace, &history).into_owned());
        let usage = built.usage;
        Ok(Layout {
            costs,
            prices,
            history,
            lost,
            partial,
            notes,
            caches,
            caches_by_cpu,
            demand: built.demand,
            timeline,
            windows,
            placement,
            usage,
            binding,
            mappings: built.mappings,
        })
    }
}

/// Fails if the trace is of a region of interest that never began, or all of it was skipped: its first touches would
/// look like a program.
fn check_region(trace: &Trace<'_>) -> Result<()> {
    let summary = trace.summary();
    if summary.first_touches == 0 || summary.first_touches < summary.references {
        return Ok(());
    }
    match (skipped(trace), region_end(trace, "from")) {
        (Some(skip), _) if summary.skipped > 0 => Err(TraceError::AllSkipped(skip).into()),
        (_, Some(from)) => Err(TraceError::NoRegion(from.to_owned()).into()),
        _ => Ok(()),
    }
}

/// How many references the recording was to leave out at the start, if any.
fn skipped(trace: &Trace<'_>) -> Option<u64> {
    trace.header().more.get("skip")?.as_u64().filter(|skip| *skip > 0)
}

/// The function that begins or ends the region of interest, if the trace is of one.
fn region_end<'a>(trace: &'a Trace<'_>, end: &str) -> Option<&'a str> {
    trace.header().more.get(end)?.as_str()
}

/// What a reader must know of a trace of a process that ran before.
fn of_attached(trace: &Trace<'_>) -> Option<String> {
    trace.header().more.get("attached")?.as_bool()?.then(|| {
        "the process was recorded while it ran (--pid): who touched pages first before that is not known, so the first \
         user in the recording counts as that, and allocations from before have no names"
            .to_owned()
    })
}

/// Fails if the trace has the addresses of pages alone, and smaller pages or caches are asked for.
fn check_grain(trace: &Trace<'_>, experiment: &Experiment, page_size: PageSize) -> Result<()> {
    if page_size.bytes() < trace.header().grain.bytes() {
        let needs = format!("pages of {} bytes need", page_size.bytes());
        trace.check_exact(needs, "take --page-size 4K or more, or record with --grain byte")?;
    }
    if experiment.model.misses {
        check_lines(trace)?;
    }
    Ok(())
}

/// Fails if the trace has the addresses of pages alone, which caches can do nothing with.
pub(crate) fn check_lines(trace: &Trace<'_>) -> Result<()> {
    let advice = "count every reference (without --misses and --monitor), or record with --grain byte";
    Ok(trace.check_exact("caches need", advice)?)
}

/// What a reader must know of a trace with the addresses of pages alone.
fn of_grain(trace: &Trace<'_>) -> Option<String> {
    (!trace.header().grain.is_exact()).then(|| {
        "the trace has the addresses of pages alone (--grain page): every reference counts, caches and cache lines \
         are left out"
            .to_owned()
    })
}

/// What a reader must know of a trace of the program's own code alone.
fn of_program(trace: &Trace<'_>) -> Option<String> {
    let only = trace.header().more.get("only_program")?.as_bool()?;
    only.then(|| {
        "the trace has the references of the program's own code alone (--only-program): what library functions such as \
         memset and memcpy refer to is left out, also where they are the first to a page"
            .to_owned()
    })
}

/// What a reader must know of a trace of a region.
fn of_region(trace: &Trace<'_>) -> Option<String> {
    let option = |end: &str| region_end(trace, end).map(|function| format!("--{end} {function}"));
    let mut options: Vec<String> = ["from", "to"].into_iter().filter_map(option).collect();
    options.extend(skipped(trace).map(|skip| format!("--skip {skip}")));
    let summary = trace.summary();
    (!options.is_empty()).then(|| {
        format!(
            "the trace is of a region ({}): at least {} references outside of it are left out; {} stay that are the \
             first to their pages, since pages begin where they are first touched",
            options.join(" "),
            summary.outside + summary.skipped,
            summary.first_touches,
        )
    })
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

/// What a reader of the results must know of a trace and of where its threads run.
fn notes(trace: &Trace<'_>, binding: &Binding, lost: u64, partial: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(missing) = trace.header().recovered_lost() {
        notes.push(format!(
            "the trace is what `homing trace recover` found of a damaged or unfinished one: the program did more than \
             is in it ({missing} references are known to be missing)"
        ));
    } else if partial {
        let lost = match lost {
            0 => "no reference is lost".to_owned(),
            lost => format!("{lost} references are lost and are not counted"),
        };
        notes.push(format!(
            "the trace is damaged or unfinished: {lost}; `homing trace info` says where, `homing trace recover` makes \
             a whole trace of what is there"
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
        "behind caches: of {} references {:.2} % missed the first level and {:.3} % reached memory ({} fetches, {} \
         upgrades; {} write-backs not counted among them); {:.3} % missed the TLBs. Pages have one copy, as writes \
         that hit are not seen",
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
        if trace.names().get(name) == ITERATION {
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
