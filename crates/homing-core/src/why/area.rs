//! Data areas: pages that have one name, taken together.

use super::facts::{PageFacts, Placed};
use crate::areas::Areas;
use crate::sharing::SharingClass;

/// A data area.
#[derive(Clone, Debug, PartialEq)]
pub struct Area {
    /// Its name; `None` for pages of which nothing is known.
    pub name: Option<String>,
    /// Of an allocation: the call stack that allocated most of it, the innermost frame first.
    pub stack: Vec<String>,
    /// Areas of libraries and of the loader that come together in this one: more than 0 in [`OTHER`] only.
    pub folded: usize,
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
            stack: Vec::new(),
            folded: 0,
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

    fn fold(&mut self, other: Area) {
        let add =
            |sums: &mut [u64], counts: &[u64]| sums.iter_mut().zip(counts).for_each(|(sum, n)| *sum += n);
        add(&mut self.by_node, &other.by_node);
        add(&mut self.made_by, &other.made_by);
        add(&mut self.homes, &other.homes);
        add(&mut self.best, &other.best);
        add(&mut self.classes, &other.classes);
        self.pages.extend(other.pages);
        self.writes += other.writes;
        self.costs += other.costs;
        self.folded += 1;
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

/// What libraries and the loader have, as far as it does not matter.
pub const OTHER: &str = "other";
/// An area of a library matters with more than this share of what can be avoided.
const MATTERS: f64 = 0.05;

/// Areas of all pages, by falling avoidable cost; pages without a name come together as one, and so do the areas of
/// libraries that do not matter.
pub(super) fn areas(facts: &[PageFacts], names: &Areas, nodes: usize) -> Vec<Area> {
    let mut areas: Vec<Area> = names.names.iter().map(|name| Area::new(Some(name.clone()), nodes)).collect();
    for (area, origin) in areas.iter_mut().zip(&names.origins) {
        area.stack.clone_from(&origin.stack);
    }
    areas.push(Area::new(None, nodes));
    let unnamed = areas.len() - 1;
    for (index, page) in facts.iter().enumerate() {
        let of = names.of_page.get(index).and_then(|&of| usize::try_from(of).ok()).unwrap_or(unnamed);
        areas[of].add(index, page);
    }
    fold(&mut areas, names, nodes);
    areas.retain(|area| !area.pages.is_empty());
    areas.sort_by(|a, b| b.avoidable().total_cmp(&a.avoidable()).then_with(|| a.name.cmp(&b.name)));
    areas
}

/// Puts the areas of libraries that do not matter together.
fn fold(areas: &mut Vec<Area>, names: &Areas, nodes: usize) {
    let all: f64 = areas.iter().map(Area::avoidable).sum();
    let mut other = Area::new(Some(OTHER.to_owned()), nodes);
    for (area, origin) in areas.iter_mut().zip(&names.origins) {
        if origin.foreign && !area.pages.is_empty() && area.avoidable() <= MATTERS * all {
            other.fold(std::mem::replace(area, Area::new(None, nodes)));
        }
    }
    areas.push(other);
}
