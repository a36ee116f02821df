//! What a scheduler of jobs has changed, in a file that outlives it: groups of processes, CPUs, jobs that stand still.
//! Whoever ends it puts that back: the scheduler itself, or after a kill its guard, the next scheduler, or `homing
//! doctor --restore`. Jobs go on then, on all CPUs.

use homing_linux::allocation::{Given, Page};
use homing_linux::cgroup::Group;
use homing_linux::policy::set_affinity;
use homing_linux::private::{self, Left, Private, PrivateLock, Restored};
use homing_linux::proc::{Pid, Proc};
use homing_linux::topology::parse_list;
use homing_linux::visible;
use rustix::process::{kill_process, Signal};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Names of its files: this, the scheduler's process, and an ending.
const PREFIX: &str = "jobs-";
const ENDING: &str = ".state";
/// Rounds in which threads that began meanwhile are looked for.
const ROUNDS: u32 = 3;
/// Most time until a group is empty. One whose processes begin others faster than they can be moved stays, told.
const LEAVING: Duration = Duration::from_secs(2);

/// One thing to put back, as a line of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// The CPUs that all jobs may have.
    Cpus(Vec<u32>),
    /// The group that processes go back to.
    Home(PathBuf),
    /// A group whose groups had no CPUs of their own.
    Divided(PathBuf),
    /// A group that was made.
    Group(PathBuf),
    /// The page of a job, in the directory of the file.
    Page(String),
    /// A process with its start, in clock ticks since boot.
    Process(Pid, u64),
}

impl Line {
    fn text(&self) -> String {
        match self {
            Line::Cpus(cpus) => {
                let cpus: Vec<String> = cpus.iter().map(u32::to_string).collect();
                format!("cpus {}\n", cpus.join(","))
            }
            Line::Home(path) => format!("home {}\n", path.display()),
            Line::Divided(path) => format!("divided {}\n", path.display()),
            Line::Group(path) => format!("group {}\n", path.display()),
            Line::Page(name) => format!("page {name}\n"),
            Line::Process(pid, start) => format!("process {} {start}\n", pid.0),
        }
    }

    fn parse(line: &str) -> Option<Line> {
        let (kind, rest) = line.split_once(' ')?;
        let path = || Path::new(rest).is_absolute().then(|| PathBuf::from(rest));
        match kind {
            "cpus" => parse_list(rest).map(Line::Cpus),
            "home" => path().map(Line::Home),
            "divided" => path().map(Line::Divided),
            "group" => path().map(Line::Group),
            "page" => (!rest.contains('/') && rest.starts_with(PREFIX)).then(|| Line::Page(rest.into())),
            "process" => {
                let (pid, start) = rest.split_once(' ')?;
                Some(Line::Process(Pid(pid.parse().ok()?), start.parse().ok()?))
            }
            _ => None,
        }
    }
}

/// The file of a scheduler that runs. Dropping it puts everything back.
#[derive(Debug)]
pub struct Journal {
    lock: PrivateLock,
    name: String,
    lines: Vec<Line>,
}

impl Journal {
    /// Puts back what killed schedulers left, and begins a file in the user's own directory ([`private::standard`]).
    /// What cannot be put back is said, and keeps nobody from beginning.
    ///
    /// # Errors
    /// If the directory cannot be made.
    pub fn begin() -> io::Result<Journal> {
        Journal::begin_in(&private::standard())
    }

    fn begin_in(folder: &Path) -> io::Result<Journal> {
        for trouble in restore_in(folder)?.troubles {
            homing_linux::errln!("homing: what a killed scheduler left is not put back: {trouble}");
        }
        let name = format!("{PREFIX}{}", std::process::id());
        let lock = lock(Private::open(folder)?, &name)?;
        let journal = Journal { lock, name, lines: Vec::new() };
        journal.write()?;
        Ok(journal)
    }

    /// Notes what is about to be changed.
    ///
    /// # Errors
    /// If the file cannot be written: then nothing may be changed.
    pub fn note(&mut self, line: Line) -> io::Result<()> {
        self.lines.push(line);
        self.write()
    }

    /// As [`Journal::note`], for what is put back after all that was noted before.
    ///
    /// # Errors
    /// As there.
    pub fn note_first(&mut self, line: Line) -> io::Result<()> {
        self.lines.insert(0, line);
        self.write()
    }

