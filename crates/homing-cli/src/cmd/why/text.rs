//! The diagnosis for people: the verdict, the areas that cause it, what to do, and what that rests on.

use crate::tables::table;
use homing_core::report::why::{percent, AreaReport, RemedyReport, WhyReport};
use homing_core::why::remedy::Remedy;
use homing_core::why::verdict::Cause;
use homing_linux::visible;
use indicatif::HumanBytes;
use std::borrow::Cow;

/// Areas with less of what can be avoided are not shown, in percent.
const LEAST: f64 = 0.5;

/// What is shown.
pub struct Page<'a> {
    report: &'a WhyReport,
    shown: usize,
}

impl<'a> Page<'a> {
    /// `shown`: most areas.
    pub fn new(report: &'a WhyReport, shown: usize) -> Page<'a> {
        Page { report, shown }
    }

    /// As a terminal shows it.
    pub fn plain(&self) -> String {
        let mut lines = vec![self.report.sentence.clone(), self.basis().into_owned(), String::new()];
        let rows = self.rows();
        if !rows.is_empty() {
            let mut areas = table(HEADER);
            areas.add_rows(rows);
            lines.extend([areas.to_string(), String::new()]);
        }
        lines.extend(self.advice());
        lines.extend(self.report.notes.iter().map(|note| format!("note: {note}")));
        lines.join("\n")
    }

    /// As Markdown.
    pub fn markdown(&self) -> String {
        let cell = |text: &String| text.replace('|', "\\|");
        let mut lines = vec![
            format!("**{}**", self.report.sentence),
            String::new(),
            self.basis().into_owned(),
            String::new(),
        ];
        let rows = self.rows();
        if !rows.is_empty() {
            lines.push(format!("| {} |", HEADER.join(" | ")));
            lines.push(format!("|{}", "---|".repeat(HEADER.len())));
            let row =
                |row: Vec<String>| format!("| {} |", row.iter().map(cell).collect::<Vec<_>>().join(" | "));
            lines.extend(rows.into_iter().map(row));
            lines.push(String::new());
        }
        let notes = self.report.notes.iter().map(|note| format!("note: {note}"));
        lines.extend(self.advice().into_iter().chain(notes).map(|line| format!("* {}", line.trim_start())));
        lines.push(String::new());
        lines.join("\n")
    }

    fn basis(&self) -> Cow<'_, str> {
        visible::name(&self.report.basis)
    }

    /// The areas that matter, a row each, and the others in one.
    fn rows(&self) -> Vec<Vec<String>> {
        let matter = |area: &&AreaReport| area.avoidable_percent >= LEAST || area.remedy.is_some();
        let areas = &self.report.areas;
        let shown: Vec<&AreaReport> = areas.iter().filter(matter).take(self.shown).collect();
        let mut rows: Vec<Vec<String>> = shown.iter().map(|area| row(area)).collect();
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

    /// What to do, most useful first.
    fn advice(&self) -> Vec<String> {
        let report = self.report;
        if report.verdict == Cause::NotNuma {
            return vec!["Nothing to do: look at caches, computing and synchronisation instead.".into()];
        }
        let mut lines = vec!["What to do:".to_owned()];
        for remedy in [Remedy::InitialiseByUser, Remedy::Spread, Remedy::Replicate, Remedy::Migrate] {
            let of = |area: &&AreaReport| area.remedy.is_some_and(|given| given.remedy == remedy);
            let areas: Vec<&AreaReport> = report.areas.iter().filter(of).collect();
            if !areas.is_empty() {
                lines.push(format!("  {}: {}", names(&areas), words(remedy)));
            }
        }
        for area in &report.areas {
            if let Some(RemedyReport { remedy: Remedy::Bind(node), .. }) = area.remedy {
                lines.push(format!("  {}: {}", names(&[area]), words(Remedy::Bind(node))));
            }
        }
        lines.push("Without a change of the source, for all pages alike:".to_owned());
        lines.extend(report.one_remedy_for_all.iter().map(|remedy| self.for_all(remedy)));
        lines
    }

    fn for_all(&self, remedy: &RemedyReport) -> String {
        let command = match remedy.remedy {
            Remedy::Migrate => "homing run -- PROGRAM",
            _ => "numactl --interleave=all PROGRAM",
        };
        let verb = if remedy.saves >= 0.0 { "takes off" } else { "adds" };
        format!("  {command}    {verb} {} {}", percent(remedy.saves.abs()), self.report.of())
    }
}

fn row(area: &AreaReport) -> Vec<String> {
    vec![
        name(area).into_owned(),
        size(area.bytes),
        format!("{:.0} %", area.avoidable_percent),
        nodes(&area.pages_made_by_node),
        nodes(&area.references_by_node),
        nodes(&area.pages_on_node),
        if area.remedy.is_some() { nodes(&area.pages_best_on_node) } else { "there".into() },
        area.class.clone(),
        area.cause.map_or("-".into(), |cause| cause.words().into()),
        area.remedy.map_or("-".into(), |remedy| percent(remedy.saves)),
    ]
}

fn name(area: &AreaReport) -> Cow<'_, str> {
    area.name.as_deref().map_or("(no name)".into(), visible::name)
}

