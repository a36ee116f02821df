//! `homing optimal --from-samples`: what is lost to sampling and what to the policy, for people.

use crate::tables;
use homing_pipeline::sampled::FromSamples;

/// One line for each period.
pub fn table(curve: &FromSamples) -> String {
    let lost = format!("lost to {}", curve.policy);
    let mut table =
        tables::table(&["one in", "samples", "lost to sampling", &lost, "oracle moves", "policy moves"]);
    for point in &curve.points {
        let policy = point.policy_gap_percent - point.oracle_gap_percent;
        table.add_row([
            point.period.to_string(),
            point.samples.to_string(),
            format!("{:.2} %", point.oracle_gap_percent),
            format!("{policy:.2} %"),
            point.oracle_moves.to_string(),
            point.policy_moves.to_string(),
        ]);
    }
    format!(
        "Gap to an optimum of {:.0} (one copy a page, from first touch). Lost to sampling: of an oracle that knows the \
         law of each page and sees the samples. Lost to {}: what the policy has more.\n\n{table}",
        curve.optimal_cost, curve.policy
    )
}
