//! What a policy would do and cost: the engine with page histories as source and modelled memory as executor.

#[cfg(test)]
mod tests;

use crate::account::Account;
use crate::action::{Action, Entry, Kind, Locations, NodeSet, Outcome};
use crate::engine::{Counts, Engine, Executor, Observation};
use crate::history::{History, SpillError};
use crate::ids::{Node, Page};
use crate::machine::Costs;
use crate::policy::placement::Placement;
use crate::policy::{Policy, Sample};
use rayon::prelude::*;

/// What is simulated.
#[derive(Clone, Copy)]
pub struct Setup<'a> {
    /// The page runs.
    pub history: &'a History,
    /// The machine at the history's page size.
    pub costs: &'a Costs,
    /// Where pages begin.
    pub placement: &'a Placement,
    /// Whether pages may have several copies (never on machines with unequal distances, for which no bound with
    /// replication is known).
    pub replication: bool,
    /// Whether to keep every action.
    pub log: bool,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Simulation {
    /// Counts and cost.
    pub account: Account,
    /// Cost of each page.
    pub page_costs: Vec<f64>,
    /// Node where each page began.
    pub first_homes: Vec<Node>,
    /// Home of each page at the end.
    pub last_homes: Vec<Node>,
    /// Every action in Time order, if they were kept.
    pub log: Vec<Entry>,
    /// What did not go as the policy asked.
    pub counts: Counts,
    /// Pages about which the placement file says nothing.
    pub not_in_file: u64,
}

/// A simulation that cannot be done.
#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    /// Part of the history could not be read back.
    #[error(transparent)]
    Spill(#[from] SpillError),
    /// More memories than location sets hold.
    #[error("the machine has {0} memories; simulation handles at most {max}", max = NodeSet::CAPACITY)]
    TooManyNodes(u16),
    /// The placement names a node that the machine does not have.
    #[error("{0}")]
    Placement(String),
}

/// Pages that one worker takes at a time.
const PAGES_AT_A_TIME: u32 = 256;

/// Simulates `policy` from its present state, which is left alone. The result is the same at any number of workers.
pub fn simulate(setup: &Setup, policy: &dyn Policy) -> Result<Simulation, SimulateError> {
    if setup.costs.memories() > NodeSet::CAPACITY {
        return Err(SimulateError::TooManyNodes(setup.costs.memories()));
    }
    setup.placement.check(setup.costs).map_err(SimulateError::Placement)?;
    let pages = setup.history.pages();
    let parts: Vec<Simulation> = if policy.independent() {
        let chunks = pages.div_ceil(PAGES_AT_A_TIME);
        let chunk = |index: u32| {
            let first = index * PAGES_AT_A_TIME;
            page_by_page(setup, policy, first, pages.min(first + PAGES_AT_A_TIME))
        };
        (0..chunks).into_par_iter().map(chunk).collect::<Result<_, _>>()?
    } else {
        vec![in_time_order(setup, policy)?]
    };
    let mut all = Simulation::default();
    parts.into_iter().for_each(|part| all.append(part));
    all.log.sort_by_key(|entry| (entry.time, entry.action.page));
    Ok(all)
}

impl Simulation {
    fn append(&mut self, mut part: Simulation) {
        self.account.add(&part.account);
        self.page_costs.append(&mut part.page_costs);
        self.first_homes.append(&mut part.first_homes);
        self.last_homes.append(&mut part.last_homes);
        self.log.append(&mut part.log);
        self.counts.add(&part.counts);
        self.not_in_file += part.not_in_file;
    }
}

/// Pages one after the other, each from its first run to its last.
fn page_by_page(
    setup: &Setup,
    policy: &dyn Policy,
    first: u32,
    end: u32,
) -> Result<Simulation, SimulateError> {
    let (memory, not_in_file) = Modelled::new(setup, first, end)?;
    let mut policy = policy.boxed_clone();
    let mut engine = Engine::new(&mut *policy, memory, setup.log);
    for page in (first..end).map(Page) {
        let runs = setup.history.runs(page)?.map(|run| Observation::Run(page, run));
        engine.drive(&mut runs.chain([Observation::PageGone(page)]));
    }
    Ok(finish(engine, setup, not_in_file))
}

