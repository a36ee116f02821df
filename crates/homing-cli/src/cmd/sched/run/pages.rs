//! Who moves the pages of jobs.
//!
//! The live engine is one session for all jobs, in this process: hint faults, its usual source, serve one session at a
//! time, so that engines inside of the jobs would stand in each other's way.

use crate::cmd::live::{coded, next_step, nothing_moves, Plan};
use crate::exit::{self, Code};
use anyhow::Context;
use homing_linux::hint_faults::Paths;
use homing_linux::policy;
use homing_linux::proc::Pid;
use homing_linux::tunables::Tunables;
use homing_linux::wait::readable;
use homing_live::account::Summary;
use homing_live::config::Config;
use homing_live::host::Host;
use homing_live::session::Session;
use homing_live::source::Places;
use homing_live::targets::Choice;
use homing_session::plan::Plan as Moves;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// Who.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Pages {
    /// Nobody: pages stay where they are
    Off,
    /// The kernel's NUMA balancing
    Kernel,
    /// The live engine, one for all jobs
    Homing,
}

impl Pages {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Pages::Off => "off",
            Pages::Kernel => "kernel",
            Pages::Homing => "homing",
        }
    }
}

/// What moves pages while jobs run.
pub enum Engine<'p> {
    /// Nothing here; the kernel's switch is put back in the end.
    Switch { _tunables: Option<Tunables> },
    /// The live engine.
    Session(Box<Running<'p>>),
}

/// A session with the time of its next step.
pub struct Running<'p> {
    session: Session<'p>,
    interval: Duration,
    next: Instant,
}

/// What a session needs, if there is to be one.
pub fn plan(pages: Pages, host: &Host) -> anyhow::Result<Option<Plan>> {
    let why = nothing_moves(host, "homing sched run JOBS.toml");
    if let Some(why) = why.filter(|_| pages != Pages::Off) {
        errln!("homing: {why}");
    }
    match pages {
        Pages::Homing if host.has_remote_memory() => Plan::of(Config::default(), "host").map(Some),
        _ => Ok(None),
    }
}

/// Begins.
pub fn begin(pages: Pages, plan: &mut Option<Plan>) -> anyhow::Result<Engine<'_>> {
    match (plan, pages) {
        (Some(plan), _) => {
            let interval = plan.config.interval;
            let choice = Choice::Processes { pids: Vec::new(), children: true };
            let session = plan.session(choice, None, "homing sched run".into(), Moves::default())?;
            Ok(Engine::Session(Box::new(Running { session, interval, next: Instant::now() })))
        }
        (None, Pages::Kernel) => Ok(Engine::Switch { _tunables: Some(switch("1")?) }),
        (None, Pages::Off) if is_on() => Ok(Engine::Switch { _tunables: Some(switch("0")?) }),
        (None, _) => Ok(Engine::Switch { _tunables: None }),
    }
}

fn is_on() -> bool {
    std::fs::read_to_string(Paths::default().switch).is_ok_and(|text| text.trim() != "0")
}

/// Sets the kernel's NUMA balancing until it is dropped.
fn switch(value: &str) -> anyhow::Result<Tunables> {
    let path = Paths::default().switch;
    if !path.exists() {
        let message = format!("{}: this kernel has no NUMA balancing; try --pages off", path.display());
        return Err(exit::error(Code::UNSUPPORTED, message));
    }
    let mut tunables = Tunables::begin(&Places::default().state)?;
    tunables.set(&path, value).with_context(|| format!("{} cannot be set to {value}", path.display()))?;
    Ok(tunables)
}

/// The pages of whoever is started while this lives stay where they are: the kernel leaves them alone.
pub struct Stay(Option<i32>);

impl Stay {
    /// For a job whose pages shall stay, under a kernel that would move them.
    pub fn here() -> Stay {
        let before = policy::of_this_thread().ok().filter(|&before| before == policy::DEFAULT);
        Stay(before.filter(|_| policy::set(policy::LOCAL, &[]).is_ok()))
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        if let Some(before) = self.0 {
            // What was there before can be set again.
            let _ = policy::set(before, &[]);
        }
    }
}

impl Engine<'_> {
    /// True if jobs need a helper that marks their pages.
    pub fn scans(&self) -> bool {
        matches!(self, Engine::Session(running) if running.session.source().name == "hint-faults")
    }

    /// Takes a job.
    pub fn add(&mut self, pid: Pid) {
        if let Engine::Session(running) = self {
            running.session.add(pid);
        }
    }

    /// One step, if it is time for it.
    pub fn step(&mut self) -> anyhow::Result<()> {
        let Engine::Session(running) = self else { return Ok(()) };
        if Instant::now() >= running.next {
            running.session.step().map_err(coded)?;
            running.next = next_step(&running.session, running.next + running.interval, running.interval);
        }
        Ok(())
    }

    /// Waits until a job has ended, the engine has something to do, a signal comes, or `limit` is over.
    pub fn wait(&mut self, ends: &[BorrowedFd<'_>], limit: Duration) -> anyhow::Result<()> {
        match self {
            Engine::Session(running) => {
                let until = running.next.min(Instant::now() + limit);
                Ok(running.session.wait(until).map_err(coded)?)
            }
            Engine::Switch { .. } => readable(ends, limit).map(drop).map_err(Into::into),
        }
    }

    /// Ends it; what it did, if it did something.
    pub fn finish(self) -> anyhow::Result<Option<Summary>> {
        match self {
            Engine::Session(running) => Ok(Some(running.session.finish().map_err(coded)?)),
            Engine::Switch { .. } => Ok(None),
        }
    }
}
