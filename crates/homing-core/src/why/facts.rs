//! What is known of each page: who refers to it, where it is, what it costs there, elsewhere, and at best.

use super::lines::{PageLines, OWN};
use super::WhyError;
use crate::history::History;
use crate::ids::{Node, Page};
use crate::machine::Costs;
use crate::optimal::{Options, Solver};
use crate::policy::placement::Placement;
use crate::sharing::{SharingClass, Tally};
use rayon::prelude::*;
use std::ops::AddAssign;

/// What is known of a page.
#[derive(Clone, Debug, PartialEq)]
pub struct PageFacts {
    /// Its virtual address.
    pub address: u64,
    /// Its size.
    pub bytes: u64,
    /// References by node.
    pub by_node: Vec<u64>,
    /// Writes among them.
    pub writes: u64,
    /// How the nodes share it.
    pub class: SharingClass,
    /// The node of the first reference: who made it.
    pub made_by: Node,
    /// Where it is.
    pub home: Node,
    /// The single node where it costs least.
    pub best: Node,
    /// The node that spreads pages over all memories, by address.
    pub spread: Node,
    /// What its references cost.
    pub costs: Placed,
    /// What its lines say, if several nodes write it and its lines were watched.
    pub lines: Option<Box<PageLines>>,
}

/// What the references to a page, or to several, cost under several placements, in local references.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Placed {
    /// Where pages are.
    pub here: f64,
    /// Each at its best node, from the start.
    pub at_best: f64,
    /// Spread over the nodes.
    pub at_spread: f64,
    /// With a copy wherever a page is read, free of charge, if nobody writes after its first node has made it; else as
    /// `at_best`.
    pub replicated: f64,
    /// From the best start, with the cheapest moves. With one copy nothing does better.
    pub bound: f64,
    /// If every reference were local.
    pub local: f64,
}

impl AddAssign for Placed {
    fn add_assign(&mut self, other: Placed) {
        self.here += other.here;
        self.at_best += other.at_best;
        self.at_spread += other.at_spread;
        self.replicated += other.replicated;
        self.bound += other.bound;
        self.local += other.local;
    }
}

/// The share of a page's references that must be to lines of the node's own for the page to be falsely shared.
const FALSE: f64 = 0.8;

impl PageFacts {
    /// References.
    pub fn references(&self) -> u64 {
        self.by_node.iter().sum()
    }

    /// Whether a look at its lines can tell more: several nodes use it, and write it while others use it.
    pub fn is_shared_and_written(&self) -> bool {
        !matches!(self.class, SharingClass::Private | SharingClass::ReadShared)
    }

    /// Whether its lines belong to one node each, though no node has the page nearly to itself.
    pub fn is_falsely_shared(&self) -> bool {
        let most = self.by_node.iter().max().copied().unwrap_or(0);
        let shared = (most as f64) < OWN * self.references() as f64;
        shared
            && self.lines.as_ref().is_some_and(|lines| {
                let (own, all): (u64, u64) = (lines.own.iter().sum(), lines.references.iter().sum());
                own as f64 >= FALSE * all as f64
            })
    }

    /// References of a node that would be local if each node's lines lay on pages of its own.
    pub fn separable(&self, by: usize) -> u64 {
        self.lines.as_ref().map_or(0, |lines| (self.by_node[by] as f64 * lines.own_share(by)) as u64)
    }

    /// References of a node for which a line travelled in vain, at most as many as reach memory; with `all` also those
    /// for which it brought something new.
    pub fn travels(&self, by: usize, all: bool) -> u64 {
        let lines = self.lines.as_ref();
        let travels = lines.map_or(0, |lines| lines.falsely[by] + if all { lines.truly[by] } else { 0 });
        travels.min(self.by_node[by])
    }

    /// What it costs at a node.
    pub fn cost_at(&self, costs: &Costs, home: Node) -> f64 {
        cost_at(costs, &self.by_node, home)
    }
}

pub(super) fn cost_at(costs: &Costs, by_node: &[u64], home: Node) -> f64 {
    let used = by_node.iter().enumerate().filter(|(_, &count)| count > 0);
    used.map(|(by, &count)| count as f64 * costs.access(Node(by as u16), home)).sum()
}

/// The facts of every page, but for its lines.
///
/// # Errors
/// If the history cannot be read back, or a page has too many runs for a bound.
pub fn facts(history: &History, costs: &Costs, placement: &Placement) -> Result<Vec<PageFacts>, WhyError> {
    let of = |page| page_facts(history, costs, placement, Page(page));
    (0..history.pages()).into_par_iter().map(of).collect()
}

fn page_facts(
    history: &History,
    costs: &Costs,
    placement: &Placement,
    page: Page,
) -> Result<PageFacts, WhyError> {
    let nodes = costs.memories() - u16::from(costs.global_node().is_some());
    let runs = || history.runs(page);
    let mut by_node = vec![0; usize::from(nodes)];
    let (mut writes, mut tally) = (0, Tally::default());
    for run in runs()? {
        by_node[run.node.index()] += run.references();
        writes += u64::from(run.writes);
        tally.add(run.node, run.reads(), u64::from(run.writes));
    }
    let made_by = runs()?.next().map_or(Node(0), |run| run.node);
    let home = placement.start(history, page, costs)?.node;
    let spread = Placement::Striped(1).start(history, page, costs)?.node;
    let at = |home| cost_at(costs, &by_node, home);
    let best = (0..nodes).map(Node).min_by(|&a, &b| at(a).total_cmp(&at(b))).unwrap_or(home);
    let class = tally.finish().class;
    let own = |by: usize| costs.access(Node(by as u16), Node(by as u16));
    let local = by_node.iter().enumerate().map(|(by, &count)| count as f64 * own(by)).sum();
    let one_copy = Options { replication: false, ..Options::default() };
    let optimum = Solver::new(costs, one_copy).page(page, runs()?, &mut ())?;
    Ok(PageFacts {
        address: history.address(page),
        bytes: history.page_size().bytes(),
        costs: Placed {
            here: at(home),
            at_best: at(best),
            at_spread: at(spread),
            replicated: if class == SharingClass::ReadShared { local } else { at(best) },
            bound: optimum.cost,
            local,
        },
        by_node,
        writes,
        class,
        made_by,
        home,
        best,
        spread,
        lines: None,
    })
}
