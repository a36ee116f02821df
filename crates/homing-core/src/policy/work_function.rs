//! The work function of a page, and the policy that follows it.
//!
//! The work function W[m] is the least cost of having served all references so far and ended with the page at m: the
//! forward half of the off-line optimum (Bolosky & Scott 1991, figure 1), known on-line. The work function algorithm of
//! metrical task systems (Borodin, Linial & Saks 1992) moves to the m that minimises W[m] + copy(here, m); for page
//! migration see Black & Sleator 1989. Here, at a reference from node i: stay until W[here] - W[m] >= copy(here, m).
//!
//! Where all processor memories are alike one page run costs O(1): W is kept relative to "remote for all", so that only
//! the requester's entry and global memory's change, both downwards; the bound W[m] <= W[j] + copy(j, m) tightens with
//! them and is applied when an entry is read. With unequal distances it costs O(nodes), and O(nodes^2) where moves
//! cost differently between different nodes.

use super::pages::Pages;
use super::prices::Prices;
use super::{Fault, Next, Policy, Sample};
use crate::action::{Actions, Kind};
use crate::ids::{Node, Page};
use crate::machine::Costs;
use serde::{Deserialize, Serialize};

/// Sums of prices are compared with this relative tolerance.
const EPSILON: f64 = 1e-9;

/// W of one page.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct WorkFunction {
    /// By node. Uniform: relative to r for every reference, bounds not yet applied. General: as it is.
    values: Vec<f64>,
    /// Uniform: the least entry of a processor memory.
    least: f64,
}

impl WorkFunction {
    /// Of a page that begins at `start`.
    pub(super) fn new(prices: &Prices, start: Node) -> WorkFunction {
        let values = (0..prices.memories()).map(|to| prices.copy(start, Node(to))).collect();
        let on_global = matches!(prices, Prices::Uniform { global: Some((g, ..)), .. } if *g == start);
        let least = if on_global { prices.copy(start, Node(0)) } else { 0.0 };
        WorkFunction { values, least }
    }

    /// W[node], up to a term that is the same for all nodes.
    #[inline]
    pub(super) fn value(&self, prices: &Prices, node: Node) -> f64 {
        let value = self.values[node.index()];
        match prices {
            Prices::Uniform { page_move, global: None, .. } => value.min(self.least + page_move),
            Prices::Uniform { page_move, global: Some((global, _, copy)), .. } => {
                if node == *global {
                    value.min(self.least + copy)
                } else {
                    value.min(self.least + page_move).min(self.values[global.index()] + copy)
                }
            }
            Prices::General { .. } => value,
        }
    }

    /// W[from] - W[to]: what being at `to` would have saved.
    #[inline]
    pub(super) fn advantage(&self, prices: &Prices, from: Node, to: Node) -> f64 {
        self.value(prices, from) - self.value(prices, to)
    }

    /// True if every other node is behind by all that a move from `node` costs: more references from there change
    /// nothing.
    pub(super) fn belongs_to(&self, prices: &Prices, node: Node) -> bool {
        if let Prices::General { copy, nodes, alike: true, .. } = prices {
            let copy = if *nodes > 1 { copy[1] } else { 0.0 } * (1.0 - EPSILON);
            let here = self.values[node.index()];
            let mut others = self.values.iter().enumerate().filter(|(other, _)| *other != node.index());
            return others.all(|(_, value)| value - here >= copy);
        }
        let behind = |other: Node| {
            let copy = prices.copy(node, other) * (1.0 - EPSILON);
            other == node || self.advantage(prices, other, node) >= copy
        };
        (0..prices.memories()).map(Node).all(behind)
    }

    /// `count` references by `by`.
    pub(super) fn serve(&mut self, prices: &Prices, by: Node, count: f64) {
        match prices {
            Prices::Uniform { remote, global, .. } => {
                let value = self.value(prices, by) - count * (remote - 1.0);
                if let Some((node, access, _)) = global {
                    self.values[node.index()] = self.value(prices, *node) - count * (remote - access);
                }
                self.values[by.index()] = value;
                self.least = self.least.min(value);
            }
            Prices::General { nodes, copy, alike, .. } => {
                let prices = prices.accesses(by);
                match alike {
                    true => self.serve_alike(prices, count, copy.get(1).copied().unwrap_or(0.0)),
                    false => {
                        self.values.iter_mut().zip(prices).for_each(|(value, price)| *value += count * price);
                        self.relax(usize::from(*nodes), copy);
                    }
                }
            }
        }
    }

