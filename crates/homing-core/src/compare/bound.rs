//! The bound of a trace, split by sharing class, and first touch beside it.

use super::{CompareError, Subject};
use crate::ids::{Node, Page};
use crate::optimal::{Kind, Optimum, Options, PageAction, Sink, Solver};
use crate::policy::placement::Placement;
use crate::policy::table;
use crate::sharing::{PageUse, SharingClass};
use crate::simulate::Simulation;
use rayon::prelude::*;
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// Where the optimum that policies are measured against begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BoundStart {
    /// With each page where that is cheapest, free of charge: Bolosky & Scott 1991, section 3. Policies that begin
    /// elsewhere pay for it.
    #[default]
    OneCopy,
    /// With each page where the policy begins with it: what any policy could have reached from there. A page that
    /// begins in global memory may begin in any one memory.
    Same,
}

impl fmt::Display for BoundStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BoundStart::OneCopy => "one-copy",
            BoundStart::Same => "same",
        })
    }
}

impl FromStr for BoundStart {
    type Err = String;

    fn from_str(text: &str) -> Result<BoundStart, String> {
        let all = [BoundStart::OneCopy, BoundStart::Same];
        let named = all.into_iter().find(|start| start.to_string() == text);
        named.ok_or_else(|| format!("start of the bound `{text}`: expected one-copy or same"))
    }
}

/// The optimum of all pages.
#[derive(Clone)]
pub struct Floor {
    /// The optimum.
    pub optimum: Optimum,
    /// Its cost for each class of [`SharingClass::ALL`].
    pub class_costs: Vec<f64>,
    /// Home of each page at the end of the optimal placement.
    pub last_homes: Vec<Node>,
}

/// What rows are measured against.
pub struct Bound {
    /// The optimum, from where [`BoundStart`] says; with `Same` from where the subject's pages begin.
    pub floor: Floor,
    /// First touch.
    pub first_touch: Simulation,
    first_touch_cost: f64,
    classes: Vec<SharingClass>,
    /// Where pages begin, if the bound begins there too.
    starts: Option<Vec<Node>>,
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

impl Floor {
    /// Bounds every page, from `starts` if they are given.
    fn new(
        subject: &Subject,
        classes: &[SharingClass],
        starts: Option<&[Node]>,
    ) -> Result<Floor, CompareError> {
        let options = Options { replication: subject.replicates(), ..Options::default() };
        let new = || SharingClass::ALL.map(|_| Solver::new(subject.costs, options));
        let chunks = subject.history.pages().div_ceil(PAGES_AT_A_TIME);
        let anywhere = subject.costs.global_node();
        let start = |page: Page| starts.map(|starts| starts[page.index()]).filter(|&at| Some(at) != anywhere);
        let part = |chunk: u32| -> Result<_, CompareError> {
            let mut solvers = new();
            let mut homes = Vec::new();
            let first = chunk * PAGES_AT_A_TIME;
            for page in (first..subject.history.pages().min(first + PAGES_AT_A_TIME)).map(Page) {
                let mut home = LastHome(Node(0));
                let solver = &mut solvers[classes[page.index()] as usize];
                solver.page_from(page, start(page), subject.history.runs(page)?, &mut home)?;
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
        Ok(Floor { optimum: all.finish(), class_costs, last_homes })
    }
}

impl Bound {
    /// Bounds every page. `uses` has one entry a page.
    pub fn new(subject: &Subject, uses: &[PageUse]) -> Result<Bound, CompareError> {
        let classes: Vec<SharingClass> = uses.iter().map(|page| page.class).collect();
        let starts = match subject.bound_start {
            BoundStart::OneCopy => None,
            BoundStart::Same => Some(starts(subject)?),
        };
        let floor = Floor::new(subject, &classes, starts.as_deref())?;
        let first_touch = table::find("first-touch").expect("the table has first touch");
        let first_touch = subject.simulate(first_touch, false)?;
        let first_touch_cost = first_touch.account.cost(subject.costs);
        Ok(Bound { floor, first_touch, first_touch_cost, classes, starts })
    }

    /// The optimum that a simulation is measured against: the bound itself, or one that begins where the simulation
    /// began.
    pub fn floor_of(&self, subject: &Subject, result: &Simulation) -> Result<Cow<'_, Floor>, CompareError> {
        match &self.starts {
            Some(starts) if *starts != result.first_homes => {
                Ok(Cow::Owned(Floor::new(subject, &self.classes, Some(&result.first_homes))?))
            }
            _ => Ok(Cow::Borrowed(&self.floor)),
        }
    }

    /// The share that a cost recovers of what first touch loses to an optimum, if it loses anything.
    pub fn recovered_percent(&self, cost: f64, optimum: &Optimum) -> Option<f64> {
        let loss = self.first_touch_cost - optimum.cost;
        (loss > 1e-9 * optimum.cost).then(|| 100.0 * (self.first_touch_cost - cost) / loss)
    }
}

/// Where the subject's pages begin.
fn starts(subject: &Subject) -> Result<Vec<Node>, CompareError> {
    let placement = subject.placement.unwrap_or(&Placement::FirstTouch);
    let start = |page| Ok(placement.start(subject.history, Page(page), subject.costs)?.node);
    (0..subject.history.pages()).into_par_iter().map(start).collect()
}
