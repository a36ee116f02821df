//! What a study consists of: from flags, from a TOML file, or from both.

use crate::exit::{self, Code};
use crate::files::read_text;
use crate::files::roles::{self, Use};
use crate::input::{bytes, ModelArgs, MEMORY};
use crate::rig;
use crate::scene::{self, Iterations, SceneArgs};
use crate::study::{self, Begins};
use crate::trace_names;
use homing_core::compare::BoundStart;
use homing_core::ids::PageSize;
use homing_core::information::Information;
use homing_core::monitor::table::Choice;
use homing_core::policy::settings::Settings;
use homing_core::policy::table::{Begin, Entry, POLICIES};
use homing_core::report::Parameter;
use serde::Deserialize;
use std::path::PathBuf;

/// Arguments of `homing study`. Lists are separated by commas.
#[derive(clap::Args)]
pub struct Args {
    /// The traces
    traces: Vec<PathBuf>,
    /// A TOML file with the lists traces, machines, starts, info, monitors, policies, set, and threads-on, page-size,
    /// iterations, events, no-replication, bound-start, memory, misses; flags come on top of it
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// Where results go; what is there already is not computed again
    #[arg(long, short, value_name = "DIR")]
    out: PathBuf,
    /// Machine models
    #[arg(long, short, value_delimiter = ',', value_name = "MACHINES")]
    machines: Vec<String>,
    /// Where pages begin [default: first-touch]
    #[arg(long, value_delimiter = ',', value_name = "RULES")]
    starts: Vec<String>,
    /// What policies see [default: perfect]
    #[arg(long, value_delimiter = ',', value_name = "LEVELS", value_parser = scene::information)]
    info: Vec<Information>,
    /// Also let policies see what this monitor reports (see `homing monitors`), in the loop with the machines' caches;
    /// repeatable; needs misses
    #[arg(long, value_name = "MONITOR")]
    monitor: Vec<Choice>,
    /// Policies [default: all]
    #[arg(long, value_delimiter = ',', value_name = "POLICIES")]
    policies: Vec<String>,
    /// Override a field of all machines, or a policy's parameter (POLICY.PARAM=VALUE)
    #[arg(long, value_name = "FIELD=VALUE")]
    set: Vec<String>,
    /// CPUs that threads run on: fill, round-robin, one-per-node, or a list [default: fill]
    #[arg(long, value_name = "HOW")]
    threads_on: Option<String>,
    /// Page size [default: the machine's]
    #[arg(long, value_name = "SIZE")]
    page_size: Option<String>,
    /// Where iterations end: marks, every:N or count:K [default: marks]
    #[arg(long, value_name = "RULE")]
    iterations: Option<String>,
    /// Scheduling events: a CSV file or random:SEED[:moves=N][:threads=N][:preempts=N]
    #[arg(long, value_name = "EVENTS")]
    events: Option<String>,
    /// Never more than one copy of a page, in policies and bound
    #[arg(long)]
    no_replication: bool,
    /// Where the optimum begins that policies are measured against: one-copy (each page where that is cheapest, free of
    /// charge) or same (where the policy begins) [default: one-copy]
    #[arg(long, value_name = "WHERE")]
    bound_start: Option<BoundStart>,
    /// Memory for the page histories of each trace on a machine; what is beyond goes to a temporary file [default: 8G]
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,
    /// Let the machines' caches filter the references first
    #[arg(long)]
    misses: bool,
    /// Print all cells as JSON instead of a table
    #[arg(long)]
    pub json: bool,
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
    pub models: Vec<ModelArgs>,
    /// Where pages begin, by name.
    pub starts: Vec<(String, Begins)>,
    /// What policies see, the perfect level first unless others are asked for.
    pub levels: Vec<Level>,
    /// The policies.
    pub policies: Vec<&'static Entry>,
    /// Their parameters.
    pub settings: Settings,
    /// Iterations and events.
    pub scene: SceneArgs,
    /// Whether pages may have several copies.
    pub replication: bool,
    /// Where the optimum begins.
    pub bound_start: BoundStart,
    /// Where results go.
    pub out: PathBuf,
}

fn usage(message: String) -> anyhow::Error {
    exit::error(Code::USAGE, message)
}

