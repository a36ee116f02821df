//! The diagnosis for people: the verdict, the areas that cause it, what to do, and what that rests on.

use super::shares::By;
use crate::tables::{table, things};
use homing_core::report::TraceInfo;
use homing_core::why::area::Area;
use homing_core::why::remedy::{Prediction, Remedy};
use homing_core::why::verdict::Cause;
use homing_core::why::{Diagnosis, Finding};
use homing_linux::visible;
use homing_pipeline::why::Answer;
use homing_pipeline::Case;
use indicatif::HumanBytes;

/// Areas with less of what can be avoided are not shown, in percent.
const LEAST: f64 = 0.5;

/// What is shown.
pub struct Page<'a> {
    answer: &'a Answer,
    trace: TraceInfo,
    machine: &'a str,
    page_bytes: u64,
    shown: usize,
    by: &'a [By],
}

impl<'a> Page<'a> {
    /// `shown`: most areas. `by`: what shares are shown of.
    pub fn new(answer: &'a Answer, case: &'a Case<'_>, shown: usize, by: &'a [By]) -> Page<'a> {
        let (trace, machine) = (case.trace_info(), case.ready.machine.name());
        Page { answer, trace, machine, page_bytes: case.ready.page_size.bytes(), shown, by }
    }

    fn found(&self) -> &Diagnosis {
        &self.answer.diagnosis
    }

    /// As a terminal shows it.
    pub fn plain(&self) -> String {
        let mut lines = vec![self.verdict(), self.basis(), String::new()];
        let rows = self.rows();
        if !rows.is_empty() {
            let mut areas = table(HEADER);
            areas.add_rows(rows);
            lines.extend([areas.to_string(), String::new()]);
        }
        for (header, rows) in self.shares() {
            let mut shares = table(&header);
            shares.add_rows(rows);
            lines.extend([shares.to_string(), String::new()]);
        }
        lines.extend(self.advice());
        lines.extend(self.answer.notes.iter().map(|note| format!("note: {note}")));
        lines.join("\n")
    }

    /// As Markdown.
    pub fn markdown(&self) -> String {
        let mut lines = vec![format!("**{}**", self.verdict()), String::new(), self.basis(), String::new()];
        let rows = self.rows();
        if !rows.is_empty() {
            lines.extend(markdown_table(HEADER, rows));
        }
        self.shares().iter().for_each(|(header, rows)| lines.extend(markdown_table(header, rows.clone())));
        let notes = self.answer.notes.iter().map(|note| format!("note: {note}"));
        lines.extend(self.advice().into_iter().chain(notes).map(|line| format!("* {}", line.trim_start())));
        lines.push(String::new());
        lines.join("\n")
    }

    /// The tables of phases and threads.
    fn shares(&self) -> Vec<([&'static str; 4], Vec<Vec<String>>)> {
        let shares = self.answer.shares.as_ref();
        shares.map_or(Vec::new(), |shares| self.by.iter().map(|by| by.table(shares)).collect())
    }

    /// The answer in one line.
    fn verdict(&self) -> String {
        let found = self.found();
        let at_most = percent(found.at_most);
        let of = self.of();
        if found.cause == Cause::NotNuma {
            return format!("Not NUMA: at most {at_most} {of} to gain by placing memory.");
        }
        let areas = found.findings.iter().filter(|finding| finding.remedy.is_some());
        let (count, share) =
            areas.fold((0, 0.0), |(count, share), finding| (count + 1, share + finding.avoidable_percent));
        format!(
            "{}: {} with {share:.0} % of what can be avoided. The remedies below take off {} {of}; at most {at_most} \
             could be.",
            capital(found.cause.words()),
            things(count, "area"),
            range(found.gain.low, found.gain.high),
        )
    }

    fn of(&self) -> &'static str {
        match self.found().timed {
            true => "of the time",
            false => "of the cost of memory references",
        }
    }

    /// What the numbers rest on.
    fn basis(&self) -> String {
        let Answer { threads_on, nodes_in_use, behind_caches, .. } = self.answer;
        let caches = if *behind_caches { "behind caches" } else { "every reference, no caches" };
        format!(
            "Modelled on {} ({caches}, one copy a page): {} of {} on {} ({threads_on}), {:.1} % of what reaches memory \
             is non-local.",
            self.machine,
            things(self.trace.threads, "thread"),
            visible::name(&self.trace.name),
            things(*nodes_in_use as u64, "node"),
            self.found().before.nonlocal_percent(),
        )
    }

    /// The areas that matter, a row each, and the others in one.
    fn rows(&self) -> Vec<Vec<String>> {
        let matter = |finding: &&Finding| finding.avoidable_percent >= LEAST || finding.remedy.is_some();
        let shown: Vec<&Finding> = self.found().findings.iter().filter(matter).take(self.shown).collect();
        let mut rows: Vec<Vec<String>> = shown.iter().map(|finding| self.row(finding)).collect();
        let pages: usize = self.found().findings.iter().map(|finding| finding.area.pages.len()).sum();
        let rest = pages - shown.iter().map(|finding| finding.area.pages.len()).sum::<usize>();
        let share: f64 = 100.0 - shown.iter().map(|finding| finding.avoidable_percent).sum::<f64>();
        if rest > 0 && !rows.is_empty() {
            let others = self.found().findings.len() - shown.len();
            let mut row =
                vec![format!("({} more)", others), self.size(rest), format!("{:.0} %", share.max(0.0))];
            row.resize(HEADER.len(), String::new());
            rows.push(row);
        }
        rows
    }

    fn row(&self, finding: &Finding) -> Vec<String> {
        let area = &finding.area;
        let name = area.name.as_deref().map_or("(no name)".into(), visible::name);
        vec![
            name.into_owned(),
            self.size(area.pages.len()),
            format!("{:.0} %", finding.avoidable_percent),
            nodes(&area.made_by),
            nodes(&area.by_node),
            nodes(&area.homes),
            if finding.remedy.is_some() { nodes(&area.best) } else { "there".into() },
            area.class().name().into(),
            finding.cause.map_or("-".into(), |cause| cause.words().into()),
            finding.remedy.map_or("-".into(), |prediction| self.saved(&prediction, area)),
        ]
    }

    fn size(&self, pages: usize) -> String {
        HumanBytes(pages as u64 * self.page_bytes).to_string()
    }

    /// What a remedy takes off the time, or off the cost of all references.
    fn saved(&self, prediction: &Prediction, area: &Area) -> String {
        percent(match prediction.time {
            Some(time) => 1.0 - time,
            None => (area.costs.here - prediction.cost) / self.found().costs[0].max(1.0),
        })
    }

    /// What to do, most useful first.
    fn advice(&self) -> Vec<String> {
        let found = self.found();
        if found.cause == Cause::NotNuma {
            return vec!["Nothing to do: look at caches, computing and synchronisation instead.".into()];
        }
        let mut lines = vec!["What to do:".to_owned()];
        for remedy in [Remedy::InitialiseByUser, Remedy::Spread, Remedy::Replicate, Remedy::Migrate] {
            let of = |finding: &&Finding| finding.remedy.is_some_and(|given| given.remedy == remedy);
            let areas: Vec<&Finding> = found.findings.iter().filter(of).collect();
            if !areas.is_empty() {
                lines.push(format!("  {}: {}", names(&areas), words(remedy)));
            }
        }
        for finding in &found.findings {
            if let Some(Prediction { remedy: Remedy::Bind(node), .. }) = finding.remedy {
                lines.push(format!("  {}: {}", names(&[finding]), words(Remedy::Bind(node))));
            }
        }
        lines.push("Without a change of the source, for all pages alike:".to_owned());
        lines.extend(found.for_all.iter().map(|prediction| self.for_all(prediction)));
        lines
    }

    fn for_all(&self, prediction: &Prediction) -> String {
        let command = match prediction.remedy {
            Remedy::Migrate => "homing run -- PROGRAM",
            _ => "numactl --interleave=all PROGRAM",
        };
        let gain = match prediction.time {
            Some(time) => 1.0 - time,
            None => (self.found().costs[0] - prediction.cost) / self.found().costs[0].max(1.0),
        };
        let verb = if gain >= 0.0 { "takes off" } else { "adds" };
        format!("  {command}    {verb} {} {}", percent(gain.abs()), self.of())
    }
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

