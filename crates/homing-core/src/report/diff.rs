//! Two diagnoses beside each other as data: what `homing diff` prints and its page shows.
//!
//! Areas are joined by name. Names carry the lines of call sites, which shift when a source is edited: what has no
//! namesake is joined by the same functions and files, the nearest lines first.

mod join;
#[cfg(test)]
mod tests;

use super::why::{AreaReport, WhyReport};
use super::{MachineInfo, TraceInfo};
use crate::why::remedy::Remedy;
use crate::why::verdict::Cause;
use serde::{Deserialize, Serialize};

/// Version of the fields below; raised when one changes meaning or goes away.
pub const SCHEMA: u32 = 1;

/// What changed from one diagnosis to another.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct WhyDiff {
    /// Version of this schema ([`SCHEMA`]).
    pub schema: u32,
    /// Program and version that wrote it.
    pub generator: String,
    /// What changed, in a sentence.
    pub sentence: String,
    /// What the two do not have in common besides the program's change: machine, threads, caches, references.
    pub differs: Vec<String>,
    /// The first diagnosis.
    pub before: DiffSide,
    /// The second.
    pub after: DiffSide,
    /// Modelled seconds, where both have them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<Change>,
    /// Modelled seconds of waiting for memories and links that others use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contention_seconds: Option<Change>,
    /// What all references cost, in local references.
    pub cost: Change,
    /// ... beyond the bound.
    pub avoidable_cost: Change,
    /// 100 * references to other nodes' memory / references.
    pub nonlocal_percent: Change,
    /// What the busiest memory serves over what the mean one serves.
    pub imbalance: Change,
    /// How areas were joined.
    pub joined: Joined,
    /// The areas, by falling change of what their references cost.
    pub areas: Vec<AreaChange>,
}

/// A figure before and after.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Change {
    /// In the first diagnosis.
    pub before: f64,
    /// In the second.
    pub after: f64,
}

/// What is said of one of the two diagnoses.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct DiffSide {
    /// What is wrong.
    pub verdict: Cause,
    /// ... in a few words.
    pub words: String,
    /// ... in a sentence.
    pub sentence: String,
    /// What its numbers rest on.
    pub basis: String,
    /// The most that any placement could bring, as a share of what `gain_is_of` says.
    pub at_most: f64,
    /// `modelled time`, or `modelled cost of memory references`.
    pub gain_is_of: String,
    /// The trace.
    pub trace: TraceInfo,
    /// The machine.
    pub machine: MachineInfo,
}

/// How areas were joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Joined {
    /// Pairs of the same name.
    pub by_name: u64,
    /// Pairs of the same functions and files at other lines.
    pub by_function: u64,
    /// Areas of the first diagnosis alone.
    pub only_before: u64,
    /// Areas of the second alone.
    pub only_after: u64,
}

/// An area in both diagnoses, or in one.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct AreaChange {
    /// Its name, the later one if lines differ; absent for pages of which nothing is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its name in the first diagnosis, where that is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_before: Option<String>,
    /// In the first diagnosis; absent for a new area.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<AreaSide>,
    /// In the second; absent for one that went away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<AreaSide>,
    /// What its references cost afterwards less what they cost before, in local references.
    pub change: f64,
}

/// What is said of an area in one diagnosis.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct AreaSide {
    /// Bytes of its pages.
    pub bytes: u64,
    /// References.
    pub references: u64,
    /// What these cost, in local references.
    pub cost: f64,
    /// ... beyond the bound.
    pub avoidable_cost: f64,
    /// What is wrong with it, if a remedy pays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// The remedy, if one pays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<Remedy>,
}

impl WhyDiff {
    /// What changed from `before` to `after`. `generator`: program and version.
    pub fn new(before: &WhyReport, after: &WhyReport, generator: &str) -> WhyDiff {
        let pairs = join::join(&before.areas, &after.areas);
        let mut areas: Vec<AreaChange> = pairs.iter().map(area).collect();
        areas.sort_by(|a, b| b.change.abs().total_cmp(&a.change.abs()).then_with(|| a.name.cmp(&b.name)));
        let change = |of: fn(&WhyReport) -> f64| Change { before: of(before), after: of(after) };
        let times = before.elapsed.zip(after.elapsed);
        WhyDiff {
            schema: SCHEMA,
            generator: generator.into(),
            sentence: sentence(before, after),
            differs: differs(before, after),
            before: side(before),
            after: side(after),
            seconds: times.map(|(a, b)| Change { before: a.now.seconds, after: b.now.seconds }),
            contention_seconds: times
                .map(|(a, b)| Change { before: a.now.contention_seconds, after: b.now.contention_seconds }),
            cost: change(|report| report.cost.now),
            avoidable_cost: change(|report| (report.cost.now - report.cost.bound).max(0.0)),
            nonlocal_percent: change(|report| report.traffic.now.nonlocal_percent),
            imbalance: change(|report| report.traffic.now.imbalance),
            joined: join::count(&pairs),
            areas,
        }
    }
}

