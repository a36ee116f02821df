//! The best decision rule on a chain of states: where a page should be until the next sample, for each state and home.
//!
//! A Markov decision process whose states no decision influences, with an end that every state leads to: the rule with
//! the least expected cost needs no randomness and no memory beyond the state (Puterman 1994, chapter 7.1, total
//! cost). Only differences between homes decide. They are bounded by a page move, and value iteration works on them:
//! for state z let D(z, h) be what staying at h costs more than the best home, from z to the end. With c the expected
//! cost of the references until the next sample, p the probabilities of the next state,
//!
//! ```text
//! M(z, h) = min over k of copy(h, k) + D(z, k)
//! D(z, h) = c(z, h) + sum p(y) M(y, h) - the same for the best home
//! ```
//!
//! A state that follows itself, as in a long run of one node, is solved for at once where all moves cost the same.

use super::law::State;
use crate::ids::Node;
use crate::machine::Costs;

/// Sweeps over all states; the rule is that of the last one if it is reached.
const MOST_SWEEPS: usize = 4000;
/// Differences are settled if what they change by in a sweep is less than the first share of a page move, or, over as
/// many sweeps as a pass has samples, less than the second.
const SETTLED: f64 = 1e-7;
const SETTLED_IN_A_LIFE: f64 = 1e-2;
/// A move must save more than this share of a page move.
const WORTH: f64 = 1e-6;

/// Where to be, for each state and home.
#[derive(Debug)]
pub(super) struct Rule {
    memories: usize,
    to: Vec<u16>,
}

impl Rule {
    /// Where a page at `home` should be until the next sample.
    pub(super) fn at(&self, state: usize, home: Node) -> Node {
        Node(self.to[state * self.memories + home.index()])
    }
}

/// The rule that costs least. `samples`: of a pass, to say how exact it must be.
pub(super) fn best(chain: &[State], costs: &Costs, samples: u64) -> Rule {
    let differences = Differences::solve(chain, costs, samples);
    let memories = differences.memories;
    let mut to = Vec::with_capacity(chain.len() * memories);
    for state in 0..chain.len() {
        let row = differences.row(state);
        for home in 0..memories {
            let cost = |k: usize| differences.copy(home, k) + row[k];
            let least =
                (0..memories).min_by(|&a, &b| cost(a).total_cmp(&cost(b))).expect("there is a memory");
            let pays = cost(least) < row[home] - WORTH * differences.dearest;
            to.push(if pays { least } else { home } as u16);
        }
    }
    Rule { memories, to }
}

/// D, and what it is made of.
struct Differences {
    memories: usize,
    copy: Vec<f64>,
    /// What a move costs, if it is the same between all memories.
    alike: Option<f64>,
    dearest: f64,
    values: Vec<f64>,
}

impl Differences {
    fn solve(chain: &[State], costs: &Costs, samples: u64) -> Differences {
        let memories = usize::from(costs.memories());
        let nodes = || (0..memories as u16).map(Node);
        let copy: Vec<f64> = nodes().flat_map(|a| nodes().map(move |b| costs.copy(a, b))).collect();
        let dearest = copy.iter().copied().fold(0.0, f64::max);
        let pairs = (0..memories).flat_map(|a| (0..memories).map(move |b| (a, b)));
        let same = pairs.filter(|(a, b)| a != b).all(|(a, b)| copy[a * memories + b] == dearest);
        let values = vec![0.0; chain.len() * memories];
        let mut all = Differences { memories, copy, alike: same.then_some(dearest), dearest, values };
        let access: Vec<f64> = nodes().flat_map(|by| nodes().map(move |at| costs.access(by, at))).collect();
        let service: Vec<Vec<f64>> = chain.iter().map(|state| service(state, &access, memories)).collect();
        all.begin(chain, &service);
        let settled = SETTLED.max(SETTLED_IN_A_LIFE / samples.max(1) as f64) * dearest;
        let mut row = vec![0.0; memories];
        for _ in 0..MOST_SWEEPS {
            // Later states were first seen later: backwards, what is to come is known sooner.
            let mut change: f64 = 0.0;
            for state in (0..chain.len()).rev() {
                row.copy_from_slice(&service[state]);
                change = change.max(all.update(state, &chain[state], &mut row));
            }
            if change <= settled {
                break;
            }
        }
        all
    }

    /// A first guess: what staying costs more over the whole history, up to a page move. A small difference that lasts
    /// would else take as many sweeps to add up as a page move is worth.
    fn begin(&mut self, chain: &[State], service: &[Vec<f64>]) {
        let mut stay = vec![0.0; self.memories];
        for (state, service) in chain.iter().zip(service) {
            stay.iter_mut().zip(service).for_each(|(sum, cost)| *sum += state.visits * cost);
        }
        let least = stay.iter().copied().fold(f64::INFINITY, f64::min);
        stay.iter_mut().for_each(|cost| *cost = (*cost - least).min(self.dearest));
        self.values.chunks_mut(self.memories).for_each(|row| row.copy_from_slice(&stay));
    }

    fn row(&self, state: usize) -> &[f64] {
        &self.values[state * self.memories..][..self.memories]
    }

    fn copy(&self, from: usize, to: usize) -> f64 {
        self.copy[from * self.memories + to]
    }

