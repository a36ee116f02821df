//! `homing trace import`: a trace of what another tool recorded. The order of its lines is the total order.

use super::show_some;
use crate::exit::{self, Code, Result};
use crate::files::{writing, Output, Over};
use crate::progress;
use crate::tables::things;
use anyhow::Context;
use clap::builder::{PossibleValue, PossibleValuesParser};
use homing_core::trace::import::{expected, guess, named, to_trace, ImportError, Options, Report, IMPORTERS};
use indicatif::ProgressBar;
use serde_json::json;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read};
use std::path::{Path, PathBuf};

/// Arguments of `homing trace import`.
#[derive(clap::Args)]
pub struct Args {
    /// The file to import; `-` is standard input
    input: PathBuf,
    /// The trace to write
    #[arg(short, long)]
    output: PathBuf,
    /// Format of the input; by default what it looks like
    #[arg(long, value_parser = PossibleValuesParser::new(
        IMPORTERS.iter().map(|importer| PossibleValue::new(importer.name).help(importer.summary))))]
    format: Option<String>,
    /// Number the threads from 0 in order of their first reference (CSV)
    #[arg(long)]
    renumber: bool,
    /// Print JSON instead of a line
    #[arg(long)]
    json: bool,
}

/// Imports; exit code 5 if lines were malformed.
pub fn run(args: Args) -> Result {
    let name = args.input.display();
    let (input, bytes): (Box<dyn Read>, u64) = if args.input == Path::new("-") {
        (Box::new(io::stdin().lock()), 0)
    } else {
        let file = File::open(&args.input).with_context(|| format!("cannot open {name}"))?;
        let bytes = file.metadata().map_or(0, |facts| facts.len());
        (Box::new(file), bytes)
    };
    let counted = Counted { input, progress: progress::bytes(bytes, "importing") };
    let mut input = BufReader::with_capacity(1 << 18, counted);
    let start = input.fill_buf().with_context(|| format!("reading {name}"))?;
    let of_perf = homing_core::trace::perf_data::looks_so(start);
    if let Some(advice) = not_text(start).filter(|_| !of_perf) {
        return Err(exit::error(Code::FAILURE, format!("{name}: {advice}")));
    }
    let importer = args.format.as_deref().and_then(named).unwrap_or_else(|| guess(start));
    let mut out = Output::create(&args.output, Over::Traces)?;
    let options = Options { renumber: args.renumber };
    let version = env!("CARGO_PKG_VERSION");
    let report = match to_trace(importer, input, options, BufWriter::new(&mut out), version) {
        Ok(report) => report,
        Err(ImportError::Sink(error)) => return Err(error).with_context(|| writing(&args.output)),
        Err(error) => return Err(error).with_context(|| name.to_string()),
    };
    show_some("malformed", report.malformed, report.examples.iter().map(|line| format!("{name}: {line}")));
    if report.references == 0 {
        let found: String = report.left_out.iter().map(|what| format!("; {what}")).collect();
        let message = format!("{name}: no references in it; expected {}{found}", importer.expected);
        return Err(exit::error(Code::FAILURE, message));
    }
    out.commit()?;
    print(&args, &report)?;
    Ok(if report.malformed == 0 { Code::OK } else { Code::PARTIAL })
}

fn print(args: &Args, report: &Report) -> anyhow::Result<()> {
    let (references, malformed) = (report.references, report.malformed);
    if args.json {
        let skipped = report.skipped;
        let left_out = &report.left_out;
        crate::stdout::json(json!({
            "references": references, "malformed": malformed, "skipped": skipped, "left_out": left_out
        }))?;
        return Ok(());
    }
    let mut left_out = match malformed {
        0 => String::new(),
        1 => "; 1 malformed line was left out".to_owned(),
        n => format!("; {n} malformed lines were left out"),
    };
    if !report.left_out.is_empty() {
        left_out += &format!("; not in it: {}", report.left_out.join(", "));
    }
    errln!("{}: {}{left_out}", args.output.display(), things(references, "reference"));
    Ok(())
}

/// What to do with a file that is no text, by its first bytes.
fn not_text(start: &[u8]) -> Option<String> {
    let known: [(&[u8], &str); 6] = [
        (b"HOMINGTR", "this is a trace already; `homing trace info` shows what is in it"),
        (
            b"\x1f\x8b",
            "this is compressed by gzip; expected text: zcat FILE | homing trace import - -o TRACE",
        ),
        (
            b"\x28\xb5\x2f\xfd",
            "this is compressed by zstd; expected text: zstdcat FILE | homing trace import - -o TRACE",
        ),
        (
            b"\xfd7zXZ\0",
            "this is compressed by xz; expected text: xzcat FILE | homing trace import - -o TRACE",
        ),
        (b"BZh", "this is compressed by bzip2; expected text: bzcat FILE | homing trace import - -o TRACE"),
        (b"PAR1", "this is a Parquet file; expected text: lines thread,addr,size,kind"),
    ];
    if let Some((_, advice)) = known.iter().find(|(magic, _)| start.starts_with(magic)) {
        return Some((*advice).to_owned());
    }
    let at = start.iter().position(|&byte| byte == 0)?;
    Some(format!(
        "this is no text (byte {at} is 0): expected {}; write the references in one of these forms",
        expected()
    ))
}

/// Counts what is read.
struct Counted {
    input: Box<dyn Read>,
    progress: ProgressBar,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.input.read(buffer)?;
        self.progress.inc(bytes as u64);
        Ok(bytes)
    }
}