impl Change {
    /// (after - before) / before, with its sign; 0 where both are 0, none where only the first is.
    pub fn share(self) -> Option<f64> {
        match self.before {
            0.0 => (self.after == 0.0).then_some(0.0),
            before => Some((self.after - before) / before),
        }
    }
}

fn side(report: &WhyReport) -> DiffSide {
    DiffSide {
        verdict: report.verdict,
        words: report.words.clone(),
        sentence: report.sentence.clone(),
        basis: report.basis.clone(),
        at_most: report.at_most,
        gain_is_of: report.gain_is_of.clone(),
        trace: report.trace.clone(),
        machine: report.machine.clone(),
    }
}

fn area(&(before, after): &join::Pair<'_>) -> AreaChange {
    let cost = |area: Option<&AreaReport>| area.map_or(0.0, |area| area.cost.now);
    let name = |area: Option<&AreaReport>| area.and_then(|area| area.name.clone());
    AreaChange {
        name: name(after.or(before)),
        name_before: name(before).filter(|name| after.is_some_and(|after| after.name.as_ref() != Some(name))),
        before: before.map(area_side),
        after: after.map(area_side),
        change: cost(after) - cost(before),
    }
}

fn area_side(area: &AreaReport) -> AreaSide {
    AreaSide {
        bytes: area.bytes,
        references: area.references,
        cost: area.cost.now,
        avoidable_cost: (area.cost.now - area.cost.bound).max(0.0),
        cause: area.cause,
        remedy: area.remedy.as_ref().map(|given| given.remedy),
    }
}

/// What changed, in a sentence.
fn sentence(before: &WhyReport, after: &WhyReport) -> String {
    let verdict = match before.verdict == after.verdict {
        true => format!("Still {}", after.words),
        false => format!("{} before, {} now", capital(&before.words), after.words),
    };
    let (what, change) = match before.elapsed.zip(after.elapsed) {
        Some((a, b)) => ("time", Change { before: a.now.seconds, after: b.now.seconds }),
        None => ("cost of memory references", Change { before: before.cost.now, after: after.cost.now }),
    };
    let much = match change.share() {
        Some(share) if share.abs() < 5e-4 => format!("the modelled {what} is the same"),
        Some(share) => {
            let more = if share < 0.0 { "less" } else { "more" };
            format!("the modelled {what} is {} {more}", super::why::percent(share.abs()))
        }
        None => format!("the modelled {what} was none before"),
    };
    format!("{verdict}; {much}.")
}

/// Something that both should have in common, in words.
type Fact = (&'static str, fn(&WhyReport) -> String);

/// What the two do not have in common besides the program's change.
fn differs(before: &WhyReport, after: &WhyReport) -> Vec<String> {
    let facts: [Fact; 7] = [
        ("machine", |report| report.machine.name.clone()),
        ("page size", |report| report.machine.page_size.to_string()),
        ("threads", |report| report.trace.threads.to_string()),
        ("threads run on", |report| report.threads_on.clone()),
        ("nodes in use", |report| report.nodes_in_use.to_string()),
        ("references", |report| if report.behind_caches { "behind caches" } else { "all, no caches" }.into()),
        ("copies", |report| if report.replication { "several a page" } else { "one a page" }.into()),
    ];
    let other = |(what, fact): Fact| {
        let (a, b) = (fact(before), fact(after));
        (a != b).then(|| format!("{what}: {a} before, {b} after"))
    };
    let mut all: Vec<String> = facts.into_iter().filter_map(other).collect();
    if before.machine.name == after.machine.name && !same_costs(&before.machine, &after.machine) {
        all.insert(0, format!("machine: {} with other costs or memories", after.machine.name));
    }
    all
}

fn same_costs(a: &MachineInfo, b: &MachineInfo) -> bool {
    let other_pages = a.page_size != b.page_size;
    a.memories == b.memories
        && a.global_node == b.global_node
        && (a.remote, a.global) == (b.remote, b.global)
        && a.access == b.access
        // What a move costs depends on the page size, which is told by itself.
        && (other_pages || ((a.page_move, a.global_page_move) == (b.page_move, b.global_page_move) && a.copy == b.copy))
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}
