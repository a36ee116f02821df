//! Sources: what tells which thread accessed which page. A new one is one file and one line in [`SOURCES`].
//!
//! `auto` takes the first of the table that works here and can bring pages home.

pub mod hint_faults;
mod none;
mod page_faults;
pub(crate) mod pmu;
pub mod protect;
pub mod rings;

use crate::host::Host;
use crate::targets::{Changes, Targets};
use homing_linux::proc::Pid;
use homing_session::input::{Access, HotArea, Scanned};
use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What a source did not see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Losses {
    /// Samples that the kernel dropped because a ring was full.
    pub lost: u64,
    /// Times that the kernel throttled the event.
    pub throttled: u64,
    /// Records that made no sense.
    pub malformed: u64,
    /// Threads that could not be watched: no descriptors or no right.
    pub unwatched: u64,
    /// Scans for hint faults that the kernel did not make.
    pub scans_missed: u64,
}

/// What a source that scans did to the processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Scans {
    /// Scans.
    pub scans: u64,
    /// From the beginning of a scan until pages were marked, all together, in seconds. The processes run meanwhile.
    pub seconds: f64,
    /// ... during which their threads stood still.
    pub stopped_seconds: f64,
    /// Page faults before the first scan, which are not processed: they say who makes a page.
    pub faults_before: u64,
    /// Threads that slept at a scan and were left alone; summed over scans.
    pub threads_waiting: u64,
    /// Threads that did not stop for a scan in time, or block the signals for that; summed over scans.
    pub threads_late: u64,
    /// Pages of other processes that the kernel moved, as far as that is the session's doing: its balancing was off
    /// before.
    pub others_moved: u64,
}

/// Where a session's own files and the system's are.
#[derive(Clone, Debug)]
pub struct Places {
    /// `/sys`.
    pub sys: PathBuf,
    /// File that remembers changed tunables, for the case that the engine is killed, in a directory of this user's
    /// alone.
    pub state: PathBuf,
    /// Where the tunables of hint faults are.
    pub hint_faults: homing_linux::hint_faults::Paths,
}

impl Default for Places {
    fn default() -> Self {
        Places {
            sys: "/sys".into(),
            state: homing_linux::private::standard().join("tunables"),
            hint_faults: homing_linux::hint_faults::Paths::default(),
        }
    }
}

/// Tells of accesses.
pub trait Source {
    /// Adapts to processes and threads that began or ended.
    ///
    /// # Errors
    /// If it cannot work at all any more.
    fn follow(&mut self, targets: &Targets, changes: &Changes) -> io::Result<()>;

    /// The program says which of its memory matters: first addresses and lengths in bytes; all of it, if there are
    /// none.
    fn areas(&mut self, _areas: &[HotArea]) {}

    /// True if there is a process whose pages can be scanned.
    fn scannable(&self) -> bool {
        false
    }

    /// Begins a scan. What comes of it is the result of a later [`Source::work`].
    fn scan(&mut self, _targets: &Targets) {}

    /// Does what is due: called at [`Source::due`] or later. Returns a scan that is over, with times of a session that
    /// began at `begin` of the monotonic clock.
    ///
    /// # Errors
    /// If it cannot work at all any more.
    fn work(&mut self, _targets: &Targets, _begin: Duration) -> io::Result<Option<Scanned>> {
        Ok(None)
    }

    /// When it next has something to do of its own.
    fn due(&self) -> Option<Instant> {
        None
    }

