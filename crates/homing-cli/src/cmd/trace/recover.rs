//! `homing trace recover`: a whole trace of what is readable in a damaged or unfinished one.

use super::merge::{report_json, tell, OrderArgs};
use crate::exit::{Code, Result};
use crate::files::{self, writing, Output, Over};
use crate::progress;
use anyhow::Context;
use homing_core::trace::recover::recover;
use homing_pipeline::TraceFile;
use serde_json::json;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Arguments of `homing trace recover`.
#[derive(clap::Args)]
pub struct Args {
    /// The trace
    trace: PathBuf,
    /// The trace to write
    #[arg(short, long)]
    output: PathBuf,
    #[command(flatten)]
    order: OrderArgs,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// Opens the trace; says where runs that were killed left others of its name.
fn open(path: &Path) -> anyhow::Result<TraceFile> {
    files::tell_left_behind(path);
    Ok(TraceFile::open(path)?)
}

/// Recovers; exit code 5 if the result is a part of what the recorder saw.
pub fn run(args: Args) -> Result {
    let file = open(&args.trace)?;
    let trace = file.salvage()?;
    let headless = file.trace().is_err();
    let (unfinished, partial) = (!trace.complete(), trace.is_partial());
    let mut out = Output::create(&args.output, Over::Traces)?;
    let progress = progress::references(trace.references(), "checking");
    let recovered = recover(trace, BufWriter::new(&mut out), args.order.options(), |n| progress.inc(n));
    progress.finish_and_clear();
    let (mut buffer, recovered) = recovered.with_context(|| writing(&args.output))?;
    buffer.flush().with_context(|| writing(&args.output))?;
    drop(buffer);
    out.commit()?;
    if args.json {
        crate::stdout::json(json!({
            "references": recovered.references,
            "lost": recovered.lost,
            "damaged_blocks": recovered.damaged_blocks,
            "damaged_tables": recovered.damaged_tables,
            "order_kept": recovered.order_kept,
            "order_made": recovered.order_made,
            "unfinished": unfinished,
            "header_lost": headless,
            "merge": report_json(&recovered.merge),
        }))?;
    } else {
        let name = args.output.display();
        outln!("{name}: {} references kept, {} lost", recovered.references, recovered.lost);
        outln!("order: {} references kept, {} merged anew", recovered.order_kept, recovered.order_made);
        if unfinished {
            outln!("the recording was not finished: what its recorder had not yet written is lost, and not counted");
        }
    }
    if headless {
        errln!("homing: the header is damaged: command line, recorder and machine of the recording are lost");
    }
    if recovered.damaged_tables > 0 {
        errln!("homing: {} blocks of names, symbols or page addresses are lost", recovered.damaged_tables);
    }
    tell(&recovered.merge);
    Ok(if partial || recovered.lost > 0 { Code::PARTIAL } else { Code::OK })
}
