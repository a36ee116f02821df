//! One run of a lab from start to end: streams, results, signals, time-out.

use super::coded;
use super::flags::{KernelArgs, MachineArgs};
use super::trace_file::TraceFile;
use crate::exit::{self, Code};
use anyhow::Context;
use homing_lab::job::Job;
use homing_lab::machine::{Control, Machine, Message, Settings, Streams};
use homing_lab::observer::{Observed, Observer, Options};
use homing_lab::parts::Parts;
use homing_lab::topology::Topology;
use homing_lab::LabError;
use homing_linux::interrupts::Interrupts;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the main loop looks for signals and the time-out.
const TICK: Duration = Duration::from_millis(100);
/// Starts of a machine that ends before the command can start.
const ATTEMPTS: u32 = 3;
/// A machine that is not up after this time never will be; with 64 CPUs on a busy host it takes minutes.
const BOOT_PATIENCE: Duration = Duration::from_secs(600);
/// The observer writes its report when the machine is switched off; on a busy host that takes a while.
const END_PATIENCE: Duration = Duration::from_secs(60);
/// What timeout(1) exits with.
const TIMED_OUT: Code = Code(124);

/// What a run of the lab gave.
#[derive(Debug)]
pub struct Ended {
    /// The command's exit status, or why there is none.
    pub code: Code,
    /// Files that the command made or changed, already written on the host.
    pub files: Vec<PathBuf>,
    /// From the start of QEMU to the start of the command.
    pub boot: Duration,
    /// From then to the command's end.
    pub ran: Duration,
    /// What the observer counted, if it was asked to.
    pub observed: Option<Observed>,
    /// References in the trace, if one was asked for.
    pub references: Option<u64>,
    /// What the guest's kernel counted while the command ran (`/proc/vmstat`).
    pub kernel: BTreeMap<String, u64>,
}

impl Ended {
    fn new(code: Code, files: Vec<PathBuf>, boot: Duration, ran: Duration) -> Ended {
        Ended { code, files, boot, ran, observed: None, references: None, kernel: BTreeMap::new() }
    }
}

/// A lab to run.
#[derive(Debug)]
pub struct Lab<'a> {
    /// The machine's options.
    pub machine: &'a MachineArgs,
    /// The kernel's options.
    pub kernel: &'a KernelArgs,
    /// What it shall do.
    pub job: Job,
    /// No longer than this, from the start of the command.
    pub timeout: Option<Duration>,
    /// What to observe.
    pub observe: Option<Options>,
    /// Where the trace of all that is observed goes.
    pub trace: Option<PathBuf>,
    /// Whether the command's output and files are dropped, and it has no input; its errors are shown.
    pub quiet: bool,
}

impl Lab<'_> {
    /// Runs it. Whatever happens, nothing of it runs afterwards.
    pub fn run(mut self, topology: &Topology) -> anyhow::Result<Ended> {
        let interrupts = Interrupts::catch()?;
        let parts = Parts::find().map_err(coded)?;
        self.job.tunes = self.kernel.tunes();
        self.job.observe = self.observe.is_some();
        let mut attempt = 1;
        let (mut run, streams, observer, trace) = loop {
            let (mut run, streams, observer, trace) = self.start(&parts, topology, &interrupts)?;
            match run.boot() {
                Ok(()) => break (run, streams, observer, trace),
                // Nothing of the command has run, and QEMU fails an assertion now and then while it boots on a busy
                // host.
                Err(error)
                    if attempt == ATTEMPTS || matches!(error, LabError::Died { refused: true, .. }) =>
                {
                    return Err(coded(error));
                }
                Err(error) => errln!("homing: {error}\nhoming: starting it again"),
            }
            trace.into_iter().for_each(TraceFile::abandon);
            attempt += 1;
        };
        let pumps = if self.job.shell { Pumps::default() } else { Pumps::start(streams, self.quiet) };
        let mut ended = run.supervise(&pumps)?;
        ended.kernel = run.kernel;
        pumps.finish();
        ended.observed = observer.map(Observer::finish).transpose().map_err(coded)?;
        ended.references = trace.map(TraceFile::finish).transpose()?;
        Ok(ended)
    }

    /// Starts the machine.
    fn start<'i>(
        &self,
        parts: &Parts,
        topology: &Topology,
        interrupts: &'i Interrupts,
    ) -> anyhow::Result<(Run<'i>, Streams, Option<Observer>, Option<TraceFile>)> {
        let prepared = self.job.prepare(parts).map_err(coded)?;
        if let Some(first) = prepared.missing.first() {
            let count = prepared.missing.len();
            errln!("homing: warning: {count} of the libraries and interpreters are not found here, so not in the \
            guest; the first: {first}");
        }
        let (trace_pipe, trace) = match &self.trace {
            Some(file) => {
                let (trace, pipe) = TraceFile::start(file.clone(), topology, &self.job.command)?;
                (Some(pipe), Some(trace))
            }
            None => (None, None),
        };
        let settings = Settings {
            parts,
            topology,
            cpu_model: self.machine.cpu_model(),
            kernel_words: self.kernel.words(),
            observe: self.observe.as_ref().map(|options| (options, trace_pipe)),
            shell: self.job.shell,
        };
        let started = Machine::start(settings, prepared).map_err(coded)?;
        let run = Run {
            machine: started.machine,
            control: started.control,
            interrupts,
            timeout: self.timeout,
            quiet: self.quiet,
            kernel: BTreeMap::new(),
            begin: Instant::now(),
            boot: None,
            seen: 0,
        };
        Ok((run, started.streams, started.observer, trace))
    }
}

