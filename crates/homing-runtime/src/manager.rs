//! The manager: a thread with a session of the live engine for its own process.

use crate::library;
use crate::places::{self, Reported};
use crate::statistics::Hot;
use crate::status::{Status, Verdict};
use homing_core::machine::Costs;
use homing_core::policy::Policy;
use homing_core::process::ProcessId;
use homing_linux::policy as kernel_policy;
use homing_linux::proc::{Pid, Tid};
use homing_linux::seccomp;
use homing_linux::signals::Blocked;
use homing_linux::wait::Waker;
use homing_live::config::Config;
use homing_live::host::Host;
use homing_live::session::{Session, SessionError, Setup};
use homing_live::source::{self, Places, SOURCES};
use homing_live::targets::Choice;
use homing_pipeline::{online, PipelineError};
use homing_session::input::{Areas, Constructs};
use homing_session::plan::Plan;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The source that must be open before a start returns, since the calling thread makes itself known to it, and that no
/// thread of the program can wake.
const KNOWS_CALLERS: &str = "protect";

/// Least time from one step to the next, however often the program wakes the manager.
const LEAST: Duration = Duration::from_millis(1);

/// A manager at work. Dropping it ends it and waits for that.
#[derive(Debug)]
pub struct Manager {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// What a start came to: nothing, or why nothing can be done.
type Begun = Result<(), Verdict>;

impl Manager {
    /// Starts it. Opening a source changes the kernel's code, and may take long: the manager does that by itself.
    ///
    /// # Errors
    /// Why nothing can be done here.
    pub fn start(config: Config) -> Result<Manager, Verdict> {
        let host = Host::read(Path::new("/sys"))
            .map_err(|error| Verdict::new(Status::NoSource, error.to_string()))?;
        if !host.has_remote_memory() {
            return Err(match host.nodes() {
                1 => Status::OneNode.into(),
                nodes => Verdict::new(
                    Status::OneNode,
                    format!(
                        "the firmware gives all {nodes} memory nodes the same distance: nothing can move"
                    ),
                ),
            });
        }
        let refused = confined()?;
        config.fits(&host).map_err(|error| Verdict::new(Status::BadArgument, error.to_string()))?;
        // A program of `homing run` has given it up already; at worst they share it.
        let _alone = config.engine_cpu.map(kernel_policy::give_up_cpu);
        let failed =
            |error: std::io::Error| Verdict::new(Status::Failed, format!("cannot start a thread: {error}"));
        let over = Arc::new(AtomicBool::new(false));
        let (sender, begun) = mpsc::channel();
        // What a filter refuses may let the source fail, which is then said at once.
        let waits = !refused.is_empty();
        let (theirs, builder) = (Arc::clone(&over), std::thread::Builder::new().name("homing".into()));
        let blocked = Blocked::all().map_err(failed)?;
        let thread =
            builder.spawn(move || guard(|| work(&config, host, waits, &theirs, &sender))).map_err(failed)?;
        drop(blocked);
        // Dropped on the way out, it waits for the thread.
        let manager = Manager { over, thread: Some(thread) };
        let entry = begun.recv().map_err(|_| Verdict::from(Status::Ended))?;
        entry.map_err(|verdict| with_refused(verdict, &refused))?;
        Ok(manager)
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic does not leave the thread.
            let _ = thread.join();
        }
    }
}

/// What filters of system calls refuse to this process.
///
/// # Errors
/// If nothing could be done under them, or the process would be killed.
fn confined() -> Result<Vec<&'static str>, Verdict> {
    let none =
        |what: String| Verdict::new(Status::NoSource, format!("the seccomp filter of this process {what}"));
    let refusals =
        seccomp::probe(&seccomp::CALLS).map_err(|error| none(format!("allows no child: {error}")))?;
    match refusals.kills {
        Some(call) => Err(none(format!("kills it for {call}, which the engine needs"))),
        None if refusals.refused.contains(&"move_pages") => Err(none("refuses move_pages".into())),
        None => Ok(refusals.refused),
    }
}

