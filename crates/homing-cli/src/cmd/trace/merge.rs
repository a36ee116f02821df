//! `homing trace merge`: another interleaving of the same execution.

use super::copied_damage;
use crate::exit::{Code, Result};
use crate::options::ORDER_MEMORY;
use crate::progress;
use homing_core::trace::merge::{Options, Report};
use homing_pipeline::model::bytes;
use homing_pipeline::{order, TraceFile};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Arguments of `homing trace merge`.
#[derive(clap::Args)]
pub struct Args {
    /// The trace
    trace: PathBuf,
    /// The trace to write
    #[arg(short, long)]
    output: PathBuf,
    #[command(flatten)]
    order: OrderArgs,
    /// Memory for synchronisation operations (8 bytes each); what is beyond goes to a temporary file beside the new
    /// trace
    #[arg(long, value_name = "SIZE", default_value = ORDER_MEMORY, value_parser = bytes)]
    memory: u64,
    /// Print JSON instead of a line
    #[arg(long)]
    json: bool,
}

/// How to merge.
#[derive(clap::Args)]
pub struct OrderArgs {
    /// Seed of the jitter and of ties: another seed, another interleaving
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Instructions that a thread runs before another gets its turn, on average
    #[arg(long, value_name = "INSTRUCTIONS", default_value_t = Options::default().quantum)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    quantum: u32,
}

impl OrderArgs {
    /// The options of the merge.
    pub fn options(&self) -> Options {
        Options { quantum: self.quantum, seed: self.seed, ..Options::default() }
    }
}

/// Merges; exit code 5 if damage broke happens-before edges or took references.
pub fn run(args: Args) -> Result {
    let file = TraceFile::open(&args.trace)?;
    let trace = file.trace()?;
    let options = Options { memory: args.memory, ..args.order.options() };
    let report = order::write_file(&trace, options, &args.output, &progress::of_pipeline())?;
    if args.json {
        crate::stdout::json(report_json(&report))?;
    } else {
        let (references, turns) = (report.references, report.turns);
        errln!("{}: {references} references in {turns} turns", args.output.display());
    }
    tell(&report);
    let damaged = copied_damage(&args.trace, &trace);
    Ok(if damaged || broken(&report) > 0 { Code::PARTIAL } else { Code::OK })
}

/// Writes the trace of a file in another order.
pub fn merge_file(from: &Path, to: &Path, options: Options) -> anyhow::Result<Report> {
    let file = TraceFile::open(from)?;
    Ok(order::write_file(&file.trace()?, options, to, &progress::of_pipeline())?)
}

/// Happens-before edges that were broken.
pub fn broken(report: &Report) -> u64 {
    report.broken_acquires + report.broken_starts + report.broken_joins
}

/// Tells what memory was too small for, and of edges that were broken.
pub fn tell(report: &Report) {
    for told in [order::spilled(report), order::broken(report)].into_iter().flatten() {
        errln!("homing: {told}");
    }
}

/// The report as JSON.
pub fn report_json(report: &Report) -> serde_json::Value {
    json!({
        "references": report.references,
        "turns": report.turns,
        "broken_acquires": report.broken_acquires,
        "broken_starts": report.broken_starts,
        "broken_joins": report.broken_joins,
        "spilled_bytes": report.spilled,
    })
}
