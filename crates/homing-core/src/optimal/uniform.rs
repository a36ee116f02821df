//! One page on a uniform machine: the forward pass that fits the machine, then the replay.

use super::replay::Replay;
use super::replicated::Replicated;
use super::single::Single;
use super::trail::{Forward, Step, Trail};
use super::with_global::WithGlobal;
use super::{OptimalError, Options, Sink, Start};
use crate::account::Charges;
use crate::history::PageRun;
use crate::ids::{Node, Page};
use crate::machine::Uniform;

/// More page runs of one page than this do not fit a [`Trail`].
pub(super) const MAX_RUNS: u32 = 1 << 30;

pub(super) struct UniformSolver {
    pub costs: Uniform,
    pub options: Options,
    forward: Pass,
    trail: Trail,
    path: Vec<Step>,
    replay: Replay,
}

/// The cheapest placement of one page.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Placed {
    pub counts: Charges,
    pub first_home: Node,
    pub last_home: Node,
}

enum Pass {
    Single(Single<false>),
    SingleGlobal(Single<true>),
    Replicated(Replicated),
    WithGlobal(WithGlobal),
}

impl UniformSolver {
    pub fn new(costs: Uniform, options: Options) -> UniformSolver {
        let forward = match (options.replication, &costs.global) {
            (false, None) => Pass::Single(Single::new(&costs)),
            (false, Some(_)) => Pass::SingleGlobal(Single::new(&costs)),
            (true, None) => Pass::Replicated(Replicated::new(&costs)),
            (true, Some(global)) => Pass::WithGlobal(WithGlobal::new(&costs, global)),
        };
        let replay = Replay::new(&costs, options);
        UniformSolver { costs, options, forward, trail: Trail::default(), path: Vec::new(), replay }
    }

    /// `at`: where the page begins, if it is not as the options say.
    pub fn page(
        &mut self,
        page: Page,
        at: Option<Node>,
        runs: impl Iterator<Item = PageRun> + Clone,
        sink: &mut impl Sink,
    ) -> Result<Placed, OptimalError> {
        let Some(first) = runs.clone().next() else { return Ok(Placed::default()) };
        self.trail.clear();
        let first_touch = (self.options.start == Start::FirstTouch).then_some(first.node);
        let start = at.or(first_touch).map(Node::index);
        let free = start.is_none() && self.options.start == Start::AnySet;
        let (trail, again) = (&mut self.trail, runs.clone());
        let end = match &mut self.forward {
            Pass::Single(pass) => forward(pass, start, free, again, trail),
            Pass::SingleGlobal(pass) => forward(pass, start, free, again, trail),
            Pass::Replicated(pass) => forward(pass, start, free, again, trail),
            Pass::WithGlobal(pass) => forward(pass, start, free, again, trail),
        };
        let (home, link) = end.ok_or(OptimalError::TooManyRuns { page })?;
        self.trail.path(link, &mut self.path);
        let first_home = self.path.first().map_or(home, |step| usize::from(step.from));
        let counts = self.replay.page(page, runs, home, &self.path, free, sink);
        Ok(Placed { counts, first_home: Node(first_home as u16), last_home: Node(home as u16) })
    }
}

/// Runs one pass over one page; `None` if it has too many runs.
fn forward(
    pass: &mut impl Forward,
    first: Option<usize>,
    free_reads: bool,
    runs: impl Iterator<Item = PageRun>,
    trail: &mut Trail,
) -> Option<(usize, u32)> {
    pass.begin(first, free_reads);
    for (event, run) in (0u32..).zip(runs) {
        if event >= MAX_RUNS {
            return None;
        }
        pass.run(event, &run, trail);
    }
    Some(pass.end())
}
