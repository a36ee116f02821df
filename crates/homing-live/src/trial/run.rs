//! One run of a program in one way: set up, started, timed, and everything put back.

use super::ways::{SetUp, Way};
use homing_linux::child::{dying_with_us, End};
use homing_linux::huge::WithoutHugePages;
use homing_linux::interrupts::{signal_child, SIGKILL, SIGTERM};
use homing_linux::monitor_card::MonitorCard;
use homing_linux::policy::{self, INTERLEAVE, PREFERRED};
use homing_linux::proc::Tid;
use homing_linux::tunables::Tunables;
use homing_linux::wait::{ready, For};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How often a run is looked at for a reason to cut it off. Its own end is seen at once.
const LOOK: Duration = Duration::from_millis(100);
/// How long a program that is asked to end may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes of the end of its standard error that are kept.
const TAIL: usize = 2048;
/// Bytes of a line in which a number is looked for; what is behind is not looked at.
const LINE: usize = 64 << 10;

/// Finds the number in a line of output, if there is one.
pub type Reading<'a> = &'a (dyn Fn(&str) -> Option<f64> + Sync);

/// Reads at the end, of 8 KiB each: more than a pipe holds.
const PIPE: usize = 160;

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ended {
    /// Well: seconds, or the number that it printed.
    Took(f64),
    /// With another status than 0.
    Exited(i32),
    /// By a signal.
    Signal(i32),
    /// Well, but without a number above 0 in what it printed.
    NoNumber,
    /// It could not be set up or started.
    NotStarted(String),
    /// It was cut off.
    CutOff,
}

/// A run.
#[derive(Clone, Debug, PartialEq)]
pub struct Ran {
    /// How it ended.
    pub ended: Ended,
    /// The end of its standard error.
    pub tail: String,
    /// What the lab's monitor card counted meanwhile, if there is one.
    pub transactions: Option<Transactions>,
}

/// Memory transactions, by whether they were with memory of the node of their CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transactions {
    /// They were.
    pub local: u64,
    /// They were with memory of another node.
    pub remote: u64,
}

impl Transactions {
    /// The share of remote ones, if there are any at all.
    pub fn nonlocal(self) -> Option<f64> {
        let all = self.local + self.remote;
        (all > 0).then(|| self.remote as f64 / all as f64)
    }
}

impl std::ops::AddAssign for Transactions {
    fn add_assign(&mut self, more: Transactions) {
        self.local += more.local;
        self.remote += more.remote;
    }
}

/// What all runs share.
pub struct Runner<'a> {
    /// File that remembers changed tunables, for the case that this process is killed.
    pub state: &'a Path,
    /// What is measured: a number of the program's output instead of the wall time. The last one counts, and standard
    /// output before standard error.
    pub reading: Option<Reading<'a>>,
    /// Counts what each run does, in the lab.
    pub card: Option<&'a MonitorCard>,
}

impl Runner<'_> {
    /// Runs it once, to the end, or until `deadline` or `interrupted`.
    ///
    /// # Errors
    /// If its end cannot be waited for.
    pub fn once(
        &self,
        way: &Way,
        deadline: Option<Instant>,
        interrupted: &(dyn Fn() -> bool + Sync),
    ) -> io::Result<Ran> {
        // Dropped behind the run, whatever comes of it.
        let _kernel = match self.kernel(&way.set_up) {
            Ok(kernel) => kernel,
            Err(error) => return Ok(not_started(&error)),
        };
        // A program inherits what the thread that starts it is bound to; that thread ends with the run.
        self.card.inspect(|card| card.count_by_distance());
        let mut ran = std::thread::scope(|scope| {
            let run = scope.spawn(|| match bind(&way.set_up).and_then(|()| self.start(way)) {
                Ok(started) => started.finish(deadline, interrupted),
                Err(error) => Ok(not_started(&error)),
            });
            run.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        ran.transactions = self.card.map(|card| {
            card.stop();
            let (local, remote) = card.local_and_remote();
            Transactions { local, remote }
        });
        Ok(ran)
    }

    /// What is changed in the kernel for the run.
    fn kernel(&self, set_up: &SetUp) -> io::Result<Option<Tunables>> {
        let SetUp::Tunable(path, value) = set_up else { return Ok(None) };
        let mut tunables = Tunables::begin(self.state)?;
        tunables.set(path, value)?;
        Ok(Some(tunables))
    }

    fn start(&self, way: &Way) -> io::Result<Started<'_>> {
        let _small = matches!(way.set_up, SetUp::SmallPages).then(WithoutHugePages::begin).transpose()?;
        let mut command = Command::new(&way.words[0]);
        let output = if self.reading.is_some() { Stdio::piped() } else { Stdio::null() };
        command.args(&way.words[1..]).stdin(Stdio::null()).stdout(output).stderr(Stdio::piped());
        if let SetUp::Environment(variables) = &way.set_up {
            command.envs(variables.iter().cloned());
        }
        // Some programs look at the name that they are started by.
        command.arg0(&way.called);
        dying_with_us(&mut command);
        let start = Instant::now();
        let mut child = command.spawn()?;
        let stdout = child.stdout.take().map(|pipe| Output::of(pipe.into()));
        let stderr = child.stderr.take().map(|pipe| Output::of(pipe.into()));
        let end = End::of(child).map_err(|(mut child, error)| {
            // Nobody would wait for it.
            let _ = child.kill().and_then(|()| child.wait());
            error
        })?;
        Ok(Started {
            end,
            start,
            outputs: [stdout, stderr].into_iter().flatten().collect(),
            reading: self.reading,
        })
    }
}

