//! Huge pages against small ones. A huge page is on one node, though several nodes may each use small pages of it. What
//! it would cost in small pages is simulated: the facts of these are kept with it ([`PageFacts::small`]).

use super::facts::{PageFacts, Placed};
use super::remedy::Remedy;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Where small pages are put in place of huge ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(test, derive(ts_rs::TS))]
pub enum Placing {
    /// As huge pages are placed now: where they are first touched, unless the user said otherwise.
    AsNow,
    /// Each made by its best node.
    ByUser,
    /// Spread over all nodes.
    Spread,
    /// They follow their users.
    Follow,
}

impl Placing {
    /// The remedy that places pages so; none if they are placed as now.
    pub fn remedy(self) -> Option<Remedy> {
        match self {
            Placing::AsNow => None,
            Placing::ByUser => Some(Remedy::InitialiseByUser),
            Placing::Spread => Some(Remedy::Spread),
            Placing::Follow => Some(Remedy::Migrate),
        }
    }
}

/// What the pages of an area cost in small pages.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Small {
    /// Under several placements.
    pub costs: Placed,
    /// If they follow their users, if that was simulated.
    pub migrated: Option<f64>,
}

impl Small {
    /// That of these pages; nothing if none of them is known in small pages. Those that are not stay as they are.
    pub(super) fn of<'a>(pages: impl Iterator<Item = &'a PageFacts>) -> Option<Small> {
        let (mut sum, mut migrated, mut any) = (Placed::default(), Some(0.0), false);
        for page in pages {
            any |= !page.small.is_empty();
            for part in page.parts() {
                sum += part.costs;
                migrated = migrated.zip(part.migrated).map(|(sum, cost)| sum + cost);
            }
        }
        any.then_some(Small { costs: sum, migrated })
    }

    /// What the pages cost with the remedy of a placing.
    pub(super) fn cost(&self, placing: Placing) -> f64 {
        match placing {
            Placing::AsNow => self.costs.here,
            Placing::ByUser => self.costs.made_at_best,
            Placing::Spread => self.costs.at_spread,
            Placing::Follow => self.migrated.unwrap_or(self.costs.here),
        }
    }
}

impl PageFacts {
    /// The small pages that it would be in; itself where these are not known.
    pub(super) fn parts(&self) -> &[PageFacts] {
        match self.small.is_empty() {
            true => std::slice::from_ref(self),
            false => &self.small,
        }
    }

    /// The least that it costs as it is or in small pages, with the best start and the cheapest moves.
    pub(super) fn least(&self) -> f64 {
        let least = |page: &PageFacts| page.costs.bound.min(page.costs.made_at_best);
        least(self).min(self.parts().iter().map(least).sum())
    }
}

/// Gives each huge page the small pages that it would be in. Where several huge pages had the same address one after
/// the other, small pages do not tell which of them they are of, and are left out. Returns the huge pages that have
/// none for that reason.
pub fn give(facts: &mut [PageFacts], small: Vec<PageFacts>) -> usize {
    let mut at: HashMap<u64, Vec<usize>> = HashMap::new();
    for (index, page) in facts.iter().enumerate() {
        at.entry(page.address).or_default().push(index);
    }
    let Some(bytes) = facts.first().map(|page| page.bytes) else { return 0 };
    for page in small {
        if let Some([index]) = at.get(&(page.address & !(bytes - 1))).map(Vec::as_slice) {
            facts[*index].small.push(page);
        }
    }
    at.values().filter(|pages| pages.len() > 1).map(Vec::len).sum()
}