/// Names what filters refuse where there is no source: their errors alone do not.
fn with_refused(verdict: Verdict, refused: &[&str]) -> Verdict {
    match verdict.status == Status::NoSource && !refused.is_empty() {
        true => Verdict {
            reason: format!(
                "{}; the seccomp filter of this process refuses {}",
                verdict.reason,
                refused.join(", ")
            ),
            ..verdict
        },
        false => verdict,
    }
}

/// The calling thread's memory policy stays what it does, and the kernel moves none of its pages.
pub fn leave_balancing() {
    #[cfg(target_arch = "x86_64")]
    homing_linux::protect::introduce();
    if kernel_policy::of_this_thread().is_ok_and(|policy| policy == kernel_policy::DEFAULT) {
        // Where that is not permitted the kernel may move pages besides.
        let _ = kernel_policy::set(kernel_policy::LOCAL, &[]);
    }
}

/// A fault of the engine ends the engine alone.
fn guard(work: impl FnOnce() -> Result<(), Verdict>) {
    let ended = catch_unwind(AssertUnwindSafe(work));
    let fault = || Err(Verdict::new(Status::Ended, "a fault of homing ended the manager"));
    library::with(|shared| {
        (shared.works, shared.source) = (false, "");
        if let Err(verdict) = ended.unwrap_or_else(|_| fault()) {
            (shared.status, shared.reason) = (verdict.status, verdict.reason);
        }
    });
}

/// The sources to be tried, best first.
fn sources(name: &str) -> Vec<&'static source::Entry> {
    let wanted = |entry: &&source::Entry| match name {
        "auto" => entry.brings_home,
        name => entry.name == name,
    };
    SOURCES.iter().filter(wanted).collect()
}

/// All of it, from start to end.
fn work(
    config: &Config,
    host: Host,
    waits: bool,
    over: &AtomicBool,
    begun: &Sender<Begun>,
) -> Result<(), Verdict> {
    homing_live::inside::enter();
    // It may have come from a thread that is bound to a CPU. At worst it stays there.
    let _ = kernel_policy::set_affinity(Tid(0), &host.cpus());
    places::follow(
        (0..=host.cpus().into_iter().max().unwrap_or(0)).map(|cpu| host.node_of_cpu(cpu)).collect(),
    );
    let mut missing = Vec::new();
    for entry in sources(&config.source) {
        if let Some(why) = (entry.missing)(&Places::default()) {
            missing.push(format!("{}: {why}", entry.name));
            continue;
        }
        let rig = online::costs("host", host.nodes())
            .and_then(|costs| Ok((online::policy(named(config, entry), &config.set, &costs)?, costs)));
        let (mut policy, costs) = match rig {
            Ok(rig) => rig,
            Err(error) => return tell(begun, Err(verdict(&error))),
        };
        if !waits && entry.name != KNOWS_CALLERS {
            library::works(entry, None);
            tell(begun, Ok(()))?;
        }
        // Under `protect` this thread has descriptors of its own: their numbers are others to the program's threads.
        let hurries = policy.hurries() && entry.name != KNOWS_CALLERS;
        match session(config, entry, &host, costs, &mut *policy) {
            Ok(session) => {
                // Not before: the source may give this thread descriptors of its own.
                let waker = match Waker::new() {
                    Ok(waker) => waker,
                    Err(error) => return tell(begun, Err(Verdict::new(Status::Failed, error.to_string()))),
                };
                library::works(entry, hurries.then(|| waker.clone()));
                tell(begun, Ok(()))?;
                return drive(session, config, &waker, over);
            }
            Err(error) => missing.push(error.to_string()),
        }
    }
    if missing.is_empty() {
        let names: Vec<&str> = SOURCES.iter().map(|entry| entry.name).collect();
        let reason = format!("no source `{}`: expected auto, or one of {}", config.source, names.join(", "));
        return tell(begun, Err(Verdict::new(Status::BadArgument, reason)));
    }
    tell(begun, Err(Verdict::new(Status::NoSource, missing.join("; "))))
}

