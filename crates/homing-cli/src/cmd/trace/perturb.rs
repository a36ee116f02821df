//! `homing trace perturb`: shakes the interleaving (Bolosky & Scott 1991, section 4.2).

use super::copied_damage;
use crate::exit::{self, Code, Result};
use crate::files::{writing, Output, Over};
use crate::progress;
use homing_core::trace::perturb::{GapParameters, Gaps, Local, Perturb};
use homing_core::trace::{OrderWriter, Trace, TraceError};
use homing_pipeline::TraceFile;
use serde_json::json;
use std::cell::RefCell;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

/// Arguments of `homing trace perturb`.
#[derive(clap::Args)]
pub struct Args {
    /// The trace
    trace: PathBuf,
    /// The trace to write
    #[arg(short, long)]
    output: PathBuf,
    /// Reorder references that are near to each other
    #[arg(long)]
    local: bool,
    /// Stop a thread now and then, and let it catch up
    #[arg(long)]
    gaps: bool,
    /// Seed
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// References in the buffer (--local)
    #[arg(long, value_name = "REFERENCES", default_value_t = Local::ENTRIES)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    buffer: u32,
    /// Mean number of references between the starts of two gaps (--gaps)
    #[arg(long, value_name = "REFERENCES", default_value_t = 30_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    gap_every: u32,
    /// References for which a gap lasts (--gaps)
    #[arg(long, value_name = "REFERENCES", default_value_t = 4_000)]
    gap_length: u64,
    /// Probability with which a saved reference goes before a fresh one, as a fraction (--gaps)
    #[arg(long, value_name = "N/M", default_value = "2/3", value_parser = fraction)]
    gap_drain: (u32, u32),
    /// Print JSON instead of a line
    #[arg(long)]
    json: bool,
}

fn fraction(text: &str) -> std::result::Result<(u32, u32), String> {
    let parts = text.split_once('/').and_then(|(n, m)| Some((n.parse().ok()?, m.parse().ok()?)));
    parts
        .filter(|&(n, m)| n <= m && m > 0)
        .ok_or_else(|| "expected a fraction of at most 1, such as 2/3".to_owned())
}

/// Perturbs.
pub fn run(args: Args) -> Result {
    if !args.local && !args.gaps {
        return Err(exit::error(Code::USAGE, "expected --local, --gaps or both"));
    }
    let file = TraceFile::ordered(&args.trace, &progress::of_pipeline())?;
    let trace = file.trace()?;
    if !trace.complete() {
        let name = args.trace.display();
        let message = format!("{name} has no complete order to perturb; `homing trace recover` completes it");
        return Err(exit::error(Code::FAILURE, message));
    }
    let mut out = Output::create(&args.output, Over::Traces)?;
    let turns = perturb(&args, &trace, BufWriter::new(&mut out));
    // A damaged order is no fault of the output.
    let turns = turns.map_err(|error| match error.downcast_ref() {
        Some(TraceError::DamagedOrder(_)) => error.context(args.trace.display().to_string()),
        _ => error.context(writing(&args.output)),
    })?;
    out.commit()?;
    let references = trace.references();
    if args.json {
        crate::stdout::json(json!({ "references": references, "turns": turns }))?;
    } else {
        errln!("{}: {references} references in {turns} turns", args.output.display());
    }
    Ok(if copied_damage(&args.trace, &trace) { Code::PARTIAL } else { Code::OK })
}

fn perturb(args: &Args, trace: &Trace<'_>, out: impl Write) -> anyhow::Result<u64> {
    let writer = RefCell::new(OrderWriter::copy(out, trace)?);
    let progress = progress::references(trace.references(), "perturbing");
    let parameters = GapParameters { every: args.gap_every, length: args.gap_length, drain: args.gap_drain };
    let gaps = args.gaps.then(|| Gaps::new(parameters, trace.threads(), args.seed));
    let local = args.local.then(|| Local::new(args.buffer, args.seed));
    let mut perturb = Perturb::new(gaps, local, |thread, count| writer.borrow_mut().turn(thread, count));
    for (number, block) in trace.order_blocks().enumerate() {
        let turns = trace.order_turns(number).map_err(TraceError::DamagedOrder)?;
        turns.into_iter().try_for_each(|(thread, count)| perturb.turn(thread, count))?;
        progress.inc(block.references);
    }
    let turns = perturb.finish()?;
    writer.into_inner().finish()?.0.flush()?;
    Ok(turns)
}
