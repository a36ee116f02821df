//! Window after window, part after part of the memory.

use super::TALLY;
use crate::host::Host;
use crate::source::{Losses, Scans, Source};
use crate::targets::{Changes, Targets};
use homing_core::ids::Micros;
use homing_core::process::{ProcessId, ThreadId};
use homing_linux::clock;
use homing_linux::hint_faults::own;
use homing_linux::protect::{
    data_are_limited, own_descriptors, waits, Caught, Planner, Protector, Range, Refusal, Segment, Window,
};
use homing_session::input::{Access, AccessKind, HotArea, Scanned};
use std::io;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// How long a window is open.
const OPEN: Duration = Duration::from_millis(10);
/// Shortest time between two windows. Each further try of a part comes after twice the time, up to LONGEST_REST: a
/// program that makes many calls now may make none a little later.
const REST: Duration = Duration::from_millis(20);
const LONGEST_REST: Duration = Duration::from_millis(320);
/// ... for each fault of the one before: 5,000 faults a second at most (docs/runtime.md, "Without rights").
const REST_PER_FAULT: Duration = Duration::from_micros(200);
/// How often a part is tried before the next one is.
const TRIES: u32 = 8;

/// A round through the memory.
#[derive(Debug)]
struct Round {
    began: Duration,
    /// The part that comes next, how often it was tried, and whether it is the last.
    part: Option<(Vec<Segment>, u32, bool)>,
    windows: u64,
    /// CPU time of this thread when it began.
    used: Duration,
}

/// The source.
pub struct Protect {
    protector: Protector,
    planner: Planner,
    areas: Vec<Range>,
    round: Option<Round>,
    next: Instant,
    /// Accesses that nobody has taken yet, each with when its window opened.
    caught: Vec<(Caught, u64)>,
    scans: Scans,
    losses: Losses,
}

impl Protect {
    /// Installs what stays in the process.
    ///
    /// # Errors
    /// If the program has handlers of its own for SIGURG or SIGSYS, or `/proc` cannot be read.
    pub fn open() -> io::Result<Protect> {
        own_descriptors()?;
        let protect = Protect {
            protector: Protector::new()?,
            planner: Planner::new()?,
            areas: Vec::new(),
            round: None,
            next: Instant::now(),
            caught: Vec::new(),
            scans: Scans::default(),
            losses: Losses::default(),
        };
        TALLY.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default();
        Ok(protect)
    }

    /// Begins a round through the memory.
    pub fn begin_round(&mut self) {
        self.round =
            Some(Round { began: clock::monotonic(), part: None, windows: 0, used: clock::thread_cpu_time() });
    }

    /// One window, if there can be one. True once the round is over.
    ///
    /// # Errors
    /// If `/proc` cannot be read, or the program has limited its data: then the engine, which needs memory of the
    /// program's, cannot go on either.
    pub fn one_window(&mut self) -> io::Result<bool> {
        if data_are_limited() {
            self.count(Err(Refusal::Limit), 0);
            return Err(io::Error::other(Refusal::Limit.to_string()));
        }
        let Some(round) = &mut self.round else { return Ok(true) };
        let (part, tries, last) = match round.part.take() {
            Some(part) => part,
            None => {
                let (part, last) = self.planner.next(&self.areas)?;
                (part, 0, last)
            }
        };
        self.next = Instant::now() + REST;
        let again = (REST * (1 << tries)).min(LONGEST_REST);
        if part.is_empty() {
            return Ok(last);
        }
        let before = self.caught.len();
        // The window comes after the accesses: they are told when it opened afterwards.
        let (caught, began) = (&mut self.caught, clock::monotonic().as_nanos() as u64);
        caught.reserve(2048);
        let window = self.protector.window(&part, OPEN, |one| caught.push((one, began)));
        match window {
            Ok(window) => self.caught[before..].iter_mut().for_each(|one| one.1 = window.opened),
            // Nothing of it, however often it is tried.
            Err(Refusal::Nothing) => {}
            Err(_) if tries + 1 < TRIES => {
                round.part = Some((part, tries + 1, last));
                self.next = Instant::now() + again;
            }
            Err(_) => {}
        }
        round.windows += u64::from(window.is_ok());
        let over = last && round.part.is_none();
        let faults = (self.caught.len() - before) as u64;
        self.next += REST_PER_FAULT * faults as u32;
        self.count(window, faults);
        Ok(over)
    }

    fn count(&mut self, window: Result<Window, Refusal>, faults: u64) {
        let mut tally = TALLY.lock().unwrap_or_else(PoisonError::into_inner);
        let tally = tally.get_or_insert_default();
        (tally.waits, tally.waited_ns) = waits();
        self.scans.stopped_seconds = tally.waited_ns as f64 / 1e9;
        tally.caught += faults;
        match window {
            Ok(window) => {
                tally.windows += 1;
                tally.early += u64::from(window.early);
                tally.pages += window.units;
                tally.lost += window.lost;
                self.losses.lost += window.lost;
                self.scans.seconds += window.lasted as f64 / 1e9;
            }
            Err(why) => *tally.refused.entry(why.to_string()).or_default() += 1,
        }
    }

    /// The next window may open then.
    pub fn next(&self) -> Instant {
        self.next
    }

    /// Accesses that were caught and not handed out yet.
    pub fn waiting(&mut self) -> &mut Vec<(Caught, u64)> {
        &mut self.caught
    }
}

fn micros(time: Duration) -> Micros {
    Micros(time.as_micros() as u64)
}

impl Source for Protect {
    fn follow(&mut self, _: &Targets, _: &Changes) -> io::Result<()> {
        Ok(())
    }

    fn areas(&mut self, areas: &[HotArea]) {
        self.areas = areas.iter().map(|area| (area.start, area.end())).collect();
    }

    fn scannable(&self) -> bool {
        true
    }

    fn scan(&mut self, _: &Targets) {
        self.begin_round();
    }

    fn work(&mut self, _: &Targets, begin: Duration) -> io::Result<Option<Scanned>> {
        if !self.one_window()? {
            return Ok(None);
        }
        let Some(round) = self.round.take() else { return Ok(None) };
        self.scans.scans += 1;
        self.losses.scans_missed += u64::from(round.windows == 0);
        Ok(Some(Scanned {
            began: micros(round.began.saturating_sub(begin)),
            stopped: Micros(0),
            everywhere: round.windows > 0,
            cost: micros(clock::thread_cpu_time().saturating_sub(round.used)),
        }))
    }

    fn due(&self) -> Option<Instant> {
        self.round.as_ref().map(|_| self.next)
    }

    fn poll(&mut self, targets: &Targets, host: &Host, accesses: &mut Vec<Access>) {
        let me = homing_linux::proc::Pid(std::process::id() as i32);
        debug_assert!(own::is_this(me));
        let known = targets.contains(me);
        let access = |(caught, opened): (Caught, u64)| {
            let after = Duration::from_nanos(caught.time.saturating_sub(opened));
            Some(Access {
                process: ProcessId(me.0),
                thread: ThreadId(caught.tid),
                node: host.node_of_cpu(caught.cpu)?,
                address: caught.address,
                store: caught.store,
                kind: AccessKind::HintFault { after_scan: Some(micros(after)) },
            })
        };
        accesses.extend(self.caught.drain(..).filter_map(access).filter(|_| known));
    }

    fn scans(&self) -> Scans {
        self.scans
    }

    fn losses(&self) -> Losses {
        self.losses
    }
}
