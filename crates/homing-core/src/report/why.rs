//! The diagnosis as data: what `homing why --json` prints, and what its text, its page and `homing diff` read
//! (docs/why.md has the fields). Nothing else is shown, so that all of them say the same.

mod lineless;
mod words;

pub(super) use words::{capital, things};
pub use words::{percent, range};

use super::advice::{self, Snippet, Target};
use super::process::{self, ProcessFinding, SampledReport};
use super::timeline::{AreaTimeline, Timelines};
use super::{MachineInfo, Parameter, TraceInfo};
use crate::sharing::SharingClass;
use crate::time::Elapsed;
use crate::why::area::{Area, AreaLines};
use crate::why::doubt::Doubt;
use crate::why::remedy::{Prediction, Remedy};
use crate::why::traffic::Traffic;
use crate::why::verdict::Cause;
use crate::why::{Diagnosis, Finding, Gain};
use crate::windows::Still;
use serde::{Deserialize, Serialize};

/// Version of the fields below; raised when one changes meaning or goes away.
pub const SCHEMA: u32 = 1;

/// The whole answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct WhyReport {
    /// Version of this schema ([`SCHEMA`]).
    pub schema: u32,
    /// Program and version that wrote it, such as `homing 0.1.0`.
    pub generator: String,
    /// What is wrong.
    pub verdict: Cause,
    /// ... in a few words.
    pub words: String,
    /// ... in a sentence, with how much there is to gain.
    pub sentence: String,
    /// What the numbers rest on, in a sentence.
    pub basis: String,
    /// What the remedies bring, as shares of what `gain_is_of` says.
    pub gain: Gain,
    /// The most that any placement could bring, as such a share.
    pub at_most: f64,
    /// `modelled time`, or `modelled cost of memory references` where the machine model has no times.
    pub gain_is_of: String,
    /// References went through the machine's caches first.
    pub behind_caches: bool,
    /// A page may have several copies without a remedy that makes them.
    pub replication: bool,
    /// How threads were bound to CPUs, as `--threads-on` takes it.
    pub threads_on: String,
    /// Nodes that threads run on.
    pub nodes_in_use: u64,
    /// How references were sampled; absent for a trace, which has all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampled: Option<SampledReport>,
    /// Which threads work, and the nodes that they reach; absent for samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy: Option<Working>,
    /// Why there is no verdict, if there is none: the verdict is `not-known`, and all else is of what was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<Doubt>,
    /// What only a running process shows, in the order of judging; the first is the verdict.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub process: Vec<ProcessFinding>,
    /// The machine that was modelled.
    pub machine: MachineInfo,
    /// The trace.
    pub trace: TraceInfo,
    /// Every parameter, with defaults.
    pub parameters: Vec<Parameter>,
    /// What all references cost, in local references.
    pub cost: WhyCost,
    /// Modelled times, where they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed: Option<WhyTimes>,
    /// Who fetches from whom.
    pub traffic: WhyTraffic,
    /// What one remedy for all pages alike would bring: those that were modelled, whether they pay or not.
    pub one_remedy_for_all: Vec<RemedyReport>,
    /// The areas, by falling avoidable cost.
    pub areas: Vec<AreaReport>,
    /// Areas that no remedy was tried for: the last ones, and those that come together in `other`.
    pub areas_untried: u64,
    /// What holds for the timelines of areas; absent for samples, which have no order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timelines: Option<Timelines>,
    /// What phases and threads have to do with it, if that was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares: Option<Shares>,
    /// What of it is estimated for the whole program, where the trace is of windows of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<Still>,
    /// What else a reader must know.
    pub notes: Vec<String>,
}

/// What phases and threads have to do with what can be avoided.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Shares {
    /// By phase, in the order in which they first began.
    pub by_phase: Vec<Share>,
    /// By thread; threads on one CPU come together.
    pub by_thread: Vec<Share>,
}

