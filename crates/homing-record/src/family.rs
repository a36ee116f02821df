//! `--follow`: every child process is recorded into a trace of its own.
//!
//! A thread answers the processes that ask for a wire; one thread for each of them encodes what it sends. What is
//! bounded is the number of processes recorded at the same time: further ones run unrecorded and are counted.

use crate::error::{RecordError, While};
use crate::output::numbered;
use crate::stream::{Left, Settings, Stream, REATTACH};
use crate::watch::Watch;
use homing_linux::causes::with_causes;
use homing_linux::channel::{Capacity, Channel, Received};
use homing_linux::files::{Over, Part};
use homing_linux::follow::{Door, Process, Since, Visitor};
use homing_trace::Summary;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Processes that are recorded at the same time, the first not counted.
pub const MOST_AT_ONCE: usize = 64;
/// A child's channel is smaller than the first process's: 2 MiB.
const CAPACITY: Capacity = Capacity { segments: 16, segment_words: 1 << 14 };
const POLL: Duration = Duration::from_millis(100);

/// How the children are recorded.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The first process's trace, after which the others are called.
    pub output: PathBuf,
    /// As the first process's, but for the command.
    pub settings: Settings,
}

/// A child whose recording has ended.
#[derive(Debug)]
pub struct Child {
    /// Its process id.
    pub pid: u32,
    /// The last program that it executed, with arguments.
    pub command: Vec<String>,
    /// Its trace and what is in it, or why there is none.
    pub recorded: Result<(PathBuf, Summary), RecordError>,
}

/// All processes that descend from the first one.
#[derive(Clone)]
pub struct Family {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    running: HashMap<u64, Member>,
    ended: Vec<Child>,
    /// Children that the ended ones made.
    forks: u32,
    visits: u64,
    turned_away: u32,
}

/// A child that is being recorded.
#[derive(Clone)]
struct Member {
    pid: u32,
    address: String,
    process: Arc<Process>,
    /// What it runs: its parent's program until it executes one.
    command: Arc<Mutex<Vec<String>>>,
}

