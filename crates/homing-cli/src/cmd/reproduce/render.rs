//! Exhibits as text and as one self-contained page with plots.

use super::claim::{Claim, Verdict};
use super::exhibit::{Exhibit, Line};
use crate::html::{escape, head};
use comfy_table::{presets, CellAlignment, Table};
use std::fmt::Write;

/// Prints one exhibit.
pub fn text(exhibit: &Exhibit) -> String {
    let mut table = Table::new();
    let header = std::iter::once(String::new()).chain(exhibit.columns.iter().cloned());
    table.load_preset(presets::NOTHING).set_header(header);
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    for line in &exhibit.lines {
        table.add_row(std::iter::once(line.label.clone()).chain(cells(line)));
    }
    let mut text = format!("{}: {}, {}\n{table}\n", exhibit.id, exhibit.source, exhibit.place);
    for claim in &exhibit.claims {
        let _ = writeln!(text, "  {}: {}{}", claim.verdict.name(), claim.text, because(claim));
    }
    for (theorem, holds) in &exhibit.theorems {
        let _ = writeln!(text, "  {}: {theorem}", checked(*holds));
    }
    text
}

/// What became of a theorem.
fn checked(holds: bool) -> &'static str {
    match holds {
        true => "checked, as it must be",
        false => "BROKEN",
    }
}

/// What keeps a claim from holding, and in how many repeats the verdict is the same if not in all.
fn because(claim: &Claim) -> String {
    let mut said = match claim.verdict {
        Verdict::Holds => String::new(),
        Verdict::InDirection => format!(" (sizes: {})", claim.shortfall()),
        Verdict::Not => format!(" (not: {})", claim.shortfall()),
    };
    said += &agreement(claim);
    said
}

/// In how many repeats the verdict is the same, if not in all.
fn agreement(claim: &Claim) -> String {
    match claim.agree < claim.repeats {
        true => format!(" ({} of {} orders)", claim.agree, claim.repeats),
        false => String::new(),
    }
}

/// Everything as Markdown: all claims in one table, then the exhibits.
pub fn markdown(exhibits: &[Exhibit]) -> String {
    let mut page =
        String::from("| claims | holds | holds in direction | does not hold |\n|---|---|---|---|\n");
    for row in counts(exhibits) {
        let _ = writeln!(page, "| {} |", row.join(" | "));
    }
    page.push_str("\n| exhibit | claim | verdict | ours / published |\n|---|---|---|---|\n");
    for exhibit in exhibits {
        for claim in &exhibit.claims {
            let verdict = match claim.verdict {
                Verdict::Not => format!("**{}**", claim.verdict.name()),
                _ => claim.verdict.name().to_owned(),
            };
            let agree = agreement(claim);
            let (id, text, numbers) = (&exhibit.id, &claim.text, ratios(claim));
            let _ = writeln!(page, "| `{id}` | {text} | {verdict}{agree} | {numbers} |");
        }
    }
    for exhibit in exhibits {
        let _ = writeln!(
            page,
            "\n`{}`: {}, {}\n\n| | {} |",
            exhibit.id,
            exhibit.source,
            exhibit.place,
            exhibit.columns.join(" | ")
        );
        let _ = writeln!(page, "|---|{}", "---|".repeat(exhibit.columns.len()));
        for line in &exhibit.lines {
            let cells: Vec<String> = cells(line).collect();
            let _ = writeln!(page, "| {} | {} |", line.label, cells.join(" | "));
        }
    }
    page
}

/// Each printed number beside ours, with the ratio; of orders and signs those that are not as stated.
fn ratios(claim: &Claim) -> String {
    let told = claim.comparisons.iter().filter_map(|one| match one.size {
        Some((ours, published)) => {
            Some(format!("{} {} / {} = {:.2}", one.what, number(ours), number(published), ours / published))
        }
        None => (!one.direction).then(|| format!("not {}", one.what)),
    });
    told.collect::<Vec<_>>().join("; ")
}

