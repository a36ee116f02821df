//! `homing simulate`: what one policy would do on a trace and a machine, and how far that is from the bound.

mod live;
mod monitored;

use crate::exit::{self, Code};
use crate::files::Over;
use crate::options::{information, ModelArgs, SceneArgs};
use crate::progress;
use crate::{names, tables};
use clap::ValueHint;
use homing_core::action::Entry as Logged;
use homing_core::compare::{BoundStart, Requester};
use homing_core::ids::Page;
use homing_core::information::Information;
use homing_pipeline::manifest::GENERATOR;
use homing_pipeline::simulate::{simulate, Chosen, Simulated};
use homing_pipeline::{Case, Experiment, TraceFile};
use monitored::MonitorArgs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Arguments of `homing simulate`.
#[derive(clap::Args)]
pub struct Args {
    /// The trace
    #[arg(value_hint = ValueHint::FilePath)]
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
    #[arg(long, short, value_parser = names::POLICY, hide_possible_values = true)]
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
            ..self.model.experiment()
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
    let chosen = Chosen::parse(&args.policy, Duration::from_secs_f64(args.external_timeout))?;
    let ready = experiment.ready(|_| Ok(chosen.entries()))?;
    let file = TraceFile::ordered(&args.trace, &progress::of_pipeline())?;
    let case = ready.case(&file, None)?;
    let simulated = simulate(&case, &chosen, args.actions.is_some())?;
    if let Some(path) = &args.actions {
        write_actions(path, &simulated.result.log, |page| case.layout.history.address(page))?;
    }
    if let Some(path) = &args.placement_out {
        crate::files::write(path, Over::Texts, simulated.last_placement(&case)?.text())?;
    }
    case.write_manifests(args.actions.iter().chain(&args.placement_out), &simulated.parameters)?;
    if args.json {
        let by_node = simulated.requesters(&case)?;
        print_json(&simulated, by_node, &case)?;
    } else {
        let Simulated { optimal, row, notes, .. } = simulated;
        outln!("{}", tables::rows(&[optimal, row]));
        tables::print_notes(&notes)?;
    }
    Ok(if case.layout.partial { Code::PARTIAL } else { Code::OK })
}

fn seconds(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|value| (0.001..=86_400.0).contains(value));
    value.ok_or_else(|| format!("`{text}`: expected seconds from 0.001 to 86400"))
}

/// The row's fields, with who pays, the trace, every parameter and the notes beside them.
fn print_json(simulated: &Simulated, by_node: Option<Vec<Requester>>, case: &Case<'_>) -> anyhow::Result<()> {
    let mut json = serde_json::to_value(&simulated.row)?;
    if let Some(by_node) = by_node {
        json["by_node"] = serde_json::to_value(by_node)?;
    }
    json["schema"] = homing_core::report::SCHEMA.into();
    json["generator"] = GENERATOR.into();
    json["trace"] = serde_json::to_value(case.trace_info())?;
    json["parameters"] = serde_json::to_value(&simulated.parameters)?;
    json["notes"] = serde_json::to_value(&simulated.notes)?;
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
