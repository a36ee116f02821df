//! Files that commands write. They never destroy anything: an [`Output`] appears whole or not at all, and a [`Part`] is
//! what a kill leaves.

mod error;
mod output;
mod part;
pub mod place;
pub mod temporary;

pub use error::FileError;
pub use output::Output;
pub use part::Part;
pub use place::{is_anothers, is_written_through};

use error::While;
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
    pub fn check(self, wanted: &Path) -> Result<(), FileError> {
        match (self, is_trace(wanted)) {
            (Over::Traces, Some(false)) => Err(FileError::NoTrace(wanted.to_owned())),
            (Over::OtherFiles, Some(true)) => Err(FileError::Trace(wanted.to_owned())),
            _ => Ok(()),
        }
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
pub fn is_trace(path: &Path) -> Option<bool> {
    begins_with(path, TRACE_MAGIC.len() as u64).map(|found| found == TRACE_MAGIC)
}

/// Reads a text file. `what`: what it should be, for errors.
pub fn read_text(path: &Path, what: &'static str) -> Result<String, FileError> {
    let bytes = std::fs::read(path).doing(|| format!("cannot read {what} {}", path.display()))?;
    String::from_utf8(bytes).map_err(|_| FileError::NoText { path: path.to_owned(), what })
}

/// Writes a file whole, or leaves the name as it was.
pub fn write(path: &Path, contents: impl AsRef<[u8]>) -> Result<(), FileError> {
    let mut output = Output::create(path)?;
    output.write_all(contents.as_ref()).doing(|| format!("cannot write {}", path.display()))?;
    output.commit()
}
