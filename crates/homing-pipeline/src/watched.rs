//! One policy on what a monitor reports, in the loop with caches, frames and modelled time.

use crate::case::Case;
use crate::error::{PipelineError, Result};
use crate::experiment::Experiment;
use crate::info;
use crate::rig::{self, Pair, Rig};
use homing_core::compare::note_counts;
use homing_core::monitor::table::Choice;
use homing_core::policy::table::Entry;
use homing_core::report::{Parameter, Row};
use homing_core::system::Setup;
use homing_session::simulated::Log;
use std::time::Instant;

/// How the policy is informed and pages are moved.
pub struct Watch {
    /// The monitor.
    pub choice: Choice,
    /// References between two ends of its intervals; a fiftieth of the trace if nothing is said.
    pub interval: Option<u64>,
    /// Whether every action is kept.
    pub log: bool,
}

/// What a policy did.
pub struct Watched {
    /// The rows of the bound, of pages that stay, and of the policy.
    pub rows: [Row; 3],
    /// Both runs.
    pub pair: Pair,
    /// What they ran in.
    pub rig: Rig,
    /// References between two ends of the monitor's intervals.
    pub interval: u64,
    /// What a reader of the results must know.
    pub notes: Vec<String>,
    /// What it was made of, for a manifest.
    pub parameters: Vec<Parameter>,
}

/// The same experiment with the machine's caches, behind which pages have one copy.
pub fn behind_caches(mut experiment: Experiment) -> Experiment {
    experiment.model.misses = true;
    experiment.replication = false;
    experiment
}

/// Simulates a policy with a monitor in the loop; the experiment must be one `behind_caches`. If the monitor is the
/// live session, `log` gets its inputs and outputs.
pub fn simulate(case: &Case<'_>, entry: &Entry, watch: &Watch, log: &mut dyn Log) -> Result<Watched> {
    let Case { ready, layout, .. } = case;
    let choice = &watch.choice;
    let (subject, bound) = (case.subject(), case.bound()?);
    let begin = Instant::now();
    let policy = entry.make(&layout.costs, false, &ready.settings);
    if !rig::takes_samples(entry, &*policy) {
        return Err(PipelineError::Usage(format!(
            "policy `{}` acts at faults, which no monitor reports: choose one that takes samples, such as homing or \
             interval-majority",
            entry.name
        )));
    }
    let placement = entry.placement(layout.placement.as_ref(), &layout.costs, &ready.settings);
    let rig = Rig::new(case)?;
    let setup = rig.setup(case, &placement, choice);
    let interval = watch.interval.unwrap_or(setup.interval);
    let setup = Setup { interval, log: watch.log, ..setup };
    let pair = rig::pair(&setup, &*policy, choice, log).map_err(PipelineError::usage)?;
    let rows = [
        subject.optimal_row(&bound, 0.0),
        rig.row(&subject, &bound, "stay", &pair.before, 0.0),
        rig.row(&subject, &bound, entry.name, &pair.after, begin.elapsed().as_secs_f64()),
    ];
    let mut notes = subject.notes();
    note_counts(&mut notes, entry.name, &rig::simulation(&pair.after));
    notes.extend_from_slice(&layout.notes);
    notes.push(
        "moves change what misses: the cost is that of the run's own misses and shoot-downs, the bound that of pages \
         that stay"
            .into(),
    );
    notes.extend(rig.no_times().map(|e| format!("no times: {e}")));
    let mut parameters = ready.parameters(false);
    parameters.push(info::parameter("monitor", choice.describe()));
    if pair.session.is_none() {
        parameters.push(info::parameter("interval", interval));
    }
    parameters.extend(ready.experiment.scene.parameters());
    Ok(Watched { rows, pair, rig, interval, notes, parameters })
}