    /// M, up to a number that is the same for all homes.
    fn after_a_move(&self, row: &[f64], home: usize) -> f64 {
        match self.alike {
            Some(price) => row[home].min(price),
            None => (0..self.memories).map(|to| self.copy(home, to) + row[to]).fold(f64::INFINITY, f64::min),
        }
    }

    /// D of one state from those of the others; how much it changed. `row` has the cost until the next sample.
    fn update(&mut self, number: usize, state: &State, row: &mut [f64]) -> f64 {
        for &(next, probability) in &state.next {
            let others = self.row(next);
            (0..self.memories).for_each(|home| row[home] += probability * self.after_a_move(others, home));
        }
        let old = self.row(number);
        if self.alike.is_none() {
            (0..self.memories).for_each(|home| row[home] += state.stays * self.after_a_move(old, home));
        }
        let least = row.iter().copied().fold(f64::INFINITY, f64::min);
        for value in row.iter_mut() {
            *value -= least;
            if let Some(price) = self.alike {
                // It comes back here until it leaves, or a move is cheaper.
                let stayed = *value / (1.0 - state.stays);
                *value = if stayed <= price { stayed } else { *value + state.stays * price };
            }
        }
        let change = row.iter().zip(old).map(|(new, old)| (new - old).abs()).fold(0.0, f64::max);
        self.values[number * self.memories..][..self.memories].copy_from_slice(row);
        change
    }
}

/// Expected cost until the next sample, by home.
fn service(state: &State, access: &[f64], memories: usize) -> Vec<f64> {
    let cost = |home: usize| {
        let by_node = state.references.iter().enumerate();
        by_node.map(|(by, count)| count * access[by * memories + home]).sum()
    };
    (0..memories).map(cost).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{General, Uniform};
    use proptest::prelude::*;

    /// Expected cost to the end of following a rule, by state and home at its sample, before the rule acts.
    fn expected(chain: &[State], costs: &Costs, rule: &[u16]) -> Vec<f64> {
        let memories = usize::from(costs.memories());
        let mut values = vec![0.0; chain.len() * memories];
        for _ in 0..600 {
            for (number, state) in chain.iter().enumerate() {
                for home in 0..memories {
                    let to = rule[number * memories + home];
                    let refer = |(by, count): (usize, &f64)| count * costs.access(Node(by as u16), Node(to));
                    let now: f64 = state.references.iter().enumerate().map(refer).sum();
                    let at = |next: usize| values[next * memories + usize::from(to)];
                    let later: f64 = state.next.iter().map(|&(next, p)| p * at(next)).sum();
                    let moved = costs.copy(Node(home as u16), Node(to));
                    values[number * memories + home] = moved + now + later + state.stays * at(number);
                }
            }
        }
        values
    }

    /// Every rule there is.
    fn all_rules(length: usize, memories: u16) -> impl Iterator<Item = Vec<u16>> {
        let count = u64::from(memories).pow(length as u32);
        (0..count).map(move |mut number| {
            let mut digit = || {
                let digit = number % u64::from(memories);
                number /= u64::from(memories);
                digit as u16
            };
            (0..length).map(|_| digit()).collect()
        })
    }

    fn chain(states: usize, memories: usize) -> impl Strategy<Value = Vec<State>> {
        let state = (prop::collection::vec(0.0f64..30.0, memories), prop::collection::vec(0u32..9, states));
        prop::collection::vec(state, states).prop_map(|states| {
            let make = |(number, (references, weights)): (usize, (Vec<f64>, Vec<u32>))| {
                // One part in the sum is the end, so that every state leads there.
                let sum = f64::from(1 + weights.iter().sum::<u32>());
                let share = |to: usize| f64::from(weights[to]) / sum;
                let next = (0..weights.len()).filter(|&to| to != number).map(|to| (to, share(to))).collect();
                State { visits: 1.0, references, stays: share(number), next }
            };
            states.into_iter().enumerate().map(make).collect()
        })
    }

    fn machine(memories: usize) -> impl Strategy<Value = Costs> {
        let uniform = (1.5f64..6.0, 10.0f64..200.0).prop_map(move |(remote, page_move)| {
            Costs::Uniform(Uniform { nodes: memories as u16, remote, page_move, global: None })
        });
        let (access, copy) = (1.0f64..6.0, 10.0f64..200.0);
        let matrices = (
            prop::collection::vec(access, memories * memories),
            prop::collection::vec(copy, memories * memories),
        );
        let general = matrices
            .prop_map(move |(access, copy)| Costs::General(General { nodes: memories as u16, access, copy }));
        prop_oneof![uniform, general]
    }

    fn check(chain: &[State], costs: &Costs) -> Result<(), TestCaseError> {
        let memories = costs.memories();
        let length = chain.len() * usize::from(memories);
        let mut least = vec![f64::INFINITY; length];
        for rule in all_rules(length, memories) {
            let values = expected(chain, costs, &rule);
            least.iter_mut().zip(values).for_each(|(least, value)| *least = least.min(value));
        }
        let found = expected(chain, costs, &best(chain, costs, 1_000_000).to);
        for (found, least) in found.iter().zip(&least) {
            prop_assert!(*found <= least * (1.0 + 1e-4), "{found} instead of {least}");
        }
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn no_other_rule_costs_less_with_three_states(chain in chain(3, 2), costs in machine(2)) {
            check(&chain, &costs)?;
        }

        #[test]
        fn no_other_rule_costs_less_with_three_memories(chain in chain(2, 3), costs in machine(3)) {
            check(&chain, &costs)?;
        }
    }
}
