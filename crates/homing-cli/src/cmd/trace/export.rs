//! `homing trace export`: references in the total order, for other tools.

use super::parquet::ParquetFile;
use crate::exit::{self, Code, Result};
use crate::files::{writing, Output, Over};
use crate::progress;
use anyhow::Context;
use homing_core::trace::export::{blocks_of, rows, Exported, Row, Selection, CSV_HEADER};
use homing_core::trace::{Trace, TraceError};
use homing_pipeline::TraceFile;
use rayon::prelude::*;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Arguments of `homing trace export`.
#[derive(clap::Args)]
pub struct Args {
    /// The trace
    trace: PathBuf,
    /// Output file; `-` is standard output
    #[arg(short, long, default_value = "-")]
    output: PathBuf,
    /// Format; by default what the output's name ends in: .csv or .parquet, or CSV without an ending
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Dense addresses (frame number << 12 | offset) instead of virtual ones
    #[arg(long)]
    dense: bool,
    /// Time of the first reference
    #[arg(long, value_name = "TIME", default_value_t = 0)]
    from: u64,
    /// Time of the first reference that is not exported any more
    #[arg(long, value_name = "TIME", default_value_t = u64::MAX, hide_default_value = true)]
    to: u64,
    /// No header line (CSV)
    #[arg(long)]
    no_header: bool,
}

/// What can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// thread,addr,size,kind
    Csv,
    /// thread, addr, size, kind, time
    Parquet,
}

/// Exports; exit code 5 if references are lost to damage.
pub fn run(args: Args) -> Result {
    let file = TraceFile::ordered(&args.trace, &progress::of_pipeline())?;
    let trace = file.trace()?;
    if trace.references() > 0 && !trace.ordered() {
        return Err(TraceError::NoOrder).with_context(|| args.trace.display().to_string());
    }
    let advice = "record with --grain byte";
    trace.check_exact("an export needs", advice).with_context(|| args.trace.display().to_string())?;
    if args.from > args.to {
        let message = format!("--from {} is after --to {}; expected an earlier Time", args.from, args.to);
        return Err(exit::error(Code::USAGE, message));
    }
    let selection = Selection { window: args.from..args.to, dense: args.dense };
    let stdout = args.output == Path::new("-");
    let format = match args.format {
        Some(format) => format,
        None => format_of(&args.output)?,
    };
    let exported = match format {
        Format::Csv if stdout => {
            crate::stdout::checked(|_| Ok(()))?;
            let mut out = io::stdout().lock();
            csv(&trace, &selection, !args.no_header, &mut out).context("writing to standard output")?
        }
        Format::Csv => {
            let mut out = Output::create(&args.output, Over::Texts)?;
            let exported = csv(&trace, &selection, !args.no_header, &mut out);
            let exported = exported.with_context(|| writing(&args.output))?;
            out.commit()?;
            exported
        }
        Format::Parquet => {
            if stdout {
                let message = "Parquet needs a file: give one with --output FILE.parquet";
                return Err(exit::error(Code::USAGE, message));
            }
            let mut out = Output::create(&args.output, Over::Texts)?;
            let exported = parquet(&trace, &selection, BufWriter::new(&mut out));
            let exported = exported.with_context(|| writing(&args.output))?;
            out.commit()?;
            exported
        }
    };
    if exported.lost == 0 {
        return Ok(Code::OK);
    }
    let (lost, name) = (exported.lost, args.trace.display());
    errln!("homing: {name}: {lost} references are lost to damage; {} were exported", exported.rows);
    Ok(Code::PARTIAL)
}

/// The format that a name ends in; CSV if it has no ending.
fn format_of(name: &Path) -> anyhow::Result<Format> {
    let Some(ending) = name.extension() else { return Ok(Format::Csv) };
    if ending.eq_ignore_ascii_case("csv") {
        return Ok(Format::Csv);
    }
    if ending.eq_ignore_ascii_case("parquet") {
        return Ok(Format::Parquet);
    }
    let message = format!(
        "{}: no format is known by this ending: expected .csv or .parquet, or --format csv or parquet for any name",
        name.display()
    );
    Err(exit::error(Code::USAGE, message))
}

/// Formats several order blocks at a time and writes them in order.
fn csv(
    trace: &Trace<'_>,
    selection: &Selection,
    header: bool,
    out: &mut impl Write,
) -> anyhow::Result<Exported> {
    if header {
        out.write_all(CSV_HEADER.as_bytes())?;
    }
    let mut all = Exported::default();
    in_order(trace, selection, |block| {
        let mut text = Vec::new();
        let exported = rows(trace, block, selection, |row: Row| row.csv(&mut text))?;
        Ok((text, exported))
    })
    .try_for_each(|blocks| {
        for (text, exported) in blocks? {
            out.write_all(&text)?;
            all = Exported { rows: all.rows + exported.rows, lost: all.lost + exported.lost };
        }
        anyhow::Ok(())
    })?;
    out.flush()?;
    Ok(all)
}

fn parquet(trace: &Trace<'_>, selection: &Selection, out: impl Write + Send) -> anyhow::Result<Exported> {
    let mut file = ParquetFile::create(out)?;
    let mut all = Exported::default();
    in_order(trace, selection, |block| {
        let mut table = Vec::new();
        let exported = rows(trace, block, selection, |row| table.push(row))?;
        Ok((table, exported))
    })
    .try_for_each(|blocks| {
        for (table, exported) in blocks? {
            file.row_group(&table)?;
            all = Exported { rows: all.rows + exported.rows, lost: all.lost + exported.lost };
        }
        anyhow::Ok(())
    })?;
    file.finish()?;
    Ok(all)
}

/// Makes something of each order block of a selection, as many at a time as there are CPUs, and gives it in order.
fn in_order<'a, T: Send>(
    trace: &'a Trace<'_>,
    selection: &'a Selection,
    make: impl Fn(usize) -> std::result::Result<T, TraceError> + Sync + 'a,
) -> impl Iterator<Item = std::result::Result<Vec<T>, TraceError>> + 'a {
    let blocks: Vec<usize> = blocks_of(trace, selection).collect();
    let references: Vec<u64> = trace.order_blocks().map(|block| block.references).collect();
    let progress = progress::references(blocks.iter().map(|&b| references[b]).sum(), "exporting");
    let at_a_time = rayon::current_num_threads();
    let groups: Vec<Vec<usize>> = blocks.chunks(at_a_time).map(<[usize]>::to_vec).collect();
    groups.into_iter().map(move |group| {
        let made = group.par_iter().map(|&block| make(block)).collect();
        progress.inc(group.iter().map(|&block| references[block]).sum());
        made
    })
}
