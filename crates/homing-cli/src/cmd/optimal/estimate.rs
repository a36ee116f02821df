//! The bound of a program of which windows were recorded, for people.

use homing_core::windows::Figure;
use homing_pipeline::windows::Estimated;

/// The bound with its interval, the whole program's cost, and what would make the interval narrower.
pub(super) fn text(estimated: &Estimated) -> String {
    let estimate = &estimated.estimate;
    format!(
        "MCPR {} estimated from {} windows that hold {:.2} % of the program\n\
         The program: about {:.0} references, optimal cost {}\n\
         Of MCPR: {}.\n\
         In 62 of 72 recordings whose truth was known the interval held it (docs/optimal.md, \"From windows\")",
        estimate.mcpr.in_words(4),
        estimate.windows,
        100.0 * estimated.share,
        estimate.references,
        estimate.cost.in_words(0),
        advice(&estimate.mcpr),
    )
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