fn not_started(error: &io::Error) -> Ran {
    Ran { ended: Ended::NotStarted(error.to_string()), tail: String::new(), transactions: None }
}

/// Binds the calling thread, and what it starts.
pub(super) fn bind(set_up: &SetUp) -> io::Result<()> {
    match set_up {
        SetUp::Interleave(nodes) => policy::set(INTERLEAVE, nodes),
        SetUp::OneNode { node, cpus } => {
            policy::set_affinity(Tid(0), cpus)?;
            policy::set(PREFERRED, &[*node])
        }
        SetUp::Nothing | SetUp::Tunable(..) | SetUp::SmallPages | SetUp::Environment(_) => Ok(()),
    }
}

/// A program that runs.
struct Started<'a> {
    end: End,
    start: Instant,
    /// Standard output where a number is looked for, and standard error.
    outputs: Vec<Output>,
    reading: Option<Reading<'a>>,
}

impl Started<'_> {
    fn finish(
        mut self,
        deadline: Option<Instant>,
        interrupted: &(dyn Fn() -> bool + Sync),
    ) -> io::Result<Ran> {
        let ended = loop {
            let late = deadline.is_some_and(|deadline| Instant::now() >= deadline);
            if late || interrupted() {
                self.stop()?;
                break None;
            }
            let left = deadline.map_or(LOOK, |deadline| deadline.saturating_duration_since(Instant::now()));
            if self.happens(left.min(LOOK))? {
                break Some(self.start.elapsed());
            }
        };
        // What it wrote before its end is in the pipes; what it left behind may hold them open.
        for _ in 0..PIPE {
            if self.outputs.iter().all(|output| output.over) || !self.read(Duration::ZERO)? {
                break;
            }
        }
        let status = self.end.wait()?;
        let number = self.outputs.iter().find_map(|output| output.number);
        let tail = self.outputs.last().map_or(String::new(), Output::tail);
        let ended = match ended {
            None => Ended::CutOff,
            Some(took) => ended_with(status, took, self.reading.is_some(), number),
        };
        Ok(Ran { ended, tail, transactions: None })
    }

    /// Waits until it has ended or `limit` is over, and reads what it prints meanwhile.
    fn happens(&mut self, limit: Duration) -> io::Result<bool> {
        let open: Vec<_> = self.outputs.iter().filter(|output| !output.over).collect();
        let fds: Vec<_> = std::iter::once((self.end.ended(), For::Reading))
            .chain(open.iter().map(|output| (output.from.as_fd(), For::Reading)))
            .collect();
        let places = ready(&fds, limit)?;
        if places.contains(&0) {
            return Ok(true);
        }
        self.read(Duration::ZERO)?;
        Ok(false)
    }

    /// Reads once from what can be read; false if nothing can.
    fn read(&mut self, limit: Duration) -> io::Result<bool> {
        let open: Vec<_> = self.outputs.iter_mut().filter(|output| !output.over).collect();
        let fds: Vec<_> = open.iter().map(|output| (output.from.as_fd(), For::Reading)).collect();
        let places = ready(&fds, limit)?;
        drop(fds);
        let reading = self.reading;
        for (place, output) in open.into_iter().enumerate() {
            if places.contains(&place) {
                output.read(reading);
            }
        }
        Ok(!places.is_empty())
    }

    /// Asks it to end, and makes it end.
    fn stop(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        // It may have ended by itself.
        let _ = signal_child(self.end.child(), SIGTERM);
        while Instant::now() < deadline {
            if self.happens(LOOK)? {
                return Ok(());
            }
        }
        let _ = signal_child(self.end.child(), SIGKILL);
        Ok(())
    }
}

fn ended_with(status: ExitStatus, took: Duration, reads: bool, number: Option<f64>) -> Ended {
    match (status.code(), status.signal()) {
        (Some(0), _) if !reads => Ended::Took(took.as_secs_f64().max(1e-9)),
        (Some(0), _) => match number.filter(|number| *number > 0.0 && number.is_finite()) {
            Some(number) => Ended::Took(number),
            None => Ended::NoNumber,
        },
        (Some(code), _) => Ended::Exited(code),
        (None, signal) => Ended::Signal(signal.unwrap_or(0)),
    }
}

/// What a program prints on one of its outputs.
struct Output {
    from: File,
    over: bool,
    /// The line that it is in.
    line: Vec<u8>,
    /// The last number that was found.
    number: Option<f64>,
    /// The last bytes.
    end: Vec<u8>,
}

impl Output {
    fn of(pipe: OwnedFd) -> Output {
        Output { from: pipe.into(), over: false, line: Vec::new(), number: None, end: Vec::new() }
    }

    fn tail(&self) -> String {
        String::from_utf8_lossy(&self.end).into_owned()
    }

    /// Reads once.
    fn read(&mut self, reading: Option<Reading<'_>>) {
        let mut bytes = [0; 8192];
        let count = match self.from.read(&mut bytes) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return,
            Err(_) => 0,
        };
        self.over = count == 0;
        self.end.extend(&bytes[..count]);
        self.end.drain(..self.end.len().saturating_sub(TAIL));
        let Some(reading) = reading else { return };
        for &byte in &bytes[..count] {
            match byte {
                b'\n' => self.take_line(reading),
                _ if self.line.len() < LINE => self.line.push(byte),
                _ => {}
            }
        }
        if self.over {
            self.take_line(reading);
        }
    }

    fn take_line(&mut self, reading: Reading<'_>) {
        self.number = reading(&String::from_utf8_lossy(&self.line)).or(self.number);
        self.line.clear();
    }
}
