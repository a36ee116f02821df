//! What comes next on a page, by its own past. Pages of iterative programs are visited by the same nodes for about as
//! long again and again; so a page keeps its last visits, looks where they went like now before, and foresees what
//! followed then. What is foreseen is weighed as the past is, by a work function: that of the foreseen visits in
//! reverse order is the least cost of serving them from each node, the cost to go.

use crate::ids::Node;
use crate::policy::prices::Prices;
use crate::policy::work_function::WorkFunction;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Visits that a page keeps.
const KEPT: usize = 32;

/// Visits before one that are compared with those before now.
const CONTEXT: usize = 4;

/// References that are foreseen, in page moves: of what comes later than 1.5 to 3 of them nothing is gained.
const HORIZON: f64 = 4.0;

/// A visit that goes on may be so much shorter than it is already by the visit that it is compared with.
const TOLERANCE: f32 = 0.9;

/// References of one node in a row, or of several that take turns too quickly to follow.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Visit {
    /// Whose; `None` if the page was shared.
    node: Option<Node>,
    /// How many.
    length: f32,
    /// One of them was a write.
    wrote: bool,
}

impl Visit {
    fn is_like(self, other: Visit) -> bool {
        let within_double = self.length < 2.0 * other.length && other.length < 2.0 * self.length;
        self.node == other.node && (self.node.is_none() || within_double)
    }
}

/// The last visits to a page. Memory: at most [`KEPT`] of them, none on pages that one node uses.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Track {
    visits: VecDeque<Visit>,
    /// References in a row by one node up to now.
    run: Option<Visit>,
}

/// What visits are measured by.
#[derive(Clone, Copy)]
pub(super) struct Measure<'a> {
    pub(super) prices: &'a Prices,
    /// References that cost as much as a page move.
    pub(super) gap: f64,
    /// True if reads need no copy of their own alone.
    pub(super) replication: bool,
}

impl Measure<'_> {
    /// A visit is at least so long: a sixteenth of what is worth a move.
    fn short(&self) -> f32 {
        (self.gap / 16.0).max(1.0) as f32
    }
}

/// What is foreseen.
pub(super) struct Ahead {
    /// By node: what serving it costs from there.
    pub(super) to_go: WorkFunction,
    /// References by the present visitor before another node writes.
    pub(super) undisturbed: f64,
}

impl Track {
    /// The next reference is by `by`.
    #[inline]
    pub(super) fn turn(&mut self, by: Node, measure: Measure) {
        if self.run.is_some_and(|run| run.node == Some(by)) {
            return;
        }
        if let Some(run) = self.run.replace(Visit { node: Some(by), length: 0.0, wrote: false }) {
            self.close(run, measure.short());
        }
    }

    /// The node whose turn it is made `count` references.
    #[inline]
    pub(super) fn extend(&mut self, count: f64, wrote: bool) {
        if let Some(run) = &mut self.run {
            run.length += count as f32;
            run.wrote |= wrote;
        }
    }

    /// A run is over: a visit, or part of a time when the page is shared.
    fn close(&mut self, run: Visit, short: f32) {
        let visit = if run.length < short { Visit { node: None, ..run } } else { run };
        let interruption = |last: &Visit| last.node.is_none() && last.length < short;
        if visit.node.is_some() && self.visits.back().is_some_and(interruption) {
            self.visits.pop_back();
        }
        match self.visits.back_mut() {
            Some(last) if last.node == visit.node => {
                last.length += visit.length;
                last.wrote |= visit.wrote;
            }
            _ => {
                if self.visits.len() == KEPT {
                    self.visits.pop_front();
                }
                self.visits.push_back(visit);
            }
        }
    }

    /// References until the present run is known to be a visit; 0 if it is.
    pub(super) fn until_visit(&self, measure: Measure) -> f64 {
        self.run.map_or(0.0, |run| f64::from(measure.short() - run.length).max(0.0))
    }

    /// What is foreseen; `None` where nothing is: while the page is shared, and where its visitor has not been here for
    /// so long before.
    pub(super) fn ahead(&self, measure: Measure) -> Option<Ahead> {
        let run = self.run?;
        let shared = self.visits.back().is_some_and(|last| last.node.is_none());
        if shared && run.length < measure.short() {
            return None;
        }
        let mut to_go = WorkFunction::even(measure.prices);
        let mut undisturbed = 0.0;
        let (mut disturbed, mut left) = (false, HORIZON * measure.gap);
        let mut future = Vec::with_capacity(KEPT);
        for visit in self.followed(run)? {
            disturbed |= visit.wrote && visit.node != run.node;
            if !disturbed && visit.node == run.node {
                undisturbed += f64::from(visit.length);
            }
            future.push(visit);
            left -= f64::from(visit.length);
            if left <= 0.0 {
                break;
            }
        }
        for visit in future.iter().rev() {
            let count = f64::from(visit.length);
            // Reads alone cost no placement more than a replica.
            let count = if measure.replication && !visit.wrote { count.min(measure.gap) } else { count };
            if let Some(node) = visit.node {
                to_go.serve(measure.prices, node, count);
            }
        }
        Some(Ahead { to_go, undisturbed })
    }

