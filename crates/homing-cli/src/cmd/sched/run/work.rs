//! The jobs between the driver and their processes: what happens to them is told to the driver, what it says is done.

use super::hardware::{self, Hardware};
use super::launch::Launcher;
use super::leaving::Leaving;
use super::pages::{Engine, Stay};
use super::results::{Change, Fate, JobResult, Results};
use crate::files::JournalFile;
use anyhow::Context;
use homing_linux::allocation::{now_ns, Report};
use homing_linux::proc::Pid;
use homing_linux::visible;
use homing_live::account::Summary;
use homing_live::jobs::journal::Journal;
use homing_live::jobs::place::Means;
use homing_live::jobs::process::{Gets, Launch, Process};
use homing_live::jobs::Signal;
use homing_sched::driver::{self, Asked, Driver, Input, Output, Progress};
use homing_sched::jobs::{self, Job, Jobs};
use homing_sched::manager::Vacate;
use homing_sched::partition::file::find;
use homing_sched::partition::PartitionId;
use homing_sched::JobId;
use std::collections::VecDeque;
use std::io::Write;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Time after a change in which a job's threads follow, if they do: a parallel region begins.
const FOLLOWS: Duration = Duration::from_secs(2);
/// Time between two counts of where the pages of jobs are.
const PAGES: Duration = Duration::from_secs(1);

/// A job with what has become of it.
struct Entry {
    job: Job,
    process: Option<Process>,
    result: JobResult,
    /// The driver takes its number of threads for one that follows.
    malleable: bool,
    partition: PartitionId,
}

impl Entry {
    /// Whether the job's threads follow, if that is news. `had`: time since it got what it has.
    fn news(&mut self, had: Duration) -> Option<bool> {
        let report = &self.result.report;
        let open = self.job.malleable.is_none() && report.regions > 0;
        let asks = report.regions > 1 && report.regions > report.fixed;
        let unnoticed = self.result.last_change().is_some_and(|change| change != report.change);
        let stays = unnoticed || report.regions == report.fixed;
        if open && self.malleable && had >= FOLLOWS && stays {
            (self.malleable, self.result.stays) = (false, true);
            return Some(false);
        }
        (open && !self.malleable && !self.result.stays && asks).then(|| {
            self.malleable = true;
            true
        })
    }
}

/// All jobs.
pub struct Work {
    entries: Vec<Entry>,
    launcher: Launcher,
    driver: Driver,
    hardware: Hardware,
    means: Means,
    journal: Journal,
    log: Option<JournalFile>,
    begin_ns: u64,
    /// Jobs that came.
    arrived: usize,
    inputs: VecDeque<Input>,
    /// No job is started any more.
    ending: bool,
    /// The manager wants to know where pages are.
    pub follow_pages: bool,
    pages_at: Duration,
    /// Pages that leave a node.
    leaving: Option<Leaving>,
}

impl Work {
    /// Begins; no job has arrived yet.
    pub fn new(
        jobs: Jobs,
        launcher: Launcher,
        driver: Driver,
        hardware: Hardware,
        means: Means,
        journal: Journal,
        log: Option<JournalFile>,
    ) -> Work {
        let entry = |(index, job): (usize, Job)| {
            let malleable = launcher.malleable(index, &job);
            let result = JobResult::new(&job);
            let partition = find(&jobs.partitions, job.partition.as_deref()).unwrap_or_default();
            Entry { job, process: None, result, malleable, partition }
        };
        let entries = jobs.jobs.into_iter().enumerate().map(entry).collect();
        Work {
            entries,
            launcher,
            driver,
            hardware,
            means,
            journal,
            log,
            begin_ns: now_ns(),
            arrived: 0,
            inputs: VecDeque::new(),
            ending: false,
            follow_pages: false,
            pages_at: Duration::ZERO,
            leaving: None,
        }
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(now_ns() - self.begin_ns)
    }

    /// Everything that has happened by now.
    pub fn step(&mut self, engine: &mut Engine<'_>) -> anyhow::Result<()> {
        self.arrivals();
        let pages =
            self.follow_pages && self.hardware.layout.nodes() > 1 && self.now() >= self.pages_at + PAGES;
        for index in 0..self.entries.len() {
            self.look(index, pages)?;
        }
        if pages {
            self.pages_at = self.now();
        }
        if let Some(leaving) = self.leaving.take_if(|leaving| leaving.is_over()) {
            let (moved, left) = leaving.counts();
            self.inputs.push_back(Input::Vacated { moved, left });
        }
        if self.driver.wake_s().is_some_and(|wake| wake <= self.now().as_secs_f64()) {
            self.inputs.push_back(Input::Due);
        }
        while let Some(input) = self.inputs.pop_front() {
            self.take(input, engine)?;
        }
        let to_come = self.arrived < self.entries.len() || self.leaving.is_some();
        let stuck = if to_come { 0 } else { self.driver.stuck() };
        anyhow::ensure!(
            stuck == 0,
            "nothing runs while {stuck} jobs wait: the manager lets none of them begin"
        );
        Ok(())
    }

