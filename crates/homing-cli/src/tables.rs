//! Result tables for people.

use comfy_table::{presets, CellAlignment, ContentArrangement, Table};
use homing_core::ids::PageSize;
use homing_core::page_sizes::Region;
use homing_core::report::{ClassRow, Curve, MeanRow, PerturbationRow, Row, Series, SizeRow};
use homing_linux::visible;

/// Prints the notes below a table.
pub fn print_notes<'a>(notes: impl IntoIterator<Item = &'a String>) -> anyhow::Result<()> {
    for note in notes {
        outln!("note: {note}");
    }
    Ok(())
}

/// A table with a left column of names and right-aligned ones.
pub fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(header);
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table
}

/// Columns of the terminal that standard output is; none if it is no terminal, whose reader wants whole lines.
pub fn columns() -> Option<u16> {
    Table::new().width()
}

/// A line, wrapped to this number of columns where that is known. Each part has the indent of the first.
pub fn wrapped(line: &str, columns: Option<u16>) -> String {
    let Some(columns) = columns.filter(|columns| *columns >= NARROWEST) else { return line.to_owned() };
    let indent = &line[..line.len() - line.trim_start().len()];
    let mut cell = Table::new();
    cell.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    cell.set_width(columns - indent.len() as u16).add_row([line.trim_start()]);
    cell.column_iter_mut().for_each(|column| _ = column.set_padding((0, 0)));
    cell.lines().map(|line| format!("{indent}{}", line.trim_end())).collect::<Vec<_>>().join("\n")
}

/// A table, fitted to this number of columns where that is known: its cells then have several lines.
pub fn fitted(header: &[&str], rows: Vec<Vec<String>>, columns: Option<u16>) -> String {
    let mut table = table(header);
    table.add_rows(rows);
    if let Some(columns) = columns.filter(|columns| *columns >= NARROWEST) {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(columns);
    }
    table.to_string()
}

/// Terminals with fewer columns have lines that go on.
const NARROWEST: u16 = 40;

/// A table with a header that is only known when it is made.
pub fn plain(header: &[String]) -> Table {
    table(&header.iter().map(String::as_str).collect::<Vec<_>>())
}

/// A number of things in few characters: 12345 -> 12.3 k.
pub fn count(number: u64) -> String {
    match number {
        0..=9_999 => number.to_string(),
        10_000..=9_999_999 => format!("{:.1} k", number as f64 / 1e3),
        10_000_000..=9_999_999_999 => format!("{:.1} M", number as f64 / 1e6),
        _ => format!("{:.1} G", number as f64 / 1e9),
    }
}

