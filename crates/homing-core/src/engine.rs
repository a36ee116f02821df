//! What lies between a policy and whoever carries out what it asks for: observations go to the policy, its actions to
//! an [`Executor`], the outcomes back to the policy. Three loops drive it, each in its own order: page histories
//! ([`crate::simulate`]), a trace behind caches ([`crate::system`]), and the live session (`homing_session`), which
//! is simulated as it is (`homing_session::simulated`).
//!
//! Page histories hand in whole page runs. A run is split only where the policy must be asked: at a fault,
//! where a [`Next`] comes due, at a write that meets several copies. The order of reads and writes within the middle of
//! a run is not recorded; it is taken as evenly spread, which keeps every read gap within the history's bound. Times
//! within a run are interpolated.

pub(crate) mod shape;
#[cfg(test)]
mod tests;

use crate::action::{Action, Actions, Entry, Kind, Locations, Outcome};
use crate::ids::{Node, Page, Time};
use crate::policy::pages::Pages;
use crate::policy::{Cause, Context, End, Fault, Next, Policy, Sample, ThreadMoved, ThreadsChanged};
use crate::process::HotArea;
use shape::Shape;

/// What a loop tells, in Time order, beside the references that wait to be served ([`Engine::part`]).
#[derive(Clone, Copy, Debug)]
pub enum Observation {
    /// References that were served elsewhere and seen by a monitor. `at` is filled in by the engine.
    Sample(Sample),
    /// A monitor's interval is over.
    IntervalEnd(Time),
    /// The program ended an iteration.
    IterationEnd(Time),
    /// The program begins a phase.
    PhaseBegin(u32, Time),
    /// A thread was moved.
    ThreadMoved(ThreadMoved),
    /// The number of threads changed.
    ThreadsChanged(ThreadsChanged),
    /// A page with this address is referred to for the first time.
    PageNew(Page, u64),
    /// A page's mapping went away.
    PageGone(Page),
    /// The page with this address lives on, but what was said of it no longer holds.
    Forget(Page, u64),
}

/// Carries actions out and knows where pages are.
pub trait Executor {
    /// Where a page is.
    fn at(&self, page: Page) -> Locations;

    /// Carries an action out and says what came of it.
    fn execute(&mut self, action: &Action) -> Outcome;

    /// References were served where the page is (simulation charges them; live memory has served them by itself).
    fn served(&mut self, _sample: &Sample) {}
}

/// What a page mapped remotely at a node waits for.
#[derive(Clone, Copy, Debug)]
enum Wait {
    Never,
    Left(u64),
    At(Time),
}

/// Why the engine collapses by itself.
const SINGLE_COPY: &str = "a write needs a single copy";

/// A policy and an executor, and what lies between them.
pub struct Engine<'p, E> {
    policy: &'p mut dyn Policy,
    executor: E,
    actions: Actions,
    taken: Vec<Action>,
    waits: Pages<Vec<(Node, Wait)>>,
    wants_samples: bool,
    wants_profiles: bool,
    log: Option<Vec<Entry>>,
    refused: u64,
    forced_collapses: u64,
    /// Intervals and iterations that have ended.
    intervals: u64,
    iterations: u64,
}

impl<'p, E: Executor> Engine<'p, E> {
    /// An engine without history. With `log`, every action is kept for [`Engine::finish`].
    pub fn new(policy: &'p mut dyn Policy, executor: E, log: bool) -> Self {
        let (wants_samples, wants_profiles) = (policy.wants_samples(), policy.wants_profiles());
        Engine {
            policy,
            executor,
            actions: Actions::default(),
            taken: Vec::new(),
            waits: Pages::default(),
            wants_samples,
            wants_profiles,
            log: log.then(Vec::new),
            refused: 0,
            forced_collapses: 0,
            intervals: 0,
            iterations: 0,
        }
    }

    /// Tells the policy what there is to know before the first observation.
    pub fn begin(&mut self, context: &Context) {
        self.policy.begin(context);
    }

    /// Takes one observation.
    pub fn observe(&mut self, observation: Observation) {
        match observation {
            Observation::Sample(sample) => {
                let at = self.executor.at(sample.page);
                self.sample(&Sample { at, ..sample });
            }
            Observation::IntervalEnd(time) => {
                self.interval_end(&End { number: self.intervals, time });
            }
            Observation::IterationEnd(time) => {
                self.iteration_end(&End { number: self.iterations, time });
            }
            Observation::PhaseBegin(phase, time) => {
                self.policy.phase_begin(phase, time, &mut self.actions);
                self.carry_out(time);
            }
            Observation::ThreadMoved(moved) => {
                self.policy.thread_moved(&moved, &mut self.actions);
                self.carry_out(moved.time);
            }
            Observation::ThreadsChanged(changed) => {
                self.policy.threads_changed(&changed, &mut self.actions);
                self.carry_out(changed.time);
            }
            Observation::PageNew(page, address) => self.policy.page_new(page, address),
            Observation::PageGone(page) => {
                self.policy.page_gone(page);
                self.waits.remove(page);
            }
            Observation::Forget(page, address) => {
                self.policy.page_forget(page, address);
                self.waits.remove(page);
            }
        }
    }

