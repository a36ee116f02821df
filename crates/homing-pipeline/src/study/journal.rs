//! The journal of finished cells: one JSON line each, appended and flushed. A line that a kill has cut is dropped.

use super::cell::Cell;
use crate::error::{PipelineError, Result, While};
use homing_linux::files::Target;
use homing_linux::lock::Lock;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// The cells of earlier runs, and where new ones go.
pub struct Journal {
    known: HashMap<String, Cell>,
    file: Mutex<File>,
    path: PathBuf,
    /// Lines that are no cells.
    strange: u64,
    /// No other study writes or cuts the file meanwhile; where the file system has no locks, nobody sees to that.
    _lock: Option<Lock>,
}

impl Journal {
    /// Reads a journal, or begins one.
    pub fn open(path: &Path) -> Result<Journal> {
        let context = || format!("cannot read the journal {}", path.display());
        let mut file = Target::of(path)?.open_to_append().doing(context)?;
        let lock = lock(path, file.try_clone().doing(context)?)?;
        let mut known = HashMap::new();
        let (mut reader, mut whole, mut line, mut strange) = (BufReader::new(&file), 0, Vec::new(), 0);
        while reader.read_until(b'\n', &mut line).doing(context)? > 0 {
            if line.last() != Some(&b'\n') {
                break;
            }
            whole += line.len() as u64;
            match serde_json::from_slice::<Cell>(&line) {
                Ok(cell) => drop(known.insert(cell.key.clone(), cell)),
                Err(_) => strange += 1,
            }
            line.clear();
        }
        drop(reader);
        // What a kill has cut of a first cell begins as one.
        if known.is_empty() && (strange > 0 || line.first().is_some_and(|first| *first != b'{')) {
            let message = format!(
                "{} is no journal of a study: move it, or name another directory by --out",
                path.display()
            );
            return Err(PipelineError::Usage(message));
        }
        file.set_len(whole).doing(|| format!("cannot cut the journal {}", path.display()))?;
        file.seek(SeekFrom::End(0)).doing(context)?;
        Ok(Journal { known, file: Mutex::new(file), path: path.to_owned(), strange, _lock: lock })
    }

    /// The file and how many of its lines are no cells, if there are any.
    pub fn strange(&self) -> Option<(&Path, u64)> {
        (self.strange > 0).then_some((self.path.as_path(), self.strange))
    }

    /// A cell of an earlier run.
    pub fn get(&self, key: &str) -> Option<Cell> {
        self.known.get(key).cloned()
    }

    /// Appends a finished cell, in one write so that lines of several workers do not mix.
    pub fn add(&self, cell: &Cell) -> Result<()> {
        let mut line = serde_json::to_vec(cell).doing(|| format!("cannot write {}", self.path.display()))?;
        line.push(b'\n');
        let mut file = self.file.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        file.write_all(&line).doing(|| format!("cannot write {}", self.path.display()))
    }
}

/// Locks a journal, or says that another study has it.
fn lock(path: &Path, file: File) -> Result<Option<Lock>> {
    match Lock::take(file) {
        Ok(None) => {
            let directory = path.parent().unwrap_or(path).display();
            let message = format!(
                "another homing study is at work in {directory}: wait until it has ended, or name another directory by \
                --out"
            );
            Err(PipelineError::Failed(message))
        }
        taken => Ok(taken.ok().flatten()),
    }
}
