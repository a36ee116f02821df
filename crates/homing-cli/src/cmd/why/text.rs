//! The diagnosis for people: the verdict, the areas that cause it, what to do, and what that rests on.

use super::plan;
use super::shares::By;
use crate::tables::{fitted, things, wrapped};
use homing_core::report::advice::{in_words, Form, Snippet};
use homing_core::report::why::{percent, AreaReport, RemedyReport, WhyReport};
use homing_core::why::remedy::Remedy;
use homing_core::why::verdict::Cause;
use homing_linux::visible;
use indicatif::HumanBytes;
use std::borrow::Cow;

/// Areas with less of what can be avoided are not shown, in percent.
const LEAST: f64 = 0.5;

/// Most characters of an area's name in the table; the remedies have all of it.
const NAME: usize = 34;

/// What is shown.
pub struct Page<'a> {
    report: &'a WhyReport,
    shown: usize,
    by: &'a [By],
    notes: usize,
}

impl<'a> Page<'a> {
    /// `shown`: most areas. `by`: what shares are shown of. `notes`: notes that a terminal shows, the first ones.
    pub fn new(report: &'a WhyReport, shown: usize, by: &'a [By], notes: usize) -> Page<'a> {
        Page { report, shown, by, notes }
    }

    /// The text for a terminal with this number of columns; whole lines where that is not known.
    pub fn plain(&self, columns: Option<u16>) -> String {
        let mut lines = vec![wrapped(&self.report.sentence, columns), wrapped(&self.basis(), columns)];
        lines.push(String::new());
        let rows = self.rows();
        if !rows.is_empty() {
            lines.extend([fitted(HEADER, rows, columns), String::new()]);
        }
        for (header, rows) in self.shares() {
            lines.extend([fitted(&header, rows, columns), String::new()]);
        }
        lines.extend(self.advice().iter().map(|line| wrapped(line, columns)));
        let notes = &self.report.notes;
        let shown = notes.len().min(self.notes);
        lines.extend(notes[..shown].iter().map(|note| wrapped(&format!("note: {note}"), columns)));
        if shown < notes.len() {
            lines.push(format!(
                "({} on how this was modelled: --verbose)",
                things((notes.len() - shown) as u64, "note")
            ));
        }
        lines.join("\n")
    }

    /// As Markdown.
    pub fn markdown(&self) -> String {
        let sentence = format!("**{}**", self.report.sentence);
        let mut lines = vec![sentence, String::new(), self.basis().into_owned(), String::new()];
        let rows = self.rows();
        if !rows.is_empty() {
            lines.extend(markdown_table(HEADER, rows));
        }
        self.shares().iter().for_each(|(header, rows)| lines.extend(markdown_table(header, rows.clone())));
        let notes = self.report.notes.iter().map(|note| format!("note: {note}"));
        lines.extend(self.advice().into_iter().chain(notes).map(|line| format!("* {}", line.trim_start())));
        lines.push(String::new());
        lines.join("\n")
    }

    /// The tables of phases and threads.
    fn shares(&self) -> Vec<([&'static str; 4], Vec<Vec<String>>)> {
        let shares = self.report.shares.as_ref();
        shares.map_or(Vec::new(), |shares| self.by.iter().map(|by| by.table(shares)).collect())
    }

    fn basis(&self) -> Cow<'_, str> {
        visible::name(&self.report.basis)
    }

    /// The areas that matter, a row each, and the others in one.
    fn rows(&self) -> Vec<Vec<String>> {
        if matches!(self.report.verdict, Cause::NotNuma | Cause::NotKnown) {
            return Vec::new();
        }
        let matter = |area: &&AreaReport| area.avoidable_percent >= LEAST || area.remedy.is_some();
        let areas = &self.report.areas;
        let shown: Vec<&AreaReport> = areas.iter().filter(matter).take(self.shown).collect();
        let mut rows: Vec<Vec<String>> = shown.iter().map(|area| self.row(area)).collect();
        let bytes: u64 = areas.iter().map(|area| area.bytes).sum();
        let rest = bytes - shown.iter().map(|area| area.bytes).sum::<u64>();
        let share: f64 = 100.0 - shown.iter().map(|area| area.avoidable_percent).sum::<f64>();
        if rest > 0 && !rows.is_empty() {
            let others = areas.len() - shown.len();
            let mut row = vec![format!("({others} more)"), size(rest), format!("{:.0} %", share.max(0.0))];
            row.resize(HEADER.len(), String::new());
            rows.push(row);
        }
        rows
    }

    fn row(&self, area: &AreaReport) -> Vec<String> {
        let nodes = |counts: &[u64]| nodes(counts, |node| self.id(node));
        vec![
            shortened(&name(area)),
            size(area.bytes),
            format!("{:.0} %", area.avoidable_percent),
            nodes(&area.pages_made_by_node),
            nodes(&area.references_by_node),
            nodes(&area.pages_on_node),
            if area.remedy.is_some() { nodes(&area.pages_best_on_node) } else { "there".into() },
            area.class.clone(),
            area.remedy.as_ref().map_or("-".into(), |remedy| percent(remedy.saves)),
        ]
    }

    /// The kernel's number of a node.
    fn id(&self, node: usize) -> u32 {
        self.report.machine.node_id(node)
    }

    /// What to do, most useful first.
    fn advice(&self) -> Vec<String> {
        let report = self.report;
        if report.verdict == Cause::NotKnown {
            return Vec::new();
        }
        if report.verdict == Cause::NotNuma {
            return match (report.nodes_in_use, &report.sampled) {
                (1, None) => vec![
                    "Nothing to do for what was recorded. If that was no more than the start of the program, judge what"
                        .into(),
                    "comes after it: homing why --from FUNCTION -- PROGRAM".into(),
                ],
                _ => vec!["Nothing to do: look at caches, computing and synchronisation instead.".into()],
            };
        }
        let mut lines = vec!["What to do:".to_owned()];
        for finding in &report.process {
            lines.extend(finding.paste.iter().filter_map(pasted));
        }
        let mut remedies: Vec<(Remedy, Vec<&AreaReport>)> = Vec::new();
        for area in &report.areas {
            let Some(RemedyReport { remedy, .. }) = area.remedy else { continue };
            match remedies.iter_mut().find(|(known, _)| *known == remedy) {
                Some((_, areas)) => areas.push(area),
                None => remedies.push((remedy, vec![area])),
            }
        }
        for (remedy, areas) in remedies {
            lines.push(format!(
                "  {}{}: {}",
                names(&areas),
                causes(&areas),
                in_words(remedy, |node| self.id(node.into()))
            ));
            lines.extend(areas.iter().take(1).filter_map(|area| worst_line(area)));
            lines.extend(areas.iter().take(1).filter_map(|area| source_line(&area.stack)));
            let command = plan::command(&areas, |node| self.id(node.into()));
            lines.extend(command.map(|command| format!("    without a change of the source: {command}")));
        }
        if report.areas.iter().any(|area| area.remedy.is_some()) {
            lines.push("Without a change of the source, for all pages alike:".to_owned());
            lines.extend(report.one_remedy_for_all.iter().map(|remedy| self.for_all(remedy)));
        }
        lines
    }

    fn for_all(&self, remedy: &RemedyReport) -> String {
        let of = self.report.of();
        let Some(command) = remedy.paste.iter().find(|snippet| snippet.form == Form::Shell) else {
            let (words, adds) = (for_all_words(remedy.remedy), percent(-remedy.saves));
            return match adds.trim_start_matches('-') == percent(0.0) {
                true => format!("  ({words} would change nothing)"),
                false => format!("  ({words} would add {adds} {of})"),
            };
        };
        format!("  {}    saves {} {of}", command.text, percent(remedy.saves))
    }
}

