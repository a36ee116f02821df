//! `homing study`: policies on a grid of traces, machines, starts and information levels or monitors, one row a cell.

mod table;

use crate::exit::{Code, Result};
use crate::files::roles::{self, refuse_clashes, Use};
use crate::files::Over;
use crate::{names, progress, tables};
use clap::builder::TypedValueParser;
use clap::ValueHint;
use homing_core::compare::BoundStart;
use homing_core::information::Information;
use homing_core::monitor::table::Choice;
use homing_core::time::Mover;
use homing_pipeline::study::{self, Found, Grid, Plan, FILES, PAGE};
use std::path::PathBuf;
use std::str::FromStr;

/// Arguments of `homing study`. Lists are separated by commas.
#[derive(clap::Args)]
pub struct Args {
    /// The traces
    #[arg(value_hint = ValueHint::FilePath)]
    traces: Vec<PathBuf>,
    /// A TOML file with the lists traces, machines, starts, info, monitors, policies, set, and threads-on, page-size,
    /// iterations, events, no-replication, bound-start, memory, misses, mover; flags come on top of it
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// Where results go; what is there already is not computed again
    #[arg(long, short, value_name = "DIR")]
    out: PathBuf,
    /// Machine models
    #[arg(long, short, value_delimiter = ',', value_name = "MACHINES", value_parser = names::MACHINE,
          hide_possible_values = true)]
    machines: Vec<String>,
    /// Where pages begin [default: first-touch]
    #[arg(long, value_delimiter = ',', value_name = "RULES")]
    starts: Vec<String>,
    /// What policies see [default: perfect]
    #[arg(long, value_delimiter = ',', value_name = "LEVELS", value_parser = word::<Information>)]
    info: Vec<String>,
    /// Also let policies see what this monitor reports (see `homing monitors`), in the loop with the machines' caches;
    /// repeatable; needs misses
    #[arg(long, value_name = "MONITOR", hide_possible_values = true,
          value_parser = names::MONITOR.try_map(|text| word::<Choice>(&text)))]
    monitor: Vec<String>,
    /// Policies [default: all]
    #[arg(long, value_delimiter = ',', value_name = "POLICIES", value_parser = names::POLICY,
          hide_possible_values = true)]
    policies: Vec<String>,
    /// Override a field of all machines, or a policy's parameter (POLICY.PARAM=VALUE)
    #[arg(long, value_name = "FIELD=VALUE")]
    set: Vec<String>,
    /// CPUs that threads run on: busy, fill, round-robin, one-per-node, or a list [default: busy; fill on machines of
    /// papers and without caches]
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
    #[arg(long, value_name = "WHERE", value_parser = word::<BoundStart>)]
    bound_start: Option<String>,
    /// Memory for the page histories of each trace on a machine; what is beyond goes to a temporary file [default: 8G]
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,
    /// Let the machines' caches filter the references first
    #[arg(long)]
    misses: bool,
    /// Whose time page moves take where times are modelled: program, own or stopped [default: program]
    #[arg(long, value_name = "WHO", value_parser = word::<Mover>)]
    mover: Option<String>,
    /// Print all cells as JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// Runs the study.
pub fn run(args: Args) -> Result {
    let (json, out) = (args.json, args.out.clone());
    let grid = args.plan.as_deref().map(Grid::read).transpose()?.unwrap_or_default();
    let plan = Plan::new(grid.with(args.grid()), out, progress::of_pipeline())?;
    refuse_clashes(&files(&plan).chain(Use::filled("--out", &plan.out, FILES)).collect::<Vec<_>>())?;
    let begun = plan.begin()?;
    if let Some((journal, lines)) = begun.strange() {
        errln!("homing: {}: {lines} lines that are no cells are left out", journal.display());
    }
    let found = begun.run()?;
    study::write(&plan, &found)?;
    let document = study::document(&plan, &found);
    crate::files::write(&plan.out.join(PAGE), Over::Pages, crate::page::study(&document)?)?;
    if json {
        outln!("{}", serde_json::to_string_pretty(&document)?);
    } else {
        let Found { cells, computed, notes, .. } = &found;
        outln!("{}", table::table(cells));
        tables::print_notes(notes)?;
        outln!("\n{} cells, {computed} of them computed now; results in {}", cells.len(), plan.out.display());
    }
    Ok(if found.damaged { Code::PARTIAL } else { Code::OK })
}

impl Args {
    fn grid(self) -> Grid {
        Grid {
            traces: self.traces,
            machines: self.machines,
            starts: self.starts,
            info: self.info,
            monitors: self.monitor,
            policies: self.policies,
            set: self.set,
            threads_on: self.threads_on,
            page_size: self.page_size,
            iterations: self.iterations,
            events: self.events,
            no_replication: self.no_replication,
            bound_start: self.bound_start,
            memory: self.memory,
            misses: self.misses,
            mover: self.mover,
        }
    }
}

/// A word of the command line that means something.
fn word<T: FromStr<Err = String>>(text: &str) -> std::result::Result<String, String> {
    text.parse::<T>().map(|_| text.to_owned())
}

/// The files that a study reads.
fn files(plan: &Plan) -> impl Iterator<Item = Use> + '_ {
    let traces = plan.traces.iter().map(|(path, _)| Use::read("a trace", path));
    let machines = plan.machines.iter().filter_map(|ready| roles::machine(&ready.experiment.model.machine));
    let starts = plan.starts.iter().filter_map(|(start, _)| roles::placement(start));
    let events = plan.experiment().scene.events.as_deref().and_then(roles::events);
    traces
        .chain(machines.map(|path| Use::read("a machine", path)))
        .chain(starts.map(|path| Use::read("a start", path)))
        .chain(events.map(|path| Use::read("the events", path)))
}
