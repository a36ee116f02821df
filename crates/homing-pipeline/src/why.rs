//! Why a program pays for memory that is not uniform: the diagnosis of a trace ([`homing_core::why`]).

use crate::case::Case;
use crate::error::Result;
use crate::info;
use crate::model;
use crate::policies::policy;
use homing_core::areas::{name_pages, Areas};
use homing_core::history::{History, ThreadsOn};
use homing_core::ids::Page;
use homing_core::policy::placement::Placement;
use homing_core::report::Parameter;
use homing_core::time::Times;
use homing_core::why::{self, Diagnosis, Setup};

/// The policy whose moves stand for pages that follow their users.
const FOLLOWS: &str = "homing";

/// A diagnosis, and what a reader of it must know.
pub struct Answer {
    /// What is wrong, where, and what helps.
    pub diagnosis: Diagnosis,
    /// Nodes that threads run on.
    pub nodes_in_use: usize,
    /// How threads were spread.
    pub threads_on: ThreadsOn,
    /// References went through caches first.
    pub behind_caches: bool,
    /// What else a reader must know.
    pub notes: Vec<String>,
    /// What it was made of.
    pub parameters: Vec<Parameter>,
}

/// Diagnoses a trace; the experiment must be one of [`crate::honest::Asked::today`].
///
/// # Errors
/// If a history cannot be read back.
pub fn diagnose(case: &Case<'_>) -> Result<Answer> {
    let Case { ready, layout, trace, .. } = case;
    let areas = areas(case, &layout.history);
    let cpus = cpus_in_use(case)?;
    let times = Times::new(&ready.machine, &layout.costs);
    let follows = case.subject().simulate(policy(FOLLOWS)?, false)?;
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
    Ok(Answer {
        diagnosis,
        nodes_in_use: cpus.iter().filter(|&&cpus| cpus > 0).count(),
        threads_on: ready.experiment.model.threads_on.clone(),
        behind_caches: layout.caches.is_some(),
        notes,
        parameters,
    })
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
