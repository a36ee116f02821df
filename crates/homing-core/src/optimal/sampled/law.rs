//! The law of a page: how its samples follow each other, and what is referenced between them.

use super::memory::{Key, Memory, Past};
use super::walk::walk;
use crate::history::PageRun;
use crate::information::Sampler;
use std::collections::HashMap;

/// What follows each state, counted over passes of a monitor.
pub(super) struct Law {
    memories: usize,
    numbers: HashMap<Key, u32>,
    visits: Vec<u64>,
    /// By state and node: references until the next sample.
    references: Vec<u64>,
    /// How often a state followed itself.
    stays: Vec<u64>,
    /// How often a state followed another one.
    steps: HashMap<(u32, u32), u64>,
}

/// A state of the chain that the counts make.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    /// How often it was seen.
    pub(super) visits: f64,
    /// Expected references by each node until the next sample or the end.
    pub(super) references: Vec<f64>,
    /// Probability that the next sample finds this same state.
    pub(super) stays: f64,
    /// Other states at the next sample, with probabilities; what is missing to 1 is the end.
    pub(super) next: Vec<(usize, f64)>,
}

impl Law {
    /// Of no pass yet; `memories` of the machine.
    pub(super) fn new(memories: usize) -> Law {
        Law {
            memories,
            numbers: HashMap::new(),
            visits: Vec::new(),
            references: Vec::new(),
            stays: Vec::new(),
            steps: HashMap::new(),
        }
    }

    /// Adds a pass over the whole history of the page; false, and only a part added, if there are more than `most`
    /// states.
    pub(super) fn add(
        &mut self,
        runs: impl Iterator<Item = PageRun>,
        sampler: Sampler,
        memory: Memory,
        mut past: Past,
        most: usize,
    ) -> bool {
        let mut counts = vec![0; self.memories];
        let mut state: Option<u32> = None;
        let mut key: Option<Key> = None;
        walk(runs, sampler, &mut counts, |node, references| {
            if self.visits.len() > most {
                return;
            }
            if let Some(state) = state {
                let at = state as usize * self.memories;
                let sums = &mut self.references[at..at + self.memories];
                sums.iter_mut().zip(references).for_each(|(sum, count)| *sum += count);
            }
            let Some(node) = node else { return };
            past.sample(node);
            let next_key = past.key(memory);
            if let (Some(state), true) = (state, key == Some(next_key)) {
                self.visits[state as usize] += 1;
                self.stays[state as usize] += 1;
                return;
            }
            let next = self.number(next_key);
            self.visits[next as usize] += 1;
            if let Some(state) = state {
                *self.steps.entry((state, next)).or_default() += 1;
            }
            (state, key) = (Some(next), Some(next_key));
        });
        self.visits.len() <= most
    }

    fn number(&mut self, key: Key) -> u32 {
        *self.numbers.entry(key).or_insert_with(|| {
            self.visits.push(0);
            self.stays.push(0);
            self.references.resize(self.references.len() + self.memories, 0);
            self.visits.len() as u32 - 1
        })
    }

    /// The number of the state with that key, if it was ever seen.
    pub(super) fn state(&self, key: Key) -> Option<usize> {
        self.numbers.get(&key).map(|&number| number as usize)
    }

    /// The chain, state by state.
    pub(super) fn chain(&self) -> Vec<State> {
        let visits = |state: usize| self.visits[state] as f64;
        let mut states = vec![State::default(); self.visits.len()];
        for (number, state) in states.iter_mut().enumerate() {
            let sums = &self.references[number * self.memories..][..self.memories];
            state.visits = visits(number);
            state.stays = self.stays[number] as f64 / visits(number);
            state.references = sums.iter().map(|&sum| sum as f64 / visits(number)).collect();
        }
        let mut steps: Vec<_> = self.steps.iter().map(|(&(from, to), &count)| (from, to, count)).collect();
        // Sums of floating-point numbers depend on their order, a hash map's order on chance.
        steps.sort_unstable();
        for (from, to, count) in steps {
            let (from, to) = (from as usize, to as usize);
            states[from].next.push((to, count as f64 / visits(from)));
        }
        states
    }
}