/// The numbers of verdicts, by paper.
fn counts(exhibits: &[Exhibit]) -> Vec<Vec<String>> {
    let mut sources: Vec<&str> = exhibits.iter().map(|exhibit| exhibit.source.as_str()).collect();
    sources.dedup();
    let count = |source: Option<&str>, verdict| {
        let chosen = exhibits.iter().filter(|exhibit| source.is_none_or(|source| exhibit.source == source));
        chosen.flat_map(|exhibit| &exhibit.claims).filter(|claim| claim.verdict == verdict).count()
    };
    let row = |name: &str, source: Option<&str>| {
        let counts = Verdict::ALL.map(|verdict| count(source, verdict).to_string());
        std::iter::once(name.to_owned()).chain(counts).collect()
    };
    sources.iter().map(|source| row(source, Some(source))).chain([row("all", None)]).collect()
}

/// The table of verdicts, by paper.
pub fn claims(exhibits: &[Exhibit]) -> Table {
    let mut table = Table::new();
    let header = std::iter::once("claims").chain(Verdict::ALL.map(Verdict::name));
    table.load_preset(presets::NOTHING).set_header(header);
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table.add_rows(counts(exhibits));
    table
}

/// Ours, half the range of the repeats, and what was published in brackets.
fn cells(line: &Line) -> impl Iterator<Item = String> + '_ {
    line.ours.iter().enumerate().map(|(column, ours)| {
        let (least, most) = line.spread[column];
        let spread = match most > least {
            true => format!(" \u{b1}{}", number((most - least) / 2.0)),
            false => String::new(),
        };
        let ours = if ours.is_finite() { number(*ours) + &spread } else { "-".into() };
        match line.published.get(column).copied().flatten() {
            Some(published) => format!("{ours} [{}]", number(published)),
            None => ours,
        }
    })
}