/// The lines of a table, and an empty one.
fn markdown_table(header: &[&str], rows: Vec<Vec<String>>) -> Vec<String> {
    let cell = |text: &String| text.replace('|', "\\|");
    let row = |row: Vec<String>| format!("| {} |", row.iter().map(cell).collect::<Vec<_>>().join(" | "));
    let head = [format!("| {} |", header.join(" | ")), format!("|{}", "---|".repeat(header.len()))];
    head.into_iter().chain(rows.into_iter().map(row)).chain([String::new()]).collect()
}

/// A remedy of what only a running process shows, as far as people read it here.
fn pasted(snippet: &Snippet) -> Option<String> {
    match snippet.form {
        Form::Words => Some(format!("  {}", snippet.text)),
        Form::Shell => Some(format!("    {}", snippet.text)),
        Form::Systemd => Some(format!("    systemd: {}", snippet.text.replace('\n', " "))),
        _ => None,
    }
}

/// What does not pay.
fn for_all_words(remedy: Remedy) -> &'static str {
    match remedy {
        Remedy::Migrate => "letting pages follow their users",
        Remedy::OneNode => "running on one node",
        Remedy::SmallPages(_) => "small pages alone",
        _ => "spreading all pages",
    }
}

/// Where the line is that travels most, if lines are what is wrong.
fn worst_line(area: &AreaReport) -> Option<String> {
    if !matches!(area.remedy.as_ref()?.remedy, Remedy::PadLines | Remedy::SplitLines) {
        return None;
    }
    let lines = area.lines.as_ref()?;
    let worst = lines.worst.first()?;
    let travels = worst.falsely + worst.truly;
    // What has no name may lie all over the address space: then the offset tells nothing.
    let place = match worst.offset < area.bytes {
        true => format!("the line {} bytes from the start of its first page", worst.offset),
        false => "a line".to_owned(),
    };
    Some(format!(
        "    most: {place}, used by {} nodes, travelled {travels} times, {} of them with nothing new in it",
        worst.nodes, worst.falsely
    ))
}

/// Most bytes of a source file.
const SOURCE: u64 = 16 << 20;

