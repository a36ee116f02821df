//! Policies over several traces: geometric means, and where each is worst.

use crate::report::{MeanRow, Row, TraceReport};

/// One row for each policy that was compared on every trace; nothing for fewer than two traces.
pub fn means(traces: &[TraceReport]) -> Vec<MeanRow> {
    let [first, _, ..] = traces else { return Vec::new() };
    first.rows.iter().filter_map(|row| mean(&row.policy, traces)).collect()
}

fn mean(policy: &str, traces: &[TraceReport]) -> Option<MeanRow> {
    let find = |trace: &TraceReport| trace.rows.iter().find(|row| row.policy == policy).cloned();
    let rows: Vec<Row> = traces.iter().map(find).collect::<Option<_>>()?;
    let mean =
        |of: fn(&Row) -> f64| (rows.iter().map(|row| of(row).ln()).sum::<f64>() / rows.len() as f64).exp();
    let worst = (0..rows.len()).max_by(|&a, &b| rows[a].gap_percent.total_cmp(&rows[b].gap_percent))?;
    Some(MeanRow {
        policy: policy.into(),
        mcpr: mean(|row| row.mcpr),
        gap_percent: 100.0 * (mean(|row| 1.0 + row.gap_percent / 100.0) - 1.0),
        worst_gap_percent: rows[worst].gap_percent,
        worst_trace: traces[worst].trace.name.clone(),
    })
}
