//! Data areas: pages that have one name, taken together.

use super::facts::{PageFacts, Placed};
use super::lines::Travelling;
use super::remedy::Remedy;
use super::small::Small;
use super::traffic::Flow;
use super::Setup;
use crate::areas::Areas;
use crate::ids::Node;
use crate::machine::Costs;
use crate::sharing::SharingClass;

/// A data area.
#[derive(Clone, Debug, PartialEq)]
pub struct Area {
    /// Its name; `None` for pages of which nothing is known.
    pub name: Option<String>,
    /// The lowest address of its pages.
    pub address: u64,
    /// Of an allocation: the call stack that allocated most of it, the innermost frame first.
    pub stack: Vec<String>,
    /// Areas of libraries and of the loader that come together in this one: more than 0 in [`OTHER`] only.
    pub folded: usize,
    /// Its pages, as indices into the facts.
    pub pages: Vec<usize>,
    /// The number of pages that these stand for, where only a part was sampled; else of these.
    pub page_count: u64,
    /// Bytes of that number.
    pub bytes: u64,
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
    /// References to pages whose lines belong to one node each, though several nodes use the page.
    pub falsely_shared: u64,
    /// What its references cost.
    pub costs: Placed,
    /// What its pages cost if they follow their users, if that was simulated.
    pub migrated: Option<f64>,
    /// What its lines say, if any was watched.
    pub lines: Option<AreaLines>,
    /// What it costs in small pages, if some of its pages are huge and that was simulated.
    pub small: Option<Small>,
}

/// What the lines of an area say. Costs are in local references, with pages where they are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AreaLines {
    /// Times a line travelled between nodes with nothing new.
    pub falsely: u64,
    /// ... with something new.
    pub truly: u64,
    /// What the area costs if the lines of each node lie on pages of its own.
    pub separated: f64,
    /// ... if no line travels with nothing new.
    pub padded: f64,
    /// ... if no line travels at all.
    pub split: f64,
    /// The lines that travel most, with the address of their page; most first.
    pub travelling: Vec<(u64, Travelling)>,
}

/// Lines of an area that are kept.
const KEPT: usize = 16;
/// Few lines are contended if those kept have this share of the travels with something new.
const FEW: f64 = 0.8;
/// ... and travel this often.
const OFTEN: u64 = 1000;

/// See [`Area::is_used_in_turn`].
const TURNS: f64 = 0.5;

impl AreaLines {
    fn add(&mut self, page: &PageFacts, costs: &Costs) {
        let Some(lines) = &page.lines else {
            // Nothing of it can be had by what lies in its lines.
            self.separated += page.costs.at_best;
            self.padded += page.costs.here;
            self.split += page.costs.here;
            return;
        };
        self.falsely += lines.falsely.iter().sum::<u64>();
        self.truly += lines.truly.iter().sum::<u64>();
        self.travelling.extend(lines.travelling.iter().map(|&line| (page.address, line)));
        self.travelling
            .sort_by_key(|(page, line)| (std::cmp::Reverse(line.truly + line.falsely), *page, line.offset));
        self.travelling.truncate(KEPT);
        for (by, &count) in page.by_node.iter().enumerate().filter(|(_, &count)| count > 0) {
            let node = Node(by as u16);
            let cost = |remedy: Remedy| {
                let Flow { local, gone, home } = remedy.flow(page, by);
                count as f64
                    * (local * costs.access(node, node) + (1.0 - local - gone) * costs.access(node, home))
            };
            self.separated += cost(Remedy::SeparatePages);
            self.padded += cost(Remedy::PadLines);
            self.split += cost(Remedy::SplitLines);
        }
    }

    /// Whether nodes contend for a few lines: that is something to mend, not how the program communicates.
    pub fn are_contended(&self) -> bool {
        let few: u64 = self.travelling.iter().map(|(_, line)| line.truly).sum();
        few >= OFTEN && few as f64 >= FEW * self.truly as f64
    }
}

