//! Without replication on a machine with unequal distances: O(nodes) a page run for most machines, O(nodes^2) at worst.
//!
//! A page may go to any memory at any Time, by the cheapest chain of copies (the metric closure of the copy matrix, so
//! the triangle inequality need not hold). A move from s to m right before a run by node i with access[i][m] >=
//! access[i][s] can as well be made after it, so only moves to memories that are nearer to the requester are tried;
//! a memory between two requesters can be the best place, so moves to the requester alone do not suffice.

use super::trail::{State, Step, Trail};
use super::uniform::MAX_RUNS;
use super::{Kind, OptimalError, PageAction, PageOptimum, Sink, Start};
use crate::account::Charges;
use crate::history::PageRun;
use crate::ids::{Node, Page, Time};
use crate::machine::General;

pub(super) struct GeneralSolver {
    nodes: usize,
    access: Vec<f64>,
    copy: Vec<f64>,
    paths: Closure,
    /// For each requester, the memories worth moving to, each with the memories farther away from the requester.
    nearer: Vec<Vec<(u16, Vec<u16>)>>,
    first_touch: bool,
    /// Where a page ends up may cost this share more than the cheapest: pages take turns among such memories.
    slack: f64,
    states: Vec<State>,
    before: Vec<State>,
    trail: Trail,
    path: Vec<Step>,
    /// References by (requester, memory).
    references: Vec<u64>,
    /// Copies by (from, to), each hop of a chain.
    copies: Vec<u64>,
}

/// Cheapest chains of copies.
struct Closure {
    cost: Vec<f64>,
    /// Next memory on the way from (row) to (column).
    next: Vec<u16>,
}

impl Closure {
    /// Floyd-Warshall.
    fn of(copy: &[f64], nodes: usize) -> Closure {
        let mut cost = copy.to_vec();
        let mut next: Vec<u16> = (0..nodes * nodes).map(|i| (i % nodes) as u16).collect();
        for via in 0..nodes {
            for from in 0..nodes {
                for to in 0..nodes {
                    let chain = cost[from * nodes + via] + cost[via * nodes + to];
                    if chain < cost[from * nodes + to] {
                        cost[from * nodes + to] = chain;
                        next[from * nodes + to] = next[from * nodes + via];
                    }
                }
            }
        }
        Closure { cost, next }
    }
}

impl GeneralSolver {
    pub fn new(costs: &General, start: Start) -> GeneralSolver {
        let nodes = usize::from(costs.nodes);
        let mut copy = costs.copy.clone();
        (0..nodes).for_each(|i| copy[i * nodes + i] = 0.0);
        let farther = |by: usize, to: usize| -> Vec<u16> {
            let access = &costs.access[by * nodes..][..nodes];
            (0..nodes).filter(|&from| access[to] < access[from]).map(|from| from as u16).collect()
        };
        let nearer = |by: usize| {
            let targets = (0..nodes).map(|to| (to as u16, farther(by, to)));
            targets.filter(|(_, from)| !from.is_empty()).collect()
        };
        GeneralSolver {
            nodes,
            access: costs.access.clone(),
            paths: Closure::of(&copy, nodes),
            copy,
            nearer: (0..nodes).map(nearer).collect(),
            first_touch: start == Start::FirstTouch,
            slack: 0.0,
            states: vec![State::FREE; nodes],
            before: vec![State::FREE; nodes],
            trail: Trail::default(),
            path: Vec::new(),
            references: vec![0; nodes * nodes],
            copies: vec![0; nodes * nodes],
        }
    }

    /// The same, but pages take turns among the memories whose cost is within this share of the cheapest. What
    /// [`GeneralSolver::page`] returns as cost is the cheapest all the same; counts are those of what was taken.
    pub fn taking_turns(self, slack: f64) -> GeneralSolver {
        GeneralSolver { slack, ..self }
    }

    /// References by (requester, memory) and copies by (from, to).
    pub fn counts(&self) -> (&[u64], &[u64]) {
        (&self.references, &self.copies)
    }

