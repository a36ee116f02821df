//! A lower bound on modelled time over all placements with moves, one copy a page, that counts the load of memories and
//! links ([`crate::time`]).
//!
//! An interval takes at least as long as any weighted mean of its threads, waits in queues included. What all requests
//! together wait at a memory is a convex function of how many there are, so that a tangent to it is never above it
//! ([`prices`]). For a choice of weights and tangents the bound is therefore a constant and a sum over pages, which the
//! optimum of a machine with unequal distances minimises exactly ([`super::general`]). Every choice gives a bound. A
//! good one is found by the Frank-Wolfe method: tangents are taken at the load of a mixture of the placements found so
//! far, and the cheapest placement at the prices that they give joins the mixture. `docs/optimal.md`, "With load".

mod flows;
mod prices;

pub use flows::{Placed, CHEAPEST, FIRST_TOUCH, SPREAD, STRIPED};

use super::general::GeneralSolver;
use super::{OptimalError, Start};
use crate::cache::Counts;
use crate::history::History;
use crate::ids::{Node, Page};
use crate::time::{Mover, Times};
use flows::Flows;
use prices::{Prices, Terms, Weights};
use rayon::prelude::*;
use serde::Serialize;

/// The most evaluations with threads of equal weight.
const ROUNDS: usize = 12;
/// The most evaluations with other weights of threads.
const THREAD_ROUNDS: usize = 6;
/// A bound that is this close to what it cannot exceed is good enough.
const ENOUGH: f64 = 1e-3;
/// How fast weights of threads follow their times.
const RATE: f64 = 3.0;
/// In the first evaluation pages take turns among memories whose cost is within this share of the cheapest; in each
/// further one half of it.
const SLACK: f64 = 0.05;

/// A program behind caches.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    /// Its misses.
    pub history: &'a History,
    /// The machine's times.
    pub times: &'a Times,
    /// The CPUs that its threads run on, and what the caches of each counted.
    pub cpus: &'a [(Node, Counts)],
    /// Whose time page moves take.
    pub mover: Mover,
}

/// What no placement is below, and what some placements take, in modelled nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoadBound {
    /// No placement, with or without moves, takes less, however the run is divided into intervals.
    pub bound_ns: f64,
    /// The same if nobody waited in queues.
    pub without_load_ns: f64,
    /// How many times the optimum was computed.
    pub evaluations: u32,
    /// What some placements take if their load is even over the run; the fastest first.
    pub placements: Vec<Placed>,
}

/// The optimum at some prices.
struct Evaluation {
    /// What it proves.
    ns: f64,
    flows: Flows,
    prices: Prices,
    slack: f64,
}

/// Placements, each for a share of every page.
struct Mixture {
    /// The best that the weights at its loads have proved.
    bound_ns: f64,
    flows: Flows,
    /// What it is made of, with the share of each.
    parts: Vec<(f64, Evaluation)>,
}

/// A search for good weights.
struct Search<'a> {
    program: Program<'a>,
    terms: Terms<'a>,
    pages: Vec<u32>,
    evaluations: u32,
}

/// The bound, and placements to compare with it. Pages may begin anywhere, free of charge. Uses all threads of the
/// current rayon pool; the result is the same for any number of threads.
///
/// # Errors
/// If the history cannot be read back, or a page has too many runs.
pub fn bound(program: Program<'_>) -> Result<LoadBound, OptimalError> {
    let still = flows::Still::of(&program)?;
    let mut search = Search {
        terms: Terms::new(&program, &still.references),
        pages: (0..program.history.pages()).collect(),
        program,
        evaluations: 0,
    };
    let quiet = search.evaluate(Weights::equal(&search.terms), 0.0)?;
    let without_load_ns = search.turn_to_slow_threads(quiet.ns, quiet.flows.clone(), false)?;
    let mixture = search.mix(&quiet)?;
    let spread = search.rounded(&mixture.parts)?;
    let mut bound_ns = mixture.bound_ns.max(without_load_ns);
    if mixture.bound_ns > quiet.ns * (1.0 + ENOUGH) {
        bound_ns = search.turn_to_slow_threads(bound_ns, mixture.flows, true)?;
    }
    let placements = [
        (FIRST_TOUCH, still.first_touch),
        (STRIPED, still.striped),
        (CHEAPEST, quiet.flows),
        (SPREAD, spread),
    ];
    let mut placements = placements.map(|(name, flows)| Placed::new(name, &flows, &program)).to_vec();
    placements.sort_by(|a, b| a.ns.total_cmp(&b.ns));
    Ok(LoadBound { bound_ns, without_load_ns, evaluations: search.evaluations, placements })
}

