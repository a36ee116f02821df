//! What is lost to sampling and what to the policy: the gap over the sampling period, of the oracle of samples
//! ([`homing_core::optimal::sampled`]) and of a policy, from the same samples.

use crate::case::Case;
use crate::error::Result;
use crate::policies;
use homing_core::compare::Subject;
use homing_core::information::{Information, Sampling};
use homing_core::optimal::{sampled, solve, Options, Start};
use homing_core::policy::placement::Placement;
use serde::Serialize;

/// The policy beside the oracle.
pub const POLICY: &str = "homing";

/// Gaps over the sampling period: one copy a page, from where it is first touched, for bound, oracle and policy.
#[derive(Clone, Debug, Serialize)]
pub struct FromSamples {
    /// Cost of the optimum, in local word references.
    pub optimal_cost: f64,
    /// The policy beside the oracle.
    pub policy: &'static str,
    /// One for each period, in the order asked for.
    pub points: Vec<Point>,
}

/// One period.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// One reference in this number is seen.
    pub period: u64,
    /// Samples in all.
    pub samples: u64,
    /// Cost of the oracle, in local word references.
    pub oracle_cost: f64,
    /// (cost - optimal cost) / optimal cost, in per cent: what is lost to sampling.
    pub oracle_gap_percent: f64,
    /// Page moves of the oracle.
    pub oracle_moves: u64,
    /// Cost of the policy, in local word references.
    pub policy_cost: f64,
    /// Its gap, in per cent; what is more than the oracle's is lost to the policy.
    pub policy_gap_percent: f64,
    /// Its page moves.
    pub policy_moves: u64,
}

/// The curve over `periods`.
pub fn from_samples(case: &Case<'_>, periods: &[u64]) -> Result<FromSamples> {
    let (history, costs) = (&case.layout.history, &case.layout.costs);
    let optimum = solve(history, costs, Options { replication: false, start: Start::FirstTouch })?;
    let gap = |cost: f64| match optimum.cost > 0.0 {
        true => 100.0 * (cost - optimum.cost) / optimum.cost,
        false => 0.0,
    };
    let entry = policies::policy(POLICY)?;
    let mut points = Vec::with_capacity(periods.len());
    for &period in periods {
        let information = Information { sampling: Sampling::Every(period), ..Information::PERFECT };
        let oracle = sampled::solve(history, costs, &information)?;
        let subject = Subject { information, replication: false, ..case.subject() };
        let policy = entry.make(costs, false, subject.settings);
        let result = subject.simulate_policy(&*policy, &Placement::FirstTouch, false)?;
        let policy_cost = result.account.cost(costs);
        points.push(Point {
            period,
            samples: oracle.samples,
            oracle_cost: oracle.cost,
            oracle_gap_percent: gap(oracle.cost),
            oracle_moves: oracle.moves,
            policy_cost,
            policy_gap_percent: gap(policy_cost),
            policy_moves: result.account.moves,
        });
    }
    Ok(FromSamples { optimal_cost: optimum.cost, policy: POLICY, points })
}
