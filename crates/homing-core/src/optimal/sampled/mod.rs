//! The oracle of samples: what a policy could do at best that knows the law of each page beforehand, but sees samples
//! of its references only.
//!
//! Between the off-line optimum and a policy that sees one reference in N lie two losses: what the samples do not show,
//! and what the policy makes of them. The oracle stands between. For each page it is given the law of the page's own
//! samples ([`law`]): for each *state* (what a rule remembers of the samples so far, [`memory`]) which states follow
//! how often, and what is referenced meanwhile by whom. On that chain it solves exactly for the decision rule with the
//! least expected cost ([`rule`]), for each of several memories from "nothing" to "three runs, their lengths, and the
//! age of the page", takes the one that does best, and follows it on the page's history.
//!
//! **What it bounds.** No rule that decides by the same state alone does better on pages that follow their law. It is
//! no bound for policies that see more than the samples of the page itself (its neighbours' samples, say), nor for
//! longer memories. Its cost is never below the off-line optimum: it is what a placement costs that is carried out.
//!
//! **It must not learn the history by heart.** The passes of the monitor that the law is counted from, those that
//! choose among memories, and the one that is followed have different samples of the same history (at a period of 1
//! there is only one). And a memory must meet each of its states [`VISITS`] times a pass in the mean, so that it has no
//! room for the history itself.

mod law;
mod memory;
mod rule;
mod walk;

use super::OptimalError;
use crate::history::{History, PageRun};
use crate::ids::{Node, Page};
use crate::information::{Information, Sampler, Sampling};
use crate::machine::Costs;
use law::Law;
use memory::{Key, Memory, Past, MEMORIES};
use rayon::prelude::*;
use rule::Rule;
use walk::walk;

/// How often a pass must meet each state of a memory, in the mean.
pub const VISITS: u64 = 8;
/// States of a memory, to keep the time to solve for its rule within bounds.
const MOST_STATES: u64 = 1024;
/// Samples that a law is counted from, in at most [`MOST_PASSES`] passes.
const SAMPLES: u64 = 4096;
const LEAST_PASSES: u64 = 4;
const MOST_PASSES: u64 = 32;
/// Passes that choose among memories.
const CHOOSING: u64 = 4;

/// What the oracle did, in total or on one page.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Oracle {
    /// Cost in local word references.
    pub cost: f64,
    /// Page moves.
    pub moves: u64,
    /// Samples that it saw.
    pub samples: u64,
}

/// The oracle of samples on all pages of a history, from where they are first touched, one copy a page.
/// `information` says which references it sees, and with which seed; intervals do not count. Uses all threads of the
/// current rayon pool; the result is the same for any number of threads.
pub fn solve(history: &History, costs: &Costs, information: &Information) -> Result<Oracle, OptimalError> {
    let pages: Vec<Oracle> = (0..history.pages())
        .into_par_iter()
        .map(|page| {
            Ok::<_, OptimalError>(one_page(Page(page), history.runs(Page(page))?, costs, information))
        })
        .collect::<Result<_, _>>()?;
    let add = |sum: Oracle, page: Oracle| Oracle {
        cost: sum.cost + page.cost,
        moves: sum.moves + page.moves,
        samples: sum.samples + page.samples,
    };
    Ok(pages.into_iter().fold(Oracle::default(), add))
}

/// The oracle of samples on one page; nothing if it has no references.
pub fn one_page(
    page: Page,
    runs: impl Iterator<Item = PageRun> + Clone,
    costs: &Costs,
    information: &Information,
) -> Oracle {
    let Some(first) = runs.clone().next() else { return Oracle::default() };
    let references = runs.clone().map(|run| run.references()).sum();
    let passes = Passes::new(information, references);
    let subject = Subject { page, start: first.node, runs, costs, information, passes };
    let mut best: Option<(f64, Candidate)> = None;
    let mut too_long: Vec<Memory> = Vec::new();
    for memory in MEMORIES {
        if too_long.iter().any(|other| memory.contains(*other)) {
            continue;
        }
        let Some(candidate) = subject.candidate(memory) else {
            too_long.push(memory);
            continue;
        };
        let cost: f64 = subject.passes.choosing().map(|pass| subject.follow(&candidate, pass).cost).sum();
        if best.as_ref().is_none_or(|(least, _)| cost < *least) {
            best = Some((cost, candidate));
        }
    }
    let (_, candidate) = best.expect("a memory of nothing has one state");
    subject.follow(&candidate, 0)
}

