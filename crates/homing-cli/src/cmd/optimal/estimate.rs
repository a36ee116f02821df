//! The bound of a program of which windows were recorded, for people.

use homing_core::optimal::windows::Figure;
use homing_pipeline::windows::Estimated;

/// The bound with its interval, the whole program's cost, and what would make the interval narrower.
pub(super) fn text(estimated: &Estimated) -> String {
    let estimate = &estimated.estimate;
    let mcpr = |value: f64| format!("{value:.4}");
    let count = |value: f64| format!("{value:.0}");
    format!(
        "MCPR {} estimated from {} windows that hold {:.2} % of the program\n\
         The program: about {:.0} references, optimal cost {}\n\
         Of MCPR: {}.\n\
         In 62 of 72 recordings whose truth was known the interval held it (docs/optimal.md, \"From windows\")",
        with_interval(&estimate.mcpr, mcpr),
        estimate.windows,
        100.0 * estimated.share,
        estimate.references,
        with_interval(&estimate.cost, count),
        advice(&estimate.mcpr),
    )
}

fn with_interval(figure: &Figure, text: impl Fn(f64) -> String) -> String {
    match (figure.low, figure.high) {
        (Some(low), Some(high)) => {
            format!("{} ({} to {})", text(figure.value), text(low), text(high))
        }
        _ => format!(
            "{} (no interval; in the mean from {} to {})",
            text(figure.value),
            text(figure.lower_bound),
            text(figure.upper_bound)
        ),
    }
}

/// Where the width comes from.
fn advice(mcpr: &Figure) -> String {
    let bounds = format!(
        "by an estimate no placement is below {:.4}, one is at {:.4}",
        mcpr.lower_bound, mcpr.upper_bound
    );
    let Some(between) = mcpr.between() else { return format!("{bounds}, as far as these windows go") };
    let (chance, between) = (100.0 * (1.0 - between), 100.0 * between);
    format!(
        "{bounds}: {between:.0} % of the interval is what windows do not tell (longer ones tell more), {chance:.0} % \
         is chance (more of them leave less)"
    )
}
