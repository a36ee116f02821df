//! What came of a simulated workload: by application, and of the machine (Corbalan 2003, section 6, figures 1 to 5 and
//! table 2). All of it is modelled.

use super::partition::{Division, PartitionId};
use super::workload::Workload;
use super::JobId;
use serde::Serialize;

/// A job that ended.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct JobEnded {
    pub app: usize,
    pub partition: PartitionId,
    pub arrived_s: f64,
    pub began_s: f64,
    pub ended_s: f64,
    /// Seconds in which it had processors.
    pub ran_s: f64,
    pub cpu_s: f64,
    /// Processor seconds of the same on the same processors, had all its pages been local and no memory crowded.
    pub ideal_cpu_s: f64,
    /// Seconds of its work on one processor without waiting for memory.
    pub alone_s: f64,
    pub misses: f64,
    pub local_misses: f64,
    pub pages_moved: f64,
}

/// Means over the jobs of one application.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OfApp {
    /// Its name.
    pub app: String,
    /// Jobs.
    pub jobs: u64,
    /// Processor seconds of a job.
    pub cpu_s: f64,
    /// The same with the same processors, had all its pages been local and no memory crowded: no placement of pages
    /// brings it below this.
    pub bound_cpu_s: f64,
    /// Seconds from arrival to end.
    pub turnaround_s: f64,
    /// Seconds from arrival to begin.
    pub wait_s: f64,
    /// Seconds from begin to end.
    pub execution_s: f64,
    /// Processors, over the time that it had some.
    pub processors: f64,
    /// Seconds of its work on one processor without waiting for memory, over its execution.
    pub speed_up: f64,
    /// Misses that were served by another node, in per cent.
    pub nonlocal_percent: f64,
    /// Pages that moved.
    pub pages_moved: f64,
}

/// A CPU ran a job.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Segment {
    /// The CPU.
    pub cpu: u16,
    /// The job.
    pub job: JobId,
    /// From when.
    pub from_s: f64,
    /// Until when.
    pub to_s: f64,
}

/// How local a job was.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// When.
    pub at_s: f64,
    /// The job.
    pub job: JobId,
    /// Share of its misses that its threads' own nodes serve.
    pub local: f64,
    /// Its threads.
    pub cpus: u32,
}

/// What came of a workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Outcome {
    /// By application that had jobs.
    pub apps: Vec<OfApp>,
    /// Jobs that ended.
    pub jobs: u64,
    /// Seconds until the last one ended.
    pub makespan_s: f64,
    /// Mean seconds from arrival to end.
    pub turnaround_s: f64,
    /// Processor seconds of all jobs.
    pub cpu_s: f64,
    /// The least that any placement of pages could reach with the same processors.
    pub bound_cpu_s: f64,
    /// Busy processor time, in per cent.
    pub utilisation_percent: f64,
    /// Mean number of jobs that ran or waited.
    pub jobs_present: f64,
    /// Misses that were served by another node, in per cent.
    pub nonlocal_percent: f64,
    /// Pages that moved.
    pub pages_moved: f64,
    /// Times that a kernel thread went on on another CPU than before.
    pub process_migrations: u64,
    /// Mean seconds for which a CPU ran one kernel thread without a break.
    pub burst_s: f64,
    /// Bursts of each CPU, in the mean.
    pub bursts_per_cpu: f64,
    /// Which CPU ran which job, if it was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub segments: Vec<Segment>,
    /// How local jobs were, if it was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub locality: Vec<Point>,
    /// Segments and points that there was no room for.
    pub left_out_of_pictures: u64,
    /// How partitions fared, if the machine is divided.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub division: Option<Division>,
    #[serde(skip)]
    misses: (f64, f64),
    #[serde(skip)]
    job_seconds: f64,
    /// Partition and turnaround of each job that ended.
    #[serde(skip)]
    ended_in: Vec<(PartitionId, f64)>,
}

impl Outcome {
    pub(super) fn new(workload: &Workload) -> Outcome {
        let apps = workload.apps.iter().map(|app| OfApp { app: app.name.clone(), ..OfApp::default() });
        Outcome { apps: apps.collect(), ..Outcome::default() }
    }

    /// Jobs that ran or waited for a time.
    pub(super) fn present(&mut self, seconds: f64, jobs: usize) {
        self.job_seconds += seconds * jobs as f64;
    }

    /// Adds a job; sums become means in [`Outcome::ended`].
    pub(super) fn job_ended(&mut self, job: &JobEnded) {
        self.ended_in.push((job.partition, job.ended_s - job.arrived_s));
        let app = &mut self.apps[job.app];
        app.jobs += 1;
        app.cpu_s += job.cpu_s;
        app.bound_cpu_s += job.ideal_cpu_s;
        app.turnaround_s += job.ended_s - job.arrived_s;
        app.wait_s += job.began_s - job.arrived_s;
        app.execution_s += job.ended_s - job.began_s;
        app.processors += job.cpu_s / job.ran_s.max(f64::MIN_POSITIVE);
        app.speed_up += job.alone_s / (job.ended_s - job.began_s).max(f64::MIN_POSITIVE);
        app.pages_moved += job.pages_moved;
        if job.misses > 0.0 {
            app.nonlocal_percent += 100.0 * (1.0 - job.local_misses / job.misses);
        }
        self.misses.0 += job.misses;
        self.misses.1 += job.local_misses;
    }

    pub(super) fn bursts(&mut self, bursts: u64, busy_s: f64, cpus: usize) {
        self.burst_s = busy_s / (bursts as f64).max(1.0);
        self.bursts_per_cpu = bursts as f64 / cpus as f64;
    }

    /// How partitions fared, if the machine was divided.
    pub(super) fn divided(&mut self, division: Option<Division>) {
        self.division = division.map(|division| division.with_jobs(&self.ended_in));
    }

    pub(super) fn ended(&mut self, now_s: f64, cpus: usize) {
        self.jobs = self.apps.iter().map(|app| app.jobs).sum();
        let sum = |of: fn(&OfApp) -> f64| self.apps.iter().map(of).sum::<f64>();
        self.cpu_s = sum(|app| app.cpu_s);
        self.bound_cpu_s = sum(|app| app.bound_cpu_s);
        self.turnaround_s = sum(|app| app.turnaround_s) / (self.jobs as f64).max(1.0);
        self.makespan_s = now_s;
        self.utilisation_percent = 100.0 * self.cpu_s / (now_s * cpus as f64).max(f64::MIN_POSITIVE);
        self.jobs_present = self.job_seconds / now_s.max(f64::MIN_POSITIVE);
        self.nonlocal_percent = match self.misses {
            (misses, local) if misses > 0.0 => 100.0 * (1.0 - local / misses),
            _ => 0.0,
        };
        self.apps.retain(|app| app.jobs > 0);
        for app in &mut self.apps {
            let jobs = app.jobs as f64;
            for value in [
                &mut app.cpu_s,
                &mut app.bound_cpu_s,
                &mut app.turnaround_s,
                &mut app.wait_s,
                &mut app.execution_s,
                &mut app.processors,
                &mut app.speed_up,
                &mut app.nonlocal_percent,
                &mut app.pages_moved,
            ] {
                *value /= jobs;
            }
        }
    }
}
