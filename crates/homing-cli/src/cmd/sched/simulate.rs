//! `homing sched simulate`: a workload of parallel jobs on a machine model.

use super::{partitions, picture};
use crate::exit::{self, Code, Result};
use crate::files::Over;
use crate::names;
use homing_pipeline::model::Model;
use homing_pipeline::policies::is_machine;
use homing_pipeline::sched::{self, Cell, Jobs, Request, NO_POLICY};
use homing_sched::app::{App, Catalogue};
use homing_sched::layout::Hardware;
use homing_sched::manager::table::Settings;
use homing_sched::outcome::{OfApp, Outcome};
use homing_sched::partition::file::can_manage;
use homing_sched::partition::resources::WINDOW_S;
use homing_sched::partition::Division;
use homing_sched::simulate::{INTERVAL_S, IRIX_BURST_S};
use homing_sched::swf;
use homing_sched::workload::{Lengths, Workload};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Arguments of `homing sched simulate`.
#[derive(clap::Args)]
pub struct Args {
    /// A log of jobs in the Standard Workload Format, instead of a mix
    #[arg(value_name = "LOG")]
    log: Option<PathBuf>,
    /// Mix of applications: w1, w2, w3 or w4 of Corbalan 2003, or one of the file of --apps
    #[arg(long, value_name = "NAME", default_value = "w1", conflicts_with = "log")]
    mix: String,
    /// Applications and mixes, a TOML file (docs/scheduling.md) [default: those of Corbalan 2003]
    #[arg(long, value_name = "FILE")]
    apps: Option<PathBuf>,
    /// Executables of the log that behave as an application: NUMBER=NAME
    #[arg(long, value_name = "NUMBER=NAME", value_delimiter = ',', requires = "log")]
    like: Vec<String>,
    /// Machine model: a name from `homing machines`, or a TOML file
    #[arg(long, short, value_name = "MACHINE", value_parser = names::MACHINE, hide_possible_values = true,
        default_value = "origin2000-64")]
    machine: String,
    /// Override a field of the machine, such as nodes=8, or a policy's parameter (POLICY.PARAM=VALUE)
    #[arg(long, value_name = "FIELD=VALUE")]
    set: Vec<String>,
    /// CPU managers (`homing sched managers` lists them)
    /// [default: irix,equipartition,pdpa,homing; of partitions, all but irix]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', hide_default_value = true)]
    managers: Option<Vec<String>>,
    /// Divide the machine: a TOML file with a table [[partition]] for each (docs/scheduling.md)
    #[arg(long, value_name = "FILE")]
    partitions: Option<PathBuf>,
    /// Seconds over which the demand of partitions is measured before a node may move
    #[arg(long, value_name = "SECONDS", default_value_t = WINDOW_S, requires = "partitions")]
    window: f64,
    /// Page policies (`homing policies` lists them), or `none` for pages that stay
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "none,irix")]
    policies: Vec<String>,
    /// Loads in per cent: processor time that jobs ask for, of what there is
    #[arg(
        long,
        value_name = "PERCENT",
        value_delimiter = ',',
        default_value = "100",
        conflicts_with = "log"
    )]
    load: Vec<f64>,
    /// Number of jobs [default: the mix's number times the load]
    #[arg(long, value_name = "N", conflicts_with = "log")]
    jobs: Option<u32>,
    /// Jobs of one application have exponentially distributed lengths instead of equal ones
    #[arg(long, conflicts_with = "log")]
    exponential: bool,
    /// Multiprogramming level: jobs that may run at the same time; PDPA and homing begin more where it pays
    #[arg(long, value_name = "N", default_value_t = Settings::default().level)]
    level: usize,
    /// Efficiency that PDPA wants of a job's processors
    #[arg(long, value_name = "SHARE", default_value_t = Settings::default().target_efficiency)]
    target_efficiency: f64,
    /// Mean burst of a time-shared thread in milliseconds, as measured under IRIX
    #[arg(long, value_name = "MS", default_value_t = 1000.0 * IRIX_BURST_S)]
    burst_ms: f64,
    /// Milliseconds between two decisions of the page policy
    #[arg(long, value_name = "MS", default_value_t = 1000.0 * INTERVAL_S)]
    interval_ms: f64,
    /// First seed of arrivals and bursts
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Repeat with that many seeds; tables show means
    #[arg(long, value_name = "N", default_value_t = 1)]
    runs: u64,
    /// Print JSON instead of tables: one object for each load, manager, policy and seed
    #[arg(long)]
    json: bool,
    /// Write a page with pictures: which job had which processors, how local each was
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Managers that are compared.
const MANAGERS: [&str; 4] = ["irix", "equipartition", "pdpa", "homing"];