/// A machine being watched.
struct Run<'i> {
    machine: Machine,
    control: Control,
    interrupts: &'i Interrupts,
    timeout: Option<Duration>,
    quiet: bool,
    kernel: BTreeMap<String, u64>,
    begin: Instant,
    /// How long it took until the command could start, once that is so.
    boot: Option<Duration>,
    /// Interrupts that were acted upon.
    seen: u32,
}

impl Run<'_> {
    /// Waits until the command is about to start, or a signal has come.
    ///
    /// # Errors
    /// If the machine ended before, or did not come up.
    fn boot(&mut self) -> Result<(), LabError> {
        while self.boot.is_none() && self.interrupts.count() == 0 {
            if self.begin.elapsed() > BOOT_PATIENCE {
                errln!("homing: the machine is not up after {BOOT_PATIENCE:?}");
                self.machine.terminate()?;
                return Err(self.machine.died());
            }
            match self.control.next(TICK) {
                Ok(Some(Message::Ready)) => self.boot = Some(self.begin.elapsed()),
                Ok(Some(Message::Note(text))) => errln!("homing: in the guest: {text}"),
                Ok(_) => {}
                Err(_) => return Err(self.machine.died()),
            }
        }
        Ok(())
    }

    fn supervise(&mut self, pumps: &Pumps) -> anyhow::Result<Ended> {
        let (begin, mut boot, mut files) = (self.begin, self.boot, Vec::new());
        loop {
            let message = match self.control.next(TICK) {
                Ok(message) => message,
                Err(_) => return Err(coded(self.machine.died())),
            };
            match message {
                Some(Message::Ready) => boot = Some(begin.elapsed()),
                Some(Message::Note(text)) => errln!("homing: in the guest: {text}"),
                Some(Message::Count(name, number)) => {
                    self.kernel.insert(name, number);
                }
                Some(Message::File { .. }) if self.quiet => {}
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
                    self.control.end().map_err(coded)?;
                    self.machine.end(END_PATIENCE).map_err(coded)?;
                    return Ok(Ended::new(Code(status), files, boot, ran));
                }
                None => {}
            }
            if let Some(code) =
                self.must_end(begin.elapsed().checked_sub(boot.unwrap_or(begin.elapsed())), boot.is_some())?
            {
                self.machine.terminate().map_err(coded)?;
                let ran = begin.elapsed().saturating_sub(boot.unwrap_or_default());
                return Ok(Ended::new(code, files, boot.unwrap_or_default(), ran));
            }
        }
    }

    /// The first signal is the command's, once it runs; the second ends the machine, as does the time-out.
    fn must_end(&mut self, ran: Option<Duration>, booted: bool) -> anyhow::Result<Option<Code>> {
        let count = self.interrupts.count();
        if count > self.seen {
            let signal = self.interrupts.last();
            if self.seen > 0 || !booted {
                return Ok(Some(Code(128 + signal as u8)));
            }
            self.seen = count;
            self.control.signal(signal).map_err(coded)?;
        }
        let Some(timeout) = self.timeout else { return Ok(None) };
        if ran.is_some_and(|ran| ran >= timeout) {
            errln!("homing: the command ran longer than {timeout:?}: the machine was switched off");
            return Ok(Some(TIMED_OUT));
        }
        Ok(None)
    }
}