impl Family {
    /// Answers the descendants of the process `root`, whose own channel is at `address`.
    pub fn welcome(mut door: Door, root: u32, address: String, plan: Plan, watch: Arc<dyn Watch>) -> Family {
        let family = Family { state: Arc::default() };
        let host = family.clone();
        std::thread::spawn(move || loop {
            let visitor = match door.next_visitor() {
                Ok(Some(visitor)) => visitor,
                Ok(None) => continue,
                Err(error) => {
                    watch.say(&format!("homing: warning: child processes are no longer recorded: {error}"));
                    return;
                }
            };
            let result = match visitor.since {
                Since::Exec if visitor.pid == root => answer(visitor, Some(&address)),
                Since::Exec => host.has_executed(visitor),
                Since::Fork => host.begin(visitor, &plan, &watch),
            };
            if let Err(error) = result {
                watch.say(&format!(
                    "homing: warning: a child process is not recorded: {}",
                    with_causes(&error)
                ));
            }
        });
        family
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_executed(&self, visitor: Visitor) -> Result<(), RecordError> {
        let newest = {
            let state = self.state();
            state
                .running
                .iter()
                .filter(|(_, m)| m.pid == visitor.pid)
                .max_by_key(|(n, _)| **n)
                .map(|(_, m)| m.clone())
        };
        if let Some(member) = &newest {
            lock(&member.command).clone_from(&visitor.command);
        }
        answer(visitor, newest.as_ref().map(|m| m.address.as_str()))
    }

    fn begin(&self, visitor: Visitor, plan: &Plan, watch: &Arc<dyn Watch>) -> Result<(), RecordError> {
        if self.running() >= MOST_AT_ONCE {
            self.state().turned_away += 1;
            return answer(visitor, None);
        }
        let process = Arc::new(visitor.process().doing(|| "cannot watch the process".to_owned())?);
        let number = {
            let mut state = self.state();
            state.visits += 1;
            state.visits
        };
        let (output, file) = Part::create(&self.name(&plan.output, visitor.pid), Over::Traces)?;
        let channel = Channel::for_visitor(CAPACITY)?;
        let member = Member {
            pid: visitor.pid,
            address: channel.address(),
            process,
            command: Arc::new(Mutex::new(visitor.command.clone())),
        };
        self.state().running.insert(number, member.clone());
        let mut settings = plan.settings.clone();
        settings.header.command.clone_from(&visitor.command);
        settings.header.set_child(true);
        let stream = Stream::new(channel, file, settings, visitor.pid);
        let (family, address) = (self.clone(), member.address.clone());
        let watch = Arc::clone(watch);
        std::thread::spawn(move || {
            let left = follow(&member, stream, &*watch);
            let forks = left.as_ref().map_or(0, |left| left.children);
            let recorded = left.and_then(|left| complete(output, left));
            let command = lock(&member.command).clone();
            let mut state = family.state();
            state.running.remove(&number);
            state.forks += forks;
            state.ended.push(Child { pid: member.pid, command, recorded });
        });
        answer(visitor, Some(&address))
    }

    /// `app.trace` becomes `app.PID.trace`, and `app.PID-2.trace` if that process id has come again, in this
    /// recording or in an earlier one, whose trace stays.
    fn name(&self, output: &Path, pid: u32) -> PathBuf {
        let state = self.state();
        let used = state.ended.iter().filter(|c| c.pid == pid).count()
            + state.running.values().filter(|m| m.pid == pid).count();
        let mut numbers = used as u32 + 1..;
        numbers
            .by_ref()
            .map(|number| named(output, pid, number))
            .find(|name| !name.exists())
            .unwrap_or_default()
    }

    /// How many children are being recorded.
    pub fn running(&self) -> usize {
        self.state().running.len()
    }

    /// Children seen by the recorder in ended processes but not recorded, given those that the first process made.
    pub fn unrecorded(&self, of_root: u32) -> u32 {
        let state = self.state();
        (of_root + state.forks).saturating_sub(state.visits as u32)
    }

    /// Children that came when too many were being recorded.
    pub fn turned_away(&self) -> u32 {
        self.state().turned_away
    }

    /// Sends a signal to every child that is being recorded.
    pub fn signal(&self, signal: i32) {
        for member in self.state().running.values() {
            // One that ended has no use for it.
            let _ = member.process.signal(signal);
        }
    }

    /// The children whose recording has ended, by process id.
    pub fn take_ended(&self) -> Vec<Child> {
        let mut ended = std::mem::take(&mut self.state().ended);
        ended.sort_by_key(|child| child.pid);
        ended
    }
}

/// The trace of the `number`th process with this id.
fn named(output: &Path, pid: u32, number: u32) -> PathBuf {
    let again = if number == 1 { String::new() } else { format!("-{number}") };
    numbered(output, &format!("{pid}{again}"))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes what a child sends until it has ended.
fn follow(member: &Member, mut stream: Stream, watch: &dyn Watch) -> Result<Left, RecordError> {
    loop {
        match stream.receive(POLL)? {
            Received::Segment(filled) => stream.take(filled)?,
            Received::Idle | Received::Closed if has_ended(member)? => break,
            Received::Idle => {}
            // Not attached yet, or between two programs.
            Received::Closed => std::thread::sleep(REATTACH),
        }
        if let Some(message) = stream.message() {
            watch.say(&format!("{message} (process {})", member.pid));
        }
    }
    stream.finish(false)
}

fn complete(output: Part, left: Left) -> Result<(PathBuf, Summary), RecordError> {
    if let Some(error) = left.failed {
        return Err(unfinished(error, &output, Path::new("NEW")));
    }
    let Some(summary) = left.summary else {
        output.discard();
        return Err(RecordError::TooShort);
    };
    let name = output.complete().doing(|| "cannot complete the trace".to_owned())?;
    Ok((name, summary))
}

/// What to do with what was written of a trace that cannot be completed; nothing if that is nothing.
pub fn to_recover(output: &Part, name: &Path) -> String {
    if !output.holds_something() {
        return String::new();
    }
    let (left, name) = (output.path().display(), name.display());
    format!("; `homing trace recover {left} -o {name}` mends what was written")
}

/// An error that leaves something of a trace.
pub fn unfinished(error: RecordError, output: &Part, name: &Path) -> RecordError {
    RecordError::Unfinished { error: Box::new(error), left: to_recover(output, name) }
}

fn answer(visitor: Visitor, address: Option<&str>) -> Result<(), RecordError> {
    visitor.answer(address).doing(|| "cannot answer it".to_owned())
}

fn has_ended(member: &Member) -> Result<bool, RecordError> {
    member.process.has_ended().doing(|| "cannot watch the process".to_owned())
}
