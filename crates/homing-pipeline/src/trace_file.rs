//! A trace file, mapped.

use crate::error::{PipelineError, Result, While};
use homing_linux::mapped::{self, Mapped};
use homing_trace::{Grain, Header, Trace};
use std::fs::File;
use std::path::{Path, PathBuf};

/// A trace file, mapped.
pub struct TraceFile {
    /// The file's path.
    pub path: PathBuf,
    /// What results call it.
    pub name: String,
    /// What a reader must know of the order, if that was just made.
    pub notes: Vec<String>,
    map: Mapped,
}

impl TraceFile {
    /// Maps the file, for who needs no order of its references ([`TraceFile::ordered`]).
    pub fn open(path: &Path) -> Result<TraceFile> {
        let context = || format!("cannot open trace {}", path.display());
        // Before it is opened: a pipe would wait for its writer.
        let facts = path.metadata().doing(context)?;
        if !facts.is_file() {
            let message = format!(
                "{} is not a regular file: expected a trace, as `homing record` writes it; write what comes from a \
                 pipe to a file",
                path.display()
            );
            return Err(PipelineError::Failed(message));
        }
        if facts.len() == 0 {
            let message =
                format!("{} is empty: expected a trace, as `homing record` writes it", path.display());
            return Err(PipelineError::Failed(message));
        }
        let map = mapped::open(path).doing(context)?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(TraceFile { path: path.to_owned(), name, notes: Vec::new(), map })
    }

    /// The file that is mapped.
    pub(crate) fn file(&self) -> &File {
        self.map.file()
    }

    /// The same with what another file holds, whose trace has the order that this one lacks.
    pub(crate) fn with_order(self, file: File) -> std::io::Result<TraceFile> {
        Ok(TraceFile { map: mapped::of(file, &self.path)?, ..self })
    }

    /// The same with what a reader must know of the order.
    pub(crate) fn with_notes(self, notes: Vec<String>) -> TraceFile {
        TraceFile { notes, ..self }
    }

    /// The same under another name.
    pub fn named(self, name: &str) -> TraceFile {
        TraceFile { name: name.to_owned(), ..self }
    }

    /// The trace in it.
    pub fn trace(&self) -> Result<Trace<'_>> {
        Trace::open(&self.map).doing(|| format!("cannot read trace {}", self.path.display()))
    }

    /// How fine the addresses of its references are.
    pub fn grain(&self) -> Result<Grain> {
        match Header::of(&self.map) {
            Some(header) => Ok(header.grain),
            None => Ok(self.trace()?.header().grain),
        }
    }

    /// Whether any of these files is a trace with the addresses of pages alone. One that cannot be read is told of when
    /// it is used.
    pub fn any_of_pages_alone<'p>(paths: impl IntoIterator<Item = &'p PathBuf>) -> bool {
        let grain = |path: &PathBuf| TraceFile::open(path)?.grain();
        paths.into_iter().any(|path| grain(path).is_ok_and(|grain| !grain.is_exact()))
    }

    /// The trace, even if its header is damaged.
    pub fn salvage(&self) -> Result<Trace<'_>> {
        Trace::salvage(&self.map).doing(|| format!("cannot read trace {}", self.path.display()))
    }

    /// Fails if it, or another file that is mapped, was changed meanwhile: there is no use in going on.
    pub(crate) fn check(&self) -> Result<()> {
        mapped::check().doing(|| format!("cannot read trace {}", self.path.display()))
    }

    /// Its bytes.
    ///
    /// Who cuts or changes the file meanwhile changes them: [`mapped::check`] says so, and nothing is to be handed out
    /// before it was asked. Outputs ([`homing_linux::files::Output`]) ask by themselves.
    pub fn bytes(&self) -> &[u8] {
        &self.map
    }
}

/// Lets an error of a trace say of which one; what else can go wrong in using it names its own cause.
pub fn naming<T>(result: Result<T>, path: &Path) -> Result<T> {
    result.map_err(|error| match error {
        PipelineError::Trace(source) => {
            PipelineError::While { doing: path.display().to_string(), source: source.into() }
        }
        other => other,
    })
}
