//! The one library of a process: what the program says and what the manager counts, and who may call what when.

use crate::areas::Areas;
use crate::manager::{self, Manager};
use crate::settings;
use crate::statistics::{Hot, Statistics};
use crate::status::{Status, Verdict};
use homing_linux::wait::Waker;
use homing_live::source;
use homing_session::input::Mark;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Marks that wait for the manager at most: it takes all of them in each interval.
const MARKS: usize = 4096;
/// Names of phases that are told apart at most.
const PHASES: usize = 4096;

/// What the program and the manager share.
#[derive(Debug)]
pub struct Shared {
    /// What the last start, or the manager, came to.
    pub status: Status,
    /// What the last start, or the manager, had come to when the process ended, and why.
    pub ended: Option<(Status, String)>,
    /// Why the last call that did not succeed, or the manager, came to what it did.
    pub reason: String,
    /// The manager works: areas and marks reach it.
    pub works: bool,
    /// The source of samples while it works.
    pub source: &'static str,
    pub areas: Areas,
    /// The manager has not taken the areas as they are.
    pub areas_changed: bool,
    pub marks: Vec<Mark>,
    phases: HashMap<String, u32>,
    /// Wakes the manager at each mark, where its policy acts before phases.
    pub hurry: Option<Waker>,
    pub statistics: Statistics,
    pub hot: Hot,
}

static SHARED: Mutex<Option<Shared>> = Mutex::new(None);
/// Held by starts and stops, from begin to end.
static MANAGER: Mutex<Option<Manager>> = Mutex::new(None);
/// This is a child of the process that started the library. Then the locks may be held for ever by nobody.
static FORKED: AtomicBool = AtomicBool::new(false);
/// The process that started it.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// The threads of the program are to leave the kernel's balancing.
static LEAVES_BALANCING: AtomicBool = AtomicBool::new(false);

/// A lock whose holder panicked holds plain values: they are still good.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Works on what is shared. The manager may call it: the program's children have no manager.
pub fn with<T>(work: impl FnOnce(&mut Shared) -> T) -> T {
    let mut shared = lock(&SHARED);
    work(shared.get_or_insert_with(Shared::new))
}

/// The program has forked, and this is the child.
pub fn forked() {
    FORKED.store(true, Ordering::Relaxed);
}

/// Refuses what a child of the program may not do.
///
/// # Errors
/// Forked.
pub fn in_parent() -> Result<(), Verdict> {
    match FORKED.load(Ordering::Relaxed) {
        true => Err(Status::Forked.into()),
        false => Ok(()),
    }
}

/// Starts the manager.
///
/// # Errors
/// Why nothing is moved, or what is wrong with the settings.
pub fn start(settings: &str) -> Result<(), Verdict> {
    in_parent()?;
    let mut manager = lock(&MANAGER);
    if manager.is_some() && with(|shared| shared.works) {
        return Err(Status::Started.into());
    }
    // One that had to end.
    drop(manager.take());
    with(|shared| {
        shared.status = Status::Ok;
        shared.statistics = Statistics { areas: shared.areas.len() as u64, ..Statistics::default() };
        shared.hot = Hot::default();
        shared.marks.clear();
        shared.areas_changed = true;
    });
    let started = settings::read(settings).and_then(Manager::start);
    let started = started.inspect_err(|verdict| with(|shared| shared.status = verdict.status));
    *manager = Some(started?);
    PROCESS.store(std::process::id(), Ordering::Relaxed);
    leave_balancing();
    Ok(())
}

/// Refuses to start.
///
/// # Errors
/// With that status.
pub fn refuse(status: Status) -> Result<(), Verdict> {
    with(|shared| shared.status = status);
    Err(status.into())
}

/// Ends the manager, and waits for that.
///
/// # Errors
/// If there is none.
pub fn stop() -> Result<(), Verdict> {
    in_parent()?;
    let mut manager = lock(&MANAGER);
    let ended = manager.take().ok_or_else(|| Verdict::from(Status::NotStarted))?;
    drop(ended);
    LEAVES_BALANCING.store(false, Ordering::Relaxed);
    with(|shared| {
        (shared.works, shared.source, shared.hurry) = (false, "", None);
        shared.marks.clear();
        if shared.status == Status::Ok {
            shared.status = Status::NotStarted;
        }
    });
    Ok(())
}