/// That of one of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Share {
    /// The phase, or the numbers of the threads.
    pub name: String,
    /// References; behind caches: those that reach memory.
    pub references: u64,
    /// 100 * references to other nodes' memory / references.
    pub nonlocal_percent: f64,
    /// 100 * its part of the avoidable cost / all of it.
    pub avoidable_percent: f64,
}

/// Costs of all references, in local references.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct WhyCost {
    /// As pages are.
    pub now: f64,
    /// With the remedies of all areas.
    pub with_remedies: f64,
    /// With the best start and the cheapest moves: no placement of one copy a page does better.
    pub bound: f64,
}

/// Modelled times of the program.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct WhyTimes {
    /// As pages are.
    pub now: WhyTime,
    /// With the remedies of all areas.
    pub with_remedies: WhyTime,
}

/// A modelled time.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct WhyTime {
    /// All of it.
    pub seconds: f64,
    /// Waiting for memories and links that others use.
    pub contention_seconds: f64,
}

/// Who fetches from whom.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct WhyTraffic {
    /// As pages are.
    pub now: TrafficReport,
    /// With the remedies of all areas.
    pub with_remedies: TrafficReport,
}

/// References from nodes to memories.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct TrafficReport {
    /// `by_node[i][m]`: references by CPUs of node i to the memory of node m.
    pub by_node: Vec<Vec<u64>>,
    /// 100 * references to other nodes' memory / references.
    pub nonlocal_percent: f64,
    /// What the busiest memory serves over what the mean one serves.
    pub imbalance: f64,
}

/// A remedy and what the model predicts of exactly that.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct RemedyReport {
    /// What to do.
    pub remedy: Remedy,
    /// What the pages that it is for cost with it, in local references.
    pub cost: f64,
    /// The share that it saves of what `gain_is_of` says; below 0 it adds.
    pub saves: f64,
    /// The program's modelled time with it over that without, where times are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_ratio: Option<f64>,
    /// The remedy, ready to paste.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paste: Vec<Snippet>,
}

/// Lines of an area that travel between nodes, as far as they were watched.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct LinesReport {
    /// Times a line travelled although nothing in it that the node asked for was new.
    pub falsely: u64,
    /// Times a line travelled with something new.
    pub truly: u64,
    /// The lines that travel most, most first.
    pub worst: Vec<LineReport>,
}

/// A line that travels between nodes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct LineReport {
    /// Bytes from the area's first page to the line.
    pub offset: u64,
    /// Nodes that use it.
    pub nodes: u32,
    /// Times it travelled with nothing new.
    pub falsely: u64,
    /// Times it travelled with something new.
    pub truly: u64,
}

/// References of one sharing class.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct ClassReferences {
    /// `private`, `read-shared`, `migratory`, `producer-consumer` or `write-shared`.
    pub class: String,
    /// References to pages of that class.
    pub references: u64,
}

/// What an area's references cost, in local references.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct AreaCost {
    /// As pages are.
    pub now: f64,
    /// Each page at its best node.
    pub best_static: f64,
    /// Pages spread over all nodes.
    pub spread: f64,
    /// With the best start and the cheapest moves.
    pub bound: f64,
    /// The least of that and of what laying its data out anew could bring.
    pub least: f64,
}

/// An area of data with what is wrong with it. Columns by node are indexed by node.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct AreaReport {
    /// Its name; absent for pages of which nothing is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Of an allocation: the call stack that allocated most of it, the innermost frame first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stack: Vec<String>,
    /// Areas of libraries and of the loader that come together in this one; 0 for all but `other`.
    #[serde(default)]
    pub areas_folded: u64,
    /// Its pages.
    pub pages: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// References.
    pub references: u64,
    /// Writes among them.
    pub writes: u64,
    /// References by the node that makes them.
    pub references_by_node: Vec<u64>,
    /// Pages by the node that first touched them.
    pub pages_made_by_node: Vec<u64>,
    /// Pages by the node where they are.
    pub pages_on_node: Vec<u64>,
    /// Pages by the node where they cost least.
    pub pages_best_on_node: Vec<u64>,
    /// `falsely-shared` if most of its references are to pages whose lines belong to one node each; else the sharing
    /// class that has most of its references.
    pub class: String,
    /// 100 * references to pages that are falsely shared / references.
    #[serde(default)]
    pub falsely_shared_percent: f64,
    /// References by sharing class.
    pub sharing: Vec<ClassReferences>,
    /// What its lines do, if several nodes write it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<LinesReport>,
    /// What its references cost.
    pub cost: AreaCost,
    /// 100 * what it costs beyond its bound / that of all areas.
    pub avoidable_percent: f64,
    /// What is wrong with it, if a remedy pays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// The remedy, if one pays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<RemedyReport>,
    /// Who uses its pages when, if it is among the areas with most to avoid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<AreaTimeline>,
}