    /// Forgets what need not be put back any more.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn forget(&mut self, gone: impl Fn(&Line) -> bool) -> io::Result<()> {
        self.lines.retain(|line| !gone(line));
        self.write()
    }

    /// The name of a page for a job, and its path.
    pub fn page(&self, job: u32) -> (String, PathBuf) {
        let name = format!("{}-{job}.page", self.name);
        let path = self.lock.directory().path(&name);
        (name, path)
    }

    /// Takes the page of a job away.
    ///
    /// # Errors
    /// If the file of the journal cannot be written.
    pub fn remove_page(&mut self, name: &str) -> io::Result<()> {
        let folder = self.lock.directory();
        if let Err(error) = folder.remove(name) {
            homing_linux::errln!(
                "homing: {}",
                folder.set_aside(name, &format!("not the page of a job ({error})"))
            );
        }
        self.forget(|line| matches!(line, Line::Page(other) if other == name))
    }

    /// The name of the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn write(&self) -> io::Result<()> {
        let text: String = self.lines.iter().map(Line::text).collect();
        self.lock.directory().write(&format!("{}{ENDING}", self.name), &text)
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        let folder = self.lock.directory();
        if let Err(error) =
            put_back(&self.lines, folder).and_then(|()| folder.remove(&format!("{}{ENDING}", self.name)))
        {
            homing_linux::errln!("homing: what was done for jobs could not be undone: {error}");
        }
    }
}

fn lock(folder: Private, name: &str) -> io::Result<PrivateLock> {
    let at_work = format!("{name} is at work");
    folder.lock(&format!("{name}.lock"), |_| at_work.clone())
}

/// Puts back what killed schedulers of this user left, and counts them. The file of one stays if something of it cannot
/// be put back; one that is not what was written there is moved aside.
///
/// # Errors
/// If the directory could be somebody else's.
pub fn restore() -> io::Result<Restored> {
    restore_in(&private::standard())
}

fn restore_in(folder: &Path) -> io::Result<Restored> {
    let mut all = Restored::default();
    for abandoned in private::abandoned(folder, PREFIX, ENDING)? {
        all.add(abandoned.and_then(|(lock, name)| restore_one(lock.directory(), &name)).map(u64::from));
    }
    Ok(all)
}

/// Puts back what one scheduler left, unless it still runs.
///
/// # Errors
/// As for [`restore`].
pub fn restore_of(name: &str) -> io::Result<bool> {
    let Some(private) = Private::there(&private::standard())? else { return Ok(false) };
    match lock(private, name) {
        Ok(lock) => restore_one(lock.directory(), name),
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Ok(false),
        Err(error) => Err(error),
    }
}

fn restore_one(folder: &Private, name: &str) -> io::Result<bool> {
    let file = format!("{name}{ENDING}");
    let mut known = Vec::new();
    let parse = |text: &str| {
        let mut strange = None;
        for line in text.lines() {
            match Line::parse(line) {
                Some(line) => known.push(line),
                None => strange = strange.or(Some(line)),
            }
        }
        strange.map_or(Ok(()), |line| Err(format!("`{}` is nothing that was written", visible::name(line))))
    };
    let left = folder.left(&file, parse)?;
    // What can be read is put back all the same: a job that stands still is waiting for it.
    let done = put_back(&known, folder);
    match left {
        Left::Nothing => Ok(false),
        Left::Whole(()) => done.and_then(|()| folder.remove(&file)).map(|()| true),
        Left::Aside(why) => {
            let rest = done.err().map_or(String::new(), |error| format!("; {error}"));
            Err(io::Error::new(io::ErrorKind::InvalidData, format!("{why}{rest}")))
        }
    }
}

/// Undoes everything, the last first. What is gone by now needs nothing.
fn put_back(lines: &[Line], folder: &Private) -> io::Result<()> {
    let cpus = lines.iter().find_map(|line| match line {
        Line::Cpus(cpus) => Some(cpus.as_slice()),
        _ => None,
    });
    let home = lines.iter().find_map(|line| match line {
        Line::Home(path) => Some(Group::at(path.clone())),
        _ => None,
    });
    let mut all = Ok(());
    for line in lines.iter().rev() {
        let done = match line {
            Line::Cpus(_) | Line::Home(_) => Ok(()),
            Line::Page(name) => release(folder, name, cpus.unwrap_or_default()),
            Line::Process(pid, start) => free(*pid, *start, cpus.unwrap_or_default()),
            Line::Group(path) => empty(&Group::at(path.clone()), home.as_ref(), cpus.unwrap_or_default()),
            Line::Divided(path) => Group::at(path.clone()).leave_cpus(),
        };
        all =
            all.and(
                done.or_else(
                    |error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) },
                ),
            );
    }
    all
}