/// The program is about to change what its threads may do, one by one: no manager goes on beside them, which might
/// keep what they give up.
pub fn rights_change() {
    // A child that shares memory (vfork) changes its own rights alone.
    if PROCESS.load(Ordering::Relaxed) != std::process::id() || stop().is_err() {
        return;
    }
    with(|shared| {
        shared.status = Status::Ended;
        shared.reason = "the program changed its own rights".into();
    });
}

/// The calling thread leaves the kernel's own balancing, if that is in the way: once for each thread.
pub fn leave_balancing() {
    thread_local!(static HAS_LEFT: std::cell::Cell<bool> = const { std::cell::Cell::new(false) });
    if LEAVES_BALANCING.load(Ordering::Relaxed) && !HAS_LEFT.replace(true) {
        manager::leave_balancing();
    }
}

/// The manager works, or is about to, with this source; `hurry` wakes it at each mark.
pub fn works(source: &'static source::Entry, hurry: Option<Waker>) {
    with(|shared| (shared.works, shared.source, shared.hurry) = (true, source.name, hurry));
    LEAVES_BALANCING.store(source.scans, Ordering::Relaxed);
}

/// Whether phases reach a policy that acts before them.
pub fn follows_phases() -> bool {
    with(|shared| shared.works && shared.hurry.is_some())
}

/// Takes a mark: a phase, or the end of an iteration.
pub fn mark(name: &str) {
    if in_parent().is_err() {
        return;
    }
    leave_balancing();
    with(|shared| {
        if shared.works {
            shared.mark(name);
        }
    });
}

impl Shared {
    fn new() -> Shared {
        Shared {
            status: Status::NotStarted,
            ended: None,
            reason: String::new(),
            works: false,
            source: "",
            areas: Areas::new(),
            areas_changed: false,
            marks: Vec::new(),
            phases: HashMap::new(),
            hurry: None,
            statistics: Statistics::default(),
            hot: Hot::default(),
        }
    }

    fn mark(&mut self, name: &str) {
        let mark = if name == "iteration" {
            Some(Mark::IterationEnd)
        } else {
            self.phase(name).map(Mark::PhaseBegin)
        };
        let Some(mark) = mark.filter(|_| self.marks.len() < MARKS) else {
            self.statistics.marks_lost += 1;
            return;
        };
        match mark {
            Mark::IterationEnd => self.statistics.iterations += 1,
            Mark::PhaseBegin(_) => self.statistics.phases += 1,
        }
        self.marks.push(mark);
        if let Some(waker) = &self.hurry {
            waker.wake();
        }
    }

    /// The number of a phase; `None` if there are too many.
    fn phase(&mut self, name: &str) -> Option<u32> {
        if let Some(&number) = self.phases.get(name) {
            return Some(number);
        }
        let number = self.phases.len();
        (number < PHASES).then(|| *self.phases.entry(name.to_owned()).or_insert(number as u32))
    }
}

/// Changes the areas.
///
/// # Errors
/// BadArgument with what `change` says.
pub fn change_areas(change: impl FnOnce(&mut Areas) -> Result<(), String>) -> Result<(), Verdict> {
    in_parent()?;
    leave_balancing();
    with(|shared| {
        change(&mut shared.areas).map_err(|why| Verdict::new(Status::BadArgument, why))?;
        shared.areas_changed = true;
        shared.statistics.areas = shared.areas.len() as u64;
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_counted_and_those_that_nobody_takes_are_dropped_and_counted() {
        let mut shared = Shared::new();
        for name in ["a", "b", "a", "iteration"] {
            shared.mark(name);
        }
        let expected = [Mark::PhaseBegin(0), Mark::PhaseBegin(1), Mark::PhaseBegin(0), Mark::IterationEnd];
        assert_eq!(shared.marks, expected);
        (0..MARKS).for_each(|_| shared.mark("iteration"));
        let Statistics { iterations, phases, marks_lost, .. } = shared.statistics;
        assert_eq!((iterations, phases, marks_lost), (MARKS as u64 - 3, 3, 4));
    }
}
