//! Why a program pays for memory that is not uniform: the diagnosis of a trace ([`homing_core::why`]).

mod page;
mod reading;
pub mod sampled;

pub use page::{of_model, page, NONE_OF_GLOBAL, POLICIES};

use crate::case::Case;
use crate::error::Result;
use crate::experiment::Ready;
use crate::info;
use crate::manifest::GENERATOR;
use crate::model;
use crate::policies::policy;
use crate::shares::shares;
use homing_core::areas::{name_pages, Areas};
use homing_core::cache::cpus::CpusInUse;
use homing_core::cache::Counts;
use homing_core::compare::Subject;
use homing_core::history::{Binding, History, ThreadsOn};
use homing_core::ids::{Node, Page};
use homing_core::policy::placement::Placement;
use homing_core::report::why::{Basis, WhyReport};
use homing_core::time::Times;
use homing_core::why::facts::{facts, INTERVALS};
use homing_core::why::verdict::Cause;
use homing_core::why::{self, CpuCounts, Setup};
use homing_trace::Trace;
use reading::Reading;

/// The policy whose moves stand for pages that follow their users.
const FOLLOWS: &str = "homing";

/// Diagnoses a trace as the experiment lays it out, with one copy a page: one of [`crate::honest::Asked::today`],
/// unless the caller says otherwise ([`of_model`]).
///
/// # Errors
/// If a history cannot be read back.
pub fn diagnose(case: &Case<'_>) -> Result<WhyReport> {
    let Case { ready, layout, trace, .. } = case;
    let areas = areas(case, &layout.history);
    let times = Times::new(&ready.machine, &layout.costs);
    let one_copy = Subject { replication: false, ..case.subject() };
    let follows = one_copy.simulate(policy(FOLLOWS)?, false)?;
    let placement = layout.placement.clone().unwrap_or(Placement::FirstTouch);
    let mut facts = facts(&layout.history, &layout.costs, &placement)?;
    let nodes = usize::from(layout.costs.memories() - u16::from(layout.costs.global_node().is_some()));
    facts.iter_mut().zip(&follows.page_costs).for_each(|(page, &cost)| page.migrated = Some(cost));
    let Reading { by_cpu, unwatched } = reading::read(case, nodes, &mut facts)?;
    let cpus = cpus_in_use(case, &by_cpu)?;
    let setup = Setup {
        facts: &facts,
        costs: &layout.costs,
        areas: &areas,
        cpus: &cpus,
        // Times need what caches let through.
        times: times.as_ref().ok().filter(|_| layout.caches.is_some()),
        behind_caches: layout.caches.is_some(),
    };
    let mut diagnosis = why::diagnose(&setup);
    if diagnosis.cause != Cause::NotNuma {
        if let Some(cpus) = on_one_node(case, &by_cpu)? {
            diagnosis.on_one_node(&setup, &cpus);
        }
    }
    let shares = shares(case, &facts)?;
    let mut notes = layout.notes.clone();
    notes.extend(times.as_ref().err().map(|error| format!("gains are not of time: {error}")));
    if diagnosis.untried > 0 {
        notes.push(format!("no remedy was tried for the {} areas with least to avoid", diagnosis.untried));
    }
    if unwatched > 0 {
        notes.push(format!(
            "the lines of {unwatched} pages that several nodes use were not looked at for want of memory"
        ));
    }
    let threads = trace.threads().count() as u64;
    let mut parameters = ready.parameters(false);
    parameters.push(info::parameter("threads", threads));
    let basis = Basis {
        generator: GENERATOR.into(),
        behind_caches: layout.caches.is_some(),
        replication: false,
        shares,
        threads_on: ready.experiment.model.threads_on.to_string(),
        nodes_in_use: nodes_of(cpus.iter().map(|cpu| cpu.node)),
        cpus_of_node_0: cpus_of_node_0(ready),
        machine: ready.machine_info(),
        trace: case.trace_info(),
        parameters,
        notes,
        sampled: None,
        process: Vec::new(),
    };
    let references = layout.history.duration().0;
    Ok(WhyReport::new(&diagnosis, basis).with_timelines(&diagnosis, &facts, references))
}

/// The name of each page.
fn areas(case: &Case<'_>, history: &History) -> Areas {
    let address = |page: &u32| history.address(Page(*page));
    let mut pages: Vec<u32> = (0..history.pages()).collect();
    pages.sort_by_key(|page| (address(page), *page));
    let addresses: Vec<u64> = pages.iter().map(address).collect();
    let sorted = name_pages(&case.trace, &addresses, history.page_size().bytes());
    let mut of_page = vec![-1; pages.len()];
    pages.iter().zip(&sorted.of_page).for_each(|(&page, &area)| of_page[page as usize] = area);
    Areas { of_page, ..sorted }
}

/// The CPUs that threads run on, with what their caches counted.
fn cpus_in_use(case: &Case<'_>, by_cpu: &[[u64; INTERVALS]]) -> Result<Vec<CpuCounts>> {
    let binding = case.ready.experiment.model.binding(&case.ready.machine)?;
    let cpus = model::cpus(&case.trace, &binding);
    Ok(counted(&cpus, case.layout.caches_by_cpu.as_deref(), by_cpu, made_for_each(&case.trace)))
}

/// `ratio`: references that the program made for each that is in the trace.
fn counted(
    cpus: &CpusInUse,
    caches: Option<&[Counts]>,
    by_cpu: &[[u64; INTERVALS]],
    ratio: f64,
) -> Vec<CpuCounts> {
    let counts = |cpu: usize| CpuCounts {
        node: cpus.node(cpu as u16),
        caches: caches
            .and_then(|caches| caches.get(cpu))
            .map(|counts| with_filtered(counts, ratio))
            .unwrap_or_default(),
        references: by_cpu.get(cpu).copied().unwrap_or([0; INTERVALS]),
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
    let spread = experiment.model.binding(&ready.machine)?;
    experiment.model.threads_on = ThreadsOn::Fill;
    let filled = experiment.model.binding(&ready.machine)?;
    let (now, then) = (model::cpus(trace, &spread), model::cpus(trace, &filled));
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
        if let (Some(from), Some(to)) = (at(&spread, &now), at(&filled, &then)) {
            moved[to] = by_cpu[from];
        }
    }
    Ok(Some(counted(&then, gathered.caches_by_cpu.as_deref(), &moved, made_for_each(trace))))
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