/// What the numbers are, beside every table.
const HOW: &str =
    "All of this is modelled (docs/scheduling.md): times of jobs follow from their applications' \
                   figures, where their pages are, and how crowded memories are. bound: CPU time on the same \
                   processors with all pages local.";

/// Simulates.
pub fn run(args: Args) -> Result {
    let request = request(&args)?;
    let cells = sched::run(&request)?;
    let (skipped, longer, wider) = match &request.jobs {
        Jobs::Log { log, .. } => (Some(log.skipped), Some(log.longer), Some(wider(log, &request)?.0)),
        Jobs::Mix { .. } => (None, None, None),
    };
    let machine = request.machine.name();
    let json = |runs: &[Cell]| {
        serde_json::json!({
            "machine": machine, "modelled": true, "skipped": skipped, "lines_with_more_fields": longer,
            "jobs_wider_than_the_machine": wider, "runs": runs
        })
    };
    if let Some(path) = &args.html {
        // Who ran where is drawn.
        let mut drawn = cells.clone();
        for cell in &mut drawn {
            cell.outcome.segments.clear();
            cell.outcome.locality.clear();
        }
        crate::files::write(
            path,
            Over::Pages,
            picture::page(&cells, request.machine.name(), HOW, &json(&drawn)),
        )?;
    }
    if args.json {
        crate::stdout::json(json(&cells))?;
        return Ok(Code::OK);
    }
    print(&cells)?;
    if let Jobs::Log { log, like } = &request.jobs {
        of_log(log, like.is_empty(), &request)?;
    }
    outln!("\n{HOW}");
    Ok(Code::OK)
}

/// Jobs of a log that had more processors than the machine has, and how many that has.
fn wider(log: &swf::Log, request: &Request) -> anyhow::Result<(usize, usize)> {
    let hardware = Hardware::new(&request.machine).map_err(|e| exit::error(Code::USAGE, e.to_string()))?;
    Ok((Workload::wider(log, &hardware), hardware.layout.cpus()))
}

/// What of a log was played, and how.
fn of_log(log: &swf::Log, without_pages: bool, request: &Request) -> anyhow::Result<()> {
    let left = log.skipped;
    outln!(
        "\n{} jobs of the log; {} left out ({} never ran, {} parts of others, {} of unknown time or processors).",
        log.jobs.len(), left.total(), left.never_ran, left.parts, left.unknown
    );
    let (wider, cpus) = wider(log, request)?;
    if wider > 0 {
        outln!("{wider} of them had more processors than the {cpus} here, and get {cpus} at most.");
    }
    if log.longer > 0 {
        outln!("{} lines have more than 18 fields; only these were read.", log.longer);
    }
    if without_pages {
        outln!(
            "The log does not say what its jobs' pages cost, so that pages make no difference here: --like NUMBER=NAME \
             lets an executable of the log behave as an application (docs/scheduling.md)."
        );
    }
    Ok(())
}

