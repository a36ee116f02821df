//! CPU managers: how many processors each job gets, which, and when the next job begins.
//!
//! A manager is asked when a job arrives, ends, or tells what was measured of it, and when a time comes that it named.
//! It answers for all jobs at once. To add one: write a file beside [`equipartition`], headed by its source, and add a
//! line to [`table`].

pub mod batch;
pub mod equipartition;
pub mod gang;
pub mod homing;
pub mod irix;
pub mod pdpa;
pub(super) mod shares;
pub mod table;
#[cfg(test)]
mod tests;

use super::layout::Layout;
use super::measure::Analyzer;
use super::partition::{Division, PartitionId};
use super::JobId;
use homing_core::ids::{Cpu, Node};
use serde::{Deserialize, Serialize};

/// Why a manager is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// A job arrived.
    Arrival,
    /// A job ended.
    Completion,
    /// The iterations of a job were measured on the processors that it has.
    Report(JobId),
    /// The time has come that the manager named.
    Due,
    /// The pages that could be moved have left the node of [`Decision::vacate`].
    Vacated {
        /// Pages that left it.
        moved: u64,
        /// Pages that stayed.
        left: u64,
    },
}

/// A job, as a manager sees it.
#[derive(Clone, Debug)]
pub struct JobView {
    /// The job.
    pub id: JobId,
    /// Its partition.
    pub partition: PartitionId,
    /// Processors that it asks for.
    pub request: u32,
    /// True if its number of threads follows its processors.
    pub malleable: bool,
    /// True once it has begun.
    pub running: bool,
    /// Seconds since it began.
    pub age_s: f64,
    /// Its CPUs: thread i runs on the i-th.
    pub cpus: Vec<Cpu>,
    /// What was measured of it.
    pub measured: Analyzer,
    /// Its pages at each node.
    pub pages: Vec<f64>,
    /// Seconds that a page's move takes of the job.
    pub move_s: f64,
}

impl JobView {
    /// A job that has not begun.
    pub fn waiting(id: JobId, request: u32, malleable: bool) -> JobView {
        JobView {
            id,
            partition: PartitionId::default(),
            request,
            malleable,
            running: false,
            age_s: 0.0,
            cpus: Vec::new(),
            measured: Analyzer::default(),
            pages: Vec::new(),
            move_s: 0.0,
        }
    }
}

/// What a manager is asked about.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// Seconds since the begin.
    pub now_s: f64,
    /// Why.
    pub why: Why,
    /// The machine.
    pub layout: &'a Layout,
    /// Jobs that have begun, then those that wait, each by arrival.
    pub jobs: &'a [JobView],
}

impl Scene<'_> {
    /// Jobs that have begun.
    pub fn running(&self) -> impl Iterator<Item = &JobView> {
        self.jobs.iter().filter(|job| job.running)
    }

    /// Jobs that wait.
    pub fn waiting(&self) -> impl Iterator<Item = &JobView> {
        self.jobs.iter().filter(|job| !job.running)
    }
}

/// What a job gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allocation {
    /// These CPUs, for it alone until the next decision.
    Cpus(Vec<Cpu>),
    /// This number of threads, which the operating system moves over all CPUs that nobody has for himself.
    Shared(u32),
}

/// What a manager decides.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// The jobs that run now. A job that has begun and is missing here stands still.
    pub allocations: Vec<(JobId, Allocation)>,
    /// When to ask again, in seconds since the begin.
    pub wake_s: Option<f64>,
    /// A node that pages are to leave; [`Why::Vacated`] says when they have. One at a time.
    pub vacate: Option<Vacate>,
    /// The nodes on which the pages of jobs may be; empty where they may be on all.
    pub memories: Vec<(JobId, Vec<Node>)>,
}

/// Pages that are to leave a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vacate {
    /// The node.
    pub node: Node,
    /// The jobs whose pages leave it. None of them has CPUs there any more.
    pub jobs: Vec<JobId>,
    /// Where to.
    pub to: Vec<Node>,
}

impl Decision {
    /// Whether it can be carried out: every job `is_there`, no CPU is given twice, and time-shared threads have as many
    /// CPUs as they are.
    ///
    /// # Errors
    /// What cannot be carried out.
    pub fn check(&self, layout: &Layout, is_there: impl Fn(JobId) -> bool) -> Result<(), String> {
        let mut taken = vec![false; layout.cpus()];
        let mut shared = 0;
        for (id, allocation) in &self.allocations {
            if !is_there(*id) {
                return Err(format!("job {} is not there", id.0));
            }
            match allocation {
                Allocation::Shared(threads) => shared += *threads as usize,
                Allocation::Cpus(list) => {
                    for cpu in list {
                        match taken.get_mut(cpu.index()) {
                            Some(taken) if !*taken => *taken = true,
                            Some(_) => return Err(format!("CPU {cpu} is given twice")),
                            None => return Err(format!("CPU {cpu} is not there")),
                        }
                    }
                }
            }
        }
        let left = taken.iter().filter(|&&taken| !taken).count();
        if shared > left {
            return Err(format!("{shared} time-shared threads for {left} CPUs"));
        }
        Ok(())
    }
}

/// How a manager wants jobs to be measured ([`super::measure`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measures {
    /// Not at all.
    Nothing,
    /// On the processors that they have. The first measurement is taken to be perfectly parallel.
    AsTheyRun,
    /// On the baseline's processors first: the others that a job has stand still meanwhile.
    FromBaseline,
}

/// A CPU manager.
pub trait Manager: Send {
    /// Says who runs where from now on.
    fn decide(&mut self, scene: &Scene) -> Decision;

    /// How the jobs of a partition are to be measured.
    fn measures(&self, _partition: PartitionId) -> Measures {
        Measures::Nothing
    }

    /// How the partitions fared until a time, if the machine is divided.
    fn division(&self, _now_s: f64) -> Option<Division> {
        None
    }
}