/// Tells the library inside of a job that nobody schedules it any more, and removes the page. One that is no file of
/// this user's is moved aside.
fn release(folder: &Private, name: &str, cpus: &[u32]) -> io::Result<()> {
    let page = match folder.file(name) {
        Ok(Some(file)) => Page::of(file),
        Ok(None) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Err(io::Error::other(folder.set_aside(name, "not the page of a job")));
        }
        Err(error) => return Err(error),
    };
    let given =
        Given { change: page.change().wrapping_add(1), threads: 0, binds: false, cpus: cpus.to_vec() };
    page.give(&given).and(folder.remove(name))
}

/// Lets a process go on, on all CPUs.
fn free(pid: Pid, start: u64, cpus: &[u32]) -> io::Result<()> {
    let same = |pid: Pid| Proc::default().process_stat(pid).is_ok_and(|stat| stat.start_ticks == start);
    if !same(pid) {
        return Ok(());
    }
    let bound = bind(pid, cpus);
    continue_process(pid);
    bound
}

/// Lets a process that was stopped go on. One that has ended needs nothing.
fn continue_process(pid: Pid) {
    if let Some(pid) = rustix::process::Pid::from_raw(pid.0) {
        let _ = kill_process(pid, Signal::Cont);
    }
}

/// Lets all threads of a process run on these CPUs, also those that begin meanwhile.
///
/// # Errors
/// EPERM, EINVAL. A thread or process that has ended is none.
pub fn bind(pid: Pid, cpus: &[u32]) -> io::Result<()> {
    let mut bound = std::collections::BTreeSet::new();
    for _ in 0..ROUNDS {
        let tasks = Proc::default().tasks(pid).unwrap_or_default();
        let new: Vec<_> = tasks.into_iter().filter(|tid| bound.insert(*tid)).collect();
        if new.is_empty() {
            break;
        }
        for tid in new {
            match set_affinity(tid, cpus) {
                Err(error) if error.raw_os_error() != Some(rustix::io::Errno::SRCH.raw_os_error()) => {
                    return Err(error)
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Lets what is in a group go on, on all CPUs, and removes the group once its processes are back where they came from.
fn empty(group: &Group, home: Option<&Group>, cpus: &[u32]) -> io::Result<()> {
    if !group.path().exists() {
        return Ok(());
    }
    // Of a group that has no CPUs of its own none need be given back.
    let _ = group.set_cpus(&[]);
    let thawed = group.freeze(false);
    let begin = Instant::now();
    // A process that begins another meanwhile leaves that one behind, and one that ends is in its group for a moment.
    let removed = loop {
        for pid in group.processes().unwrap_or_default() {
            // One that has ended needs neither.
            let _ = bind(pid, cpus);
            if let Some(home) = home {
                let _ = home.take(pid);
            }
        }
        match group.remove() {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && begin.elapsed() < LEAVING => {
                std::thread::sleep(Duration::from_millis(2));
            }
            removed => break removed,
        }
    };
    let told =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", group.path().display()));
    thawed.and(removed).map_err(told)
}

#[cfg(test)]
mod tests {
    use super::*;
    use homing_linux::allocation::Mapped;
    use std::process::Command;

    /// How many schedulers left something that was put back, where nothing is broken.
    fn restored(folder: &Path) -> u64 {
        let Restored { count, troubles } = restore_in(folder).unwrap();
        assert!(troubles.is_empty(), "{troubles:?}");
        count
    }

    #[test]
    fn lines_read_as_they_were_written_and_nothing_else_is_taken() {
        for line in [
            Line::Cpus(vec![0, 3]),
            Line::Home("/a b/c".into()),
            Line::Divided("/a".into()),
            Line::Group("/a/g".into()),
            Line::Page("jobs-7-0.page".into()),
            Line::Process(Pid(7), 99),
        ] {
            assert_eq!(Line::parse(line.text().trim_end()), Some(line));
        }
        for bad in ["", "group a", "page ../x", "page x", "process 7", "cpus a", "sudo /x"] {
            assert_eq!(Line::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn what_a_killed_scheduler_left_is_put_back_once() {
        let folder = tempfile::tempdir().unwrap();
        let all = homing_linux::policy::affinity(homing_linux::proc::Tid(0)).unwrap();
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid(child.id() as i32);
        let start = Proc::default().process_stat(pid).unwrap().start_ticks;
        bind(pid, &all[..1]).unwrap();
        kill_process(rustix::process::Pid::from_child(&child), Signal::Stop).unwrap();
        let page = Page::create(&folder.path().join("jobs-1-0.page")).unwrap();
        page.give(&Given { change: 4, threads: 1, binds: true, cpus: all[..1].to_vec() }).unwrap();
        let theirs = Mapped::open(&folder.path().join("jobs-1-0.page")).unwrap();
        let lines = [Line::Cpus(all.clone()), Line::Page("jobs-1-0.page".into()), Line::Process(pid, start)];
        let text: String = lines.iter().map(Line::text).collect();
        Private::open(folder.path()).unwrap().write("jobs-1.state", &text).unwrap();

        assert_eq!(restored(folder.path()), 1);
        assert_eq!(homing_linux::policy::affinity(homing_linux::proc::Tid(pid.0)).unwrap(), all);
        let given = theirs.given().unwrap();
        assert_eq!((given.change, given.threads, given.binds, given.cpus), (5, 0, false, all));
        let begin = std::time::Instant::now();
        while Proc::default().process_stat(pid).unwrap().state == 'T' {
            assert!(begin.elapsed() < std::time::Duration::from_secs(20));
        }
        assert_eq!(restored(folder.path()), 0);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// The names in a directory.
    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_is_broken_is_moved_aside_and_keeps_nobody_from_the_rest() {
        let folder = tempfile::tempdir().unwrap();
        let (private, path) = (Private::open(folder.path()).unwrap(), |name: &str| folder.path().join(name));
        let all = homing_linux::policy::affinity(homing_linux::proc::Tid(0)).unwrap();
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid(child.id() as i32);
        bind(pid, &all[..1]).unwrap();
        let process = Line::Process(pid, Proc::default().process_stat(pid).unwrap().start_ticks);
        let cpus = Line::Cpus(all.clone()).text();
        // A line that nobody wrote, behind those of a job; a page that was cut, and one that is a directory.
        private.write("jobs-1.state", &format!("{cpus}{}group relative\n", process.text())).unwrap();
        std::fs::write(path("jobs-2-0.page"), "").unwrap();
        std::fs::create_dir(path("jobs-2-1.page")).unwrap();
        private.write("jobs-2.state", &format!("{cpus}page jobs-2-0.page\npage jobs-2-1.page\n")).unwrap();
        std::fs::create_dir(path("jobs-3.state")).unwrap();
        std::fs::create_dir(path("jobs-4.lock")).unwrap();
        private.write("jobs-4.state", &cpus).unwrap();
        private.write("jobs-5.state", &cpus).unwrap();

        let Restored { count, troubles } = restore_in(folder.path()).unwrap();
        assert_eq!((count, troubles.len()), (1, 4), "{troubles:?}");
        for part in [
            "jobs-1.state: `group relative` is nothing that was written; it is now",
            "jobs-2-1.page: not the page of a job; it is now",
            "jobs-3.state: not a file that homing wrote; it is now",
            "jobs-4.lock",
        ] {
            assert!(troubles.iter().any(|trouble| trouble.contains(part)), "{part}: {troubles:?}");
        }
        assert_eq!(homing_linux::policy::affinity(homing_linux::proc::Tid(pid.0)).unwrap(), all);
        let journal = Journal::begin_in(folder.path()).expect("nobody is kept from beginning");
        drop(journal);
        let left = [
            "jobs-1.state.broken-1",
            "jobs-2-1.page.broken-1",
            "jobs-3.state.broken-1",
            "jobs-4.lock",
            "jobs-4.state",
        ];
        assert_eq!(names(folder.path()), left);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn pages_that_a_job_took_away_or_exchanged_are_no_trouble() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::begin_in(folder.path()).unwrap();
        let (gone, exchanged) = (journal.page(0), journal.page(1));
        journal.note(Line::Page(gone.0.clone())).unwrap();
        journal.note(Line::Page(exchanged.0.clone())).unwrap();
        std::fs::create_dir(&exchanged.1).unwrap();
        journal.remove_page(&gone.0).unwrap();
        journal.remove_page(&exchanged.0).unwrap();
        assert_eq!(journal.lines, []);
        drop(journal);
        assert_eq!(names(folder.path()), [format!("{}.broken-1", exchanged.0)]);
    }

    #[test]
    fn the_file_of_a_scheduler_that_runs_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::begin_in(folder.path()).unwrap();
        journal.note(Line::Cpus(vec![0])).unwrap();
        assert_eq!(restored(folder.path()), 0);
        assert!(folder.path().join(format!("{}.state", journal.name())).exists());
        drop(journal);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
