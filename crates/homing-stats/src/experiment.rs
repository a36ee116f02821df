//! The experiment as a state: rounds go out, outcomes come in.

use super::interval::{centre, of_centre, quantile, Interval, SignedRanks};
use super::looks::Looks;
use super::{Difference, Finding, Findings, Outcome, Times, Verdict};
use rand::seq::SliceRandom;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

/// Failures in a row after which a way is given up.
const PATIENCE: u32 = 3;

/// The share of experiments between equal ways that chance is given for.
const USUAL: f64 = 0.95;

/// What is to be compared how.
#[derive(Clone, Debug)]
pub struct Design {
    /// Ways, the program as it is among them.
    pub ways: usize,
    /// What orders are drawn from.
    pub seed: u64,
    /// The chance that all intervals hold.
    pub confidence: f64,
    /// A difference that does not matter, as a share.
    pub margin: f64,
    /// Most warm rounds.
    pub rounds: u32,
}

/// One way.
#[derive(Clone, Debug, Default)]
struct Way {
    cold: Option<f64>,
    /// Of each warm round.
    warm: Vec<Option<f64>>,
    failed: u32,
    failed_in_a_row: u32,
    /// Logarithms of ratios to way 0.
    pairs: Vec<f64>,
    /// Looks that were made.
    looks: usize,
    interval: Option<Interval>,
    verdict: Option<Verdict>,
}

impl Way {
    fn given_up(&self) -> bool {
        self.failed_in_a_row >= PATIENCE
    }

    /// Nothing more is to be known about it.
    fn over(&self) -> bool {
        self.given_up() || self.verdict.is_some_and(|verdict| verdict != Verdict::NotClear)
    }
}

/// An experiment that goes on.
#[derive(Clone, Debug)]
pub struct Experiment {
    design: Design,
    looks: Looks,
    ranks: SignedRanks,
    random: Xoshiro256PlusPlus,
    ways: Vec<Way>,
    /// Rounds that were begun, with the cold one.
    begun: u32,
}

impl Experiment {
    /// Begins.
    ///
    /// # Panics
    /// Without a way.
    pub fn new(design: Design) -> Experiment {
        assert!(design.ways > 0, "an experiment has way 0");
        Experiment {
            looks: Looks::new(design.ways - 1, design.confidence),
            ranks: SignedRanks::default(),
            random: Xoshiro256PlusPlus::seed_from_u64(design.seed),
            ways: vec![Way::default(); design.ways],
            begun: 0,
            design,
        }
    }

    /// Pairs without which there is no interval.
    pub fn fewest_pairs(&self) -> u32 {
        self.looks.pairs(0) as u32
    }

    /// Warm rounds that were begun.
    pub fn rounds(&self) -> u32 {
        self.begun.saturating_sub(1)
    }

    /// Whether the round that was begun is cold.
    pub fn is_cold(&self) -> bool {
        self.begun == 1
    }

    /// Whether the program failed so often as it is that the experiment is over.
    pub fn gave_up(&self) -> bool {
        self.ways[0].given_up()
    }

    /// Ways about which more is to be known.
    pub fn open(&self) -> usize {
        self.ways[1..].iter().filter(|way| !way.over()).count()
    }

    /// Begins a round, and says which ways it runs in which order: way 0 and those of which more is to be known. None
    /// if the experiment is over. Each run is then to be reported to [`Experiment::record`].
    pub fn next_round(&mut self) -> Option<Vec<usize>> {
        let nothing_open = self.ways.len() > 1 && self.open() == 0;
        if self.begun > self.design.rounds || nothing_open || self.ways[0].given_up() {
            return None;
        }
        self.begun += 1;
        let mut order: Vec<usize> =
            (0..self.ways.len()).filter(|&way| way == 0 || !self.ways[way].over()).collect();
        order.shuffle(&mut self.random);
        Some(order)
    }

