//! Simulates the experts, names the leader, and says what the page should do.

use super::super::prices::Prices;
use super::super::work_function::Rule;
use super::expert::{rule, EXPERTS, FIRST_LEADER};
use super::page::State;
use super::pools::Losses;
use crate::action::{Actions, Kind, Locations};
use crate::ids::{Node, Page};
use crate::machine::Costs;
use serde::{Deserialize, Serialize};

/// What remote references may cost, in page moves, before the experts are compared again.
const ATTENTION: f64 = 0.25;

/// Parameters and prices.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Judge {
    prices: Prices,
    replication: bool,
    hysteresis: f64,
    catch_up: Rule,
}

/// A copy that a rule wants.
#[derive(Clone, Copy, PartialEq)]
enum Wish {
    /// Beside the others.
    Replica(Node),
    /// Instead of them.
    Home(Node),
}

impl Judge {
    pub(super) fn new(costs: &Costs, replication: bool, hysteresis: f64, catch_up: f64) -> Judge {
        Judge { prices: Prices::new(costs), replication, hysteresis, catch_up: Rule { eagerness: catch_up } }
    }

    /// A page that begins at `start`; `prior` is what other pages say about the experts.
    pub(super) fn begin(&self, start: Node, prior: &Losses) -> State {
        let mut state = State::new(&self.prices, start, FIRST_LEADER);
        self.elect(&mut state, start, prior);
        state
    }

    /// What the experts lost since they had paid `before`, in page moves; `None` if nothing.
    pub(super) fn lost(&self, state: &State, before: &[f64; EXPERTS]) -> Option<Losses> {
        let now = state.paid();
        let per_move = 1.0 / self.prices.least_copy();
        (now != *before)
            .then(|| std::array::from_fn(|index| ((now[index] - before[index]) * per_move) as f32))
    }

    /// What a rule wants at a reference from `by`, a node without a copy, when the page's home is `home`.
    fn wish(&self, state: &State, rule: Rule, home: Node, by: Node, write: bool) -> Option<Wish> {
        let beside = self.replication && !write;
        if let Some(to) = rule.target(&self.prices, &state.work, home, by) {
            return Some(if beside && to == by { Wish::Replica(by) } else { Wish::Home(to) });
        }
        let copy = self.prices.copy(home, by);
        let lost = f64::from(state.seats[by.index()].reads) * self.loss(by, home);
        (beside && lost >= (1.0 - rule.eagerness.max(0.0)) * copy * (1.0 - 1e-9)).then_some(Wish::Replica(by))
    }

    /// What a reference from `by` costs beyond a local one.
    #[inline]
    fn loss(&self, by: Node, home: Node) -> f64 {
        self.prices.access(by, home) - self.prices.access(by, by)
    }

    /// The home that a write by `by` leaves of copies at `nodes`: the writer's if a rule that is eager enough would have
    /// one made there now, else the one with the least W.
    fn keep(&self, state: &State, rule: Option<Rule>, by: Node, nodes: impl Iterator<Item = Node>) -> Node {
        let cost = |node: &Node| {
            let bonus = if *node == by { rule.map_or(0.0, |rule| rule.eagerness.max(0.0)) } else { 0.0 };
            let bonus = bonus * self.prices.least_copy();
            state.work.value(&self.prices, *node) + self.prices.access(by, *node) - bonus
        };
        nodes.min_by(|a, b| cost(a).total_cmp(&cost(b))).unwrap_or(by)
    }

    /// A reference from `by` is coming: lets each expert act first. Returns what the leader wished.
    fn advance(&self, state: &mut State, by: Node, write: bool) -> Option<Wish> {
        let mut led = None;
        for index in 0..EXPERTS {
            let wish = self.act(state, index, by, write);
            if index == usize::from(state.leader) {
                led = wish;
            }
        }
        led
    }

    fn act(&self, state: &mut State, index: usize, by: Node, write: bool) -> Option<Wish> {
        let expert = state.experts[index];
        let mut wish = None;
        if !state.holds(index, by) {
            wish = rule(index).and_then(|rule| self.wish(state, rule, expert.home, by, write));
            match wish {
                Some(Wish::Replica(to)) => {
                    state.experts[index].paid += self.prices.copy(expert.home, to);
                    state.add_copy(index, to);
                }
                Some(Wish::Home(to)) => {
                    state.experts[index].paid += self.prices.copy(expert.home, to);
                    state.set_home(index, to);
                }
                None => {}
            }
        }
        if write && state.experts[index].replicas > 0 {
            let nodes = (0..self.prices.memories()).map(Node).filter(|&node| state.holds(index, node));
            let home = self.keep(state, rule(index), by, nodes);
            state.set_home(index, home);
        }
        wish
    }

    /// Gives the lead to the expert that paid least, other pages considered, if it paid less by the hysteresis.
    pub(super) fn elect(&self, state: &mut State, by: Node, prior: &Losses) {
        let unit = self.prices.least_copy();
        let paid = |index: usize| state.experts[index].paid + f64::from(prior[index]) * unit;
        let best = (0..EXPERTS).min_by(|&a, &b| paid(a).total_cmp(&paid(b))).unwrap_or(FIRST_LEADER);
        let leader = usize::from(state.leader);
        let margin = self.hysteresis * self.prices.copy(state.experts[leader].home, by).max(unit);
        if paid(leader) - paid(best) >= margin {
            state.leader = best as u8;
        }
    }

