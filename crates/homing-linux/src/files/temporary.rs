//! What is needed for a while: a file without a name, for what does not fit into memory, and a directory for files that
//! must have names.

use crate::lock::Lock;
use rustix::process::geteuid;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

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

/// A temporary directory, removed with all that is in it when this is dropped. What a killed program left of its own is
/// removed by the next one that makes a directory with the same prefix.
#[derive(Debug)]
pub struct TemporaryFolder {
    /// Says that its maker lives.
    _lock: Option<Lock>,
    folder: TempDir,
}

impl TemporaryFolder {
    /// Makes one in the directory for temporary files; its name begins with `prefix`.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn new(prefix: &str) -> io::Result<TemporaryFolder> {
        TemporaryFolder::within(&std::env::temp_dir(), prefix)
    }

    fn within(directory: &Path, prefix: &str) -> io::Result<TemporaryFolder> {
        remove_abandoned(directory, prefix);
        let folder = loop {
            let folder = tempfile::Builder::new().prefix(prefix).tempdir_in(directory)?;
            // Where the file system has no locks, nothing is ever taken for abandoned.
            // Before it is locked, another one may take it for abandoned.
            let lock = match File::open(folder.path()) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                opened => match Lock::take(opened?) {
                    Ok(None) => continue,
                    lock => lock.ok().flatten(),
                },
            };
            if folder.path().is_dir() {
                break TemporaryFolder { _lock: lock, folder };
            }
        };
        Ok(folder)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes the directories of this user whose makers have ended without doing so.
fn remove_abandoned(directory: &Path, prefix: &str) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if !entry.file_name().as_bytes().starts_with(prefix.as_bytes()) {
            continue;
        }
        let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(entry.path());
        let ours = |file: &File| file.metadata().is_ok_and(|facts| facts.uid() == geteuid().as_raw());
        let Some(file) = opened.ok().filter(ours) else { continue };
        if let Ok(Some(_abandoned)) = Lock::take(file) {
            // One that cannot be removed is in nobody's way.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_program_left_goes_and_what_lives_stays() {
        let directory = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let path = directory.path().join(name);
            std::fs::create_dir(&path).unwrap();
            std::fs::write(path.join("a trace"), "of some size").unwrap();
            path
        };
        let (left, other) = (make("homing-test-left"), make("another-left"));
        std::os::unix::fs::symlink(&other, directory.path().join("homing-test-link")).unwrap();
        let first = TemporaryFolder::within(directory.path(), "homing-test-").unwrap();
        assert!(!left.exists() && other.join("a trace").exists());
        let second = TemporaryFolder::within(directory.path(), "homing-test-").unwrap();
        assert!(first.path().is_dir() && second.path().is_dir());
        let paths = [first.path().to_owned(), second.path().to_owned()];
        drop((first, second));
        assert!(paths.iter().all(|path| !path.exists()));
    }
}