/// The line of the source that allocates an area, if its file is there by the name that the trace has.
fn source_line(stack: &[String]) -> Option<String> {
    let (_, place) = stack.first()?.strip_suffix(')')?.rsplit_once(" (")?;
    let (file, number) = place.rsplit_once(':')?;
    let number: usize = number.parse().ok().filter(|number| *number > 0)?;
    let about = std::fs::metadata(file).ok()?;
    let readable = about.is_file() && about.len() <= SOURCE;
    let text = readable.then(|| std::fs::read(file)).and_then(Result::ok)?;
    let line = String::from_utf8_lossy(text.split(|&byte| byte == b'\n').nth(number - 1)?).into_owned();
    (!line.trim().is_empty()).then(|| format!("    {}: {}", visible::name(place), visible::name(line.trim())))
}

fn name(area: &AreaReport) -> Cow<'_, str> {
    area.name.as_deref().map_or("(no name)".into(), visible::name)
}

/// A name with its middle left out, if it is long: the end of a call site says where it is.
fn shortened(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= NAME {
        return name.to_owned();
    }
    let (head, tail) = (NAME / 2, NAME - NAME / 2 - 1);
    letters[..head].iter().chain(['…'].iter()).chain(&letters[letters.len() - tail..]).collect()
}

fn size(bytes: u64) -> String {
    HumanBytes(bytes).to_string()
}

const HEADER: &[&str] = &[
    "area",
    "size",
    "avoidable",
    "first touched by",
    "accessed by",
    "resident on",
    "should be on",
    "sharing",
    "saves",
];

/// Why a remedy helps these areas.
fn causes(areas: &[&AreaReport]) -> String {
    let mut causes: Vec<&str> = areas.iter().filter_map(|area| area.cause).map(Cause::short).collect();
    causes.dedup();
    match causes.is_empty() {
        true => String::new(),
        false => format!(" ({})", causes.join(", ")),
    }
}

/// Most names in one line.
const NAMED: usize = 4;

fn names(areas: &[&AreaReport]) -> String {
    let mut names: Vec<String> = areas.iter().take(NAMED).map(|area| name(area).into_owned()).collect();
    if areas.len() > NAMED {
        names.push(format!("{} more", areas.len() - NAMED));
    }
    names.join(", ")
}

/// Which nodes have most of something. `id`: the kernel's number of a node.
fn nodes(counts: &[u64], id: impl Fn(usize) -> u32) -> String {
    let all: u64 = counts.iter().sum();
    let share = |count: u64| 100.0 * count as f64 / (all as f64).max(1.0);
    let mut sorted: Vec<(usize, u64)> = counts.iter().copied().enumerate().filter(|(_, n)| *n > 0).collect();
    sorted.sort_by_key(|&(node, count)| (std::cmp::Reverse(count), node));
    let even = sorted.len() == counts.len() && sorted.last().is_some_and(|(_, n)| n * 4 >= sorted[0].1 * 3);
    match sorted.as_slice() {
        [] => "-".into(),
        [(node, count), ..] if share(*count) >= 95.0 => format!("node {}", id(*node)),
        _ if even => "all evenly".into(),
        _ => {
            let part = |(node, count): &(usize, u64)| format!("{}: {:.0} %", id(*node), share(*count));
            let shown = if sorted.len() > 2 { 1 } else { 2 };
            let mut parts: Vec<String> = sorted.iter().take(shown).map(part).collect();
            if sorted.len() > shown {
                parts.push(format!("{} more", sorted.len() - shown));
            }
            parts.join(", ")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_allocates_is_shown_where_its_file_is() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("grid.c");
        std::fs::write(&file, "double *grid;\n\n   grid = malloc(8);\u{1b}[2J\n").unwrap();
        let at = |line: &str| source_line(&[format!("make ({}:{line})", file.display())]);
        let shown = at("3").unwrap();
        assert!(
            shown.starts_with("    /") && shown.ends_with("grid.c:3: grid = malloc(8);\\u001b[2J"),
            "{shown}"
        );
        assert_eq!([at("2"), at("0"), at("9"), at("x")], [None, None, None, None]);
        let other = |frame: &str| source_line(&[frame.to_owned()]);
        assert_eq!([other("make (in /bin/sh)"), other("make (/dev/zero:1)"), other("")], [None, None, None]);
        assert_eq!(source_line(&[]), None);
    }

    #[test]
    fn nodes_are_told_in_few_words() {
        assert_eq!(shortened("x"), "x");
        let long = format!("solver::assemble_matrix<{}> (src/solver.cpp:123)", "double, ".repeat(20));
        assert_eq!(shortened(&long), "solver::assemble_…/solver.cpp:123)");
        let nodes = |counts: &[u64]| nodes(counts, |node| node as u32);
        assert_eq!(nodes(&[0, 0]), "-");
        assert_eq!(nodes(&[0, 97, 3]), "node 1");
        assert_eq!(nodes(&[10, 9, 10, 8]), "all evenly");
        assert_eq!(nodes(&[10, 0, 30, 0]), "2: 75 %, 0: 25 %");
        assert_eq!(nodes(&[10, 40, 30, 20]), "1: 40 %, 3 more");
    }
}
