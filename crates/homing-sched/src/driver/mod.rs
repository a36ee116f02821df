//! The driver of real jobs: it takes what happens to them, asks the CPU manager, and says what is to be done. It starts
//! nothing and reads no clock, so that a run can be replayed from what it took.
//!
//! A job whose threads follow its processors is given a number of threads besides CPUs. Each change of them has a
//! number, by which the job's reports say what they were measured under ([`super::measure`]). A job whose iterations
//! are not known is never measured: it leaves the baseline after [`PATIENCE_S`].

#[cfg(test)]
mod tests;

use super::layout::Layout;
use super::manager::{Allocation, Decision, JobView, Manager, Measures, Scene, Vacate, Why};
use super::measure::{Analyzer, Watch, BASELINE};
use super::partition::{Division, PartitionId};
use super::JobId;
use homing_core::ids::{Cpu, Node};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Seconds for which a job may stay on the baseline's processors without an iteration.
pub const PATIENCE_S: f64 = 10.0;

/// What a job asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// Processors.
    pub processors: u32,
    /// True if its number of threads follows its processors.
    pub malleable: bool,
    /// Its partition.
    #[serde(default)]
    pub partition: PartitionId,
}

/// What a job says of its iterations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// The last change of its processors that it has noticed.
    pub change: u64,
    /// Iterations that had ended when it noticed.
    pub before: u64,
    /// Iterations that have ended.
    pub iterations: u64,
    /// When the last of them ended, in seconds since the begin.
    pub at_s: f64,
}

/// What happens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// A job arrived.
    Arrived(JobId, Asked),
    /// A job ended.
    Ended(JobId),
    /// A job reports its iterations.
    Progress(JobId, Progress),
    /// Whether the number of a job's threads follows its processors, as was found out.
    Follows(JobId, bool),
    /// Where a job's pages are: their number at each node.
    Pages(JobId, Vec<f64>),
    /// The time has come that [`Driver::wake_s`] named.
    Due,
    /// [`Output::Vacate`] is done.
    Vacated {
        /// Pages that left the node.
        moved: u64,
        /// Pages that stayed.
        left: u64,
    },
}

/// What a job gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gets {
    /// The number of this change, from 1, counted over all jobs.
    pub change: u64,
    /// Its CPUs: thread i runs on the i-th, unless they are shared.
    pub cpus: Vec<Cpu>,
    /// Threads that it is to have.
    pub threads: u32,
    /// The operating system moves its threads over these CPUs, which others may have, too.
    pub shared: bool,
    /// The nodes on which its pages may be; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memories: Vec<Node>,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Output {
    /// Start a job on these processors.
    Begin(JobId, Gets),
    /// Give a job these processors; if it stands still, let it go on.
    Give(JobId, Gets),
    /// Let a job stand still.
    Pause(JobId),
    /// Let pages of jobs leave a node, and say when they have ([`Input::Vacated`]).
    Vacate(Vacate),
}

/// The manager decided what cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the manager's decision cannot be carried out: {0}")]
pub struct Undoable(pub String);

/// A job that was started and has not ended.
#[derive(Debug)]
struct Running {
    asked: Asked,
    began_s: f64,
    gets: Option<Gets>,
    analyzer: Analyzer,
    watch: Option<Watch>,
    /// The change that the watch began with.
    watched: u64,
    iterations: u64,
    pages: Vec<f64>,
}

/// Jobs, their manager, and what they have.
pub struct Driver {
    layout: Layout,
    manager: Box<dyn Manager>,
    /// Seconds that a page's move takes of a job.
    move_s: f64,
    waiting: BTreeMap<JobId, Asked>,
    running: BTreeMap<JobId, Running>,
    changes: u64,
    due_s: Option<f64>,
}

impl Driver {
    /// Without jobs.
    pub fn new(layout: Layout, manager: Box<dyn Manager>, move_s: f64) -> Driver {
        let (waiting, running) = (BTreeMap::new(), BTreeMap::new());
        Driver { layout, manager, move_s, waiting, running, changes: 0, due_s: None }
    }

    /// Takes what has happened by `now_s`, seconds since the begin. Times never go back.
    ///
    /// # Errors
    /// If the manager is at fault. The driver is of no use then.
    pub fn take(&mut self, now_s: f64, input: Input) -> Result<Vec<Output>, Undoable> {
        let why = match input {
            Input::Arrived(id, asked) => {
                let processors = asked.processors.clamp(1, self.layout.cpus() as u32);
                self.waiting.insert(id, Asked { processors, ..asked });
                Why::Arrival
            }
            Input::Ended(id) => {
                self.waiting.remove(&id);
                self.running.remove(&id);
                Why::Completion
            }
            Input::Progress(id, progress) => match self.progress(id, progress) {
                true => Why::Report(id),
                false => return Ok(Vec::new()),
            },
            Input::Follows(id, malleable) => {
                if let Some(job) = self.running.get_mut(&id) {
                    job.asked.malleable = malleable;
                }
                // As if it came anew: managers deal again.
                Why::Arrival
            }
            Input::Pages(id, pages) => {
                if let Some(job) = self.running.get_mut(&id) {
                    job.pages = pages;
                }
                return Ok(Vec::new());
            }
            Input::Due => Why::Due,
            Input::Vacated { moved, left } => Why::Vacated { moved, left },
        };
        self.decide(now_s, why)
    }

    /// When [`Input::Due`] is to come, if nothing else does.
    pub fn wake_s(&self) -> Option<f64> {
        let limited = self.running.values().filter(|job| self.is_limited(job, job.began_s));
        let patience = limited.map(|job| job.began_s + PATIENCE_S);
        patience.chain(self.due_s).min_by(f64::total_cmp)
    }

