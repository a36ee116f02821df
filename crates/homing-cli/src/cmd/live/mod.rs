//! `homing run` and `homing attach`: the live engine for a program that is started, or for processes that run; `homing
//! evacuate` and `homing restore`.

pub mod attach;
pub mod evacuate;
mod hot;
pub mod launch;
pub mod place;
pub mod runtime;
mod settings;
pub mod show;

pub use settings::{duration, Settings};

use crate::exit::{self, Code};
use crate::files::{JournalFile, Over};
use anyhow::Context;
use homing_core::policy::Policy;
use homing_linux::interrupts::Interrupts;
use homing_linux::visible;
use homing_live::account::Summary;
use homing_live::config::Config;
use homing_live::host::Host;
use homing_live::session::{Session, SessionError, Setup};
use homing_live::source::{suited_policy, Places};
use homing_live::targets::Choice;
use homing_pipeline::online;
use homing_session::plan::Plan as Moves;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// What a session is made of besides its processes.
pub struct Plan {
    /// Settings.
    pub config: Config,
    /// The machine.
    pub host: Host,
    costs: homing_core::machine::Costs,
    policy: Box<dyn Policy>,
}

impl Plan {
    /// Checks settings, machine and policy.
    pub fn new(settings: &Settings) -> anyhow::Result<Plan> {
        Plan::of(settings.config()?, &settings.machine)
    }

    /// As [`Plan::new`], with the machine's name.
    pub fn of(mut config: Config, machine: &str) -> anyhow::Result<Plan> {
        let sys = Path::new("/sys");
        let host = Host::read(sys).map_err(|e| exit::error(Code::UNSUPPORTED, e.to_string()))?;
        config.fits(&host).map_err(|error| exit::error(Code::USAGE, error.to_string()))?;
        // Sampling costs the program time, and where no memory is remote it brings nothing.
        if host.nodes() > 1 && !host.has_remote_memory() && config.source == "auto" {
            config.source = "none".to_owned();
        }
        let costs = online::costs(machine, host.nodes())?;
        if config.policy == "auto" {
            config.policy = suited_policy(&config.source, &Places::default()).to_owned();
        }
        let policy = online::policy(&config.policy, &config.set, &costs)?;
        Ok(Plan { config, host, costs, policy })
    }

    /// Says where nothing can move. `command`: what would do something on a machine of several nodes.
    fn tell_where_nothing_moves(&self, settings: &Settings, command: &str) {
        if let Some(why) = nothing_moves(&self.host, command).filter(|_| !settings.quiet) {
            errln!("homing: {why}");
        }
    }

    /// Begins a session.
    pub fn begin(
        &mut self,
        choice: Choice,
        settings: &Settings,
        command: String,
        moves: Moves,
    ) -> anyhow::Result<Session<'_>> {
        let journal = match (&settings.tee, &settings.journal) {
            (Some(path), _) => Some((create(path)?, true)),
            (None, Some(path)) => Some((create(path)?, false)),
            (None, None) => None,
        };
        self.session(choice, journal, command, moves)
    }

    /// Begins a session with a journal, which may be teed.
    pub fn session(
        &mut self,
        choice: Choice,
        journal: Option<(Sink, bool)>,
        command: String,
        moves: Moves,
    ) -> anyhow::Result<Session<'_>> {
        let setup = Setup {
            config: self.config.clone(),
            host: self.host.clone(),
            costs: self.costs.clone(),
            policy: &mut *self.policy,
            choice,
            places: Places::default(),
            journal,
            command,
            plan: moves,
        };
        Session::begin(setup).map_err(coded)
    }
}

/// What to say where it does not matter which node a page is on, if that is so.
pub fn nothing_moves(host: &Host, command: &str) -> Option<String> {
    match host.nodes() {
        1 => Some(one_node(command)),
        nodes if !host.has_remote_memory() => Some(format!(
            "the firmware gives all {nodes} memory nodes of this machine the same distance: no memory is remote, and \
             nothing can move here"
        )),
        _ => None,
    }
}

/// What to say where there is one node. `command`: what would do something on a machine of several.
pub fn one_node(command: &str) -> String {
    format!(
        "this machine has one memory node: nothing can move here; try `homing lab run --topology 2x2 -- {}`",
        visible::name(command)
    )
}

/// Where a journal goes.
pub type Sink = Box<dyn Write>;

fn create(path: &Path) -> anyhow::Result<Sink> {
    Ok(Box::new(JournalFile::create(path, Over::Journals)?))
}

/// A session's error with its exit code.
pub fn coded(error: SessionError) -> anyhow::Error {
    let code = match &error {
        SessionError::NoSource(_) => Code::USAGE,
        SessionError::Missing { .. } => Code::UNSUPPORTED,
        SessionError::Proc(homing_linux::proc::ProcError::Denied { .. }) => Code::PERMISSION,
        _ => Code::FAILURE,
    };
    exit::error(code, error.to_string())
}

/// Steps at every interval until `over` says so. `over` is asked when a process has ended, when a signal came, and a
/// few times a second.
pub fn drive(
    session: &mut Session<'_>,
    interval: Duration,
    mut over: impl FnMut(&Session<'_>) -> bool,
) -> anyhow::Result<()> {
    let mut next = Instant::now();
    loop {
        session.step().map_err(coded)?;
        next = next_step(session, next + interval, interval);
        loop {
            if over(session) {
                return session.step().map_err(coded);
            }
            if Instant::now() >= next {
                break;
            }
            session.wait(next).map_err(coded)?;
        }
    }
}

/// When the next step begins, if nothing is in the way at `planned`: at once if there was more to process than the last
/// had time for; an engine that is too slow for its interval takes half of one off.
pub fn next_step(session: &Session<'_>, planned: Instant, interval: Duration) -> Instant {
    let now = Instant::now();
    if session.behind() {
        now
    } else {
        planned.max(now + interval / 2)
    }
}

/// Shows the summary, as asked.
pub fn report(summary: &Summary, settings: &Settings) -> anyhow::Result<()> {
    if let Some(path) = &settings.summary {
        let text = serde_json::to_string_pretty(summary)?;
        crate::files::write(path, Over::Json, text)?;
    }
    if settings.json {
        outln!("{}", serde_json::to_string_pretty(summary)?);
    } else if !settings.quiet {
        errln!("{}", show::text(summary).trim_end());
    }
    Ok(())
}

/// Catches signals that ask the program to end.
pub fn interrupts() -> anyhow::Result<Interrupts> {
    Interrupts::catch().context("cannot catch signals")
}
