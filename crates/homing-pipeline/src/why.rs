//! Why a program pays for memory that is not uniform: the diagnosis of a trace ([`homing_core::why`]).

mod alternatives;
mod doubt;
mod known;
mod page;
mod reading;
pub mod sampled;
mod small;
mod threads;

pub use alternatives::judge_trace;
pub use page::{of_model, page, NONE_OF_GLOBAL, POLICIES};

use crate::case::Case;
use crate::error::Result;
use crate::experiment::Ready;
use crate::info;
use crate::layout::Layout;
use crate::manifest::GENERATOR;
use crate::model;
use crate::shares::shares;
use homing_core::cache::cpus::CpusInUse;
use homing_core::cache::Counts;
use homing_core::history::{Binding, Busy, ThreadsOn};
use homing_core::ids::Node;
use homing_core::policy::placement::Placement;
use homing_core::report::why::{Basis, WhyReport, Working};
use homing_core::time::Times;
use homing_core::why::doubt::Doubt;
use homing_core::why::facts::{facts, INTERVALS};
use homing_core::why::verdict::Cause;
use homing_core::why::{self, CpuCounts};
use homing_core::windows::{still, Still};
use homing_trace::Trace;
use known::{Known, Need};

/// The policy whose moves stand for pages that follow their users.
const FOLLOWS: &str = "homing";

/// Diagnoses a trace as the experiment lays it out, with one copy a page: one of [`crate::honest::Asked::today`]. The
/// range of the gain also covers threads in blocks, where they are spread in turn.
///
/// # Errors
/// If a history cannot be read back.
pub fn diagnose(case: &Case<'_>) -> Result<WhyReport> {
    judge(case, true)
}

/// As [`diagnose`]; `vary`: whether the range covers threads in blocks.
fn judge(case: &Case<'_>, vary: bool) -> Result<WhyReport> {
    let Case { ready, layout, trace, .. } = case;
    let times = Times::new(&ready.machine, ready.page_size);
    let known = Known::of(case, Need::ALL)?;
    let setup = known.setup(case, times.as_ref().ok());
    let cpus = &known.cpus;
    let mut diagnosis = why::diagnose(&setup);
    let mut notes = layout.notes.clone();
    notes.extend(times.as_ref().err().map(|error| format!("gains are not of time: {error}")));
    if diagnosis.cause != Cause::NotNuma {
        if let Some(cpus) = on_one_node(case, &known.by_cpu)? {
            diagnosis.on_one_node(&setup, &cpus);
        }
    }
    let busy = crate::threads::busy(trace);
    let mut doubt = doubt::doubt(case, &setup, &busy, diagnosis.cause);
    // Where it does not matter where any page is, nor does it where threads are.
    let all: Vec<usize> = (0..known.facts.len()).collect();
    let vary = vary && (diagnosis.cause != Cause::NotNuma || why::sensitivity(&setup, &all) >= why::NOTHING);
    if vary && doubt.is_none() {
        match threads::in_blocks(case, &mut diagnosis, times.as_ref().ok())? {
            threads::Blocks::Same => {}
            threads::Blocks::Note(note) => notes.push(note),
            threads::Blocks::Cause(cause, gain) => {
                doubt = Some(Doubt::Threads { cause, percent: 100.0 * gain });
            }
        }
    }
    let shares = shares(case, &known.facts)?;
    notes.extend(known.notes(&diagnosis));
    let threads = trace.threads().count() as u64;
    let mut parameters = ready.parameters(false);
    parameters.push(info::parameter("threads", threads));
    let basis = Basis {
        generator: GENERATOR.into(),
        behind_caches: layout.caches.is_some(),
        replication: false,
        shares,
        threads_on: ready.experiment.model.threads_on(&ready.machine).to_string(),
        nodes_in_use: nodes_of(cpus.iter().map(|cpu| cpu.node)),
        cpus_of_node_0: cpus_of_node_0(ready),
        machine: ready.machine_info(),
        trace: case.trace_info(),
        parameters,
        notes,
        sampled: None,
        process: Vec::new(),
        busy: Some(working(case, &busy)),
        doubt,
    };
    let references = layout.history.duration().0;
    let report = WhyReport::new(&diagnosis, basis).with_timelines(&diagnosis, &known.facts, references);
    Ok(report.with_program(of_program(case, &known)?))
}

/// Which threads work, and which nodes they reach.
fn working(case: &Case<'_>, busy: &Busy) -> Working {
    let nodes = nodes_of(model::cpu_nodes(&case.ready.machine).into_iter());
    let reached = nodes_of(busy.threads().map(|thread| case.layout.binding.node(thread)));
    Working { threads: busy.count() as u64, alone: doubt::one_works(busy), reached, nodes }
}

