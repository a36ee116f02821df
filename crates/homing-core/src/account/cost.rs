//! The cost of a placement in the reference model: Bolosky & Scott 1991, section 2.4, equations (1) and (2).
//!
//! Counts are integers and the cost is computed from them, so sums do not depend on the order of addition. Only on
//! machines with unequal distances, where each pair of nodes has its own price, are costs summed as they arise; the
//! order is then that of the pages.

use super::Charges;
use crate::action::{Locations, NodeSet};
use crate::ids::Node;
use crate::machine::Costs;
use std::ops::Deref;

/// What was charged, and for how much. Shows its [`Charges`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Account {
    charges: Charges,
    /// Summed cost of references and of copies on machines with unequal distances.
    priced: (f64, f64),
}

impl Deref for Account {
    type Target = Charges;

    fn deref(&self) -> &Charges {
        &self.charges
    }
}

impl Account {
    /// Charges `count` references by a CPU of `by` to a page at `at`: equation (1).
    #[inline]
    pub fn refer(&mut self, costs: &Costs, by: Node, at: Locations, count: u64) {
        if at.holds(by) {
            self.charges.local += count;
        } else if costs.global_node().is_some_and(|global| at.holds(global)) {
            self.charges.global += count;
        } else {
            self.charges.remote += count;
        }
        if let Costs::General(_) = costs {
            let source = if at.holds(by) { by } else { at.home() };
            self.priced.0 += count as f64 * costs.access(by, source);
        }
    }

    /// Charges the way from one location set to the next: equation (2).
    pub fn relocate(&mut self, costs: &Costs, from: Locations, to: Locations) {
        let fresh = to.all().without(from.all());
        if fresh.is_empty() {
            return;
        }
        let count = u64::from(fresh.len());
        let dropped = u64::from(from.all().without(to.all()).len());
        self.charges.moves += count.min(dropped);
        self.charges.replications += count - count.min(dropped);
        match costs.global_node() {
            Some(global) if from.holds(global) || to.holds(global) => self.charges.global_copies += count,
            _ => self.charges.copies += count,
        }
        if let Costs::General(_) = costs {
            self.priced.1 += cheapest_copies(costs, from.all(), fresh);
        }
    }

    /// The part of the cost that is page copies.
    pub fn copy_cost(&self, costs: &Costs) -> f64 {
        match costs {
            Costs::Uniform(uniform) => self.charges.copy_cost(uniform),
            Costs::General(_) => self.priced.1,
        }
    }

    /// The part that is page copies.
    pub fn of_copies(&self) -> Account {
        let charges = Charges { local: 0, remote: 0, global: 0, ..self.charges };
        Account { charges, priced: (0.0, self.priced.1) }
    }

    /// Total cost in local word references.
    pub fn cost(&self, costs: &Costs) -> f64 {
        match costs {
            Costs::Uniform(uniform) => self.charges.cost(uniform),
            Costs::General(_) => self.priced.0 + self.priced.1,
        }
    }

    /// What was charged since the account was as `before`.
    pub fn since(&self, before: &Account) -> Account {
        let (all, earlier) = (self.charges, before.charges);
        let charges = Charges {
            local: all.local - earlier.local,
            remote: all.remote - earlier.remote,
            global: all.global - earlier.global,
            copies: all.copies - earlier.copies,
            global_copies: all.global_copies - earlier.global_copies,
            moves: all.moves - earlier.moves,
            replications: all.replications - earlier.replications,
        };
        Account { charges, priced: (self.priced.0 - before.priced.0, self.priced.1 - before.priced.1) }
    }

    /// Adds another account.
    pub fn add(&mut self, other: &Account) {
        self.charges += other.charges;
        self.priced.0 += other.priced.0;
        self.priced.1 += other.priced.1;
    }
}

/// Each fresh copy is made from the cheapest of the old ones.
fn cheapest_copies(costs: &Costs, from: NodeSet, fresh: NodeSet) -> f64 {
    let cheapest = |to| from.iter().map(|source| costs.copy(source, to)).fold(f64::INFINITY, f64::min);
    fresh.iter().map(cheapest).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Global, Uniform};

    fn costs(global: bool) -> Costs {
        let global = global.then_some(Global { access: 2.0, page_move: 60.0 });
        Costs::Uniform(Uniform { nodes: 3, remote: 5.0, page_move: 100.0, global })
    }

    #[test]
    fn equation_1_charges_local_global_and_remote() {
        let costs = costs(true);
        let mut account = Account::default();
        account.refer(&costs, Node(1), Locations::single(Node(1)), 10);
        account.refer(&costs, Node(1), Locations::single(Node(0)), 4);
        account.refer(&costs, Node(1), Locations::single(Node(3)), 3);
        account.refer(&costs, Node(1), Locations::single(Node(0)).with_replica(Node(3)), 2);
        assert_eq!((account.local, account.remote, account.global), (10, 4, 5));
        assert_eq!(account.cost(&costs), 10.0 + 4.0 * 5.0 + 5.0 * 2.0);
    }

    #[test]
    fn equation_2_charges_global_copies_where_global_takes_part() {
        let costs = costs(true);
        let mut account = Account::default();
        let (zero, one, two, global) = (Node(0), Node(1), Node(2), Node(3));
        account.relocate(&costs, Locations::single(zero), Locations::single(one));
        assert_eq!((account.copies, account.global_copies, account.moves), (1, 0, 1));
        account.relocate(&costs, Locations::single(one), Locations::single(one).with_replica(two));
        assert_eq!((account.copies, account.replications), (2, 1));
        account.relocate(&costs, Locations::single(one).with_replica(two), Locations::single(two));
        assert_eq!(account.copies, 2, "dropping a copy is free");
        account.relocate(&costs, Locations::single(two), Locations::single(global));
        account.relocate(&costs, Locations::single(global), Locations::single(global).with_replica(one));
        assert_eq!((account.global_copies, account.moves, account.replications), (2, 2, 2));
        assert_eq!(account.cost(&costs), 2.0 * 100.0 + 2.0 * 60.0);
    }
}
