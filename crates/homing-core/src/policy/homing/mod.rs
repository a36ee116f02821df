//! Homing: our own policy. Simple rules compete in hindsight on each page's own past; the page makes the moves of the
//! rule that would have cost least.
//!
//! Per page it keeps the work function (see [`super::work_function`]), the visits of nodes ([`visits`]), their reads
//! since the last write ([`reading`]), and a tournament of *experts* ([`expert`]): one that goes by how long visits and
//! reads like the present ones have lasted in this program ([`foresight`]), the work function algorithm, and one that
//! never moves. Each is simulated on the page's past: where it would have copies now, and what it would have paid.
//! [`judge`] names the one that paid least the leader and turns the leader's moves into actions.
//!
//! A page has few misses of its own to learn from. What the experts lost on the pages around it and in the program
//! ([`pools`]) counts for it too, at a discount. Pages of a thread that was moved come with it ([`heirs`]). Where it is
//! known what requests wait at each memory, that is part of the price of referring to it ([`load`]).
//!
//! With replication a copy made for a read leaves the others where they are (a replica), and a write keeps the copy
//! that the work function favours: a replica is a home that the next write has for nothing.
//!
//! Deciding by hindsight among experts is the weighted-majority idea (Littlestone & Warmuth 1994; Blum & Burch 2000 for
//! metrical task systems) in its follow-the-leader form. Derivation, bounds and measurements: docs/policy.md.

mod expert;
mod foresight;
mod heirs;
mod judge;
mod load;
mod page;
mod pools;
mod profile;
mod purse;
mod quiet;
mod reading;
#[cfg(test)]
mod tests;
mod visits;

use super::pages::{Pages, Table};
use super::{Context, End, Fault, Next, Policy, Sample, ThreadMoved};
use crate::action::{Actions, Kind, Locations};
use crate::ids::{Node, Page, Time};
use crate::machine::Costs;
use heirs::Heirs;
use judge::Judge;
use load::Load;
use page::State;
use pools::Pools;
use profile::Deal;
use purse::Purse;
use quiet::Quiet;
use serde::{Deserialize, Serialize};
use visits::Known;

/// The policy.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Homing {
    judge: Judge,
    pooling: bool,
    pools: Pools,
    /// How visits last.
    known: Known,
    heirs: Heirs,
    load: Load,
    purse: Purse,
    pages: Pages<State>,
    /// What is looked at before the state.
    quiet: Table<Quiet>,
}

/// Parameters.
#[derive(Clone, Copy, Debug)]
pub struct Parameters {
    /// How much less than the leader an expert must have paid to take the lead, in page moves.
    pub hysteresis: f64,
    /// Eagerness with which a page goes where its leader already is, in page moves.
    pub catch_up: f64,
    /// Whether other pages' losses count.
    pub pooling: bool,
    /// Parallel constructs after which the move of a thread counts.
    pub constructs: u32,
    /// Weight of what requests wait at loaded memories.
    pub load: f64,
    /// What moves may cost before they pay, in per cent of what pages that stay would have cost.
    pub purse: f64,
    /// What a page must have lost where it is before it may move without money in the purse, in moves.
    pub patience: f64,
}

impl Homing {
    /// For a machine.
    pub fn new(costs: &Costs, replication: bool, parameters: &Parameters) -> Homing {
        Homing {
            judge: Judge::new(costs, replication, parameters),
            pooling: parameters.pooling,
            pools: Pools::default(),
            known: Known::default(),
            heirs: Heirs::new(parameters.constructs),
            load: Load::new(parameters.load),
            purse: Purse::new(costs, parameters.purse / 100.0, parameters.patience),
            pages: Pages::default(),
            quiet: Table::default(),
        }
    }

    /// Takes a sample. Returns where its page then is.
    fn take(&mut self, sample: &Sample, actions: &mut Actions) -> Locations {
        let Homing { judge, pools, known, heirs, load, pages, quiet, .. } = self;
        let quiet = quiet.get_mut(sample.page);
        if quiet.takes(sample, heirs.now()) {
            return sample.at;
        }
        let judge = load.judge(sample.page).unwrap_or(judge);
        let state = pages
            .entry(sample.page, || judge.begin(sample.page, sample.at.home(), &pools.prior(sample.page)));
        quiet.settle(judge, known, state);
        let at = Homing::inherit(judge, heirs, state, sample.node, sample.at, actions);
        let weight = judge.counted(sample.weight, sample.node, sample.writes > 0);
        let (reads, writes) = (sample.reads as f64 * weight, sample.writes as f64 * weight);
        if judge.is_routine(state, at, sample.node, writes > 0.0) {
            // Where it has copies nothing depends on how long a visit lasts.
            if at.copies() == 1 {
                judge.follow(state, known, sample.node, reads + writes);
            }
            judge.count(state, known, sample.node, reads, writes);
            *quiet = Quiet::of(judge, state);
            return at;
        }
        // A single sample stands for references that come after it, too.
        let coming = if weight > 1.0 { reads + writes } else { 0.0 };
        let before = state.paid();
        let at = judge.decide(state, known, at, (sample.node, writes > 0.0, coming), actions);
        judge.charge(state, known, sample.node, reads, writes);
        Homing::conclude(judge, self.pooling.then_some(pools), state, &before, sample.node);
        *quiet = Quiet::of(judge, state);
        at
    }

