//! One run of a lab from start to end: its jobs in turn, with their streams, results, signals, time-outs.

mod pumps;
mod run;

pub use pumps::Ends;

use crate::job::{Job, Plan};
use crate::kernel::Kernel;
use crate::machine::{Machine, Settings, Streams};
use crate::observer::{Observed, Observer, Options};
use crate::parts::Parts;
use crate::topology::Topology;
use crate::watch::Watch;
use crate::LabError;
use homing_linux::interrupts::Interrupts;
use pumps::Pumps;
use run::Run;
use serde::Serialize;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

/// Starts of a machine that ends before the first command can start.
const ATTEMPTS: u32 = 3;

/// The observer's window of a job takes at most this long to end: with many pages, on a busy host.
const CUT_PATIENCE: Duration = Duration::from_secs(60);

/// What a job gave.
#[derive(Debug, Default)]
pub struct Ended {
    /// The command's exit status, 124 for a time-out, or 128 and the number of a signal that ended the machine.
    pub status: u8,
    /// Files that the command made or changed, already written on the host.
    pub files: Vec<PathBuf>,
    /// From the start of the command to its end.
    pub ran: Duration,
    /// What the observer counted, if it was asked to count this job.
    pub observed: Option<Observed>,
    /// Until when the command's memory was kept on its first nodes, if it was to begin there.
    pub held: Option<Held>,
    /// What the guest's kernel counted while the command ran (`/proc/vmstat`).
    pub kernel: BTreeMap<String, u64>,
}

/// How long the command's memory came from its first nodes alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Held {
    /// Milliseconds from the start of the machine, as the observer's intervals have them; none if it was so to the
    /// command's end.
    pub until_ms: Option<u64>,
    /// Bytes of anonymous and shared memory that the machine had then.
    pub bytes: u64,
}

/// Takes the words of a trace of all that is observed (lab/plugin/trace.c).
pub trait TraceSink {
    /// Begins a trace, instead of one that was begun before: the end of a pipe that the words are written to.
    fn begin(&mut self, topology: &Topology, command: &[OsString]) -> Result<OwnedFd, LabError>;
}

/// What became of a job.
#[derive(Debug)]
pub enum Outcome {
    /// It ended, or was ended.
    Ended(Box<Ended>),
    /// The machine ended while it ran.
    Lost,
    /// The machine ended before, or a signal came.
    NotRun,
}

/// What became of a lab's jobs.
#[derive(Debug)]
pub struct Outcomes {
    /// From the start of QEMU to the start of the first command.
    pub boot: Duration,
    /// One for each job.
    pub jobs: Vec<Outcome>,
    /// Why the machine ended before all of them did.
    pub failure: Option<LabError>,
}

/// A job to run, and how.
pub struct Task {
    /// The job; whether it reads the host's input is added.
    pub job: Job,
    /// No longer than this, from the start of the command.
    pub timeout: Option<Duration>,
    /// The command's streams; a shell has the terminal instead. Only one task of a lab can have an input.
    pub ends: Ends,
    /// Whether the files that the command made are dropped.
    pub drops_files: bool,
}

/// A lab to run.
pub struct Lab<'a> {
    /// The machine.
    pub topology: &'a Topology,
    /// QEMU's model of its CPUs.
    pub cpu_model: &'a str,
    /// How its kernel is set.
    pub kernel: &'a Kernel,
    /// What it shall do, one after another.
    pub tasks: Vec<Task>,
    /// What to observe of those jobs that are to be observed.
    pub observe: Option<Options>,
    /// Who takes the trace of all that is observed.
    pub trace: Option<&'a mut dyn TraceSink>,
}

