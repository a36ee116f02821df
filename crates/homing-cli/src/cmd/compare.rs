//! `homing compare`: policies against the bound and each other, for a person, as JSON, CSV, and as a page.

mod monitors;
mod perturb;
mod sizes;
mod sweep;

pub use perturb::{disturb, Filter};

use crate::exit::{self, Code, Result};
use crate::files::{refuse_two_on_stdout, table, STDOUT};
use crate::input::{naming, ModelArgs, TraceFile};
use crate::manifest::{self, Manifest};
use crate::rig;
use crate::scene::{self, SceneArgs};
use crate::study::{self, Begins, Study};
use crate::{tables, trace_names};
use homing_core::compare::{compare, means, summary, BoundStart, Subject};
use homing_core::information::Information;
use homing_core::machine::Machine;
use homing_core::monitor::table::Choice;
use homing_core::policy::placement::Placement;
use homing_core::policy::settings::Settings;
use homing_core::policy::table::{Begin, Entry, POLICIES};
use homing_core::report::{Parameter, Report, TraceReport, SCHEMA};
use homing_linux::visible;
use std::path::{Path, PathBuf};
use std::time::Instant;
use sweep::Sweep;

/// Arguments of `homing compare`.
#[derive(clap::Args)]
pub struct Args {
    /// The traces
    #[arg(required = true)]
    traces: Vec<PathBuf>,
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    scene: SceneArgs,
    /// What policies see, several levels by commas: perfect, every:N, interval:N, intervals:K, or joined as
    /// every:64+intervals:100
    #[arg(long, value_name = "LEVELS", value_delimiter = ',', default_value = "perfect")]
    #[arg(value_parser = scene::information)]
    info: Vec<Information>,
    /// Also let policies see what this monitor reports (see `homing monitors`), in the loop with the machine's caches;
    /// repeatable
    #[arg(long, value_name = "MONITOR", requires = "misses")]
    monitor: Vec<Choice>,
    /// Policies, separated by commas (see `homing policies`)
    #[arg(long, value_delimiter = ',', default_value = "all")]
    policies: Vec<String>,
    /// Where pages begin: first-touch, round-robin, single-node[:NODE], striped[:PAGES], global, file:FILE,
    /// areas:FILE
    #[arg(long, value_name = "RULE")]
    placement: Option<String>,
    /// Never more than one copy of a page, in policies and bound
    #[arg(long)]
    no_replication: bool,
    /// Where the optimum begins that policies are measured against: one-copy (each page where that is cheapest, free of
    /// charge) or same (where the policy begins)
    #[arg(long, value_name = "WHERE", default_value_t)]
    bound_start: BoundStart,
    /// Also sweep a parameter: page-move=200..4000 (in local references) or page-size=512,1K,2K,4K; repeatable
    ///
    /// The curve of the optimum over page-move is exact, with all its break-points, on machines with one r and R and no
    /// global memory. Where G is scaled with R, where distances are unequal, over page sizes, and for policies, it is
    /// sampled: each point is exact, the lines between them are not. `homing optimal --curve` is always exact.
    #[arg(long, value_name = "PARAM=VALUES")]
    sweep: Vec<Sweep>,
    /// Also bound disturbed orders (Bolosky & Scott 1991, table II): local, gaps, or both
    #[arg(long, value_name = "FILTERS", value_delimiter = ',', value_enum, conflicts_with = "misses")]
    perturb: Vec<Filter>,
    /// Seeds of each disturbance, from 0 up
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// Print the report as JSON instead of tables
    #[arg(long)]
    json: bool,
    /// Write the rows as CSV, and FILE.manifest.json with the traces, the machine and all parameters; without FILE,
    /// print them instead of tables
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = STDOUT)]
    csv: Option<PathBuf>,
    /// Write the report as one self-contained page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// What the arguments mean.
struct Plan {
    machine: Machine,
    settings: Settings,
    placement: Option<Begins>,
    policies: Vec<&'static Entry>,
}

