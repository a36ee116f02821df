//! How each state of a forward pass came about: its changes of home, as a tree of steps in which states share their
//! common past.

/// A step number; [`START`] for a page that has not changed its home.
pub(super) type Link = u32;

/// The trail of a state that has been in one place from the start.
pub(super) const START: Link = u32::MAX;

/// A change of home in page run number `event` of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    previous: Link,
    pub event: u32,
    pub from: u16,
    pub to: u16,
}

/// All steps of one page.
#[derive(Debug, Default)]
pub(super) struct Trail {
    steps: Vec<Step>,
}

impl Trail {
    pub fn clear(&mut self) {
        self.steps.clear();
    }

    /// Goes on from `previous`, at node `from`, to `to`.
    #[inline]
    pub fn step(&mut self, previous: Link, event: u32, from: usize, to: usize) -> Link {
        self.steps.push(Step { previous, event, from: from as u16, to: to as u16 });
        (self.steps.len() - 1) as Link
    }

    /// The steps that lead to `end`, in order.
    pub fn path(&self, end: Link, path: &mut Vec<Step>) {
        path.clear();
        let mut link = end;
        while link != START {
            let step = self.steps[link as usize];
            path.push(step);
            link = step.previous;
        }
        path.reverse();
    }
}

/// The cheapest way to have a page in one memory: its cost, up to a term common to all memories, and its past.
#[derive(Clone, Copy, Debug)]
pub(super) struct State {
    pub cost: f64,
    pub trail: Link,
}

impl State {
    /// The page starts here free of charge.
    pub const FREE: State = State { cost: 0.0, trail: START };
    /// The page cannot be here.
    pub const NEVER: State = State { cost: f64::INFINITY, trail: START };
}

/// A forward pass over the page runs of one page.
pub(super) trait Forward {
    /// Begins a page. `first`: the only node where it may start, or any; `free_reads`: reads before the first write
    /// cost nothing to place (the page starts replicated).
    fn begin(&mut self, first: Option<usize>, free_reads: bool);

    /// Takes the next run, number `event`.
    fn run(&mut self, event: u32, run: &crate::history::PageRun, trail: &mut Trail);

    /// Ends the page: the cheapest last home and its trail.
    fn end(&mut self) -> (usize, Link);
}