/// A page and who looks at it.
struct Subject<'a, R> {
    page: Page,
    start: Node,
    runs: R,
    costs: &'a Costs,
    information: &'a Information,
    passes: Passes,
}

/// A memory with its best rule.
struct Candidate {
    memory: Memory,
    law: Law,
    rule: Rule,
}

/// Passes of the monitor: number 0 is the one that policies see, the others are for learning and choosing.
struct Passes {
    learning: u64,
    choosing: u64,
    /// Samples expected in one.
    samples: u64,
}

impl Passes {
    fn new(information: &Information, references: u64) -> Passes {
        match information.sampling {
            // All passes are alike.
            Sampling::All | Sampling::Every(1) => Passes { learning: 1, choosing: 0, samples: references },
            Sampling::Every(period) => {
                let samples = references / period;
                let learning = (SAMPLES / samples.max(1)).clamp(LEAST_PASSES, MOST_PASSES);
                Passes { learning, choosing: CHOOSING, samples }
            }
        }
    }

    fn learning(&self) -> std::ops::Range<u64> {
        match self.choosing {
            0 => 0..1,
            _ => 1..1 + self.learning,
        }
    }

    fn choosing(&self) -> std::ops::Range<u64> {
        match self.choosing {
            0 => 0..1,
            choosing => 1 + self.learning..1 + self.learning + choosing,
        }
    }
}

impl<R: Iterator<Item = PageRun> + Clone> Subject<'_, R> {
    fn sampler(&self, pass: u64) -> Sampler {
        let seed = self.information.seed ^ pass << 32;
        Information { seed, ..*self.information }.sampler(self.page)
    }

    /// The best rule with a memory, unless that has too many states.
    fn candidate(&self, memory: Memory) -> Option<Candidate> {
        let mut law = Law::new(usize::from(self.costs.memories()));
        let most = (self.passes.samples / VISITS).clamp(1, MOST_STATES) as usize;
        let past = Past::new(self.passes.samples);
        for pass in self.passes.learning() {
            if !law.add(self.runs.clone(), self.sampler(pass), memory, past, most) {
                return None;
            }
        }
        let rule = rule::best(&law.chain(), self.costs, self.passes.samples);
        Some(Candidate { memory, law, rule })
    }

    /// What following a rule costs on the page's true history. In a state that the law does not have the page stays.
    fn follow(&self, candidate: &Candidate, pass: u64) -> Oracle {
        let memories = self.costs.memories();
        let mut done = Oracle::default();
        let mut past = Past::new(self.passes.samples);
        let mut home = self.start;
        let mut last: (Option<Key>, Option<usize>) = (None, None);
        let access: Vec<f64> = (0..memories)
            .flat_map(|at| (0..memories).map(move |by| (by, at)))
            .map(|(by, at)| self.costs.access(Node(by), Node(at)))
            .collect();
        let mut counts = vec![0; usize::from(memories)];
        walk(self.runs.clone(), self.sampler(pass), &mut counts, |node, references| {
            let prices = &access[home.index() * usize::from(memories)..];
            done.cost +=
                references.iter().zip(prices).map(|(&count, price)| count as f64 * price).sum::<f64>();
            let Some(node) = node else { return };
            done.samples += 1;
            past.sample(node);
            let key = past.key(candidate.memory);
            if last.0 != Some(key) {
                last = (Some(key), candidate.law.state(key));
            }
            let Some(state) = last.1 else { return };
            let to = candidate.rule.at(state, home);
            if to != home {
                done.cost += self.costs.copy(home, to);
                done.moves += 1;
                home = to;
            }
        });
        done
    }
}

#[cfg(test)]
mod tests;