/// What windows say of the whole program, if the trace is of windows.
fn of_program(case: &Case<'_>, known: &Known) -> Result<Option<Still>> {
    let Case { ready, trace, layout, .. } = case;
    if !layout.windows.is_empty() {
        let homes: Vec<Node> = known.facts.iter().map(|page| page.home).collect();
        return Ok(still(&layout.history, &layout.windows, &layout.costs, &homes)?);
    }
    let mut experiment = ready.experiment.clone();
    if trace.header().windows().is_none() || !experiment.model.misses || !experiment.choice.is_everything() {
        return Ok(None);
    }
    // Caches hold at the start of a window what they held at the end of the one before: every reference, then.
    experiment.model.misses = false;
    let layout = experiment.ready(|_| Ok(Vec::new()))?.lay_out(trace, ready.page_size, None)?;
    if layout.windows.is_empty() {
        return Ok(None);
    }
    let placement = layout.placement.clone().unwrap_or(Placement::FirstTouch);
    let homes =
        facts(&layout.history, &layout.costs, &placement)?.iter().map(|page| page.home).collect::<Vec<_>>();
    Ok(still(&layout.history, &layout.windows, &layout.costs, &homes)?)
}

/// The CPUs that threads run on, with what their caches counted in a layout.
fn cpus_in_use(case: &Case<'_>, layout: &Layout, by_cpu: &[[u64; INTERVALS]]) -> Result<Vec<CpuCounts>> {
    let cpus = model::cpus(&case.trace, &layout.binding);
    Ok(counted(&cpus, layout, by_cpu, made_for_each(&case.trace)))
}

/// `ratio`: references that the program made for each that is in the trace.
fn counted(cpus: &CpusInUse, layout: &Layout, by_cpu: &[[u64; INTERVALS]], ratio: f64) -> Vec<CpuCounts> {
    let counts = |cpu: usize| CpuCounts {
        node: cpus.node(cpu as u16),
        caches: layout
            .caches_by_cpu
            .as_ref()
            .and_then(|caches| caches.get(cpu))
            .map(|counts| with_filtered(counts, ratio))
            .unwrap_or_default(),
        references: by_cpu.get(cpu).copied().unwrap_or([0; INTERVALS]),
        demand: layout.demand.in_intervals(cpu, layout.history.duration()),
    };
    (0..cpus.cpus().len()).map(counts).collect()
}

/// With the references that the recorder's filter left out, which are hits: they are spread over CPUs as the others.
fn with_filtered(counts: &Counts, ratio: f64) -> Counts {
    Counts { references: (counts.references as f64 * ratio) as u64, ..*counts }
}

/// References that the program made for each that is in its trace: above 1 if a filter left some out.
fn made_for_each(trace: &Trace<'_>) -> f64 {
    let summary = trace.summary();
    1.0 + summary.filtered as f64 / (summary.references as f64).max(1.0)
}

fn nodes_of(cpus: impl Iterator<Item = Node>) -> u64 {
    let mut nodes: Vec<Node> = cpus.collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes.len() as u64
}

/// What the caches of the CPUs count if all threads run on one node; nothing if they do so now, or do not fit, or there
/// are no caches.
fn on_one_node(case: &Case<'_>, by_cpu: &[[u64; INTERVALS]]) -> Result<Option<Vec<CpuCounts>>> {
    let Case { ready, trace, layout, .. } = case;
    let mut experiment = ready.experiment.clone();
    let spread = &layout.binding;
    experiment.model.threads_on = Some(ThreadsOn::Fill);
    let filled = experiment.model.binding(&ready.machine, trace)?;
    let (now, then) = (model::cpus(trace, spread), model::cpus(trace, &filled));
    let nodes = |cpus: &CpusInUse| nodes_of((0..cpus.cpus().len() as u16).map(|cpu| cpus.node(cpu)));
    let fit = nodes(&then) == 1 && then.cpus().len() == trace.threads().count();
    if layout.caches.is_none() || !fit || nodes(&now) == 1 || now.cpus().len() != then.cpus().len() {
        return Ok(None);
    }
    let gathered = experiment.ready(|_| Ok(Vec::new()))?.lay_out(trace, ready.page_size, None)?;
    // Threads keep what they do when; only their CPUs are others.
    let mut moved = vec![[0; INTERVALS]; by_cpu.len()];
    for (thread, _) in trace.threads() {
        let at = |binding: &Binding, cpus: &CpusInUse| {
            cpus.cpus().iter().position(|&cpu| cpu == binding.cpu(thread))
        };
        if let (Some(from), Some(to)) = (at(spread, &now), at(&filled, &then)) {
            moved[to] = by_cpu[from];
        }
    }
    Ok(Some(counted(&then, &gathered, &moved, made_for_each(trace))))
}

/// The CPUs of node 0, as lists have them.
fn cpus_of_node_0(ready: &Ready) -> String {
    cpus_list(ready.machine.cpus_of(Node(0)))
}

fn cpus_list(count: u16) -> String {
    match count {
        0 | 1 => "0".into(),
        count => format!("0-{}", count - 1),
    }
}
