//! Prices for load. A memory that serves more than others makes requests wait, and a page that several nodes use is
//! better off at another, although as many references are remote there. What is waited at a memory is added to the
//! price of referring to it from other nodes; the rules that weigh distances then weigh queues too. The work function
//! sums what a page has paid for waiting: those with most references leave first, each once that has cost what a move
//! costs, and the price falls while they go, as prices of a shared resource are found by its users (Lagrangian
//! relaxation).
//!
//! Pages that are used alike answer a price alike, all at once, and would go round in a herd. So they take turns: in
//! each interval one page in [`TURNS`] sees the prices.
//!
//! Only what a wait exceeds the mean by more than a quarter counts: where all memories are loaded about alike nothing
//! changes. A node's references to its own memory keep their price, so that a page of one user never leaves it.

use super::judge::Judge;
use crate::ids::Page;
use serde::{Deserialize, Serialize};

/// The most that waiting adds to a reference, in local ones. A memory at its limit has no mean wait.
const MOST: f64 = 16.0;

/// Waits up to this many times the mean are ignored.
const ALIKE: f64 = 1.25;

/// One page in eight sees the prices of an interval.
const TURNS: u32 = 8;

/// Waits, and who looks at them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Load {
    weight: f64,
    /// Intervals so far.
    turn: u32,
    /// Who judges pages whose turn it is, once a wait is known.
    judge: Option<Judge>,
}

impl Load {
    pub(super) fn new(weight: f64) -> Load {
        Load { weight, turn: 0, judge: None }
    }

    /// True if load counts at all.
    pub(super) fn counts(&self) -> bool {
        self.weight > 0.0
    }

    /// Takes the waits of an interval, in local accesses. `unloaded` judges where nobody waits.
    pub(super) fn take(&mut self, waits: &[f64], unloaded: &Judge) {
        let bounded = || waits.iter().map(|wait| (self.weight * wait).min(MOST));
        let alike = ALIKE * bounded().sum::<f64>() / waits.len() as f64;
        let more: Vec<f64> = bounded().map(|wait| (wait - alike).max(0.0)).collect();
        self.turn = self.turn.wrapping_add(1);
        self.judge = Some(unloaded.clone().raise(&more));
    }

    /// Who judges a page now, if load counts for it.
    #[inline]
    pub(super) fn judge(&self, page: Page) -> Option<&Judge> {
        self.judge.as_ref().filter(|_| page.0 % TURNS == self.turn % TURNS)
    }
}
