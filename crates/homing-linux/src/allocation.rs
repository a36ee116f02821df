//! What a scheduler of jobs and the library inside of a job say to each other: a small file. The scheduler writes which
//! processors the job has, the library writes the iterations of the job. docs/scheduling.md ("The page of a job")
//! describes it.
//!
//! The library maps the file ([`Mapped`]), since it reads a word whenever a parallel region begins. The scheduler reads
//! and writes it by calls ([`Page`]): a process of the job may cut the file, and whoever then reads memory that is
//! mapped from it is ended by SIGBUS. What was cut is written anew with the next change.
//!
//! Each side writes its own half under a count that is odd meanwhile; a reader that finds it odd or changed reads
//! again. A writer that was killed half-way leaves it odd: then there is no news. Numbers are little-endian 64-bit
//! words.

use crate::clock;
use crate::environment::open_regular;
use crate::policy::set_affinity;
use crate::proc::{Pid, Proc, Tid};
use memmap2::MmapRaw;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
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

/// The words of the file, as one side reaches them.
trait Words {
    /// A word. It is an error if the file was cut.
    fn get(&self, index: usize) -> io::Result<u64>;
    /// Sets a word.
    fn set(&self, index: usize, value: u64) -> io::Result<()>;

    /// Writes one half, which has one writer. `values` are words and what they become.
    fn write(&self, count: usize, values: impl IntoIterator<Item = (usize, u64)>) -> io::Result<()> {
        let before = self.get(count).unwrap_or(0) & !1;
        self.set(count, before + 1)?;
        fence(Ordering::Release);
        values.into_iter().try_for_each(|(index, value)| self.set(index, value))?;
        fence(Ordering::Release);
        self.set(count, before + 2)
    }

    /// Reads one half; `None` if it is being written all the time, or was cut.
    fn read<T>(
        &self,
        count: usize,
        read: impl Fn(&dyn Fn(usize) -> io::Result<u64>) -> io::Result<T>,
    ) -> Option<T> {
        (0..TRIES).find_map(|_| {
            let before = self.get(count).ok().filter(|before| before & 1 == 0)?;
            fence(Ordering::Acquire);
            let read = read(&|index| self.get(index)).ok()?;
            fence(Ordering::Acquire);
            (self.get(count).ok() == Some(before)).then_some(read)
        })
    }
}

/// The scheduler's side: the file, read and written by calls.
#[derive(Debug)]
pub struct Page {
    file: File,
}

impl Words for Page {
    fn get(&self, index: usize) -> io::Result<u64> {
        let mut word = [0; 8];
        self.file.read_exact_at(&mut word, index as u64 * 8)?;
        Ok(u64::from_le_bytes(word))
    }

    fn set(&self, index: usize, value: u64) -> io::Result<()> {
        self.file.write_all_at(&value.to_le_bytes(), index as u64 * 8)
    }
}

impl Page {
    /// Makes the file anew.
    ///
    /// # Errors
    /// If it is there already or cannot be made.
    pub fn create(path: &Path) -> io::Result<Page> {
        let mut options = OpenOptions::new();
        let page = Page::of(options.read(true).write(true).create_new(true).mode(0o600).open(path)?);
        page.file.set_len(BYTES as u64)?;
        page.set(word::MAGIC, MAGIC)?;
        Ok(page)
    }

    /// The file that another scheduler made.
    pub fn of(file: File) -> Page {
        Page { file }
    }

    /// Writes what the job has. Of more than [`MOST_CPUS`] CPUs the first are written.
    ///
    /// # Errors
    /// What writing to the file gives.
    pub fn give(&self, given: &Given) -> io::Result<()> {
        // What a process of the job has cut off is there again.
        if self.file.metadata()?.len() < BYTES as u64 {
            self.file.set_len(BYTES as u64)?;
        }
        self.set(word::MAGIC, MAGIC)?;
        let cpus = &given.cpus[..given.cpus.len().min(MOST_CPUS)];
        let head = [
            (word::CHANGE, given.change),
            (word::THREADS, u64::from(given.threads)),
            (word::BINDS, u64::from(given.binds)),
            (word::COUNT, cpus.len() as u64),
        ];
        let each = cpus.iter().enumerate().map(|(i, &cpu)| (word::CPUS + i, u64::from(cpu)));
        self.write(word::GIVEN, head.into_iter().chain(each))
    }

    /// The number of the last change; 0 if the file was cut.
    pub fn change(&self) -> u64 {
        self.get(word::CHANGE).unwrap_or(0)
    }

    /// What was reported; `None` where there is no news.
    pub fn reported(&self) -> Option<Report> {
        self.get(word::MAGIC).ok().filter(|magic| *magic == MAGIC)?;
        self.read(word::REPORTED, |get| {
            Ok(Report {
                change: get(word::NOTICED)?,
                before: get(word::BEFORE)?,
                iterations: get(word::ITERATIONS)?,
                at_ns: get(word::AT_NS)?,
                regions: get(word::REGIONS)?,
                fixed: get(word::FIXED)?,
                team: get(word::TEAM)?,
            })
        })
    }
}

/// The library's side: the file, mapped.
#[derive(Debug)]
pub struct Mapped {
    map: MmapRaw,
}

