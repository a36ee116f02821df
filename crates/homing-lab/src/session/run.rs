//! A machine being watched: its start, its jobs, signals, time-outs, and the end.

use super::pumps::Pumps;
use super::{Ended, Held};
use crate::machine::{Control, Machine, Message};
use crate::watch::Watch;
use crate::LabError;
use homing_linux::files::{self, Output, Over};
use homing_linux::interrupts::Interrupts;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// How often the main loop looks for signals and the time-out.
const TICK: Duration = Duration::from_millis(100);
/// A machine that is not up after this time never will be; with 64 CPUs on a busy host it takes minutes.
const BOOT_PATIENCE: Duration = Duration::from_secs(600);
/// The observer writes its report when the machine is switched off; on a busy host that takes a while.
const END_PATIENCE: Duration = Duration::from_secs(60);
/// A job that is ended has sent what it made after this time; a machine that has not hangs.
const STOP_PATIENCE: Duration = Duration::from_secs(30);
/// What timeout(1) exits with.
const TIMED_OUT: u8 = 124;

/// A machine being watched.
pub struct Run<'i> {
    machine: Machine,
    control: Control,
    interrupts: &'i Interrupts,
    watch: &'i dyn Watch,
    begin: Instant,
    /// How long it took until a command could start, once that is so.
    boot: Option<Duration>,
    /// Interrupts that were acted upon.
    seen: u32,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// It runs jobs.
    Up,
    /// It was switched off, or ended by itself, before it was to.
    Off,
    /// It was told to end after its jobs.
    Done,
}

/// A job that runs.
struct Running {
    begin: Instant,
    timeout: Option<Duration>,
    drops_files: bool,
    /// When its processes were ended.
    stopped: Option<Instant>,
    ended: Ended,
}