fn request(args: &Args) -> anyhow::Result<Request> {
    let usage = |message: String| exit::error(Code::USAGE, message);
    let positive = |name: &str, value: f64, most: f64| match value > 0.0 && value <= most {
        true => Ok(()),
        false => Err(usage(format!("{name} {value}: expected a number above 0, at most {most}"))),
    };
    args.load.iter().try_for_each(|&load| positive("--load", load, 1000.0))?;
    positive("--target-efficiency", args.target_efficiency, 10.0)?;
    positive("--burst-ms", args.burst_ms, 1e6)?;
    positive("--interval-ms", args.interval_ms, 1e6)?;
    positive("--window", args.window, 1e6)?;
    if args.level == 0 || args.runs == 0 || args.jobs == Some(0) {
        return Err(usage("--level, --runs and --jobs: expected 1 or more".into()));
    }
    let model = Model { set: args.set.clone(), ..Model::of(&args.machine) };
    let text = args.apps.as_deref().map(|path| read(path, "applications")).transpose()?;
    let name = args.apps.as_ref().map(|path| path.display().to_string());
    let catalogue = sched::catalogue(name.as_deref().zip(text.as_deref()))?;
    let jobs = match &args.log {
        Some(log) => {
            let log = swf::read(&read(log, "job log")?, &log.display().to_string())
                .map_err(|e| usage(e.to_string()))?;
            let like = args.like.iter().map(|pair| like(pair, &catalogue, &log).map_err(usage));
            let like = like.collect::<anyhow::Result<_>>()?;
            Jobs::Log { log, like }
        }
        None => {
            let mix = catalogue.mixes.iter().find(|mix| mix.name == args.mix).ok_or_else(|| {
                let names: Vec<_> = catalogue.mixes.iter().map(|mix| mix.name.as_str()).collect();
                usage(format!("--mix {}: no such mix; there are {}", args.mix, names.join(", ")))
            })?;
            let lengths = if args.exponential { Lengths::Exponential } else { Lengths::Same };
            let loads = args.load.iter().map(|load| load / 100.0).collect();
            Jobs::Mix { apps: catalogue.apps.clone(), mix: mix.clone(), loads, jobs: args.jobs, lengths }
        }
    };
    Ok(Request {
        machine: model.machine(is_machine)?,
        jobs,
        managers: args.managers.clone().unwrap_or_else(|| managers(args.partitions.is_some())),
        partitions: args.partitions.as_deref().map_or(Ok(Vec::new()), partitions::read)?,
        window_s: args.window,
        policies: args.policies.clone(),
        set: args.set.clone(),
        settings: Settings { level: args.level, target_efficiency: args.target_efficiency },
        burst_s: args.burst_ms / 1000.0,
        interval_s: args.interval_ms / 1000.0,
        seeds: (0..args.runs).map(|run| args.seed.wrapping_add(run)).collect(),
        pictures: args.html.is_some(),
    })
}

/// The managers that are compared unless some are named.
fn managers(divided: bool) -> Vec<String> {
    let usual = MANAGERS.into_iter().filter(|name| !divided || can_manage(name).is_ok());
    usual.map(String::from).collect()
}

fn read(path: &Path, what: &'static str) -> anyhow::Result<String> {
    Ok(crate::files::read_text(path, what)?)
}

fn like(pair: &str, catalogue: &Catalogue, log: &swf::Log) -> std::result::Result<(i64, App), String> {
    let wrong = |what: &str| format!("--like {pair}: {what}, expected NUMBER=NAME such as 3=swim");
    let (number, name) = pair.split_once('=').ok_or_else(|| wrong("no `=`"))?;
    let number = number.trim().parse().map_err(|_| wrong("no number of an executable"))?;
    let known: BTreeSet<i64> = log.jobs.iter().filter_map(|job| job.executable).collect();
    if !known.contains(&number) {
        let some: Vec<_> = known.iter().take(10).map(i64::to_string).collect();
        let there =
            if some.is_empty() { "its jobs have no numbers of executables".into() } else { some.join(", ") };
        return Err(wrong(&format!("no job of the log has executable {number} (field 14; there: {there})")));
    }
    let app = catalogue.apps.iter().find(|app| app.name == name.trim()).ok_or_else(|| {
        let names: Vec<_> = catalogue.apps.iter().map(|app| app.name.as_str()).collect();
        wrong(&format!("no application `{name}` (there are {})", names.join(", ")))
    })?;
    Ok((number, app.clone()))
}