/// Writes a result file where it has its place on the host: whole or not at all.
fn bring_back(path: &Path, mode: u32, bytes: &[u8]) -> anyhow::Result<()> {
    let context = || format!("cannot bring back {}", path.display());
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).with_context(context)?;
    }
    let mut output = crate::files::Output::replace(path).with_context(context)?;
    output.write_all(bytes).with_context(context)?;
    output.commit()?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).with_context(context)
}

/// Threads that copy between the command's streams and this program's.
#[derive(Default)]
struct Pumps {
    output: Vec<Pump>,
    /// Shut down at the end of the input, but held open: QEMU drops what it has not read of a stream that is closed.
    _stdin: Option<UnixStream>,
}

impl Pumps {
    fn start(streams: Streams, quiet: bool) -> Pumps {
        let Streams { stdin, stdout, stderr } = streams;
        let held = stdin.try_clone().ok();
        // It may wait for input for ever; the end of this program ends it.
        if quiet {
            let _ = stdin.shutdown(Shutdown::Write);
        } else {
            std::thread::spawn(move || copy_input(stdin));
        }
        let out: Box<dyn Write + Send> =
            if quiet { Box::new(std::io::sink()) } else { Box::new(std::io::stdout()) };
        let output = vec![Pump::start(stdout, out), Pump::start(stderr, std::io::stderr())];
        Pumps { output, _stdin: held }
    }

    /// Whether so many bytes of stdout and stderr have gone through.
    fn copied(&self, sent: [u64; 2]) -> bool {
        self.output
            .iter()
            .zip(sent)
            .all(|(pump, sent)| pump.thread.is_finished() || pump.copied.load(Relaxed) >= sent)
    }

    /// All that the command wrote has been copied when QEMU is gone and its ends of the streams with it.
    fn finish(self) {
        for pump in self.output {
            // A panic in it has been reported.
            let _ = pump.thread.join();
        }
    }
}

fn copy_input(mut to: UnixStream) {
    // The command may end before its input does.
    let _ = std::io::copy(&mut std::io::stdin().lock(), &mut to);
    let _ = to.shutdown(Shutdown::Write);
}

/// A thread that copies one stream.
struct Pump {
    thread: JoinHandle<()>,
    copied: Arc<AtomicU64>,
}

impl Pump {
    fn start(mut from: UnixStream, mut to: impl Write + Send + 'static) -> Pump {
        let copied = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&copied);
        let thread = std::thread::spawn(move || {
            let mut buffer = [0; 1 << 14];
            while let Ok(length @ 1..) = from.read(&mut buffer) {
                // If nobody reads our output, the command still runs to its end.
                let _ = to.write_all(&buffer[..length]).and_then(|()| to.flush());
                count.fetch_add(length as u64, Relaxed);
            }
        });
        Pump { thread, copied }
    }
}

/// Refuses a directory that cannot be the guest's.
pub fn working_directory() -> anyhow::Result<PathBuf> {
    let directory = std::env::current_dir().context("cannot tell the working directory")?;
    let own = ["/proc", "/sys", "/dev"].iter().any(|place| directory.starts_with(place));
    if own {
        let name = directory.display();
        return Err(exit::error(
            Code::USAGE,
            format!("the guest has a {name} of its own: run this elsewhere"),
        ));
    }
    Ok(directory)
}

/// Refuses `--file` of what is not there before anything is started.
pub fn check_files(files: &[PathBuf]) -> anyhow::Result<()> {
    match files.iter().find(|file| !file.exists()) {
        Some(file) => {
            let message = format!("--file {}: no such file or directory", file.display());
            Err(exit::error(Code::FAILURE, message))
        }
        None => Ok(()),
    }
}
