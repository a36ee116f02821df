//! Cost against a parameter (Bolosky & Scott 1991, figures 4 to 8 and 12).

use super::{CompareError, Parts, Subject};
use crate::machine::{Costs, General, Global, Uniform};
use crate::optimal::{solve, Options};
use crate::policy::table::Entry;
use crate::report::{CurvePoint, Series};

/// The machine with every page move `factor` times as dear: R and G keep their ratio.
pub fn scale_page_moves(costs: &Costs, factor: f64) -> Costs {
    match costs {
        Costs::Uniform(u) => {
            let global = u.global.map(|g| Global { page_move: g.page_move * factor, ..g });
            Costs::Uniform(Uniform { page_move: u.page_move * factor, global, ..*u })
        }
        Costs::General(g) => {
            let copy = g.copy.iter().map(|cost| cost * factor).collect();
            Costs::General(General { copy, ..g.clone() })
        }
    }
}

/// What a page move costs: R, or the mean over pairs of nodes.
pub fn page_move(costs: &Costs) -> f64 {
    match costs {
        Costs::Uniform(u) => u.page_move,
        Costs::General(g) => {
            let nodes = f64::from(g.nodes);
            g.copy.iter().sum::<f64>() / (nodes * (nodes - 1.0)).max(1.0)
        }
    }
}

/// Values from `low` to `high` in equal ratios, both ends included.
pub fn geometric(low: f64, high: f64, count: usize) -> Vec<f64> {
    let steps = count.max(2) - 1;
    let value = |step: usize| low * (high / low).powf(step as f64 / steps as f64);
    (0..=steps).map(|step| if step == steps { high } else { value(step) }).collect()
}

/// Adds one point at `x` to the series of the optimum and of each policy; makes the series at the first point.
pub fn add_point(
    series: &mut Vec<Series>,
    x: f64,
    subject: &Subject,
    policies: &[&Entry],
) -> Result<(), CompareError> {
    let options = Options { replication: subject.replicates(), ..Options::default() };
    let optimum = solve(subject.history, subject.costs, options)?;
    push(series, "optimal", point(x, subject, &Parts::of_optimum(&optimum)));
    for entry in policies {
        let account = subject.simulate(entry, false)?.account;
        push(series, entry.name, point(x, subject, &Parts::of_account(&account, subject.costs)));
    }
    Ok(())
}

fn push(series: &mut Vec<Series>, policy: &str, point: CurvePoint) {
    match series.iter_mut().find(|line| line.policy == policy) {
        Some(line) => line.points.push(point),
        None => series.push(Series { policy: policy.into(), exact: false, points: vec![point] }),
    }
}

fn point(x: f64, subject: &Subject, parts: &Parts) -> CurvePoint {
    let references = (subject.history.references() as f64).max(1.0);
    let global = match subject.costs {
        Costs::Uniform(Uniform { global: Some(global), .. }) => global.access * parts.global as f64,
        _ => 0.0,
    };
    let local = parts.local as f64;
    CurvePoint {
        x,
        mcpr: parts.cost / references,
        local: local / references,
        remote: (parts.cost - parts.copy_cost - local - global).max(0.0) / references,
        global: global / references,
        copies: parts.copy_cost / references,
        moves_per_page: (parts.moves + parts.replications) as f64
            / f64::from(subject.history.pages()).max(1.0),
    }
}
