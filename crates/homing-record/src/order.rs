//! The last step of a recording: the threads' streams are merged into one total order, appended to the file.

use crate::error::{RecordError, While};
use crate::scratch::ScratchFile;
use homing_linux::mapped;
use homing_trace::merge::{self, merge_trace};
use homing_trace::{OrderWriter, Summary, Trace, TraceError};
use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

/// What ordering a trace gave.
#[derive(Debug)]
pub struct Ordered {
    /// The trace's counts.
    pub summary: Summary,
    /// Size of the file.
    pub bytes: u64,
    /// What the merge did.
    pub report: merge::Report,
}

/// Orders the trace in `path` by virtual time within the happens-before edges, in place.
pub fn append(path: &Path, options: merge::Options) -> Result<Ordered, RecordError> {
    let what = || format!("cannot order the references in {}", path.display());
    let mut file = File::options().read(true).write(true).open(path).doing(what)?;
    let mapped = mapped::open(path).doing(what)?;
    let trace = Trace::open(&mapped).doing(what)?;
    file.seek(SeekFrom::Start(trace.blocks_end())).doing(what)?;
    let mut writer = OrderWriter::append(BufWriter::new(file), &trace).doing(what)?;
    let report = merge_trace(&trace, options, Some(&mut ScratchFile::beside(path)), |thread, references| {
        writer.turn(thread, references)
    });
    let report = report.doing(what)?;
    let (out, summary) = writer.finish().doing(what)?;
    let bytes = end(out).doing(what)?;
    Ok(Ordered { summary, bytes, report })
}

/// Cuts the file where writing ended.
fn end(mut out: BufWriter<File>) -> Result<u64, TraceError> {
    out.flush()?;
    let mut file = out.into_inner().map_err(|e| e.into_error())?;
    let bytes = file.stream_position()?;
    file.set_len(bytes)?;
    Ok(bytes)
}