    /// What is known of one node is from now on of the other.
    pub(super) fn exchange(&mut self, a: Node, b: Node) {
        self.values.swap(a.index(), b.index());
    }

    /// In place, since `copy` is closed: what came from elsewhere already is no cheaper to pass on.
    fn relax(&mut self, nodes: usize, copy: &[f64]) {
        for to in 0..nodes {
            for from in 0..nodes {
                self.values[to] = self.values[to].min(self.values[from] + copy[from * nodes + to]);
            }
        }
        let least = self.values.iter().copied().fold(f64::INFINITY, f64::min);
        self.values.iter_mut().for_each(|value| *value -= least);
    }

    /// References at these prices where a copy costs the same between any two nodes: from the least of all it is never
    /// more expensive than from another one.
    fn serve_alike(&mut self, prices: &[f64], count: f64, copy: f64) {
        // Four minima at a time, which a compiler makes vectors of.
        let mut least = [f64::INFINITY; 4];
        let (mut values, mut by_four) = (self.values.chunks_exact_mut(4), prices.chunks_exact(4));
        let add = |value: &mut f64, price: f64, least: &mut f64| {
            *value += count * price;
            *least = if *value < *least { *value } else { *least };
        };
        for (values, prices) in values.by_ref().zip(by_four.by_ref()) {
            (0..4).for_each(|lane| add(&mut values[lane], prices[lane], &mut least[lane]));
        }
        let rest = values.into_remainder().iter_mut().zip(by_four.remainder());
        rest.for_each(|(value, price)| add(value, *price, &mut least[0]));
        let least = least.into_iter().fold(f64::INFINITY, f64::min);
        let most = least + copy;
        self.values.iter_mut().for_each(|value| *value = (if *value < most { *value } else { most }) - least);
    }
}

/// When to move: at a reference from i, once W[here] - W[i] >= -eagerness * copy(here, i). -1 is the work function
/// algorithm, 0 ski rental (move when being there would have been no worse), +1 moves at once.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Rule {
    pub(super) eagerness: f64,
}

impl Rule {
    /// Where a page at `here` should go at a reference from `by`.
    pub(super) fn target(self, prices: &Prices, work: &WorkFunction, here: Node, by: Node) -> Option<Node> {
        if here == by {
            return None;
        }
        let reached = |to: Node, eagerness: f64| {
            let (advantage, copy) = (work.advantage(prices, here, to), prices.copy(here, to));
            advantage + copy * EPSILON >= -eagerness * copy
        };
        if prices.access(by, by) < prices.access(by, here) && reached(by, self.eagerness) {
            return Some(by);
        }
        let cautious = self.eagerness.min(0.0);
        if let Prices::General { alike: true, copy, .. } = prices {
            // No value is below 0, so that none is better by more than this.
            let most = work.values[here.index()];
            if most <= 0.0 || most + copy[1] * EPSILON < -cautious * copy[1] {
                return None;
            }
        }
        prices
            .havens()
            .map(Node)
            .filter(|&to| to != here && to != by && prices.access(by, to) < prices.access(by, here))
            .filter(|&to| work.advantage(prices, here, to) > 0.0 && reached(to, cautious))
            .min_by(|&a, &b| work.value(prices, a).total_cmp(&work.value(prices, b)))
    }

    /// A lower bound on the references from `by` after which [`Rule::target`] could have an answer (at least 1).
    pub(super) fn patience(self, prices: &Prices, work: &WorkFunction, here: Node, by: Node) -> u64 {
        // Rounding up keeps the order: the least of all is rounded.
        let until = |to: Node, eagerness: f64| {
            let rate = prices.access(by, here) - prices.access(by, to);
            let copy = prices.copy(here, to);
            let missing = -eagerness * copy - work.advantage(prices, here, to);
            if rate <= 0.0 {
                return f64::INFINITY;
            }
            (missing - copy * EPSILON) / rate
        };
        let cautious = self.eagerness.min(0.0);
        let first = until(by, self.eagerness);
        let least = match prices {
            Prices::General { alike: true, copy, .. } if here != by => {
                let (near, values) = (prices.accesses(by), &work.values);
                let (access, value) = (near[here.index()], values[here.index()]);
                let copy = copy[1];
                let wanted = -cautious * copy;
                let each = |(near, other): (&f64, &f64)| {
                    let rate = access - near;
                    let missing = wanted - (value - other);
                    if rate <= 0.0 {
                        f64::INFINITY
                    } else {
                        (missing - copy * EPSILON) / rate
                    }
                };
                near.iter().zip(values).map(each).fold(first, |a, b| if b < a { b } else { a })
            }
            _ => {
                let havens = prices.havens().map(Node).filter(|&to| to != here && to != by);
                havens.map(|to| until(to, cautious)).fold(first, f64::min)
            }
        };
        least.ceil().max(1.0) as u64
    }
}

