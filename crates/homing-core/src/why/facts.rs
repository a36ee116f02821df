//! What is known of each page: who refers to it, where it is, what it costs there, elsewhere, and at best.

use super::lines::{PageLines, OWN};
use super::traffic::Flow;
use super::WhyError;
use crate::history::{History, PageRun};
use crate::ids::{Node, Page, Time};
use crate::machine::Costs;
use crate::optimal::{Options, Solver};
use crate::policy::placement::Placement;
use crate::sharing::{SharingClass, Tally};
use rayon::prelude::*;
use std::ops::AddAssign;

/// Intervals that a program's virtual time is divided into. What threads do one after the other, such as to initialise
/// and then to compute, is told apart by them: a program takes as long as its slowest CPU in each.
pub const INTERVALS: usize = 32;

/// References of one node to a page in one interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// The interval.
    pub interval: u16,
    /// The node.
    pub node: u16,
    /// References.
    pub count: u32,
}

/// References of a page's runs, sorted into intervals.
struct Uses {
    nodes: usize,
    /// Time of an interval.
    length: u64,
    /// `[interval * nodes + node]`.
    counts: Vec<u32>,
}

impl Uses {
    fn new(nodes: usize, duration: u64) -> Uses {
        let length = (duration / INTERVALS as u64 + 1).max(1);
        Uses { nodes, length, counts: vec![0; INTERVALS * nodes] }
    }

    /// Adds a run's references, evenly from its first to its last.
    fn add(&mut self, run: &PageRun) {
        let interval = |time: Time| ((time.0 / self.length) as usize).min(INTERVALS - 1);
        let (first, last, all) = (interval(run.first), interval(run.last), run.references());
        let span = (run.last.0 - run.first.0).max(1);
        let mut given = 0;
        for at in first..=last {
            let until = (at as u64 + 1) * self.length;
            let due = match at == last {
                true => all,
                false => (u128::from(all) * u128::from(until - run.first.0) / u128::from(span))
                    .min(all.into()) as u64,
            };
            let count = &mut self.counts[at * self.nodes + run.node.index()];
            *count = count.saturating_add((due - given) as u32);
            given = due;
        }
    }

    fn finish(self) -> Vec<Use> {
        let nodes = self.nodes;
        let used = self.counts.into_iter().enumerate().filter(|&(_, count)| count > 0);
        used.map(|(at, count)| Use { interval: (at / nodes) as u16, node: (at % nodes) as u16, count })
            .collect()
    }
}

/// What is known of a page.
#[derive(Clone, Debug, PartialEq)]
pub struct PageFacts {
    /// Its virtual address.
    pub address: u64,
    /// Its size.
    pub bytes: u64,
    /// Pages that it stands for: more than 1 where only a part of the pages was sampled.
    pub stands_for: u64,
    /// References by node.
    pub by_node: Vec<u64>,
    /// The same by interval as well, without those that are 0.
    pub uses: Vec<Use>,
    /// Writes among them.
    pub writes: u64,
    /// How the nodes share it.
    pub class: SharingClass,
    /// The node that first touch puts it on: who made it.
    pub made_by: Node,
    /// References of that node before any other came: whoever initialises the page instead makes them.
    pub making: u64,
    /// Where it is.
    pub home: Node,
    /// The single node where it costs least.
    pub best: Node,
    /// The node that spreads pages over all memories, by address.
    pub spread: Node,
    /// What its references cost.
    pub costs: Placed,
    /// What its references cost if it follows its users under a policy, if that was simulated.
    pub migrated: Option<f64>,
    /// What its lines say, if several nodes write it and its lines were watched.
    pub lines: Option<Box<PageLines>>,
    /// The facts of the small pages that it would be in, if it is a huge page and that was simulated.
    pub small: Vec<PageFacts>,
}

/// What the references to a page, or to several, cost under several placements, in local references.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Placed {
    /// Where pages are.
    pub here: f64,
    /// Each at its best node, from the start.
    pub at_best: f64,
    /// Each made by its best node, which is where it then is.
    pub made_at_best: f64,
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
        self.made_at_best += other.made_at_best;
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

    /// Whether a look at its lines can tell more: several nodes use it. Behind caches nothing is known of writes that
    /// hit.
    pub fn is_shared(&self) -> bool {
        self.class != SharingClass::Private
    }

    /// Takes what its lines say, and corrects its class by it: behind caches, writes that hit were not seen.
    pub fn look_into(&mut self, lines: PageLines) {
        let (references, late): (u64, u64) = (lines.references.iter().sum(), lines.late_writes.iter().sum());
        if self.class == SharingClass::ReadShared && late * 1000 > references {
            let most = lines.late_writes.iter().max().copied().unwrap_or(0);
            self.class = match (late - most) * 100 <= late {
                true => SharingClass::ProducerConsumer,
                false => SharingClass::WriteShared,
            };
            self.costs.replicated = self.costs.at_best;
        }
        self.lines = Some(Box::new(lines));
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

    /// The share of a node's references that would be local if each node's lines lay on pages of its own.
    pub fn separable(&self, by: usize) -> f64 {
        self.lines.as_ref().map_or(0.0, |lines| lines.own_share(by))
    }

    /// The share of a node's references for which a line brought nothing new, where its parts have a user each; with
    /// `all` those for which any line travelled. A line that travelled was fetched from memory, or by way of it.
    pub fn travels(&self, by: usize, all: bool) -> f64 {
        let travels = |lines: &PageLines| match all {
            true => lines.falsely[by] + lines.truly[by],
            false => lines.parted[by],
        };
        let travels = self.lines.as_deref().map_or(0, travels);
        (travels as f64 / (self.by_node[by] as f64).max(1.0)).min(1.0)
    }

    /// Where the references of every node go if the page costs so much: what it costs beyond being local shrinks for
    /// all nodes alike, or there are more references where it costs more than now.
    pub(super) fn costing(&self, cost: f64) -> Flow {
        let (here, beyond) = (self.costs.here, self.costs.here - self.costs.local);
        let local = if beyond > 0.0 { ((here - cost) / beyond).clamp(0.0, 1.0) } else { 0.0 };
        Flow { local, gone: -((cost - here).max(0.0) / here.max(1.0)), home: self.home }
    }

    /// The share of a node's references that make the page, if its best node is another.
    pub(super) fn making_share(&self, by: usize) -> f64 {
        let moves = by == self.made_by.index() && self.made_by != self.best;
        if moves {
            self.making as f64 / (self.by_node[by] as f64).max(1.0)
        } else {
            0.0
        }
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
    let mut uses = Uses::new(usize::from(nodes), history.duration().0);
    for run in runs()? {
        by_node[run.node.index()] += run.references();
        writes += u64::from(run.writes);
        uses.add(&run);
        tally.add(run.node, run.reads(), u64::from(run.writes));
    }
    let made_by = history.first_touch(page)?.unwrap_or(Node(0));
    let making = runs()?.take_while(|run| run.node == made_by).map(|run| run.references()).sum();
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
        stands_for: 1,
        costs: Placed {
            here: at(home),
            at_best: at(best),
            made_at_best: at(best)
                - making as f64 * (costs.access(made_by, best) - costs.access(made_by, made_by)),
            at_spread: at(spread),
            replicated: if class == SharingClass::ReadShared { local } else { at(best) },
            bound: optimum.cost,
            local,
        },
        by_node,
        uses: uses.finish(),
        writes,
        class,
        made_by,
        making,
        migrated: None,
        home,
        best,
        spread,
        lines: None,
        small: Vec::new(),
    })
}
