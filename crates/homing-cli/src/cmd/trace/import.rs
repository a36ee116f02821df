//! `homing trace import`: a trace of what another tool recorded. The order of its lines is the total order.

use super::show_some;
use crate::exit::{self, Code, Result};
use crate::files::{writing, Output};
use crate::progress;
use crate::tables::things;
use anyhow::Context;
use homing_core::trace::import::{csv, lackey, ImportError, Imported, Report};
use homing_core::trace::{Header, Kind, Summary, TraceError, TraceWriter};
use indicatif::ProgressBar;
use serde_json::json;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
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
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Number the threads from 0 in order of their first reference (CSV)
    #[arg(long)]
    renumber: bool,
    /// Print JSON instead of a line
    #[arg(long)]
    json: bool,
}

/// What can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Columns thread,addr,size,kind (r or w), with or without a header line
    Csv,
    /// valgrind --tool=lackey --trace-mem=yes
    Lackey,
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
    if let Some(advice) = not_text(start) {
        return Err(exit::error(Code::FAILURE, format!("{name}: {advice}")));
    }
    let format = args.format.unwrap_or_else(|| guess(start));
    let mut out = Output::trace(&args.output)?;
    let report = match import(input, format, args.renumber, BufWriter::new(&mut out)) {
        Ok(report) => report,
        Err(ImportError::Sink(error)) => return Err(error).with_context(|| writing(&args.output)),
        Err(error) => return Err(error).with_context(|| name.to_string()),
    };
    show_some("malformed", report.malformed, report.examples.iter().map(|line| format!("{name}: {line}")));
    if report.references == 0 {
        let message = format!("{name}: no references in {}", expected(format));
        return Err(exit::error(Code::FAILURE, message));
    }
    out.commit()?;
    print(&args, &report)?;
    Ok(if report.malformed == 0 { Code::OK } else { Code::PARTIAL })
}

fn expected(format: Format) -> &'static str {
    match format {
        Format::Csv => "it; expected CSV lines thread,addr,size,kind such as 0,0x1000,8,r",
        Format::Lackey => "it; expected the output of valgrind --tool=lackey --trace-mem=yes",
    }
}

fn print(args: &Args, report: &Report) -> anyhow::Result<()> {
    let (references, malformed) = (report.references, report.malformed);
    if args.json {
        let skipped = report.skipped;
        crate::stdout::json(json!({ "references": references, "malformed": malformed, "skipped": skipped }))?;
        return Ok(());
    }
    let left_out = match malformed {
        0 => String::new(),
        1 => "; 1 malformed line was left out".to_owned(),
        n => format!("; {n} malformed lines were left out"),
    };
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
        "this is no text (byte {at} is 0): expected lines thread,addr,size,kind such as 0,0x1000,8,r, or the output of \
         valgrind --tool=lackey --trace-mem=yes; write the references in one of these forms"
    ))
}

/// The format that a file seems to have, by its first line.
fn guess(start: &[u8]) -> Format {
    let lackey: [&[u8]; 6] = [b"==", b"--", b"I ", b" L ", b" S ", b" M "];
    if lackey.iter().any(|prefix| start.starts_with(prefix)) {
        Format::Lackey
    } else {
        Format::Csv
    }
}

fn import(
    input: impl BufRead,
    format: Format,
    renumber: bool,
    out: impl Write,
) -> std::result::Result<Report, ImportError<TraceError>> {
    let mut header = Header::new("import", env!("CARGO_PKG_VERSION"));
    let source = if format == Format::Csv { "csv" } else { "lackey" };
    header.more.insert("source".to_owned(), source.into());
    let mut writer = TraceWriter::new(out, &header).map_err(ImportError::Sink)?;
    let mut take = |r: Imported| {
        writer.reference(r.thread, 0, r.address, Kind::new(r.bytes, r.write, false))?;
        writer.turn(r.thread, 1)
    };
    let report = match format {
        Format::Csv => csv::read(input, csv::Options { renumber }, &mut take)?,
        Format::Lackey => lackey::read(input, &mut take)?,
    };
    let summary = Summary { malformed: report.malformed, ..Summary::default() };
    let (mut out, _) = writer.finish(summary).map_err(ImportError::Sink)?;
    out.flush().map_err(|error| ImportError::Sink(error.into()))?;
    Ok(report)
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