    /// The executor, the log of actions, and how many were refused and forced.
    pub fn finish(self) -> (E, Vec<Entry>, Counts) {
        let counts = Counts { refused: self.refused, forced_collapses: self.forced_collapses };
        (self.executor, self.log.unwrap_or_default(), counts)
    }

    /// Where a page is.
    pub fn at(&self, page: Page) -> Locations {
        self.executor.at(page)
    }

    /// The executor.
    pub fn executor(&self) -> &E {
        &self.executor
    }

    /// The executor, to let it do what it was asked for.
    pub fn executor_mut(&mut self) -> &mut E {
        &mut self.executor
    }

    /// Tells the policy what came of an action whose outcome was [`Outcome::Pending`].
    pub fn settle(&mut self, action: &Action, outcome: Outcome, time: Time) {
        self.policy.outcome(action, &outcome);
        if matches!(outcome, Outcome::Refused(_) | Outcome::Failed(_)) {
            self.refused += 1;
        }
        if let Some(log) = &mut self.log {
            log.push(Entry { time, action: *action, outcome });
        }
    }

    /// An interval is over; `end.number` may leave out intervals in which nothing was seen.
    pub fn interval_end(&mut self, end: &End) {
        self.intervals = end.number + 1;
        self.policy.interval_end(end, &mut self.actions);
        self.carry_out(end.time);
    }

    /// An iteration is over; as [`Engine::interval_end`].
    pub fn iteration_end(&mut self, end: &End) {
        self.iterations = end.number + 1;
        self.policy.iteration_end(end, &mut self.actions);
        self.carry_out(end.time);
    }

    /// Tells the policy what requests waited at each memory in the interval that is over.
    pub fn loads(&mut self, waits: &[f64]) {
        self.policy.loads(waits);
    }

    /// Tells the policy how long each node took for the interval that is over.
    pub fn paces(&mut self, paces: &[f64]) {
        self.policy.paces(paces);
    }

    /// Tells the policy the hot areas of all programs.
    pub fn areas(&mut self, areas: &[HotArea]) {
        self.policy.areas(areas);
    }

    /// True if the policy itself sends the pages of a thread that has moved after it.
    pub fn policy_forwards(&self) -> bool {
        self.policy.forwards()
    }

    /// True if the policy acts when a phase begins.
    pub fn policy_hurries(&self) -> bool {
        self.policy.hurries()
    }

    /// All references of a run.
    #[cfg(test)]
    pub(crate) fn run(&mut self, page: Page, run: &crate::history::PageRun) {
        let shape = Shape::new(run);
        self.part(page, &shape, 0, shape.len());
    }

    /// References `from..to` of a run: the policy is asked wherever one faults and told of all.
    pub(crate) fn part(&mut self, page: Page, shape: &Shape, mut from: u64, end: u64) {
        while from < end {
            let at = self.ask(page, shape, from);
            let to = self.end_of_stretch(page, shape, from, end, at);
            let sample = shape.sample(page, from, to, at);
            self.executor.served(&sample);
            self.sample(&sample);
            from = to;
        }
    }

    /// References `from..to` of a run that no monitor of the policy sees. Only a write that meets several copies
    /// faults, since it cannot go on.
    pub(crate) fn unseen(&mut self, page: Page, shape: &Shape, mut from: u64, end: u64) {
        while from < end {
            let mut at = self.executor.at(page);
            let mut to = end;
            if at.copies() > 1 {
                if shape.is_write(from) {
                    at = self.fault(page, shape, from, Cause::Write, at).0;
                }
                to = shape.next_write(from + 1).unwrap_or(end).min(end);
            }
            self.executor.served(&shape.sample(page, from, to, at));
            from = to;
        }
    }

    /// Takes counts of references, by page and node, whose order is not known, and is left with none.
    pub fn profiles(&mut self, counts: &mut Vec<Sample>) {
        if !self.wants_profiles {
            counts.drain(..).for_each(|count| self.observe(Observation::Sample(count)));
            return;
        }
        counts.sort_by_key(|count| count.page);
        for of_page in counts.chunk_by_mut(|a, b| a.page == b.page) {
            let (at, time) = (self.executor.at(of_page[0].page), of_page[0].time);
            of_page.iter_mut().for_each(|count| count.at = at);
            self.policy.profile(of_page, &mut self.actions);
            self.carry_out(time);
        }
        counts.clear();
    }

