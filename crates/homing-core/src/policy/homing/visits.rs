//! Visits: where a page is used, and for how long. A page visits the node that an eager rule would have it at: the
//! work function algorithm where a move costs 1/64. Interruptions that are shorter than what would be worth that
//! are part of a visit, and a page that several nodes share finely has many short ones.
//!
//! At the start of a visit the page knows who comes, how long ago that node was here and for how long then, how long
//! the last visit was, and how long the node's visits to pages around were just now. From what [`super::foresight`]
//! says of such visits follows how long to wait before the page comes along.

use super::foresight::{begin, key, Foresight, Keys, Tally, STEPS};
use super::page::Seat;
use crate::ids::{Node, Page};
use serde::{Deserialize, Serialize};

/// Pages that learn from each other more than from the rest: a region.
pub(super) const REGION: u32 = 32;

/// Visitors that are told apart by how lately they came; the last also stands for all before and for new ones.
const RANKS: usize = 10;

/// The present visit of a page, and what is kept of those before.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Visit {
    /// Whose.
    pub(super) node: Node,
    /// References of its node so far.
    pub(super) length: f32,
    /// The step that the length is in, as far as it was learnt from.
    step: u8,
    /// How many others came since its node's last visit.
    rank: u8,
    /// The step that the visit before came to.
    before: u8,
    /// Whose that was.
    previous: Node,
    /// What visits like this are known by, if several nodes came.
    keys: Option<Keys>,
    /// The page that a wait is for, and the length at which it ends.
    wait: Option<(Node, f32)>,
    /// Who came, the last first; empty as long as one node did.
    order: Vec<Node>,
    returns: Returns,
}

/// How much it costs not to be where the visitor of each rank comes back to: its visits' worth, as a share of a page
/// move, for each visit of any.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Returns {
    worth: [f32; RANKS],
    visits: f32,
}

impl Returns {
    /// A visitor of `rank` has stayed for what was `worth` so much. Of more than `most` visits old ones fade.
    fn add(&mut self, rank: usize, worth: f32, most: f32) {
        if self.visits >= most {
            self.worth.iter_mut().for_each(|sum| *sum -= *sum / most);
            self.visits -= 1.0;
        }
        self.visits += 1.0;
        self.worth[rank] += worth;
    }

    /// The mean, of which `prior` has had two visits' say.
    fn mean(&self, rank: usize, prior: f32) -> f32 {
        (self.worth[rank] + 2.0 * prior) / (self.visits + 2.0)
    }
}

/// What a page keeps for a node's visits.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Past {
    tally: Tally,
    /// The step that the last one came to, plus 1.
    last: u8,
}

/// What a program's visits have in common.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Known {
    foresight: Foresight,
    /// How long pages are read between two writes.
    pub(super) reading: Foresight,
    /// By node: the steps that its last two visits came to.
    last: Vec<[u8; 2]>,
    /// The same in each region, one after the other.
    nearby: Vec<[u8; 2]>,
    returns: Returns,
}

/// A node at a page, as its visits are measured.
#[derive(Clone, Copy)]
pub(super) struct Measure {
    pub(super) page: Page,
    /// False if pages do not learn from each other.
    pub(super) foresees: bool,
    /// All nodes.
    pub(super) nodes: u16,
    /// The least length that matters: the first step, in references.
    pub(super) short: f64,
    /// Share of a page move that the first step is worth.
    pub(super) worth: f64,
}

/// The step in which a length is, in first steps.
fn step_of(length: f32) -> usize {
    (0..STEPS).take_while(|&step| length >= begin(step + 1) * 0.9999).count()
}

impl Visit {
    /// The first visit of a page.
    pub(super) fn new(node: Node) -> Visit {
        Visit {
            node,
            length: 0.0,
            step: 0,
            rank: (RANKS - 1) as u8,
            before: 0,
            previous: node,
            keys: None,
            wait: None,
            order: Vec::new(),
            returns: Returns::default(),
        }
    }

    /// The node of the visit made `count` more references.
    #[inline]
    pub(super) fn extend(&mut self, count: f64, past: &mut Past, known: &mut Known, measure: Measure) {
        self.length += count as f32;
        let Some(keys) = self.keys else { return };
        let steps = self.length / measure.short as f32;
        while usize::from(self.step) < STEPS && steps >= begin(usize::from(self.step) + 1) * 0.9999 {
            known.foresight.learn(&mut past.tally, &keys, usize::from(self.step), true);
            self.step += 1;
        }
    }

    /// True if more references of `node` say nothing more.
    #[inline]
    pub(super) fn is_known(&self, node: Node) -> bool {
        self.node == node && (self.keys.is_none() || usize::from(self.step) == STEPS)
    }

