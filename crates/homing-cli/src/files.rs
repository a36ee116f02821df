//! Files that commands read and write. Outputs never destroy anything: [`roles`] says what each option does with its
//! file and refuses two that are in each other's way, an [`Output`] appears whole or not at all, and a [`Part`] is
//! what a kill leaves.

mod journal;
mod output;
mod part;
mod place;
pub mod roles;

pub use journal::JournalFile;
pub use output::Output;
pub use part::Part;
pub use place::is_written_through;

use crate::exit::{self, Code};
use anyhow::Context;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

/// What a trace begins with.
const TRACE_MAGIC: &[u8; 8] = b"HOMINGTR";

/// What a file to be written may take the place of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// Traces only: what is to be written is one.
    Traces,
    /// Anything but traces: a table in the place of one would cost the recording.
    OtherFiles,
    /// Anything.
    Anything,
}

impl Over {
    /// Fails if `wanted` is what it must not take the place of.
    pub fn check(self, wanted: &Path) -> anyhow::Result<()> {
        let name = wanted.display();
        let message = match (self, is_trace(wanted)) {
            (Over::Traces, Some(false)) => {
                format!("{name} exists and is not a trace: choose another name with -o")
            }
            (Over::OtherFiles, Some(true)) => {
                format!("{name} is a trace: choose another name for what is to be written")
            }
            _ => return Ok(()),
        };
        Err(exit::error(Code::USAGE, message))
    }
}

/// The first bytes of a regular file; nothing if it is empty, absent or no regular file.
fn begins_with(path: &Path, bytes: u64) -> Option<Vec<u8>> {
    // A pipe without a writer would not open.
    path.metadata().ok().filter(|facts| facts.is_file() && facts.len() > 0)?;
    let mut found = Vec::new();
    File::open(path).ok()?.take(bytes).read_to_end(&mut found).ok()?;
    Some(found)
}

/// Whether a regular file is a trace; nothing if it is empty, absent or no regular file.
fn is_trace(path: &Path) -> Option<bool> {
    begins_with(path, TRACE_MAGIC.len() as u64).map(|found| found == TRACE_MAGIC)
}

/// Reads a text file. `what`: what it should be, for errors.
pub fn read_text(path: &Path, what: &str) -> anyhow::Result<String> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {what} {}", path.display()))?;
    String::from_utf8(bytes).map_err(|_| {
        let message = format!("{} is no text: expected a {what}; is the name right?", path.display());
        exit::error(Code::USAGE, message)
    })
}

/// Writes a file whole, or leaves the name as it was.
pub fn write(path: &Path, contents: impl AsRef<[u8]>) -> anyhow::Result<()> {
    let mut output = Output::create(path)?;
    output.write_all(contents.as_ref()).with_context(|| format!("cannot write {}", path.display()))?;
    output.commit()
}

/// The name that stands for standard output.
pub const STDOUT: &str = "-";

/// Whether the table of `--csv` goes to standard output; fails if JSON is to go there as well.
pub fn refuse_two_on_stdout(csv: Option<&Path>, json: bool) -> anyhow::Result<bool> {
    let prints = csv == Some(Path::new(STDOUT));
    if prints && json {
        let message =
            "--csv and --json would both go to standard output: expected one of them, or --csv=FILE";
        return Err(exit::error(Code::USAGE, message));
    }
    Ok(prints)
}

/// Writes a table as CSV: to a file, whole or not at all, or for `-` to standard output.
pub fn table(
    path: &Path,
    records: impl FnOnce(&mut csv::Writer<Vec<u8>>) -> csv::Result<()>,
) -> anyhow::Result<()> {
    let mut out = csv::Writer::from_writer(Vec::new());
    records(&mut out)?;
    let text = out.into_inner()?;
    if path == Path::new(STDOUT) {
        return crate::stdout::bytes(&text);
    }
    write(path, text)
}

/// Writes a CSV file whole, or leaves the name as it was.
pub fn write_csv(
    path: &Path,
    records: impl FnOnce(&mut csv::Writer<Output>) -> csv::Result<()>,
) -> anyhow::Result<()> {
    let mut out = csv::Writer::from_writer(Output::create(path)?);
    records(&mut out).with_context(|| writing(path))?;
    out.into_inner().map_err(csv::IntoInnerError::into_error).with_context(|| writing(path))?.commit()
}

/// The context of an error in writing to a file.
pub fn writing(path: &Path) -> String {
    format!("writing {} failed, nothing of it was kept", path.display())
}
