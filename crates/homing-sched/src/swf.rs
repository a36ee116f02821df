//! The Standard Workload Format: logs of jobs of parallel machines (Feitelson's Parallel Workloads Archive, version
//! 2.2; Corbalan 2003, section 6, reference 19).
//!
//! Lines that begin with `;` are comments. Every other line is a job of 18 numbers; -1 stands for what is not known.

use super::BadInput;

/// A job of a log. Unknown values are `None`.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Field 1: its number in the log.
    pub number: i64,
    /// Field 2: seconds from the log's begin to its submission.
    pub submit_s: f64,
    /// Field 4: seconds that it ran.
    pub run_s: Option<f64>,
    /// Field 5, or 8 where that is unknown: processors.
    pub processors: Option<u32>,
    /// Field 7, or 10 where that is unknown: KiB of memory of each processor.
    pub memory_kib: Option<f64>,
    /// Field 11: 1 if it was completed, 0 if it failed, 5 if it was cancelled; 2 to 4 are parts of one job.
    pub status: Option<i64>,
    /// Field 14: the number of its executable.
    pub executable: Option<i64>,
    /// Number of the queue that it was submitted to.
    pub queue: Option<i64>,
}

/// What a log holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Log {
    /// `; Key: value` of the header, in order.
    pub header: Vec<(String, String)>,
    /// Jobs, by submission.
    pub jobs: Vec<Entry>,
    /// What was left out.
    pub skipped: Skipped,
    /// Lines with more fields than the format has: only the first 18 are read.
    pub longer: u64,
}

/// Jobs of a log that cannot be played.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Skipped {
    /// Cancelled before they began (no run time or no processors).
    pub never_ran: u64,
    /// Parts of jobs that were stopped and went on later (status 2 to 4): the job itself stands in a line of its own.
    pub parts: u64,
    /// Run time or processors are not known.
    pub unknown: u64,
}

impl Skipped {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.never_ran + self.parts + self.unknown
    }
}

const FIELDS: usize = 18;

/// Reads a log; `file` is what messages call it.
pub fn read(text: &str, file: &str) -> Result<Log, BadInput> {
    let mut log = Log::default();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(comment) = line.strip_prefix(';') {
            if let Some((key, value)) =
                comment.split_once(':').filter(|(key, _)| log.jobs.is_empty() && !key.is_empty())
            {
                log.header.push((key.trim().into(), value.trim().into()));
            }
        } else if !line.is_empty() {
            let (entry, longer) = job(line).map_err(|message| BadInput {
                file: file.into(),
                line: Some(index + 1),
                message,
            })?;
            log.longer += u64::from(longer);
            match log.skipped.counts(&entry) {
                Some(count) => *count += 1,
                None => log.jobs.push(entry),
            }
        }
    }
    if log.jobs.is_empty() {
        let message = match log.skipped.total() {
            0 => "no jobs: expected a log in the Standard Workload Format, a line of 18 numbers for each job"
                .into(),
            n => format!("none of its {n} jobs ran for a known time on a known number of processors"),
        };
        return Err(BadInput { file: file.into(), line: None, message });
    }
    log.jobs.sort_by(|a, b| a.submit_s.total_cmp(&b.submit_s));
    Ok(log)
}

impl Skipped {
    /// The count of the reason why a job cannot be played, if there is one.
    fn counts(&mut self, entry: &Entry) -> Option<&mut u64> {
        match (entry.status, entry.run_s, entry.processors) {
            (Some(2..=4), _, _) => Some(&mut self.parts),
            (Some(5), None, _) | (Some(5), _, None) => Some(&mut self.never_ran),
            (_, Some(0.0), _) => Some(&mut self.never_ran),
            (_, None, _) | (_, _, None) => Some(&mut self.unknown),
            _ => None,
        }
    }
}

