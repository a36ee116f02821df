//! `homing trace upgrade`: a trace of an older version of the format in the present one.

use crate::exit::{Code, Result};
use crate::files::{writing, Output, Over};
use crate::progress;
use anyhow::Context;
use homing_core::trace::upgrade::upgrade;
use homing_pipeline::TraceFile;
use serde_json::json;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

/// Arguments of `homing trace upgrade`.
#[derive(clap::Args)]
pub struct Args {
    /// The trace
    trace: PathBuf,
    /// The trace to write
    #[arg(short, long)]
    output: PathBuf,
    /// Print JSON instead of a line
    #[arg(long)]
    json: bool,
}

/// Upgrades; exit code 5 if damage was copied.
pub fn run(args: Args) -> Result {
    let file = TraceFile::open(&args.trace)?;
    let trace = file.trace()?;
    let mut out = Output::create(&args.output, Over::Traces)?;
    let progress = progress::references(trace.references(), "upgrading");
    let upgraded = upgrade(&trace, BufWriter::new(&mut out), |n| progress.inc(n));
    progress.finish_and_clear();
    let (mut buffer, upgraded) = upgraded.with_context(|| writing(&args.output))?;
    buffer.flush().with_context(|| writing(&args.output))?;
    drop(buffer);
    out.commit()?;
    if args.json {
        crate::stdout::json(json!({
            "references": upgraded.references,
            "blocks": upgraded.blocks,
            "damaged_blocks": upgraded.damaged,
        }))?;
    } else if upgraded.blocks == 0 {
        errln!("{}: nothing of an older version; the trace was copied", args.output.display());
    } else {
        let (references, blocks) = (upgraded.references, upgraded.blocks);
        errln!("{}: {references} references in {blocks} blocks written anew", args.output.display());
    }
    let damaged = super::copied_damage(&args.trace, &trace);
    Ok(if damaged { Code::PARTIAL } else { Code::OK })
}
