//! What a scheduler of jobs and the library inside of a job say to each other: a small file that both map. The
//! scheduler writes which processors the job has, the library writes the iterations of the job. docs/scheduling.md
//! ("The page of a job") is its description.
//!
//! Each side writes its own half under a count that is odd meanwhile; a reader that finds it odd or changed reads
//! again. A writer that was killed half-way leaves it odd: then there is no news. Numbers are little-endian 64-bit
//! words.

use crate::clock;
use crate::environment::open_regular;
use crate::policy::set_affinity;
use crate::proc::{Pid, Proc, Tid};
use memmap2::MmapRaw;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{fence, AtomicU64, Ordering};

/// The variable with the file's path.
pub const PAGE_ENV: &str = "HOMING_ALLOCATION";

/// "HOMALLO" and the version, 1.
const MAGIC: u64 = u64::from_le_bytes(*b"HOMALLO\x01");
/// Most CPUs that the page has room for.
pub const MOST_CPUS: usize = 448;
/// Bytes of the file.
const BYTES: usize = 4096;
/// Reads of a half that is being written, before there is no news.
const TRIES: u32 = 1000;

/// Where the words are.
mod word {
    pub const MAGIC: usize = 0;
    /// Written by the scheduler.
    pub const GIVEN: usize = 1;
    pub const CHANGE: usize = 2;
    pub const THREADS: usize = 3;
    pub const BINDS: usize = 4;
    pub const COUNT: usize = 5;
    /// Written by the library.
    pub const REPORTED: usize = 16;
    pub const OWNER: usize = 17;
    pub const NOTICED: usize = 18;
    pub const BEFORE: usize = 19;
    pub const ITERATIONS: usize = 20;
    pub const AT_NS: usize = 21;
    pub const REGIONS: usize = 22;
    pub const FIXED: usize = 23;
    pub const TEAM: usize = 24;
    /// CPUs in order.
    pub const CPUS: usize = 64;
}

/// What a job was given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// The number of the change.
    pub change: u64,
    /// Threads of a parallel region; 0: as many as the program wants.
    pub threads: u32,
    /// Thread i is to run on the i-th CPU alone.
    pub binds: bool,
    /// Its CPUs.
    pub cpus: Vec<u32>,
}

/// What the library reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The last change that it has noticed.
    pub change: u64,
    /// Iterations that had ended when it noticed.
    pub before: u64,
    /// Iterations that have ended, and when the last did, by the monotonic clock.
    pub iterations: u64,
    /// See there.
    pub at_ns: u64,
    /// Parallel regions.
    pub regions: u64,
    /// ... of them with a number of threads that the program fixes.
    pub fixed: u64,
    /// Threads of the last region.
    pub team: u64,
}

/// The file, mapped.
#[derive(Debug)]
pub struct Page {
    map: MmapRaw,
}

