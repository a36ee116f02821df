//! Modelled memory: where pages are and what serving references there costs, in the reference model.

use super::{Setup, Simulation};
use crate::account::Account;
use crate::action::{Action, Kind, Locations, Outcome};
use crate::engine::{Engine, Executor};
use crate::history::SpillError;
use crate::ids::{Node, Page};
use crate::machine::Costs;
use crate::policy::Sample;
use crate::windows::Ledger;

/// Memory in the reference model, for a range of pages.
pub(super) struct Modelled<'a> {
    costs: &'a Costs,
    replication: bool,
    first: u32,
    pages: Vec<PageState>,
    /// What was charged in which window, if there are any.
    ledger: Option<Ledger<'a>>,
}

pub(super) struct PageState {
    first: Node,
    at: Locations,
    /// Where the page was at the last reference that was charged; nowhere before a first reference with a free choice.
    charged: Option<Locations>,
    account: Account,
}

impl<'a> Modelled<'a> {
    /// Also returns the number of pages about which the placement file says nothing.
    pub(super) fn new(setup: &Setup<'a>, first: u32, end: u32) -> Result<(Modelled<'a>, u64), SpillError> {
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
        let ledger = Ledger::new(setup.windows, pages.len());
        Ok((Modelled { costs: setup.costs, replication, first, pages, ledger }, not_in_file))
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
        match action.kind {
            Kind::Freeze | Kind::Defrost => return Outcome::Done,
            Kind::Move { to } | Kind::Replicate { to } if !exists(to) => {
                return Outcome::Refused("no such node")
            }
            Kind::Replicate { .. } if !self.replication => return Outcome::Refused("replication is off"),
            Kind::Collapse { keep } if !at.holds(keep) => return Outcome::Refused("no copy there to keep"),
            Kind::Move { .. } | Kind::Replicate { .. } | Kind::Collapse { .. } => {}
        }
        let to = action.kind.applied(at);
        if to == at {
            return Outcome::Already;
        }
        self.pages[(action.page.0 - self.first) as usize].at = to;
        Outcome::Done
    }

    #[inline]
    fn served(&mut self, sample: &Sample) {
        let page = (sample.page.0 - self.first) as usize;
        let state = &mut self.pages[page];
        let before = self.ledger.as_ref().map(|_| state.account);
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
        if let (Some(ledger), Some(before)) = (&mut self.ledger, before) {
            ledger.charge(page, sample.time, &state.account.since(&before));
        }
    }
}

/// The result for the pages of an engine's memory.
pub(super) fn finish(engine: Engine<Modelled>, setup: &Setup, not_in_file: u64) -> Simulation {
    let (memory, log, counts) = engine.finish();
    let mut result = Simulation { log, counts, not_in_file, ..Simulation::default() };
    result.windows = memory.ledger.map(Ledger::finish).unwrap_or_default();
    for page in memory.pages {
        result.account.add(&page.account);
        result.page_costs.push(page.account.cost(setup.costs));
        result.first_homes.push(page.first);
        result.last_homes.push(page.at.home());
    }
    result
}