/// Says what the start came to. Whoever started waits for the first of these; what comes of the session after that is
/// the library's status.
fn tell(begun: &Sender<Begun>, what: Begun) -> Result<(), Verdict> {
    let told = what.clone();
    // It waits, unless it has been told.
    let _ = begun.send(what);
    told
}

fn verdict(error: &PipelineError) -> Verdict {
    let status = match error {
        PipelineError::Usage(_) => Status::BadArgument,
        _ => Status::Failed,
    };
    Verdict::new(status, error.to_string())
}

/// The policy that is asked for, or the one that suits the source.
fn named<'c>(config: &'c Config, source: &'static source::Entry) -> &'c str {
    if config.policy == "auto" {
        source.policy
    } else {
        &config.policy
    }
}

fn session<'p>(
    config: &Config,
    source: &'static source::Entry,
    host: &Host,
    costs: Costs,
    policy: &'p mut dyn Policy,
) -> Result<Session<'p>, SessionError> {
    let policy_name = named(config, source).to_owned();
    Session::begin(Setup {
        config: Config { source: source.name.into(), policy: policy_name, ..config.clone() },
        host: host.clone(),
        costs,
        policy,
        choice: Choice::Processes { pids: vec![me()], children: false },
        places: Places::default(),
        journal: None,
        command: String::new(),
        plan: Plan::default(),
    })
}

fn me() -> Pid {
    Pid(std::process::id() as i32)
}

/// Steps until it is over.
fn drive(mut session: Session<'_>, config: &Config, waker: &Waker, over: &AtomicBool) -> Result<(), Verdict> {
    let ended = |error: SessionError| Verdict::new(Status::Ended, error.to_string());
    if let Ok(descriptor) = waker.descriptor() {
        session.wake_by(descriptor);
    }
    // The C library gives each thread memory of its own, besides the first.
    let own = Box::new(0_u8);
    session.leave_out(std::ptr::from_ref(&*own) as u64);
    let mut reported = Reported::default();
    let mut driven = Ok(());
    while !over.load(Ordering::Relaxed) && driven.is_ok() {
        let begin = Instant::now();
        driven = step(&mut session, &mut reported);
        let next = begin + config.interval;
        let mut woken = false;
        while driven.is_ok()
            && !over.load(Ordering::Relaxed)
            && Instant::now() < next
            && !session.behind()
            && !woken
        {
            driven = session.wait(next);
            woken = waker.was_called();
        }
        if woken {
            std::thread::sleep(LEAST.saturating_sub(begin.elapsed()));
        }
    }
    let pages = session.pages();
    let summary = session.finish();
    if let Ok(summary) = &summary {
        library::with(|shared| {
            shared.statistics.take(&summary.counts, pages);
            shared.hot = Hot {
                resident_pages: summary.resident_pages,
                threads_moved: summary.counts.threads_moved,
                forwarded: summary.counts.forwarded,
                areas: summary.areas.clone(),
                by_phase: summary.counts.engine_cpu_by_phase.clone(),
                by_iteration: summary.by_iteration.clone(),
            };
        });
    }
    driven.and(summary.map(drop)).map_err(ended)
}

/// One interval's work, with what the program has said since the last.
fn step(session: &mut Session<'_>, reported: &mut Reported) -> Result<(), SessionError> {
    let process = ProcessId(me().0);
    let (areas, marks) = library::with(|shared| {
        let changed = std::mem::take(&mut shared.areas_changed);
        (changed.then(|| shared.areas.hot()), std::mem::take(&mut shared.marks))
    });
    if let Some(areas) = areas {
        session.areas(Areas { process, areas })?;
    }
    session.step()?;
    let (team, threads) = (places::team(), reported.news());
    if team > 0 || !threads.is_empty() {
        session.constructs(Constructs { process, team, threads })?;
    }
    for mark in marks {
        session.mark(mark)?;
    }
    let (counts, pages) = (session.counts(), session.pages());
    library::with(|shared| {
        shared.statistics.take(&counts, pages);
        shared.hot.areas.clear();
        shared.hot.areas.extend_from_slice(session.hot().counts());
    });
    Ok(())
}