    /// Charges the experts and the work function for references from `by`. Reads too far from the writes to be among
    /// them come first.
    pub(super) fn charge(&self, state: &mut State, by: Node, reads: f64, writes: f64) {
        let loose = if writes > 0.0 { (reads - writes * self.read_gap(by)).max(0.0) } else { reads };
        if loose > 0.0 {
            self.charge_stretch(state, by, loose, !self.replication);
        }
        if writes > 0.0 {
            self.advance(state, by, true);
            state.end_epoch();
            self.charge_stretch(state, by, reads + writes - loose, true);
        }
    }

    /// Reads in a row for which no replica could pay.
    fn read_gap(&self, by: Node) -> f64 {
        match self.prices.dearest_loss(by) {
            loss if loss > 0.0 && self.replication => self.prices.least_copy() / loss,
            _ => f64::INFINITY,
        }
    }

    /// References in stretches that end where an expert acts. `single`: they need, or count as if they needed, a single
    /// copy.
    fn charge_stretch(&self, state: &mut State, by: Node, count: f64, single: bool) {
        let mut left = count;
        while left > 0.0 {
            let stretch = left.min(self.patience(state, by, None) as f64);
            for index in 0..EXPERTS {
                if !state.holds(index, by) {
                    let home = state.experts[index].home;
                    state.experts[index].paid += stretch * self.loss(by, home);
                }
            }
            self.serve(state, by, stretch, single);
            left -= stretch;
            if left > 0.0 {
                self.advance(state, by, single && self.replication);
            }
        }
    }

    /// References from `by` enter the work function. Reads count up to the price of a replica in each epoch: all
    /// placements but those with a copy here pay that at most.
    fn serve(&self, state: &mut State, by: Node, count: f64, single: bool) {
        let mut counted = count;
        if !single {
            let seat = &mut state.seats[by.index()];
            let room = (self.read_gap(by) - f64::from(seat.reads)).max(0.0);
            counted = count.min(room);
            seat.reads = (f64::from(seat.reads) + count).min(4.0 * self.read_gap(by)) as f32;
            state.read = true;
        }
        if counted > 0.0 {
            state.work.serve(&self.prices, by, counted);
        }
    }

    /// True if `node` alone matters to the page, and every expert that moves has it there.
    pub(super) fn belongs(&self, state: &State, node: Node) -> bool {
        let beyond = |other: Node| {
            let dear = self.prices.copy(node, other) * (1.0 - 1e-9);
            other == node || -state.work.advantage(&self.prices, node, other) >= dear
        };
        state.experts[usize::from(state.leader)].home == node
            && (0..self.prices.memories()).map(Node).all(beyond)
    }

    /// References from `by` until something could change for an expert, or for the page if it is at `at`. As long as
    /// one of them refers remotely, no more than cost a part of a page move: another may deserve the lead by then.
    pub(super) fn patience(&self, state: &State, by: Node, at: Option<Locations>) -> u64 {
        let remote = at.filter(|at| !at.holds(by));
        let mut least = remote.map_or(u64::MAX, |at| self.patience_of(state, self.catch_up, at.home(), by));
        let mut settled = remote.is_none();
        for index in (0..EXPERTS).filter(|&index| !state.holds(index, by)) {
            settled = false;
            if let Some(rule) = rule(index) {
                least = least.min(self.patience_of(state, rule, state.experts[index].home, by));
            }
        }
        if settled {
            return u64::MAX;
        }
        let loss = self.prices.dearest_loss(by);
        least.min((ATTENTION * self.prices.least_copy() / loss).ceil().max(1.0) as u64)
    }

    fn patience_of(&self, state: &State, rule: Rule, home: Node, by: Node) -> u64 {
        let by_work = rule.patience(&self.prices, &state.work, home, by);
        let loss = self.loss(by, home);
        if !self.replication || loss <= 0.0 {
            return by_work;
        }
        let enough = (1.0 - rule.eagerness.max(0.0)) * self.prices.copy(home, by) / loss;
        let missing = enough - f64::from(state.seats[by.index()].reads);
        by_work.min(if missing > 0.0 { (missing * (1.0 - 1e-9)).ceil().max(1.0) as u64 } else { u64::MAX })
    }

    /// Asks for what the page should do at a reference from `by`. Returns where it then is.
    pub(super) fn decide(
        &self,
        state: &mut State,
        page: Page,
        at: Locations,
        by: Node,
        write: bool,
        actions: &mut Actions,
    ) -> Locations {
        let led = if state.settled(by, write) { None } else { self.advance(state, by, write) };
        if !at.holds(by) {
            let wish = led.map(|wish| (wish, "the leader moved")).or_else(|| {
                let there = state.holds(usize::from(state.leader), by);
                let wish = self.wish(state, self.catch_up, at.home(), by, write).filter(|_| there)?;
                Some((wish, "the leader is there"))
            });
            match wish {
                Some((Wish::Replica(to), reason)) => {
                    actions.push(page, Kind::Replicate { to }, reason);
                    return at.with_replica(to);
                }
                Some((Wish::Home(to), reason)) if Locations::single(to) != at => {
                    actions.push(page, Kind::Move { to }, reason);
                    return Locations::single(to);
                }
                _ => {}
            }
        }
        if write && at.copies() > 1 {
            let home = state.experts[usize::from(state.leader)].home;
            let keep = if at.holds(home) { home } else { self.keep(state, None, by, at.all().iter()) };
            actions.push(page, Kind::Collapse { keep }, "a write needs a single copy");
            return Locations::single(keep);
        }
        at
    }
}
