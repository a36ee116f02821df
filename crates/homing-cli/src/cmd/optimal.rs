//! `homing optimal`: the cheapest placement that any policy could have reached on a trace, its cost and its parts, the
//! placement itself, and the exact cost as a function of one parameter of the machine.

mod estimate;
mod load;
mod placement;
mod sampled;

use crate::exit::{Code, Result};
use crate::files::{self, STDOUT};
use crate::options::ModelArgs;
use crate::progress;
use crate::tables;
use clap::{ValueEnum, ValueHint};
use homing_core::optimal::curve::{Range, Segment};
use homing_core::optimal::{Optimum, Start};
use homing_core::report::{Parameter, Row, TraceInfo, SCHEMA};
use homing_pipeline::load::{self as loads, Load};
use homing_pipeline::manifest::GENERATOR;
use homing_pipeline::optimal::{Answer, Question};
use homing_pipeline::sampled::{from_samples, FromSamples};
use homing_pipeline::windows::{bound, Bound, Estimated};
use homing_pipeline::{Case, Experiment, TraceFile};
use serde::Serialize;
use std::fmt;
use std::io::Write;
use std::path::PathBuf;

/// Arguments of `homing optimal`.
#[derive(clap::Args)]
pub struct Args {
    /// The trace
    #[arg(value_hint = ValueHint::FilePath)]
    trace: PathBuf,
    #[command(flatten)]
    model: ModelArgs,
    /// Allow one copy of a page only
    #[arg(long)]
    no_replication: bool,
    /// Where a page may start free of charge: in one memory, in any set of memories, or where it is first touched
    #[arg(long, value_enum, default_value_t = StartArg::OneCopy)]
    start: StartArg,
    /// Also the exact cost over a range of R, r, G or g, in local references, such as R=200..20000
    ///
    /// All break-points are found, for every variant of the optimum on machines with one r and one R, with or without
    /// global memory. Machines with unequal distances have no such parameter: `homing compare --sweep` samples there.
    #[arg(long, value_name = "PARAM=LO..HI")]
    curve: Option<Range>,
    /// Also what is lost to sampling: the gap over the period of sampling, such as 4,16,64,256 (one reference in that
    /// number is seen), of an oracle that knows the law of each page and sees samples only, and of the policy `homing`
    ///
    /// With one copy a page, and from where pages are first touched, for the optimum, the oracle and the policy.
    #[arg(long, value_name = "PERIODS", value_delimiter = ',', conflicts_with = "curve",
          value_parser = clap::value_parser!(u64).range(1..1 << 32))]
    from_samples: Vec<u64>,
    /// With --misses, on machines with times: also what no placement is below in modelled time, with the load of
    /// memories and links; takes up to 27 times as long as the optimum alone
    #[arg(long, requires = "misses", conflicts_with = "csv")]
    load: bool,
    /// Write the placement: CSV, or JSON lines if the name ends in .jsonl; and FILE.manifest.json
    #[arg(long, value_name = "FILE")]
    placement: Option<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Print CSV instead of a table: the curve's segments, the periods of sampling, or the one row; with =FILE, write
    /// it there, and FILE.manifest.json
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = STDOUT, require_equals = true)]
    csv: Option<PathBuf>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum StartArg {
    /// In one memory, as in the paper's algorithms
    OneCopy,
    /// In any set of memories, as in the paper's equation (2)
    AnySet,
    /// At the node of the first reference
    FirstTouch,
}

impl fmt::Display for StartArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_possible_value().expect("no variant is skipped").get_name())
    }
}

/// What `--json` prints: the row, and what else was asked for.
#[derive(Serialize)]
struct Output<'a> {
    schema: u32,
    generator: &'static str,
    trace: TraceInfo,
    parameters: &'a [Parameter],
    #[serde(flatten)]
    row: &'a Row,
    page_size: u64,
    replication: bool,
    start: String,
    /// References that damage in the trace file has lost.
    lost_references: u64,
    notes: &'a [String],
    /// The bound of the program, if the trace is of windows of it; all else is of the windows.
    #[serde(skip_serializing_if = "Option::is_none")]
    estimate: Option<&'a Estimated>,
    #[serde(skip_serializing_if = "Option::is_none")]
    curve: Option<CurveOutput>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from_samples: Option<FromSamples>,
    /// What the caches counted, with `--misses`.
    #[serde(skip_serializing_if = "Option::is_none")]
    caches: Option<homing_core::cache::Counts>,
    /// What no placement is below in modelled time, with `--load`.
    #[serde(skip_serializing_if = "Option::is_none")]
    load: Option<Load>,
}

