//! Why a program pays for memory that is not uniform: the diagnosis of a trace ([`homing_core::why`]).

mod page;

pub use page::{of_model, page, NONE_OF_GLOBAL, POLICIES};

use crate::case::Case;
use crate::error::Result;
use crate::experiment::Experiment;
use crate::info;
use crate::manifest::GENERATOR;
use crate::model;
use crate::policies::policy;
use homing_core::areas::{name_pages, Areas};
use homing_core::compare::Subject;
use homing_core::history::{History, ThreadsOn};
use homing_core::ids::Page;
use homing_core::policy::placement::Placement;
use homing_core::report::why::{Basis, WhyReport};
use homing_core::time::Times;
use homing_core::why::{self, Setup};

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

/// Diagnoses a trace as the experiment lays it out, with one copy a page: an [`honest`] one, unless the caller says
/// otherwise ([`of_model`]).
///
/// # Errors
/// If a history cannot be read back.
pub fn diagnose(case: &Case<'_>) -> Result<WhyReport> {
    let Case { ready, layout, trace, .. } = case;
    let areas = areas(case, &layout.history);
    let cpus = cpus_in_use(case)?;
    let times = Times::new(&ready.machine, &layout.costs);
    let one_copy = Subject { replication: false, ..case.subject() };
    let follows = one_copy.simulate(policy(FOLLOWS)?, false)?;
    let placement = layout.placement.clone().unwrap_or(Placement::FirstTouch);
    let setup = Setup {
        history: &layout.history,
        costs: &layout.costs,
        areas: &areas,
        placement: &placement,
        cpus: &cpus,
        times: times.as_ref().ok().zip(layout.caches.as_ref()),
        migrated: Some(&follows.page_costs),
    };
    let diagnosis = why::diagnose(&setup)?;
    let mut notes = layout.notes.clone();
    notes.extend(times.as_ref().err().map(|error| format!("gains are not of time: {error}")));
    if diagnosis.untried > 0 {
        notes.push(format!("no remedy was tried for the {} areas with least to avoid", diagnosis.untried));
    }
    let threads = trace.threads().count() as u64;
    let mut parameters = ready.parameters(false);
    parameters.push(info::parameter("threads", threads));
    let basis = Basis {
        generator: GENERATOR.into(),
        behind_caches: layout.caches.is_some(),
        replication: false,
        threads_on: ready.experiment.model.threads_on.to_string(),
        nodes_in_use: cpus.iter().filter(|&&cpus| cpus > 0).count() as u64,
        machine: ready.machine_info(),
        trace: case.trace_info(),
        parameters,
        notes,
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

/// CPUs that threads run on, by node.
fn cpus_in_use(case: &Case<'_>) -> Result<Vec<u32>> {
    let ready = case.ready;
    let binding = ready.experiment.model.binding(&ready.machine)?;
    let mut by_node = vec![0; usize::from(case.layout.costs.memories())];
    let cpus = model::cpus(&case.trace, &binding);
    (0..cpus.cpus().len() as u16).for_each(|cpu| by_node[cpus.node(cpu).index()] += 1);
    Ok(by_node)
}
