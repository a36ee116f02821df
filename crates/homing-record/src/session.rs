//! One recording from start to end.

use crate::error::{RecordError, While};
use crate::family::{Family, Plan};
use crate::stream::{Left, Settings, Stream, REATTACH};
use crate::watch::Watch;
use homing_linux::channel::{Channel, Received};
use homing_linux::follow::Door;
use homing_linux::interrupts::{signal_child, Interrupts, SIGKILL, SIGTERM};
use homing_linux::program::status_of;
use homing_trace::Ending;
use std::fs::File;
use std::io;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(100);
const FAMILY_POLL: Duration = Duration::from_millis(10);
const PATIENCE: Duration = Duration::from_secs(2);
const STRAGGLERS: Duration = Duration::from_secs(1);
/// As after SIGINT.
const INTERRUPTED: u8 = 128 + 2;

/// What a program may use before it is ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allowed {
    /// This long; of a process that was attached to, from its first segment on.
    pub time: Option<Duration>,
    /// The references that are kept, and nothing after them.
    pub references: bool,
}

/// What of it a program has used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spent {
    /// Its time.
    Time,
    /// The references that are kept.
    References,
}

/// How a recording ended.
#[derive(Debug)]
pub struct Ended {
    /// The program's exit status.
    pub status: u8,
    /// It was ended because this was spent.
    pub spent: Option<Spent>,
    /// What the program left; `None`: the user asked twice to end, and the file is as it was then.
    pub left: Option<Left>,
}

/// A recording in progress.
pub struct Session {
    stream: Stream,
    child: Child,
    family: Option<Family>,
    watch: Arc<dyn Watch>,
}

impl Session {
    /// Starts the command, whose references go to `file`. It ends with the thread that calls this.
    pub fn start(
        mut command: Command,
        mut channel: Channel,
        file: File,
        settings: Settings,
        watch: Arc<dyn Watch>,
    ) -> Result<Session, RecordError> {
        let name = command.get_program().to_string_lossy().into_owned();
        // Nobody would take what it writes.
        homing_linux::child::dying_with_us(&mut command);
        let child = channel.spawn(&mut command).doing(|| format!("cannot start {name}"))?;
        let stream = Stream::new(channel, file, settings, child.id());
        Ok(Session { stream, child, family: None, watch })
    }

    /// Records the program's child processes, too, which ask at `door`.
    pub fn follow(&mut self, door: Door, plan: Plan) -> Family {
        let address = self.stream.channel().address();
        let family = Family::welcome(door, self.child.id(), address, plan, Arc::clone(&self.watch));
        self.family = Some(family.clone());
        family
    }

    /// Records until the program has ended, which is ended when it has used what is `allowed`.
    pub fn run(mut self, interrupts: &Interrupts, allowed: Allowed) -> Result<Ended, RecordError> {
        let mut status = None;
        let mut end = End::new(allowed);
        loop {
            match self.stream.receive(POLL)? {
                Received::Segment(filled) => self.stream.take(filled)?,
                // Children of the program may hold the channel open after its end.
                Received::Idle if status.is_some() => break,
                Received::Idle => status = self.status()?,
                // The recorder has ended, or the program is executing another one, in which it will attach again.
                Received::Closed => {
                    status = self.status()?;
                    if status.is_some() {
                        break;
                    }
                    std::thread::sleep(REATTACH);
                }
            }
            if let Some(message) = self.stream.message() {
                self.watch.say(&message);
            }
            if let Some(signal) = interrupts.to_forward() {
                // If the child has just ended there is nobody to tell.
                let _ = signal_child(&self.child, signal);
            }
            if interrupts.count() >= 2 {
                return self.abandon();
            }
            if status.is_none() {
                let complete = self.stream.ingest().is_some_and(|ingest| ingest.is_complete());
                end.if_spent(complete, &mut self.child, self.family.as_ref());
            }
            if let Some(ingest) = self.stream.ingest() {
                self.watch.progress(ingest.references(), ingest.writer().bytes());
            }
        }
        let none = || io::Error::other("the program ended without a status");
        let status = status_of(status.ok_or_else(none).doing(waiting)?);
        self.watch.ended();
        let asked = end.spent.is_some() || interrupts.count() > 0;
        self.stream.ending = Some(Ending { status, asked });
        let left = self.stream.finish(false)?;
        if let Some(family) = &self.family {
            if !wait_for(family, left.children, interrupts, &mut end, &*self.watch) {
                return Ok(Ended { status: INTERRUPTED, spent: None, left: None });
            }
        }
        Ok(Ended { status, spent: end.spent, left: Some(left) })
    }

    fn status(&mut self) -> Result<Option<ExitStatus>, RecordError> {
        self.child.try_wait().doing(waiting)
    }

    /// Ends at once, leaving what was written so far.
    fn abandon(mut self) -> Result<Ended, RecordError> {
        // It may have ended by itself.
        let _ = self.child.kill();
        if let Some(family) = &self.family {
            family.signal(SIGKILL);
        }
        self.child.wait().doing(waiting)?;
        self.watch.ended();
        Ok(Ended { status: INTERRUPTED, spent: None, left: None })
    }
}

/// When a program is ended.
struct End {
    /// When its time is over, and once it was asked to end, when it must have followed.
    at: Option<Instant>,
    /// It ends with the references that are kept.
    references: bool,
    /// Why it was asked to end.
    spent: Option<Spent>,
}

impl End {
    fn new(allowed: Allowed) -> End {
        End {
            at: allowed.time.map(|time| Instant::now() + time),
            references: allowed.references,
            spent: None,
        }
    }

    /// Asks the program, with its family, to end when it has used what it may; one that does not is killed. If it has
    /// just ended there is nobody to tell. `complete`: nothing more of the program will be kept.
    fn if_spent(&mut self, complete: bool, child: &mut Child, family: Option<&Family>) {
        let Some(signal) = self.due(complete) else { return };
        let _ = signal_child(child, signal);
        if let Some(family) = family {
            family.signal(signal);
        }
    }

    /// The signal that is due: SIGTERM when what is allowed is spent, then SIGKILL for who did not follow.
    fn due(&mut self, complete: bool) -> Option<i32> {
        let over = self.at.is_some_and(|at| Instant::now() >= at);
        if self.spent.is_some() {
            self.at = self.at.filter(|_| !over);
            return over.then_some(SIGKILL);
        }
        let spent = if over { Spent::Time } else { Spent::References };
        self.spent = (over || (self.references && complete)).then_some(spent);
        self.spent.map(|_| {
            self.at = Some(Instant::now() + PATIENCE);
            SIGTERM
        })
    }
}

/// Waits for the program's children. False: the user asked twice to end.
fn wait_for(family: &Family, forks: u32, interrupts: &Interrupts, end: &mut End, watch: &dyn Watch) -> bool {
    let begin = Instant::now();
    let mut reported = false;
    // A child that has just been forked may not have asked for its wire yet.
    while family.running() > 0
        || (family.unrecorded(forks) > family.turned_away() && begin.elapsed() < STRAGGLERS)
    {
        std::thread::sleep(FAMILY_POLL);
        if !reported && family.running() > 0 && begin.elapsed() > PATIENCE {
            let running = family.running();
            watch.say(&format!(
                "homing: the program has ended; {running} of its children are still being recorded"
            ));
            reported = true;
        }
        for signal in interrupts.to_forward().into_iter().chain(end.due(false)) {
            family.signal(signal);
        }
        if interrupts.count() >= 2 {
            family.signal(SIGKILL);
            return false;
        }
    }
    true
}

fn waiting() -> String {
    "cannot wait for the program".to_owned()
}
