//! Makes the decisions of a teed log again.

use super::{Journal, JournalError, Line};
use crate::plan::PLANNED;
use crate::session::threads::FORWARDED;
use homing_core::action::{Action, Locations, Outcome};
use homing_core::engine::{Engine, Executor, Observation};
use homing_core::ids::{Node, Page, Thread, Time};
use homing_core::policy::settings::Settings;
use homing_core::policy::{table, Sample, ThreadMoved, ThreadsChanged};
use serde::Serialize;
use std::collections::VecDeque;

/// Reasons of moves that the session made by itself.
const OTHERS: [&str; 2] = [FORWARDED, PLANNED];

/// What [`check`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// Things that the policy was told.
    pub observations: u64,
    /// Actions in the log.
    pub actions: u64,
    /// Actions that the policy asked for again, the same in the same place.
    pub same: u64,
    /// The first that was not, in words.
    pub first_difference: Option<String>,
}

/// Tells a fresh policy everything that a teed log says, and compares what it asks for.
///
/// # Errors
/// If the log is not teed, or names a policy or parameters that do not exist.
pub fn check(journal: &Journal) -> Result<Checked, JournalError> {
    let fail = |message: String| JournalError::Line { line: 1, message };
    if !journal.header.teed {
        return Err(fail("holds decisions only: expected a log written with --tee".into()));
    }
    let entry = table::find(&journal.header.policy)
        .ok_or_else(|| fail(format!("no policy `{}`", journal.header.policy)))?;
    let mut settings = Settings::default();
    for set in &journal.header.set {
        settings.set(set).map_err(fail)?;
    }
    let mut policy = entry.make(&journal.header.prices.clone().into(), false, &settings);
    let mut engine = Engine::new(&mut *policy, Recorded::default(), false);
    engine.begin(&journal.header.context);
    let mut lines = journal.lines.iter().peekable();
    let mut checked = Checked::default();
    while let Some(line) = lines.next() {
        while let Some(action @ Line::Action { reason, .. }) = lines.peek() {
            if OTHERS.contains(&reason.as_str()) {
                lines.next();
                continue;
            }
            engine.executor_mut().expected.push_back((*action).clone());
            checked.actions += 1;
            lines.next();
        }
        engine.executor_mut().at = at(line);
        checked.observations += 1;
        tell(&mut engine, line);
        engine.executor_mut().end_of_observation(line);
    }
    let (recorded, ..) = engine.finish();
    (checked.same, checked.first_difference) = (recorded.same, recorded.difference);
    Ok(checked)
}

fn at(line: &Line) -> Node {
    match line {
        Line::Sample { at, .. } => Node(*at),
        _ => Node(0),
    }
}

fn tell(engine: &mut Engine<Recorded>, line: &Line) {
    match line {
        Line::Sample { t, page, node, store, weight, at } => {
            engine.observe(Observation::Sample(Sample {
                page: Page(*page),
                node: Node(*node),
                reads: u64::from(!store),
                writes: u64::from(*store),
                weight: *weight,
                time: Time(*t),
                at: Locations::single(Node(*at)),
            }));
        }
        Line::Interval { t } => engine.observe(Observation::IntervalEnd(Time(*t))),
        Line::ThreadMoved { t, thread, from, to } => engine.observe(Observation::ThreadMoved(ThreadMoved {
            thread: Thread(*thread),
            from: Node(*from),
            to: Node(*to),
            time: Time(*t),
        })),
        Line::ThreadsChanged { t, threads } => {
            let changed = ThreadsChanged { threads: *threads, time: Time(*t) };
            engine.observe(Observation::ThreadsChanged(changed));
        }
        Line::New { page, address } => engine.observe(Observation::PageNew(Page(*page), *address)),
        Line::Gone { page } => engine.observe(Observation::PageGone(Page(*page))),
        Line::Result { t, page, action, outcome } => {
            let action = Action { page: Page(*page), kind: *action, reason: "as in the journal" };
            engine.settle(&action, outcome.outcome(), Time(*t));
        }
        // Actions stand here only where a log begins with one; what is split is told as gone.
        Line::Action { .. } | Line::Split { .. } => {}
    }
}

/// Memory as a log says it was.
#[derive(Default)]
struct Recorded {
    at: Node,
    expected: VecDeque<Line>,
    same: u64,
    difference: Option<String>,
}

impl Recorded {
    fn differ(&mut self, message: String) {
        self.difference.get_or_insert(message);
    }

    fn end_of_observation(&mut self, line: &Line) {
        if let Some(missing) = self.expected.pop_front() {
            self.differ(format!("after {line:?}: the log has {missing:?}, the policy asked for nothing"));
            self.expected.clear();
        }
    }
}

impl Executor for Recorded {
    fn at(&self, _: Page) -> Locations {
        Locations::single(self.at)
    }

    fn execute(&mut self, asked: &Action) -> Outcome {
        match self.expected.pop_front() {
            Some(Line::Action { page, action, reason, outcome, .. })
                if (page, action, reason.as_str()) == (asked.page.0, asked.kind, asked.reason) =>
            {
                self.same += 1;
                outcome.outcome()
            }
            other => {
                self.differ(format!("the policy asked for {asked:?}, the log has {other:?}"));
                Outcome::Done
            }
        }
    }
}
