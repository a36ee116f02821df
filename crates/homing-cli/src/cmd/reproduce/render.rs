//! Exhibits as text and as one self-contained page with plots.

use super::exhibit::{Exhibit, Line};
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
        let verdict = if claim.holds { "as published" } else { "NOT as published" };
        let _ = writeln!(text, "  {verdict}: {}", claim.text);
    }
    text
}

/// Ours, with what was published in brackets.
fn cells(line: &Line) -> impl Iterator<Item = String> + '_ {
    line.ours.iter().enumerate().map(|(column, ours)| {
        let ours = if ours.is_finite() { number(*ours) } else { "-".into() };
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
    let mut page = String::from(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>The papers' tables reproduced</title>\n<style>\
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
            let (class, verdict) =
                if claim.holds { ("yes", "as published") } else { ("no", "not as published") };
            let _ = write!(page, "<li class=\"{class}\">{verdict}: {}</li>", escape(&claim.text));
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

/// Bars of our numbers, one group a row, one colour a column.
fn plot(exhibit: &Exhibit) -> String {
    let of = |line: &Line| -> Vec<f64> { exhibit.plotted.iter().map(|&column| line.ours[column]).collect() };
    let values = || exhibit.lines.iter().flat_map(of).filter(|v| v.is_finite());
    let (low, high) = values().fold((0.0f64, 0.0f64), |(low, high), v| (low.min(v), high.max(v)));
    if high <= low || exhibit.columns.len() < 2 {
        return String::new();
    }
    let (width, height) = (9.0, 160.0);
    let group = width * exhibit.plotted.len() as f64 + 14.0;
    let y = |value: f64| 10.0 + height * (high - value) / (high - low);
    let total = group * exhibit.lines.len() as f64 + 170.0;
    let mut svg = format!("<svg width=\"{total:.0}\" height=\"{:.0}\">", height + 40.0);
    for (row, line) in exhibit.lines.iter().enumerate() {
        let x = group * row as f64;
        for (column, value) in of(line).into_iter().enumerate().filter(|(_, value)| value.is_finite()) {
            let (top, bottom) = (y(value.max(0.0)), y(value.min(0.0)));
            let _ = write!(
                svg,
                "<rect x=\"{:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{}\"/>",
                x + width * column as f64,
                width - 1.0,
                (bottom - top).max(0.5),
                COLOURS[column % COLOURS.len()]
            );
        }
        let _ = write!(svg, "<text x=\"{x:.1}\" y=\"{:.1}\">{}</text>", height + 28.0, escape(&line.label));
    }
    for (column, name) in exhibit.plotted.iter().map(|&column| &exhibit.columns[column]).enumerate() {
        let (x, y) = (total - 160.0, 20.0 + 15.0 * column as f64);
        let colour = COLOURS[column % COLOURS.len()];
        let _ =
            write!(svg, "<text x=\"{x:.0}\" y=\"{y:.0}\" fill=\"{colour}\">\u{25a0} {}</text>", escape(name));
    }
    svg + "</svg>\n"
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_stand_beside_the_published_in_text_and_page() {
        let mut exhibit = Exhibit::new("table2").unwrap();
        exhibit.line("cg <12>", "CG", vec![81.0, f64::NAN, -3.0]);
        exhibit.claim(true, "it falls");
        exhibit.claim(false, "it rises");
        let text = text(&exhibit);
        assert!(text.contains("81.0 [80.9]") && text.contains("- [15.3]"), "{text}");
        assert!(
            text.contains("  as published: it falls") && text.contains("NOT as published: it rises"),
            "{text}"
        );
        let page = html(&[exhibit], "small & quick");
        for part in
            ["cg &lt;12&gt;", "81.0 <small>[80.9]</small>", "<svg", "small &amp; quick", "class=\"no\""]
        {
            assert!(page.contains(part), "{part}: {page}");
        }
    }
}
