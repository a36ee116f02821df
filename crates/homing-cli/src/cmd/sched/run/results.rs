//! What came of real jobs: a table, JSON, a page with a picture.

use super::hardware::MOVES_OF;
use crate::cmd::live::show;
use crate::cmd::sched::{partitions, picture};
use homing_linux::allocation::Report;
use homing_linux::visible;
use homing_live::account::Summary;
use homing_live::jobs::process::{Bursts, Ending, Gets};
use homing_sched::jobs::Job;
use homing_sched::measure::Analyzer;
use homing_sched::outcome::{Outcome, Point, Segment};
use homing_sched::partition::Division;
use homing_sched::JobId;
use serde_json::{json, Value};
use std::os::unix::process::ExitStatusExt;

/// Numbers of processors for which measurements are shown at most.
const MEASURED: u32 = 1024;

/// From when on a job had what.
#[derive(Clone, Debug)]
pub struct Change {
    /// The driver's; 0: it stands still.
    number: u64,
    at_s: f64,
    cpus: Vec<u32>,
    threads: u32,
    shared: bool,
}

impl Change {
    /// It gets processors.
    pub fn of(at_s: f64, gets: &Gets) -> Change {
        Change {
            number: gets.change,
            at_s,
            cpus: gets.cpus.clone(),
            threads: gets.threads,
            shared: gets.shared,
        }
    }

    /// It stands still.
    pub fn still(at_s: f64) -> Change {
        Change { number: 0, at_s, cpus: Vec::new(), threads: 0, shared: false }
    }

    /// Processors that it has: shared ones count as many as it has threads.
    fn processors(&self) -> usize {
        if self.shared {
            self.threads as usize
        } else {
            self.cpus.len()
        }
    }
}

/// What became of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It has not ended.
    Open,
    /// It was never started: a signal came before.
    NotStarted,
    /// It could not be started.
    CannotStart(String),
    /// It ended.
    Ended(Ending),
}

/// One job.
pub struct JobResult {
    name: String,
    request: u32,
    arrived_s: f64,
    /// When it was started.
    pub began_s: Option<f64>,
    ended_s: Option<f64>,
    changes: Vec<Change>,
    /// What the library inside of it said last.
    pub report: Report,
    /// Seconds of an iteration by processors, and the speed-up.
    measured: Vec<(u32, f64, f64)>,
    /// Its number of threads was seen not to follow.
    pub stays: bool,
    /// What became of it.
    pub fate: Fate,
}

impl JobResult {
    /// Of a job that has not arrived.
    pub fn new(job: &Job) -> JobResult {
        JobResult {
            name: job.name.clone(),
            request: job.request,
            arrived_s: job.arrival,
            began_s: None,
            ended_s: None,
            changes: Vec::new(),
            report: Report::default(),
            measured: Vec::new(),
            stays: false,
            fate: Fate::Open,
        }
    }

    /// True until it has ended or cannot begin any more.
    pub fn is_open(&self) -> bool {
        self.fate == Fate::Open
    }

    /// It has something else from now on.
    pub fn change(&mut self, change: Change) {
        self.changes.push(change);
    }

    /// Since when it has what it has.
    pub fn changed_s(&self) -> f64 {
        self.changes.last().map_or(0.0, |change| change.at_s)
    }

    /// The number of the last change, if it does not stand still.
    pub fn last_change(&self) -> Option<u64> {
        self.changes.last().map(|change| change.number).filter(|&number| number > 0)
    }

    /// It has ended.
    pub fn ended(&mut self, now_s: f64, ending: Ending) {
        self.ended_s = Some(now_s);
        self.fate = Fate::Ended(ending);
    }

    /// What was measured of it.
    pub fn measured(&mut self, found: &Analyzer) {
        let known = (1..=MEASURED).filter_map(|processors| {
            let speed_up = found.speed_up(processors)?;
            Some((processors, found.expected_s(processors)?, speed_up.speed_up))
        });
        self.measured = known.collect();
    }

    /// Processors over the time that it had some.
    fn processors(&self) -> f64 {
        let end = self.ended_s.unwrap_or(0.0);
        let until = |index: usize| self.changes.get(index + 1).map_or(end, |next| next.at_s);
        let each = self.changes.iter().enumerate().filter(|(_, change)| change.processors() > 0);
        let (had, time) = each.fold((0.0, 0.0), |(had, time), (index, change)| {
            let seconds = until(index) - change.at_s;
            (had + seconds * change.processors() as f64, time + seconds)
        });
        had / f64::max(time, f64::MIN_POSITIVE)
    }

    fn wait_s(&self) -> Option<f64> {
        Some(self.began_s? - self.arrived_s)
    }

    /// Seconds from arrival to end.
    pub fn turnaround_s(&self) -> Option<f64> {
        Some(self.ended_s? - self.arrived_s)
    }