    /// `at`: where the page begins, if it is not as the options say.
    pub fn page(
        &mut self,
        page: Page,
        at: Option<Node>,
        runs: impl Iterator<Item = PageRun> + Clone,
        sink: &mut impl Sink,
    ) -> Result<PageOptimum, OptimalError> {
        let Some(first) = runs.clone().next() else {
            return Ok(PageOptimum { cost: 0.0, first_home: Node(0), last_home: Node(0) });
        };
        self.trail.clear();
        match at.or(self.first_touch.then_some(first.node)) {
            Some(start) => {
                self.states.fill(State::NEVER);
                self.states[start.index()] = State::FREE;
            }
            None => self.states.fill(State::FREE),
        }
        for (event, run) in (0u32..).zip(runs.clone()) {
            if event >= MAX_RUNS {
                return Err(OptimalError::TooManyRuns { page });
            }
            self.run(event, &run);
        }
        let mut home = 0;
        for node in 1..self.nodes {
            if self.states[node].cost < self.states[home].cost {
                home = node;
            }
        }
        let cost = self.states[home].cost;
        if self.slack > 0.0 {
            let near = |node: &usize| self.states[*node].cost <= cost * (1.0 + self.slack);
            let turn = page.index() % (0..self.nodes).filter(near).count();
            home = (0..self.nodes).filter(near).nth(turn).unwrap_or(home);
        }
        let trail = self.states[home].trail;
        self.trail.path(trail, &mut self.path);
        self.replay(page, runs, home, sink);
        let first_home = self.path.first().map_or(home, |step| usize::from(step.from));
        Ok(PageOptimum { cost, first_home: Node(first_home as u16), last_home: Node(home as u16) })
    }

    #[inline]
    fn run(&mut self, event: u32, run: &PageRun) {
        let (by, references) = (run.node.index(), run.references() as f64);
        self.before.copy_from_slice(&self.states);
        for (to, sources) in &self.nearer[by] {
            let to = usize::from(*to);
            let (mut least, mut source) = (self.before[to].cost, to);
            for from in sources.iter().map(|&from| usize::from(from)) {
                let cost = self.before[from].cost + self.paths.cost[from * self.nodes + to];
                if cost < least {
                    (least, source) = (cost, from);
                }
            }
            if source != to {
                let trail = self.trail.step(self.before[source].trail, event, source, to);
                self.states[to] = State { cost: least, trail };
            }
        }
        for (state, access) in self.states.iter_mut().zip(&self.access[by * self.nodes..]) {
            state.cost += references * access;
        }
    }

    fn replay(
        &mut self,
        page: Page,
        runs: impl Iterator<Item = PageRun>,
        last_home: usize,
        sink: &mut impl Sink,
    ) {
        let mut home = self.path.first().map_or(last_home, |step| usize::from(step.from));
        let node = |node: usize| Node(node as u16);
        let (from, to) = (node(home), node(home));
        sink.action(&PageAction { page, reference: 0, time: Time(0), kind: Kind::Place, from, to });
        let mut steps = self.path.iter().peekable();
        let mut reference = 0;
        for (event, run) in (0u32..).zip(runs) {
            if let Some(step) = steps.next_if(|step| step.event == event) {
                let to = usize::from(step.to);
                while home != to {
                    let hop = usize::from(self.paths.next[home * self.nodes + to]);
                    self.copies[home * self.nodes + hop] += 1;
                    let (from, to) = (node(home), node(hop));
                    sink.action(&PageAction { page, reference, time: run.first, kind: Kind::Move, from, to });
                    home = hop;
                }
            }
            self.references[run.node.index() * self.nodes + home] += run.references();
            reference += run.references();
        }
    }

    pub fn merge(&mut self, other: &GeneralSolver) {
        self.references.iter_mut().zip(&other.references).for_each(|(a, b)| *a += b);
        self.copies.iter_mut().zip(&other.copies).for_each(|(a, b)| *a += b);
    }

    /// The counts, the cost and the part of it that is copies.
    pub fn totals(&self) -> (Charges, f64, f64) {
        let mut counts = Charges::default();
        for (i, &n) in self.references.iter().enumerate() {
            *(if i / self.nodes == i % self.nodes { &mut counts.local } else { &mut counts.remote }) += n;
        }
        counts.copies = self.copies.iter().sum();
        counts.moves = counts.copies;
        let price =
            |n: &[u64], costs: &[f64]| -> f64 { n.iter().zip(costs).map(|(&n, c)| n as f64 * c).sum() };
        let copy_cost = price(&self.copies, &self.copy);
        (counts, price(&self.references, &self.access) + copy_cost, copy_cost)
    }
}
