//! `homing optimal`: the cheapest placement that any policy could have reached on a trace, its cost and its parts, the
//! placement itself, and the exact cost as a function of one parameter of the machine.

use crate::exit::{self, Code, Result};
use crate::files::{self, STDOUT};
use crate::options::ModelArgs;
use anyhow::Context;
use clap::ValueEnum;
use comfy_table::{presets, CellAlignment, Table};
use homing_core::history::History;
use homing_core::machine::{Costs, Machine};
use homing_core::optimal::curve::{curve, Range, Segment};
use homing_core::optimal::{place, solve, Optimum, Options, PageAction, Sink, Start};
use homing_core::policy::settings::Settings;
use homing_core::report::{Parameter, Row, TraceInfo, SCHEMA};
use homing_pipeline::experiment::write_manifests;
use homing_pipeline::manifest::GENERATOR;
use homing_pipeline::policies::is_machine;
use homing_pipeline::{info, Experiment, TraceFile};
use serde::Serialize;
use std::fmt;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Arguments of `homing optimal`.
#[derive(clap::Args)]
pub struct Args {
    /// The trace
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
    /// Write the placement: CSV, or JSON lines if the name ends in .jsonl; and FILE.manifest.json
    #[arg(long, value_name = "FILE")]
    placement: Option<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Print CSV instead of a table: the curve's segments, or the one row; with =FILE, write it there, and
    /// FILE.manifest.json
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
struct Output {
    schema: u32,
    generator: &'static str,
    trace: TraceInfo,
    parameters: Vec<Parameter>,
    #[serde(flatten)]
    row: Row,
    page_size: u64,
    replication: bool,
    start: String,
    /// References that damage in the trace file has lost.
    lost_references: u64,
    notes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    curve: Option<CurveOutput>,
    /// What the caches counted, with `--misses`.
    #[serde(skip_serializing_if = "Option::is_none")]
    caches: Option<homing_core::cache::Counts>,
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
    if let Some(setting) = args.model.set.iter().find(|setting| !is_machine(setting)) {
        let message = format!(
            "--set {setting}: the optimum has no policy; expected a field of the machine, such as remote=15"
        );
        return Err(exit::error(Code::USAGE, message));
    }
    let prints = files::refuse_two_on_stdout(args.csv.as_deref(), args.json)?;
    let experiment = Experiment { replication: !args.no_replication, ..Experiment::new(args.model.model()) };
    experiment.model.one_page_size()?;
    let ready = experiment.for_bound()?;
    let costs = &ready.costs;
    let options = args.options();
    let range = match args.curve {
        Some(range) => Some(range.clip(costs).map_err(|e| exit::error(Code::USAGE, e.to_string()))?),
        None => None,
    };
    let gap = range.map(|(range, uniform)| range.read_gap(&uniform));
    let file = TraceFile::open(&args.trace)?;
    let trace = file.trace()?;
    let layout = ready.lay_out(&file, &trace, gap)?;
    let history = &layout.history;
    let started = Instant::now();
    let optimum = match &args.placement {
        Some(path) => write_placement(path, history, costs, options)?,
        None => solve(history, costs, options)?,
    };
    let row = row(&optimum, &ready.machine, started.elapsed().as_secs_f64());
    let curve = match range {
        Some((range, uniform)) => {
            let segments = curve(history, &uniform, range, options)?;
            let segments = segments.iter().map(segment_row).collect();
            Some(CurveOutput {
                parameter: range.parameter.to_string(),
                low: range.low,
                high: range.high,
                segments,
            })
        }
        None => None,
    };
    let mut notes = notes(&args, costs, range.map(|(range, _)| range));
    notes.extend_from_slice(&layout.notes);
    let replication = optimum.replication;
    let start = args.start.to_string();
    let none = Settings::default();
    let mut parameters = info::parameters(
        &ready.experiment.model,
        ready.page_size,
        Some("the cheapest"),
        replication,
        &[],
        &none,
    );
    parameters.push(Parameter { name: "start".into(), value: start.clone() });
    let trace = ready.trace_info(&file, &trace, &layout);
    let table = args.csv.as_ref().filter(|_| !prints);
    write_manifests(args.placement.iter().chain(table), &ready.machine_info(), &parameters, &trace)?;
    let output = Output {
        schema: SCHEMA,
        generator: GENERATOR,
        trace,
        parameters,
        row,
        page_size: ready.page_size.bytes(),
        replication,
        start,
        lost_references: layout.lost,
        notes,
        curve,
        caches: layout.caches,
    };
    if let Some(path) = &args.csv {
        files::table(path, |csv| rows(&output, csv))?;
    }
    if !prints {
        print(&args, &output, &optimum)?;
    }
    output.notes.iter().filter(|_| !args.json).for_each(|note| errln!("note: {note}"));
    Ok(if layout.partial { Code::PARTIAL } else { Code::OK })
}

impl Args {
    fn options(&self) -> Options {
        let start = match self.start {
            StartArg::OneCopy => Start::OneCopy,
            StartArg::AnySet => Start::AnySet,
            StartArg::FirstTouch => Start::FirstTouch,
        };
        Options { replication: !self.no_replication && !self.model.misses, start }
    }
}

/// What a reader must know about the numbers.
fn notes(args: &Args, costs: &Costs, clipped: Option<Range>) -> Vec<String> {
    let mut notes = Vec::new();
    if matches!(costs, Costs::General(_)) && !args.no_replication {
        notes.push(
            "this machine has unequal distances, for which no exact bound with replication is known: one copy a page"
                .into(),
        );
    }
    if let (Some(asked), Some(clipped)) = (args.curve, clipped) {
        if asked != clipped {
            notes.push(format!(
                "the model's constraints clip {} from {}..{} to {}..{} on this machine",
                asked.parameter, asked.low, asked.high, clipped.low, clipped.high
            ));
        }
    }
    notes
}

fn row(optimum: &Optimum, machine: &Machine, seconds: f64) -> Row {
    let counts = optimum.counts;
    let references = counts.references();
    let share = |part: u64, of: u64| if of > 0 { part as f64 / of as f64 } else { 0.0 };
    Row {
        policy: "optimal".into(),
        machine: machine.name().into(),
        information: String::new(),
        references,
        cost: optimum.cost,
        mcpr: optimum.mcpr(),
        local: counts.local,
        remote: counts.remote,
        global: counts.global,
        moves: counts.moves,
        replications: counts.replications,
        nonlocal_percent: 100.0 * share(counts.remote + counts.global, references),
        optimal_cost: optimum.cost,
        gap_percent: 0.0,
        recovered_percent: None,
        pages: optimum.pages,
        seconds,
        copy_cost: optimum.copy_cost,
        moves_per_page: share(counts.moves + counts.replications, optimum.pages),
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

/// The curve's segments, or the one row.
fn rows(output: &Output, csv: &mut csv::Writer<impl Write>) -> csv::Result<()> {
    match &output.curve {
        Some(curve) => curve.segments.iter().try_for_each(|segment| csv.serialize(segment)),
        None => csv.serialize(&output.row),
    }
}

fn print(args: &Args, output: &Output, optimum: &Optimum) -> anyhow::Result<()> {
    if args.json {
        outln!("{}", serde_json::to_string_pretty(output)?);
        return Ok(());
    }
    outln!("{}", breakdown(output, optimum));
    if let Some(curve) = &output.curve {
        outln!("\n{}", curve_table(curve));
    }
    Ok(())
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(header.to_vec());
    for column in 1..header.len() {
        table.column_mut(column).expect("the header has it").set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// The optimum for people: what it is made of, and the sum.
fn breakdown(output: &Output, optimum: &Optimum) -> String {
    let row = &output.row;
    let mut table = table(&["", "count", "cost", "share of cost"]);
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
        table(&[&from, &to, "slope", "intercept", "MCPR from", "MCPR to", "moves", "replications"]);
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

/// Writes the placement beside computing it.
fn write_placement(
    path: &Path,
    history: &History,
    costs: &Costs,
    options: Options,
) -> anyhow::Result<Optimum> {
    let mut file = files::Output::create(path)?;
    let buffer = BufWriter::new(&mut file);
    let out = if path.extension().is_some_and(|e| e == "jsonl") {
        Format::JsonLines(buffer)
    } else {
        Format::Csv(Box::new(csv::Writer::from_writer(buffer)))
    };
    let optimum = PlacementWriter { history, out, error: None }
        .write(costs, options)
        .with_context(|| format!("cannot write placement {}", path.display()))?;
    file.commit()?;
    Ok(optimum)
}

/// A line of the placement file (`docs/optimal.md`).
#[derive(Serialize)]
struct PlacementLine {
    page: u32,
    address: String,
    reference: u64,
    time: u64,
    action: &'static str,
    from: u16,
    to: u16,
}

enum Format<W: Write> {
    Csv(Box<csv::Writer<W>>),
    JsonLines(W),
}

impl<W: Write> Format<W> {
    fn line(&mut self, line: &PlacementLine) -> anyhow::Result<()> {
        match self {
            Format::Csv(csv) => csv.serialize(line)?,
            Format::JsonLines(out) => {
                serde_json::to_writer(&mut *out, line)?;
                out.write_all(b"\n")?;
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        match self {
            Format::Csv(csv) => csv.flush()?,
            Format::JsonLines(out) => out.flush()?,
        }
        Ok(())
    }
}

struct PlacementWriter<'a, W: Write> {
    history: &'a History,
    out: Format<W>,
    error: Option<anyhow::Error>,
}

impl<W: Write> PlacementWriter<'_, W> {
    fn write(mut self, costs: &Costs, options: Options) -> anyhow::Result<Optimum> {
        let optimum = place(self.history, costs, options, &mut self)?;
        self.error.map_or(Ok(()), Err)?;
        self.out.finish()?;
        Ok(optimum)
    }
}

impl<W: Write> Sink for PlacementWriter<'_, W> {
    fn action(&mut self, action: &PageAction) {
        if self.error.is_some() {
            return;
        }
        let line = PlacementLine {
            page: action.page.0,
            address: format!("{:#x}", self.history.address(action.page)),
            reference: action.reference,
            time: action.time.0,
            action: action.kind.name(),
            from: action.from.0,
            to: action.to.0,
        };
        self.error = self.out.line(&line).err();
    }
}
