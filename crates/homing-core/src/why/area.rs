//! Data areas: pages that have one name, taken together.

use super::facts::{PageFacts, Placed};
use crate::areas::Areas;
use crate::sharing::SharingClass;

/// A data area.
#[derive(Clone, Debug, PartialEq)]
pub struct Area {
    /// Its name; `None` for pages of which nothing is known.
    pub name: Option<String>,
    /// Its pages, as indices into the facts.
    pub pages: Vec<usize>,
    /// References by node.
    pub by_node: Vec<u64>,
    /// Writes.
    pub writes: u64,
    /// Pages by the node that made them.
    pub made_by: Vec<u64>,
    /// Pages by the node where they are.
    pub homes: Vec<u64>,
    /// Pages by the single node where they cost least.
    pub best: Vec<u64>,
    /// References by sharing class, in the order of [`SharingClass::ALL`].
    pub classes: [u64; SharingClass::ALL.len()],
    /// What its references cost.
    pub costs: Placed,
}

impl Area {
    fn new(name: Option<String>, nodes: usize) -> Area {
        Area {
            name,
            pages: Vec::new(),
            by_node: vec![0; nodes],
            writes: 0,
            made_by: vec![0; nodes],
            homes: vec![0; nodes],
            best: vec![0; nodes],
            classes: [0; SharingClass::ALL.len()],
            costs: Placed::default(),
        }
    }

    fn add(&mut self, index: usize, page: &PageFacts) {
        self.pages.push(index);
        self.by_node.iter_mut().zip(&page.by_node).for_each(|(sum, count)| *sum += count);
        self.writes += page.writes;
        self.made_by[page.made_by.index()] += 1;
        // Global memory is no node of threads.
        if let Some(count) = self.homes.get_mut(page.home.index()) {
            *count += 1;
        }
        self.best[page.best.index()] += 1;
        self.classes[page.class as usize] += page.references();
        self.costs += page.costs;
    }

    /// References.
    pub fn references(&self) -> u64 {
        self.by_node.iter().sum()
    }

    /// What it costs beyond its bound: the most that another placement can save.
    pub fn avoidable(&self) -> f64 {
        (self.costs.here - self.costs.bound).max(0.0)
    }

    /// The share of its references that are of a class.
    pub fn share_of(&self, class: SharingClass) -> f64 {
        self.classes[class as usize] as f64 / (self.references() as f64).max(1.0)
    }

    /// The class that has most of its references.
    pub fn class(&self) -> SharingClass {
        let most = |&class: &SharingClass| (self.classes[class as usize], std::cmp::Reverse(class));
        SharingClass::ALL.into_iter().max_by_key(most).unwrap_or(SharingClass::Private)
    }

    /// The node with most of these pages, and its share of them.
    pub fn most(pages: &[u64]) -> (usize, f64) {
        let all: u64 = pages.iter().sum();
        let most = pages.iter().copied().max().unwrap_or(0);
        let at = pages.iter().position(|&count| count == most).unwrap_or(0);
        (at, most as f64 / (all as f64).max(1.0))
    }
}

/// Areas of all pages, by falling avoidable cost; pages without a name come together as one.
pub(super) fn areas(facts: &[PageFacts], names: &Areas, nodes: usize) -> Vec<Area> {
    let mut areas: Vec<Area> = names.names.iter().map(|name| Area::new(Some(name.clone()), nodes)).collect();
    areas.push(Area::new(None, nodes));
    let unnamed = areas.len() - 1;
    for (index, page) in facts.iter().enumerate() {
        let of = names.of_page.get(index).and_then(|&of| usize::try_from(of).ok()).unwrap_or(unnamed);
        areas[of].add(index, page);
    }
    areas.retain(|area| !area.pages.is_empty());
    areas.sort_by(|a, b| b.avoidable().total_cmp(&a.avoidable()).then_with(|| a.name.cmp(&b.name)));
    areas
}