fn number(value: f64) -> String {
    match value.abs() {
        0.0005..0.05 => format!("{value:.3}"),
        0.0..10.0 => format!("{value:.2}"),
        10.0..1000.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// The page.
pub fn html(exhibits: &[Exhibit], how: &str) -> String {
    let mut page = head("The papers' tables reproduced");
    page.push_str(
        "<style>\
         body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}\
         table{border-collapse:collapse}td,th{padding:.15rem .6rem;text-align:right}td:first-child{text-align:left}\
         thead{border-bottom:1px solid #999}small{color:#777}.no{color:#a00}svg text{font:11px system-ui}\
         </style>\n<h1>The papers' tables reproduced</h1>\n",
    );
    let _ = writeln!(page, "<p>{}</p>", escape(how));
    for exhibit in exhibits {
        let _ = writeln!(
            page,
            "<h2>{}</h2><p>{}, {}</p>",
            exhibit.id,
            escape(&exhibit.source),
            escape(&exhibit.place)
        );
        page.push_str(&html_table(exhibit));
        page.push_str(&plot(exhibit));
        page.push_str("<ul>");
        for claim in &exhibit.claims {
            let class = if claim.verdict == Verdict::Not { "no" } else { "yes" };
            let (verdict, text) = (claim.verdict.name(), escape(&(claim.text.clone() + &because(claim))));
            let _ = write!(page, "<li class=\"{class}\">{verdict}: {text}</li>");
        }
        for (theorem, holds) in &exhibit.theorems {
            let class = if *holds { "yes" } else { "no" };
            let _ = write!(page, "<li class=\"{class}\">{}: {}</li>", checked(*holds), escape(theorem));
        }
        page.push_str("</ul>\n");
    }
    page + "</html>\n"
}

fn html_table(exhibit: &Exhibit) -> String {
    let mut html = String::from("<table><thead><tr><th></th>");
    exhibit.columns.iter().for_each(|column| {
        let _ = write!(html, "<th>{}</th>", escape(column));
    });
    html.push_str("</tr></thead>");
    for line in &exhibit.lines {
        let _ = write!(html, "<tr><td>{}</td>", escape(&line.label));
        for cell in cells(line) {
            let (ours, published) = cell.split_once(" [").unwrap_or((&cell, ""));
            let published =
                if published.is_empty() { String::new() } else { format!(" <small>[{published}</small>") };
            let _ = write!(html, "<td>{ours}{published}</td>");
        }
        html.push_str("</tr>");
    }
    html + "</table>\n"
}

const COLOURS: [&str; 8] =
    ["#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2", "#97bbf5"];

/// Width of a bar, and height and margins of what bars stand in, in pixels.
const BAR: f64 = 9.0;
const HEIGHT: f64 = 160.0;
const LEFT: f64 = 46.0;
const TOP: f64 = 12.0;
const LABELS: f64 = 96.0;

/// Bars of our numbers, one group a row, one colour a column; a dark line where the published number is.
fn plot(exhibit: &Exhibit) -> String {
    let rows: Vec<Vec<Pair>> = exhibit.lines.iter().map(|line| pairs(exhibit, line)).collect();
    let both = |&(ours, published): &Pair| [Some(ours), published].into_iter().flatten();
    let values = rows.iter().flatten().flat_map(both).filter(|value| value.is_finite());
    let (low, high) = values.fold((0.0f64, 0.0f64), |(low, high), v| (low.min(v), high.max(v)));
    if high <= low || exhibit.columns.len() < 2 {
        return String::new();
    }
    let y = |value: f64| TOP + HEIGHT * (high - value) / (high - low);
    let group = (BAR * exhibit.plotted.len() as f64).max(12.0) + 14.0;
    let right = LEFT + group * rows.len() as f64;
    let mut drawn = String::new();
    for tick in ticks(low, high) {
        let (at, x) = (y(tick), LEFT - 5.0);
        let _ = write!(
            drawn,
            "<path d=\"M{LEFT} {at:.1}H{right:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            at + 4.0,
            (tick * 1e6).round() / 1e6
        );
    }
    for (row, (line, pairs)) in exhibit.lines.iter().zip(&rows).enumerate() {
        let x = LEFT + group * row as f64 + 7.0;
        drawn += &bars(pairs, x, y);
        drawn += &label(&line.label, x + (group - 14.0) / 2.0 + 4.0);
    }
    let has_published = rows.iter().flatten().any(|(_, published)| published.is_some());
    let (legend, width) = legend(exhibit, has_published, right + 14.0);
    let (total, height) = (right + 14.0 + width, TOP + HEIGHT + LABELS);
    format!("<svg width=\"{total:.0}\" height=\"{height:.0}\" role=\"img\">{drawn}{legend}</svg>\n")
}

/// Ours and the published number, if there is one.
type Pair = (f64, Option<f64>);

fn pairs(exhibit: &Exhibit, line: &Line) -> Vec<Pair> {
    let both = |&column: &usize| (line.ours[column], line.published.get(column).copied().flatten());
    exhibit.plotted.iter().map(both).collect()
}

fn bars(pairs: &[Pair], left: f64, y: impl Fn(f64) -> f64) -> String {
    let mut drawn = String::new();
    for (column, &(ours, published)) in pairs.iter().enumerate() {
        let (x, width) = (left + BAR * column as f64, BAR - 1.0);
        if ours.is_finite() {
            let (top, bottom) = (y(ours.max(0.0)), y(ours.min(0.0)));
            let (height, colour) = ((bottom - top).max(0.5), COLOURS[column % COLOURS.len()]);
            let _ = write!(
                drawn,
                "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"{width}\" height=\"{height:.1}\" fill=\"{colour}\"/>"
            );
        }
        if let Some(at) = published.map(&y) {
            let _ = write!(drawn, "<path d=\"M{x:.1} {at:.1}h{width}\" stroke=\"#222\" stroke-width=\"2\"/>");
        }
    }
    drawn
}

fn label(text: &str, x: f64) -> String {
    let y = TOP + HEIGHT + 12.0;
    format!(
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"end\" transform=\"rotate(-40 {x:.1} \
        {y:.1})\">{}<title>{}</title></text>",
        escape(&shortened(text)),
        escape(text)
    )
}

/// The names of the columns, and the width that they take.
fn legend(exhibit: &Exhibit, has_published: bool, x: f64) -> (String, f64) {
    let names = exhibit.plotted.iter().map(|&column| exhibit.columns[column].as_str());
    let marked = names.enumerate().map(|(column, name)| (COLOURS[column % COLOURS.len()], '\u{25a0}', name));
    let published = has_published.then_some(("#222", '\u{2013}', "published"));
    let (mut drawn, mut longest) = (String::new(), 0);
    for (row, (colour, mark, name)) in marked.chain(published).enumerate() {
        let y = 20.0 + 15.0 * row as f64;
        let name = escape(name);
        longest = longest.max(name.chars().count());
        let _ = write!(
            drawn,
            "<text x=\"{x:.0}\" y=\"{y:.0}\"><tspan fill=\"{colour}\">{mark}</tspan> {name}</text>"
        );
    }
    (drawn, 30.0 + 6.5 * longest as f64)
}

/// Round numbers between the two, three to seven.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / 6.0;
    let power = 10f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 5.0].map(|digit| digit * power);
    let step = steps.into_iter().find(|&step| step >= rough).unwrap_or(10.0 * power);
    let first = (low / step - 1e-9).ceil() as i64;
    (first..).map(|tick| tick as f64 * step).take_while(|&tick| tick <= high + 1e-9 * step).collect()
}