    fn sample(&mut self, sample: &Sample) {
        if self.wants_samples {
            self.policy.sample(sample, &mut self.actions);
            self.carry_out(sample.time);
        }
    }

    /// Lets the policy act before reference `from` of a run if that one faults. Returns where the page then is.
    fn ask(&mut self, page: Page, shape: &Shape, from: u64) -> Locations {
        let at = self.executor.at(page);
        let node = shape.node();
        let shared_write = at.copies() > 1 && shape.is_write(from);
        if at.holds(node) && !shared_write {
            return at;
        }
        let time = shape.time(from);
        let cause = match self.wait(page, node) {
            None if !at.holds(node) => Cause::Unmapped,
            Some(Wait::Left(0)) => Cause::Due,
            Some(Wait::At(due)) if due <= time => Cause::Due,
            _ if shared_write => Cause::Write,
            _ => return at,
        };
        let (at, next) = self.fault(page, shape, from, cause, at);
        if !at.holds(node) {
            let wait = match next {
                Next::Never => Wait::Never,
                Next::After(count) => Wait::Left(count.max(1)),
                Next::At(time) => Wait::At(time),
            };
            self.set_wait(page, node, wait);
        }
        at
    }

    /// Lets the policy act at a fault; a write then finds a single copy. Returns where the page is.
    fn fault(
        &mut self,
        page: Page,
        shape: &Shape,
        from: u64,
        cause: Cause,
        at: Locations,
    ) -> (Locations, Next) {
        let (node, time, write) = (shape.node(), shape.time(from), shape.is_write(from));
        let next = self.policy.fault(&Fault { page, node, write, time, cause, at }, &mut self.actions);
        self.carry_out(time);
        let mut at = self.executor.at(page);
        if write && at.copies() > 1 {
            let keep = if at.holds(node) { node } else { at.home() };
            self.perform(Action { page, kind: Kind::Collapse { keep }, reason: SINGLE_COPY }, time);
            self.forced_collapses += 1;
            at = self.executor.at(page);
        }
        (at, next)
    }

    /// The first reference of the run after `from` at which something could happen.
    fn end_of_stretch(&mut self, page: Page, shape: &Shape, from: u64, end: u64, at: Locations) -> u64 {
        let mut to = end;
        if at.copies() > 1 {
            to = to.min(shape.next_write(from).unwrap_or(to));
        }
        let node = shape.node();
        if at.holds(node) {
            return to;
        }
        match self.wait_mut(page, node) {
            Some(Wait::Left(left)) => {
                to = to.min(from.saturating_add(*left));
                *left -= to - from;
            }
            Some(Wait::At(due)) => to = to.min(shape.position(*due).max(from + 1)),
            Some(Wait::Never) | None => {}
        }
        to
    }

    fn wait(&mut self, page: Page, node: Node) -> Option<Wait> {
        self.wait_mut(page, node).copied()
    }

    fn wait_mut(&mut self, page: Page, node: Node) -> Option<&mut Wait> {
        let waits = self.waits.get_mut(page)?;
        waits.iter_mut().find(|(waiting, _)| *waiting == node).map(|(_, wait)| wait)
    }

    fn set_wait(&mut self, page: Page, node: Node, wait: Wait) {
        match self.wait_mut(page, node) {
            Some(old) => *old = wait,
            None => self.waits.entry(page, Vec::new).push((node, wait)),
        }
    }

    fn carry_out(&mut self, time: Time) {
        if self.actions.is_empty() {
            return;
        }
        let mut taken = std::mem::take(&mut self.taken);
        self.actions.take(&mut taken);
        for action in taken.drain(..) {
            self.perform(action, time);
        }
        self.taken = taken;
    }

    fn perform(&mut self, action: Action, time: Time) {
        let outcome = self.executor.execute(&action);
        self.policy.outcome(&action, &outcome);
        match outcome {
            // Whatever changes where a page is tears its mappings down, so every node without a copy faults again.
            Outcome::Done | Outcome::Pending if action.kind != Kind::Freeze => {
                if let Some(waits) = self.waits.get_mut(action.page) {
                    waits.clear();
                }
            }
            Outcome::Done | Outcome::Pending | Outcome::Already => {}
            Outcome::Refused(_) | Outcome::Failed(_) => self.refused += 1,
        }
        if let Some(log) = &mut self.log {
            log.push(Entry { time, action, outcome });
        }
    }
}

/// What did not go as the policy asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Actions that were refused or failed.
    pub refused: u64,
    /// Times a write met several copies and the policy left them there.
    pub forced_collapses: u64,
}

impl Counts {
    /// Adds other counts.
    pub fn add(&mut self, other: &Counts) {
        self.refused += other.refused;
        self.forced_collapses += other.forced_collapses;
    }
}