/// Compares.
pub fn run(args: Args) -> Result {
    let prints = refuse_two_on_stdout(args.csv.as_deref(), args.json)?;
    let machine = args.model.machine(study::is_machine)?;
    let settings = study::settings(&args.model.set)?;
    let placement = args.placement.as_deref().map(study::begins).transpose()?;
    let given = placement.as_ref().map(Begins::placement);
    let policies = policies(&args.policies, given)?;
    study::check(&machine, given, &args.model.costs(&machine)?, &policies)?;
    study::each_once("level of --info", args.info.iter().map(Information::to_string))?;
    study::each_once("monitor", args.monitor.iter().map(Choice::describe))?;
    let plan = Plan { machine, settings, placement, policies };
    let elsewhere = !args.sweep.is_empty() || !args.perturb.is_empty();
    if args.bound_start == BoundStart::Same && elsewhere {
        let message =
            "--bound-start same: --sweep and --perturb bound from one copy anywhere; leave one of them out";
        return Err(exit::error(Code::USAGE, message));
    }
    let mut notes = Vec::new();
    let mut traces = Vec::new();
    let mut partial = false;
    let names = trace_names::distinct(&args.traces)?;
    for (path, name) in args.traces.iter().zip(&names) {
        let file = TraceFile::open(path)?.named(name);
        traces.push(one_trace(&args, &plan, &file, &mut notes, &mut partial)?);
    }
    let report = report(&args, &plan, traces, notes)?;
    if let Some(path) = &args.csv {
        write_rows(path, &report)?;
    }
    if let Some(path) = args.csv.as_ref().filter(|_| !prints) {
        let traces = report.traces.iter().map(|trace| &trace.trace).collect();
        Manifest::new(&report.machine, &report.parameters, traces).write_beside(path)?;
    }
    if let Some(path) = &args.html {
        let page = crate::page::page(&report)?;
        crate::files::write(path, page)?;
    }
    if args.json {
        outln!("{}", serde_json::to_string_pretty(&report)?);
    } else if prints {
        report.notes.iter().for_each(|note| errln!("note: {note}"));
    } else {
        print(&report)?;
        if let Some(path) = &args.html {
            outln!("\nreport page: {}", path.display());
        }
    }
    Ok(if partial { Code::PARTIAL } else { Code::OK })
}

/// The policies by name; `all` is all that need no file.
fn policies(names: &[String], placement: Option<&Placement>) -> anyhow::Result<Vec<&'static Entry>> {
    if names == ["all"] {
        let has_file = matches!(placement, Some(Placement::File(_)));
        let usable = |entry: &&Entry| has_file || !matches!(entry.begin, Begin::File);
        return Ok(POLICIES.iter().filter(usable).collect());
    }
    let policies: Vec<&'static Entry> =
        names.iter().map(|name| study::policy(name.trim())).collect::<anyhow::Result<_>>()?;
    study::each_once("policy", policies.iter().map(|entry| entry.name.to_owned()))?;
    Ok(policies)
}

fn one_trace(
    args: &Args,
    plan: &Plan,
    file: &TraceFile,
    notes: &mut Vec<String>,
    partial: &mut bool,
) -> anyhow::Result<TraceReport> {
    let trace = file.trace()?;
    let page_size = args.model.page_size(&plan.machine);
    let costs = args.model.costs(&plan.machine)?;
    let read_gap = args.sweep.iter().filter_map(|sweep| sweep.read_gap(&costs)).min();
    let study = Study::new(&args.model, &args.scene, &plan.machine, &trace, page_size, read_gap);
    let study = naming(study, &file.path)?.begun(plan.placement.as_ref(), &trace);
    let info = study::trace_info(file, &trace, &study.history, study.partial, study.caches);
    let subject = subject(args, plan, &study);
    let begin = Instant::now();
    let mut compared = compare(&subject, &plan.policies, &args.info[1..], &|| begin.elapsed().as_secs_f64())?;
    compared.page_map.name_areas(&trace, page_size);
    let (watched, unable) = monitors::rows(args, plan, &trace, &study, &subject)?;
    compared.further_levels.extend(watched);
    if !unable.is_empty() {
        let unable = unable.join(", ");
        compared.notes.push(format!("{}: {unable}", rig::UNABLE));
    }
    let about =
        |note: &String| if args.traces.len() > 1 { format!("{}: {note}", info.name) } else { note.clone() };
    let common = subject.notes();
    notes.extend(common.iter().filter(|note| !notes.contains(note)).cloned().collect::<Vec<_>>());
    notes.extend(compared.notes.iter().filter(|note| !common.contains(note)).map(about));
    notes.extend(study.notes.iter().map(about));
    *partial |= study.partial;
    let mut curves = Vec::new();
    for sweep in &args.sweep {
        curves.push(sweep.run(args, plan, &trace, &study)?);
    }
    let perturbation = perturb::table(args, plan, &trace, compared.rows[0].cost);
    let perturbation = naming(perturbation, &file.path)?;
    let (page_sizes, split) = sizes::compare(args, plan, &trace)?;
    Ok(TraceReport {
        summary: summary(&compared.rows),
        rows: compared.rows,
        further_levels: compared.further_levels,
        sharing: compared.sharing,
        page_map: compared.page_map,
        trace: info,
        curves,
        perturbation,
        page_sizes,
        split,
    })
}

