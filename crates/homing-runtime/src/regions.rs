//! Programs that say nothing themselves. An OpenMP runtime (`abi_ompt.rs`), or a library that stands before it
//! (`preload/gomp.c`), reports each parallel region. The first one starts the manager, the sequence of all gives the
//! outer iteration (Nikolopoulos et al. 2000, sections 2.3 and 4), and what was counted is left in a file at exit.

use crate::library;
use crate::statistics::Statistics;
use crate::status::Status;
use homing_core::session::period::Periods;
use homing_live::inside::{SETTINGS_ENV, STATISTICS_ENV};
use std::cell::Cell;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::ThreadId;

/// Iterations that are kept apart at most: beyond, every second one is dropped.
const KEPT: usize = 512;

/// What is known of a program's parallel regions.
struct Regions {
    /// Whoever began the first region. Regions of other threads are counted and left at that.
    thread: ThreadId,
    periods: Periods,
    regions: u64,
    others: u64,
    iterations: u64,
    kept: Vec<Iteration>,
    /// Each iteration whose number is a multiple of this is kept.
    every: u64,
}

/// What had been counted when an iteration ended, as of the manager's last interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Iteration {
    number: u64,
    pages_moved: u64,
    samples_local: u64,
    samples_remote: u64,
}

static REGIONS: Mutex<Option<Regions>> = Mutex::new(None);

thread_local! {
    /// Regions that this thread is in.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Whether somebody wants this in the process. Asked at each region: the environment is read once.
pub fn wanted() -> bool {
    static WANTED: OnceLock<bool> = OnceLock::new();
    *WANTED.get_or_init(|| std::env::var_os(SETTINGS_ENV).is_some())
}

/// A region begins, called after the address of its code. `start` starts the manager.
pub fn begins(region: u64, start: impl FnOnce(&str)) {
    if DEPTH.replace(DEPTH.get() + 1) > 0 || library::in_parent().is_err() {
        return;
    }
    let mut regions = REGIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let first = regions.is_none();
    let known = regions.get_or_insert_with(Regions::new);
    if first {
        start(&std::env::var(SETTINGS_ENV).unwrap_or_default());
    }
    if known.takes(region) {
        library::mark("iteration");
        known.keep(library::with(|shared| shared.statistics));
    }
}

/// A region ends.
pub fn ends() {
    DEPTH.set(DEPTH.get().saturating_sub(1));
}

/// Leaves what was counted, at exit, when the manager has ended. A failure cannot be reported here: whoever set the
/// folder finds no file in it, and says so.
pub fn finish() {
    let regions = REGIONS.lock().unwrap_or_else(PoisonError::into_inner).take();
    let (Some(regions), Some(folder)) = (regions, std::env::var_os(STATISTICS_ENV)) else { return };
    let (statistics, ended) = library::with(|shared| (shared.statistics, shared.ended.take()));
    let (status, reason) = ended.unwrap_or((Status::NotStarted, String::new()));
    let text = regions.json(&statistics, status as i32, &reason).to_string();
    let file = PathBuf::from(folder).join(format!("{}.json", std::process::id()));
    let part = file.with_extension("part");
    // See above.
    let _ = std::fs::write(&part, text).and_then(|()| std::fs::rename(&part, &file));
}

impl Regions {
    fn new() -> Regions {
        Regions {
            thread: std::thread::current().id(),
            periods: Periods::default(),
            regions: 0,
            others: 0,
            iterations: 0,
            kept: Vec::new(),
            every: 1,
        }
    }

    /// Takes a region; whether an iteration ended before it.
    fn takes(&mut self, region: u64) -> bool {
        if self.thread != std::thread::current().id() {
            self.others += 1;
            return false;
        }
        self.regions += 1;
        let ended = self.periods.begins_iteration(region);
        self.iterations += u64::from(ended);
        ended
    }

    fn keep(&mut self, now: Statistics) {
        if !self.iterations.is_multiple_of(self.every) {
            return;
        }
        if self.kept.len() == KEPT {
            self.every *= 2;
            let every = self.every;
            self.kept.retain(|iteration| iteration.number.is_multiple_of(every));
        }
        if self.iterations.is_multiple_of(self.every) {
            self.kept.push(Iteration {
                number: self.iterations,
                pages_moved: now.pages_moved,
                samples_local: now.samples_local,
                samples_remote: now.samples_remote,
            });
        }
    }

    fn json(&self, statistics: &Statistics, status: i32, reason: &str) -> serde_json::Value {
        let iterations: Vec<_> = self.kept.iter().map(Iteration::json).collect();
        serde_json::json!({
            "schema": 1,
            "pid": std::process::id(),
            "command": std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>(),
            "status": status,
            "reason": reason,
            "regions": self.regions,
            "regions_of_other_threads": self.others,
            "period": self.periods.period(),
            "iterations": self.iterations,
            "by_iteration": iterations,
            "samples_local": statistics.samples_local,
            "samples_remote": statistics.samples_remote,
            "samples_lost": statistics.samples_lost,
            "pages": statistics.pages,
            "pages_moved": statistics.pages_moved,
            "bytes_moved": statistics.bytes_moved,
            "moves_failed": statistics.moves_failed,
            "scans": statistics.scans,
            "scans_missed": statistics.scans_missed,
            "marks_lost": statistics.marks_lost,
            "manager_ns": statistics.manager_ns,
        })
    }
}

impl Iteration {
    fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "iteration": self.number,
            "pages_moved": self.pages_moved,
            "samples_local": self.samples_local,
            "samples_remote": self.samples_remote,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iterations_are_found_and_those_kept_are_few_and_even() {
        let mut regions = Regions::new();
        for round in 0..10_000 {
            for region in [1, 2, 3] {
                if regions.takes(region) {
                    regions.keep(Statistics { pages_moved: round, ..Statistics::default() });
                }
            }
        }
        assert_eq!((regions.regions, regions.iterations), (30_000, 9_998));
        assert!((KEPT / 2..=KEPT).contains(&regions.kept.len()));
        assert!(regions.kept.iter().all(|kept| kept.number % regions.every == 0));
        // The number of an iteration is that of its end: the first found one ends in the third round.
        assert!(regions.kept.iter().all(|kept| kept.pages_moved == kept.number + 1));
    }

    #[test]
    fn regions_of_other_threads_are_counted_and_no_more() {
        let mut regions = Regions::new();
        std::thread::scope(|scope| {
            let regions = &mut regions;
            scope.spawn(move || (0..9).for_each(|_| assert!(!regions.takes(7))));
        });
        assert_eq!((regions.regions, regions.others, regions.iterations), (0, 9, 0));
    }
}
