//! The manager: a thread with a session of the live engine for its own process.

use crate::library;
use crate::status::{Status, Verdict};
use homing_core::ids::PageSize;
use homing_core::machine::Costs;
use homing_core::policy::settings::Settings as Parameters;
use homing_core::policy::table::{self, Begin, Entry};
use homing_core::policy::Policy;
use homing_core::process::ProcessId;
use homing_core::session::input::Areas;
use homing_core::session::plan::Plan;
use homing_linux::policy as kernel_policy;
use homing_linux::proc::{Pid, Tid};
use homing_linux::seccomp;
use homing_linux::signals::Blocked;
use homing_live::config::Config;
use homing_live::host::Host;
use homing_live::session::{Session, SessionError, Setup};
use homing_live::source::{self, Places, SOURCES};
use homing_live::targets::Choice;
use homing_pipeline::model::load_machine;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

/// Sources that `auto` does not take here: they show a page once at best, so that nothing would ever come of them.
const BLIND: [&str; 2] = ["page-faults", "none"];

/// A manager at work. Dropping it ends it and waits for that.
#[derive(Debug)]
pub struct Manager {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// What a start came to: the source and whether it scans, or why nothing can be done.
type Begun = Result<&'static source::Entry, Verdict>;

impl Manager {
    /// Starts it, and says whether its source scans.
    ///
    /// # Errors
    /// Why nothing can be done here.
    pub fn start(config: Config) -> Result<(Manager, bool), Verdict> {
        let host = Host::read(Path::new("/sys"))
            .map_err(|error| Verdict::new(Status::NoSource, error.to_string()))?;
        if host.nodes() == 1 {
            return Err(Status::OneNode.into());
        }
        let refused = confined()?;
        let failed =
            |error: std::io::Error| Verdict::new(Status::Failed, format!("cannot start a thread: {error}"));
        let over = Arc::new(AtomicBool::new(false));
        let (sender, begun) = mpsc::channel();
        let (theirs, builder) = (Arc::clone(&over), std::thread::Builder::new().name("homing".into()));
        let blocked = Blocked::all().map_err(failed)?;
        let thread =
            builder.spawn(move || guard(|| work(&config, host, &theirs, &sender))).map_err(failed)?;
        drop(blocked);
        // Dropped on the way out, it waits for the thread.
        let manager = Manager { over, thread: Some(thread) };
        let entry = begun.recv().map_err(|_| Verdict::from(Status::Ended))?;
        Ok((manager, entry.map_err(|verdict| with_refused(verdict, &refused))?.scans))
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
        "auto" => !BLIND.contains(&entry.name),
        name => entry.name == name,
    };
    SOURCES.iter().filter(wanted).collect()
}

/// All of it, from start to end.
fn work(config: &Config, host: Host, over: &AtomicBool, begun: &Sender<Begun>) -> Result<(), Verdict> {
    // It may have come from a thread that is bound to a CPU. At worst it stays there.
    let _ = kernel_policy::set_affinity(Tid(0), &host.cpus());
    let mut missing = Vec::new();
    for entry in sources(&config.source) {
        if let Some(why) = (entry.missing)(&Places::default()) {
            missing.push(format!("{}: {why}", entry.name));
            continue;
        }
        let rig = costs(&host).and_then(|costs| Ok((policy(config, entry, &costs)?, costs)));
        let (mut policy, costs) = match rig {
            Ok(rig) => rig,
            Err(verdict) => return tell(begun, Err(verdict)),
        };
        match session(config, entry, &host, costs, &mut *policy) {
            Ok(session) => {
                library::with(|shared| (shared.works, shared.source) = (true, entry.name));
                tell(begun, Ok(entry))?;
                return drive(session, config, over);
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

/// Says what the start came to. Whoever started waits for it.
fn tell(begun: &Sender<Begun>, what: Begun) -> Result<(), Verdict> {
    let told = what.clone().map(drop);
    // It waits, unless it panicked.
    let _ = begun.send(what);
    told
}

fn costs(host: &Host) -> Result<Costs, Verdict> {
    let failed = |why: String| Verdict::new(Status::Failed, why);
    let machine = load_machine("host").map_err(|error| failed(error.to_string()))?;
    let costs = machine.costs(PageSize::KIB4).map_err(|error| failed(error.to_string()))?;
    match usize::from(costs.memories()) == host.nodes() {
        true => Ok(costs),
        false => Err(failed("the machine's nodes changed meanwhile".into())),
    }
}

/// The policy that is asked for, or the one that suits the source.
fn policy(config: &Config, source: &source::Entry, costs: &Costs) -> Result<Box<dyn Policy>, Verdict> {
    let bad = |why: String| Verdict::new(Status::BadArgument, why);
    let name = if config.policy == "auto" { source.policy } else { &config.policy };
    let entry: &Entry =
        table::find(name).ok_or_else(|| bad(format!("no policy `{name}` (see `homing policies`)")))?;
    if entry.offline || matches!(entry.begin, Begin::File) {
        return Err(bad(format!("policy {name} needs to know the future, or a file: it cannot run live")));
    }
    let mut parameters = Parameters::default();
    config.set.iter().try_for_each(|set| parameters.set(set)).map_err(|error| bad(error.to_string()))?;
    Ok(entry.make(costs, false, &parameters))
}

fn session<'p>(
    config: &Config,
    source: &source::Entry,
    host: &Host,
    costs: Costs,
    policy: &'p mut dyn Policy,
) -> Result<Session<'p>, SessionError> {
    let named = if config.policy == "auto" { source.policy } else { &config.policy };
    Session::begin(Setup {
        config: Config { source: source.name.into(), policy: named.into(), ..config.clone() },
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
fn drive(mut session: Session<'_>, config: &Config, over: &AtomicBool) -> Result<(), Verdict> {
    let ended = |error: SessionError| Verdict::new(Status::Ended, error.to_string());
    let mut driven = Ok(());
    while !over.load(Ordering::Relaxed) && driven.is_ok() {
        let begin = Instant::now();
        driven = step(&mut session);
        let next = begin + config.interval;
        while driven.is_ok() && !over.load(Ordering::Relaxed) && Instant::now() < next && !session.behind() {
            driven = session.wait(next);
        }
    }
    let pages = session.pages();
    let summary = session.finish();
    if let Ok(summary) = &summary {
        library::with(|shared| shared.statistics.take(&summary.counts, pages));
    }
    driven.and(summary.map(drop)).map_err(ended)
}

/// One interval's work, with what the program has said since the last.
fn step(session: &mut Session<'_>) -> Result<(), SessionError> {
    let (areas, marks) = library::with(|shared| {
        let changed = std::mem::take(&mut shared.areas_changed);
        (changed.then(|| shared.areas.ranges()), std::mem::take(&mut shared.marks))
    });
    if let Some(areas) = areas {
        session.areas(Areas { process: ProcessId(me().0), areas })?;
    }
    session.step()?;
    for mark in marks {
        session.mark(mark)?;
    }
    let (counts, pages) = (session.counts(), session.pages());
    library::with(|shared| shared.statistics.take(&counts, pages));
    Ok(())
}