    /// The visit of another node begins, which has made `length` references already.
    pub(super) fn turn(
        &mut self,
        to: Node,
        length: f64,
        seats: &mut [Seat],
        known: &mut Known,
        measure: Measure,
    ) {
        let steps = self.length / measure.short as f32;
        let step = step_of(steps);
        let past = &mut seats[self.node.index()].past;
        if let Some(keys) = self.keys.filter(|_| usize::from(self.step) < STEPS) {
            known.foresight.learn(&mut past.tally, &keys, usize::from(self.step), false);
        }
        past.last = step as u8 + 1;
        let worth = (f64::from(steps) * measure.worth).min(1.0) as f32;
        self.returns.add(usize::from(self.rank), worth, 16.0);
        known.returns.add(usize::from(self.rank), worth, 512.0);
        known.ended(measure, self.node, step as u8 + 1);
        if self.order.is_empty() {
            self.order.push(self.node);
        }
        self.rank = self.rank_of(to);
        self.order.retain(|&node| node != to);
        self.order.insert(0, to);
        self.before = step as u8;
        self.previous = self.node;
        self.node = to;
        self.length = length as f32;
        self.step = 0;
        self.wait = None;
        self.keys = Some(known.keys(self, seats[to.index()].past.last, measure));
    }

    /// How many nodes came since `node` did.
    fn rank_of(&self, node: Node) -> u8 {
        let at = self.order.iter().position(|&other| other == node);
        at.unwrap_or(RANKS).min(RANKS - 1) as u8
    }

    /// Finds out at which length a page at `home` should come along, if that costs as much as `price` references.
    #[inline]
    pub(super) fn ask(&mut self, (home, price): (Node, f64), past: &Past, known: &Known, measure: Measure) {
        let Some(keys) = self.keys.filter(|_| self.wait.is_none_or(|(at, _)| at != home)) else { return };
        let rank = usize::from(self.rank_of(home));
        let back = self.returns.mean(rank, known.returns.mean(rank, 0.0));
        let price = price / measure.short + f64::from(back) / measure.worth;
        let wait = known.foresight.wait(&past.tally, &keys, price as f32) * measure.short as f32;
        self.wait = Some((home, wait));
    }

    /// References, beyond those so far, after which a page at `home` should come along.
    #[inline]
    pub(super) fn left(&self, home: Node) -> f64 {
        let wait = self.wait.filter(|(at, _)| *at == home);
        f64::from(wait.map_or(f32::INFINITY, |(_, wait)| wait * 0.9999 - self.length))
    }

    /// What `a` did is from now on expected of `b`, and the other way round.
    pub(super) fn exchange(&mut self, a: Node, b: Node) {
        let order = self.order.iter_mut();
        order.chain([&mut self.node, &mut self.previous]).for_each(|node| *node = exchanged(*node, a, b));
        self.wait = None;
    }
}

/// `b` for `a`, and the other way round.
pub(super) fn exchanged(node: Node, a: Node, b: Node) -> Node {
    match node {
        _ if node == a => b,
        _ if node == b => a,
        _ => node,
    }
}

impl Known {
    /// A visit of `node` came to a step.
    fn ended(&mut self, measure: Measure, node: Node, step: u8) {
        let nodes = usize::from(measure.nodes);
        let near = (measure.page.0 / REGION) as usize * nodes + node.index();
        self.last.resize(nodes, [0; 2]);
        if self.nearby.len() <= near {
            self.nearby.resize((measure.page.0 / REGION + 1) as usize * nodes, [0; 2]);
        }
        for last in [&mut self.last[node.index()], &mut self.nearby[near]] {
            *last = [step, last[0]];
        }
    }

    /// What a visit that begins is known by; `last`: the step that its node's last one here came to.
    fn keys(&self, visit: &Visit, last: u8, measure: Measure) -> Keys {
        let (node, region) = (u32::from(visit.node.0), measure.page.0 / REGION);
        let pair = |[last, before]: [u8; 2]| u32::from(last) << 8 | u32::from(before);
        let near = region as usize * usize::from(measure.nodes) + visit.node.index();
        let [nearby, anywhere] = [(&self.nearby, near), (&self.last, visit.node.index())]
            .map(|(of, at)| pair(of.get(at).copied().unwrap_or_default()));
        let (last, before, previous) =
            (u32::from(last), u32::from(visit.before), u32::from(visit.previous.0));
        [
            key([0, u32::from(visit.rank), before, last]),
            key([1, node, anywhere, 0]),
            key([2, region, node, nearby]),
            key([3, region, last, 0]),
            key([4, 0, 0, 0]),
            key([5, region, u32::from(visit.rank) << 8 | before, last]),
            key([6, measure.page.0, node << 8 | before, last]),
            key([7, measure.page.0, node << 16 | previous << 8 | before, u32::from(visit.rank)]),
        ]
    }
}