impl Area {
    fn new(name: Option<String>, nodes: usize) -> Area {
        Area {
            name,
            address: u64::MAX,
            stack: Vec::new(),
            folded: 0,
            pages: Vec::new(),
            page_count: 0,
            bytes: 0,
            by_node: vec![0; nodes],
            writes: 0,
            made_by: vec![0; nodes],
            homes: vec![0; nodes],
            best: vec![0; nodes],
            classes: [0; SharingClass::ALL.len()],
            falsely_shared: 0,
            costs: Placed::default(),
            migrated: None,
            lines: None,
            small: None,
        }
    }

    /// The pages of a name as an area.
    pub(super) fn named(name: Option<&str>, setup: &Setup<'_>, nodes: usize) -> Area {
        let mut area = Area::new(name.map(str::to_owned), nodes);
        let known = |&of: &i32| usize::try_from(of).ok().and_then(|of| setup.areas.names.get(of));
        for (index, page) in setup.facts.iter().enumerate() {
            if setup.areas.of_page.get(index).and_then(known).map(String::as_str) == name {
                area.add(index, page);
            }
        }
        area.look_into(setup.facts, setup.costs);
        area
    }

    fn add(&mut self, index: usize, page: &PageFacts) {
        self.address = self.address.min(page.address);
        self.pages.push(index);
        self.page_count += page.stands_for;
        self.bytes += page.bytes * page.stands_for;
        self.by_node.iter_mut().zip(&page.by_node).for_each(|(sum, count)| *sum += count);
        self.writes += page.writes;
        self.made_by[page.made_by.index()] += page.stands_for;
        // Global memory is no node of threads.
        if let Some(count) = self.homes.get_mut(page.home.index()) {
            *count += page.stands_for;
        }
        self.best[page.best.index()] += page.stands_for;
        self.classes[page.class as usize] += page.references();
        self.falsely_shared += if page.is_falsely_shared() { page.references() } else { 0 };
        self.costs += page.costs;
        self.migrated = page.migrated.map(|cost| self.migrated.unwrap_or(0.0) + cost);
    }

    /// Looks at the lines of its pages, and at the small pages that these would be in.
    fn look_into(&mut self, facts: &[PageFacts], costs: &Costs) {
        self.small = Small::of(self.pages.iter().map(|&page| &facts[page]));
        if self.pages.iter().any(|&page| facts[page].lines.is_some()) {
            let mut lines = AreaLines::default();
            self.pages.iter().for_each(|&page| lines.add(&facts[page], costs));
            self.lines = Some(lines);
        }
    }

    /// Whether its nodes use it one after the other, each for so long that moves would take off half of what no single
    /// node for each page can.
    pub fn is_used_in_turn(&self) -> bool {
        let Placed { at_best, bound, local, .. } = self.costs;
        at_best > local && at_best - bound >= TURNS * (at_best - local)
    }

    /// Whether most of its references are to pages that are falsely shared.
    pub fn is_falsely_shared(&self) -> bool {
        self.falsely_shared * 2 > self.references()
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
        self.page_count += other.page_count;
        self.bytes += other.bytes;
        self.writes += other.writes;
        self.falsely_shared += other.falsely_shared;
        self.costs += other.costs;
        self.migrated = self.migrated.zip(other.migrated).map(|(a, b)| a + b).or(other.migrated);
        self.address = self.address.min(other.address);
        self.folded += 1;
    }

    /// References.
    pub fn references(&self) -> u64 {
        self.by_node.iter().sum()
    }

    /// The least that it can cost: by placing its pages, huge or small, or by laying its data out anew.
    pub fn least(&self) -> f64 {
        let least = |costs: &Placed| costs.bound.min(costs.made_at_best);
        let bound =
            self.small.as_ref().map_or(f64::INFINITY, |small| least(&small.costs)).min(least(&self.costs));
        let Some(lines) = &self.lines else { return bound };
        let split = if lines.are_contended() { lines.split } else { f64::INFINITY };
        bound.min(lines.separated).min(lines.padded).min(split)
    }

    /// What it costs beyond that.
    pub fn avoidable(&self) -> f64 {
        (self.costs.here - self.least()).max(0.0)
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
pub(super) fn areas(facts: &[PageFacts], names: &Areas, costs: &Costs, nodes: usize) -> Vec<Area> {
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
    areas.iter_mut().for_each(|area| area.look_into(facts, costs));
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
