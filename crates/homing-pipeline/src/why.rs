//! Why a program pays for memory that is not uniform: the diagnosis of a trace ([`homing_core::why`]).

mod lines;
pub mod sampled;

use crate::case::Case;
use crate::error::Result;
use crate::experiment::{Experiment, Ready};
use crate::info;
use crate::manifest::GENERATOR;
use crate::model;
use crate::policies::policy;
use homing_core::areas::{name_pages, Areas};
use homing_core::cache::cpus::CpusInUse;
use homing_core::cache::Counts;
use homing_core::history::{History, ThreadsOn};
use homing_core::ids::{Node, Page};
use homing_core::policy::placement::Placement;
use homing_core::report::why::{Basis, WhyReport};
use homing_core::time::Times;
use homing_core::why::facts::facts;
use homing_core::why::verdict::Cause;
use homing_core::why::{self, CpuCounts, Setup};

/// The policy whose moves stand for pages that follow their users.
const FOLLOWS: &str = "homing";

/// The experiment as programs meet it: through caches where the machine has any, one copy a page, and threads spread
/// over the nodes, unless the user said where they run.
///
/// # Errors
/// If the machine is unknown or makes no sense.
pub fn honest(mut experiment: Experiment, threads_on: Option<ThreadsOn>) -> Result<Experiment> {
    let machine = experiment.model.machine(crate::policies::is_machine)?;
    let page_size = experiment.model.page_size(&machine);
    experiment.model.misses = machine.hierarchy(page_size).is_ok_and(|shape| shape.is_some());
    experiment.model.threads_on = threads_on.unwrap_or(ThreadsOn::RoundRobin);
    experiment.replication = false;
    Ok(experiment)
}

/// Diagnoses a trace; the experiment must be an [`honest`] one.
///
/// # Errors
/// If a history cannot be read back.
pub fn diagnose(case: &Case<'_>) -> Result<WhyReport> {
    let Case { ready, layout, trace, .. } = case;
    let areas = areas(case, &layout.history);
    let cpus = cpus_in_use(case)?;
    let times = Times::new(&ready.machine, &layout.costs);
    let follows = case.subject().simulate(policy(FOLLOWS)?, false)?;
    let placement = layout.placement.clone().unwrap_or(Placement::FirstTouch);
    let mut facts = facts(&layout.history, &layout.costs, &placement)?;
    let nodes = usize::from(layout.costs.memories() - u16::from(layout.costs.global_node().is_some()));
    let unwatched = lines::watch(case, nodes, &mut facts)?;
    let setup = Setup {
        facts: &facts,
        costs: &layout.costs,
        areas: &areas,
        cpus: &cpus,
        // Times need what caches let through.
        times: times.as_ref().ok().filter(|_| layout.caches.is_some()),
        behind_caches: layout.caches.is_some(),
        migrated: Some(&follows.page_costs),
    };
    let mut diagnosis = why::diagnose(&setup);
    if diagnosis.cause != Cause::NotNuma {
        if let Some(cpus) = on_one_node(case)? {
            diagnosis.on_one_node(&setup, &cpus);
        }
    }
    let mut notes = layout.notes.clone();
    notes.extend(times.as_ref().err().map(|error| format!("gains are not of time: {error}")));
    if diagnosis.untried > 0 {
        notes.push(format!("no remedy was tried for the {} areas with least to avoid", diagnosis.untried));
    }
    if unwatched > 0 {
        notes.push(format!(
            "the lines of {unwatched} pages that several nodes write were not looked at: no memory"
        ));
    }
    let threads = trace.threads().count() as u64;
    let mut parameters = ready.parameters(false);
    parameters.push(info::parameter("threads", threads));
    let basis = Basis {
        generator: GENERATOR.into(),
        behind_caches: layout.caches.is_some(),
        replication: false,
        threads_on: ready.experiment.model.threads_on.to_string(),
        nodes_in_use: nodes_of(&cpus),
        cpus_of_node_0: cpus_of_node_0(ready),
        machine: ready.machine_info(),
        trace: case.trace_info(),
        parameters,
        notes,
        sampled: None,
        process: Vec::new(),
    };
    Ok(WhyReport::new(&diagnosis, basis))
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
    Areas { names: sorted.names, of_page }
}

/// The CPUs that threads run on, with what their caches counted; without caches, they share the references.
fn cpus_in_use(case: &Case<'_>) -> Result<Vec<CpuCounts>> {
    let binding = case.ready.experiment.model.binding(&case.ready.machine)?;
    let cpus = model::cpus(&case.trace, &binding);
    Ok(counted(&cpus, case.layout.caches_by_cpu.as_deref()))
}

fn counted(cpus: &CpusInUse, caches: Option<&[Counts]>) -> Vec<CpuCounts> {
    let counts =
        |cpu: u16| caches.and_then(|caches| caches.get(usize::from(cpu)).copied()).unwrap_or_default();
    (0..cpus.cpus().len() as u16).map(|cpu| CpuCounts { node: cpus.node(cpu), caches: counts(cpu) }).collect()
}

fn nodes_of(cpus: &[CpuCounts]) -> u64 {
    let mut nodes: Vec<_> = cpus.iter().map(|cpu| cpu.node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes.len() as u64
}

/// What the caches of the CPUs count if all threads run on one node; nothing if they do so now, or do not fit, or there
/// are no caches.
fn on_one_node(case: &Case<'_>) -> Result<Option<Vec<CpuCounts>>> {
    let Case { ready, trace, layout, .. } = case;
    let mut experiment = ready.experiment.clone();
    experiment.model.threads_on = ThreadsOn::Fill;
    let binding = experiment.model.binding(&ready.machine)?;
    let cpus = model::cpus(trace, &binding);
    let threads = trace.threads().count();
    let in_one = nodes_of(&counted(&cpus, None)) == 1 && cpus.cpus().len() == threads;
    let spread = nodes_of(&cpus_in_use(case)?) > 1;
    if layout.caches.is_none() || !in_one || !spread {
        return Ok(None);
    }
    let gathered = experiment.ready(|_| Ok(Vec::new()))?.lay_out(trace, ready.page_size, None)?;
    Ok(Some(counted(&cpus, gathered.caches_by_cpu.as_deref())))
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
