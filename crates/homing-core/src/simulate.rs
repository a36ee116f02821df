//! What a policy would do and cost: the engine with page histories as source and modelled memory as executor.

mod drive;
mod memory;
#[cfg(test)]
mod tests;

use crate::account::Account;
use crate::action::{Entry, NodeSet};
use crate::engine::Counts;
use crate::history::{History, SpillError};
use crate::ids::Node;
use crate::information::Information;
use crate::machine::Costs;
use crate::policy::placement::Placement;
use crate::policy::Policy;
use crate::timeline::Timeline;
use crate::windows::{Tally, Windows};
use drive::Drive;
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
    /// What the policy sees.
    pub information: Information,
    /// What happens besides references.
    pub timeline: &'a Timeline,
    /// Which parts of the trace are windows of the program.
    pub windows: &'a Windows,
    /// Whether to keep every action.
    pub log: bool,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Simulation {
    /// Counts and cost.
    pub account: Account,
    /// What of it was charged in each window.
    pub windows: Vec<Tally>,
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
    let drive = Drive::new(setup, policy);
    let parts: Vec<Simulation> = if policy.independent() {
        let chunks = pages.div_ceil(PAGES_AT_A_TIME);
        let chunk = |index: u32| {
            let first = index * PAGES_AT_A_TIME;
            drive.page_by_page(policy, first, pages.min(first + PAGES_AT_A_TIME))
        };
        (0..chunks).into_par_iter().map(chunk).collect::<Result<_, _>>()?
    } else {
        vec![drive.all_pages(policy)?]
    };
    let mut all = Simulation::default();
    parts.into_iter().for_each(|part| all.append(part));
    all.log.sort_by_key(|entry| (entry.time, entry.action.page));
    Ok(all)
}

impl Simulation {
    fn append(&mut self, mut part: Simulation) {
        self.account.add(&part.account);
        match self.windows.is_empty() {
            true => self.windows = part.windows,
            false => self.windows.iter_mut().zip(&part.windows).for_each(|(all, part)| all.add(part)),
        }
        self.page_costs.append(&mut part.page_costs);
        self.first_homes.append(&mut part.first_homes);
        self.last_homes.append(&mut part.last_homes);
        self.log.append(&mut part.log);
        self.counts.add(&part.counts);
        self.not_in_file += part.not_in_file;
    }
}
