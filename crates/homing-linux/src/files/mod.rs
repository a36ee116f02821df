//! Files that commands write. They never destroy anything: an [`Output`] appears whole or not at all, and a [`Part`] is
//! what a kill leaves.

mod error;
mod output;
mod over;
mod part;
pub mod place;
mod target;
pub mod temporary;

pub use error::FileError;
pub use output::Output;
pub use over::{is_trace, Over, JOURNAL};
pub use part::Part;
pub use place::is_written_through;
pub use target::Target;

use error::While;
use std::io::{Read, Write};
use std::path::Path;

/// The first bytes of a regular file; nothing if it is empty, absent or no regular file.
fn begins_with(target: &Target, bytes: u64) -> Option<Vec<u8>> {
    target.size().filter(|&size| size > 0)?;
    let file = target.open_to_read().ok()?;
    let mut found = Vec::new();
    file.take(bytes).read_to_end(&mut found).ok()?;
    Some(found)
}

/// Renames a file, whatever has the other name.
pub fn rename(from: &Path, to: &Path) -> Result<(), FileError> {
    let (from, to) = (Target::of(from)?, Target::of(to)?);
    from.rename(&to).doing(|| format!("cannot rename {} to {}", from.path().display(), to.path().display()))
}

/// Makes a directory, and those on the way to it, where they are missing.
pub fn make_directory(path: &Path) -> Result<(), FileError> {
    Target::make_directory(path)
}

/// Removes a file.
pub fn remove(path: &Path) -> Result<(), FileError> {
    let target = Target::of(path)?;
    target.remove().doing(|| format!("cannot remove {}", target.path().display()))
}

/// Reads a text file. `what`: what it should be, for errors.
pub fn read_text(path: &Path, what: &'static str) -> Result<String, FileError> {
    let bytes = std::fs::read(path).doing(|| format!("cannot read {what} {}", path.display()))?;
    String::from_utf8(bytes).map_err(|_| FileError::NoText { path: path.to_owned(), what })
}

/// Writes a file whole, or leaves the name as it was.
pub fn write(path: &Path, over: Over, contents: impl AsRef<[u8]>) -> Result<(), FileError> {
    let mut output = Output::create(path, over)?;
    output.write_all(contents.as_ref()).doing(|| format!("cannot write {}", path.display()))?;
    output.commit()
}
