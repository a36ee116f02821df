//! `homing simulate`: what one policy would do on a trace and a machine, and how far that is from the bound.

mod monitored;

use crate::exit::{self, Code};
use crate::options::{information, ModelArgs, SceneArgs};
use crate::tables;
use homing_core::action::Entry as Logged;
use homing_core::compare::{note_counts, requesters, Bound, BoundStart, Requester, Subject};
use homing_core::ids::Page;
use homing_core::information::Information;
use homing_core::policy::placement::{Placement, PlacementFile};
use homing_core::report::Row;
use homing_core::sharing;
use homing_core::simulate::Simulation;
use homing_pipeline::experiment::write_manifests;
use homing_pipeline::external::External;
use homing_pipeline::manifest::GENERATOR;
use homing_pipeline::placement::located;
use homing_pipeline::policies::policy;
use homing_pipeline::{Experiment, TraceFile};
use monitored::MonitorArgs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Arguments of `homing simulate`.
#[derive(clap::Args)]
pub struct Args {
    /// The trace
    trace: PathBuf,
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    scene: SceneArgs,
    #[command(flatten)]
    monitor: MonitorArgs,
    /// What the policy sees: perfect, every:N, interval:N, intervals:K, or joined as every:64+intervals:100
    #[arg(long, value_name = "LEVEL", default_value = "perfect", value_parser = information)]
    info: Information,
    /// The policy (see `homing policies`), or external:COMMAND (docs/external-policy.md)
    #[arg(long, short)]
    policy: String,
    /// Seconds that an external policy may take for an answer
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = seconds)]
    external_timeout: f64,
    /// Where pages begin: first-touch, round-robin, single-node[:NODE], striped[:PAGES], global, file:FILE (by
    /// address), areas:FILE (by data area and offset, where addresses differ from run to run)
    #[arg(long, value_name = "RULE")]
    placement: Option<String>,
    /// Never more than one copy of a page, in policy and bound
    #[arg(long)]
    no_replication: bool,
    /// Where the optimum begins that policies are measured against: one-copy (each page where that is cheapest, free of
    /// charge) or same (where the policy begins)
    #[arg(long, value_name = "WHERE", default_value_t)]
    bound_start: BoundStart,
    /// Write every action as CSV
    #[arg(long, value_name = "FILE")]
    actions: Option<PathBuf>,
    /// Write the placement at the end, for `--placement file:FILE` or `areas:FILE` on another trace of the program
    #[arg(long, value_name = "FILE")]
    placement_out: Option<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

impl Args {
    fn experiment(&self) -> Experiment {
        Experiment {
            scene: self.scene.scene(),
            placement: self.placement.clone(),
            replication: !self.no_replication,
            bound_start: self.bound_start,
            information: self.info,
            ..Experiment::new(self.model.model())
        }
    }
}

