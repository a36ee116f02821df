//! What a study consists of: from flags, from a TOML file, or from both.

use crate::error::{PipelineError, Result};
use crate::model::{bytes, Model, MEMORY, THREADS_ON};
use crate::placement::{begins, Begins};
use crate::policies::{each_once, is_machine, policies, settings};
use crate::progress::Show;
use crate::scene::{Iterations, Scene, ITERATIONS};
use crate::{experiment, rig, trace_names};
use homing_core::compare::BoundStart;
use homing_core::ids::PageSize;
use homing_core::information::Information;
use homing_core::monitor::table::Choice;
use homing_core::policy::settings::Settings;
use homing_core::policy::table::Entry;
use homing_core::report::Parameter;
use homing_linux::files::read_text;
use serde::Deserialize;
use std::path::PathBuf;

/// What is asked of a study; the file of `plan` adds to it.
#[derive(Clone)]
pub struct Options {
    /// The traces
    pub traces: Vec<PathBuf>,
    /// A TOML file with the lists traces, machines, starts, info, monitors, policies, set, and threads-on, page-size, iterations,
    /// events, no-replication, bound-start, memory, misses; flags come on top of it
    pub plan: Option<PathBuf>,
    /// Where results go; what is there already is not computed again
    pub out: PathBuf,
    /// Machine models
    pub machines: Vec<String>,
    /// Where pages begin [default: first-touch]
    pub starts: Vec<String>,
    /// What policies see [default: perfect]
    pub info: Vec<Information>,
    /// Also let policies see what this monitor reports (see `homing monitors`), in the loop with the machines' caches;
    /// repeatable; needs misses
    pub monitors: Vec<Choice>,
    /// Policies [default: all]
    pub policies: Vec<String>,
    /// Override a field of all machines, or a policy's parameter (POLICY.PARAM=VALUE)
    pub set: Vec<String>,
    /// CPUs that threads run on: fill, round-robin, one-per-node, or a list [default: fill]
    pub threads_on: Option<String>,
    /// Page size [default: the machine's]
    pub page_size: Option<String>,
    /// Where iterations end: marks, every:N or count:K [default: marks]
    pub iterations: Option<String>,
    /// Scheduling events: a CSV file or random:SEED[:moves=N][:threads=N][:preempts=N]
    pub events: Option<String>,
    /// Never more than one copy of a page, in policies and bound
    pub no_replication: bool,
    /// Where the optimum begins that policies are measured against: one-copy (each page where that is cheapest, free of charge)
    /// or same (where the policy begins) [default: one-copy]
    pub bound_start: Option<BoundStart>,
    /// Memory for the page histories of each trace on a machine; what is beyond goes to a temporary file [default: 8G]
    pub memory: Option<String>,
    /// Let the machines' caches filter the references first
    pub misses: bool,
    /// Shows how far reading is.
    pub show: Show,
}

/// The file of `--plan`.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    traces: Vec<PathBuf>,
    machines: Vec<String>,
    starts: Vec<String>,
    info: Vec<String>,
    monitors: Vec<String>,
    policies: Vec<String>,
    set: Vec<String>,
    threads_on: Option<String>,
    page_size: Option<String>,
    iterations: Option<String>,
    events: Option<String>,
    no_replication: bool,
    bound_start: Option<String>,
    memory: Option<String>,
    misses: bool,
}

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
    /// The machines, with what they share.
    pub models: Vec<Model>,
    /// Where pages begin, by name.
    pub starts: Vec<(String, Begins)>,
    /// What policies see, the perfect level first unless others are asked for.
    pub levels: Vec<Level>,
    /// The policies.
    pub policies: Vec<&'static Entry>,
    /// Their parameters.
    pub settings: Settings,
    /// Iterations and events.
    pub scene: Scene,
    /// Whether pages may have several copies.
    pub replication: bool,
    /// Where the optimum begins.
    pub bound_start: BoundStart,
    /// Where results go.
    pub out: PathBuf,
}

fn usage(message: String) -> PipelineError {
    PipelineError::Usage(message)
}

