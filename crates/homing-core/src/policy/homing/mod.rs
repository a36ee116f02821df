//! Homing: our own policy. Simple rules compete in hindsight on each page's own past; the page makes the moves of the
//! rule that would have cost least.
//!
//! Per page it keeps the work function (see [`super::work_function`]), the reads of each node since the last write, and
//! a tournament of *experts* ([`expert`]). An expert gives a node a copy once the node has lost so much by not having one
//! that its eagerness allows it; the experts differ in eagerness only, from "never" by the work function algorithm and
//! ski rental to "at once". Each is simulated on the page's past: where it would have copies now, and what it would have
//! paid. [`judge`] names the one that paid least the leader and turns the leader's moves into actions.
//!
//! With replication a copy made for a read leaves the others where they are (a replica), and a write keeps the copy
//! that the work function favours: a replica is a home that the next write has for nothing.
//!
//! Deciding by hindsight among experts is the weighted-majority idea (Littlestone & Warmuth 1994; Blum & Burch 2000 for
//! metrical task systems) in its follow-the-leader form. Derivation, bounds and measurements: docs/policy.md.

mod expert;
mod judge;
mod page;

use super::pages::Pages;
use super::{Fault, Next, Policy, Sample};
use crate::action::Actions;
use crate::ids::Page;
use crate::machine::Costs;
use judge::Judge;
use page::State;
use serde::{Deserialize, Serialize};

/// The policy.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Homing {
    judge: Judge,
    pages: Pages<State>,
}

impl Homing {
    /// For a machine. `hysteresis` is in page moves; `catch_up` is the eagerness with which a page goes where a leader
    /// already is.
    pub fn new(costs: &Costs, replication: bool, hysteresis: f64, catch_up: f64) -> Homing {
        Homing { judge: Judge::new(costs, replication, hysteresis, catch_up), pages: Pages::default() }
    }
}

impl Policy for Homing {
    fn fault(&mut self, fault: &Fault, actions: &mut Actions) -> Next {
        let state = self.pages.entry(fault.page, || self.judge.begin(fault.at.home()));
        let at = self.judge.decide(state, fault.page, fault.at, fault.node, fault.write, actions);
        Next::After(self.judge.patience(state, fault.node, Some(at)))
    }

    fn wants_samples(&self) -> bool {
        true
    }

    fn sample(&mut self, sample: &Sample, actions: &mut Actions) {
        let state = self.pages.entry(sample.page, || self.judge.begin(sample.at.home()));
        let (reads, writes) = (sample.reads as f64 * sample.weight, sample.writes as f64 * sample.weight);
        self.judge.decide(state, sample.page, sample.at, sample.node, writes > 0.0, actions);
        self.judge.charge(state, sample.node, reads, writes);
    }

    fn page_gone(&mut self, page: Page) {
        self.pages.remove(page);
    }
}
