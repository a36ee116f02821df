//! A study that is looked up: traces x machines x starts x levels, with the policies.

use super::grid::Grid;
use crate::error::{PipelineError, Result};
use crate::experiment::{Experiment, Ready};
use crate::info::{self, parameter};
use crate::model::{bytes, Model, MEMORY};
use crate::placement::{begins, Begins};
use crate::policies::{each_once, policies};
use crate::progress::Progress;
use crate::scene::{Scene, ITERATIONS};
use crate::{rig, trace_names};
use homing_core::information::Information;
use homing_core::monitor::table::Choice;
use homing_core::policy::table::Entry;
use homing_core::report::Parameter;
use std::path::PathBuf;
use std::str::FromStr;

/// Where pages begin, unless the user says it.
const START: &str = "first-touch";

/// What policies see in a cell.
pub enum Level {
    /// References, as if something reported them.
    Information(Information),
    /// What a monitor reports, in the loop with the machine's caches.
    Monitor(Choice),
}

impl Level {
    /// Its name in tables and keys.
    pub fn name(&self) -> String {
        match self {
            Level::Information(information) => information.to_string(),
            Level::Monitor(choice) => rig::level(choice),
        }
    }
}

/// What is to be computed.
pub struct Plan {
    /// The traces, with the names that tell them apart.
    pub traces: Vec<(PathBuf, String)>,
    /// The machines, at least one; what is asked on them is the same but for the machine.
    pub machines: Vec<Ready>,
    /// Where pages begin, by name.
    pub starts: Vec<(String, Begins)>,
    /// What policies see, the perfect level first unless others are asked for.
    pub levels: Vec<Level>,
    /// Where results go.
    pub out: PathBuf,
}

/// A value of a plan.
fn value<T: FromStr<Err = String>>(text: impl AsRef<str>) -> Result<T> {
    text.as_ref().parse().map_err(PipelineError::Usage)
}

impl Plan {
    /// Looks up what a grid names. `out`: the directory for results. `progress`: who is shown how far it is.
    ///
    /// # Errors
    /// If something is missing, unknown or named twice, or machines and policies cannot begin so.
    pub fn new(grid: Grid, out: PathBuf, progress: Progress) -> Result<Plan> {
        let levels = levels(&grid)?;
        if grid.traces.is_empty() || grid.machines.is_empty() {
            let message = "a study needs traces and machines: as arguments and --machines, or in --plan FILE";
            return Err(PipelineError::Usage(message.into()));
        }
        let names = trace_names::distinct(&grid.traces)?;
        let traces = grid.traces.iter().cloned().zip(names).collect();
        let starts = if grid.starts.is_empty() { &vec![START.to_owned()] } else { &grid.starts };
        each_once("machine", grid.machines.iter().cloned())?;
        each_once("start", starts.iter().cloned())?;
        let experiments = experiments(&grid, progress)?;
        let starts: Vec<(String, Begins)> =
            starts.iter().map(|start| Ok((start.clone(), begins(start)?))).collect::<Result<_>>()?;
        let policies = policies(&grid.policies, None)?;
        let ready = |experiment: Experiment| {
            let ready = Ready { policies: policies.clone(), ..experiment.look_up()? };
            starts.iter().try_for_each(|(_, start)| ready.check(Some(start)))?;
            Ok(ready)
        };
        let machines = experiments.into_iter().map(ready).collect::<Result<_>>()?;
        Ok(Plan { traces, machines, starts, levels, out })
    }

    /// Whether some cells have a monitor in the loop.
    pub fn has_monitors(&self) -> bool {
        self.levels.iter().any(|level| matches!(level, Level::Monitor(_)))
    }

    /// What is asked on the first machine; on the others it is the same.
    pub fn experiment(&self) -> &Experiment {
        &self.machines[0].experiment
    }

    /// The policies.
    pub fn policies(&self) -> &[&'static Entry] {
        &self.machines[0].policies
    }

    /// Every parameter, for the manifest.
    pub fn parameters(&self) -> Vec<Parameter> {
        let join = |names: Vec<String>| names.join(",");
        let Experiment { model, scene, replication, bound_start, .. } = self.experiment();
        let machines = self.machines.iter().map(|ready| ready.experiment.model.machine.clone());
        let threads_on = match &model.threads_on {
            Some(asked) => asked.to_string(),
            None => "busy; fill on machines of papers and without caches".to_owned(),
        };
        let page_size = model.page_size.first().map_or("the machine's".to_owned(), ToString::to_string);
        let mut all = vec![
            parameter(
                "traces",
                join(self.traces.iter().map(|(path, _)| path.display().to_string()).collect()),
            ),
            parameter("machines", join(machines.collect())),
            parameter("starts", join(self.starts.iter().map(|start| start.0.clone()).collect())),
            parameter("replication", replication),
            parameter("bound-start", bound_start),
            parameter("page-size", page_size),
            parameter("threads-on", threads_on),
            parameter("misses", model.misses),
            parameter("mover", model.mover),
            parameter("set", join(model.set.clone())),
            parameter("memory", model.memory),
        ];
        all.extend(scene.parameters());
        all.push(info::information(self.levels.iter().map(Level::name)));
        let settings = &self.machines[0].settings;
        all.extend(self.policies().iter().flat_map(|entry| info::policy(settings, entry)));
        all
    }
}

/// What policies see.
fn levels(grid: &Grid) -> Result<Vec<Level>> {
    let mut information: Vec<Information> = grid.info.iter().map(value).collect::<Result<_>>()?;
    if information.is_empty() {
        information.push(Information::PERFECT);
    }
    let monitors: Vec<Choice> = grid.monitors.iter().map(value).collect::<Result<_>>()?;
    if !monitors.is_empty() && !grid.misses {
        let message = "a monitor watches misses: expected --misses too, or `misses = true` in the plan";
        return Err(PipelineError::Usage(message.into()));
    }
    let levels = information.into_iter().map(Level::Information);
    let levels: Vec<Level> = levels.chain(monitors.into_iter().map(Level::Monitor)).collect();
    each_once("level of information", levels.iter().map(Level::name))?;
    Ok(levels)
}

/// What is asked on each machine.
fn experiments(grid: &Grid, progress: Progress) -> Result<Vec<Experiment>> {
    let memory = bytes(grid.memory.as_deref().unwrap_or(MEMORY));
    let scene = Scene {
        iterations: value(grid.iterations.as_deref().unwrap_or(ITERATIONS))?,
        events: grid.events.clone(),
    };
    let model = Model {
        set: grid.set.clone(),
        page_size: grid.page_size.iter().map(value).collect::<Result<_>>()?,
        threads_on: grid.threads_on.as_ref().map(value).transpose()?,
        memory: memory.map_err(|e| PipelineError::Usage(format!("--memory {e}")))?,
        misses: grid.misses,
        mover: grid.mover.as_ref().map(value).transpose()?.unwrap_or_default(),
        ..Model::of("")
    };
    let first = Experiment {
        scene,
        replication: !grid.no_replication,
        bound_start: grid.bound_start.as_ref().map(value).transpose()?.unwrap_or_default(),
        progress,
        ..Experiment::new(model)
    };
    let on = |machine: &String| {
        let mut experiment = first.clone();
        experiment.model.machine.clone_from(machine);
        experiment
    };
    Ok(grid.machines.iter().map(on).collect())
}