/// What a diagnosis was made of.
pub struct Basis {
    /// Program and version.
    pub generator: String,
    /// References went through caches.
    pub behind_caches: bool,
    /// Pages may have several copies.
    pub replication: bool,
    /// How threads were bound.
    pub threads_on: String,
    /// Nodes that threads run on.
    pub nodes_in_use: u64,
    /// The machine.
    pub machine: MachineInfo,
    /// The trace.
    pub trace: TraceInfo,
    /// What phases and threads have to do with it, if that was asked.
    pub shares: Option<Shares>,
    /// How references were sampled, if they were.
    pub sampled: Option<SampledReport>,
    /// What only a running process shows.
    pub process: Vec<ProcessFinding>,
    /// CPUs of node 0, as lists have them: `0-7`.
    pub cpus_of_node_0: String,
    /// Every parameter.
    pub parameters: Vec<Parameter>,
    /// What else a reader must know.
    pub notes: Vec<String>,
    /// Which threads work; not known of samples.
    pub busy: Option<Working>,
    /// Why there is no verdict, if there is none.
    pub doubt: Option<Doubt>,
}

/// The threads that work, and the nodes that they reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Working {
    /// Threads that are busy at some time ([`crate::history::Busy`]).
    pub threads: u64,
    /// Whether one of them makes nearly all references.
    pub alone: bool,
    /// Nodes that they run on.
    pub reached: u64,
    /// Nodes of the machine that have CPUs.
    pub nodes: u64,
}

impl WhyReport {
    /// The report of a diagnosis.
    pub fn new(found: &Diagnosis, basis: Basis) -> WhyReport {
        let now = found.costs[0];
        let target = Target {
            nodes: (0..found.before.rows().len()).map(|node| basis.machine.node_id(node)).collect(),
            cpus_of_node_0: basis.cpus_of_node_0.clone(),
            page_bytes: basis.machine.page_size,
        };
        let areas: Vec<AreaReport> =
            found.findings.iter().map(|finding| area(finding, &target, now)).collect();
        let lineless = lineless::note(&areas);
        let for_all = |prediction| {
            let mut remedy = remedy(prediction, now, now);
            if remedy.saves > 0.0 {
                remedy.paste = advice::for_all(remedy.remedy, &target);
            }
            remedy
        };
        let time =
            |(now, then): &(Elapsed, Elapsed)| WhyTimes { now: now.into(), with_remedies: then.into() };
        let of_data = if basis.doubt.is_some() { Cause::NotKnown } else { found.cause };
        let verdict = basis.process.first().map_or(of_data, |first| first.cause);
        WhyReport {
            schema: SCHEMA,
            verdict,
            words: verdict.words().into(),
            sentence: process::sentence(&basis.process, of_data, words::sentence(found, &basis, &target)),
            basis: words::rests_on(found, &basis),
            gain: found.gain,
            at_most: found.at_most,
            gain_is_of: if found.timed { "modelled time" } else { "modelled cost of memory references" }
                .into(),
            cost: WhyCost { now, with_remedies: found.costs[1], bound: found.costs[2] },
            elapsed: found.elapsed.as_ref().map(time),
            traffic: WhyTraffic { now: (&found.before).into(), with_remedies: (&found.after).into() },
            one_remedy_for_all: found.for_all.iter().map(for_all).collect(),
            areas,
            areas_untried: (found.untried + found.folded) as u64,
            timelines: None,
            generator: basis.generator,
            behind_caches: basis.behind_caches,
            replication: basis.replication,
            threads_on: basis.threads_on,
            sampled: basis.sampled,
            process: basis.process,
            nodes_in_use: basis.nodes_in_use,
            busy: basis.busy,
            doubt: basis.doubt,
            machine: basis.machine,
            trace: basis.trace,
            parameters: basis.parameters,
            shares: basis.shares,
            program: None,
            notes: basis.notes.into_iter().chain(words::untried(found)).chain(lineless).collect(),
        }
    }