impl<'i> Run<'i> {
    /// Watches a machine that was just started.
    pub fn new(
        machine: Machine,
        control: Control,
        interrupts: &'i Interrupts,
        watch: &'i dyn Watch,
    ) -> Run<'i> {
        let (begin, state) = (Instant::now(), State::Up);
        Run { machine, control, interrupts, watch, begin, boot: None, seen: 0, state }
    }

    /// Waits until a command can start, or a signal has come.
    ///
    /// # Errors
    /// If the machine ended before, or did not come up.
    pub fn boot(&mut self) -> Result<(), LabError> {
        while self.boot.is_none() && self.interrupts.count() == 0 {
            if self.begin.elapsed() > BOOT_PATIENCE {
                self.watch.say(&format!("the machine is not up after {BOOT_PATIENCE:?}"));
                self.machine.terminate()?;
                return Err(self.machine.died());
            }
            match self.control.next(TICK) {
                Ok(Some(Message::Ready)) => self.boot = Some(self.begin.elapsed()),
                Ok(Some(Message::Note(text))) => self.watch.say(&format!("in the guest: {text}")),
                Ok(_) => {}
                Err(_) => return Err(self.machine.died()),
            }
        }
        Ok(())
    }

    /// From the start of the machine until a command could start.
    pub fn boot_time(&self) -> Duration {
        self.boot.unwrap_or_default()
    }

    /// Whether a job can be started: the machine is up, and no signal has come since it is.
    pub fn goes_on(&self) -> bool {
        self.is_up() && self.seen == 0
    }

    /// Whether it runs jobs.
    pub fn is_up(&self) -> bool {
        self.state == State::Up
    }

    /// Whether it ended after its jobs.
    pub fn ended_well(&self) -> bool {
        self.state == State::Done
    }

    /// No more is to be had of it.
    pub fn give_up(&mut self) {
        self.state = State::Off;
    }

    /// Switches it off after its jobs.
    pub fn end(&mut self) -> Result<(), LabError> {
        if self.is_up() {
            self.state = State::Done;
            self.control.end()?;
            return self.machine.end(END_PATIENCE).map(drop);
        }
        self.machine.terminate().map(drop)
    }

    /// Runs a job and follows it to its end. The machine may be off afterwards.
    ///
    /// # Errors
    /// If the machine ends by itself, or a file cannot be written here.
    pub fn job(
        &mut self,
        number: usize,
        timeout: Option<Duration>,
        drops_files: bool,
        pumps: &Pumps,
    ) -> Result<Ended, LabError> {
        let (begin, stopped, ended) = (Instant::now(), None, Ended::default());
        let mut job = Running { begin, timeout, drops_files, stopped, ended };
        if self.boot.is_some() {
            self.control.run(number).map_err(|_| self.machine.died())?;
        }
        loop {
            let message = match self.control.next(TICK) {
                Ok(message) => message,
                Err(_) => return Err(self.machine.died()),
            };
            if let Some(Message::Exit { status, sent }) = message {
                job.ended.ran = begin.elapsed();
                job.ended.status = if job.stopped.is_some() { TIMED_OUT } else { status };
                // Whoever reads the output may be slow; a signal ends the waiting, as it would have ended the command.
                let seen = self.interrupts.count();
                while !pumps.copied(sent) && self.interrupts.count() == seen {
                    std::thread::sleep(Duration::from_millis(5));
                }
                return Ok(job.ended);
            }
            self.take(message, &mut job)?;
            if let Some(status) = self.must_end(&mut job)? {
                self.machine.terminate()?;
                self.state = State::Off;
                job.ended.ran = begin.elapsed();
                job.ended.status = status;
                return Ok(job.ended);
            }
        }
    }

    /// What comes while a job runs.
    fn take(&mut self, message: Option<Message>, job: &mut Running) -> Result<(), LabError> {
        match message {
            Some(Message::Note(text)) => self.watch.say(&format!("in the guest: {text}")),
            Some(Message::Count(name, number)) => drop(job.ended.kernel.insert(name, number)),
            Some(Message::Held { to_the_end, bytes }) => self.held(to_the_end, bytes, job),
            Some(Message::File { path, mode, bytes }) if !job.drops_files => {
                bring_back(&path, mode, &bytes)?;
                job.ended.files.push(path);
            }
            _ => {}
        }
        Ok(())
    }

    /// The command's memory comes from all nodes from now on, or never did.
    fn held(&mut self, to_the_end: bool, bytes: u64, job: &mut Running) {
        let until = self.begin.elapsed();
        job.ended.held = Some(Held { until_ms: (!to_the_end).then_some(until.as_millis() as u64), bytes });
        let ran = job.begin.elapsed().as_secs_f64();
        let mib = bytes as f64 / f64::from(1 << 20);
        self.watch.say(&match to_the_end {
            false => format!("--start-on: after {ran:.1} s memory comes from all nodes ({mib:.1} MiB in use)"),
            true => "--start-on: memory came from the first nodes to the end of the command, of which several threads \
                     never computed for 250 ms a CPU without growing"
                .into(),
        });
    }

    /// The first signal is the command's, once it runs; the second ends the machine. The time-out ends the job, and the
    /// machine if that does not end it. A status if the machine must end.
    fn must_end(&mut self, job: &mut Running) -> Result<Option<u8>, LabError> {
        let count = self.interrupts.count();
        if count > self.seen {
            let signal = self.interrupts.last();
            if self.seen > 0 || self.boot.is_none() {
                return Ok(Some(128 + signal as u8));
            }
            self.seen = count;
            self.control.signal(signal)?;
        }
        match (job.stopped, job.timeout) {
            (None, Some(timeout)) if job.begin.elapsed() >= timeout => {
                self.watch.say(&format!("the command ran longer than {timeout:?}: it was ended"));
                self.control.kill()?;
                job.stopped = Some(Instant::now());
            }
            (Some(stopped), _) if stopped.elapsed() >= STOP_PATIENCE => {
                self.watch.say(&format!(
                    "the job's processes did not end within {STOP_PATIENCE:?}: the machine was switched off"
                ));
                return Ok(Some(TIMED_OUT));
            }
            _ => {}
        }
        Ok(None)
    }
}

/// Writes a result file where it has its place on the host: whole or not at all.
fn bring_back(path: &Path, mode: u32, bytes: &[u8]) -> Result<(), LabError> {
    let doing = format!("cannot bring back {}", path.display());
    if let Some(parent) = path.parent() {
        files::make_directory(parent).map_err(LabError::file(&doing))?;
    }
    let mut output = Output::create(path, Over::Anything).map_err(LabError::file(&doing))?;
    output.write_all(bytes).map_err(LabError::io(&doing))?;
    output.set_mode(mode).map_err(LabError::io(&doing))?;
    output.commit().map_err(LabError::file(&doing))
}
