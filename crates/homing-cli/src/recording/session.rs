//! One recording from start to end.

use super::family::{Family, Plan};
use super::program::code_of;
use super::stream::{Left, Settings, Stream};
use crate::exit::Code;
use anyhow::Context;
use homing_core::trace::Ingest;
use homing_linux::channel::{Channel, Filled, Received};
use homing_linux::follow::Door;
use homing_linux::interrupts::{signal_child, Interrupts, SIGKILL};
use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use std::fs::File;
use std::io::Write;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(100);
/// A process that executes another program attaches again soon.
pub const REATTACH: Duration = Duration::from_millis(2);
const FAMILY_POLL: Duration = Duration::from_millis(10);
const PATIENCE: Duration = Duration::from_secs(2);
const STRAGGLERS: Duration = Duration::from_secs(1);
/// As after SIGINT.
const INTERRUPTED: Code = Code(128 + 2);

/// How a recording ended.
#[derive(Debug)]
pub struct Ended {
    /// The program's exit code.
    pub code: Code,
    /// What the program left; `None`: the user asked twice to end, and the file is as it was then.
    pub left: Option<Left>,
}

/// A recording in progress.
pub struct Session {
    stream: Stream,
    child: Child,
    family: Option<Family>,
    progress: Progress,
}

impl Session {
    /// Starts the command, whose references go to `file`. It ends with the thread that calls this.
    pub fn start(
        mut command: Command,
        mut channel: Channel,
        file: File,
        settings: Settings,
    ) -> anyhow::Result<Session> {
        let name = command.get_program().to_string_lossy().into_owned();
        // Nobody would take what it writes.
        homing_linux::child::dying_with_us(&mut command);
        let child = channel.spawn(&mut command).with_context(|| format!("cannot start {name}"))?;
        let stream = Stream::new(channel, file, settings);
        Ok(Session { stream, child, family: None, progress: Progress::new() })
    }

    /// Records the program's child processes, too, which ask at `door`.
    pub fn follow(&mut self, door: Door, plan: Plan) -> Family {
        let address = self.stream.channel().address();
        let family = Family::welcome(door, self.child.id(), address, plan);
        self.family = Some(family.clone());
        family
    }

    /// Records until the program has ended.
    pub fn run(mut self, interrupts: &Interrupts) -> anyhow::Result<Ended> {
        let mut status = None;
        loop {
            match self.stream.channel().receive(POLL)? {
                Received::Segment(filled) => self.take(filled)?,
                // Children of the program may hold the channel open after its end.
                Received::Idle if status.is_some() => break,
                Received::Idle => status = self.child.try_wait()?,
                // The recorder has ended, or the program is executing another one, in which it will attach again.
                Received::Closed => {
                    status = self.child.try_wait()?;
                    if status.is_some() {
                        break;
                    }
                    std::thread::sleep(REATTACH);
                }
            }
            if let Some(signal) = interrupts.to_forward() {
                // If the child has just ended there is nobody to tell.
                let _ = signal_child(&self.child, signal);
            }
            if interrupts.count() >= 2 {
                return self.abandon();
            }
            self.progress.show(self.stream.ingest());
        }
        let code = code_of(status.context("the program ended without a status")?);
        self.progress.bar.finish_and_clear();
        let left = self.stream.finish()?;
        if let Some(family) = &self.family {
            if !wait_for(family, left.children, interrupts) {
                return Ok(Ended { code: INTERRUPTED, left: None });
            }
        }
        Ok(Ended { code, left: Some(left) })
    }

    fn take(&mut self, filled: Filled) -> anyhow::Result<()> {
        if let Some(message) = self.stream.take(filled)? {
            self.progress.bar.suspend(|| errln!("{message}"));
        }
        Ok(())
    }

    /// Ends at once, leaving what was written so far.
    fn abandon(mut self) -> anyhow::Result<Ended> {
        // It may have ended by itself.
        let _ = self.child.kill();
        if let Some(family) = &self.family {
            family.signal(SIGKILL);
        }
        self.child.wait()?;
        self.progress.bar.finish_and_clear();
        Ok(Ended { code: INTERRUPTED, left: None })
    }
}

/// Waits for the program's children. False: the user asked twice to end.
fn wait_for(family: &Family, forks: u32, interrupts: &Interrupts) -> bool {
    let begin = Instant::now();
    let mut told = false;
    // A child that has just been forked may not have asked for its wire yet.
    while family.running() > 0
        || (family.unrecorded(forks) > family.turned_away() && begin.elapsed() < STRAGGLERS)
    {
        std::thread::sleep(FAMILY_POLL);
        if !told && family.running() > 0 && begin.elapsed() > PATIENCE {
            errln!(
                "homing: the program has ended; {} of its children are still being recorded",
                family.running()
            );
            told = true;
        }
        if let Some(signal) = interrupts.to_forward() {
            family.signal(signal);
        }
        if interrupts.count() >= 2 {
            family.signal(SIGKILL);
            return false;
        }
    }
    true
}

/// One line on stderr, once a second, if that is a terminal.
struct Progress {
    bar: ProgressBar,
    shown: Instant,
    references: u64,
}

impl Progress {
    fn new() -> Progress {
        let bar = ProgressBar::new_spinner();
        bar.set_style(
            ProgressStyle::with_template("recording: {msg}").unwrap_or(ProgressStyle::default_spinner()),
        );
        Progress { bar, shown: Instant::now(), references: 0 }
    }

    fn show<W: Write>(&mut self, ingest: Option<&mut Ingest<W>>) {
        let elapsed = self.shown.elapsed();
        let Some(ingest) = ingest.filter(|_| elapsed >= Duration::from_secs(1)) else { return };
        let references = ingest.references();
        let rate = (references - self.references) as f64 / elapsed.as_secs_f64();
        self.bar.set_message(format!(
            "{:.1} M references, {:.1} M/s, {}",
            references as f64 / 1e6,
            rate / 1e6,
            HumanBytes(ingest.writer().bytes())
        ));
        self.bar.tick();
        (self.shown, self.references) = (Instant::now(), references);
    }
}
