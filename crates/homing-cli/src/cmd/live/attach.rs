//! `homing attach`: brings the pages of running processes home.

use super::launch::no_source;
use super::settings::duration;
use super::{drive, interrupts, report, Plan, Settings};
use crate::exit::{self, Code, Result};
use anyhow::Context;
use homing_linux::claim::Claim;
use homing_linux::private;
use homing_linux::proc::{Pid, Proc};
use homing_linux::ptrace;
use homing_live::targets::Choice;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Arguments of `homing attach`.
#[derive(clap::Args, Debug)]
#[command(
    after_long_help = "Ends when the processes have ended, after --for, or at Ctrl-C; the processes run on. \
Needs the right to trace them (same user, or CAP_SYS_PTRACE). Exit code 5: too little was seen to decide anything, \
or some processes could not be traced."
)]
pub struct Args {
    #[command(flatten)]
    settings: Settings,
    #[command(flatten)]
    whom: Whom,
    /// End after this time
    #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
    limit: Option<Duration>,
}

/// The processes to act on.
#[derive(clap::Args, Debug)]
pub struct Whom {
    /// A process; may be given several times
    #[arg(long, value_name = "N", required_unless_present = "cgroup")]
    pub pid: Vec<i32>,
    /// Also what these processes start
    #[arg(long)]
    pub children: bool,
    /// All processes of a cgroup and of those below it (a directory in /sys/fs/cgroup)
    #[arg(long, value_name = "PATH", conflicts_with = "pid")]
    pub cgroup: Option<PathBuf>,
}

impl Whom {
    /// Which processes these are; refuses those that are not there or that this user may not trace.
    pub fn choice(&self) -> anyhow::Result<Choice> {
        if let Some(path) = &self.cgroup {
            if !path.join("cgroup.procs").is_file() {
                let message = format!(
                    "{} is no cgroup: expected a directory such as /sys/fs/cgroup/system.slice, with a file \
                    cgroup.procs",
                    path.display()
                );
                return Err(exit::error(Code::FAILURE, message));
            }
            return Ok(Choice::Cgroup(path.clone()));
        }
        let pids: Vec<Pid> = self.pid.iter().copied().map(Pid).collect();
        pids.iter().try_for_each(|&pid| may_act(pid))?;
        Ok(Choice::Processes { pids, children: self.children })
    }
}

/// Attaches.
pub fn run(args: Args) -> Result {
    let mut plan = Plan::new(&args.settings)?;
    let interval = plan.config.interval;
    let choice = args.whom.choice()?;
    plan.tell_where_nothing_moves(&args.settings, "homing run ./app");
    let command = match &choice {
        Choice::Cgroup(path) => path.display().to_string(),
        Choice::Processes { pids, .. } => pids.iter().map(Pid::to_string).collect::<Vec<_>>().join(" "),
    };
    let claim = |cgroup: &PathBuf| Claim::of(cgroup, &private::standard());
    let _claim = args.whom.cgroup.as_ref().map(claim).transpose().context("cannot claim the cgroup")?;
    let caught = interrupts()?;
    let (auto, nodes) = (plan.config.source == "auto", plan.host.nodes());
    let mut session = plan.begin(choice, &args.settings, command, Default::default())?;
    if auto && !session.source().sees() {
        session.finish().map_err(super::coded)?;
        let why = if nodes > 1 { no_source() } else { "nothing can move".into() };
        return Err(exit::error(Code::UNSUPPORTED, format!("{why}: the engine does not run")));
    }
    let begin = Instant::now();
    let driven = drive(&mut session, interval, |session| {
        let late = args.limit.is_some_and(|limit| begin.elapsed() >= limit);
        caught.count() > 0 || late || session.over()
    });
    let denied = !session.targets().denied().is_empty();
    let summary = session.finish().map_err(super::coded)?;
    driven?;
    report(&summary, &args.settings)?;
    Ok(if denied || summary.missing.is_some() { Code::PARTIAL } else { Code::OK })
}

/// Refuses kernel threads and processes that have ended but were not waited for. What may not be looked at is refused
/// elsewhere.
pub fn has_memory(pid: Pid) -> anyhow::Result<()> {
    let proc = Proc::default();
    if proc.status(pid).is_ok() && proc.maps(pid).is_ok_and(|maps| maps.is_empty()) {
        let message = format!(
            "process {pid} has no memory of its own: it is a kernel thread, or it has ended; expected a program"
        );
        return Err(exit::error(Code::FAILURE, message));
    }
    Ok(())
}

/// Refuses processes that are not there, have no memory, or that this user may not trace.
fn may_act(pid: Pid) -> anyhow::Result<()> {
    let none = || exit::error(Code::FAILURE, format!("process {pid} does not exist"));
    Proc::default().status(pid).map_err(|_| none())?;
    has_memory(pid)?;
    if !ptrace::may_trace(pid).map_err(|_| none())? {
        let message = format!(
            "process {pid}: no permission to trace it: homing moves pages only of processes of the same user (or with \
             CAP_SYS_PTRACE), and not where kernel.yama.ptrace_scope forbids it"
        );
        return Err(exit::error(Code::PERMISSION, message));
    }
    Ok(())
}
