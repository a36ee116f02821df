//! What a successive refinement found, in text and as JSON, whatever it was made of.

use crate::tables::{count as short, table, things};
use homing_core::refine::{Coarse, Step};
use homing_linux::visible;
use indicatif::HumanBytes;
use serde_json::{json, Value};
use std::collections::BTreeMap;

/// Rows that a table shows.
const SHOWN: usize = 20;

/// What the steps of the search were.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Steps {
    /// Runs that all saw the same references, so that nothing is hotter but what is open.
    Runs,
    /// Parts of one run, each of which saw others.
    Parts,
    /// Intervals of a program that runs.
    Intervals,
}

impl Steps {
    fn name(self) -> &'static str {
        match self {
            Steps::Runs => "run",
            Steps::Parts => "part",
            Steps::Intervals => "interval",
        }
    }
}

/// A hot line.
pub struct Hot {
    pub address: u64,
    pub count: u64,
    /// What data it is of.
    pub data: String,
    /// Its physical address, if it was counted by that.
    pub physical: Option<u64>,
}

/// The search when it ended.
pub struct Found {
    pub of: Steps,
    /// Bytes of a line.
    pub line: u64,
    pub steps: Vec<Step>,
    /// The hottest first.
    pub lines: Vec<Hot>,
    pub open: Coarse,
    /// References lost to damage.
    pub lost: u64,
}

/// Hot lines of an area.
struct Area<'f> {
    name: &'f str,
    lines: u64,
    references: u64,
}

fn share(part: u64, all: u64) -> f64 {
    100.0 * part as f64 / all.max(1) as f64
}

impl Found {
    /// The areas with hot lines, the one with the most references first.
    fn by_area(&self) -> Vec<Area<'_>> {
        let mut areas: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for line in &self.lines {
            let all = areas.entry(&line.data).or_default();
            *all = (all.0 + 1, all.1 + line.count);
        }
        let area = |(name, (lines, references))| Area { name, lines, references };
        let mut areas: Vec<Area> = areas.into_iter().map(area).collect();
        areas.sort_by(|a, b| (b.references, a.name).cmp(&(a.references, b.name)));
        areas
    }

    /// References that the last step looked at: what counts of lines are a part of.
    fn looked_at(&self) -> u64 {
        self.steps.last().map_or(0, |step| step.looked_at)
    }

    /// Which lines, whose they are, how they were found.
    pub fn text(&self) -> String {
        if self.steps.iter().all(|step| step.looked_at == 0) {
            return "No reference was looked at: no line is hot.".to_owned();
        }
        let all = self.looked_at();
        let hot: u64 = self.lines.iter().map(|line| line.count).sum();
        // Over several steps with other references a line was counted in one of them alone.
        let most = match self.of {
            Steps::Runs => format!("{:.1} % of {} references", share(hot, all), short(all)),
            Steps::Parts | Steps::Intervals => "the most references".into(),
        };
        let mut text = format!(
            "The {} of {} have {most}.\n{}",
            things(self.lines.len() as u64, "hottest line"),
            HumanBytes(self.line),
            self.sureness()
        );
        text += &format!("\n\n{}\n\n{}", self.areas(), self.hottest());
        if self.lines.len() > SHOWN {
            text += &format!("\n({} more lines; --json has all)", self.lines.len() - SHOWN);
        }
        text + &format!("\n\n{}", self.path())
    }

    /// A share of all references: lines that were counted in different steps are parts of different ones.
    fn percent(&self, references: u64) -> Option<String> {
        let of_one = self.of == Steps::Runs;
        of_one.then(|| format!("{:.2}", share(references, self.looked_at())))
    }

    fn percent_title(&self) -> &'static [&'static str] {
        match self.of {
            Steps::Runs => &["%"],
            Steps::Parts | Steps::Intervals => &[],
        }
    }

    fn areas(&self) -> String {
        let mut areas = table(&[&["data", "hot lines", "references"], self.percent_title()].concat());
        for Area { name, lines, references } in self.by_area().into_iter().take(SHOWN) {
            let name = visible::name(name).into_owned();
            let mut row = vec![name, lines.to_string(), short(references)];
            row.extend(self.percent(references));
            areas.add_row(row);
        }
        areas.trim_fmt()
    }

    fn hottest(&self) -> String {
        let mut lines = table(&[&["line", "references"], self.percent_title(), &["data"]].concat());
        for line in self.lines.iter().take(SHOWN) {
            let mut row = vec![format!("{:#x}", line.address), short(line.count)];
            row.extend(self.percent(line.count));
            row.push(visible::name(&line.data).into_owned());
            lines.add_row(row);
        }
        lines.trim_fmt()
    }

    fn path(&self) -> String {
        let titles = ["granules of", "filters", "counters", "memory", "references", "hottest granule"];
        let mut path = table(&[&[self.of.name()], &titles[..]].concat());
        for (number, step) in self.steps.iter().enumerate() {
            path.add_row([
                (number + 1).to_string(),
                HumanBytes(step.filters.granularity()).to_string(),
                step.filters.ranges().len().to_string(),
                step.filters.counters().to_string(),
                HumanBytes(step.filters.bytes()).to_string(),
                short(step.counted),
                short(step.most),
            ]);
        }
        path.trim_fmt()
    }

    /// What may have been missed.
    fn sureness(&self) -> String {
        let steps = things(self.steps.len() as u64, self.of.name());
        let Coarse { granules, count, most } = self.open;
        match (self.of == Steps::Runs, granules) {
            (true, 0) => format!("Found in {steps}; no other line is hotter."),
            (true, _) => format!(
                "After {steps} hotter lines may be in {}, which were not looked at line by line: {} references, at \
                 most {} of them to one.",
                things(granules as u64, "granule"),
                short(count),
                short(most)
            ),
            (false, 0) => format!("Estimated in {steps}: what was hot in one may not be in the next."),
            (false, _) => format!(
                "Estimated in {steps}; {} with {} references when they were counted were not looked at line by line.",
                things(granules as u64, "granule"),
                short(count)
            ),
        }
    }

    /// All of it (docs/monitors.md).
    pub fn json(&self) -> Value {
        let step = |step: &Step| {
            let ranges = step
                .filters
                .ranges()
                .iter()
                .map(|range| json!({ "start": range.start, "bytes": range.bytes }));
            json!({
                "granularity": step.filters.granularity(),
                "filters": ranges.collect::<Vec<_>>(),
                "counters": step.filters.counters(),
                "looked_at": step.looked_at,
                "counted": step.counted,
                "hottest_granule": step.most,
                "runs_left_at_most": step.announced,
            })
        };
        let line = |line: &Hot| {
            let mut json = json!({ "address": line.address, "references": line.count, "data": line.data });
            if let Some(physical) = line.physical {
                json["physical"] = physical.into();
            }
            json
        };
        json!({
            "schema": 1,
            "line": self.line,
            "exact": self.of == Steps::Runs && self.open.granules == 0,
            "references": self.looked_at(),
            "lines": self.lines.iter().map(line).collect::<Vec<_>>(),
            "runs": self.steps.iter().map(step).collect::<Vec<_>>(),
            "open": {
                "granules": self.open.granules, "references": self.open.count, "most": self.open.most
            },
            "lost": self.lost,
        })
    }
}