/// Runs of all pages by the Time of their first reference.
fn in_time_order(setup: &Setup, policy: &dyn Policy) -> Result<Simulation, SimulateError> {
    let (memory, not_in_file) = Modelled::new(setup, 0, setup.history.pages())?;
    let mut policy = policy.boxed_clone();
    let mut engine = Engine::new(&mut *policy, memory, setup.log);
    let mut pages = Vec::new();
    let mut next = std::collections::BinaryHeap::new();
    for page in (0..setup.history.pages()).map(Page) {
        let mut runs = setup.history.runs(page)?.peekable();
        next.extend(runs.peek().map(|run| std::cmp::Reverse((run.first, page))));
        pages.push(runs);
    }
    let mut in_order = std::iter::from_fn(|| {
        let std::cmp::Reverse((_, page)) = next.pop()?;
        let runs = &mut pages[page.index()];
        let run = runs.next()?;
        next.extend(runs.peek().map(|run| std::cmp::Reverse((run.first, page))));
        Some(Observation::Run(page, run))
    });
    engine.drive(&mut in_order);
    Ok(finish(engine, setup, not_in_file))
}

fn finish(engine: Engine<Modelled>, setup: &Setup, not_in_file: u64) -> Simulation {
    let (memory, log, counts) = engine.finish();
    let mut result = Simulation { log, counts, not_in_file, ..Simulation::default() };
    for page in memory.pages {
        result.account.add(&page.account);
        result.page_costs.push(page.account.cost(setup.costs));
        result.first_homes.push(page.first);
        result.last_homes.push(page.at.home());
    }
    result
}

/// Memory in the reference model, for a range of pages.
struct Modelled<'a> {
    costs: &'a Costs,
    replication: bool,
    first: u32,
    pages: Vec<PageState>,
}

struct PageState {
    first: Node,
    at: Locations,
    /// Where the page was at the last reference that was charged; nowhere before a first reference with a free choice.
    charged: Option<Locations>,
    account: Account,
}

impl<'a> Modelled<'a> {
    /// Also returns the number of pages about which the placement file says nothing.
    fn new(setup: &Setup<'a>, first: u32, end: u32) -> Result<(Modelled<'a>, u64), SpillError> {
        let mut pages = Vec::with_capacity((end - first) as usize);
        let mut not_in_file = 0;
        for page in (first..end).map(Page) {
            let start = setup.placement.start(setup.history, page, setup.costs)?;
            not_in_file += u64::from(!start.found);
            let at = Locations::single(start.node);
            let charged = (!start.free).then_some(at);
            pages.push(PageState { first: start.node, at, charged, account: Account::default() });
        }
        let replication = setup.replication && matches!(setup.costs, Costs::Uniform(_));
        Ok((Modelled { costs: setup.costs, replication, first, pages }, not_in_file))
    }

    fn page(&self, page: Page) -> &PageState {
        &self.pages[(page.0 - self.first) as usize]
    }
}

impl Executor for Modelled<'_> {
    #[inline]
    fn at(&self, page: Page) -> Locations {
        self.page(page).at
    }

    fn execute(&mut self, action: &Action) -> Outcome {
        let at = self.page(action.page).at;
        let exists = |node: Node| node.0 < self.costs.memories();
        let to = match action.kind {
            Kind::Freeze | Kind::Defrost => return Outcome::Done,
            Kind::Move { to } | Kind::Replicate { to } if !exists(to) => {
                return Outcome::Refused("no such node")
            }
            Kind::Replicate { .. } if !self.replication => return Outcome::Refused("replication is off"),
            Kind::Collapse { keep } if !at.holds(keep) => return Outcome::Refused("no copy there to keep"),
            Kind::Replicate { to } => at.with_replica(to),
            Kind::Move { to } | Kind::Collapse { keep: to } => Locations::single(to),
        };
        if to == at {
            return Outcome::Already;
        }
        self.pages[(action.page.0 - self.first) as usize].at = to;
        Outcome::Done
    }

    #[inline]
    fn served(&mut self, sample: &Sample) {
        let state = &mut self.pages[(sample.page.0 - self.first) as usize];
        match state.charged {
            Some(charged) if charged == state.at => {}
            charged => {
                // A first reference with a free choice: one copy is free wherever it is, further ones are not.
                let begin = Locations::single(state.first);
                if charged.is_some() || state.at.copies() > 1 {
                    state.account.relocate(self.costs, charged.unwrap_or(begin), state.at);
                }
                state.charged = Some(state.at);
            }
        }
        state.account.refer(self.costs, sample.node, state.at, sample.reads + sample.writes);
    }
}
