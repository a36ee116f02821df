//! Whether one way of running a program takes less time than another: which runs to make in which order, when enough
//! were made, and what they say. Pure: whoever makes the runs reports their times.
//!
//! * A **way** is one way of running the program. Way 0 is the program as it is; the others are compared with it.
//! * A **round** runs each way once, in an order drawn at random. The first round is **cold** (files not yet in memory)
//!   and is kept apart; the following ones are **warm**.
//! * A **pair** is the logarithm of the ratio of a way's time to that of way 0 in the same warm round. Both are minutes
//!   apart at most, so that a machine that drifts moves both.
//! * A **look** computes an interval of the ratio from all pairs so far ([`interval`]), at a level that leaves room for
//!   all later looks and all other ways ([`looks`]).
//!
//! If a way makes no difference, then in each round it is as likely to be drawn before way 0 as behind it, and its pair
//! as likely to be negative as positive, whatever the times are distributed like. That is all that the intervals need.
#![forbid(unsafe_code)]

mod experiment;
pub mod interval;
pub mod looks;
#[cfg(test)]
mod tests;

pub use experiment::{Design, Experiment};

use interval::Interval;
use serde::Serialize;

/// Most warm rounds of an experiment.
pub const MOST_ROUNDS: u32 = 900;

/// The share of experiments in which all intervals of all ways hold the true ratios, unless the user says otherwise.
pub const CONFIDENCE: f64 = 0.99;

/// A difference below this share does not matter, unless the user says so.
pub const MARGIN: f64 = 0.01;

/// What came of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// It took this long, in any unit that all runs share; above 0.
    Took(f64),
    /// It failed: its time says nothing.
    Failed,
    /// It was cut off, or not made: nothing came of it.
    Stopped,
}

/// What is known about a way's difference to way 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It takes less time: the whole interval is below 1.
    Faster,
    /// It takes more time: the whole interval is above 1.
    Slower,
    /// The whole interval is within the margin around 1.
    Same,
    /// None of these.
    NotClear,
}

impl Verdict {
    /// What an interval says.
    pub fn of(interval: Interval, margin: f64) -> Verdict {
        match interval {
            Interval { high, .. } if high < 1.0 => Verdict::Faster,
            Interval { low, .. } if low > 1.0 => Verdict::Slower,
            Interval { low, high } if low > 1.0 / (1.0 + margin) && high < 1.0 + margin => Verdict::Same,
            _ => Verdict::NotClear,
        }
    }
}

/// What the runs of one way were, in the unit of the times.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Times {
    /// The cold run; none if it failed.
    pub cold: Option<f64>,
    /// Of each warm round, the time; none where it did not run, failed or was cut off.
    pub warm: Vec<Option<f64>>,
    /// Warm runs that gave a time.
    pub runs: u32,
    /// Runs that failed, cold or warm.
    pub failed: u32,
    /// The median of the warm runs; none without any. Quantiles lie between order statistics (R's type 7).
    pub median: Option<f64>,
    /// The quartiles.
    pub quartiles: Option<(f64, f64)>,
    /// The fastest and the slowest.
    pub range: Option<(f64, f64)>,
}

/// What a way's difference to way 0 is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// What is known.
    pub verdict: Verdict,
    /// Rounds in which both gave a time.
    pub pairs: u32,
    /// The ratio of its time to that of way 0: the pseudo-median of the pairs (Hodges and Lehmann 1963); none without
    /// pairs.
    pub ratio: Option<f64>,
    /// The interval of the ratio; none as long as there are too few pairs for any.
    pub interval: Option<Interval>,
    /// What run-to-run spread alone gives: 95 of 100 experiments with as many pairs between ways that are the same have
    /// a ratio up to this share above 1, or below it alike. None where there is no interval.
    pub chance: Option<f64>,
}

/// A way, measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// Its times.
    pub times: Times,
    /// How it differs from way 0; none for way 0 itself.
    pub difference: Option<Difference>,
    /// It failed so often that it was given up.
    pub given_up: bool,
}

/// All ways, measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Findings {
    /// In the order of the ways.
    pub ways: Vec<Finding>,
    /// Warm rounds that were begun.
    pub rounds: u32,
    /// Pairs without which there is no interval.
    pub fewest_pairs: u32,
}

impl Findings {
    /// The ways that are faster than way 0, fastest first.
    pub fn faster(&self) -> Vec<usize> {
        let difference = |way: &usize| self.ways[*way].difference.as_ref();
        let ratio = |way: &usize| difference(way).and_then(|found| found.ratio).unwrap_or(f64::INFINITY);
        let is = |way: &usize| difference(way).is_some_and(|found| found.verdict == Verdict::Faster);
        let mut faster: Vec<usize> = (0..self.ways.len()).filter(is).collect();
        faster.sort_by(|a, b| ratio(a).total_cmp(&ratio(b)));
        faster
    }

    /// Whether two ways are known to differ: their intervals, which hold together, do not overlap.
    pub fn differ(&self, one: usize, other: usize) -> bool {
        let interval = |way: usize| match &self.ways[way].difference {
            Some(difference) => difference.interval,
            None => Some(Interval { low: 1.0, high: 1.0 }),
        };
        let (Some(one), Some(other)) = (interval(one), interval(other)) else { return false };
        one.high < other.low || other.high < one.low
    }
}
