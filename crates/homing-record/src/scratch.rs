//! The file that synchronisation operations go to beyond the memory that a merge may take: without a name, beside the
//! trace, where there is room for one.

use homing_trace::merge::{ReadAt, Spill};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A temporary file that is made when it is first needed.
pub struct ScratchFile {
    directory: PathBuf,
    file: Option<BufWriter<File>>,
}

impl ScratchFile {
    /// One in the directory that `trace` is in.
    pub fn beside(trace: &Path) -> ScratchFile {
        let directory = trace.parent().filter(|parent| !parent.as_os_str().is_empty());
        ScratchFile { directory: directory.unwrap_or(Path::new(".")).to_owned(), file: None }
    }

    /// Does something with the file.
    fn with<T>(&mut self, action: impl FnOnce(&mut BufWriter<File>) -> io::Result<T>) -> io::Result<T> {
        let opened = match self.file.take() {
            Some(file) => Ok(file),
            None => tempfile::tempfile_in(&self.directory).map(BufWriter::new),
        };
        let done = opened.and_then(|file| action(self.file.insert(file)));
        done.map_err(|error| {
            // The kind says whether to try again, and what the program ends with.
            io::Error::new(error.kind(), Place { directory: self.directory.clone(), reason: error })
        })
    }
}

impl Spill for ScratchFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.with(|file| file.write_all(bytes))
    }

    fn written(&mut self) -> io::Result<Box<dyn ReadAt>> {
        self.with(|file| {
            file.flush()?;
            Ok(Box::new(Written(file.get_ref().try_clone()?)) as Box<dyn ReadAt>)
        })
    }
}

/// The whole file.
struct Written(File);

impl ReadAt for Written {
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        self.0.read_exact_at(bytes, at)
    }
}

/// Where it went wrong, and what to do.
#[derive(Debug, thiserror::Error)]
#[error(
    "temporary file in {}: {reason}; free space there, or let more synchronisation operations stay in memory \
     (--memory)",
    directory.display()
)]
struct Place {
    directory: PathBuf,
    reason: io::Error,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_stays() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = ScratchFile::beside(&folder.path().join("x.trace"));
        file.write(b"some ").unwrap();
        file.write(b"bytes").unwrap();
        let mut bytes = [0; 5];
        file.written().unwrap().read_at(&mut bytes, 3).unwrap();
        assert_eq!(&bytes, b"e byt");
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }

    #[test]
    fn an_error_says_where_and_what_to_do() {
        let error = ScratchFile::beside(Path::new("/absent/x.trace")).write(b"x").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        let text = error.to_string();
        assert!(text.starts_with("temporary file in /absent: ") && text.ends_with("(--memory)"), "{text}");
    }
}