    fn ending(&self) -> Option<&Ending> {
        match &self.fate {
            Fate::Ended(ending) => Some(ending),
            _ => None,
        }
    }

    fn cpu_s(&self) -> Option<f64> {
        Some(self.ending()?.cpu.as_secs_f64())
    }

    /// Whether its number of threads followed its processors.
    fn threads(&self) -> &'static str {
        match self.report {
            Report { regions: 0, .. } => "no regions",
            Report { regions, fixed, .. } if fixed == regions => "fixed by the program",
            _ if self.stays => "did not follow",
            Report { regions: 1, .. } => "one region",
            Report { fixed: 0, .. } => "followed",
            _ => "followed in part",
        }
    }

    fn end(&self) -> String {
        let ending = match &self.fate {
            Fate::Open => return "still there".into(),
            Fate::NotStarted => return "not started".into(),
            Fate::CannotStart(why) => return format!("cannot start: {}", visible::name(why)),
            Fate::Ended(ending) => ending,
        };
        let how = match (ending.status.code(), ending.status.signal()) {
            (Some(code), _) => format!("status {code}"),
            (None, signal) => format!("signal {}", signal.unwrap_or(0)),
        };
        match (ending.over_limit, ending.out_of_memory) {
            (true, _) => format!("{how}, over its limit"),
            (false, 0) => how,
            (false, _) => format!("{how}, memory ran out"),
        }
    }

    fn well(&self) -> bool {
        self.ending().is_some_and(|ending| ending.status.success() && !ending.over_limit)
    }

    fn json(&self) -> Value {
        let ending = self.ending();
        let changes = self.changes.iter().map(|change| {
            json!({ "s": change.at_s, "cpus": change.cpus, "threads": change.threads, "shared": change.shared })
        });
        let measured = self.measured.iter().map(|(processors, seconds, speed_up)| {
            json!({ "processors": processors, "iteration_s": seconds, "speed_up": speed_up })
        });
        json!({
            "name": self.name,
            "request": self.request,
            "arrived_s": self.arrived_s,
            "began_s": self.began_s,
            "ended_s": self.ended_s,
            "wait_s": self.wait_s(),
            "turnaround_s": self.turnaround_s(),
            "cpu_s": self.cpu_s(),
            "processors": self.processors(),
            "changes": changes.collect::<Vec<_>>(),
            "regions": self.report.regions,
            "regions_fixed": self.report.fixed,
            "last_team": self.report.team,
            "threads": self.threads(),
            "iterations": self.report.iterations,
            "measured": measured.collect::<Vec<_>>(),
            "process_migrations": ending.and_then(|ending| ending.migrations),
            "bursts": ending.and_then(|ending| ending.bursts).map(|bursts| bursts.count),
            "burst_s": ending.and_then(|ending| ending.bursts).map(Bursts::mean_s),
            "status": ending.and_then(|ending| ending.status.code()),
            "signal": ending.and_then(|ending| ending.status.signal()),
            "over_limit": ending.is_some_and(|ending| ending.over_limit),
            "killed_for_memory": ending.map_or(0, |ending| ending.out_of_memory),
            "end": self.end(),
        })
    }
}

/// All jobs.
pub struct Results {
    /// The CPU manager.
    pub manager: &'static str,
    /// Who moved pages.
    pub pages: &'static str,
    /// How CPUs were given.
    pub means: String,
    /// CPUs of all jobs together.
    pub cpus: usize,
    /// Seconds until the last job ended.
    pub total_s: f64,
    /// What the manager takes a page's move to cost a job, if it weighs that.
    pub page_move_s: Option<f64>,
    /// By arrival.
    pub jobs: Vec<JobResult>,
    /// What the live engine did.
    pub moved: Option<Summary>,
    /// How partitions fared, if the machine is divided.
    pub division: Option<Division>,
}

/// What the numbers are.
const HOW: &str = "Measured (docs/scheduling.md): wall-clock times, CPU time as the kernel counts it.";

impl Results {
    /// True if all jobs ended with status 0.
    pub fn all_well(&self) -> bool {
        self.jobs.iter().all(JobResult::well)
    }

    fn sum(&self, of: impl Fn(&JobResult) -> Option<f64>) -> f64 {
        self.jobs.iter().filter_map(of).sum()
    }

    fn migrations(&self) -> Option<u64> {
        let each: Vec<u64> = self.jobs.iter().filter_map(|job| job.ending()?.migrations).collect();
        (!each.is_empty()).then(|| each.iter().sum())
    }

    fn bursts(&self) -> Option<Bursts> {
        self.jobs.iter().filter_map(|job| job.ending()?.bursts).reduce(Bursts::plus)
    }

