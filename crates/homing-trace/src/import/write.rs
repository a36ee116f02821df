//! Imported references as a trace.

use super::{ImportError, Imported, Importer, Options, Report};
use crate::{Header, Kind, Summary, TraceError, TraceWriter};
use std::io::{BufRead, Write};

/// Why a file cannot be made a trace.
pub type ToTraceError = ImportError<TraceError>;

/// Writes what a file of that format holds as a trace. `version`: of the program that does so.
///
/// # Errors
/// If the file cannot be read, or the trace cannot be written ([`ImportError::Sink`]).
pub fn to_trace(
    importer: &Importer,
    mut input: impl BufRead,
    options: Options,
    out: impl Write,
    version: &str,
) -> Result<Report, ToTraceError> {
    let mut header = Header::new("import", version);
    header.more.insert("source".to_owned(), importer.name.into());
    let mut writer = TraceWriter::new(out, &header).map_err(ImportError::Sink)?;
    let mut take = |r: Imported| {
        writer.reference(r.thread, 0, r.address, Kind::new(r.bytes, r.write, false))?;
        writer.turn(r.thread, 1)
    };
    let report = (importer.read)(&mut input, options, &mut take)?;
    let summary = Summary { malformed: report.malformed, ..Summary::default() };
    let (mut out, _) = writer.finish(summary).map_err(ImportError::Sink)?;
    out.flush().map_err(|error| ImportError::Sink(error.into()))?;
    Ok(report)
}
