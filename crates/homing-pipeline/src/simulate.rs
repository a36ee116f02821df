//! What one policy would do on a trace and a machine, and how far that is from the bound.

use crate::case::Case;
use crate::error::{PipelineError, Result};
use crate::external::External;
use crate::info;
use crate::placement::located;
use crate::policies::policy;
use homing_core::compare::{note_counts, requesters, Requester, Subject};
use homing_core::policy::placement::{Placement, PlacementFile};
use homing_core::policy::table::Entry;
use homing_core::report::{Parameter, Row};
use homing_core::simulate::Simulation;
use std::time::{Duration, Instant};

/// A policy that a user names.
#[derive(Clone)]
pub enum Chosen {
    /// One of the table.
    Own(&'static Entry),
    /// A process of its own.
    External {
        /// What starts it: words separated by blanks.
        command: String,
        /// The longest that it may take for an answer.
        timeout: Duration,
    },
}

/// What a policy did.
pub struct Simulated {
    /// The row of the bound.
    pub optimal: Row,
    /// The policy's row.
    pub row: Row,
    /// What was counted, and every action if they were kept.
    pub result: Simulation,
    /// What a reader of the results must know.
    pub notes: Vec<String>,
    /// What it was made of, for a manifest.
    pub parameters: Vec<Parameter>,
}

impl Chosen {
    /// A policy by its name, or `external:COMMAND`. `timeout`: what a process may take for an answer.
    pub fn parse(name: &str, timeout: Duration) -> Result<Chosen> {
        let Some(command) = name.strip_prefix("external:") else { return Ok(Chosen::Own(policy(name)?)) };
        if command.trim().is_empty() {
            return Err(PipelineError::Usage(
                "--policy external: names no command: expected external:COMMAND, such as \"external:python3 \
                 examples/interval_majority.py\" (docs/external-policy.md)"
                    .into(),
            ));
        }
        Ok(Chosen::External { command: command.to_owned(), timeout })
    }

    /// Its name in tables.
    pub fn name(&self) -> String {
        match self {
            Chosen::Own(entry) => entry.name.to_owned(),
            Chosen::External { command, .. } => format!("external:{command}"),
        }
    }

    /// What an experiment must look up.
    pub fn entries(&self) -> Vec<&'static Entry> {
        match self {
            Chosen::Own(entry) => vec![entry],
            Chosen::External { .. } => Vec::new(),
        }
    }
}

/// Simulates. `log`: whether every action is kept.
pub fn simulate(case: &Case<'_>, chosen: &Chosen, log: bool) -> Result<Simulated> {
    let Case { ready, layout, .. } = case;
    let (subject, bound, name) = (case.subject(), case.bound()?, chosen.name());
    let begin = Instant::now();
    let result = match chosen {
        Chosen::Own(entry) => subject.simulate(entry, log)?,
        Chosen::External { command, timeout } => external(&subject, command, *timeout, log)?,
    };
    let row = subject.row(&name, &result, &bound, begin.elapsed().as_secs_f64())?;
    let mut notes = subject.notes();
    note_counts(&mut notes, &name, &result);
    notes.extend_from_slice(&layout.notes);
    let mut parameters = ready.parameters(subject.replicates());
    parameters.push(info::information([ready.experiment.information]));
    parameters.extend(ready.experiment.scene.parameters());
    Ok(Simulated { optimal: subject.optimal_row(&bound, 0.0), row, result, notes, parameters })
}

/// Simulates a policy that is a process of its own.
fn external(subject: &Subject, command: &str, timeout: Duration, log: bool) -> Result<Simulation> {
    let policy = External::new(command, subject.costs, subject.replicates(), timeout);
    let placement = subject.placement.cloned().unwrap_or(Placement::FirstTouch);
    let result = subject.simulate_policy(&policy, &placement, log)?;
    match policy.error() {
        Some(error) => Err(PipelineError::Failed(error.to_owned())),
        None => Ok(result),
    }
}

impl Simulated {
    /// Where pages are at the end, by address and by data area.
    pub fn last_placement(&self, case: &Case<'_>) -> Result<PlacementFile> {
        let file = PlacementFile::from_pages(&case.layout.history, &self.result.last_homes)?;
        Ok(file.with_areas(&located(&case.trace, &case.layout.history), case.ready.page_size))
    }

    /// Which node pays how much; nothing if pages moved.
    pub fn requesters(&self, case: &Case<'_>) -> Result<Option<Vec<Requester>>> {
        Ok(requesters(&case.layout.history, &self.result)?)
    }
}