impl Words for Mapped {
    fn get(&self, index: usize) -> io::Result<u64> {
        Ok(u64::from_le(self.word(index).load(Ordering::Acquire)))
    }

    fn set(&self, index: usize, value: u64) -> io::Result<()> {
        self.word(index).store(value.to_le(), Ordering::Release);
        Ok(())
    }
}

impl Mapped {
    /// Opens the file that a scheduler made.
    ///
    /// # Errors
    /// If it is none of this version.
    pub fn open(path: &Path) -> io::Result<Mapped> {
        let file = open_regular(OpenOptions::new().read(true).write(true), libc::O_NOFOLLOW, path)?;
        if file.metadata()?.len() < BYTES as u64 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "too short for the page of a job"));
        }
        if Page::of(file.try_clone()?).get(word::MAGIC)? != MAGIC {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "no page of a job of this version"));
        }
        Ok(Mapped { map: MmapRaw::map_raw(&file)? })
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        debug_assert!(index < BYTES / 8);
        // SAFETY: the mapping is page-aligned, has BYTES, lives as long as `self`, and is only reached by atomics.
        unsafe { &*self.map.as_ptr().cast::<AtomicU64>().add(index) }
    }

    /// The number of the last change: whoever knows it need not read the rest.
    pub fn change(&self) -> u64 {
        self.word(word::CHANGE).load(Ordering::Relaxed)
    }

    /// What the job has.
    pub fn given(&self) -> Option<Given> {
        self.read(word::GIVEN, |get| {
            let count = (get(word::COUNT)? as usize).min(MOST_CPUS);
            Ok(Given {
                change: get(word::CHANGE)?,
                threads: get(word::THREADS)? as u32,
                binds: get(word::BINDS)? != 0,
                cpus: (0..count).map(|i| Ok(get(word::CPUS + i)? as u32)).collect::<io::Result<_>>()?,
            })
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
        let values = [
            (word::NOTICED, report.change),
            (word::BEFORE, report.before),
            (word::ITERATIONS, report.iterations),
            (word::AT_NS, report.at_ns),
            (word::REGIONS, report.regions),
            (word::FIXED, report.fixed),
            (word::TEAM, report.team),
        ];
        // Memory takes all that is written.
        let _ = self.write(word::REPORTED, values);
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

    /// Both sides of a new page, in a directory that goes with the first.
    fn pair() -> (tempfile::TempDir, Page, Mapped) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page");
        let page = Page::create(&path).unwrap();
        assert!(Page::create(&path).is_err(), "it is there");
        let mapped = Mapped::open(&path).unwrap();
        (folder, page, mapped)
    }

    #[test]
    fn both_sides_read_what_the_other_wrote() {
        let (_folder, ours, theirs) = pair();
        assert_eq!(ours.reported(), Some(Report::default()));
        let given = Given { change: 3, threads: 2, binds: true, cpus: vec![5, 4] };
        ours.give(&given).unwrap();
        assert_eq!((theirs.change(), ours.change(), theirs.given()), (3, 3, Some(given)));
        assert!(theirs.claim() && theirs.claim());
        let report = Report { change: 3, iterations: 9, regions: 20, team: 2, ..Report::default() };
        theirs.report(&report);
        assert_eq!(ours.reported(), Some(report));
        ours.set(word::OWNER, 1).unwrap();
        assert!(!theirs.claim(), "somebody else reports, and lives");
        ours.set(word::OWNER, u64::from(u32::MAX >> 1)).unwrap();
        assert!(theirs.claim(), "who reported has ended");
    }

    #[test]
    fn a_half_that_a_killed_writer_left_is_no_news_until_somebody_writes_again() {
        let (_folder, ours, theirs) = pair();
        theirs.report(&Report { iterations: 1, ..Report::default() });
        theirs.set(word::REPORTED, 3).unwrap();
        assert_eq!(ours.reported(), None);
        theirs.report(&Report { iterations: 2, ..Report::default() });
        assert_eq!(ours.reported().unwrap().iterations, 2);
    }

    #[test]
    fn a_page_that_the_job_has_cut_is_no_news_and_is_whole_with_the_next_change() {
        let (folder, ours, _) = pair();
        let path = folder.path().join("page");
        for bytes in [0, 8, 100] {
            OpenOptions::new().write(true).open(&path).unwrap().set_len(bytes).unwrap();
            assert_eq!(ours.reported(), None, "{bytes}");
            assert!(Mapped::open(&path).is_err());
            let given = Given { change: ours.change() + 7, cpus: vec![1], ..Given::default() };
            ours.give(&given).unwrap();
            let theirs = Mapped::open(&path).unwrap();
            assert_eq!(theirs.given(), Some(given));
            theirs.report(&Report { iterations: 5, ..Report::default() });
            assert_eq!(ours.reported().unwrap().iterations, 5);
        }
    }

    #[test]
    fn nobody_reads_what_is_half_written() {
        let (_folder, ours, theirs) = pair();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for i in 1..=20_000 {
                    theirs.report(&Report { change: i, iterations: i, team: i, ..Report::default() });
                }
            });
            let mut last = 0;
            while last < 20_000 {
                let Some(read) = ours.reported() else { continue };
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
            assert_eq!(Mapped::open(&path).unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
    }
}