    /// Takes what the page's experts lost into the pools and lets the page choose its leader anew.
    fn conclude(
        judge: &Judge,
        pools: Option<&mut Pools>,
        state: &mut State,
        before: &[f64; expert::EXPERTS],
        by: Node,
    ) {
        let Some(lost) = judge.lost(state, before) else { return };
        let prior = pools.map_or_else(Default::default, |pools| {
            pools.add(state.page, &lost);
            pools.prior(state.page)
        });
        judge.elect(state, by, &prior);
    }

    /// A page of a moved thread comes to its thread. Returns where it then is.
    fn inherit(
        judge: &Judge,
        heirs: &Heirs,
        state: &mut State,
        by: Node,
        at: Locations,
        actions: &mut Actions,
    ) -> Locations {
        let owner = state.experts[state.leader()].home;
        let comes = !at.holds(by) && heirs.inherits(owner, by, state.seen) && judge.belongs(state, owner);
        state.seen = heirs.now();
        if !comes {
            return at;
        }
        state.exchange(owner, by);
        actions.push(state.page, Kind::Move { to: by }, "its thread was moved");
        Locations::single(by)
    }
}

impl Policy for Homing {
    fn fault(&mut self, fault: &Fault, actions: &mut Actions) -> Next {
        let Homing { judge, pools, known, heirs, load, pages, quiet, .. } = self;
        let judge = load.judge(fault.page).unwrap_or(judge);
        let quiet = quiet.get_mut(fault.page);
        let state =
            pages.entry(fault.page, || judge.begin(fault.page, fault.at.home(), &pools.prior(fault.page)));
        quiet.settle(judge, known, state);
        let at = Homing::inherit(judge, heirs, state, fault.node, fault.at, actions);
        let before = state.paid();
        let at = judge.decide(state, known, at, (fault.node, fault.write, 0.0), actions);
        Homing::conclude(judge, self.pooling.then_some(pools), state, &before, fault.node);
        *quiet = Quiet::of(judge, state);
        Next::After(judge.patience(state, fault.node, Some(at)))
    }

    fn wants_samples(&self) -> bool {
        true
    }

    fn sample(&mut self, sample: &Sample, actions: &mut Actions) {
        self.purse.served(sample);
        let mut wanted = Actions::default();
        self.take(sample, &mut wanted);
        self.purse.pay(sample.page, sample.at.home(), wanted, actions);
    }

    fn wants_profiles(&self) -> bool {
        true
    }

    fn profile(&mut self, counts: &[Sample], actions: &mut Actions) {
        let Some(first) = counts.first() else { return };
        let deal = Deal::of(counts, |by| self.judge.most_told(by));
        counts.iter().for_each(|count| self.purse.served(count));
        let (mut on_the_way, mut wanted, mut at) = (Actions::default(), Actions::default(), first.at);
        for count in deal.samples(counts) {
            at = self.take(&Sample { at, ..count }, &mut on_the_way);
        }
        profile::go_straight(first.page, first.at, at, on_the_way, &mut wanted);
        self.purse.pay(first.page, first.at.home(), wanted, actions);
    }

    fn begin(&mut self, context: &Context) {
        self.purse.open(context.moves);
        if context.loads && self.load.counts() {
            self.judge = self.judge.clone().into_general();
        }
    }

    fn loads(&mut self, waits: &[f64]) {
        self.purse.loads(waits);
        if self.load.counts() {
            self.load.take(waits, &self.judge);
        }
    }

    fn paces(&mut self, paces: &[f64]) {
        self.purse.paces(paces);
    }

    fn iteration_end(&mut self, _end: &End, _actions: &mut Actions) {
        self.heirs.construct();
    }

    fn wants_marks(&self) -> bool {
        true
    }

    fn phase_begin(&mut self, _phase: u32, _time: Time, _actions: &mut Actions) {
        self.heirs.construct();
    }

    fn thread_moved(&mut self, moved: &ThreadMoved, _actions: &mut Actions) {
        self.heirs.moved(moved);
    }

    fn page_gone(&mut self, page: Page) {
        self.pages.remove(page);
        self.purse.gone(page);
        *self.quiet.get_mut(page) = Quiet::default();
    }

    fn independent(&self) -> bool {
        !self.pooling
    }
}