    fn mean_turnaround_s(&self) -> f64 {
        let ended = self.jobs.iter().filter(|job| job.ended_s.is_some()).count();
        self.sum(JobResult::turnaround_s) / ended.max(1) as f64
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        json!({
            "schema": 1,
            "measured": true,
            "manager": self.manager,
            "pages": self.pages,
            "means": self.means,
            "cpus": self.cpus,
            "makespan_s": self.total_s,
            "turnaround_s": self.mean_turnaround_s(),
            "cpu_s": self.sum(JobResult::cpu_s),
            "page_move_us": self.page_move_s.map(|seconds| 1e6 * seconds),
            "process_migrations": self.migrations(),
            "bursts": self.bursts().map(|bursts| bursts.count),
            "burst_s": self.bursts().map(Bursts::mean_s),
            "engine": self.moved,
            "partitions": self.division.as_ref().map(|division| &division.partitions),
            "transfers": self.division.as_ref().map(|division| &division.transfers),
            "jobs": self.jobs.iter().map(JobResult::json).collect::<Vec<_>>(),
        })
    }

    /// As a table.
    pub fn print(&self) -> anyhow::Result<()> {
        let mut table = crate::tables::table(&[
            "job",
            "waited s",
            "turnaround s",
            "CPU s",
            "processors",
            "threads",
            "iterations",
            "process migrations",
            "burst s",
            "end",
        ]);
        let seconds = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.1}"));
        for job in &self.jobs {
            table.add_row([
                visible::name(&job.name).to_string(),
                seconds(job.wait_s()),
                seconds(job.turnaround_s()),
                seconds(job.cpu_s()),
                format!("{:.1}", job.processors()),
                job.threads().into(),
                job.report.iterations.to_string(),
                job.ending()
                    .and_then(|ending| ending.migrations)
                    .map_or("-".into(), |count| count.to_string()),
                job.ending()
                    .and_then(|ending| ending.bursts)
                    .map_or("-".into(), |bursts| format!("{:.3}", bursts.mean_s())),
                job.end(),
            ]);
        }
        outln!("{table}\n");
        outln!(
            "{} jobs, manager {}, pages {}: {:.1} s in all, mean turnaround {:.1} s, {:.1} s of CPU time",
            self.jobs.len(),
            self.manager,
            self.pages,
            self.total_s,
            self.mean_turnaround_s(),
            self.sum(JobResult::cpu_s),
        );
        if let Some(division) = &self.division {
            let mut table = partitions::table(&[]);
            partitions::rows(&mut table, &[], &[division]);
            outln!("\n{table}\n\n{}\n", partitions::transfers(division));
        }
        if let Some(moved) = &self.moved {
            outln!("The live engine:");
            for line in show::lines(moved) {
                outln!("  {line}");
            }
        }
        if let Some(seconds) = self.page_move_s {
            outln!(
                "A page's move was taken to cost a job {:.1} us, as on {MOVES_OF}: that is not measured here.",
                1e6 * seconds
            );
        }
        outln!("{HOW}");
        Ok(())
    }

    /// As a page.
    pub fn page(&self) -> String {
        let title = format!("{}, pages {}", self.manager, self.pages);
        let text = format!(
            "{} jobs in {:.1} s on {} CPUs; {:.1} s of CPU time, mean turnaround {:.1} s.",
            self.jobs.len(),
            self.total_s,
            self.cpus,
            self.sum(JobResult::cpu_s),
            self.mean_turnaround_s()
        );
        let names: Vec<&str> = self.jobs.iter().map(|job| job.name.as_str()).collect();
        picture::page_of_one(&title, &text, &self.outcome(), &names, HOW, &self.json())
    }

    /// Who had which CPUs (time-shared ones are nobody's), and how local the engine's samples were, if it ran.
    fn outcome(&self) -> Outcome {
        let mut outcome = Outcome::default();
        outcome.makespan_s = self.total_s;
        outcome.division = self.division.clone();
        let intervals = self.moved.iter().flat_map(|summary| &summary.intervals);
        outcome.locality = intervals
            .filter(|interval| interval.local + interval.remote > 0)
            .map(|interval| Point {
                at_s: interval.ms as f64 / 1e3,
                job: JobId(0),
                local: interval.local as f64 / (interval.local + interval.remote) as f64,
                cpus: 0,
            })
            .collect();
        for (index, job) in self.jobs.iter().enumerate() {
            let end = job.ended_s.unwrap_or(self.total_s);
            for (at, change) in job.changes.iter().enumerate().filter(|(_, change)| !change.shared) {
                let to_s = job.changes.get(at + 1).map_or(end, |next| next.at_s);
                outcome.segments.extend(change.cpus.iter().map(|&cpu| Segment {
                    cpu: cpu as u16,
                    job: JobId(index as u32),
                    from_s: change.at_s,
                    to_s,
                }));
            }
        }
        outcome
    }
}
