//! Cost against a parameter (Bolosky & Scott 1991, figures 4 to 8 and 12).

use super::{CompareError, Parts, Subject};
use crate::machine::{Costs, General, Global, Uniform};
use crate::optimal::curve::{curve_within, Parameter, Range, Segment};
use crate::optimal::{solve, Options};
use crate::policy::table::Entry;
use crate::report::{CurvePoint, Series};

/// The machine with every page move `factor` times as expensive: R and G keep their ratio.
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

/// The exact curve of the optimum over page-move cost, every break-point of it; none where there is global memory (G
/// then varies with R, and the curve is not a function of one parameter) or unequal distances. The history must have
/// been built for the least page-move cost.
pub fn exact_optimum(subject: &Subject, low: f64, high: f64) -> Result<Option<Series>, CompareError> {
    let Costs::Uniform(uniform @ Uniform { global: None, .. }) = subject.costs else { return Ok(None) };
    let range = Range { parameter: Parameter::PageMove, low, high };
    let options = Options { replication: subject.replicates(), ..Options::default() };
    let precision = if subject.history.run_count() <= EXACT_RUNS { 0.0 } else { PRECISION };
    let segments = curve_within(subject.history, uniform, range, options, precision)?;
    let at = |segment: &Segment, x: f64| {
        let costs = Uniform { page_move: x, ..*uniform };
        let charges = segment.counts;
        let parts = Parts { cost: charges.cost(&costs), copy_cost: charges.copy_cost(&costs), charges };
        point(x, subject, &parts)
    };
    let mut points: Vec<_> = segments.iter().map(|segment| at(segment, segment.from)).collect();
    points.extend(segments.last().map(|segment| at(segment, segment.to)));
    let exact = precision == 0.0 && points.len() <= MOST_POINTS;
    if points.len() > MOST_POINTS {
        let last = points.len() - 1;
        points = (0..MOST_POINTS).map(|index| points[index * last / (MOST_POINTS - 1)]).collect();
    }
    Ok(Some(Series { policy: "optimal".into(), exact, points }))
}

/// A history of more page runs has break-points by the million, which take hours to find: its curve is right to
/// [`PRECISION`] and not called exact.
const EXACT_RUNS: u64 = 1 << 20;
const PRECISION: f64 = 1e-4;

/// Points that a curve in a report holds at most. One that has more break-points is sampled at some of them and no
/// longer called exact.
const MOST_POINTS: usize = 2000;

fn push(series: &mut Vec<Series>, policy: &str, point: CurvePoint) {
    match series.iter_mut().find(|line| line.policy == policy) {
        Some(line) => line.points.push(point),
        None => series.push(Series { policy: policy.into(), exact: false, points: vec![point] }),
    }
}

fn point(x: f64, subject: &Subject, parts: &Parts) -> CurvePoint {
    let references = (subject.history.references() as f64).max(1.0);
    let global = match subject.costs {
        Costs::Uniform(Uniform { global: Some(global), .. }) => global.access * parts.charges.global as f64,
        _ => 0.0,
    };
    let local = parts.charges.local as f64;
    CurvePoint {
        x,
        mcpr: parts.cost / references,
        local: local / references,
        remote: (parts.cost - parts.copy_cost - local - global).max(0.0) / references,
        global: global / references,
        copies: parts.copy_cost / references,
        moves_per_page: (parts.charges.moves + parts.charges.replications) as f64
            / f64::from(subject.history.pages()).max(1.0),
    }
}