/// The lines of a table, and an empty one.
fn markdown_table(header: &[&str], rows: Vec<Vec<String>>) -> Vec<String> {
    let cell = |text: &String| text.replace('|', "\\|");
    let row = |row: Vec<String>| format!("| {} |", row.iter().map(cell).collect::<Vec<_>>().join(" | "));
    let head = [format!("| {} |", header.join(" | ")), format!("|{}", "---|".repeat(header.len()))];
    head.into_iter().chain(rows.into_iter().map(row)).chain([String::new()]).collect()
}

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

fn names(areas: &[&Finding]) -> String {
    let name = |finding: &&Finding| {
        finding.area.name.as_deref().map_or("pages without a name".into(), visible::name).into_owned()
    };
    let mut names: Vec<String> = areas.iter().take(NAMED).map(name).collect();
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

fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if percent < 9.95 {
        format!("{percent:.1} %")
    } else {
        format!("{percent:.0} %")
    }
}

/// A range of shares, in percent.
fn range(low: f64, high: f64) -> String {
    match percent(low) == percent(high) {
        true => percent(high),
        false => format!("{} to {}", percent(low).trim_end_matches(" %"), percent(high)),
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
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
        assert_eq!((percent(0.0312), percent(0.41)), ("3.1 %".into(), "41 %".into()));
        assert_eq!((range(0.2, 0.31), range(0.2, 0.2)), ("20 to 31 %".into(), "20 %".into()));
    }
}