    /// The rest of the visit most like the present `run`, and the visits that followed it.
    fn followed(&self, run: Visit) -> Option<impl Iterator<Item = Visit> + '_> {
        let now = self.visits.len();
        let fits = |visit: Visit| visit.node == run.node && visit.length >= run.length * TOLERANCE;
        let alike = |at: usize| {
            let before = |back: &usize| self.visits[at - back].is_like(self.visits[now - back]);
            (1..=CONTEXT.min(at)).take_while(before).count()
        };
        let at = (0..now).filter(|&at| fits(self.visits[at])).max_by_key(|&at| alike(at))?;
        let rest = Visit { length: (self.visits[at].length - run.length).max(0.0), ..self.visits[at] };
        Some(std::iter::once(rest).chain(self.visits.range(at + 1..).copied()))
    }

    /// What `from` did is from now on expected of `to`, and the other way round.
    pub(super) fn exchange(&mut self, from: Node, to: Node) {
        for visit in self.visits.iter_mut().chain(&mut self.run) {
            visit.node = match visit.node {
                Some(node) if node == from => Some(to),
                Some(node) if node == to => Some(from),
                node => node,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::tests::uniform;

    const GAP: f64 = 160.0;

    fn prices() -> Prices {
        Prices::new(&uniform(3, 2.0, GAP, None))
    }

    fn measure(prices: &Prices) -> Measure<'_> {
        Measure { prices, gap: GAP, replication: true }
    }

    fn track(runs: &[(u16, f64, bool)], measure: Measure) -> Track {
        let mut track = Track::default();
        for &(node, count, wrote) in runs {
            track.turn(Node(node), measure);
            track.extend(count, wrote);
        }
        track
    }

    #[test]
    fn a_long_visit_is_foreseen_at_its_first_reference_and_a_short_one_too() {
        let prices = prices();
        let measure = measure(&prices);
        let period = [(0, 1000.0, true), (1, 50.0, true), (0, 1000.0, true), (2, 800.0, true)];
        let mut track = track(&period.repeat(3), measure);
        track.turn(Node(0), measure);
        let ahead = track.ahead(measure).unwrap();
        assert_eq!(ahead.undisturbed, 1000.0, "until node 1 writes");
        assert_eq!(ahead.to_go.advantage(&prices, Node(2), Node(0)), GAP);
        track.extend(1000.0, true);
        track.turn(Node(1), measure);
        let ahead = track.ahead(measure).unwrap();
        assert!(ahead.to_go.advantage(&prices, Node(0), Node(1)) < 0.0, "node 0 comes back in 50");
    }

    #[test]
    fn turns_of_a_shared_page_are_one_time_and_short_interruptions_are_none() {
        let prices = prices();
        let measure = measure(&prices);
        let mut runs = vec![(0, 500.0, false), (1, 4.0, false), (0, 500.0, false)];
        runs.extend((0..100).map(|i| (i % 3, 3.0, false)));
        let mut track = track(&runs, measure);
        track.turn(Node(2), measure);
        assert!(track.ahead(measure).is_none());
        let lengths: Vec<f32> = track.visits.iter().map(|visit| visit.length).collect();
        assert_eq!(lengths, [1003.0, 297.0]);
        assert_eq!(track.until_visit(measure), 10.0);
    }

    #[test]
    fn reads_that_no_write_disturbs_add_up_and_memory_is_bounded() {
        let prices = prices();
        let measure = measure(&prices);
        let period = [(0, 60.0, false), (1, 100.0, false), (0, 90.0, false), (2, 40.0, true)];
        let mut track = track(&period.repeat(30), measure);
        assert_eq!(track.visits.len(), KEPT);
        track.turn(Node(0), measure);
        assert_eq!(track.ahead(measure).unwrap().undisturbed, 150.0);
        track.exchange(Node(0), Node(2));
        assert_eq!(track.run.unwrap().node, Some(Node(2)));
    }
}
