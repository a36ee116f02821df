//! The off-line optimum (Bolosky & Scott 1991, section 3): the cheapest placement that any policy could have reached on
//! a trace, exactly, and what it consists of.
//!
//! Pages are independent, so the optimum of a trace is the sum over its pages. Each page takes two passes over its page
//! runs. The forward pass ([`single`], [`replicated`], [`with_global`], [`general`]) is a dynamic program over where
//! the page is after each write; it keeps only the nodes that a step involves, so its time does not depend on the
//! number of nodes. It leaves a [`trail`] of home changes. The second pass ([`replay`]) walks the runs along the
//! cheapest trail, decides the replicas of each stretch of reads, counts in integers, and can say every action.
//! [`curve`] gives the exact cost as a function of one of r, R, g and G, [`windows`] an estimate of the bound of a
//! program of which windows were recorded, [`load`] a bound on modelled time that counts what memories and links serve.
//!
//! `docs/optimal.md` has the derivations; `tests/optimal/` compares with an exhaustive search over all location sets.

pub mod action;
pub mod curve;
pub mod load;
pub mod sampled;
pub mod windows;

mod general;
mod replay;
mod replicated;
mod single;
mod trail;
mod uniform;
mod with_global;

pub use action::{Kind, PageAction, Sink};

use crate::account::Charges;
use crate::history::{History, PageRun, SpillError};
use crate::ids::{Node, Page};
use crate::machine::Costs;
use general::GeneralSolver;
use rayon::prelude::*;
use std::fmt;
use uniform::UniformSolver;

/// What the optimum may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether pages may be replicated while they are only read.
    pub replication: bool,
    /// Where pages may be at the first reference.
    pub start: Start,
}

impl Default for Options {
    fn default() -> Options {
        Options { replication: true, start: Start::OneCopy }
    }
}

/// Where a page may be, free of charge, when it is referenced for the first time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// In any one memory: the paper's algorithms (Figures 1 and 3), which start from one copy.
    #[default]
    OneCopy,
    /// In any set of memories that the first reference allows: equation (2) to the letter, which charges nothing for
    /// P_0. Pages that are only read then cost nothing but their references.
    AnySet,
    /// At the node of the first reference, as first touch places it.
    FirstTouch,
}

impl fmt::Display for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Start::OneCopy => "one-copy",
            Start::AnySet => "any-set",
            Start::FirstTouch => "first-touch",
        })
    }
}

/// Why there is no optimum.
#[derive(Debug, thiserror::Error)]
pub enum OptimalError {
    /// The history cannot be read back.
    #[error(transparent)]
    Spill(#[from] SpillError),
    /// A page with more page runs than the trail can number.
    #[error(
        "page {page} has more than 2^30 page runs: split the trace or raise the page's share with a larger \
    --page-size"
    )]
    TooManyRuns {
        /// The page.
        page: Page,
    },
}

/// The optimum of a trace on a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Optimum {
    /// Number of pages.
    pub pages: u64,
    /// What the cheapest placement does.
    pub counts: Charges,
    /// Its cost in local word references, priced from the counts.
    pub cost: f64,
    /// The part of the cost that is page copies.
    pub copy_cost: f64,
    /// Whether replication was allowed; general machines are bounded without.
    pub replication: bool,
}

/// The optimum of one page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PageOptimum {
    /// Its cost in local word references.
    pub cost: f64,
    /// Where the page starts; one of several homes if it starts replicated.
    pub first_home: Node,
    /// Its home after its last write.
    pub last_home: Node,
}

impl Optimum {
    /// Mean cost per reference; 1 for a trace without references.
    pub fn mcpr(&self) -> f64 {
        match self.counts.references() {
            0 => 1.0,
            n => self.cost / n as f64,
        }
    }
}

/// The cheapest placement of all pages of a history. Uses all threads of the current rayon pool; the result is the same
/// for any number of threads. The history must have been built with at most `costs.read_gap()`.
pub fn solve(history: &History, costs: &Costs, options: Options) -> Result<Optimum, OptimalError> {
    let solver = (0..history.pages())
        .into_par_iter()
        .try_fold(
            || Solver::new(costs, options),
            |mut solver, page| {
                solver.page_of(history, Page(page), &mut ())?;
                Ok::<_, OptimalError>(solver)
            },
        )
        .try_reduce(
            || Solver::new(costs, options),
            |mut a, b| {
                a.merge(&b);
                Ok(a)
            },
        )?;
    Ok(solver.finish())
}