/// Two tables: the machine, and jobs by application.
fn print(cells: &[Cell]) -> anyhow::Result<()> {
    let header = [
        "load %",
        "manager",
        "pages",
        "CPU s",
        "bound",
        "turnaround s",
        "makespan s",
        "busy %",
        "non-local %",
        "pages moved",
        "process migrations",
        "burst s",
    ];
    let mut machine = crate::tables::table(&header);
    let header = [
        "load %",
        "manager",
        "pages",
        "application",
        "jobs",
        "CPU s",
        "bound",
        "turnaround s",
        "waited s",
        "processors",
        "speed-up",
        "non-local %",
    ];
    let mut jobs = crate::tables::table(&header);
    let mut divided = partitions::table(&["load %", "manager", "pages"]);
    for same in cells
        .chunk_by(|a, b| (a.load_percent, &a.manager, &a.policy) == (b.load_percent, &b.manager, &b.policy))
    {
        let first = &same[0];
        let policy = if first.policy == NO_POLICY { "stay" } else { &first.policy };
        let load = format!("{:.0}", first.load_percent);
        let mean = |of: &dyn Fn(&Cell) -> f64| same.iter().map(of).sum::<f64>() / same.len() as f64;
        let whole = |of: &dyn Fn(&Cell) -> f64| format!("{:.0}", mean(of));
        machine.add_row([
            load.clone(),
            first.manager.clone(),
            policy.into(),
            whole(&|cell| cell.outcome.cpu_s),
            whole(&|cell| cell.outcome.bound_cpu_s),
            whole(&|cell| cell.outcome.turnaround_s),
            whole(&|cell| cell.outcome.makespan_s),
            format!("{:.1}", mean(&|cell| cell.outcome.utilisation_percent)),
            format!("{:.1}", mean(&|cell| cell.outcome.nonlocal_percent)),
            whole(&|cell| cell.outcome.pages_moved),
            whole(&|cell| cell.outcome.process_migrations as f64),
            format!("{:.3}", mean(&|cell| cell.outcome.burst_s)),
        ]);
        let divisions: Vec<&Division> =
            same.iter().filter_map(|cell| cell.outcome.division.as_ref()).collect();
        partitions::rows(&mut divided, &[load.clone(), first.manager.clone(), policy.into()], &divisions);
        for app in &first.outcome.apps {
            let of_app = |of: fn(&OfApp) -> f64| {
                mean(&|cell: &Cell| {
                    cell.outcome.apps.iter().find(|other| other.app == app.app).map_or(0.0, of)
                })
            };
            jobs.add_row([
                load.clone(),
                first.manager.clone(),
                policy.into(),
                app.app.clone(),
                format!("{:.0}", of_app(|app| app.jobs as f64)),
                format!("{:.1}", of_app(|app| app.cpu_s)),
                format!("{:.1}", of_app(|app| app.bound_cpu_s)),
                format!("{:.1}", of_app(|app| app.turnaround_s)),
                format!("{:.1}", of_app(|app| app.wait_s)),
                format!("{:.1}", of_app(|app| app.processors)),
                format!("{:.1}", of_app(|app| app.speed_up)),
                format!("{:.1}", of_app(|app| app.nonlocal_percent)),
            ]);
        }
    }
    outln!("{machine}\n\n{jobs}");
    if divided.row_iter().next().is_some() {
        outln!("\n{divided}");
    }
    if let [Cell { outcome: Outcome { division: Some(division), .. }, .. }] = cells {
        outln!("\n{}", partitions::transfers(division));
    }
    Ok(())
}
