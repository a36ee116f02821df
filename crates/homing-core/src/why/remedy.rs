//! What can be done about an area, and what the model predicts of exactly that.

use super::area::{Area, AreaLines};
use super::facts::PageFacts;
use super::lines::{CpuLines, Ended};
use super::small::Placing;
use super::traffic::{Flow, Traffic};
use super::Model;
use crate::ids::Node;
use crate::sharing::SharingClass;
use serde::{Deserialize, Serialize};

/// Something to do about an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(test, derive(ts_rs::TS))]
pub enum Remedy {
    /// Let each thread initialise what it will use: first touch then places every page at its best node.
    InitialiseByUser,
    /// Spread the pages over all nodes.
    Spread,
    /// Keep all pages on one node.
    Bind(u16),
    /// A copy for each node, made by the program.
    Replicate,
    /// Let pages follow their users while the program runs.
    Migrate,
    /// Let each thread go on with the data that it began with.
    SameThread,
    /// Small pages in place of huge ones, put so.
    SmallPages(Placing),
    /// Give each thread's part pages of its own.
    SeparatePages,
    /// Give each thread's part lines of its own.
    PadLines,
    /// Split what is in a few lines into a part for each thread or node, or use it less often.
    SplitLines,
    /// Run all threads on one node, with its memory.
    OneNode,
}

/// A remedy, and what it does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// The remedy.
    pub remedy: Remedy,
    /// What the area costs with it, in local references.
    pub cost: f64,
    /// The program's modelled time with this remedy alone over that without, if times are known.
    pub time: Option<f64>,
}

impl Remedy {
    /// What can be tried for an area.
    fn candidates(area: &Area, behind_caches: bool) -> Vec<Remedy> {
        let mut all = vec![Remedy::InitialiseByUser, Remedy::Spread];
        let (node, share) = Area::most(&area.best);
        // Where one node is best for nearly all pages, binding says that in one line.
        if share > MOSTLY {
            all.insert(0, Remedy::Bind(node as u16));
        }
        if area.small.is_some() {
            all.extend([Placing::AsNow, Placing::ByUser, Placing::Spread].map(Remedy::SmallPages));
        }
        if area.share_of(SharingClass::ReadShared) > MOSTLY {
            all.push(Remedy::Replicate);
        }
        if let Some(lines) = &area.lines {
            if lines.falsely > 0 && behind_caches {
                all.push(Remedy::PadLines);
            }
            if area.is_falsely_shared() {
                all.push(Remedy::SeparatePages);
            }
            if lines.are_contended() && behind_caches {
                all.push(Remedy::SplitLines);
            }
        }
        all.extend(area.migrated.map(|_| Remedy::Migrate));
        if area.is_used_in_turn() {
            all.push(Remedy::SameThread);
        }
        let follows = area.small.and_then(|small| small.migrated);
        all.extend(follows.map(|_| Remedy::SmallPages(Placing::Follow)));
        all
    }

    /// Where the references of a node to a page go under the remedy; under small pages: to one of these.
    pub(super) fn flow(self, page: &PageFacts, by: usize) -> Flow {
        match self {
            // Who initialises it then is its best node.
            Remedy::InitialiseByUser => Flow { local: page.making_share(by), ..Flow::to(page.best) },
            Remedy::Spread => Flow::to(page.spread),
            Remedy::Bind(node) => Flow::to(Node(node)),
            Remedy::SmallPages(placing) => {
                placing.remedy().map_or(Flow::to(page.home), |remedy| remedy.flow(page, by))
            }
            Remedy::Replicate | Remedy::OneNode | Remedy::SameThread => Flow::to(Node(by as u16)),
            Remedy::Migrate => page.costing(page.migrated.unwrap_or(page.costs.here)),
            // Parts on pages of their own share no lines either.
            Remedy::SeparatePages => {
                let gone = page.travels(by, false);
                Flow { local: page.separable(by).min(1.0 - gone), gone, home: page.best }
            }
            Remedy::PadLines => Flow { gone: page.travels(by, false), ..Flow::to(page.home) },
            Remedy::SplitLines => Flow { gone: page.travels(by, true), ..Flow::to(page.home) },
        }
    }