/// A label that fits below its bars.
fn shortened(label: &str) -> String {
    const MOST: usize = 20;
    match label.chars().count() {
        0..=MOST => label.to_owned(),
        _ => label.chars().take(MOST - 1).chain(['\u{2026}']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(ticks(0.0, 84.4), [0.0, 20.0, 40.0, 60.0, 80.0]);
        assert_eq!(ticks(-3.0, 8.0), [-2.0, 0.0, 2.0, 4.0, 6.0, 8.0]);
        for (low, high) in [(0.0, 0.57), (-1.5, 12.9), (0.0, 1000.0), (-0.02, 0.0)] {
            let all = ticks(low, high);
            let inside = |tick: &f64| (low - 1e-6..=high + 1e-6).contains(tick);
            assert!((3..=7).contains(&all.len()) && all.iter().all(inside), "{all:?}");
        }
    }

    #[test]
    fn ours_stand_beside_the_published_in_text_and_page() {
        let mut exhibit = Exhibit::new("table2").unwrap();
        exhibit.line("cg <12>", "CG", vec![81.0, f64::NAN, -3.0]);
        exhibit.claims.push(Claim::new("it falls").direction("cg", true));
        exhibit.claims.push(Claim::new("it rises").direction("cg", false));
        exhibit.claims.push(Claim { agree: 2, repeats: 3, ..Claim::new("by 80").size("cg", 20.0, 80.0) });
        exhibit.lines[0].spread[2] = (-4.0, -2.0);
        let text = text(&exhibit);
        assert!(text.contains("81.0 [80.9]") && text.contains("- [15.3]"), "{text}");
        for said in [
            "  holds: it falls\n",
            "  does not hold: it rises (not: cg)\n",
            "  holds in direction: by 80 (sizes: cg 20.000 [80.000]) (2 of 3 orders)\n",
            "-3.00 \u{b1}1.00 [81.0]",
        ] {
            assert!(text.contains(said), "{said}: {text}");
        }
        let page = markdown(std::slice::from_ref(&exhibit));
        for said in [
            "| all | 1 | 1 | 1 |",
            "| `table2` | it rises | **does not hold** | not cg |",
            "| holds in direction (2 of 3 orders) | cg 20.0 / 80.0 = 0.25 |",
            "| cg <12> | 81.0 [80.9] | - [15.3] | -3.00 \u{b1}1.00 [81.0] |",
        ] {
            assert!(page.contains(said), "{said}: {page}");
        }
        let table = claims(std::slice::from_ref(&exhibit)).to_string();
        let counts: Vec<&str> = table.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(counts, ["all", "1", "1", "1"]);
        let page = html(&[exhibit], "small & quick");
        for part in [
            "cg &lt;12&gt;",
            "81.0 <small>[80.9]</small>",
            "<svg",
            "small &amp; quick",
            "class=\"no\"",
            "</tspan> published",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }
}
