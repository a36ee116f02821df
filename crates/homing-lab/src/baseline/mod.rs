//! One program under several ways to place its memory, each in a machine of its own, judged by the observer.

mod contender;
mod measure;

pub use contender::{all, known, Contender};
pub use measure::{Measured, Summary};

use crate::job::{environment_with, working_directory, Job};
use crate::kernel::{HugePages, Kernel};
use crate::observer::{Delay, Options};
use crate::session::{Ended, Ends, Lab, Task};
use crate::topology::Topology;
use crate::watch::Watch;
use crate::LabError;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

/// What all contenders share.
#[derive(Clone, Debug)]
pub struct Baseline {
    /// The machine.
    pub topology: Topology,
    /// QEMU's model of its CPUs.
    pub cpu_model: String,
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Variables of its environment.
    pub environment: Vec<(String, String)>,
    /// Further files and directories that it needs.
    pub files: Vec<PathBuf>,
    /// Nodes on which the memory begins, as after an initialisation by one thread.
    pub start: Option<String>,
    /// Files of the guest's /proc or /sys and what is written to them.
    pub tunes: Vec<(String, String)>,
    /// Bytes of each CPU's cache; what misses it counts.
    pub cache: u64,
    /// Delays of misses.
    pub delay: Option<Delay>,
    /// Count only between the program's own marks.
    pub marked: bool,
    /// Length of the observer's intervals.
    pub interval: Duration,
    /// The longest that a run may take.
    pub timeout: Duration,
    /// Settings of transparent huge pages to run with.
    pub huge_pages: Vec<HugePages>,
    /// Runs of each contender at each of those.
    pub repeats: u32,
    /// Where the errors of a run go; its output is dropped.
    pub errors: fn() -> Box<dyn Write + Send>,
}

impl Baseline {
    /// Runs all contenders in turn, as often as is asked for, so that a host whose speed changes slows all of them
    /// down, and tells `watch` of each run; the medians and the runs.
    ///
    /// # Errors
    /// If a program fails, or the observer counts nothing: figures would mean nothing.
    pub fn run(&self, contenders: &[Contender], watch: &dyn Watch) -> Result<Vec<Summary>, LabError> {
        let count = contenders.len() * self.huge_pages.len() * self.repeats as usize;
        let (mut number, mut rows) = (0, Vec::new());
        for &pages in &self.huge_pages {
            let mut runs = vec![Vec::new(); contenders.len()];
            for _ in 0..self.repeats {
                for (contender, runs) in contenders.iter().zip(&mut runs) {
                    number += 1;
                    let measured = self.one(contender, pages, watch)?;
                    watch.say(&format!(
                        "{number} of {count}: {}, thp {pages}: {:.2} % non-local, {:.1} s",
                        contender.name, measured.nonlocal_percent, measured.seconds
                    ));
                    runs.push(measured);
                }
            }
            let of = contenders.iter().zip(runs);
            rows.extend(of.map(|(contender, runs)| Summary::new(&contender.name, pages.word(), runs)));
        }
        Ok(rows)
    }

    /// One run of one contender.
    fn one(
        &self,
        contender: &Contender,
        huge_pages: HugePages,
        watch: &dyn Watch,
    ) -> Result<Measured, LabError> {
        let set = self.environment.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let job = Job {
            command: contender.prefix.iter().chain(&self.command).cloned().collect(),
            environment: environment_with(set),
            directory: working_directory()?,
            files: self.files.clone(),
            start: self.start.clone().filter(|_| contender.starts),
            beside: contender.beside.clone(),
            observe: true,
            ..Job::default()
        };
        let observe = Options {
            every: self.interval,
            pages: true,
            marked: self.marked,
            cache: Some(self.cache),
            delay: self.delay,
            ..Options::default()
        };
        let kernel = Kernel {
            balancing: contender.balancing,
            huge_pages,
            files: self.tunes.clone(),
            ..Kernel::default()
        };
        let task = Task {
            job,
            timeout: Some(self.timeout),
            ends: Ends { input: None, output: Box::new(std::io::sink()), errors: (self.errors)() },
            drops_files: true,
        };
        let lab = Lab {
            topology: &self.topology,
            cpu_model: &self.cpu_model,
            kernel: &kernel,
            tasks: vec![task],
            observe: Some(observe),
            trace: None,
        };
        let ended = lab.run_one(watch)?;
        check(&ended, &contender.name)?;
        Ok(Measured::new(&ended, &self.topology))
    }
}

/// Figures of a program that failed would mean nothing.
fn check(ended: &Ended, name: &str) -> Result<(), LabError> {
    if ended.status != 0 {
        return Err(LabError::Command { name: name.to_owned(), status: ended.status });
    }
    match &ended.observed {
        Some(observed) if observed.total().misses.total() > 0 => Ok(()),
        _ => Err(LabError::Failed(format!(
            "{name}: the observer counted nothing; with --marked the program must have marks"
        ))),
    }
}
