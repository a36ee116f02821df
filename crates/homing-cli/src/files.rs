//! Output files that appear whole or not at all.

use anyhow::Context;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// An output file, written under a temporary name beside its own and renamed by [`Output::commit`]. Dropped before that,
/// it leaves nothing behind. What exists and is no regular file (a pipe, a device) is written directly.
pub struct Output {
    path: PathBuf,
    temporary: Option<PathBuf>,
    file: File,
}

impl Output {
    /// Begins an output file.
    pub fn create(path: &Path) -> anyhow::Result<Output> {
        let context = || format!("cannot write {}", path.display());
        if path.metadata().is_ok_and(|facts| !facts.is_file()) {
            let file = OpenOptions::new().write(true).open(path).with_context(context)?;
            return Ok(Output { path: path.to_owned(), temporary: None, file });
        }
        let name = path.file_name().with_context(|| format!("{}: expected a file name", path.display()))?;
        let temporary =
            path.with_file_name(format!(".{}.{}.part", name.to_string_lossy(), std::process::id()));
        let file = File::create(&temporary).with_context(context)?;
        Ok(Output { path: path.to_owned(), temporary: Some(temporary), file })
    }

    /// Gives the finished file its name.
    pub fn commit(mut self) -> anyhow::Result<()> {
        if let Some(temporary) = &self.temporary {
            std::fs::rename(temporary, &self.path)
                .with_context(|| format!("cannot give the finished file its name {}", self.path.display()))?;
            self.temporary = None;
        }
        Ok(())
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // Nothing more can be done about a file that cannot be removed; the error that led here is reported.
            let _ = std::fs::remove_file(temporary);
        }
    }
}

/// The context of an error in writing to a file.
pub fn writing(path: &Path) -> String {
    format!("writing {} failed, nothing of it was kept", path.display())
}
