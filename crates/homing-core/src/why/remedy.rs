//! What can be done about an area, and what the model predicts of exactly that.

use super::area::Area;
use super::facts::PageFacts;
use super::traffic::Traffic;
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
    fn candidates(area: &Area, migrated: Option<f64>) -> Vec<Remedy> {
        let mut all = vec![Remedy::InitialiseByUser, Remedy::Spread];
        let (node, share) = Area::most(&area.best);
        // Where one node is best for nearly all pages, binding says that in one line.
        if share > MOSTLY {
            all.insert(0, Remedy::Bind(node as u16));
        }
        if area.share_of(SharingClass::ReadShared) > MOSTLY {
            all.push(Remedy::Replicate);
        }
        all.extend(migrated.map(|_| Remedy::Migrate));
        all
    }

    /// Where a page is under the remedy; `None` where that changes, or there are several copies.
    pub fn home(self, page: &PageFacts) -> Option<Node> {
        match self {
            Remedy::InitialiseByUser => Some(page.best),
            Remedy::Spread => Some(page.spread),
            Remedy::Bind(node) => Some(Node(node)),
            Remedy::Replicate | Remedy::Migrate => None,
        }
    }

    /// What of an area's cost with it is not for references: pages have more than one place, and are copied.
    pub(super) fn copies(self, area: &Area, cost: f64) -> f64 {
        match self {
            Remedy::Replicate | Remedy::Migrate => (cost - area.costs.local).max(0.0),
            _ => 0.0,
        }
    }

    /// What an area costs with it.
    fn cost(self, model: &Model<'_>, area: &Area, facts: &[PageFacts], migrated: Option<f64>) -> f64 {
        match self {
            Remedy::InitialiseByUser => area.costs.at_best,
            Remedy::Spread => area.costs.at_spread,
            Remedy::Bind(node) => {
                area.pages.iter().map(|&page| facts[page].cost_at(model.costs, Node(node))).sum()
            }
            Remedy::Replicate => area.costs.replicated,
            Remedy::Migrate => migrated.unwrap_or(area.costs.here),
        }
    }
}

/// A share that stands for nearly all.
pub(super) const MOSTLY: f64 = 0.9;

/// A remedy must save this share of the program's time, or of its memory cost where times are not known.
const WORTH: f64 = 0.005;
/// A remedy that needs more than a placement must be better than placements by this share.
const BETTER: f64 = 0.1;

/// The best remedy for an area, given where everything else is; none if none pays. `migrated`: what the area costs if
/// pages follow their users.
pub(super) fn best(
    model: &Model<'_>,
    area: &Area,
    facts: &[PageFacts],
    traffic: &Traffic,
    migrated: Option<f64>,
) -> Option<Prediction> {
    let before = model.elapsed(traffic).map(|elapsed| elapsed.total_ns);
    let predict = |remedy: Remedy| {
        let cost = remedy.cost(model, area, facts, migrated);
        let time = before.map(|before| {
            let moved = traffic.with(facts, &area.pages, |page| remedy.home(page));
            let copies = model.quiet_ns(remedy.copies(area, cost));
            model.elapsed(&moved).map_or(1.0, |after| (after.total_ns + copies) / before)
        });
        Prediction { remedy, cost, time }
    };
    let saved = |prediction: &Prediction| match prediction.time {
        Some(time) => 1.0 - time,
        None => (area.costs.here - prediction.cost) / model.memory_cost.max(1.0),
    };
    let all: Vec<Prediction> = Remedy::candidates(area, migrated).into_iter().map(predict).collect();
    let mut best: Option<Prediction> = None;
    for prediction in all {
        // Simpler remedies come first, and placements before what needs more.
        let margin = match prediction.remedy {
            Remedy::Replicate | Remedy::Migrate => BETTER,
            _ => 0.01,
        };
        let beats = |best: &Prediction| saved(&prediction) > saved(best) * (1.0 + margin);
        if saved(&prediction) > WORTH && best.as_ref().is_none_or(beats) {
            best = Some(prediction);
        }
    }
    best
}