#[derive(Serialize)]
struct CurveOutput {
    parameter: String,
    low: f64,
    high: f64,
    segments: Vec<SegmentRow>,
}

#[derive(Clone, Serialize)]
struct SegmentRow {
    from: f64,
    to: f64,
    slope: u64,
    intercept: f64,
    cost_from: f64,
    cost_to: f64,
    mcpr_from: f64,
    mcpr_to: f64,
    local: u64,
    remote: u64,
    global: u64,
    moves: u64,
    replications: u64,
}

/// Computes and prints the optimum.
pub fn run(args: Args) -> Result {
    let prints = files::refuse_two_on_stdout(args.csv.as_deref(), args.json)?;
    let experiment = Experiment { replication: !args.no_replication, ..args.model.experiment() };
    experiment.model.one_page_size()?;
    let ready = experiment.for_bound()?;
    let question = Question::new(&ready, args.start.into(), args.curve)?;
    let file = TraceFile::ordered(&args.trace, &progress::of_pipeline())?;
    let case = ready.case(&file, question.read_gap())?;
    let load = args.load.then(|| loads::bound(&case)).transpose()?;
    let mut answer = match &args.placement {
        Some(path) => placement::write(path, &question, &case)?,
        None => question.solve(&case)?,
    };
    if !args.from_samples.is_empty() {
        let periods: Vec<String> = args.from_samples.iter().map(u64::to_string).collect();
        answer.parameters.push(Parameter { name: "from-samples".into(), value: periods.join(",") });
    }
    let bound = bound(&case, args.start.into())?;
    let estimate = match &bound {
        Bound::Whole => None,
        Bound::Not(why) => {
            if !answer.notes.contains(why) {
                answer.notes.push(why.clone());
            }
            None
        }
        Bound::From(estimated) => {
            answer.notes.extend_from_slice(&estimated.notes);
            Some(&**estimated)
        }
    };
    let table = args.csv.as_ref().filter(|_| !prints);
    case.write_manifests(args.placement.iter().chain(table), &answer.parameters)?;
    let asked = !args.from_samples.is_empty();
    let from_samples = asked.then(|| from_samples(&case, &args.from_samples)).transpose()?;
    let output = Output { from_samples, estimate, load, ..Output::new(&answer, &case, args.start) };
    if let Some(path) = &args.csv {
        files::table(path, |csv| rows(&output, csv))?;
    }
    if !prints {
        print(&args, &output, &answer.optimum)?;
    }
    output.notes.iter().filter(|_| !args.json).for_each(|note| errln!("note: {note}"));
    Ok(if case.layout.partial { Code::PARTIAL } else { Code::OK })
}

impl<'a> Output<'a> {
    fn new(answer: &'a Answer, case: &Case<'_>, start: StartArg) -> Output<'a> {
        let curve = answer.curve.as_ref().map(|(range, segments)| CurveOutput {
            parameter: range.parameter.to_string(),
            low: range.low,
            high: range.high,
            segments: segments.iter().map(segment_row).collect(),
        });
        Output {
            schema: SCHEMA,
            generator: GENERATOR,
            trace: case.trace_info(),
            parameters: &answer.parameters,
            row: &answer.row,
            page_size: case.ready.page_size.bytes(),
            replication: answer.optimum.replication,
            start: start.to_string(),
            lost_references: case.layout.lost,
            notes: &answer.notes,
            estimate: None,
            curve,
            from_samples: None,
            caches: case.layout.caches,
            load: None,
        }
    }
}

impl From<StartArg> for Start {
    fn from(start: StartArg) -> Start {
        match start {
            StartArg::OneCopy => Start::OneCopy,
            StartArg::AnySet => Start::AnySet,
            StartArg::FirstTouch => Start::FirstTouch,
        }
    }
}

