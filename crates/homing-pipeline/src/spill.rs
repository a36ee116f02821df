//! The file that page histories go to beyond `--memory`: made when it is first needed, and named in what goes wrong
//! with it.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

/// A temporary file without a name.
pub struct SpillFile {
    directory: PathBuf,
    file: Option<File>,
}

impl SpillFile {
    /// A file in the directory for temporary files.
    pub fn new() -> SpillFile {
        SpillFile { directory: std::env::temp_dir(), file: None }
    }

    /// Does something with the file.
    fn with<T>(&mut self, action: impl FnOnce(&mut File) -> io::Result<T>) -> io::Result<T> {
        let opened = match self.file.take() {
            Some(file) => Ok(file),
            None => tempfile::tempfile_in(&self.directory),
        };
        let done = opened.and_then(|file| action(self.file.insert(file)));
        done.map_err(|error| {
            // The kind says whether to try again, and what the program ends with.
            io::Error::new(error.kind(), Place { directory: self.directory.clone(), reason: error })
        })
    }
}

impl Read for SpillFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.with(|file| file.read(buffer))
    }
}

impl Write for SpillFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.with(|file| file.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.with(|file| file.flush())
    }
}

impl Seek for SpillFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.with(|file| file.seek(to))
    }
}

/// Where it went wrong, and what to do.
#[derive(Debug, thiserror::Error)]
#[error(
    "temporary file in {}: {reason}; free space there, name another directory in TMPDIR, or let more stay in memory \
    (--memory)",
    directory.display()
)]
struct Place {
    directory: PathBuf,
    reason: io::Error,
}