impl Search<'_> {
    /// What no placement is below, by these weights.
    fn evaluate(&mut self, weights: Weights, slack: f64) -> Result<Evaluation, OptimalError> {
        self.evaluations += 1;
        let prices = self.terms.prices(&weights);
        let (cost, flows) = self.cheapest(&self.pages, &prices, slack)?;
        Ok(Evaluation { ns: (prices.constant + cost) / prices.divisor, flows, prices, slack })
    }

    /// The least that some pages cost at some prices, and what a placement that costs about that does.
    fn cheapest(&self, pages: &[u32], prices: &Prices, slack: f64) -> Result<(f64, Flows), OptimalError> {
        let part = |pages: &[u32]| {
            let mut solver = GeneralSolver::new(&prices.costs, Start::OneCopy).taking_turns(slack);
            let mut cost = 0.0;
            for &page in pages {
                cost += solver.page(Page(page), None, self.program.history.runs(Page(page))?, &mut ())?.cost;
            }
            Ok::<_, OptimalError>((cost, solver))
        };
        let parts: Vec<_> = pages.par_chunks(256).map(part).collect::<Result<_, _>>()?;
        let (mut cost, mut flows) = (0.0, Flows::none(self.terms.nodes));
        for (part, solver) in &parts {
            cost += part;
            flows.count(solver.counts());
        }
        Ok((cost, flows))
    }

    /// The best bound with threads of equal weight, and the mixture whose loads led to it.
    fn mix(&mut self, quiet: &Evaluation) -> Result<Mixture, OptimalError> {
        let mut weights = Weights::equal(&self.terms);
        let (mut best, mut slack) = (quiet.ns, SLACK);
        let first = self.evaluate(weights.clone(), slack)?;
        let (mut flows, mut parts) = (first.flows.clone(), vec![(1.0, first)]);
        for _ in 0..ROUNDS {
            let reached = self.terms.mixed_ns(&flows, &weights);
            if best > reached * (1.0 - ENOUGH) {
                break;
            }
            slack /= 2.0;
            weights.load(&self.terms, &flows, reached);
            let next = self.evaluate(weights.clone(), slack)?;
            best = best.max(next.ns);
            let share = lowest(|share| self.terms.mixed_ns(&flows.towards(&next.flows, share), &weights));
            if share > 0.0 {
                flows = flows.towards(&next.flows, share);
                parts.iter_mut().for_each(|part| part.0 *= 1.0 - share);
                parts.push((share, next));
            }
        }
        Ok(Mixture { bound_ns: best, flows, parts })
    }

    /// The best bound when slow threads count more, if it is above that one.
    fn turn_to_slow_threads(
        &mut self,
        mut best: f64,
        mut mixture: Flows,
        loaded: bool,
    ) -> Result<f64, OptimalError> {
        let (mut weights, mut last) = (Weights::equal(&self.terms), 0.0);
        for round in 0..THREAD_ROUNDS {
            if !weights.follow(&self.terms, &mixture, RATE) {
                break;
            }
            if loaded {
                let reached = self.terms.mixed_ns(&mixture, &weights);
                weights.load(&self.terms, &mixture, reached);
            }
            let next = self.evaluate(weights.clone(), 0.0)?;
            if round > 0 && next.ns < last * (1.0 + ENOUGH) {
                best = best.max(next.ns);
                break;
            }
            (best, last) = (best.max(next.ns), next.ns);
            mixture = mixture.towards(&next.flows, 1.0 / (round + 2) as f64);
        }
        Ok(best)
    }

    /// Each page as in one part of a mixture: the parts have their shares of the pages.
    fn rounded(&self, parts: &[(f64, Evaluation)]) -> Result<Flows, OptimalError> {
        // Numbers that are even over any stretch of pages.
        let even = |page: u32| (f64::from(page) * 0.618_033_988_749_895).fract();
        let (mut flows, mut below) = (Flows::none(self.terms.nodes), 0.0);
        for (number, (share, part)) in parts.iter().enumerate() {
            let end = if number + 1 == parts.len() { f64::INFINITY } else { below + share };
            let pages: Vec<u32> =
                self.pages.iter().copied().filter(|&page| (below..end).contains(&even(page))).collect();
            flows.add(&self.cheapest(&pages, &part.prices, part.slack)?.1);
            below = end;
        }
        Ok(flows)
    }
}

/// Where in 0..=1 a convex function is lowest, by thirds.
fn lowest(of: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..30 {
        let third = (high - low) / 3.0;
        if of(low + third) <= of(high - third) {
            high -= third;
        } else {
            low += third;
        }
    }
    let middle = (low + high) / 2.0;
    if of(middle) < of(0.0) {
        middle
    } else {
        0.0
    }
}
