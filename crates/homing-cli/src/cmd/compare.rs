//! `homing compare`: policies against the bound and each other, for a person, as JSON, CSV, and as a page.

use crate::exit::{Code, Result};
use crate::files::{refuse_two_on_stdout, table, Over, STDOUT};
use crate::options::{information, ModelArgs, SceneArgs};
use crate::{names, tables};
use clap::builder::TypedValueParser;
use clap::ValueHint;
use homing_core::compare::BoundStart;
use homing_core::information::Information;
use homing_core::monitor::table::Choice;
use homing_core::report::Report;
use homing_linux::visible;
use homing_pipeline::chosen::{self, ThreadList};
use homing_pipeline::compare::{self, Compared, Comparison, Sweep, SEEDS};
use homing_pipeline::honest::Asked;
use homing_pipeline::manifest::Manifest;
use homing_pipeline::{Experiment, TraceFile};
use std::path::{Path, PathBuf};

/// A filter of Bolosky & Scott's section 4.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Filter {
    /// References within a hundred change places.
    Local,
    /// A thread stops for 4000 references once in 30000, and catches up.
    Gaps,
}

/// Arguments of `homing compare`.
#[derive(clap::Args)]
pub struct Args {
    /// The traces
    #[arg(required = true, value_hint = ValueHint::FilePath)]
    traces: Vec<PathBuf>,
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    scene: SceneArgs,
    /// What policies see, several levels by commas: perfect, every:N, interval:N, intervals:K, or joined as
    /// every:64+intervals:100
    #[arg(long, value_name = "LEVELS", value_delimiter = ',', default_value = "perfect", value_parser = information)]
    info: Vec<Information>,
    /// Also let policies see what this monitor reports (see `homing monitors`), in the loop with the machine's caches;
    /// repeatable
    #[arg(long, value_name = "MONITOR", hide_possible_values = true,
          value_parser = names::MONITOR.try_map(|text| text.parse::<Choice>()))]
    monitor: Vec<Choice>,
    /// Look only at the references of this phase, as the program marks it (include/homing.h)
    ///
    /// Pages begin where they are first touched in the whole trace.
    #[arg(long, value_name = "NAME", conflicts_with = "monitor")]
    phase: Option<String>,
    /// Look only at the references of these threads, such as 1-4,7
    #[arg(long, value_name = "LIST", conflicts_with = "monitor")]
    threads: Option<ThreadList>,
    /// Policies, separated by commas (see `homing policies`)
    #[arg(long, value_delimiter = ',', default_value = "all", value_parser = names::POLICY,
          hide_possible_values = true)]
    policies: Vec<String>,
    /// Where pages begin: first-touch, round-robin, single-node[:NODE], striped[:PAGES], global, file:FILE,
    /// areas:FILE
    #[arg(long, value_name = "RULE")]
    placement: Option<String>,
    /// Count every reference, whether or not a cache would serve it; on machines of papers that is so anyway
    #[arg(long, conflicts_with = "misses")]
    every_reference: bool,
    /// Let pages have several copies, in policies and bound, and count every reference: behind caches writes that hit
    /// are not seen. On machines of papers that is so anyway
    #[arg(long, conflicts_with_all = ["no_replication", "misses"])]
    replication: bool,
    /// Never more than one copy of a page, in policies and bound; on machines of today that is so anyway
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
    #[arg(long, value_name = "COUNT", default_value_t = SEEDS, value_parser = clap::value_parser!(u64).range(1..=1000))]
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