    fn arrivals(&mut self) {
        let now_s = self.now().as_secs_f64();
        while let Some(entry) = self.entries.get(self.arrived).filter(|entry| entry.job.arrival <= now_s) {
            let asked = Asked {
                processors: entry.job.request,
                malleable: entry.malleable,
                partition: entry.partition,
            };
            if !self.ending {
                self.inputs.push_back(Input::Arrived(JobId(self.arrived as u32), asked));
            }
            self.arrived += 1;
        }
    }

    /// Looks at one job that runs; `pages`: also at where its pages are.
    fn look(&mut self, index: usize, pages: bool) -> anyhow::Result<()> {
        let (id, now) = (JobId(index as u32), self.now());
        let entry = &mut self.entries[index];
        let Some(process) = &entry.process else { return Ok(()) };
        if let Some(report) = process.reported() {
            let news = entry.result.report != report;
            entry.result.report = report;
            let had = now.saturating_sub(Duration::from_secs_f64(entry.result.changed_s()));
            if let Some(follows) = entry.news(had) {
                self.inputs.push_back(Input::Follows(id, follows));
            }
            if news && report.iterations > 0 {
                self.inputs.push_back(Input::Progress(id, progress(&report, self.begin_ns)));
            }
        }
        let Some(process) = &mut entry.process else { return Ok(()) };
        if pages {
            self.inputs.push_back(Input::Pages(id, self.hardware.pages(&process.pages())));
        }
        if let Some(ending) = process.poll().with_context(|| entry.job.name.clone())? {
            let process = entry.process.take().expect("it runs");
            if let Some(measured) = self.driver.measured(id) {
                entry.result.measured(measured);
            }
            entry.result.ended(now.as_secs_f64(), ending);
            let removed = process.remove(&mut self.journal);
            removed
                .with_context(|| format!("cannot take away what was made for job `{}`", entry.job.name))?;
            self.inputs.push_back(Input::Ended(id));
        }
        Ok(())
    }

    fn take(&mut self, input: Input, engine: &mut Engine<'_>) -> anyhow::Result<()> {
        let now_s = self.now().as_secs_f64();
        self.write("input", now_s, &input)?;
        let outputs = self.driver.take(now_s, input)?;
        for output in &outputs {
            if let Output::Vacate(vacate) = output {
                self.leaving = Some(Leaving::announced(&self.hardware, vacate, self.pids_of(vacate)));
            }
        }
        for output in outputs {
            self.write("output", now_s, &output)?;
            self.carry_out(now_s, output, engine)?;
        }
        Ok(())
    }

    fn write(&mut self, what: &str, now_s: f64, said: &impl serde::Serialize) -> anyhow::Result<()> {
        let Some(log) = &mut self.log else { return Ok(()) };
        writeln!(log, "{}", serde_json::json!({ "s": now_s, what: said }))?;
        Ok(log.flush()?)
    }

    fn carry_out(&mut self, now_s: f64, output: Output, engine: &mut Engine<'_>) -> anyhow::Result<()> {
        let (id, gets) = match output {
            Output::Begin(id, gets) => {
                let gets = self.gets(gets);
                self.entries[id.index()].result.change(Change::of(now_s, &gets));
                return self.begin(id, &gets, engine);
            }
            Output::Give(id, gets) => (id, Some(self.gets(gets))),
            Output::Pause(id) => (id, None),
            Output::Vacate(_) => {
                self.leaving.iter_mut().for_each(Leaving::begin);
                return Ok(());
            }
        };
        let entry = &mut self.entries[id.index()];
        let Some(process) = &mut entry.process else { return Ok(()) };
        entry.result.change(gets.as_ref().map_or(Change::still(now_s), |gets| Change::of(now_s, gets)));
        let done = match &gets {
            Some(gets) => process.give(gets),
            None => process.pause(true),
        };
        done.with_context(|| format!("job `{}` cannot be given its processors", entry.job.name))
    }

    fn pids_of(&self, vacate: &Vacate) -> Vec<Pid> {
        let jobs = vacate.jobs.iter().filter_map(|id| self.entries[id.index()].process.as_ref());
        jobs.flat_map(Process::processes).collect()
    }

