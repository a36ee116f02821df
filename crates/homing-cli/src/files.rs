//! Output files that appear whole or not at all.

use crate::exit::{self, Code};
use anyhow::Context;
use homing_linux::unnamed;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Whether two names stand for one existing file.
pub fn same_file(left: &Path, right: &Path) -> bool {
    let facts = |path: &Path| path.metadata().ok().map(|facts| (facts.dev(), facts.ino()));
    facts(left).is_some_and(|left| facts(right) == Some(left))
}

/// What a trace begins with.
const TRACE_MAGIC: &[u8; 8] = b"HOMINGTR";

/// Whether a regular file is a trace; nothing if it is empty, absent or no regular file.
fn is_trace(path: &Path) -> Option<bool> {
    // A pipe without a writer would not open.
    path.metadata().ok().filter(|facts| facts.is_file() && facts.len() > 0)?;
    let mut magic = Vec::new();
    File::open(path).ok()?.take(TRACE_MAGIC.len() as u64).read_to_end(&mut magic).ok()?;
    Some(magic == TRACE_MAGIC)
}

/// Fails if `wanted` exists and holds anything but a trace: traces overwrite traces only.
pub fn refuse_other_files(wanted: &Path) -> anyhow::Result<()> {
    let message = format!("{} exists and is not a trace: choose another name with -o", wanted.display());
    match is_trace(wanted) {
        Some(false) => Err(exit::error(Code::USAGE, message)),
        _ => Ok(()),
    }
}

/// Fails if `wanted` is a trace: a table in its place would cost the recording.
pub fn refuse_traces(wanted: &Path) -> anyhow::Result<()> {
    let message = format!("{} is a trace: choose another name for what is to be written", wanted.display());
    match is_trace(wanted) {
        Some(true) => Err(exit::error(Code::USAGE, message)),
        _ => Ok(()),
    }
}

/// Fails if two options name one file to write: what the first wrote would be replaced. Devices and pipes take both.
pub fn refuse_same_file(written: &[(&str, &Option<PathBuf>)]) -> anyhow::Result<()> {
    let place = |path: &PathBuf| match path.metadata() {
        Ok(facts) if !facts.is_file() => None,
        Ok(_) => path.canonicalize().ok(),
        Err(_) => Some(std::path::absolute(path).unwrap_or_else(|_| path.clone())),
    };
    let places = written.iter().filter_map(|(option, path)| Some((option, path.as_ref().and_then(place)?)));
    let mut seen = HashMap::new();
    for (option, place) in places {
        if let Some(other) = seen.insert(place.clone(), option) {
            let message = format!("{other} and {option} both name {}: expected a file each", place.display());
            return Err(exit::error(Code::USAGE, message));
        }
    }
    Ok(())
}

/// Reads a text file. `what`: what it should be, for errors.
pub fn read_text(path: &Path, what: &str) -> anyhow::Result<String> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {what} {}", path.display()))?;
    String::from_utf8(bytes).map_err(|_| {
        let message = format!("{} is no text: expected a {what}; is the name right?", path.display());
        exit::error(Code::USAGE, message)
    })
}

/// Writes a file whole, or leaves the name as it was.
pub fn write(path: &Path, contents: impl AsRef<[u8]>) -> anyhow::Result<()> {
    let mut output = Output::create(path)?;
    output.write_all(contents.as_ref()).with_context(|| format!("cannot write {}", path.display()))?;
    output.commit()
}

/// Writes a CSV file whole, or leaves the name as it was.
pub fn write_csv(
    path: &Path,
    records: impl FnOnce(&mut csv::Writer<Output>) -> csv::Result<()>,
) -> anyhow::Result<()> {
    let mut out = csv::Writer::from_writer(Output::create(path)?);
    records(&mut out).with_context(|| writing(path))?;
    out.into_inner().map_err(csv::IntoInnerError::into_error).with_context(|| writing(path))?.commit()
}

/// An output file that gets its name by [`Output::commit`], in the place of what had it. Ended before that, in whatever
/// way, it leaves nothing behind. What exists and is no regular file (a pipe, a device) is written directly.
pub struct Output {
    path: PathBuf,
    stage: Stage,
    file: File,
}

/// Where an output file is.
enum Stage {
    /// It is written directly.
    Final,
    /// It has no name yet.
    Unnamed,
    /// It is under this name.
    Temporary(PathBuf),
}

impl Output {
    /// Begins an output file in the place of anything but a trace.
    pub fn create(path: &Path) -> anyhow::Result<Output> {
        refuse_traces(path)?;
        Output::replace(path)
    }