/// The job of a line, and whether that has more fields than the format.
fn job(line: &str) -> Result<(Entry, bool), String> {
    let mut fields = [0.0; FIELDS];
    let mut texts = line.split_ascii_whitespace();
    for (index, field) in fields.iter_mut().enumerate() {
        let text = texts
            .next()
            .ok_or_else(|| format!("{index} fields: expected {FIELDS} numbers, -1 for what is not known"))?;
        let value = text.parse().ok().filter(|v: &f64| v.is_finite());
        *field = value.ok_or_else(|| {
            let shown: String = text.chars().take(20).collect();
            let no_job = if index == 0 { "; lines that are no jobs begin with `;`" } else { "" };
            format!("field {}: `{shown}` is no number{no_job}", index + 1)
        })?;
    }
    let known = |field: usize| Some(fields[field - 1]).filter(|&value| value >= 0.0);
    let processors = |field: usize| known(field).filter(|&p| p >= 1.0).map(|p| p.min(1e9) as u32);
    let submit_s = known(2).ok_or("field 2: expected the seconds at which the job was submitted")?;
    let entry = Entry {
        number: fields[0] as i64,
        submit_s,
        run_s: known(4),
        processors: processors(5).or_else(|| processors(8)),
        memory_kib: known(7).or_else(|| known(10)),
        status: known(11).map(|status| status as i64),
        executable: known(14).map(|number| number as i64),
        queue: known(15).map(|queue| queue as i64),
    };
    Ok((entry, texts.next().is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "; Version: 2.2\n; MaxProcs: 64\n;\n\
        1 0 5 100 32 90 512 32 200 -1 1 3 1 7 1 1 -1 -1\n\
        \n  2 10 -1 50 -1 -1 -1 16 60 2048 0 3 1 -1 1 1 -1 -1\n\
        3 5 -1 -1 8 -1 -1 8 60 -1 5 3 1 2 1 1 -1 -1\n\
        4 20 1 10 8 -1 -1 8 60 -1 2 3 1 2 1 1 -1 -1\n\
        5 21 1 -1 8 -1 -1 8 60 -1 1 3 1 2 1 1 -1 -1\n\
        6 3 1 0 8 -1 -1 8 60 -1 5 3 1 2 1 1 -1 -1\n\
        ; Note: not of the header\n";

    #[test]
    fn a_log_with_gaps() {
        let log = read(LOG, "x.swf").unwrap();
        assert_eq!(log.header, [("Version".into(), "2.2".into()), ("MaxProcs".into(), "64".into())]);
        assert_eq!(log.skipped, Skipped { never_ran: 2, parts: 1, unknown: 1 });
        assert_eq!(log.jobs.iter().map(|job| job.number).collect::<Vec<_>>(), [1, 2]);
        let second = &log.jobs[1];
        assert_eq!((second.processors, second.memory_kib, second.executable), (Some(16), Some(2048.0), None));
        assert_eq!((second.submit_s, second.run_s, second.status), (10.0, Some(50.0), Some(0)));
        let longer = read(&LOG.replace("7 1 1 -1 -1\n", "7 1 1 -1 -1 {12,13}\n"), "x.swf").unwrap();
        assert_eq!(
            (longer.longer, log.longer, &longer.jobs),
            (1, 0, &log.jobs),
            "what more fields hold is not read"
        );
    }

    #[test]
    fn wrong_lines_are_named() {
        let error = |text: &str| read(text, "x.swf").unwrap_err().to_string();
        assert_eq!(
            error("; a\n1 2 3\n"),
            "x.swf, line 2: 3 fields: expected 18 numbers, -1 for what is not known"
        );
        assert!(error("1 0 5 soon 32 90 512 32 200 -1 1 3 1 7 1 1 -1 -1")
            .contains("field 4: `soon` is no number"));
        assert!(
            error("id\tsubmit\twait\n").contains("field 1: `id` is no number; lines that are no jobs begin")
        );
        assert!(error("; only a header\n").contains("no jobs"));
        assert!(error("1 0 5 -1 -1 90 512 32 200 -1 1 3 1 7 1 1 -1 -1").contains("none of its 1 jobs"));
        assert!(error("1 -1 5 9 1 90 512 32 200 -1 1 3 1 7 1 1 -1 -1").contains("field 2"));
    }
}