impl Plan {
    /// Joins file and flags.
    pub fn new(args: Args) -> anyhow::Result<Plan> {
        let mut file = match &args.plan {
            None => File::default(),
            Some(path) => {
                let text = read_text(path, "plan")?;
                toml::from_str(&text).map_err(|e| usage(format!("plan {}: {e}", path.display())))?
            }
        };
        file.traces.extend(args.traces);
        file.machines.extend(args.machines);
        file.starts.extend(args.starts);
        file.policies.extend(args.policies);
        file.set.extend(args.set);
        let levels = file.info.iter().map(|level| level.parse().map_err(usage));
        let mut information: Vec<Information> = levels.collect::<Result<_, _>>()?;
        information.extend(args.info);
        if information.is_empty() {
            information.push(Information::PERFECT);
        }
        let misses = args.misses || file.misses;
        let mut monitors: Vec<Choice> =
            file.monitors.iter().map(|text| text.parse().map_err(usage)).collect::<Result<_, _>>()?;
        monitors.extend(args.monitor);
        if !monitors.is_empty() && !misses {
            return Err(usage(
                "a monitor watches misses: expected --misses too, or `misses = true` in the plan".into(),
            ));
        }
        let levels = information.into_iter().map(Level::Information);
        let levels: Vec<Level> = levels.chain(monitors.into_iter().map(Level::Monitor)).collect();
        study::each_once("level of information", levels.iter().map(Level::name))?;
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
        study::each_once("machine", file.machines.iter().cloned())?;
        study::each_once("start", file.starts.iter().cloned())?;
        let iterations = args.iterations.or(file.iterations).unwrap_or_else(|| "marks".into());
        let scene = SceneArgs {
            iterations: iterations.parse::<Iterations>().map_err(usage)?,
            events: args.events.or(file.events),
        };
        let page_size: Option<PageSize> =
            args.page_size.or(file.page_size).map(|size| size.parse()).transpose().map_err(usage)?;
        let threads_on = args.threads_on.or(file.threads_on).unwrap_or_else(|| "fill".into());
        let threads_on = threads_on.parse().map_err(usage)?;
        let memory = args.memory.or(file.memory);
        let memory =
            bytes(memory.as_deref().unwrap_or(MEMORY)).map_err(|e| usage(format!("--memory {e}")))?;
        let model = |machine: &String| ModelArgs {
            machine: machine.clone(),
            set: file.set.clone(),
            page_size: page_size.into_iter().collect(),
            threads_on: Clone::clone(&threads_on),
            memory,
            misses,
        };
        let models: Vec<ModelArgs> = file.machines.iter().map(model).collect();
        let starts = file
            .starts
            .iter()
            .map(|start| Ok((start.clone(), study::begins(start)?)))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let policies = policies(&file.policies)?;
        let bound_start = file.bound_start.map(|text| text.parse()).transpose().map_err(usage)?;
        let bound_start = args.bound_start.or(bound_start).unwrap_or_default();
        for model in &models {
            let machine = model.machine(study::is_machine)?;
            let costs = model.costs(&machine)?;
            starts.iter().try_for_each(|(_, start)| {
                study::check(&machine, Some(start.placement()), &costs, &policies)
            })?;
        }
        Ok(Plan {
            settings: study::settings(&file.set)?,
            traces,
            models,
            starts,
            levels,
            policies,
            scene,
            replication: !(args.no_replication || file.no_replication),
            bound_start,
            out: args.out,
        })
    }

    /// Whether some cells have a monitor in the loop.
    pub fn has_monitors(&self) -> bool {
        self.levels.iter().any(|level| matches!(level, Level::Monitor(_)))
    }

    /// The files that are read.
    pub fn files(&self) -> impl Iterator<Item = Use> + '_ {
        let traces = self.traces.iter().map(|(path, _)| Use::read("a trace", path));
        let machines = self.models.iter().filter_map(|model| roles::machine(&model.machine));
        let starts = self.starts.iter().filter_map(|(start, _)| roles::placement(start));
        let events = self.scene.events.as_deref().and_then(roles::events);
        traces
            .chain(machines.map(|path| Use::read("a machine", path)))
            .chain(starts.map(|path| Use::read("a start", path)))
            .chain(events.map(|path| Use::read("the events", path)))
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

fn policies(names: &[String]) -> anyhow::Result<Vec<&'static Entry>> {
    if names.is_empty() || names == ["all"] {
        return Ok(POLICIES.iter().filter(|entry| !matches!(entry.begin, Begin::File)).collect());
    }
    let policies = names.iter().map(|name| study::policy(name.trim())).collect::<anyhow::Result<Vec<_>>>()?;
    study::each_once("policy", policies.iter().map(|entry| entry.name.to_owned()))?;
    Ok(policies)
}