    /// How many jobs wait while nothing runs and nothing is due: only an arrival could change that.
    pub fn stuck(&self) -> usize {
        let active = self.running.values().any(|job| job.gets.is_some());
        if active || self.wake_s().is_some() {
            0
        } else {
            self.waiting.len() + self.running.len()
        }
    }

    /// How the partitions fared until a time, if the machine is divided.
    pub fn division(&self, now_s: f64) -> Option<Division> {
        self.manager.division(now_s)
    }

    /// What was measured of a job that runs.
    pub fn measured(&self, id: JobId) -> Option<&Analyzer> {
        self.running.get(&id).map(|job| &job.analyzer)
    }

    /// True if a measurement is complete.
    fn progress(&mut self, id: JobId, progress: Progress) -> bool {
        let Some(job) = self.running.get_mut(&id) else { return false };
        let measures = self.manager.measures(job.asked.partition) != Measures::Nothing;
        job.iterations = progress.iterations;
        let Some(gets) = job.gets.as_ref().filter(|gets| measures && gets.change == progress.change) else {
            return false;
        };
        if job.watch.is_none() || job.watched != gets.change {
            (job.watch, job.watched) = (Some(Watch::after_change(progress.before)), gets.change);
        }
        let found = job.watch.as_mut().and_then(|watch| watch.ended(progress.iterations, progress.at_s));
        if let Some(seconds) = found {
            job.analyzer.measured(gets.threads, seconds);
        }
        found.is_some()
    }

    /// True if a job uses the baseline's processors alone, for its first measurement.
    fn is_limited(&self, job: &Running, now_s: f64) -> bool {
        let new = job.asked.malleable && job.analyzer.is_new();
        let may_come = job.iterations > 0 || now_s < job.began_s + PATIENCE_S;
        self.manager.measures(job.asked.partition) == Measures::FromBaseline && new && may_come
    }

    fn decide(&mut self, now_s: f64, why: Why) -> Result<Vec<Output>, Undoable> {
        let running = self.running.iter().map(|(&id, job)| job.view(id, now_s, self.move_s));
        let waiting = self.waiting.iter().map(|(&id, asked)| asked.view(id));
        let jobs: Vec<JobView> = running.chain(waiting).collect();
        let decision = self.manager.decide(&Scene { now_s, why, layout: &self.layout, jobs: &jobs });
        let is_there = |id| self.running.contains_key(&id) || self.waiting.contains_key(&id);
        decision.check(&self.layout, is_there).map_err(Undoable)?;
        Ok(self.carry_out(now_s, decision))
    }

    fn carry_out(&mut self, now_s: f64, decision: Decision) -> Vec<Output> {
        self.due_s = decision.wake_s.filter(|&wake| wake > now_s);
        let mut outputs = Vec::new();
        for (&id, job) in &mut self.running {
            if job.gets.is_some() && decision.allocations.iter().all(|(other, _)| *other != id) {
                job.gets = None;
                outputs.push(Output::Pause(id));
            }
        }
        let shared = self.for_all(&decision);
        let mut memories: BTreeMap<JobId, Vec<Node>> = decision.memories.into_iter().collect();
        for (id, allocation) in decision.allocations {
            let begun = self.waiting.remove(&id).map(|asked| Running::new(asked, now_s));
            let begins = begun.is_some();
            let job = begun.or_else(|| self.running.remove(&id)).expect("the decision was checked");
            let (cpus, threads, is_shared) = match allocation {
                Allocation::Cpus(cpus) => (cpus.clone(), cpus.len() as u32, false),
                Allocation::Shared(threads) => (shared.clone(), threads, true),
            };
            let threads = if self.is_limited(&job, now_s) { threads.min(BASELINE) } else { threads };
            let change = self.changes + 1;
            let memories = memories.remove(&id).unwrap_or_default();
            let gets = Gets { change, cpus, threads, shared: is_shared, memories };
            let same = job.gets.as_ref().is_some_and(|has| Gets { change, ..has.clone() } == gets);
            let job = if same { job } else { Running { gets: Some(gets.clone()), ..job } };
            self.running.insert(id, job);
            if !same {
                self.changes = change;
                outputs.push(if begins { Output::Begin(id, gets) } else { Output::Give(id, gets) });
            }
        }
        // Processors first: what jobs touch from now on is elsewhere.
        outputs.extend(decision.vacate.map(Output::Vacate));
        outputs
    }

    /// The CPUs that no job has for itself.
    fn for_all(&self, decision: &Decision) -> Vec<Cpu> {
        let taken = |cpu: &Cpu| {
            decision.allocations.iter().any(|(_, allocation)| match allocation {
                Allocation::Cpus(cpus) => cpus.contains(cpu),
                Allocation::Shared(_) => false,
            })
        };
        self.layout.all().filter(|cpu| !taken(cpu)).collect()
    }
}

impl Asked {
    /// The job that waits, for managers.
    fn view(&self, id: JobId) -> JobView {
        let partition = self.partition;
        JobView { partition, ..JobView::waiting(id, self.processors, self.malleable) }
    }
}

impl Running {
    fn new(asked: Asked, began_s: f64) -> Running {
        Running {
            asked,
            began_s,
            gets: None,
            analyzer: Analyzer::default(),
            watch: None,
            watched: 0,
            iterations: 0,
            pages: Vec::new(),
        }
    }

    /// The job, for managers.
    fn view(&self, id: JobId, now_s: f64, move_s: f64) -> JobView {
        JobView {
            running: true,
            age_s: now_s - self.began_s,
            cpus: self.gets.as_ref().map_or(Vec::new(), |gets| gets.cpus.clone()),
            measured: self.analyzer.clone(),
            pages: self.pages.clone(),
            move_s,
            ..self.asked.view(id)
        }
    }
}