/// A number of things: `1 page`, `2 pages`.
pub fn things(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// One line a policy.
pub fn rows(rows: &[Row]) -> Table {
    let header = [
        "policy",
        "MCPR",
        "gap %",
        "recovered %",
        "non-local %",
        "local",
        "remote",
        "global",
        "moves",
        "replicas",
        "copies %",
        "moves/page",
    ];
    let mut table = table(&header);
    for row in rows {
        table.add_row([
            visible::name(&row.policy).into_owned(),
            format!("{:.4}", row.mcpr),
            format!("{:.2}", row.gap_percent),
            row.recovered_percent.map_or("-".into(), |share| format!("{share:.1}")),
            format!("{:.2}", row.nonlocal_percent),
            count(row.local),
            count(row.remote),
            count(row.global),
            count(row.moves),
            count(row.replications),
            format!("{:.1}", if row.cost > 0.0 { 100.0 * row.copy_cost / row.cost } else { 0.0 }),
            format!("{:.2}", row.moves_per_page),
        ]);
    }
    table
}

/// One line a policy: what it does to the whole program that windows are of, with 95 % intervals.
pub fn program(rows: &[Row]) -> Table {
    let mut table = table(&["policy", "MCPR (interval)", "non-local % (interval)"]);
    for row in rows {
        let Some(program) = &row.program else { continue };
        table.add_row([
            visible::name(&row.policy).into_owned(),
            program.mcpr.in_words(4),
            program.nonlocal_percent.map_or("-".into(), |figure| figure.in_words(2)),
        ]);
    }
    table
}

/// One line a policy, one column an information level.
pub fn levels(first: &[Row], further: &[Row]) -> Table {
    let all = || first.iter().chain(further).filter(|row| !row.information.is_empty());
    let mut levels: Vec<&str> = Vec::new();
    for row in all() {
        if !levels.contains(&row.information.as_str()) {
            levels.push(&row.information);
        }
    }
    let mut table = table(&[&["policy"], levels.as_slice()].concat());
    for policy in first.iter().filter(|row| !row.information.is_empty()).map(|row| &row.policy) {
        let cell = |level: &&str| {
            let row = all().find(|row| row.policy == *policy && row.information == *level);
            row.map_or("-".into(), |row| match row.recovered_percent {
                Some(share) => format!("{:.2} ({share:.0})", row.gap_percent),
                None => format!("{:.2}", row.gap_percent),
            })
        };
        table.add_row(std::iter::once(policy.clone()).chain(levels.iter().map(cell)));
    }
    table
}

/// One line a sharing class.
pub fn sharing(classes: &[ClassRow]) -> Table {
    let header =
        ["pages that are", "pages", "references", "of all %", "writes %", "optimal", "first-touch", "homing"];
    let mut table = table(&header);
    for class in classes {
        let mcpr = |cost: f64| match class.references {
            0 => "-".into(),
            references => format!("{:.3}", cost / references as f64),
        };
        table.add_row([
            class.class.clone(),
            count(class.pages),
            count(class.references),
            format!("{:.1}", class.references_percent),
            format!("{:.1}", 100.0 * class.writes as f64 / (class.references as f64).max(1.0)),
            mcpr(class.optimal_cost),
            mcpr(class.first_touch_cost),
            class.homing_cost.map_or("-".into(), mcpr),
        ]);
    }
    table
}

/// One line a policy, over all traces.
pub fn means(means: &[MeanRow]) -> Table {
    let mut table = table(&["policy (geometric means)", "MCPR", "gap %", "worst gap %", "on trace"]);
    for mean in means {
        table.add_row([
            mean.policy.clone(),
            format!("{:.4}", mean.mcpr),
            format!("{:.2}", mean.gap_percent),
            format!("{:.2}", mean.worst_gap_percent),
            visible::name(&mean.worst_trace).into_owned(),
        ]);
    }
    table
}

/// MCPR of each policy at each x of the line with fewest points.
pub fn curve(curve: &Curve) -> Table {
    let mut header = vec![curve.parameter.as_str()];
    header.extend(curve.series.iter().map(|series| series.policy.as_str()));
    let mut table = table(&header);
    let Some(shortest) = curve.series.iter().min_by_key(|series| series.points.len()) else { return table };
    for x in shortest.points.iter().map(|point| point.x) {
        let mcpr =
            curve.series.iter().map(|series| mcpr_at(series, x).map_or("-".into(), |m| format!("{m:.4}")));
        table.add_row(std::iter::once(format!("{x:.0}")).chain(mcpr));
    }
    table
}

/// MCPR on the straight line between the points around `x`.
fn mcpr_at(series: &Series, x: f64) -> Option<f64> {
    let after = series.points.iter().position(|point| point.x >= x * (1.0 - 1e-12))?;
    let (a, b) = (&series.points[after.saturating_sub(1)], &series.points[after]);
    let share = if b.x > a.x { ((x - a.x) / (b.x - a.x)).clamp(0.0, 1.0) } else { 1.0 };
    Some(a.mcpr + share * (b.mcpr - a.mcpr))
}

/// One line a policy and page size.
pub fn page_sizes(rows: &[SizeRow]) -> Table {
    let mut table =
        table(&["policy", "page size", "MCPR", "gap %", "non-local %", "moves", "pages", "TLB misses"]);
    for SizeRow { page_size, row, tlb_misses } in rows {
        table.add_row([
            row.policy.clone(),
            PageSize::new(*page_size).map_or_else(|| page_size.to_string(), |size| size.to_string()),
            format!("{:.4}", row.mcpr),
            format!("{:.2}", row.gap_percent),
            format!("{:.2}", row.nonlocal_percent),
            count(row.moves),
            count(row.pages),
            tlb_misses.map_or("-".into(), count),
        ]);
    }
    table
}

/// One line a large page that is worth splitting.
pub fn split(regions: &[Region]) -> Table {
    let mut table =
        table(&["large page to split", "references", "pages", "nodes", "optimum whole", "split", "saved %"]);
    for region in regions {
        table.add_row([
            format!("{:#x}", region.address),
            count(region.references),
            count(region.pages),
            region.nodes.to_string(),
            format!("{:.0}", region.whole_cost),
            format!("{:.0}", region.split_cost),
            format!("{:.1}", 100.0 * region.saved() / region.whole_cost.max(f64::MIN_POSITIVE)),
        ]);
    }
    table
}

/// One line a disturbed order.
pub fn perturbation(rows: &[PerturbationRow]) -> Table {
    let mut table = table(&["order disturbed by", "seed", "optimal cost", "change %"]);
    for row in rows {
        let change = format!("{:+.4}", row.change_percent);
        table.add_row([row.filter.clone(), row.seed.to_string(), format!("{:.0}", row.optimal_cost), change]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit_the_terminal_and_are_whole_where_there_is_none() {
        let line = format!("  {}", "words of a line ".repeat(8).trim_end());
        assert_eq!((wrapped(&line, None), wrapped(&line, Some(10))), (line.clone(), line.clone()));
        let lines = wrapped(&line, Some(50));
        assert!(lines.lines().count() > 2, "{lines}");
        assert!(lines.lines().all(|line| line.starts_with("  ") && !line.starts_with("   ")), "{lines}");
        assert!(lines.lines().all(|line| line.len() <= 50), "{lines}");
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&lines), words(&line));
    }
}
