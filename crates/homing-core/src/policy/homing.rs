//! Homing: our own policy, first version, without replication.
//!
//! Per page it keeps the work function (see [`super::work_function`]) and a small tournament of simple rules over it: a
//! ladder of eagernesses from "never move" by the work function algorithm and ski rental to "move at once". Each rule is
//! an *expert* that is simulated on the page's own past: where it would have the page now, and what it would have paid.
//! The page follows the *moves* of the expert that paid least, the leader; another takes the lead only when it has paid
//! less by a page move (the hysteresis), so exploring costs little.
//!
//! Deciding by hindsight among experts is the weighted-majority idea (Littlestone & Warmuth 1994; Blum & Burch 2000 for
//! metrical task systems) in its follow-the-leader form. What the parameters do on programs, and where the policy falls
//! short, is measured in docs/policies.md.
//!
//! State is bounded: one number a node and two an expert for each page. Samples with a weight feed the same state.

use super::pages::Pages;
use super::prices::Prices;
use super::work_function::{Rule, WorkFunction};
use super::{Fault, Next, Policy, Sample};
use crate::action::{Actions, Kind};
use crate::ids::{Node, Page};
use crate::machine::Costs;
use serde::{Deserialize, Serialize};

/// The ladder. Infinity stands for never.
const LADDER: [f64; 6] = [f64::NEG_INFINITY, -1.0, -0.5, 0.0, 0.5, 1.0];

/// The expert that leads before anything is known: the work function algorithm.
const FIRST_LEADER: usize = 1;

/// A rule and what it would have done.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Expert {
    /// Where it would have the page.
    here: Node,
    /// What it would have paid beyond local references.
    paid: f64,
}

/// What is known of one page.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct State {
    work: WorkFunction,
    experts: [Expert; LADDER.len()],
    leader: u8,
}

/// Parameters and prices.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Judge {
    prices: Prices,
    hysteresis: f64,
    catch_up: Rule,
}

/// The policy.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Homing {
    judge: Judge,
    pages: Pages<State>,
}

impl Homing {
    /// For a machine. `hysteresis` is in page moves; `catch_up` is the eagerness with which a page goes where a leader
    /// already is.
    pub fn new(costs: &Costs, hysteresis: f64, catch_up: f64) -> Homing {
        let judge = Judge { prices: Prices::new(costs), hysteresis, catch_up: Rule { eagerness: catch_up } };
        Homing { judge, pages: Pages::default() }
    }
}

fn rule(expert: usize) -> Option<Rule> {
    LADDER[expert].is_finite().then_some(Rule { eagerness: LADDER[expert] })
}

impl Judge {
    fn begin(&self, start: Node) -> State {
        State {
            work: WorkFunction::new(&self.prices, start),
            experts: [Expert { here: start, paid: 0.0 }; LADDER.len()],
            leader: FIRST_LEADER as u8,
        }
    }

    /// A reference from `by` is coming: lets each expert move first, then names the leader. Returns where the leader went, if it
    /// moved.
    fn advance(&self, state: &mut State, by: Node) -> Option<Node> {
        let mut moved = [None; LADDER.len()];
        for (index, expert) in state.experts.iter_mut().enumerate() {
            let Some(rule) = rule(index).filter(|_| expert.here != by) else { continue };
            if let Some(to) = rule.target(&self.prices, &state.work, expert.here, by) {
                expert.paid += self.prices.copy(expert.here, to);
                expert.here = to;
                moved[index] = Some(to);
            }
        }
        moved[usize::from(state.leader)]
    }

    /// Gives the lead to the expert that paid least, if it paid less by the hysteresis.
    fn elect(&self, state: &mut State, by: Node) {
        let paid = |index: usize| state.experts[index].paid;
        let best = (0..LADDER.len()).min_by(|&a, &b| paid(a).total_cmp(&paid(b))).unwrap_or(FIRST_LEADER);
        let leader = usize::from(state.leader);
        let margin =
            self.hysteresis * self.prices.copy(state.experts[leader].here, by).max(self.prices.least_copy());
        if paid(leader) - paid(best) >= margin {
            state.leader = best as u8;
        }
    }

    /// Charges the experts and the work function for references from `by`, in stretches that end where an expert moves.
    fn charge(&self, state: &mut State, by: Node, count: f64) {
        let mut left = count;
        while left > 0.0 {
            let stretch = left.min(self.patience(state, by, None) as f64);
            for expert in &mut state.experts {
                expert.paid += stretch * (self.prices.access(by, expert.here) - self.prices.access(by, by));
            }
            state.work.serve(&self.prices, by, stretch);
            left -= stretch;
            if left > 0.0 {
                self.advance(state, by);
            }
        }
        self.elect(state, by);
    }

    /// References from `by` until something could change for an expert, or for the page if it is at `here`.
    fn patience(&self, state: &State, by: Node, here: Option<Node>) -> u64 {
        let experts = state.experts.iter().enumerate().filter(|(_, expert)| expert.here != by);
        let of_experts = experts.filter_map(|(index, expert)| {
            Some(rule(index)?.patience(&self.prices, &state.work, expert.here, by))
        });
        let of_page = here.filter(|&here| here != by);
        let of_page = of_page.map(|here| self.catch_up.patience(&self.prices, &state.work, here, by));
        of_experts.chain(of_page).fold(u64::MAX, u64::min)
    }

    /// Where the page should go at a reference from `by`.
    fn decide(&self, state: &mut State, here: Node, by: Node) -> Option<(Node, &'static str)> {
        if let Some(to) = self.advance(state, by).filter(|&to| to != here) {
            return Some((to, "the leader moved"));
        }
        let leader = state.experts[usize::from(state.leader)].here;
        let to = self.catch_up.target(&self.prices, &state.work, here, by)?;
        (to == leader).then_some((to, "the leader is there"))
    }
}

impl Policy for Homing {
    fn fault(&mut self, fault: &Fault, actions: &mut Actions) -> Next {
        let (here, by) = (fault.at.home(), fault.node);
        let state = self.pages.entry(fault.page, || self.judge.begin(here));
        let mut now = here;
        if let Some((to, reason)) = self.judge.decide(state, here, by) {
            actions.push(fault.page, Kind::Move { to }, reason);
            now = to;
        }
        Next::After(self.judge.patience(state, by, Some(now)))
    }

    fn wants_samples(&self) -> bool {
        true
    }

    fn sample(&mut self, sample: &Sample, actions: &mut Actions) {
        let (here, by) = (sample.at.home(), sample.node);
        let state = self.pages.entry(sample.page, || self.judge.begin(here));
        if here == by {
            self.judge.advance(state, by);
        } else if let Some((to, reason)) = self.judge.decide(state, here, by) {
            actions.push(sample.page, Kind::Move { to }, reason);
        }
        let count = (sample.reads + sample.writes) as f64 * sample.weight;
        self.judge.charge(state, by, count);
    }

    fn page_gone(&mut self, page: Page) {
        self.pages.remove(page);
    }
}
