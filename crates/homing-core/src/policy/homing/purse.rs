//! A page must be able to pay. Nobody knows what a page will still cost, so that any move is a bet. Moves are made out
//! of a purse: a small share of what the misses so far would have cost had no page moved, and what moves have saved
//! since. A program is never slower than without moves by more than that share, however short it is; and where moves
//! pay, what they save pays for the next ones, more of them in each round. (Conservative exploration: Wu, Shariff,
//! Lattimore & Szepesvari, ICML 2016.) Bound and proof: docs/policy.md, "What can be proven".
//!
//! Both sums are known on-line: each miss is seen with where the page is, and where it was at first is remembered.

use super::super::prices::Prices;
use crate::action::{Action, Actions, Kind};
use crate::ids::{Node, Page};
use crate::machine::{Costs, MoveExtras};
use crate::policy::pages::Table;
use crate::policy::Sample;
use serde::{Deserialize, Serialize};

/// What there is for moves. All in local misses.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Purse {
    /// Of what pages would have cost where they were at first, what moves may cost before they pay.
    share: f64,
    prices: Prices,
    /// What moves cost beyond prices; none if references count instead of misses, so that there is no purse.
    extras: Option<MoveExtras>,
    /// What requests from other nodes wait at each memory, as it was told last.
    waits: Vec<f64>,
    /// What misses would have cost had no page moved.
    stayed: f64,
    /// What they did cost, and the moves.
    paid: f64,
    pages: Table<Past>,
}

/// What is remembered of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Past {
    /// Where it was at first.
    first: Option<Node>,
    /// Nodes that missed on it: node n is bit n % 32.
    users: u32,
}

impl Purse {
    /// Without extras yet. `share`: between 0 and 1.
    pub(super) fn new(costs: &Costs, share: f64) -> Purse {
        Purse {
            share,
            prices: Prices::new(costs),
            extras: None,
            waits: vec![0.0; usize::from(costs.memories())],
            stayed: 0.0,
            paid: 0.0,
            pages: Table::default(),
        }
    }

    /// From now on moves cost so much more than their price.
    pub(super) fn open(&mut self, extras: Option<MoveExtras>) {
        self.extras = extras;
    }

    /// What requests wait at each memory from now on, beyond the latency.
    pub(super) fn loads(&mut self, waits: &[f64]) {
        self.waits.clear();
        self.waits.extend(waits);
    }

    /// Misses of a page that were served.
    #[inline]
    pub(super) fn served(&mut self, sample: &Sample) {
        if self.extras.is_none() {
            return;
        }
        let past = self.pages.get_mut(sample.page);
        let (by, at) = (sample.node, sample.at.home());
        let first = *past.first.get_or_insert(at);
        past.users |= 1 << (by.0 % 32);
        let count = (sample.reads + sample.writes) as f64 * sample.weight;
        let paid = count * self.access(by, at);
        self.paid += paid;
        self.stayed += if first == at { paid } else { count * self.access(by, first) };
    }

    /// A page is no more, or another one has its number.
    pub(super) fn gone(&mut self, page: Page) {
        *self.pages.get_mut(page) = Past::default();
    }

    /// Hands on what there is money for; pages stay that can not pay.
    pub(super) fn pay(&mut self, at: Node, mut wanted: Actions, actions: &mut Actions) {
        let mut taken = Vec::new();
        wanted.take(&mut taken);
        for Action { page, kind, reason } in taken {
            match kind {
                Kind::Move { to } if !self.affords(page, at, to) => {}
                kind => actions.push(page, kind, reason),
            }
        }
    }

    /// True if the page can be moved; that is then paid.
    fn affords(&mut self, page: Page, from: Node, to: Node) -> bool {
        let Some(extras) = self.extras else { return true };
        let price = self.price(&extras, page, from, to);
        let affords = (1.0 + self.share) * self.stayed - self.paid >= price;
        if affords {
            self.paid += price;
        }
        affords
    }

    /// What a move is expected to cost: each user but one adds a shoot-down, and each misses lines again.
    fn price(&self, extras: &MoveExtras, page: Page, from: Node, to: Node) -> f64 {
        let users = f64::from(self.pages.get(page).users.count_ones().max(1));
        self.prices.copy(from, to) + (users - 1.0) * extras.shootdown + users * extras.refetch + extras.standing
    }

    fn access(&self, by: Node, at: Node) -> f64 {
        let wait = if by == at { 0.0 } else { self.waits[at.index()] };
        self.prices.access(by, at) + wait
    }
}
