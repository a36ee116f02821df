//! The result in a sentence for a person.

use crate::policy::table::{self, Begin};
use crate::report::Row;

/// A cost is less than another if it is so by this share: what three digits after the point show.
const MATTERS: f64 = 0.0005;

/// "68 % of references are remote under first-touch; the best any policy could do is 9 %; `homing` reaches 11 %", with
/// costs, from rows that have `optimal` and, if they were compared, `first-touch` and `homing`.
pub fn summary(rows: &[Row]) -> String {
    let find = |name: &str| rows.iter().find(|row| row.policy == name);
    let Some(optimal) = find("optimal") else { return String::new() };
    if optimal.references == 0 {
        return "The trace has no references.".into();
    }
    let percent = |row: &Row| number(row.nonlocal_percent);
    let cost = |row: &Row| format!("{:.3}", row.mcpr);
    // Global memory is neither local nor another node's.
    let far = if rows.iter().any(|row| row.global > 0) { "non-local" } else { "remote" };
    let mut text = match find("first-touch") {
        Some(touch) => format!(
            "{} % of references are {far} under first-touch (mean cost {}); the cheapest placement any policy could \
             reach leaves {} % ({})",
            percent(touch),
            cost(touch),
            percent(optimal),
            cost(optimal)
        ),
        None => format!(
            "The cheapest placement any policy could reach leaves {} % of references {far} (mean cost {})",
            percent(optimal),
            cost(optimal)
        ),
    };
    let homing = find("homing");
    let ours = homing.or_else(|| {
        rows.iter().filter(|row| row.policy != "optimal").min_by(|a, b| a.cost.total_cmp(&b.cost))
    });
    if let Some(ours) = ours.filter(|row| row.policy != "first-touch") {
        text += &format!("; `{}` reaches {} % ({})", ours.policy, percent(ours), cost(ours));
        match ours.recovered_percent {
            Some(share) if share > 0.0 => {
                text += &format!(", {} % of what could be gained over first-touch", number(share));
            }
            Some(_) => text += ", no gain over first-touch",
            None => text += ", and first-touch is already optimal",
        }
    }
    text += ".";
    if let Some(advice) = homing.and_then(|homing| static_advice(rows, homing)) {
        text += &advice;
    }
    text
}

/// What to do where a placement that stays costs less than the policy `homing`: one that a program can be started
/// under, if there is any, or else the best one, which only the program itself can have.
fn static_advice(rows: &[Row], homing: &Row) -> Option<String> {
    let better = |off_line: bool| {
        let stays = move |row: &&Row| {
            table::find(&row.policy).is_some_and(|entry| {
                matches!(entry.begin, Begin::Own(_) | Begin::File) && entry.offline == off_line
            })
        };
        let best = rows.iter().filter(stays).min_by(|a, b| a.cost.total_cmp(&b.cost))?;
        (best.cost < homing.cost * (1.0 - MATTERS)).then_some(best)
    };
    let best = better(false).or_else(|| better(true))?;
    let how = match best.policy.as_str() {
        "first-touch" => "leave the pages where they begin",
        "round-robin" => "run the program under `numactl --interleave=all`",
        "single-node" => "run the program under `numactl --membind` of that node",
        "striped" => "interleave the pages by address",
        "file" => "place the pages as the file says",
        _ => "let the threads that use data initialise it, which `homing why` names",
    };
    Some(format!(
        " `homing` loses to the static placement `{}` ({:.3}), which is recommended: {how}.",
        best.policy, best.mcpr
    ))
}

/// A percentage with as many digits as a person wants.
fn number(percent: f64) -> String {
    match percent.abs() {
        0.0 => "0".into(),
        p if p < 0.1 => format!("{percent:.2}"),
        p if p < 10.0 => format!("{percent:.1}"),
        _ => format!("{percent:.0}"),
    }
}