fn subject<'a>(args: &Args, plan: &'a Plan, study: &'a Study) -> Subject<'a> {
    Subject {
        history: &study.history,
        costs: &study.costs,
        machine: plan.machine.name(),
        replication: !args.no_replication && !args.model.misses,
        placement: study.placement.as_ref(),
        bound_start: args.bound_start,
        information: args.info[0],
        timeline: &study.timeline,
        settings: &plan.settings,
    }
}

fn report(args: &Args, plan: &Plan, traces: Vec<TraceReport>, notes: Vec<String>) -> anyhow::Result<Report> {
    let page_size = args.model.page_size(&plan.machine);
    let costs = args.model.costs(&plan.machine)?;
    let replication = !args.no_replication
        && !args.model.misses
        && matches!(costs, homing_core::machine::Costs::Uniform(_));
    let placement = args.placement.as_deref();
    let mut parameters =
        study::parameters(&args.model, page_size, placement, replication, &plan.policies, &plan.settings);
    parameters.push(study::bound_start(args.bound_start));
    parameters.extend(args.scene.parameters(&args.info));
    let monitor = |choice: &Choice| Parameter { name: "monitor".into(), value: choice.describe() };
    parameters.extend(args.monitor.iter().map(monitor));
    if !args.perturb.is_empty() {
        let seeds = Parameter { name: "seeds".into(), value: args.seeds.to_string() };
        parameters.push(seeds);
    }
    Ok(Report {
        schema: SCHEMA,
        generator: manifest::GENERATOR.into(),
        machine: study::machine_info(&plan.machine, &costs, page_size),
        parameters,
        means: means(&traces),
        traces,
        notes,
    })
}

fn write_rows(path: &Path, report: &Report) -> anyhow::Result<()> {
    table(path, |out| {
        for trace in &report.traces {
            for row in trace.rows.iter().chain(&trace.further_levels) {
                out.serialize(CsvRow::new(&trace.trace.name, row))?;
            }
        }
        Ok(())
    })
}

/// The fields of a row, flat, with the trace's name first.
#[derive(serde::Serialize)]
struct CsvRow<'a> {
    trace: &'a str,
    policy: &'a str,
    machine: &'a str,
    information: &'a str,
    references: u64,
    cost: f64,
    mcpr: f64,
    local: u64,
    remote: u64,
    global: u64,
    moves: u64,
    replications: u64,
    nonlocal_percent: f64,
    optimal_cost: f64,
    gap_percent: f64,
    recovered_percent: Option<f64>,
    pages: u64,
    copy_cost: f64,
    moves_per_page: f64,
    seconds: f64,
}

impl<'a> CsvRow<'a> {
    fn new(trace: &'a str, row: &'a homing_core::report::Row) -> CsvRow<'a> {
        CsvRow {
            trace,
            policy: &row.policy,
            machine: &row.machine,
            information: &row.information,
            references: row.references,
            cost: row.cost,
            mcpr: row.mcpr,
            local: row.local,
            remote: row.remote,
            global: row.global,
            moves: row.moves,
            replications: row.replications,
            nonlocal_percent: row.nonlocal_percent,
            optimal_cost: row.optimal_cost,
            gap_percent: row.gap_percent,
            recovered_percent: row.recovered_percent,
            pages: row.pages,
            copy_cost: row.copy_cost,
            moves_per_page: row.moves_per_page,
            seconds: row.seconds,
        }
    }
}

fn print(report: &Report) -> anyhow::Result<()> {
    for trace in &report.traces {
        let info = &trace.trace;
        outln!(
            "{} on {}: {} references, {} pages",
            visible::name(&info.name),
            visible::name(&report.machine.name),
            info.references,
            info.pages
        );
        outln!("{}", tables::rows(&trace.rows));
        if !trace.further_levels.is_empty() {
            outln!("\ngap % (recovered %) by what the policy sees");
            outln!("{}", tables::levels(&trace.rows, &trace.further_levels));
        }
        outln!("\n{}", tables::sharing(&trace.sharing));
        for curve in &trace.curves {
            outln!("\nmean cost per reference against {} ({})", curve.parameter, curve.unit);
            outln!("{}", tables::curve(curve));
        }
        if !trace.page_sizes.is_empty() {
            outln!("\n{}", tables::page_sizes(&trace.page_sizes));
            outln!("\n{}", tables::split(&trace.split));
        }
        if !trace.perturbation.is_empty() {
            outln!("\n{}", tables::perturbation(&trace.perturbation));
        }
        outln!("\n{}\n", trace.summary);
    }
    if !report.means.is_empty() {
        outln!("{}\n", tables::means(&report.means));
    }
    tables::print_notes(&report.notes)
}

/// A usage error.
fn usage(message: String) -> anyhow::Error {
    exit::error(Code::USAGE, message)
}
