//! Jobs of `homing sched run`: how many threads a parallel region is to have and where they belong, as the scheduler
//! says on the page of the job (`homing-linux`, `allocation.rs`); and the iterations that it reports there.

use homing_linux::allocation::{now_ns, Mapped, Report, PAGE_ENV};
use homing_linux::environment::variable;
use std::cell::Cell;
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

/// What the scheduler's page is told, and what of it is in force.
#[derive(Debug, Default)]
struct Job {
    report: Report,
    /// Threads that the scheduler wants; 0: as many as the program does.
    threads: u32,
    /// This process reports for the job.
    owns: Option<bool>,
}

static JOB: Mutex<Option<Job>> = Mutex::new(None);

thread_local! {
    /// The change after which this thread was put where it belongs.
    static PLACED: Cell<u64> = const { Cell::new(0) };
}

/// The page, if this process is part of such a job.
fn page() -> Option<&'static Mapped> {
    static PAGE: OnceLock<Option<Mapped>> = OnceLock::new();
    // A page that cannot be opened is none: the program runs as it would alone, and the scheduler sees no report.
    PAGE.get_or_init(|| Mapped::open(Path::new(&variable(PAGE_ENV)?)).ok()).as_ref()
}

/// Whether this process is part of such a job.
pub fn wanted() -> bool {
    page().is_some()
}

fn with<T>(work: impl FnOnce(&'static Mapped, &mut Job) -> T) -> Option<T> {
    let page = page()?;
    let mut job = JOB.lock().unwrap_or_else(PoisonError::into_inner);
    Some(work(page, job.get_or_insert_with(Job::default)))
}

/// A region of the program's first thread begins; `iteration`: the iteration before it has ended.
pub fn region_begins(iteration: bool) {
    with(|page, job| job.begins(page, iteration));
}

/// How many threads the region is to have that begins. `fixed`: as many as the program says for this region, 0 if it
/// does not. `most`: as many as it would have otherwise, which is the most that the program is prepared for.
pub fn threads(fixed: u32, most: u32) -> u32 {
    with(|_, job| job.threads(fixed, most)).unwrap_or(fixed)
}

/// The calling thread, the `index`-th of a team, begins its part of a region that is in no other.
pub fn part_begins(index: u32, team: u32) {
    let Some(page) = page() else { return };
    if index == 0 {
        with(|page, job| job.has(page, team));
    }
    let change = page.change();
    // A thread that ends has no part.
    let moved = PLACED.try_with(|placed| placed.replace(change) != change);
    if let Some(given) = page.given().filter(|_| moved == Ok(true)) {
        // CPUs that are not there any more: the scheduler gives others.
        let _ = given.place(index as usize);
    }
}

impl Job {
    fn begins(&mut self, page: &Mapped, iteration: bool) {
        self.report.regions += 1;
        if iteration {
            self.report.iterations += 1;
            self.report.at_ns = now_ns();
        }
        let change = page.change();
        if change != self.report.change {
            if let Some(given) = page.given() {
                self.threads = given.threads;
                self.report.change = given.change;
                self.report.before = self.report.iterations;
            }
        }
        self.tell(page);
    }

    fn has(&mut self, page: &Mapped, team: u32) {
        if self.report.team != u64::from(team) {
            self.report.team = u64::from(team);
            self.tell(page);
        }
    }

    fn tell(&mut self, page: &Mapped) {
        if *self.owns.get_or_insert_with(|| page.claim()) {
            page.report(&self.report);
        }
    }

    fn threads(&mut self, fixed: u32, most: u32) -> u32 {
        if fixed > 0 {
            self.report.fixed += 1;
            return fixed;
        }
        match self.threads {
            0 => 0,
            wanted => wanted.min(most),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use homing_linux::allocation::{Given, Page};

    fn give(page: &Page, change: u64, threads: u32) {
        page.give(&Given { change, threads, ..Given::default() }).unwrap();
    }

    #[test]
    fn regions_follow_what_the_scheduler_says_and_iterations_reach_it() {
        let path = std::env::temp_dir().join(format!("homing-page-{}", std::process::id()));
        let (page, mapped) = (Page::create(&path).unwrap(), Mapped::open(&path).unwrap());
        std::fs::remove_file(&path).unwrap();
        let mut job = Job::default();
        job.begins(&mapped, false);
        assert_eq!((job.threads(0, 8), job.threads(3, 8)), (0, 3), "nothing was said yet");
        give(&page, 1, 4);
        assert_eq!(job.threads(0, 8), 0, "within a region nothing changes");
        job.begins(&mapped, true);
        assert_eq!((job.threads(0, 8), job.threads(0, 2)), (4, 2), "no more than the program is ready for");
        assert_eq!(job.threads(3, 8), 3, "what the program fixes stays");
        give(&page, 2, 6);
        job.begins(&mapped, true);
        assert_eq!(job.threads(0, 8), 6);
        let report = page.reported().unwrap();
        assert_eq!((report.regions, report.iterations, report.fixed), (3, 2, 2));
        assert_eq!((report.change, report.before), (2, 2));
        assert!(report.at_ns > 0);
    }
}
