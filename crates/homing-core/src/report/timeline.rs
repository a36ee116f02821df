//! Who uses the pages of an area when: the strip of its pages, interval by interval. Small enough for a page: areas
//! with most to avoid, pages side by side in one cell where there are many, and what that leaves out counted.

use super::why::WhyReport;
use crate::why::facts::{PageFacts, INTERVALS};
use crate::why::Diagnosis;
use serde::{Deserialize, Serialize};

/// Areas that have a timeline at most, those with most to avoid.
pub const AREAS: usize = 16;
/// Cells of a timeline at most.
pub const CELLS: usize = 128;

/// What holds for the timelines of all areas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Timelines {
    /// Intervals, all equally long but for the last.
    pub intervals: u64,
    /// References of the whole program, before any cache, in an interval.
    pub interval_references: u64,
    /// References of the whole program in all intervals.
    pub references: u64,
    /// Areas without a timeline, those with least to avoid.
    pub areas_left_out: u64,
}

/// Who uses the pages of an area in each interval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct AreaTimeline {
    /// The address of each cell's first page, in order of address.
    pub cells: Vec<String>,
    /// Pages that a cell stands for; the last may have fewer.
    pub pages_per_cell: u64,
    /// Pages that share their cell with the page before.
    pub pages_folded: u64,
    /// An entry for each interval, which has a word for each cell: the node that uses it most, with `+` behind it if
    /// others use it too, or `.` if nobody does. `x8` behind a word: eight cells like this.
    pub users: Vec<String>,
}

impl WhyReport {
    /// With the timelines of the areas with most to avoid. `facts` are those that the areas were found in, `references`
    /// those of the whole program. Without order, as in samples, there is none.
    pub fn with_timelines(mut self, found: &Diagnosis, facts: &[PageFacts], references: u64) -> WhyReport {
        if references == 0 {
            return self;
        }
        let length = references / INTERVALS as u64 + 1;
        let intervals = references.div_ceil(length);
        for (area, finding) in self.areas.iter_mut().zip(&found.findings).take(AREAS) {
            area.timeline = Some(timeline(&finding.area.pages, facts, intervals as usize));
        }
        self.timelines = Some(Timelines {
            intervals,
            interval_references: length,
            references,
            areas_left_out: self.areas.len().saturating_sub(AREAS) as u64,
        });
        self
    }
}

fn timeline(pages: &[usize], facts: &[PageFacts], intervals: usize) -> AreaTimeline {
    let mut pages: Vec<&PageFacts> = pages.iter().map(|&page| &facts[page]).collect();
    pages.sort_by_key(|page| page.address);
    let per_cell = pages.len().div_ceil(CELLS).max(1);
    let cells: Vec<&[&PageFacts]> = pages.chunks(per_cell).collect();
    let users: Vec<Vec<String>> = cells.iter().map(|cell| cell_users(cell, intervals)).collect();
    let row = |interval: usize| folded(users.iter().map(|cell| cell[interval].as_str()));
    AreaTimeline {
        cells: cells.iter().map(|cell| format!("{:#x}", cell[0].address)).collect(),
        pages_per_cell: per_cell as u64,
        pages_folded: (pages.len() - cells.len()) as u64,
        users: (0..intervals).map(row).collect(),
    }
}

/// The word of a cell for each interval.
fn cell_users(cell: &[&PageFacts], intervals: usize) -> Vec<String> {
    let nodes = cell.iter().map(|page| page.by_node.len()).max().unwrap_or(0);
    let mut counts = vec![0; intervals * nodes];
    for used in cell.iter().flat_map(|page| &page.uses) {
        let interval = usize::from(used.interval).min(intervals - 1);
        counts[interval * nodes + usize::from(used.node)] += u64::from(used.count);
    }
    let word = |counts: &[u64]| {
        let most = counts.iter().copied().max().filter(|&most| most > 0);
        let Some(node) = most.and_then(|most| counts.iter().position(|&count| count == most)) else {
            return ".".to_owned();
        };
        let several = counts.iter().filter(|&&count| count > 0).count() > 1;
        format!("{node}{}", if several { "+" } else { "" })
    };
    (0..intervals).map(|at| word(&counts[at * nodes..][..nodes])).collect()
}

/// Words, each with how often it comes in a row.
fn folded<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let mut runs: Vec<(&str, usize)> = Vec::new();
    for word in words {
        match runs.last_mut() {
            Some((last, times)) if *last == word => *times += 1,
            _ => runs.push((word, 1)),
        }
    }
    let text = |(word, times): (&str, usize)| match times {
        1 => word.to_owned(),
        times => format!("{word}x{times}"),
    };
    runs.into_iter().map(text).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
#[path = "timeline/tests.rs"]
mod tests;
