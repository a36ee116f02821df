//! The file that synchronisation operations go to beyond the memory that a merge may take: without a name, beside the
//! trace, where there is room for one.

use homing_linux::files::temporary::TemporaryFile;
use homing_trace::merge::{ReadAt, Spill};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// What to do where the file cannot be written.
const ADVICE: &str = "or let more synchronisation operations stay in memory (--memory)";

/// A temporary file that is made when it is first needed.
pub struct ScratchFile(TemporaryFile);

impl ScratchFile {
    /// One in the directory that `trace` is in.
    pub fn beside(trace: &Path) -> ScratchFile {
        let directory = trace.parent().filter(|parent| !parent.as_os_str().is_empty());
        ScratchFile(TemporaryFile::new(directory.unwrap_or(Path::new(".")).to_owned(), ADVICE))
    }

    /// One in the directory for temporary files.
    pub fn temporary() -> ScratchFile {
        ScratchFile(TemporaryFile::new(std::env::temp_dir(), ADVICE))
    }
}

impl Spill for ScratchFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.with(|file| file.write_all(bytes))
    }

    fn written(&mut self) -> io::Result<Box<dyn ReadAt>> {
        self.0.with(|file| Ok(Box::new(Written(file.try_clone()?)) as Box<dyn ReadAt>))
    }
}

/// The whole file.
struct Written(File);

impl ReadAt for Written {
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        self.0.read_exact_at(bytes, at)
    }
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
