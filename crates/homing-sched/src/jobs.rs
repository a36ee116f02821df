//! Files of real jobs (`homing sched run`): a table `[[job]]` for each.

use super::partition::file::{find, Partition};
use super::{BadInput, MOST_S};
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

/// A job that shall run.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Its name, for tables.
    pub name: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Processors that it asks for.
    pub request: u32,
    /// Seconds after the begin at which it arrives.
    #[serde(default)]
    pub arrival: f64,
    /// Whether its number of threads follows its processors; found out if it is not said.
    pub malleable: Option<bool>,
    /// Variables of its environment, besides those that are there.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Whether its pages are moved, where any are.
    #[serde(default)]
    pub pages: Pages,
    /// Whether its threads are bound, each to one of its CPUs, where a library inside of it can do that.
    #[serde(default = "yes")]
    pub bind: bool,
    /// Seconds after which it is terminated, since it began.
    pub limit: Option<f64>,
    /// File for what it writes to stdout and stderr.
    pub output: Option<String>,
    /// Its partition; the first unless it is said.
    pub partition: Option<String>,
}

/// What is done with the pages of one job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pages {
    /// What is done with those of all jobs.
    #[default]
    Move,
    /// They stay.
    Off,
}

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    job: Vec<Spanned<Job>>,
    #[serde(default)]
    partition: Vec<Partition>,
}

/// A file of jobs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Jobs {
    /// By arrival; those that arrive together as they stand there.
    pub jobs: Vec<Job>,
    /// Partitions of the machine, if it is divided.
    pub partitions: Vec<Partition>,
}

/// Jobs that a file may have at most.
const MOST: usize = 10_000;

/// Reads a file of jobs. Partitions are to be held against the machine yet ([`super::partition::file::check`]).
///
/// # Errors
/// What is wrong, with its line.
pub fn read(text: &str, file: &str) -> Result<Jobs, BadInput> {
    let bad = |line, message: String| BadInput { file: file.into(), line, message };
    let read: File = toml::from_str(text).map_err(|error| {
        let line = error.span().map(|span| line_of(text, span.start));
        bad(line, error.message().trim_end().into())
    })?;
    if read.job.is_empty() || read.job.len() > MOST {
        let message = format!("{} jobs: expected a table [[job]] for each, {MOST} at most", read.job.len());
        return Err(bad(None, message));
    }
    for (index, job) in read.job.iter().enumerate() {
        let wrong = |message: String| {
            bad(Some(line_of(text, job.span().start)), format!("job `{}`: {message}", job.get_ref().name))
        };
        job.get_ref().check().map_err(wrong)?;
        find(&read.partition, job.get_ref().partition.as_deref()).map_err(wrong)?;
        if read.job[..index].iter().any(|other| other.get_ref().name == job.get_ref().name) {
            return Err(wrong("that name stands twice: expected one of its own for each job".into()));
        }
    }
    let mut jobs: Vec<Job> = read.job.into_iter().map(Spanned::into_inner).collect();
    jobs.sort_by(|a, b| a.arrival.total_cmp(&b.arrival));
    Ok(Jobs { jobs, partitions: read.partition })
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|&byte| byte == b'\n').count()
}

impl Job {
    fn check(&self) -> Result<(), String> {
        if self.name.is_empty() || self.command.first().is_none_or(String::is_empty) {
            return Err("expected a name, and a command such as [\"./program\", \"argument\"]".into());
        }
        if self.request == 0 {
            return Err("request = 0: expected 1 processor or more".into());
        }
        if !(self.arrival >= 0.0 && self.arrival <= MOST_S) {
            return Err(format!("arrival = {}: expected seconds, 0 or more, {MOST_S} at most", self.arrival));
        }
        if let Some(limit) = self.limit.filter(|&limit| !(limit > 0.0 && limit <= MOST_S)) {
            return Err(format!("limit = {limit}: expected seconds, more than 0, {MOST_S} at most"));
        }
        let named = |(name, value): (&String, &String)| {
            !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0')
        };
        if !self.env.iter().all(named) || self.command.iter().any(|word| word.contains('\0')) {
            return Err("expected names of variables without `=`, and no byte 0 anywhere".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str =
        "[[job]]\nname = \"b\"\ncommand = [\"./cg\", \"-t\", \"8\"]\nrequest = 8\narrival = 2.5\n\
                        env = { A = \"1\" }\npages = \"off\"\nlimit = 60\n\n\
                        [[job]]\nname = \"a\"\ncommand = [\"true\"]\nrequest = 1\nmalleable = false\n";

    #[test]
    fn jobs_come_by_arrival_with_what_is_not_said_left_open() {
        let Jobs { jobs, partitions } = read(GOOD, "x").unwrap();
        assert!(partitions.is_empty());
        assert_eq!((jobs[0].name.as_str(), jobs[1].name.as_str()), ("a", "b"));
        assert_eq!(
            (jobs[0].arrival, jobs[0].malleable, jobs[0].pages, jobs[0].bind),
            (0.0, Some(false), Pages::Move, true)
        );
        assert_eq!((jobs[1].malleable, jobs[1].pages, jobs[1].limit), (None, Pages::Off, Some(60.0)));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (what, instead, line, says) in [
            ("request = 8", "request = 0", 1, "expected 1 processor or more"),
            ("request = 8", "request = \"8\"", 4, "expected u32"),
            ("request = 8", "requests = 8", 4, "unknown field `requests`"),
            ("arrival = 2.5", "arrival = -1.0", 1, "0 or more"),
            ("limit = 60", "limit = nan", 1, "more than 0"),
            ("limit = 60", "limit = 1e300", 1, "1000000000 at most"),
            ("arrival = 2.5", "arrival = 1e10", 1, "1000000000 at most"),
            ("\"a\"", "\"b\"", 10, "stands twice"),
            ("[\"true\"]", "[]", 10, "expected a name, and a command"),
            ("pages = \"off\"", "pages = \"on\"", 7, "unknown variant `on`"),
            ("A = ", "\"A=\" = ", 1, "without `=`"),
            ("pages = \"off\"", "partition = \"x\"", 1, "no table [[partition]]"),
        ] {
            let error = read(&GOOD.replacen(what, instead, 1), "jobs.toml").unwrap_err();
            assert_eq!(error.line, Some(line), "{instead}: {error}");
            assert!(error.to_string().contains(says), "{instead}: {error}");
        }
        assert!(read("", "x").unwrap_err().message.contains("[[job]]"));
    }
}
