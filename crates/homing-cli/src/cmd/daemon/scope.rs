//! A scope at work: a thread of its own with a session for the processes of its cgroup. A scope whose cgroup is not
//! there waits for it; one that fails tries again later; neither troubles the others.

use super::config::Scope;
use super::rotate::Rotating;
use crate::cmd::live::{next_step, Plan, Sink};
use anyhow::Context;
use homing_linux::claim::Claim;
use homing_linux::private;
use homing_linux::proc::ProcError;
use homing_live::counters::Totals;
use homing_live::session::{Session, SessionError};
use homing_live::targets::Choice;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often a cgroup that is not there, or has no process, is looked at.
const IDLE: Duration = Duration::from_secs(1);

/// The longest pause after a failure.
const LONGEST: Duration = Duration::from_secs(60);

/// What a scope does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Its cgroup is not there.
    #[default]
    Waiting,
    /// Its session runs, with this source.
    Running(&'static str),
    /// It failed, and tries again.
    Failed(String),
}

/// What others may know of a scope.
#[derive(Clone, Debug)]
pub struct Status {
    /// What it does.
    pub state: State,
    /// Sessions begun.
    pub sessions: u64,
    /// Counts of all its sessions.
    pub totals: Totals,
    /// Processes now.
    pub processes: u64,
    /// Threads now.
    pub threads: u64,
    /// Pages that its session knows.
    pub pages: u64,
    /// When it last did something.
    pub alive: Instant,
}

/// A scope's thread. Dropping it lets it end.
pub struct Running {
    /// What it was made from.
    pub scope: Scope,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    name: String,
    status: Mutex<Status>,
    over: Mutex<bool>,
    ending: Condvar,
    /// Set when the thread has ended, however.
    ended: AtomicBool,
}

/// A lock whose holder panicked holds plain values: they are still good.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Running {
    /// Starts the thread.
    pub fn start(name: &str, scope: Scope) -> Running {
        let status = Status {
            state: State::Waiting,
            sessions: 0,
            totals: Totals::default(),
            processes: 0,
            threads: 0,
            pages: 0,
            alive: Instant::now(),
        };
        let shared = Arc::new(Shared {
            name: name.to_owned(),
            status: Mutex::new(status),
            over: Mutex::new(false),
            ending: Condvar::new(),
            ended: AtomicBool::new(false),
        });
        let (theirs, settings) = (Arc::clone(&shared), scope.clone());
        let thread = std::thread::spawn(move || {
            let _ended = Ended(&theirs);
            theirs.work(&settings);
        });
        Running { scope, shared, thread: Some(thread) }
    }

    /// What it does and did.
    pub fn status(&self) -> Status {
        lock(&self.shared.status).clone()
    }

    /// True if the thread has ended by a fault.
    pub fn crashed(&self) -> bool {
        self.shared.ended.load(Ordering::Relaxed) && !*lock(&self.shared.over)
    }

    /// Asks it to end, without waiting.
    pub fn ask_to_end(&self) {
        *lock(&self.shared.over) = true;
        self.shared.ending.notify_all();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.ask_to_end();
        if let Some(thread) = self.thread.take() {
            // A panic has said its word; what it changed was undone while the stack was unwound.
            let _ = thread.join();
        }
    }
}

/// Notes the end of the thread, also by a panic.
struct Ended<'s>(&'s Shared);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn is_over(&self) -> bool {
        *lock(&self.over)
    }

    /// Sleeps until `until`, or until it is over.
    fn sleep(&self, until: Instant) {
        let mut over = lock(&self.over);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if *over || left.is_zero() {
                return;
            }
            over = self.ending.wait_timeout(over, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn set(&self, state: State) {
        let mut status = lock(&self.status);
        (status.processes, status.threads, status.pages) = (0, 0, 0);
        status.totals = status.totals.ended();
        status.sessions += u64::from(matches!(state, State::Running(_)));
        status.alive = Instant::now();
        if status.state != state {
            match &state {
                State::Waiting => {
                    errln!("homing daemon: scope {}: its cgroup is not there: waits for it", self.name)
                }
                State::Running(source) => {
                    errln!("homing daemon: scope {}: begins, with source {source}", self.name)
                }
                State::Failed(why) => errln!("homing daemon: scope {}: {why}; tries again", self.name),
            }
            status.state = state;
        }
    }

    fn work(&self, scope: &Scope) {
        let mut pause = IDLE;
        while !self.is_over() {
            if !is_there(scope) {
                self.set(State::Waiting);
                self.sleep(Instant::now() + IDLE);
                continue;
            }
            match self.session(scope) {
                Ok(()) => pause = IDLE,
                Err(error) => {
                    self.set(State::Failed(format!("{error:#}")));
                    self.sleep(Instant::now() + pause);
                    pause = (pause * 2).min(LONGEST);
                }
            }
        }
    }

    /// One session, from the cgroup's appearance to its end or ours.
    fn session(&self, scope: &Scope) -> anyhow::Result<()> {
        let _claim = Claim::of(&scope.cgroup, &private::standard()).context("cannot claim its cgroup")?;
        let mut plan = Plan::of(scope.config.clone(), &scope.machine)?;
        let journal = match &scope.journal {
            None => None,
            Some((path, size)) => Some((Box::new(Rotating::open(path, *size)?) as Sink, false)),
        };
        let choice = Choice::Cgroup(scope.cgroup.clone());
        let command = scope.cgroup.display().to_string();
        let mut session = plan.session(choice, journal, command, Default::default())?;
        self.set(State::Running(session.source().name));
        let before = lock(&self.status).totals.clone();
        let driven = self.drive(&mut session, scope, &before);
        let summary = session.finish();
        if let Ok(summary) = &summary {
            lock(&self.status).totals = before.plus(&summary.counts);
        }
        match driven {
            // The cgroup was removed before the first look.
            Err(SessionError::Proc(ProcError::Gone { .. })) => {}
            driven => driven?,
        }
        summary?;
        Ok(())
    }

    fn drive(&self, session: &mut Session<'_>, scope: &Scope, before: &Totals) -> Result<(), SessionError> {
        while !self.is_over() {
            let begin = Instant::now();
            session.step()?;
            let processes = session.targets().processes();
            {
                let mut status = lock(&self.status);
                status.processes = processes.len() as u64;
                status.threads = processes.values().map(|process| process.tasks.len() as u64).sum();
                status.pages = session.pages() as u64;
                status.totals = before.plus(&session.counts());
                status.alive = Instant::now();
            }
            let interval = scope.config.interval;
            if processes.is_empty() {
                if !is_there(scope) {
                    return Ok(());
                }
                self.sleep(begin + interval.max(IDLE));
                continue;
            }
            let next = next_step(session, begin + interval, interval);
            while !self.is_over() && Instant::now() < next {
                session.wait(next)?;
            }
        }
        Ok(())
    }
}

/// Whether the cgroup of a scope is there.
fn is_there(scope: &Scope) -> bool {
    scope.cgroup.join("cgroup.procs").exists()
}