    /// Begins a trace in the place of nothing but a trace.
    pub fn trace(path: &Path) -> anyhow::Result<Output> {
        refuse_other_files(path)?;
        Output::replace(path)
    }

    /// Begins a trace of which a kill leaves what was written, for [`Output::left_behind`].
    pub fn recoverable_trace(path: &Path) -> anyhow::Result<Output> {
        refuse_other_files(path)?;
        Output::begin(path, true)
    }

    /// Begins an output file in the place of whatever has the name.
    pub fn replace(path: &Path) -> anyhow::Result<Output> {
        Output::begin(path, false)
    }

    fn begin(path: &Path, named: bool) -> anyhow::Result<Output> {
        let context = || format!("cannot write {}", path.display());
        let made = |stage, file| Ok(Output { path: path.to_owned(), stage, file });
        if path.metadata().is_ok_and(|facts| !facts.is_file()) {
            return made(Stage::Final, OpenOptions::new().write(true).open(path).with_context(context)?);
        }
        let temporary = temporary(path)?;
        let unnamed = (!named).then(|| unnamed::create(&folder(path)));
        if let Some(Ok(file)) = unnamed {
            return made(Stage::Unnamed, file);
        }
        let file = File::create(&temporary).with_context(context)?;
        made(Stage::Temporary(temporary), file)
    }

    /// What killed programs left of this output file under temporary names.
    pub fn left_behind(path: &Path) -> Vec<PathBuf> {
        let Some(name) = path.file_name() else { return Vec::new() };
        let begin = format!(".{}.", name.to_string_lossy());
        let dead = |entry: &std::fs::DirEntry| {
            let name = entry.file_name();
            let number = name.to_str()?.strip_prefix(&begin)?.strip_suffix(".part")?.parse::<u32>().ok()?;
            Some(!Path::new("/proc").join(number.to_string()).exists())
        };
        let entries = std::fs::read_dir(folder(path)).into_iter().flatten().flatten();
        entries
            .filter(|entry| dead(entry) == Some(true))
            .map(|entry| path.with_file_name(entry.file_name()))
            .collect()
    }

    /// Gives the finished file its name.
    pub fn commit(mut self) -> anyhow::Result<()> {
        let path = self.path.clone();
        let context = || format!("cannot give the finished file its name {}", path.display());
        if let Stage::Unnamed = self.stage {
            // A name can be replaced by renaming only.
            let temporary = temporary(&path)?;
            unnamed::name(&self.file, &temporary).with_context(context)?;
            self.stage = Stage::Temporary(temporary);
        }
        if let Stage::Temporary(temporary) = &self.stage {
            std::fs::rename(temporary, &path).with_context(context)?;
            self.stage = Stage::Final;
        }
        Ok(())
    }
}

/// The directory that a file is in.
fn folder(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// The name of an unfinished file.
fn temporary(path: &Path) -> anyhow::Result<PathBuf> {
    let name = path.file_name().with_context(|| format!("{}: expected a file name", path.display()))?;
    Ok(path.with_file_name(format!(".{}.{}.part", name.to_string_lossy(), std::process::id())))
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
        if let Stage::Temporary(temporary) = &self.stage {
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
    fn traces_and_other_files_do_not_overwrite_each_other() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("it");
        for (contents, as_trace, as_other) in
            [("", true, true), ("HOMINGTR...", true, false), ("HOMING", false, true), ("a,b", false, true)]
        {
            std::fs::write(&path, contents).unwrap();
            assert_eq!(Output::trace(&path).is_ok(), as_trace, "{contents}");
            assert_eq!(Output::create(&path).is_ok(), as_other, "{contents}");
        }
        assert_eq!(is_trace(place.path()), None);
    }

    #[test]
    fn what_a_killed_program_left_is_found() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("trace");
        let mut output = Output::create(&path).unwrap();
        let mut recoverable = Output::recoverable_trace(&path).unwrap();
        output.write_all(b"unfinished").unwrap();
        recoverable.write_all(b"unfinished").unwrap();
        // No process can have this number (pid_max is at most 2^22).
        let left = place.path().join(".trace.4294967295.part");
        File::create(&left).unwrap();
        assert_eq!(Output::left_behind(&path), std::slice::from_ref(&left));
        drop((output, recoverable));
        let names: Vec<_> = place.path().read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(names, [left]);
        assert!(Output::left_behind(Path::new("/")).is_empty());
    }
}