fn segment_row(segment: &Segment) -> SegmentRow {
    let counts = segment.counts;
    let (cost_from, cost_to) = (segment.cost(segment.from), segment.cost(segment.to));
    let references = counts.references().max(1) as f64;
    SegmentRow {
        from: segment.from,
        to: segment.to,
        slope: segment.slope,
        intercept: segment.intercept,
        cost_from,
        cost_to,
        mcpr_from: cost_from / references,
        mcpr_to: cost_to / references,
        local: counts.local,
        remote: counts.remote,
        global: counts.global,
        moves: counts.moves,
        replications: counts.replications,
    }
}

/// The curve's segments, what the oracle of samples did at each period, or the one row.
fn rows(output: &Output<'_>, csv: &mut csv::Writer<impl Write>) -> csv::Result<()> {
    match (&output.curve, &output.from_samples) {
        (Some(curve), _) => curve.segments.iter().try_for_each(|segment| csv.serialize(segment)),
        (_, Some(from_samples)) => from_samples.points.iter().try_for_each(|point| csv.serialize(point)),
        _ => csv.serialize(output.row),
    }
}

fn print(args: &Args, output: &Output<'_>, optimum: &Optimum) -> anyhow::Result<()> {
    if args.json {
        outln!("{}", serde_json::to_string_pretty(output)?);
        return Ok(());
    }
    if let Some(estimated) = output.estimate {
        outln!("{}\n\nThe windows, as though they were the whole program:\n", estimate::text(estimated));
    }
    outln!("{}", breakdown(output, optimum));
    if let Some(load) = &output.load {
        outln!("\n{}", load::text(load));
    }
    if let Some(curve) = &output.curve {
        outln!("\n{}", curve_table(curve));
    }
    if let Some(from_samples) = &output.from_samples {
        outln!("\n{}", sampled::table(from_samples));
    }
    Ok(())
}

/// The optimum for people: what it is made of, and the sum.
fn breakdown(output: &Output<'_>, optimum: &Optimum) -> String {
    let row = output.row;
    let mut table = tables::table(&["", "count", "cost", "share of cost"]);
    let share =
        |cost: f64| if row.cost > 0.0 { format!("{:.1} %", 100.0 * cost / row.cost) } else { "-".into() };
    let mut line = |name: &str, count: u64, cost: Option<f64>| {
        let text = |cost: f64| format!("{cost:.0}");
        table.add_row([
            name.into(),
            count.to_string(),
            cost.map_or(String::new(), text),
            cost.map_or(String::new(), share),
        ]);
    };
    let counts = optimum.counts;
    // Local references cost 1 on uniform machines; with unequal distances only the sums are told apart.
    line("local references", counts.local, None);
    line("remote references", counts.remote, None);
    line("global references", counts.global, None);
    line("all references", row.references, Some(row.cost - row.copy_cost));
    line("page moves", counts.moves, None);
    line("page replications", counts.replications, None);
    line("all page copies", counts.moves + counts.replications, Some(row.copy_cost));
    line("optimal cost", row.references, Some(row.cost));
    format!(
        "{table}\n\nMCPR {:.4} (1 is all local), {:.2} % non-local, {:.3} copies a page, {} pages of {} bytes, \
         machine {}{}",
        row.mcpr,
        row.nonlocal_percent,
        row.moves_per_page,
        row.pages,
        output.page_size,
        row.machine,
        if output.replication { "" } else { ", without replication" }
    )
}

fn curve_table(curve: &CurveOutput) -> String {
    let p = &curve.parameter;
    let (from, to) = (format!("{p} from"), format!("{p} to"));
    let mut table =
        tables::table(&[&from, &to, "slope", "intercept", "MCPR from", "MCPR to", "moves", "replications"]);
    for s in &curve.segments {
        table.add_row([
            format!("{:.6}", s.from),
            format!("{:.6}", s.to),
            s.slope.to_string(),
            format!("{:.2}", s.intercept),
            format!("{:.6}", s.mcpr_from),
            format!("{:.6}", s.mcpr_to),
            s.moves.to_string(),
            s.replications.to_string(),
        ]);
    }
    format!("Exact: cost = intercept + slope * {p}, {} segments\n\n{table}", curve.segments.len())
}