    fn gets(&self, gets: driver::Gets) -> Gets {
        let driver::Gets { change, cpus, threads, shared, memories } = gets;
        let memories = self.hardware.node_numbers(&memories);
        Gets { change, cpus: self.hardware.numbers(&cpus), threads, shared, memories }
    }

    /// Starts a job. One that cannot be started has ended; the others go on.
    fn begin(&mut self, id: JobId, gets: &Gets, engine: &mut Engine<'_>) -> anyhow::Result<()> {
        let entry = &mut self.entries[id.index()];
        entry.result.began_s = Some((now_ns() - self.begin_ns) as f64 / 1e9);
        let moves = entry.job.pages == jobs::Pages::Move;
        let stay = (!moves).then(Stay::here);
        let command = self.launcher.command(id.index(), &entry.job, moves && engine.scans());
        let started = command.and_then(|command| {
            let launch = Launch {
                command,
                number: id.0,
                binds: entry.job.bind,
                follows: entry.job.malleable != Some(false),
                limit: entry.job.limit.map(Duration::from_secs_f64),
            };
            Ok(Process::start(launch, gets, &self.means, &mut self.journal)?)
        });
        drop(stay);
        match started {
            Ok(process) => {
                if moves {
                    engine.add(process.pid());
                }
                entry.process = Some(process);
            }
            Err(error) => {
                errln!("homing: job `{}` cannot be started: {error:#}", visible::name(&entry.job.name));
                entry.result.fate = Fate::CannotStart(format!("{error:#}"));
                self.inputs.push_back(Input::Ended(id));
            }
        }
        Ok(())
    }

    /// A signal asks this process to end: no job is started any more, and those that run get the signal, or the last
    /// one if it is not the first.
    pub fn interrupted(&mut self, signal: i32, again: bool) -> anyhow::Result<()> {
        if !self.ending {
            self.ending = true;
            let mut waiting = 0;
            for (index, entry) in self.entries.iter_mut().enumerate() {
                if entry.process.is_none() && entry.result.is_open() {
                    waiting += 1;
                    entry.result.fate = Fate::NotStarted;
                    if index < self.arrived {
                        self.inputs.push_back(Input::Ended(JobId(index as u32)));
                    }
                }
            }
            errln!(
                "homing: {waiting} jobs are not started any more, and those that run are asked to end; \
                 a second signal ends them"
            );
        }
        let signal = if again { Signal::Kill } else { Signal::from_raw(signal).unwrap_or(Signal::Term) };
        for entry in &mut self.entries {
            if let Some(process) = &mut entry.process {
                process.ask_to_end(signal)?;
            }
        }
        Ok(())
    }

    /// True once no job is left.
    pub fn is_over(&self) -> bool {
        self.inputs.is_empty() && self.entries.iter().all(|entry| !entry.result.is_open())
    }

    /// Time until something is due that was announced.
    pub fn next(&self) -> Duration {
        let arrival = self.entries.get(self.arrived).filter(|_| !self.ending).map(|entry| entry.job.arrival);
        let next = [arrival, self.driver.wake_s()].into_iter().flatten().fold(f64::INFINITY, f64::min);
        let left = (next - self.now().as_secs_f64()).max(0.0);
        Duration::try_from_secs_f64(left).unwrap_or(Duration::MAX)
    }

    /// Descriptors that can be read when a job's first process has ended.
    pub fn ends(&self) -> Vec<BorrowedFd<'_>> {
        self.entries.iter().filter_map(|entry| entry.process.as_ref()?.ended()).collect()
    }

    /// What came of it all.
    pub fn finish(self, manager: &'static str, pages: &'static str, moved: Option<Summary>) -> Results {
        let total_s = self.now().as_secs_f64();
        let means = self.means.describe();
        let cpus = self.hardware.layout.cpus();
        let ended =
            self.entries.iter().filter_map(|entry| Some((entry.partition, entry.result.turnaround_s()?)));
        let ended: Vec<(PartitionId, f64)> = ended.collect();
        let division = self.driver.division(total_s).map(|division| division.with_jobs(&ended));
        let jobs = self.entries.into_iter().map(|entry| entry.result).collect();
        let page_move_s = self.follow_pages.then(hardware::move_s);
        Results { manager, pages, means, cpus, total_s, page_move_s, jobs, moved, division }
    }
}

fn progress(report: &Report, begin_ns: u64) -> Progress {
    Progress {
        change: report.change,
        before: report.before,
        iterations: report.iterations,
        at_s: report.at_ns.saturating_sub(begin_ns) as f64 / 1e9,
    }
}