    /// Readable when there is much to hand out.
    fn wakers(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    /// Its helpers in the processes that it watches: each helper, and the process whose memory it shares.
    fn helpers(&self) -> Vec<(Pid, Pid)> {
        Vec::new()
    }

    /// CPU time of its helpers outside of this process.
    fn helpers_cpu(&self) -> Duration {
        Duration::ZERO
    }

    /// Hands out the accesses of the processes in `targets` that were seen since the last time.
    fn poll(&mut self, targets: &Targets, host: &Host, accesses: &mut Vec<Access>);

    /// The scans so far.
    fn scans(&self) -> Scans {
        Scans::default()
    }

    /// What was not seen so far.
    fn losses(&self) -> Losses;

    /// True if the kernel's own balancing may move pages because of this source.
    fn kernel_may_move(&self) -> bool {
        false
    }

    /// Undoes what it changed in the processes. What it changed in the kernel is undone when it is dropped.
    fn end(&mut self, _targets: &Targets) {}
}

/// A kind of source.
pub struct Entry {
    /// Name on the command line.
    pub name: &'static str,
    /// One line about it.
    pub summary: &'static str,
    /// How much its counts can be trusted.
    pub confidence: &'static str,
    /// It tells who uses pages again and again, so that pages can come home by it. Only such a source is taken for
    /// `auto`: others cost time and bring nothing.
    pub brings_home: bool,
    /// It scans for hint faults when it is asked to.
    pub scans: bool,
    /// ... and all threads are held for that.
    pub holds: bool,
    /// The policy that suits it: experts are judged by what they would have paid, which hint faults do not tell.
    pub policy: &'static str,
    /// What is missing for it here, if anything.
    pub missing: fn(&Places) -> Option<String>,
    /// Opens it.
    pub open: fn(&Places, &Host) -> io::Result<Box<dyn Source>>,
}

impl Entry {
    /// True if it tells of accesses at all.
    pub fn sees(&self) -> bool {
        self.name != none::ENTRY.name
    }
}

/// All sources, best first.
pub static SOURCES: [Entry; 5] =
    [pmu::ENTRY, hint_faults::ENTRY, protect::ENTRY, page_faults::ENTRY, none::ENTRY];

/// Pages of a ring: some 18000 samples. Where less is granted, less.
const RING_PAGES: usize = 256;

/// The source of that name.
pub fn find(name: &str) -> Option<&'static Entry> {
    SOURCES.iter().find(|entry| entry.name == name)
}

/// The best source that works here and can bring pages home; `none` where there is no such.
pub fn best(places: &Places) -> &'static Entry {
    working(places, false).next().unwrap_or(&none::ENTRY)
}

/// The sources that `auto` may take, best first: those that work here and can bring pages home, or for who only watches
/// all that work, and `none`.
pub(crate) fn working(places: &Places, watch: bool) -> impl Iterator<Item = &'static Entry> + '_ {
    let serves = move |entry: &&Entry| watch || entry.brings_home || !entry.sees();
    SOURCES.iter().filter(serves).filter(|entry| (entry.missing)(places).is_none())
}

/// The policy that suits the source of that name, which may be `auto`.
pub fn suited_policy(name: &str, places: &Places) -> &'static str {
    let entry = if name == "auto" { Some(best(places)) } else { find(name) };
    entry.map_or("homing", |entry| entry.policy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sound_and_something_always_works() {
        let names: std::collections::BTreeSet<_> = SOURCES.iter().map(|entry| entry.name).collect();
        assert_eq!(names.len(), SOURCES.len());
        assert!(SOURCES.iter().all(|entry| !entry.summary.is_empty() && entry.confidence.contains(": ")));
        let empty = tempfile::tempdir().unwrap();
        let places = Places {
            sys: empty.path().into(),
            state: empty.path().join("state"),
            hint_faults: homing_linux::hint_faults::Paths {
                switch: empty.path().join("switch"),
                tunables: empty.path().into(),
            },
        };
        assert!((find("pmu").unwrap().missing)(&places).unwrap().contains("no PEBS"));
        assert_eq!(best(&places).name, "none", "page faults tell who makes a page, and bring none home");
        assert!(find("magic").is_none());
        assert_eq!(suited_policy("hint-faults", &places), "work-function");
        assert_eq!(suited_policy("auto", &places), best(&places).policy);
        assert!(SOURCES.iter().all(|entry| homing_core::policy::table::find(entry.policy).is_some()));
    }

    #[test]
    fn each_file_of_a_source_is_in_the_table() {
        let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/source")).unwrap();
        let names = files.map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned());
        // Rings are what several sources read.
        for name in names.filter(|name| name != "mod" && name != "rings") {
            assert!(find(&name.replace('_', "-")).is_some(), "source/{name}.rs: expected a line in SOURCES");
        }
    }
}
