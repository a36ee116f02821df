//! The file of a session's log: it can be read under its name while it is written, a second session that wants it is
//! refused, and the log of a session that was killed outlives the next one.

use super::{Over, Part};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// A log being written. What had its name before stays until the first line is in the file.
pub struct JournalFile {
    out: BufWriter<File>,
    part: Option<Part>,
    published: bool,
}

impl JournalFile {
    /// Begins a log in the place of nothing but such a log.
    pub fn create(path: &Path, over: Over) -> anyhow::Result<JournalFile> {
        for left in Part::left_behind(path) {
            errln!(
                "homing: a run that was killed left its log in {}: `homing replay` reads it, or remove it",
                left.display()
            );
        }
        let (part, file) = Part::create(path, over)?;
        Ok(JournalFile { out: BufWriter::new(file), part: Some(part), published: false })
    }
}

impl Write for JournalFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        if let Some(part) = self.part.as_ref().filter(|_| !self.published && bytes.ends_with(b"\n")) {
            self.out.flush()?;
            part.publish().map_err(|error| io::Error::other(format!("{error:#}")))?;
            self.published = true;
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Drop for JournalFile {
    fn drop(&mut self) {
        // A session that ends flushes its log and reports what goes wrong with that.
        let _ = self.out.flush();
        if let Some(part) = self.part.take() {
            part.discard();
        }
    }
}