impl Page {
    /// Makes the file anew.
    ///
    /// # Errors
    /// If it is there already or cannot be made.
    pub fn create(path: &Path) -> io::Result<Page> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).mode(0o600).open(path)?;
        file.set_len(BYTES as u64)?;
        let page = Page { map: MmapRaw::map_raw(&file)? };
        page.word(word::MAGIC).store(MAGIC, Ordering::Release);
        Ok(page)
    }

    /// Opens a file that somebody made.
    ///
    /// # Errors
    /// If it is none of this version.
    pub fn open(path: &Path) -> io::Result<Page> {
        let file = open_regular(OpenOptions::new().read(true).write(true), libc::O_NOFOLLOW, path)?;
        if file.metadata()?.len() < BYTES as u64 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "too short for the page of a job"));
        }
        let page = Page { map: MmapRaw::map_raw(&file)? };
        match page.word(word::MAGIC).load(Ordering::Acquire) {
            MAGIC => Ok(page),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "no page of a job of this version")),
        }
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        debug_assert!(index < BYTES / 8);
        // SAFETY: the mapping is page-aligned, has BYTES, lives as long as `self`, and is only reached by atomics.
        unsafe { &*self.map.as_ptr().cast::<AtomicU64>().add(index) }
    }

    /// Writes one half, which has one writer.
    fn write(&self, count: usize, write: impl FnOnce(&Page)) {
        let before = self.word(count).load(Ordering::Relaxed) & !1;
        self.word(count).store(before + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        write(self);
        self.word(count).store(before + 2, Ordering::Release);
    }

    fn read<T>(&self, count: usize, read: impl Fn(&Page) -> T) -> Option<T> {
        (0..TRIES).find_map(|_| {
            let before = self.word(count).load(Ordering::Acquire);
            let read = (before & 1 == 0).then(|| read(self))?;
            fence(Ordering::Acquire);
            (self.word(count).load(Ordering::Relaxed) == before).then_some(read)
        })
    }

    fn set(&self, index: usize, value: u64) {
        self.word(index).store(value, Ordering::Relaxed);
    }

    fn get(&self, index: usize) -> u64 {
        self.word(index).load(Ordering::Relaxed)
    }

    /// Says what the job has. Of more than [`MOST_CPUS`] CPUs the first are said.
    pub fn give(&self, given: &Given) {
        self.write(word::GIVEN, |page| {
            page.set(word::CHANGE, given.change);
            page.set(word::THREADS, u64::from(given.threads));
            page.set(word::BINDS, u64::from(given.binds));
            let cpus = &given.cpus[..given.cpus.len().min(MOST_CPUS)];
            page.set(word::COUNT, cpus.len() as u64);
            cpus.iter().enumerate().for_each(|(i, &cpu)| page.set(word::CPUS + i, u64::from(cpu)));
        });
    }

    /// The number of the last change: whoever knows it need not read the rest.
    pub fn change(&self) -> u64 {
        self.get(word::CHANGE)
    }

    /// What the job has.
    pub fn given(&self) -> Option<Given> {
        self.read(word::GIVEN, |page| {
            let count = (page.get(word::COUNT) as usize).min(MOST_CPUS);
            Given {
                change: page.get(word::CHANGE),
                threads: page.get(word::THREADS) as u32,
                binds: page.get(word::BINDS) != 0,
                cpus: (0..count).map(|i| page.get(word::CPUS + i) as u32).collect(),
            }
        })
    }

    /// Makes this process the one of the job that reports, if no other lives that does.
    pub fn claim(&self) -> bool {
        let (me, owner) = (u64::from(std::process::id()), self.word(word::OWNER));
        let before = owner.load(Ordering::Acquire);
        let lives = |pid: u64| Proc::default().process_stat(Pid(pid as i32)).is_ok();
        before == me
            || (before == 0 || !lives(before))
                && owner.compare_exchange(before, me, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Reports; who may do so has claimed it.
    pub fn report(&self, report: &Report) {
        self.write(word::REPORTED, |page| {
            page.set(word::NOTICED, report.change);
            page.set(word::BEFORE, report.before);
            page.set(word::ITERATIONS, report.iterations);
            page.set(word::AT_NS, report.at_ns);
            page.set(word::REGIONS, report.regions);
            page.set(word::FIXED, report.fixed);
            page.set(word::TEAM, report.team);
        });
    }

    /// What was reported.
    pub fn reported(&self) -> Option<Report> {
        self.read(word::REPORTED, |page| Report {
            change: page.get(word::NOTICED),
            before: page.get(word::BEFORE),
            iterations: page.get(word::ITERATIONS),
            at_ns: page.get(word::AT_NS),
            regions: page.get(word::REGIONS),
            fixed: page.get(word::FIXED),
            team: page.get(word::TEAM),
        })
    }
}

/// Nanoseconds by the monotonic clock.
pub fn now_ns() -> u64 {
    clock::monotonic().as_nanos() as u64
}

impl Given {
    /// Puts the calling thread, the `index`-th of its team, where it belongs.
    ///
    /// # Errors
    /// As for [`set_affinity`].
    pub fn place(&self, index: usize) -> io::Result<()> {
        match self.cpus.get(index).filter(|_| self.binds) {
            Some(&cpu) => set_affinity(Tid(0), &[cpu]),
            None if self.cpus.is_empty() => Ok(()),
            None => set_affinity(Tid(0), &self.cpus),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_read_what_the_other_wrote() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page");
        let ours = Page::create(&path).unwrap();
        assert!(Page::create(&path).is_err(), "it is there");
        let theirs = Page::open(&path).unwrap();
        let given = Given { change: 3, threads: 2, binds: true, cpus: vec![5, 4] };
        ours.give(&given);
        assert_eq!((theirs.change(), theirs.given()), (3, Some(given)));
        assert!(theirs.claim() && theirs.claim());
        let report = Report { change: 3, iterations: 9, regions: 20, team: 2, ..Report::default() };
        theirs.report(&report);
        assert_eq!(ours.reported(), Some(report));
        ours.set(word::OWNER, 1);
        assert!(!theirs.claim(), "somebody else reports, and lives");
        ours.set(word::OWNER, u64::from(u32::MAX >> 1));
        assert!(theirs.claim(), "who reported has ended");
    }

    #[test]
    fn a_half_that_a_killed_writer_left_is_no_news_until_somebody_writes_again() {
        let folder = tempfile::tempdir().unwrap();
        let page = Page::create(&folder.path().join("page")).unwrap();
        page.report(&Report { iterations: 1, ..Report::default() });
        page.set(word::REPORTED, 3);
        assert_eq!(page.reported(), None);
        page.report(&Report { iterations: 2, ..Report::default() });
        assert_eq!(page.reported().unwrap().iterations, 2);
    }

    #[test]
    fn nobody_reads_what_is_half_written() {
        let folder = tempfile::tempdir().unwrap();
        let page = Page::create(&folder.path().join("page")).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for i in 1..=20_000 {
                    page.report(&Report { change: i, iterations: i, team: i, ..Report::default() });
                }
            });
            let mut last = 0;
            while last < 20_000 {
                let Some(read) = page.reported() else { continue };
                assert_eq!((read.iterations, read.team), (read.change, read.change));
                last = read.change;
            }
        });
    }

    #[test]
    fn files_that_are_no_page_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("other");
        for content in [vec![0; 10], vec![0; BYTES], [&b"HOMALLO\x02"[..], &[0; BYTES][..]].concat()] {
            std::fs::write(&path, content).unwrap();
            assert_eq!(Page::open(&path).unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
    }
}
