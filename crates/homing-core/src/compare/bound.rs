//! The bound of a trace, split by sharing class, and first touch beside it.

use super::{CompareError, Subject};
use crate::ids::{Node, Page};
use crate::optimal::{Kind, Optimum, Options, PageAction, Sink, Solver};
use crate::policy::table;
use crate::sharing::{Class, PageUse};
use crate::simulate::Simulation;
use rayon::prelude::*;

/// What rows are measured against.
pub struct Bound {
    /// The optimum of all pages.
    pub optimum: Optimum,
    /// Its cost for each class of [`Class::ALL`].
    pub class_costs: Vec<f64>,
    /// Home of each page at the end of the optimal placement.
    pub last_homes: Vec<Node>,
    /// First touch.
    pub first_touch: Simulation,
    first_touch_cost: f64,
}

/// Remembers where the home is.
struct LastHome(Node);

impl Sink for LastHome {
    fn action(&mut self, action: &PageAction) {
        if action.kind != Kind::Replicate {
            self.0 = action.to;
        }
    }
}

/// Pages that one worker takes at a time.
const PAGES_AT_A_TIME: u32 = 1024;

impl Bound {
    /// Bounds every page. `uses` has one entry a page.
    pub fn new(subject: &Subject, uses: &[PageUse]) -> Result<Bound, CompareError> {
        let options = Options { replication: subject.replicates(), ..Options::default() };
        let new = || Class::ALL.map(|_| Solver::new(subject.costs, options));
        let chunks = subject.history.pages().div_ceil(PAGES_AT_A_TIME);
        let part = |chunk: u32| -> Result<_, CompareError> {
            let mut solvers = new();
            let mut homes = Vec::new();
            let first = chunk * PAGES_AT_A_TIME;
            for page in (first..subject.history.pages().min(first + PAGES_AT_A_TIME)).map(Page) {
                let mut home = LastHome(Node(0));
                let solver = &mut solvers[uses[page.index()].class as usize];
                solver.page(page, subject.history.runs(page)?, &mut home)?;
                homes.push(home.0);
            }
            Ok((solvers, homes))
        };
        let parts: Vec<_> = (0..chunks).into_par_iter().map(part).collect::<Result<_, _>>()?;
        let (mut solvers, mut last_homes) = (new(), Vec::new());
        for (part, mut homes) in parts {
            solvers.iter_mut().zip(&part).for_each(|(solver, part)| solver.merge(part));
            last_homes.append(&mut homes);
        }
        let class_costs = solvers.iter().map(|solver| solver.finish().cost).collect();
        let mut all = Solver::new(subject.costs, options);
        solvers.iter().for_each(|solver| all.merge(solver));
        let first_touch = table::find("first-touch").expect("the table has first touch");
        let first_touch = subject.simulate(first_touch, false)?;
        let first_touch_cost = first_touch.account.cost(subject.costs);
        Ok(Bound { optimum: all.finish(), class_costs, last_homes, first_touch, first_touch_cost })
    }

    /// The share that a cost recovers of what first touch loses, if it loses anything.
    pub fn recovered_percent(&self, cost: f64) -> Option<f64> {
        let loss = self.first_touch_cost - self.optimum.cost;
        (loss > 1e-9 * self.optimum.cost).then(|| 100.0 * (self.first_touch_cost - cost) / loss)
    }

    /// First touch's non-local references in per cent.
    pub fn first_touch_nonlocal(&self) -> f64 {
        let account = &self.first_touch.account;
        match account.references() {
            0 => 0.0,
            references => 100.0 * (account.remote + account.global) as f64 / references as f64,
        }
    }
}
