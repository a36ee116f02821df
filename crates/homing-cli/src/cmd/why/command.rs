//! A command that is recorded to be judged.

use super::judged::Judged;
use crate::exit::Code;
use crate::files;
use crate::progress::Recording;
use crate::tables::things;
use anyhow::Context;
use homing_live::config::parse_duration;
use homing_record::{Finished, Ordered, Region, Request, RECORDERS};
use homing_trace::{merge, IngestOptions};
use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// How much of a command is recorded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Budget {
    /// This long.
    Time(Duration),
    /// This many references.
    References(u64),
}

impl Default for Budget {
    fn default() -> Budget {
        Budget::Time(Duration::from_secs(60))
    }
}

impl FromStr for Budget {
    type Err = String;

    fn from_str(text: &str) -> Result<Budget, String> {
        let expected = || format!("`{text}`: expected a duration such as 60s, or references such as 100M");
        if let Some(time) = parse_duration(text) {
            return Some(Budget::Time(time)).filter(|_| !time.is_zero()).ok_or_else(expected);
        }
        let (digits, factor) = match text.char_indices().last() {
            Some((at, 'K')) => (&text[..at], 1_000),
            Some((at, 'M')) => (&text[..at], 1_000_000),
            Some((at, 'G')) => (&text[..at], 1_000_000_000),
            _ => (text, 1),
        };
        let count = digits.parse::<u64>().ok().and_then(|count| count.checked_mul(factor));
        count.filter(|count| *count > 0).map(Budget::References).ok_or_else(expected)
    }
}

/// A command to record.
pub struct Command {
    /// The program and its arguments.
    pub words: Vec<OsString>,
    /// How much of it.
    pub budget: Budget,
    /// Where the trace stays.
    pub keep: Option<PathBuf>,
}

/// Its trace, which goes away with this unless the user keeps it.
pub struct Recorded {
    /// The trace.
    pub path: PathBuf,
    /// What a reader must know of the recording.
    pub notes: Vec<String>,
    _folder: Option<TempDir>,
}

impl Command {
    /// Records it. `apart`: what the program prints goes to stderr. A second Ctrl-C leaves nothing to judge, only an
    /// exit code.
    pub fn record(self, apart: bool) -> anyhow::Result<Result<Recorded, Code>> {
        let folder = match self.keep {
            Some(_) => None,
            None => Some(TempDir::with_prefix("homing-why-").context("no directory for the trace")?),
        };
        let output = match (&self.keep, &folder) {
            (None, Some(folder)) => folder.path().join("why.homing"),
            (keep, _) => keep.clone().unwrap_or_default(),
        };
        let (limit, time) = match self.budget {
            Budget::Time(time) => (None, Some(time)),
            Budget::References(count) => (Some(count), None),
        };
        let request = Request {
            recorder: &RECORDERS[0],
            command: self.words.clone(),
            output: output.clone(),
            options: IngestOptions { limit, ..IngestOptions::default() },
            merge: merge::Options::default(),
            slice: homing_record::DEFAULT_SLICE,
            follow: true,
            region: Region::default(),
        };
        let mut prepared = request.prepare(Arc::new(Recording::new()))?;
        if apart {
            prepared = prepared.print_to_stderr()?;
        }
        if let Some(time) = time {
            prepared = prepared.within(time);
        }
        files::tell_left_behind(&output);
        let recorded = prepared.record()?;
        Ok(match recorded.trace {
            Ok(finished) => Ok(self.judged(finished, recorded.status, folder)?),
            Err(left) => {
                errln!("homing: ended at once{}", if self.keep.is_some() { left } else { String::new() });
                Err(Code(recorded.status))
            }
        })
    }

    /// The trace that is judged, under the name that the user knows it by.
    fn judged(&self, finished: Finished, status: u8, folder: Option<TempDir>) -> anyhow::Result<Recorded> {
        let out_of_time = finished.out_of_time;
        let root = finished.path.clone();
        let judged = Judged::among(finished);
        if judged.path != root {
            // A link stays: the file that it leads to is replaced.
            let place = root.canonicalize().unwrap_or_else(|_| root.clone());
            std::fs::rename(&judged.path, &place)
                .with_context(|| format!("cannot rename {} to {}", judged.path.display(), place.display()))?;
        }
        let mut notes = notes(&judged.ordered, out_of_time, status, self.budget);
        notes.splice(0..0, judged.notes);
        Ok(Recorded { path: root, notes, _folder: folder })
    }
}

/// What a reader must know of a recording.
fn notes(ordered: &Ordered, out_of_time: bool, status: u8, budget: Budget) -> Vec<String> {
    let mut notes = Vec::new();
    match budget {
        Budget::Time(time) if out_of_time => notes.push(format!(
            "the program was ended after {} s of recording: start-up may weigh too much (--budget)",
            time.as_secs_f64()
        )),
        Budget::References(count) if ordered.summary.references >= count => notes.push(format!(
            "the first {} were recorded: start-up may weigh too much (--budget)",
            things(count, "reference")
        )),
        _ => {}
    }
    if status != 0 && !out_of_time {
        notes.push(format!("the program ended with status {status}"));
    }
    let (summary, order) = (&ordered.summary, &ordered.report);
    for (count, what) in [
        (summary.lost, "references that the recorder lost"),
        (summary.lost_segments, "segments of the recorder that never arrived"),
        (summary.malformed, "words of the recorder that made no sense"),
        (order.broken_acquires, "synchronisations that were ordered against their releases"),
    ] {
        if count > 0 {
            notes.push(format!("{what}: {count}"));
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_times_or_references() {
        let second = Duration::from_secs(1);
        for (text, budget) in [
            ("60s", Budget::Time(60 * second)),
            ("2m", Budget::Time(120 * second)),
            ("100M", Budget::References(100_000_000)),
            ("5K", Budget::References(5_000)),
            ("77", Budget::References(77)),
        ] {
            assert_eq!(text.parse(), Ok(budget), "{text}");
        }
        for bad in ["", "0", "0s", "M", "many", "-1s", "99999999999999G"] {
            assert!(bad.parse::<Budget>().unwrap_err().contains("expected a duration"), "{bad}");
        }
    }
}
