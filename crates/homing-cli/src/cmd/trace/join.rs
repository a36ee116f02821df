//! `homing trace join`: one trace of several processes.

use crate::exit::{Code, Result};
use crate::files::{writing, Output, Over};
use crate::progress;
use crate::tables::things;
use anyhow::Context;
use homing_core::trace::Summary;
use homing_pipeline::family::{self, Joined};
use homing_pipeline::TraceFile;
use serde_json::json;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Arguments of `homing trace join`.
#[derive(clap::Args)]
pub struct Args {
    /// The traces, one of each process: that of `homing record --follow` first, or one of each rank
    #[arg(required = true, num_args = 2.., value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// The trace to write
    #[arg(short, long)]
    output: PathBuf,
    /// Print JSON instead of a line
    #[arg(long)]
    json: bool,
}

/// Joins.
pub fn run(args: Args) -> Result {
    let Joined { summary, forked, shared } = join(&args.traces, &args.output)?;
    let Summary { references, threads, .. } = summary;
    let processes = args.traces.len();
    if args.json {
        crate::stdout::json(json!({
            "references": references,
            "threads": threads,
            "processes": processes,
            "forked": forked,
            "shared": shared,
        }))?;
        return Ok(Code::OK);
    }
    let name = args.output.display();
    errln!(
        "{name}: {} of {processes} processes with {}, {} that they share",
        things(references, "reference"),
        things(threads.into(), "thread"),
        pieces(shared)
    );
    if forked + 1 < processes {
        errln!(
            "homing: note: {} of the processes were not forked by another of them: they begin at the same time in the \
             trace, and share files alone",
            processes - 1 - forked
        );
    }
    errln!("homing: next: homing why {name}");
    Ok(Code::OK)
}

fn pieces(shared: usize) -> String {
    match shared {
        1 => "1 piece of memory".to_owned(),
        shared => format!("{shared} pieces of memory"),
    }
}

/// Writes the joined trace of some files.
pub fn join(traces: &[PathBuf], output: &Path) -> anyhow::Result<Joined> {
    let progress = progress::of_pipeline();
    let files = traces
        .iter()
        .map(|path| TraceFile::ordered(path, &progress))
        .collect::<std::result::Result<Vec<_>, _>>()?;
    let mut out = Output::create(output, Over::Traces)?;
    let (mut buffer, joined) = family::join(&files, BufWriter::new(&mut out), &progress)?;
    buffer.flush().with_context(|| writing(output))?;
    drop(buffer);
    out.commit()?;
    Ok(joined)
}