/// Compares.
pub fn run(args: Args) -> Result {
    let prints = refuse_two_on_stdout(args.csv.as_deref(), args.json)?;
    let Compared { report, model, partial } = args.comparison()?.run()?;
    if let Some(path) = &args.csv {
        write_rows(path, &report)?;
    }
    if let Some(path) = args.csv.as_ref().filter(|_| !prints) {
        let traces = report.traces.iter().map(|trace| &trace.trace).collect();
        Manifest::new(&report.machine, &report.parameters, traces).write_beside(path)?;
    }
    if let Some(path) = &args.html {
        let page = crate::page::page(&report)?;
        crate::files::write(path, Over::Pages, page)?;
    }
    if args.json {
        outln!("{}", serde_json::to_string_pretty(&report)?);
    } else if prints {
        report.notes.iter().for_each(|note| errln!("note: {note}"));
    } else {
        print(&report, &model)?;
        if let Some(path) = &args.html {
            outln!("\nreport page: {}", path.display());
        }
    }
    Ok(if partial { Code::PARTIAL } else { Code::OK })
}

impl Args {
    fn comparison(&self) -> anyhow::Result<Comparison> {
        let filter = |filter: &Filter| match filter {
            Filter::Local => compare::Filter::Local,
            Filter::Gaps => compare::Filter::Gaps,
        };
        let experiment = Experiment {
            scene: self.scene.scene(),
            placement: self.placement.clone(),
            bound_start: self.bound_start,
            information: self.info[0],
            choice: chosen::Choice { phase: self.phase.clone(), threads: self.threads.clone(), since: None },
            ..self.model.experiment()
        };
        Ok(Comparison {
            traces: self.traces.clone(),
            experiment: self.asked().on_machine(experiment)?,
            policies: self.policies.clone(),
            further_levels: self.info[1..].to_vec(),
            monitors: self.monitor.clone(),
            sweeps: self.sweep.clone(),
            perturb: self.perturb.iter().map(filter).collect(),
            seeds: self.seeds,
            diagnose: self.json || self.html.is_some(),
        })
    }

    /// What is said of the model. Disturbed orders are those of references: there is no such filter behind caches.
    fn asked(&self) -> Asked {
        let every_reference = self.every_reference || !self.perturb.is_empty();
        Asked {
            threads_on: self.model.threads_on.clone(),
            caches: self.model.misses.then_some(true).or(every_reference.then_some(false)),
            replication: self.no_replication.then_some(false).or(self.replication.then_some(true)),
            pages_alone: TraceFile::any_of_pages_alone(&self.traces),
        }
    }
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
    program_mcpr: Option<f64>,
    program_mcpr_low: Option<f64>,
    program_mcpr_high: Option<f64>,
    program_nonlocal_percent: Option<f64>,
    program_nonlocal_percent_low: Option<f64>,
    program_nonlocal_percent_high: Option<f64>,
}

impl<'a> CsvRow<'a> {
    fn new(trace: &'a str, row: &'a homing_core::report::Row) -> CsvRow<'a> {
        let (mcpr, nonlocal) = (
            row.program.map(|program| program.mcpr),
            row.program.and_then(|program| program.nonlocal_percent),
        );
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
            program_mcpr: mcpr.map(|figure| figure.value),
            program_mcpr_low: mcpr.and_then(|figure| figure.low),
            program_mcpr_high: mcpr.and_then(|figure| figure.high),
            program_nonlocal_percent: nonlocal.map(|figure| figure.value),
            program_nonlocal_percent_low: nonlocal.and_then(|figure| figure.low),
            program_nonlocal_percent_high: nonlocal.and_then(|figure| figure.high),
        }
    }
}

fn print(report: &Report, model: &str) -> anyhow::Result<()> {
    for trace in &report.traces {
        let info = &trace.trace;
        outln!(
            "{} on {}: {} references, {} pages",
            visible::name(&info.name),
            visible::name(&report.machine.name),
            info.references,
            info.pages
        );
        outln!("{model}");
        if let Some(program) = trace.rows.iter().find_map(|row| row.program) {
            outln!(
                "The whole program, about {:.0} references, estimated from {} windows of it. Intervals held the truth \
                 in 53 of 64 on a real program (docs/policies.md, \"From windows\"):",
                program.references,
                program.windows
            );
            outln!("{}\n\nThe windows alone, one after the other:", tables::program(&trace.rows));
        }
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
    // The model stands above each table.
    tables::print_notes(report.notes.iter().filter(|note| *note != model))
}
