//! Programs that say nothing themselves. An OpenMP runtime (`abi_ompt.rs`), or a library that stands before it
//! (`preload/gomp.c`), reports each parallel region. The first one starts the manager, the sequence of all gives the
//! outer iteration (Nikolopoulos et al. 2000, sections 2.3 and 4), and what was counted is left in a file at exit.

use crate::allocation;
use crate::library;
use crate::places;
use crate::statistics::{Hot, Statistics};
use crate::status::Status;
use homing_linux::environment::variable;
use homing_live::inside::{SETTINGS_ENV, STATISTICS_ENV};
use homing_session::period::Periods;
use std::cell::Cell;
use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::ThreadId;

/// What is known of a program's parallel regions.
struct Regions {
    /// Whoever began the first region. Regions of other threads are counted and left at that.
    thread: ThreadId,
    periods: Periods,
    regions: u64,
    others: u64,
    iterations: u64,
}

static REGIONS: Mutex<Option<Regions>> = Mutex::new(None);

thread_local! {
    /// Regions that this thread is in.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Whether somebody wants this in the process. Asked at each region: the environment is read once.
pub fn wanted() -> bool {
    static WANTED: OnceLock<bool> = OnceLock::new();
    *WANTED.get_or_init(|| has_settings() || allocation::wanted())
}

fn settings() -> String {
    variable(SETTINGS_ENV).unwrap_or_default().to_string_lossy().into_owned()
}

fn has_settings() -> bool {
    variable(SETTINGS_ENV).is_some()
}

/// Parallel regions that the calling thread is in.
pub fn depth() -> u32 {
    DEPTH.get()
}

/// Starts the manager before any region, if that is wanted.
#[cfg(target_arch = "x86_64")]
pub fn at_load(start: impl FnOnce(&str)) {
    if variable(homing_live::inside::AT_LOAD_ENV).is_some() && has_settings() {
        REGIONS.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(Regions::new);
        start(&settings());
    }
}

/// A region begins, called after the address of its code. `start` starts the manager.
pub fn begins(region: u64, start: impl FnOnce(&str)) {
    if DEPTH.replace(DEPTH.get() + 1) > 0 || library::in_parent().is_err() {
        return;
    }
    let mut regions = REGIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let first = regions.is_none();
    let known = regions.get_or_insert_with(Regions::new);
    if first && has_settings() {
        start(&settings());
    }
    let of_others = known.others;
    let ended = known.takes(region);
    if ended {
        library::mark("iteration");
    }
    if known.others == of_others {
        allocation::region_begins(ended);
    }
    if library::follows_phases() {
        library::mark(&format!("region {region:x}"));
    }
}

/// A region ends.
pub fn ends() {
    let depth = DEPTH.get();
    DEPTH.set(depth.saturating_sub(1));
    if depth == 1 {
        places::construct_ended();
    }
}

/// Leaves what was counted, at exit, when the manager has ended. A failure cannot be reported here: whoever set the
/// folder finds no file in it, and says so.
pub fn finish() {
    let regions = REGIONS.lock().unwrap_or_else(PoisonError::into_inner).take();
    let (Some(regions), Some(folder)) = (regions, variable(STATISTICS_ENV)) else { return };
    let (statistics, hot, ended) =
        library::with(|shared| (shared.statistics, std::mem::take(&mut shared.hot), shared.ended.take()));
    let (status, reason) = ended.unwrap_or((Status::NotStarted, String::new()));
    leave(&folder, &regions.json(&statistics, &hot, status as i32, &reason).to_string());
}

/// Writes a file for this process, `PID.json`, into the folder. A failure cannot be reported, see above.
pub fn leave(folder: &OsStr, text: &str) {
    let file = Path::new(folder).join(format!("{}.json", std::process::id()));
    let part = file.with_extension("part");
    // Of a process before, which had the number. What is there else, a link for instance, is not written through.
    let _ = std::fs::remove_file(&part);
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&part)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| std::fs::rename(&part, &file));
    // See above.
    let _ = written;
}

impl Regions {
    fn new() -> Regions {
        Regions {
            thread: std::thread::current().id(),
            periods: Periods::default(),
            regions: 0,
            others: 0,
            iterations: 0,
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

    fn json(&self, statistics: &Statistics, hot: &Hot, status: i32, reason: &str) -> serde_json::Value {
        serde_json::json!({
            "schema": 2,
            "pid": std::process::id(),
            "command": std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>(),
            "status": status,
            "reason": reason,
            "regions": self.regions,
            "regions_of_other_threads": self.others,
            "period": self.periods.period(),
            "iterations": self.iterations,
            "by_iteration": hot.by_iteration,
            "resident_pages": hot.resident_pages,
            "threads_moved": hot.threads_moved,
            "forwarded": hot.forwarded,
            "areas": hot.areas,
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
            "manager_seconds_by_phase": hot.by_phase,
            "windows": homing_live::source::protect::tally(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iterations_are_found() {
        let mut regions = Regions::new();
        let ended = (0..30_000).filter(|region| regions.takes(region % 3)).count();
        assert_eq!((regions.regions, regions.iterations, ended), (30_000, 9_998, 9_998));
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