    /// With what windows say of the whole program, also in words.
    pub fn with_program(mut self, program: Option<Still>) -> WhyReport {
        self.basis.extend(program.as_ref().map(words::of_program));
        self.program = program;
        self
    }

    /// What gains are shares of, in a sentence.
    pub fn of(&self) -> &'static str {
        words::of(self.elapsed.is_some())
    }
}

impl From<&Elapsed> for WhyTime {
    fn from(elapsed: &Elapsed) -> WhyTime {
        WhyTime { seconds: elapsed.total_ns / 1e9, contention_seconds: elapsed.contention_ns / 1e9 }
    }
}

impl From<&Traffic> for TrafficReport {
    fn from(traffic: &Traffic) -> TrafficReport {
        TrafficReport {
            by_node: traffic.rows(),
            nonlocal_percent: traffic.nonlocal_percent(),
            imbalance: traffic.imbalance(),
        }
    }
}

/// `here`: what its pages cost as they are; `all`: what all pages cost.
fn remedy(prediction: &Prediction, here: f64, all: f64) -> RemedyReport {
    let saves = match prediction.time {
        Some(time) => 1.0 - time,
        None => (here - prediction.cost) / all.max(1.0),
    };
    let Prediction { remedy, cost, time: time_ratio } = *prediction;
    RemedyReport { remedy, cost, saves, time_ratio, paste: Vec::new() }
}

fn lines(area: &Area, lines: &AreaLines) -> LinesReport {
    let worst = lines.travelling.iter().map(|&(page, line)| LineReport {
        offset: page - area.address + u64::from(line.offset),
        nodes: line.nodes,
        falsely: line.falsely,
        truly: line.truly,
    });
    LinesReport { falsely: lines.falsely, truly: lines.truly, worst: worst.collect() }
}

fn area(finding: &Finding, target: &Target, all: f64) -> AreaReport {
    let area = &finding.area;
    let sharing = SharingClass::ALL.iter().zip(area.classes);
    let class = |(class, references): (&SharingClass, u64)| ClassReferences {
        class: class.name().into(),
        references,
    };
    let class_of_all = if area.is_falsely_shared() { "falsely-shared" } else { area.class().name() };
    let mut report = AreaReport {
        name: area.name.clone(),
        stack: area.stack.clone(),
        areas_folded: area.folded as u64,
        pages: area.page_count,
        bytes: area.bytes,
        references: area.references(),
        writes: area.writes,
        references_by_node: area.by_node.clone(),
        pages_made_by_node: area.made_by.clone(),
        pages_on_node: area.homes.clone(),
        pages_best_on_node: area.best.clone(),
        class: class_of_all.into(),
        falsely_shared_percent: 100.0 * area.falsely_shared as f64 / (area.references() as f64).max(1.0),
        lines: area.lines.as_ref().map(|found| lines(area, found)),
        sharing: sharing.map(class).collect(),
        cost: AreaCost {
            now: area.costs.here,
            best_static: area.costs.at_best,
            spread: area.costs.at_spread,
            bound: area.costs.bound,
            least: area.least(),
        },
        avoidable_percent: finding.avoidable_percent,
        cause: finding.cause,
        remedy: finding.remedy.as_ref().map(|prediction| remedy(prediction, area.costs.here, all)),
        timeline: None,
    };
    if let Some(mut remedy) = report.remedy.take() {
        remedy.paste = advice::for_area(remedy.remedy, &report, target);
        report.remedy = Some(remedy);
    }
    report
}