/// Simulates.
pub fn run(args: Args) -> exit::Result {
    let experiment = args.experiment();
    experiment.model.one_page_size()?;
    if let Some(choice) = args.monitor.monitor.clone() {
        return monitored::run(&args, &choice);
    }
    let external = args.policy.strip_prefix("external:");
    if external.is_some_and(|command| command.trim().is_empty()) {
        let message = "--policy external: names no command: expected external:COMMAND, such as \
                       \"external:python3 examples/interval_majority.py\" (docs/external-policy.md)";
        return Err(exit::error(Code::USAGE, message));
    }
    let ready = experiment.ready(|_| match external {
        None => Ok(vec![policy(&args.policy)?]),
        Some(_) => Ok(Vec::new()),
    })?;
    let file = TraceFile::open(&args.trace)?;
    let trace = file.trace()?;
    let layout = ready.lay_out(&file, &trace, None)?;
    let subject = ready.subject(&layout);
    let bound = Bound::new(&subject, &sharing::classify(&layout.history)?)?;
    let begin = Instant::now();
    let log = args.actions.is_some();
    let result = match (ready.policies.first(), external) {
        (Some(entry), _) => subject.simulate(entry, log)?,
        (None, command) => {
            external_policy(&subject, command.unwrap_or_default(), args.external_timeout, log)?
        }
    };
    let row = subject.row(&args.policy, &result, &bound, begin.elapsed().as_secs_f64())?;
    let mut notes = subject.notes();
    note_counts(&mut notes, &args.policy, &result);
    notes.extend_from_slice(&layout.notes);
    if let Some(path) = &args.actions {
        write_actions(path, &result.log, |page| layout.history.address(page))?;
    }
    if let Some(path) = &args.placement_out {
        let placement = PlacementFile::from_pages(&layout.history, &result.last_homes)?;
        let placement = placement.with_areas(&located(&trace, &layout.history), ready.page_size);
        crate::files::write(path, placement.text())?;
    }
    let mut parameters = ready.parameters(subject.replicates());
    parameters.extend(ready.experiment.scene.parameters(&[args.info]));
    let info = ready.trace_info(&file, &trace, &layout);
    let written = args.actions.iter().chain(&args.placement_out);
    write_manifests(written, &ready.machine_info(), &parameters, &info)?;
    if args.json {
        let by_node = requesters(&layout.history, &result)?;
        print_json(&row, by_node, &info, &parameters, &notes)?;
    } else {
        outln!("{}", tables::rows(&[subject.optimal_row(&bound, 0.0), row]));
        tables::print_notes(&notes)?;
    }
    Ok(if layout.partial { Code::PARTIAL } else { Code::OK })
}

fn seconds(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|value| (0.001..=86_400.0).contains(value));
    value.ok_or_else(|| format!("`{text}`: expected seconds from 0.001 to 86400"))
}

/// Simulates a policy that is a process of its own.
fn external_policy(subject: &Subject, command: &str, timeout: f64, log: bool) -> anyhow::Result<Simulation> {
    let timeout = Duration::from_secs_f64(timeout);
    let policy = External::new(command, subject.costs, subject.replicates(), timeout);
    let placement = subject.placement.cloned().unwrap_or(Placement::FirstTouch);
    let result = subject.simulate_policy(&policy, &placement, log)?;
    match policy.error() {
        Some(error) => Err(exit::error(Code::FAILURE, error)),
        None => Ok(result),
    }
}

/// The row's fields, with who pays, the trace, every parameter and the notes beside them.
fn print_json(
    row: &Row,
    by_node: Option<Vec<Requester>>,
    trace: &homing_core::report::TraceInfo,
    parameters: &[homing_core::report::Parameter],
    notes: &[String],
) -> anyhow::Result<()> {
    let mut json = serde_json::to_value(row)?;
    if let Some(by_node) = by_node {
        json["by_node"] = serde_json::to_value(by_node)?;
    }
    json["schema"] = homing_core::report::SCHEMA.into();
    json["generator"] = GENERATOR.into();
    json["trace"] = serde_json::to_value(trace)?;
    json["parameters"] = serde_json::to_value(parameters)?;
    json["notes"] = serde_json::to_value(notes)?;
    outln!("{}", serde_json::to_string_pretty(&json)?);
    Ok(())
}

/// The columns of `--actions`.
pub const ACTIONS_HEADER: [&str; 7] = ["time", "page", "address", "action", "node", "reason", "outcome"];

fn write_actions(path: &Path, log: &[Logged], address: impl Fn(Page) -> u64) -> anyhow::Result<()> {
    crate::files::write_csv(path, |out| {
        out.write_record(ACTIONS_HEADER)?;
        for entry in log {
            let (name, node) = entry.action.kind.describe();
            out.write_record([
                entry.time.to_string(),
                entry.action.page.to_string(),
                format!("{:#x}", address(entry.action.page)),
                name.to_owned(),
                node.map(|node| node.to_string()).unwrap_or_default(),
                entry.action.reason.to_owned(),
                entry.outcome.to_string(),
            ])?;
        }
        Ok(())
    })
}