impl Lab<'_> {
    /// Runs a lab of one job.
    ///
    /// # Errors
    /// If a part is missing, or the machine does not start or ends before the command.
    pub fn run_one(self, watch: &dyn Watch) -> Result<Ended, LabError> {
        let Outcomes { mut jobs, failure, .. } = self.run(watch)?;
        match (jobs.pop(), failure) {
            (Some(Outcome::Ended(ended)), _) => Ok(*ended),
            (_, Some(failure)) => Err(failure),
            _ => Err(LabError::Failed("the command was not run".into())),
        }
    }

    /// Runs the jobs in turn in one machine. Whatever happens, nothing of it runs afterwards.
    ///
    /// # Errors
    /// If a part is missing, or the machine does not start. What goes wrong later is in the outcomes.
    pub fn run(mut self, watch: &dyn Watch) -> Result<Outcomes, LabError> {
        let interrupts = Interrupts::catch().map_err(LabError::io("catching signals"))?;
        let parts = Parts::find()?;
        for task in &mut self.tasks {
            task.job.input = task.ends.input.is_some() && !task.job.shell;
        }
        let mut attempt = 1;
        let (mut run, streams, observer) = loop {
            let (mut run, streams, observer) = self.start(&parts, &interrupts, watch)?;
            match run.boot() {
                Ok(()) => break (run, streams, observer),
                // Nothing of a command has run, and QEMU fails an assertion now and then while it boots on a busy host.
                Err(error)
                    if attempt == ATTEMPTS || matches!(error, LabError::Died { refused: true, .. }) =>
                {
                    return Err(error);
                }
                Err(error) => {
                    watch.say(&error.to_string());
                    watch.say("starting it again");
                }
            }
            attempt += 1;
        };
        let shell = self.tasks.iter().any(|task| task.job.shell);
        let pumps = if shell { Pumps::default() } else { Pumps::start(streams) };
        self.jobs(&mut run, pumps, observer, watch)
    }

    /// Runs the jobs in a machine that is up.
    fn jobs(
        self,
        run: &mut Run<'_>,
        mut pumps: Pumps,
        mut observer: Option<Observer>,
        watch: &dyn Watch,
    ) -> Result<Outcomes, LabError> {
        let count = self.tasks.len();
        let (mut jobs, mut failure) = (Vec::new(), None);
        for (number, Task { job, timeout, ends, drops_files }) in self.tasks.into_iter().enumerate() {
            if !run.goes_on() {
                jobs.push(Outcome::NotRun);
                continue;
            }
            if count > 1 {
                watch.say(&format!("job {} ({} of {count})", job.name, number + 1));
            }
            pumps.turn(ends);
            let ended = run.job(number, timeout, drops_files, &pumps).and_then(|mut ended| {
                // Also of a job that is not observed: the next window begins empty.
                let window = match &mut observer {
                    Some(observer) if run.is_up() => Some(observer.cut(CUT_PATIENCE)?),
                    _ => None,
                };
                ended.observed = window.filter(|_| job.observe);
                Ok(ended)
            });
            jobs.push(match ended {
                Ok(ended) => Outcome::Ended(Box::new(ended)),
                Err(error) => {
                    run.give_up();
                    failure = Some(error);
                    Outcome::Lost
                }
            });
        }
        if let Err(error) = run.end() {
            failure.get_or_insert(error);
        }
        pumps.finish();
        let rest = observer.map(Observer::finish).transpose();
        // A machine that was switched off with its job ends the job's window, too.
        if let (Some(Outcome::Ended(ended)), false) =
            (jobs.iter_mut().rfind(|job| job.ran()), run.ended_well())
        {
            ended.observed = rest?;
        }
        Ok(Outcomes { boot: run.boot_time(), jobs, failure })
    }

    /// Starts the machine.
    fn start<'i>(
        &mut self,
        parts: &Parts,
        interrupts: &'i Interrupts,
        watch: &'i dyn Watch,
    ) -> Result<(Run<'i>, Streams, Option<Observer>), LabError> {
        let jobs = self.tasks.iter().map(|task| &task.job).collect();
        let plan = Plan { jobs, tunes: self.kernel.tunes(), observed: self.observe.is_some() };
        let prepared = plan.prepare(parts)?;
        if let Some(first) = prepared.missing.first() {
            let count = prepared.missing.len();
            watch.say(&format!(
                "warning: {count} of the libraries and interpreters are not found here, so not in the guest; the \
                 first: {first}"
            ));
        }
        let topology = self.topology;
        let command = self.tasks.first().map(|task| &task.job.command[..]).unwrap_or_default();
        let trace = self.trace.as_mut().map(|trace| trace.begin(topology, command)).transpose()?;
        let settings = Settings {
            parts,
            topology,
            cpu_model: self.cpu_model,
            observe: self.observe.as_ref().map(|options| (options, trace)),
            shell: self.tasks.iter().any(|task| task.job.shell),
        };
        let started = Machine::start(settings, prepared)?;
        let run = Run::new(started.machine, started.control, interrupts, watch);
        Ok((run, started.streams, started.observer))
    }
}

impl Outcome {
    /// Whether its command was started.
    fn ran(&self) -> bool {
        !matches!(self, Outcome::NotRun)
    }
}
