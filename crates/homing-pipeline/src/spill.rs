//! The file that page histories go to beyond `--memory`.

use homing_linux::files::temporary::TemporaryFile;
use std::io::{self, Read, Seek, SeekFrom, Write};

/// What to do where the file cannot be written.
const ADVICE: &str = "name another directory in TMPDIR, or let more stay in memory (--memory)";

/// A temporary file in the directory for those.
pub struct SpillFile(TemporaryFile);

impl SpillFile {
    /// One that is made when it is first needed.
    pub fn new() -> SpillFile {
        SpillFile(TemporaryFile::new(std::env::temp_dir(), ADVICE))
    }
}

impl Read for SpillFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.with(|file| file.read(buffer))
    }
}

impl Write for SpillFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.with(|file| file.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.with(|file| file.flush())
    }
}

impl Seek for SpillFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.with(|file| file.seek(to))
    }
}