/// The work function algorithm as a policy.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Wfa {
    prices: Prices,
    rule: Rule,
    pages: Pages<WorkFunction>,
}

impl Wfa {
    /// For a machine; `eagerness` -1 is the algorithm itself.
    pub fn new(costs: &Costs, eagerness: f64) -> Wfa {
        Wfa { prices: Prices::new(costs), rule: Rule { eagerness }, pages: Pages::default() }
    }

    fn consider(&mut self, page: Page, here: Node, by: Node, actions: &mut Actions) -> Next {
        let work = self.pages.entry(page, || WorkFunction::new(&self.prices, here));
        match self.rule.target(&self.prices, work, here, by) {
            Some(to) => {
                actions.push(page, Kind::Move { to }, "the past would have been cheaper there, by a move");
                Next::After(self.rule.patience(&self.prices, work, to, by))
            }
            None => Next::After(self.rule.patience(&self.prices, work, here, by)),
        }
    }
}

impl Policy for Wfa {
    fn fault(&mut self, fault: &Fault, actions: &mut Actions) -> Next {
        self.consider(fault.page, fault.at.home(), fault.node, actions)
    }

    fn wants_samples(&self) -> bool {
        true
    }

    fn sample(&mut self, sample: &Sample, actions: &mut Actions) {
        let here = sample.at.home();
        if here != sample.node {
            self.consider(sample.page, here, sample.node, actions);
        }
        let count = (sample.reads + sample.writes) as f64 * sample.weight;
        let work = self.pages.entry(sample.page, || WorkFunction::new(&self.prices, here));
        work.serve(&self.prices, sample.node, count);
    }

    fn page_gone(&mut self, page: Page) {
        self.pages.remove(page);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Where all moves cost the same, the short way gives what the matrix gives, to the last digit.
        #[test]
        fn moves_that_cost_the_same_are_relaxed_as_by_the_matrix(
            both in proptest::collection::vec((0.0..1e4f64, 1.0..9f64), 1..13),
            price in 1.0..1e3f64,
            count in 1.0..99f64,
        ) {
            let (values, accesses): (Vec<f64>, Vec<f64>) = both.into_iter().unzip();
            let nodes = values.len();
            let copy: Vec<f64> =
                (0..nodes * nodes).map(|at| if at / nodes == at % nodes { 0.0 } else { price }).collect();
            let mut one = WorkFunction { values, least: 0.0 };
            let mut other = one.clone();
            one.values.iter_mut().zip(&accesses).for_each(|(value, access)| *value += count * access);
            one.relax(nodes, &copy);
            other.serve_alike(&accesses, count, price);
            prop_assert_eq!(one.values, other.values);
        }
    }

    proptest! {
        /// What is known from all moves costing the same is what the matrix says.
        #[test]
        fn the_short_ways_of_alike_moves_change_no_answer(
            served in proptest::collection::vec((0..9u16, 1.0..400f64), 1..30),
            accesses in proptest::collection::vec(2.0..5.0f64, 81), price in 1.0..1e3f64, eagerness in -1.0..1.0f64,
        ) {
            let on_diagonal = |at: usize| at / 9 == at % 9;
            let access = (0..81).map(|at| if on_diagonal(at) { 1.0 } else { accesses[at] }).collect();
            let copy = (0..81).map(|at| if on_diagonal(at) { 0.0 } else { price }).collect();
            let short = Prices::General { nodes: 9, access, copy, alike: true };
            let mut long = short.clone();
            if let Prices::General { alike, .. } = &mut long { *alike = false }
            let rule = Rule { eagerness };
            let mut works = [WorkFunction::new(&short, Node(0)), WorkFunction::new(&long, Node(0))];
            for (by, count) in served {
                for (work, prices) in works.iter_mut().zip([&short, &long]) {
                    work.serve(prices, Node(by), count);
                }
                prop_assert_eq!(&works[0].values, &works[1].values);
                for here in (0..9).map(Node).filter(|here| *here != Node(by)) {
                    let asked = |prices, work| {
                        (rule.target(prices, work, here, Node(by)), rule.patience(prices, work, here, Node(by)))
                    };
                    prop_assert_eq!(asked(&short, &works[0]), asked(&long, &works[1]));
                    prop_assert_eq!(works[0].belongs_to(&short, here), works[1].belongs_to(&long, here));
                }
            }
        }
    }
}