    /// What came of a run of the round.
    ///
    /// # Panics
    /// Before the first round; for a time that is not above 0.
    pub fn record(&mut self, way: usize, outcome: Outcome) {
        let round = self.begun.checked_sub(1).expect("a round was begun") as usize;
        let way = &mut self.ways[way];
        let time = match outcome {
            Outcome::Took(time) => {
                assert!(time > 0.0 && time.is_finite(), "a time of {time}");
                way.failed_in_a_row = 0;
                Some(time)
            }
            Outcome::Failed => {
                way.failed += 1;
                way.failed_in_a_row += 1;
                None
            }
            Outcome::Stopped => None,
        };
        match round {
            0 => way.cold = time,
            _ => {
                way.warm.resize(round, None);
                way.warm[round - 1] = time;
            }
        }
    }

    /// Ends the round: makes pairs, and looks where that is due.
    pub fn end_round(&mut self) {
        let Some(round) = self.begun.checked_sub(2).map(|round| round as usize) else { return };
        let time = |way: &Way| way.warm.get(round).copied().flatten();
        let (first, others) = self.ways.split_first_mut().expect("way 0 is there");
        let Some(base) = time(first) else { return };
        for way in others {
            let Some(time) = time(way) else { continue };
            way.pairs.push((time / base).ln());
            if way.pairs.len() >= self.looks.pairs(way.looks) {
                look(way, &self.looks, &mut self.ranks, self.design.margin);
            }
        }
    }

    /// Ends the experiment: looks once more at what is not decided.
    pub fn finish(mut self) -> Findings {
        let fewest_pairs = self.fewest_pairs();
        for way in self.ways[1..].iter_mut().filter(|way| !way.over()) {
            let seen = way.looks.checked_sub(1).map_or(0, |look| self.looks.pairs(look));
            if way.pairs.len() > seen.max(fewest_pairs as usize - 1) {
                look(way, &self.looks, &mut self.ranks, self.design.margin);
            }
        }
        let rounds = self.rounds();
        let mut ways = Vec::new();
        for (number, way) in self.ways.iter().enumerate() {
            let difference = (number > 0).then(|| difference(way, &mut self.ranks));
            ways.push(Finding { times: times(way), difference, given_up: way.given_up() });
        }
        Findings { ways, rounds, fewest_pairs }
    }
}

/// Looks at a way. What an earlier look said still holds: the intervals of all looks hold together.
fn look(way: &mut Way, looks: &Looks, ranks: &mut SignedRanks, margin: f64) {
    let cut = looks.cut(way.looks, way.pairs.len(), ranks);
    way.looks += 1;
    let Some(logarithms) = cut.and_then(|cut| of_centre(&way.pairs, cut)) else { return };
    let interval = Interval { low: logarithms.low.exp(), high: logarithms.high.exp() };
    way.interval = Some(interval);
    way.verdict = Some(Verdict::of(interval, margin));
}

fn times(way: &Way) -> Times {
    let mut warm: Vec<f64> = way.warm.iter().copied().flatten().collect();
    let mut at = |share| (!warm.is_empty()).then(|| quantile(&mut warm, share));
    let (median, low, high) = (at(0.5), at(0.25), at(0.75));
    let range = at(0.0).zip(at(1.0));
    Times {
        cold: way.cold,
        warm: way.warm.clone(),
        runs: warm.len() as u32,
        failed: way.failed,
        median,
        quartiles: low.zip(high),
        range,
    }
}

fn difference(way: &Way, ranks: &mut SignedRanks) -> Difference {
    let centre = centre(&way.pairs);
    Difference {
        verdict: way.verdict.unwrap_or(Verdict::NotClear),
        pairs: way.pairs.len() as u32,
        ratio: centre.map(f64::exp),
        interval: way.interval,
        chance: centre
            .filter(|_| way.interval.is_some())
            .and_then(|centre| chance(&way.pairs, centre, ranks)),
    }
}

/// What spread alone gives. The pairs without their centre, each with a sign drawn at random, are an experiment between
/// equal ways. In [`USUAL`] of these the centre is within the interval of one look, by which that interval is made.
fn chance(pairs: &[f64], middle: f64, ranks: &mut SignedRanks) -> Option<f64> {
    ranks.advance(pairs.len());
    let Interval { low, high } = of_centre(pairs, ranks.cut(1.0 - USUAL)?)?;
    Some((high - middle).max(middle - low).exp_m1())
}
