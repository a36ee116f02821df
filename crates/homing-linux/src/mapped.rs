//! Whole files as read-only memory. A file that somebody cuts or changes while it is read is an error of whatever is
//! made of it, never the end of the program ([`check`]).

use crate::bus::Guarded;
use memmap2::Mmap;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::ops::Deref;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A file as read-only memory. The bytes are those that it had when it was mapped, as long as [`check`] finds nothing;
/// bytes that are gone read as zero.
#[derive(Debug)]
pub struct Mapped {
    map: Mmap,
    source: Arc<Source>,
}

/// What was mapped.
#[derive(Debug)]
struct Source {
    file: File,
    path: PathBuf,
    /// Bytes, and seconds and nanoseconds of the last change.
    begun: (u64, i64, i64),
    guarded: Option<Guarded>,
}

/// Files that are mapped, and those that were and have changed since.
static SOURCES: Mutex<Vec<Arc<Source>>> = Mutex::new(Vec::new());

/// Maps a file.
///
/// # Errors
/// If it cannot be opened, or is no regular file.
pub fn open(path: &Path) -> io::Result<Mapped> {
    // A pipe that has taken the name would wait for its writer.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    of(file, path)
}

/// Maps an open file, which messages call `path`.
///
/// # Errors
/// As for [`open`].
pub fn of(file: File, path: &Path) -> io::Result<Mapped> {
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "not a regular file"));
    }
    let begun = state(&file)?;
    // SAFETY: private and read-only. What others do to the file meanwhile is found by `check`, and bytes that are gone
    // are guarded.
    let map = unsafe { Mmap::map(&file)? };
    let guarded = match map.is_empty() {
        true => None,
        // SAFETY: the mapping is of that file, and goes after the guard has ended (`Mapped::drop`); it is bytes alone.
        false => Some(unsafe { Guarded::new(map.as_ptr(), map.len())? }),
    };
    let source = Arc::new(Source { file, path: path.to_owned(), begun, guarded });
    sources().push(Arc::clone(&source));
    Ok(Mapped { map, source })
}

/// Fails if a file that this process has mapped was changed since: what was made of it may be wrong. Whoever hands out
/// results asks before.
///
/// # Errors
/// [`ErrorKind::InvalidData`], with the file's name and what to do.
pub fn check() -> io::Result<()> {
    let Some(changed) = sources().iter().find(|source| source.is_changed()).cloned() else { return Ok(()) };
    let message = format!(
        "{} was changed while it was read, so that nothing can be said of it: read it when its writer has ended",
        changed.path.display()
    );
    Err(io::Error::new(ErrorKind::InvalidData, message))
}

fn sources() -> std::sync::MutexGuard<'static, Vec<Arc<Source>>> {
    SOURCES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn state(file: &File) -> io::Result<(u64, i64, i64)> {
    let facts = file.metadata()?;
    Ok((facts.len(), facts.mtime(), facts.mtime_nsec()))
}

impl Source {
    fn is_changed(&self) -> bool {
        self.guarded.as_ref().is_some_and(Guarded::is_lost) || state(&self.file).ok() != Some(self.begun)
    }
}

impl Mapped {
    /// The file.
    pub fn file(&self) -> &File {
        &self.source.file
    }
}

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        let changed = self.source.is_changed();
        self.source.guarded.iter().for_each(Guarded::end);
        // One that has changed is remembered: what was made of it is still about.
        if !changed {
            sources().retain(|source| !Arc::ptr_eq(source, &self.source));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_empty_files_read_as_they_are() {
        let directory = tempfile::tempdir().unwrap();
        for content in [&b""[..], b"some bytes"] {
            let path = directory.path().join("file");
            std::fs::write(&path, content).unwrap();
            assert_eq!(&*open(&path).unwrap(), content);
        }
        assert!(open(directory.path()).is_err() && open(Path::new("/absent")).is_err());
    }
}