impl Plan {
    /// Joins file and flags.
    pub fn new(options: Options) -> Result<Plan> {
        let mut file = match &options.plan {
            None => File::default(),
            Some(path) => {
                let text = read_text(path, "plan")?;
                toml::from_str(&text).map_err(|e| usage(format!("plan {}: {e}", path.display())))?
            }
        };
        file.traces.extend(options.traces);
        file.machines.extend(options.machines);
        file.starts.extend(options.starts);
        file.policies.extend(options.policies);
        file.set.extend(options.set);
        let levels = file.info.iter().map(|level| level.parse().map_err(usage));
        let mut information: Vec<Information> = levels.collect::<std::result::Result<_, _>>()?;
        information.extend(options.info);
        if information.is_empty() {
            information.push(Information::PERFECT);
        }
        let misses = options.misses || file.misses;
        let mut monitors: Vec<Choice> = file
            .monitors
            .iter()
            .map(|text| text.parse().map_err(usage))
            .collect::<std::result::Result<_, _>>()?;
        monitors.extend(options.monitors);
        if !monitors.is_empty() && !misses {
            return Err(usage(
                "a monitor watches misses: expected --misses too, or `misses = true` in the plan".into(),
            ));
        }
        let levels = information.into_iter().map(Level::Information);
        let levels: Vec<Level> = levels.chain(monitors.into_iter().map(Level::Monitor)).collect();
        each_once("level of information", levels.iter().map(Level::name))?;
        if file.traces.is_empty() || file.machines.is_empty() {
            return Err(usage(
                "a study needs traces and machines: as arguments and --machines, or in --plan FILE".into(),
            ));
        }
        let names = trace_names::distinct(&file.traces)?;
        let traces = file.traces.into_iter().zip(names).collect();
        if file.starts.is_empty() {
            file.starts.push("first-touch".into());
        }
        each_once("machine", file.machines.iter().cloned())?;
        each_once("start", file.starts.iter().cloned())?;
        let iterations = options.iterations.or(file.iterations).unwrap_or_else(|| ITERATIONS.into());
        let scene = Scene {
            iterations: iterations.parse::<Iterations>().map_err(usage)?,
            events: options.events.or(file.events),
        };
        let page_size: Option<PageSize> =
            options.page_size.or(file.page_size).map(|size| size.parse()).transpose().map_err(usage)?;
        let threads_on = options.threads_on.or(file.threads_on).unwrap_or_else(|| THREADS_ON.into());
        let threads_on = threads_on.parse().map_err(usage)?;
        let memory = options.memory.or(file.memory);
        let memory =
            bytes(memory.as_deref().unwrap_or(MEMORY)).map_err(|e| usage(format!("--memory {e}")))?;
        let model = |machine: &String| Model {
            machine: machine.clone(),
            set: file.set.clone(),
            page_size: page_size.into_iter().collect(),
            threads_on: Clone::clone(&threads_on),
            memory,
            misses,
            show: options.show,
        };
        let models: Vec<Model> = file.machines.iter().map(model).collect();
        let starts = file
            .starts
            .iter()
            .map(|start| Ok((start.clone(), begins(start)?)))
            .collect::<Result<Vec<_>>>()?;
        let policies = policies(&file.policies, None)?;
        let bound_start = file.bound_start.map(|text| text.parse()).transpose().map_err(usage)?;
        let bound_start = options.bound_start.or(bound_start).unwrap_or_default();
        for model in &models {
            let machine = model.machine(is_machine)?;
            let costs = model.costs(&machine)?;
            starts.iter().try_for_each(|(_, start)| {
                experiment::check(&machine, Some(start.placement()), &costs, &policies)
            })?;
        }
        Ok(Plan {
            settings: settings(&file.set)?,
            traces,
            models,
            starts,
            levels,
            policies,
            scene,
            replication: !(options.no_replication || file.no_replication),
            bound_start,
            out: options.out,
        })
    }

    /// Whether some cells have a monitor in the loop.
    pub fn has_monitors(&self) -> bool {
        self.levels.iter().any(|level| matches!(level, Level::Monitor(_)))
    }

    /// Every parameter, for the manifest.
    pub fn parameters(&self) -> Vec<Parameter> {
        let join = |names: Vec<String>| names.join(",");
        let mut all = vec![
            ("traces", join(self.traces.iter().map(|(path, _)| path.display().to_string()).collect())),
            ("machines", join(self.models.iter().map(|model| model.machine.clone()).collect())),
            ("starts", join(self.starts.iter().map(|start| start.0.clone()).collect())),
            ("replication", self.replication.to_string()),
            ("bound-start", self.bound_start.to_string()),
        ];
        if let Some(model) = self.models.first() {
            let size = model.page_size.first().map_or("the machine's".to_owned(), |size| size.to_string());
            all.extend([("page-size", size), ("threads-on", model.threads_on.to_string())]);
            all.extend([("misses", model.misses.to_string()), ("set", join(model.set.clone()))]);
            all.push(("memory", model.memory.to_string()));
        }
        let parameter = |(name, value): (&str, String)| Parameter { name: name.into(), value };
        let mut all: Vec<Parameter> = all.into_iter().map(parameter).collect();
        all.extend(self.scene.parameters(&[]).into_iter().filter(|parameter| parameter.name != "info"));
        all.push(parameter(("info", join(self.levels.iter().map(Level::name).collect()))));
        for entry in &self.policies {
            let values = self.settings.of(entry).all().into_iter();
            all.extend(values.map(|(name, value)| Parameter { name, value: value.to_string() }));
        }
        all
    }
}
