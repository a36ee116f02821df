//! A command that is recorded to be judged.

use super::judged::Judged;
use crate::cmd::record;
use crate::exit::Code;
use crate::files;
use crate::progress::Recording;
use crate::region;
use crate::tables::things;
use anyhow::Context;
use homing_linux::files::temporary::TemporaryFolder;
use homing_live::config::parse_duration;
use homing_record::{Allowed, Finished, NoTrace, Region, Request, Spent};
use homing_trace::{merge, Grain, IngestOptions, Summary};
use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// References that are recorded unless the user says otherwise: the slowest programs known are judged at 16 million a
/// second.
const REFERENCES: u64 = 1_000_000_000;

/// How much of a command is recorded: what is spent first ends it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// This long.
    time: Option<Duration>,
    /// This many references.
    references: Option<u64>,
}

impl Default for Budget {
    /// Judging what is recorded takes about as long as recording it.
    fn default() -> Budget {
        Budget { time: Some(Duration::from_secs(60)), references: Some(REFERENCES) }
    }
}

impl FromStr for Budget {
    type Err = String;

    fn from_str(text: &str) -> Result<Budget, String> {
        let expected = || {
            format!(
                "`{text}`: expected a duration such as 60s, references such as 100M, or both as in 60s,100M"
            )
        };
        let mut budget = Budget { time: None, references: None };
        for part in text.split(',') {
            let (time, references) = (duration(part), record::references(part).filter(|count| *count > 0));
            if (time.is_some() && budget.time.is_some())
                || (references.is_some() && budget.references.is_some())
            {
                return Err(expected());
            }
            (time.is_some() || references.is_some()).then_some(()).ok_or_else(expected)?;
            budget = Budget { time: time.or(budget.time), references: references.or(budget.references) };
        }
        Ok(budget)
    }
}

fn duration(text: &str) -> Option<Duration> {
    parse_duration(text).filter(|time| !time.is_zero())
}

/// A command to record.
pub struct Command {
    /// The program and its arguments.
    pub words: Vec<OsString>,
    /// How much of it.
    pub budget: Budget,
    /// What part of it.
    pub region: Region,
    /// Where the trace stays.
    pub keep: Option<PathBuf>,
}

/// Its trace, which goes away with this unless the user keeps it.
pub struct Recorded {
    /// The trace.
    pub path: PathBuf,
    /// What a reader must know of the recording.
    pub notes: Vec<String>,
    _folder: Option<TemporaryFolder>,
}

impl Command {
    /// Records it. `apart`: what the program prints goes to stderr. A second Ctrl-C leaves nothing to judge, only an
    /// exit code.
    pub fn record(self, apart: bool) -> anyhow::Result<Result<Recorded, Code>> {
        let folder = match self.keep {
            Some(_) => None,
            None => Some(TemporaryFolder::new("homing-why-").context("no directory for the trace")?),
        };
        let output = match (&self.keep, &folder) {
            (None, Some(folder)) => folder.path().join("why.homing"),
            (keep, _) => keep.clone().unwrap_or_default(),
        };
        let Budget { time, references } = self.budget;
        let recorder = homing_record::suited(&self.words);
        let request = Request {
            recorder,
            command: self.words.clone(),
            output: output.clone(),
            options: IngestOptions { limit: references, ..IngestOptions::default() },
            grain: Grain::Byte,
            only_program: false,
            merge: merge::Options::default(),
            slice: homing_record::DEFAULT_SLICE,
            follow: recorder.follows,
            region: self.region.clone(),
            windows: None,
        };
        let allowed = Allowed { time, references: references.is_some() };
        let mut prepared = request.prepare(Arc::new(Recording::new()))?.within(allowed);
        if apart {
            prepared = prepared.print_to_stderr()?;
        }
        files::tell_left_behind(&output);
        let recorded = prepared.claim()?.record()?;
        Ok(match recorded.trace {
            Ok(finished) => Ok(self.judged(finished, recorded.status, folder)?),
            Err(NoTrace::Failed(error)) => return Err(error.into()),
            Err(NoTrace::EndedAtOnce(left)) => {
                errln!("homing: ended at once{}", if self.keep.is_some() { left } else { String::new() });
                Err(Code(recorded.status))
            }
        })
    }

    /// The trace that is judged, under the name that the user knows it by.
    fn judged(
        &self,
        finished: Finished,
        status: u8,
        folder: Option<TemporaryFolder>,
    ) -> anyhow::Result<Recorded> {
        let (spent, root) = (finished.spent, finished.path.clone());
        let judged = Judged::among(finished);
        let summary = &judged.summary;
        let never_ran =
            judged.never_ran.as_ref().map(|never| (never.begins, region::never_ran(never, summary)));
        if let Some((true, why)) = never_ran {
            anyhow::bail!("nothing to judge: {why}");
        }
        let mut notes = judged.notes;
        notes.extend(never_ran.map(|(_, why)| why));
        notes.extend(self::notes(summary, spent, status, self.budget));
        let path = match self.keep {
            Some(_) => root,
            None => root.with_file_name(judged.program).with_extension("homing"),
        };
        if judged.path != path {
            files::rename(&judged.path, &path)?;
        }
        Ok(Recorded { path, notes, _folder: folder })
    }
}

/// What a reader must know of a recording.
fn notes(summary: &Summary, spent: Option<Spent>, status: u8, budget: Budget) -> Vec<String> {
    let mut notes = Vec::new();
    match (spent, budget.references) {
        (Some(Spent::Time), _) => notes.push(format!(
            "the program was ended after {} s of recording: start-up may weigh too much (--from, --budget)",
            budget.time.unwrap_or_default().as_secs_f64()
        )),
        // A program behind a wrapper has run on; the wrapper alone would have been ended.
        (_, Some(count)) if summary.references >= count => notes.push(format!(
            "{} first {}: start-up may weigh too much (--from, --budget)",
            if spent.is_some() { "the program was ended after its" } else { "recorded were the program's" },
            things(count, "reference")
        )),
        _ => {}
    }
    if status != 0 && spent.is_none() {
        notes.push(format!("the program ended with status {status}"));
    }
    for (count, what) in [
        (summary.lost, "references that the recorder lost"),
        (summary.lost_segments, "segments of the recorder that never arrived"),
        (summary.malformed, "words of the recorder that made no sense"),
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
    fn budgets_are_times_or_references_or_both() {
        let seconds = |count| Some(Duration::from_secs(count));
        for (text, time, references) in [
            ("60s", seconds(60), None),
            ("2m", seconds(120), None),
            ("100M", None, Some(100_000_000)),
            ("5K", None, Some(5_000)),
            ("77", None, Some(77)),
            ("60s,1G", seconds(60), Some(1_000_000_000)),
            ("1G,60s", seconds(60), Some(1_000_000_000)),
        ] {
            assert_eq!(text.parse(), Ok(Budget { time, references }), "{text}");
        }
        for bad in
            ["", "0", "0s", "M", "many", "-1s", "99999999999999G", "1s,2s", "1M,2M", "1s,", ",", "1s,0"]
        {
            assert!(bad.parse::<Budget>().unwrap_err().contains("expected a duration"), "{bad}");
        }
    }
}
