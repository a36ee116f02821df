//! Output files that appear whole or not at all.

use anyhow::Context;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Whether two names stand for one existing file.
pub fn same_file(left: &Path, right: &Path) -> bool {
    let facts = |path: &Path| path.metadata().ok().map(|facts| (facts.dev(), facts.ino()));
    facts(left).is_some_and(|left| facts(right) == Some(left))
}

/// Writes a file whole, or leaves the name as it was.
pub fn write(path: &Path, contents: impl AsRef<[u8]>) -> anyhow::Result<()> {
    let mut output = Output::create(path)?;
    output.write_all(contents.as_ref()).with_context(|| format!("cannot write {}", path.display()))?;
    output.commit()
}

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

    /// What killed programs left of this output file under temporary names.
    pub fn left_behind(path: &Path) -> Vec<PathBuf> {
        let (Some(name), Some(parent)) = (path.file_name(), path.parent()) else { return Vec::new() };
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        let begin = format!(".{}.", name.to_string_lossy());
        let dead = |entry: &std::fs::DirEntry| {
            let name = entry.file_name();
            let number = name.to_str()?.strip_prefix(&begin)?.strip_suffix(".part")?.parse::<u32>().ok()?;
            Some(!Path::new("/proc").join(number.to_string()).exists())
        };
        let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
        entries
            .filter(|entry| dead(entry) == Some(true))
            .map(|entry| path.with_file_name(entry.file_name()))
            .collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_program_left_is_found() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("trace");
        let output = Output::create(&path).unwrap();
        // No process can have this number (pid_max is at most 2^22).
        let left = place.path().join(".trace.4294967295.part");
        File::create(&left).unwrap();
        assert_eq!(Output::left_behind(&path), [left]);
        drop(output);
        assert!(Output::left_behind(Path::new("/")).is_empty());
    }
}
