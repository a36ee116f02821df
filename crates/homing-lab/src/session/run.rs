//! A machine being watched: its start, its command, signals, the time-out, and the end.

use super::pumps::Pumps;
use super::{Ended, Held};
use crate::machine::{Control, Machine, Message};
use crate::watch::Watch;
use crate::LabError;
use homing_linux::files::{self, Output, Over};
use homing_linux::interrupts::Interrupts;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often the main loop looks for signals and the time-out.
const TICK: Duration = Duration::from_millis(100);
/// A machine that is not up after this time never will be; with 64 CPUs on a busy host it takes minutes.
const BOOT_PATIENCE: Duration = Duration::from_secs(600);
/// The observer writes its report when the machine is switched off; on a busy host that takes a while.
const END_PATIENCE: Duration = Duration::from_secs(60);
/// What timeout(1) exits with.
const TIMED_OUT: u8 = 124;

/// A machine being watched.
pub struct Run<'i> {
    machine: Machine,
    control: Control,
    interrupts: &'i Interrupts,
    timeout: Option<Duration>,
    drops_files: bool,
    watch: &'i dyn Watch,
    kernel: BTreeMap<String, u64>,
    held: Option<Held>,
    begin: Instant,
    /// How long it took until the command could start, once that is so.
    boot: Option<Duration>,
    /// Interrupts that were acted upon.
    seen: u32,
}

impl<'i> Run<'i> {
    /// Watches a machine that was just started.
    pub fn new(
        machine: Machine,
        control: Control,
        interrupts: &'i Interrupts,
        timeout: Option<Duration>,
        drops_files: bool,
        watch: &'i dyn Watch,
    ) -> Run<'i> {
        let (kernel, begin) = (BTreeMap::new(), Instant::now());
        Run {
            machine,
            control,
            interrupts,
            timeout,
            drops_files,
            watch,
            kernel,
            held: None,
            begin,
            boot: None,
            seen: 0,
        }
    }

    /// Waits until the command is about to start, or a signal has come.
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

    /// Follows the command to its end.
    pub fn supervise(&mut self, pumps: &Pumps) -> Result<Ended, LabError> {
        let (begin, mut boot, mut files) = (self.begin, self.boot, Vec::new());
        loop {
            let message = match self.control.next(TICK) {
                Ok(message) => message,
                Err(_) => return Err(self.machine.died()),
            };
            match message {
                Some(Message::Ready) => boot = Some(begin.elapsed()),
                Some(Message::Note(text)) => self.watch.say(&format!("in the guest: {text}")),
                Some(Message::Count(name, number)) => {
                    self.kernel.insert(name, number);
                }
                Some(Message::Held { to_the_end, bytes }) => self.held(to_the_end, bytes),
                Some(Message::File { .. }) if self.drops_files => {}
                Some(Message::File { path, mode, bytes }) => {
                    bring_back(&path, mode, &bytes)?;
                    files.push(path);
                }
                Some(Message::Exit { status, sent }) => {
                    let boot = boot.unwrap_or_default();
                    let ran = begin.elapsed().saturating_sub(boot);
                    // Whoever reads the output may be slow; a signal ends the waiting, as it would have ended the
                    // command.
                    let seen = self.interrupts.count();
                    while !pumps.copied(sent) && self.interrupts.count() == seen {
                        std::thread::sleep(Duration::from_millis(5));
                    }
                    self.control.end()?;
                    self.machine.end(END_PATIENCE)?;
                    return Ok(self.ended(status, files, boot, ran));
                }
                None => {}
            }
            if let Some(status) =
                self.must_end(begin.elapsed().checked_sub(boot.unwrap_or(begin.elapsed())), boot.is_some())?
            {
                self.machine.terminate()?;
                let ran = begin.elapsed().saturating_sub(boot.unwrap_or_default());
                return Ok(self.ended(status, files, boot.unwrap_or_default(), ran));
            }
        }
    }

    /// The command's memory comes from all nodes from now on, or never did.
    fn held(&mut self, to_the_end: bool, bytes: u64) {
        let until = self.begin.elapsed();
        self.held = Some(Held { until_ms: (!to_the_end).then_some(until.as_millis() as u64), bytes });
        let ran = until.saturating_sub(self.boot.unwrap_or_default()).as_secs_f64();
        let mib = bytes as f64 / f64::from(1 << 20);
        self.watch.say(&match to_the_end {
            false => format!("--start-on: after {ran:.1} s memory comes from all nodes ({mib:.1} MiB in use)"),
            true => "--start-on: memory came from the first nodes to the end of the command, of which several threads \
                     never computed for 250 ms a CPU without growing"
                .into(),
        });
    }

    fn ended(&mut self, status: u8, files: Vec<PathBuf>, boot: Duration, ran: Duration) -> Ended {
        let kernel = std::mem::take(&mut self.kernel);
        Ended { status, files, boot, ran, observed: None, held: self.held, kernel }
    }

    /// The first signal is the command's, once it runs; the second ends the machine, as does the time-out.
    fn must_end(&mut self, ran: Option<Duration>, booted: bool) -> Result<Option<u8>, LabError> {
        let count = self.interrupts.count();
        if count > self.seen {
            let signal = self.interrupts.last();
            if self.seen > 0 || !booted {
                return Ok(Some(128 + signal as u8));
            }
            self.seen = count;
            self.control.signal(signal)?;
        }
        let Some(timeout) = self.timeout else { return Ok(None) };
        if ran.is_some_and(|ran| ran >= timeout) {
            self.watch.say(&format!("the command ran longer than {timeout:?}: the machine was switched off"));
            return Ok(Some(TIMED_OUT));
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
