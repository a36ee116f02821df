//! The result in a sentence for a person.

use crate::report::Row;

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
    let ours = find("homing").or_else(|| {
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
    text + "."
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
