//! Tells a fresh session what a teed log says, and compares what it asks for.

use super::{Journal, JournalError, Line};
use homing_core::policy::settings::Settings as Parameters;
use homing_core::policy::table;
use homing_core::policy::Policy;
use homing_session::output::RecordedOutcome;
use homing_session::threads::FORWARDED;
use homing_session::{Input, Output, Session, Settings, Setup};
use serde::Serialize;
use std::collections::VecDeque;

/// What [`check`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// Things that the session was told.
    pub observations: u64,
    /// Things that it asked for, in the log: decisions of the policy, forwarded and planned moves, refused ones,
    /// orders, splits, scans, questions.
    pub actions: u64,
    /// Those that it asked for again, the same in the same place.
    pub same: u64,
    /// Of these, moves that have landed.
    pub moves: u64,
    /// Of these, pages that were sent after their threads.
    pub forwarded: u64,
    /// The first that was not, in words.
    pub first_difference: Option<String>,
}

/// Tells a fresh session everything that a teed log says, and compares all that it asks for.
///
/// # Errors
/// If the log is not teed, was written before raw logs, or names a policy or parameters that do not exist.
pub fn check(journal: &Journal) -> Result<Checked, JournalError> {
    let (settings, mut policy) =
        prepare(journal).map_err(|message| JournalError::Line { line: 1, message })?;
    let (context, plan) = (journal.header.context.clone(), journal.header.plan.clone());
    let setup = Setup { settings, policy: &mut *policy, context, plan, record: true };
    let mut comparison = Comparison {
        session: Session::new(setup),
        asked: VecDeque::new(),
        ended: false,
        checked: Checked::default(),
    };
    for line in &journal.lines {
        comparison.take(line);
    }
    if comparison.ended {
        // Without an end the engine was killed, and its last lines may be missing.
        comparison.nothing_more();
    }
    Ok(comparison.checked)
}

/// What the session goes by, and its policy.
fn prepare(journal: &Journal) -> Result<(Settings, Box<dyn Policy>), String> {
    let header = &journal.header;
    let settings = header.settings.clone().filter(|_| header.teed);
    let settings = settings.ok_or("holds decisions only: expected a log written with --tee")?;
    let entry = table::find(&header.policy).ok_or_else(|| format!("no policy `{}`", header.policy))?;
    let mut parameters = Parameters::default();
    for set in &header.set {
        parameters.set(set)?;
    }
    Ok((settings, entry.make(&header.prices.clone().into(), false, &parameters)))
}

/// A session that is told what a log says.
struct Comparison<'p> {
    session: Session<'p>,
    /// What it asked for and the log has not confirmed yet.
    asked: VecDeque<Output>,
    /// The log has come to its end.
    ended: bool,
    checked: Checked,
}

impl Comparison<'_> {
    fn take(&mut self, line: &Line) {
        match line {
            Line::Input { t, input } => {
                self.nothing_more();
                self.checked.observations += 1;
                self.ended = *input == Input::End;
                let mut asked = Vec::new();
                self.session.input(*t, input.clone(), &mut asked);
                self.asked.extend(asked);
            }
            Line::Action(decided) => self.compare(&Output::Decided(decided.clone())),
            Line::Result(settlement) => self.compare(&Output::Settled(settlement.clone())),
            Line::Split(split) => self.compare(&Output::WasSplit(split.clone())),
            Line::Output { output } => self.compare(output),
        }
    }

    fn compare(&mut self, logged: &Output) {
        self.checked.actions += 1;
        match self.asked.pop_front() {
            Some(asked) if asked == *logged => self.confirm(&asked),
            Some(asked) => self.differ(format!("the session asked for {asked:?}, the log has {logged:?}")),
            None => self.differ(format!("the session asked for nothing, the log has {logged:?}")),
        }
    }

    fn confirm(&mut self, asked: &Output) {
        self.checked.same += 1;
        match asked {
            Output::Settled(settled) => {
                self.checked.moves += u64::from(settled.outcome == RecordedOutcome::Done);
            }
            Output::Decided(decided) => self.checked.forwarded += u64::from(decided.reason == FORWARDED),
            _ => {}
        }
    }

    /// The log has nothing more that came of the last input.
    fn nothing_more(&mut self) {
        if let Some(asked) = self.asked.pop_front() {
            self.differ(format!("the session asked for {asked:?}, the log has nothing"));
            self.asked.clear();
        }
    }

    fn differ(&mut self, message: String) {
        let place = self.checked.observations;
        self.checked.first_difference.get_or_insert(format!("after input {place}: {message}"));
    }
}