    /// Misses of each CPU's caches that are no more under the remedy, for references to a page; none where its lines
    /// are not known.
    pub(super) fn ended(self, page: &PageFacts) -> Vec<Ended> {
        let cpus = page.lines.iter().flat_map(|lines| &lines.cpus);
        match self {
            Remedy::SeparatePages | Remedy::PadLines => cpus.map(|cpu| cpu.falsely).collect(),
            Remedy::SplitLines => {
                let both = |cpu: &CpuLines| {
                    let mut all = cpu.falsely;
                    all += cpu.truly;
                    all
                };
                cpus.map(both).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Whether the program's source must change for it in more than where memory is allocated or first written.
    fn is_demanding(self) -> bool {
        let places = matches!(self, Remedy::InitialiseByUser | Remedy::Spread | Remedy::Bind(_));
        !places && !matches!(self, Remedy::SmallPages(placing) if placing != Placing::Follow)
    }

    /// Whether its effect is known. How far contended lines can be split is not, nor how much of its data a thread can
    /// keep: at the least not at all.
    pub(super) fn is_sure(self) -> bool {
        !matches!(self, Remedy::SplitLines | Remedy::SameThread)
    }

    /// What an area costs with it.
    pub(super) fn cost(self, model: &Model<'_>, area: &Area, facts: &[PageFacts]) -> f64 {
        let lines = |cost: fn(&AreaLines) -> f64| area.lines.as_ref().map_or(area.costs.here, cost);
        match self {
            Remedy::InitialiseByUser => area.costs.made_at_best,
            Remedy::Spread => area.costs.at_spread,
            Remedy::Bind(node) => {
                area.pages.iter().map(|&page| facts[page].cost_at(model.costs, Node(node))).sum()
            }
            Remedy::Replicate => area.costs.replicated,
            Remedy::Migrate => area.migrated.unwrap_or(area.costs.here),
            Remedy::SmallPages(placing) => area.small.map_or(area.costs.here, |small| small.cost(placing)),
            Remedy::SeparatePages => lines(|lines| lines.separated),
            Remedy::PadLines => lines(|lines| lines.padded),
            Remedy::SplitLines => lines(|lines| lines.split),
            Remedy::OneNode | Remedy::SameThread => area.costs.local,
        }
    }
}

/// A share that stands for nearly all.
pub(super) const MOSTLY: f64 = 0.9;

/// A remedy must save this share of the program's time, or of its memory cost where times are not known.
const WORTH: f64 = 0.005;
/// A remedy that needs more than a placement must be better than placements by this share.
const BETTER: f64 = 0.1;

/// The best remedy for an area, given where everything else is; none if none pays.
pub(super) fn best(
    model: &Model<'_>,
    area: &Area,
    facts: &[PageFacts],
    traffic: &Traffic,
) -> Option<Prediction> {
    let before = model.elapsed(traffic).map(|elapsed| elapsed.total_ns);
    let predict = |remedy: Remedy| {
        let cost = remedy.cost(model, area, facts);
        let time = before.map(|before| {
            let moved = traffic.with(facts, &area.pages, remedy);
            model.elapsed(&moved).map_or(1.0, |after| after.total_ns / before)
        });
        Prediction { remedy, cost, time }
    };
    let saved = |prediction: &Prediction| match prediction.time {
        Some(time) => 1.0 - time,
        None => (area.costs.here - prediction.cost) / model.memory_cost.max(1.0),
    };
    let all: Vec<Prediction> =
        Remedy::candidates(area, model.behind_caches).into_iter().map(predict).collect();
    let mut best: Option<Prediction> = None;
    for prediction in all {
        // Simpler remedies come first, and placements before what needs more.
        let margin = if prediction.remedy.is_demanding() { BETTER } else { 0.01 };
        let beats = |best: &Prediction| saved(&prediction) > saved(best) * (1.0 + margin);
        if saved(&prediction) > WORTH && best.as_ref().is_none_or(beats) {
            best = Some(prediction);
        }
    }
    best
}
