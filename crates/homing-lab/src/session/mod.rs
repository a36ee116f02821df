//! One run of a lab from start to end: streams, results, signals, time-out.

mod pumps;
mod run;

pub use pumps::Ends;

use crate::job::Job;
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

/// Starts of a machine that ends before the command can start.
const ATTEMPTS: u32 = 3;

/// What a run of the lab gave.
#[derive(Debug)]
pub struct Ended {
    /// The command's exit status, 124 for a time-out, or 128 and the number of a signal that ended the machine.
    pub status: u8,
    /// Files that the command made or changed, already written on the host.
    pub files: Vec<PathBuf>,
    /// From the start of QEMU to the start of the command.
    pub boot: Duration,
    /// From then to the command's end.
    pub ran: Duration,
    /// What the observer counted, if it was asked to.
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

/// A lab to run.
pub struct Lab<'a> {
    /// The machine.
    pub topology: &'a Topology,
    /// QEMU's model of its CPUs.
    pub cpu_model: &'a str,
    /// How its kernel is set.
    pub kernel: &'a Kernel,
    /// What it shall do; what the kernel's settings and the observer ask of it is added.
    pub job: Job,
    /// No longer than this, from the start of the command.
    pub timeout: Option<Duration>,
    /// What to observe.
    pub observe: Option<Options>,
    /// Who takes the trace of all that is observed.
    pub trace: Option<&'a mut dyn TraceSink>,
    /// The command's streams; a shell has the terminal instead.
    pub ends: Ends,
    /// Whether the files that the command made are dropped.
    pub drops_files: bool,
}

impl Lab<'_> {
    /// Runs it. Whatever happens, nothing of it runs afterwards.
    ///
    /// # Errors
    /// If a part is missing, or the machine does not start or ends before the command.
    pub fn run(mut self, watch: &dyn Watch) -> Result<Ended, LabError> {
        let interrupts = Interrupts::catch().map_err(LabError::io("catching signals"))?;
        let parts = Parts::find()?;
        self.job.tunes = self.kernel.tunes();
        self.job.observe = self.observe.is_some();
        let mut attempt = 1;
        let (mut run, streams, observer) = loop {
            let (mut run, streams, observer) = self.start(&parts, &interrupts, watch)?;
            match run.boot() {
                Ok(()) => break (run, streams, observer),
                // Nothing of the command has run, and QEMU fails an assertion now and then while it boots on a busy
                // host.
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
        let pumps = if self.job.shell { Pumps::default() } else { Pumps::start(streams, self.ends) };
        let mut ended = run.supervise(&pumps)?;
        pumps.finish();
        ended.observed = observer.map(Observer::finish).transpose()?;
        Ok(ended)
    }

    /// Starts the machine.
    fn start<'i>(
        &mut self,
        parts: &Parts,
        interrupts: &'i Interrupts,
        watch: &'i dyn Watch,
    ) -> Result<(Run<'i>, Streams, Option<Observer>), LabError> {
        let prepared = self.job.prepare(parts)?;
        if let Some(first) = prepared.missing.first() {
            let count = prepared.missing.len();
            watch.say(&format!(
                "warning: {count} of the libraries and interpreters are not found here, so not in the guest; the \
                 first: {first}"
            ));
        }
        let (topology, command) = (self.topology, &self.job.command);
        let trace = self.trace.as_mut().map(|trace| trace.begin(topology, command)).transpose()?;
        let settings = Settings {
            parts,
            topology,
            cpu_model: self.cpu_model,
            kernel_words: &self.kernel.words,
            observe: self.observe.as_ref().map(|options| (options, trace)),
            shell: self.job.shell,
        };
        let started = Machine::start(settings, prepared)?;
        let run =
            Run::new(started.machine, started.control, interrupts, self.timeout, self.drops_files, watch);
        Ok((run, started.streams, started.observer))
    }
}