fn size(bytes: u64) -> String {
    HumanBytes(bytes).to_string()
}

const HEADER: &[&str] = &[
    "area",
    "size",
    "avoidable",
    "made by",
    "used by",
    "is on",
    "should be on",
    "sharing",
    "cause",
    "takes off",
];

/// A remedy as something to do.
fn words(remedy: Remedy) -> String {
    match remedy {
        Remedy::InitialiseByUser => {
            "let the threads that use it initialise it: `#pragma omp parallel for schedule(static)` over the loop that \
             first writes it, with the schedule of the loop that uses it"
                .into()
        }
        Remedy::Spread => {
            "spread it: `mbind(start, bytes, MPOL_INTERLEAVE, all nodes, ...)` where it is allocated, before it is \
             first written"
                .into()
        }
        Remedy::Bind(node) => format!(
            "keep it on node {node}: `mbind(start, bytes, MPOL_BIND, node {node}, ...)` where it is allocated, or \
             initialise it in a thread of that node"
        ),
        Remedy::Replicate => "give each node a copy of its own, filled by a thread of that node".into(),
        Remedy::Migrate => "let its pages follow their users: `homing run -- PROGRAM`".into(),
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

/// Which nodes have most of something.
fn nodes(counts: &[u64]) -> String {
    let all: u64 = counts.iter().sum();
    let share = |count: u64| 100.0 * count as f64 / (all as f64).max(1.0);
    let mut sorted: Vec<(usize, u64)> = counts.iter().copied().enumerate().filter(|(_, n)| *n > 0).collect();
    sorted.sort_by_key(|&(node, count)| (std::cmp::Reverse(count), node));
    let even = sorted.len() == counts.len() && sorted.last().is_some_and(|(_, n)| n * 4 >= sorted[0].1 * 3);
    match sorted.as_slice() {
        [] => "-".into(),
        [(node, count), ..] if share(*count) >= 95.0 => format!("node {node}"),
        _ if even => "all evenly".into(),
        _ => {
            let part = |(node, count): &(usize, u64)| format!("{node}: {:.0} %", share(*count));
            let mut parts: Vec<String> = sorted.iter().take(3).map(part).collect();
            if sorted.len() > 3 {
                parts.push("...".into());
            }
            parts.join(", ")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_told_in_few_words() {
        assert_eq!(nodes(&[0, 0]), "-");
        assert_eq!(nodes(&[0, 97, 3]), "node 1");
        assert_eq!(nodes(&[10, 9, 10, 8]), "all evenly");
        assert_eq!(nodes(&[10, 0, 30, 0]), "2: 75 %, 0: 25 %");
        assert_eq!(nodes(&[10, 40, 30, 20]), "1: 40 %, 2: 30 %, 3: 20 %, ...");
    }
}