/// Like [`solve`], and reports the placement to `sink`: where each page starts and every action, page by page.
pub fn place(
    history: &History,
    costs: &Costs,
    options: Options,
    sink: &mut impl Sink,
) -> Result<Optimum, OptimalError> {
    let mut total = Solver::new(costs, options);
    let pages: Vec<u32> = (0..history.pages()).collect();
    for chunk in pages.chunks(1 << 12) {
        let part = |pages: &[u32]| {
            let (mut solver, mut actions) = (Solver::new(costs, options), Vec::new());
            for &page in pages {
                solver.page_of(history, Page(page), &mut actions)?;
            }
            Ok::<_, OptimalError>((solver, actions))
        };
        let parts: Vec<_> = chunk.par_chunks(64).map(part).collect::<Result<_, _>>()?;
        for (solver, actions) in parts {
            total.merge(&solver);
            actions.iter().for_each(|action| sink.action(action));
        }
    }
    Ok(total.finish())
}

/// Bounds pages one after the other and adds up; for callers that have runs but no [`History`].
pub struct Solver {
    kind: Kinds,
    start: Start,
    pages: u64,
}

enum Kinds {
    Uniform(Box<UniformSolver>, Charges),
    General(Box<GeneralSolver>),
}

impl Solver {
    /// A solver for one machine.
    pub fn new(costs: &Costs, options: Options) -> Solver {
        let kind = match costs {
            Costs::Uniform(uniform) => {
                Kinds::Uniform(Box::new(UniformSolver::new(*uniform, options)), Charges::default())
            }
            Costs::General(general) => Kinds::General(Box::new(GeneralSolver::new(general, options.start))),
        };
        Solver { kind, start: options.start, pages: 0 }
    }

    /// Adds one page. Every run's node must be a node of the machine.
    pub fn page(
        &mut self,
        page: Page,
        runs: impl Iterator<Item = PageRun> + Clone,
        sink: &mut impl Sink,
    ) -> Result<PageOptimum, OptimalError> {
        self.page_from(page, None, runs, sink)
    }

    /// Adds a page of a history.
    ///
    /// # Errors
    /// If the history cannot be read back, or the page has too many runs.
    pub fn page_of(
        &mut self,
        history: &History,
        page: Page,
        sink: &mut impl Sink,
    ) -> Result<PageOptimum, OptimalError> {
        let start = history.maker(page).filter(|_| self.start == Start::FirstTouch);
        self.page_from(page, start, history.runs(page)?, sink)
    }

    /// Adds one page that begins with its copy at a node, and pays for leaving it, if one is given; else as the options
    /// say.
    pub fn page_from(
        &mut self,
        page: Page,
        start: Option<Node>,
        runs: impl Iterator<Item = PageRun> + Clone,
        sink: &mut impl Sink,
    ) -> Result<PageOptimum, OptimalError> {
        self.pages += 1;
        match &mut self.kind {
            Kinds::Uniform(solver, counts) => {
                let placed = solver.page(page, start, runs, sink)?;
                *counts += placed.counts;
                let cost = placed.counts.cost(&solver.costs);
                Ok(PageOptimum { cost, first_home: placed.first_home, last_home: placed.last_home })
            }
            Kinds::General(solver) => solver.page(page, start, runs, sink),
        }
    }

    /// Adds the pages of another solver for the same machine.
    pub fn merge(&mut self, other: &Solver) {
        self.pages += other.pages;
        match (&mut self.kind, &other.kind) {
            (Kinds::Uniform(_, counts), Kinds::Uniform(_, more)) => *counts += *more,
            (Kinds::General(solver), Kinds::General(other)) => solver.merge(other),
            _ => unreachable!("solvers of one machine are of one kind"),
        }
    }

    /// The optimum of the pages so far.
    pub fn finish(&self) -> Optimum {
        let pages = self.pages;
        match &self.kind {
            Kinds::Uniform(solver, counts) => Optimum {
                pages,
                counts: *counts,
                cost: counts.cost(&solver.costs),
                copy_cost: counts.copy_cost(&solver.costs),
                replication: solver.options.replication,
            },
            Kinds::General(solver) => {
                let (counts, cost, copy_cost) = solver.totals();
                Optimum { pages, counts, cost, copy_cost, replication: false }
            }
        }
    }
}
