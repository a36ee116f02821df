//! A temporary file without a name, for what does not fit into memory.

use std::fs::File;
use std::io;
use std::path::PathBuf;

/// A temporary file that is made when it is first needed, and named by its directory in what goes wrong with it.
pub struct TemporaryFile {
    directory: PathBuf,
    advice: &'static str,
    file: Option<File>,
}

impl TemporaryFile {
    /// One in a directory. `advice`: what else to do than to free space there.
    pub fn new(directory: PathBuf, advice: &'static str) -> TemporaryFile {
        TemporaryFile { directory, advice, file: None }
    }

    /// Does something with the file.
    ///
    /// # Errors
    /// If it cannot be made, and those of `action`; they say where the file is and what to do.
    pub fn with<T>(&mut self, action: impl FnOnce(&mut File) -> io::Result<T>) -> io::Result<T> {
        let opened = match self.file.take() {
            Some(file) => Ok(file),
            None => tempfile::tempfile_in(&self.directory),
        };
        let done = opened.and_then(|file| action(self.file.insert(file)));
        done.map_err(|error| {
            let place = Place { directory: self.directory.clone(), advice: self.advice, reason: error };
            // The kind says whether to try again, and what the program ends with.
            io::Error::new(place.reason.kind(), place)
        })
    }
}

/// Where it went wrong, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("temporary file in {}: {reason}; free space there, {advice}", directory.display())]
struct Place {
    directory: PathBuf,
    advice: &'static str,
    reason: io::Error,
}
