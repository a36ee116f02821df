//! Processes as `/proc` shows them. The root is an argument, so tests run on snapshots. Processes and threads may end
//! between any two reads: that is [`ProcError::Gone`], never a failure.

pub mod maps;
pub mod numa_maps;
pub mod sharing;
pub mod symbols;
pub mod task;
pub mod vmstat;

use crate::fail::{self, Call};
use maps::Mapping;
use numa_maps::Range;
use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use task::{Confinement, Stat, Status, ThreadStatus};
use vmstat::VmStat;

/// A process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pid(pub i32);

/// A thread; the first of a process has the number of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tid(pub i32);

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Tid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A program that a process executes. Another `exec`, also of the same file, makes another one; a process that changes
/// its name or its command line keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// Device and inode of the file; `None` for who may not trace the process.
    file: Option<(u64, u64)>,
    /// Where the kernel put its stack: somewhere else each time, unless that is switched off (`setarch -R`).
    stack_start: u64,
}

/// Why `/proc` gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum ProcError {
    /// The process or thread has ended.
    #[error("{path}: the process has ended")]
    Gone {
        /// What was read.
        path: PathBuf,
    },
    /// The kernel refuses.
    #[error(
        "{path}: no permission: homing acts only on processes that this user may trace (same user, or \
    CAP_SYS_PTRACE)"
    )]
    Denied {
        /// What was read.
        path: PathBuf,
    },
    /// Another error.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file that says something else than expected.
    #[error("{path} says `{found}`: expected {expected}")]
    Content {
        /// The file.
        path: PathBuf,
        /// The line in question.
        found: String,
        /// What it should be.
        expected: &'static str,
    },
}

impl ProcError {
    /// True if the process or thread has ended.
    pub fn is_gone(&self) -> bool {
        matches!(self, ProcError::Gone { .. })
    }
}

/// A proc file system.
#[derive(Clone, Debug)]
pub struct Proc {
    root: PathBuf,
}

impl Default for Proc {
    fn default() -> Self {
        Proc::at("/proc")
    }
}

impl Proc {
    /// The one mounted (or stored) at `root`.
    pub fn at(root: impl Into<PathBuf>) -> Proc {
        Proc { root: root.into() }
    }

    /// A path below the directory of a process.
    pub fn path(&self, pid: Pid, file: &str) -> PathBuf {
        self.root.join(pid.to_string()).join(file)
    }

    /// All processes that are visible.
    pub fn processes(&self) -> Result<Vec<Pid>, ProcError> {
        Ok(numbers(&self.root)?.into_iter().map(Pid).collect())
    }

    /// The threads of a process, by number.
    pub fn tasks(&self, pid: Pid) -> Result<Vec<Tid>, ProcError> {
        Ok(numbers(&self.path(pid, "task"))?.into_iter().map(Tid).collect())
    }

    /// The processes that the threads of a process started and that still run. None if the kernel does not tell
    /// (CONFIG_PROC_CHILDREN) or the process has ended.
    pub fn children(&self, pid: Pid) -> Vec<Pid> {
        let tasks = self.tasks(pid).unwrap_or_default();
        let of_task = |tid: Tid| read(&self.path(pid, &format!("task/{tid}/children"))).unwrap_or_default();
        let lists: Vec<String> = tasks.into_iter().map(of_task).collect();
        lists
            .iter()
            .flat_map(|list| list.split_whitespace())
            .filter_map(|pid| pid.parse().ok().map(Pid))
            .collect()
    }

    /// These processes and all that they have started, directly or not.
    pub fn with_descendants(&self, mut pids: BTreeSet<Pid>) -> BTreeSet<Pid> {
        let mut open: Vec<Pid> = pids.iter().copied().collect();
        while let Some(pid) = open.pop() {
            open.extend(self.children(pid).into_iter().filter(|child| pids.insert(*child)));
        }
        pids
    }

    /// `stat` of a thread.
    pub fn stat(&self, pid: Pid, tid: Tid) -> Result<Stat, ProcError> {
        let path = self.path(pid, &format!("task/{tid}/stat"));
        let text = read(&path)?;
        Stat::parse(&text).ok_or_else(|| content(path, text.trim(), "the fields of proc_pid_stat(5)"))
    }

    /// `stat` of a process as a whole: CPU time of all its threads; name and CPU of the first.
    pub fn process_stat(&self, pid: Pid) -> Result<Stat, ProcError> {
        let path = self.path(pid, "stat");
        let text = read(&path)?;
        Stat::parse(&text).ok_or_else(|| content(path, text.trim(), "the fields of proc_pid_stat(5)"))
    }

    /// `status` of a thread.
    pub fn thread_status(&self, pid: Pid, tid: Tid) -> Result<ThreadStatus, ProcError> {
        let path = self.path(pid, &format!("task/{tid}/status"));
        let text = read(&path)?;
        ThreadStatus::parse(&text)
            .ok_or_else(|| content(path, text.trim(), "the fields of proc_pid_status(5)"))
    }

    /// The memory policy of a thread in the words of `numa_maps` (`default`, `local`, `bind:0-1`), which names it for
    /// each mapping that has none of its own, such as the first one, the program. `None` if it has ended, or the kernel
    /// has no NUMA.
    pub fn thread_policy(&self, pid: Pid, tid: Tid) -> Option<String> {
        // The kernel counts the pages of each mapping whose line begins in what is read.
        let mut begin = [0; 64];
        let mut file = File::open(self.path(pid, &format!("task/{tid}/numa_maps"))).ok()?;
        let read = file.read(&mut begin).ok()?;
        let line = std::str::from_utf8(&begin[..read]).ok()?;
        line.split_ascii_whitespace().nth(1).map(str::to_owned)
    }

    /// Where a thread may run, and where its process' memory may be.
    pub fn confinement(&self, pid: Pid, tid: Tid) -> Result<Confinement, ProcError> {
        Ok(Confinement::parse(&read(&self.path(pid, &format!("task/{tid}/status")))?))
    }

    /// The counters of `vmstat`.
    pub fn vmstat(&self) -> Result<VmStat, ProcError> {
        Ok(VmStat::parse(&read(&self.root.join("vmstat"))?))
    }

    /// Threads that run or wait for a CPU, of the whole machine, by `loadavg`.
    pub fn running(&self) -> Result<u64, ProcError> {
        let path = self.root.join("loadavg");
        let text = read(&path)?;
        let threads = text.split(' ').nth(3).and_then(|threads| threads.split('/').next()?.parse().ok());
        threads.ok_or_else(|| content(path, text.trim(), "the fields of proc_loadavg(5)"))
    }

    /// `status` of a process.
    pub fn status(&self, pid: Pid) -> Result<Status, ProcError> {
        let path = self.path(pid, "status");
        let text = read(&path)?;
        Status::parse(&text).ok_or_else(|| content(path, text.trim(), "the fields of proc_pid_status(5)"))
    }

    /// The mappings of a process, by address. Empty for a process that has just ended or a kernel thread.
    pub fn maps(&self, pid: Pid) -> Result<Vec<Mapping>, ProcError> {
        let path = self.path(pid, "maps");
        parse_lines(path, Mapping::parse, "lines of proc_pid_maps(5)")
    }

    /// Pages by node for each mapping; the kernel walks the page tables for it and faults nothing in.
    pub fn numa_maps(&self, pid: Pid) -> Result<Vec<Range>, ProcError> {
        let path = self.path(pid, "numa_maps");
        parse_lines(path, Range::parse, "lines of numa(7)'s /proc/PID/numa_maps")
    }

    /// As [`Proc::numa_maps`], with mappings that have no policy of their own showing that of this thread.
    pub fn numa_maps_of(&self, pid: Pid, tid: Tid) -> Result<Vec<Range>, ProcError> {
        let path = self.path(pid, &format!("task/{tid}/numa_maps"));
        parse_lines(path, Range::parse, "lines of numa(7)'s /proc/PID/numa_maps")
    }

    /// The memory policy of a thread, as the kernel writes it: what its first mapping shows, the program's text, which
    /// has no policy of its own. No more is read than that line: the kernel walks the pages of each mapping shown.
    pub fn policy(&self, pid: Pid, tid: Tid) -> Result<String, ProcError> {
        let path = self.path(pid, &format!("task/{tid}/numa_maps"));
        let line = first_line(&path)?;
        let range = Range::parse(line.trim_end());
        range
            .map(|range| range.policy)
            .ok_or_else(|| content(path, line.trim(), "lines of numa(7)'s /proc/PID/numa_maps"))
    }

    /// The program that a process executes, whatever it calls itself. `stat`: that of its first thread.
    ///
    /// # Errors
    /// [`ProcError::Gone`] also where the first thread has ended and others go on.
    pub fn program(&self, pid: Pid, stat: &Stat) -> Result<Program, ProcError> {
        let path = self.path(pid, "exe");
        let file = match fs::metadata(&path).map_err(|e| error(&path, e)) {
            Ok(facts) => Some((facts.dev(), facts.ino())),
            Err(ProcError::Denied { .. }) => None,
            Err(error) => return Err(error),
        };
        Ok(Program { file, stack_start: stat.stack_start })
    }

    /// The command line of a process, its arguments joined by blanks.
    pub fn command(&self, pid: Pid) -> Result<String, ProcError> {
        let text = read(&self.path(pid, "cmdline"))?;
        Ok(text.trim_end_matches('\0').replace('\0', " "))
    }
}

/// The processes in a cgroup and all below it.
pub fn cgroup_processes(cgroup: &Path) -> Result<Vec<Pid>, ProcError> {
    let path = cgroup.join("cgroup.procs");
    let text = read(&path)?;
    let pids: Option<Vec<Pid>> = text.lines().map(|line| line.trim().parse().ok().map(Pid)).collect();
    let mut pids = pids.ok_or_else(|| content(path, text.trim(), "one process a line"))?;
    let Ok(entries) = fs::read_dir(cgroup) else { return Ok(pids) };
    for entry in entries.flatten().filter(|entry| entry.path().join("cgroup.procs").exists()) {
        // A group that was removed in between holds nobody.
        pids.extend(cgroup_processes(&entry.path()).unwrap_or_default());
    }
    pids.sort_unstable();
    pids.dedup();
    Ok(pids)
}

fn parse_lines<T>(
    path: PathBuf,
    parse: fn(&str) -> Option<T>,
    expected: &'static str,
) -> Result<Vec<T>, ProcError> {
    let text = read(&path)?;
    let mut out = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        out.push(parse(line).ok_or_else(|| content(path.clone(), line, expected))?);
    }
    Ok(out)
}

fn content(path: PathBuf, found: &str, expected: &'static str) -> ProcError {
    ProcError::Content { path, found: found.chars().take(200).collect(), expected }
}

fn error(path: &Path, source: io::Error) -> ProcError {
    let path = path.to_owned();
    match source.raw_os_error() {
        Some(libc::ENOENT | libc::ESRCH | libc::ENODEV) => ProcError::Gone { path },
        Some(libc::EACCES | libc::EPERM) => ProcError::Denied { path },
        _ => ProcError::Read { path, source },
    }
}

/// Room for most files of `/proc`, in bytes.
const ROOM: usize = 8 << 10;

/// The first line of a file, read in small pieces; a process without memory has none in its `numa_maps`.
fn first_line(path: &Path) -> Result<String, ProcError> {
    const PIECE: usize = 128;
    fail::point(Call::Proc).map_err(|e| error(path, e))?;
    let mut line = Vec::new();
    let file = fs::File::open(path);
    let read = file.and_then(|file| BufReader::with_capacity(PIECE, file).read_until(b'\n', &mut line));
    match read.map_err(|e| error(path, e))? {
        0 => Err(ProcError::Gone { path: path.to_owned() }),
        _ => Ok(String::from_utf8_lossy(&line).into_owned()),
    }
}

fn read(path: &Path) -> Result<String, ProcError> {
    fail::point(Call::Proc).map_err(|e| error(path, e))?;
    // These files have no size. Asked for it, and begun with little room, reading one takes twice the calls.
    let mut bytes = Vec::with_capacity(ROOM);
    let read = fs::File::open(path).and_then(|file| file.take(u64::MAX).read_to_end(&mut bytes));
    read.map_err(|e| error(path, e))?;
    // Names of files and threads need not be UTF-8.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The entries of a directory that are numbers, sorted.
fn numbers(path: &Path) -> Result<Vec<i32>, ProcError> {
    fail::point(Call::Proc).map_err(|e| error(path, e))?;
    let mut numbers = Vec::new();
    for entry in fs::read_dir(path).map_err(|e| error(path, e))? {
        let entry = entry.map_err(|e| error(path, e))?;
        numbers.extend(entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_there() {
        let proc = Proc::default();
        let me = Pid(std::process::id() as i32);
        assert!(proc.processes().unwrap().contains(&me));
        assert!(proc.tasks(me).unwrap().contains(&Tid(me.0)));
        assert_eq!(proc.status(me).unwrap().tgid, me);
        let here = &proc as *const Proc as u64;
        let maps = proc.maps(me).unwrap();
        assert!(maps.iter().any(|m| (m.start..m.end).contains(&here) && m.write));
        assert!(!proc.command(me).unwrap().is_empty());
        let stat = proc.stat(me, Tid(me.0)).unwrap();
        assert!(stat.processor < 4096 && stat.start_ticks > 0);
        let program = proc.program(me, &stat).unwrap();
        assert!(program.file.is_some() && program.stack_start > 0);
    }

    #[test]
    fn processes_that_ended_are_gone_and_bad_files_are_named() {
        let root = tempfile::tempdir().unwrap();
        let proc = Proc::at(root.path());
        assert!(proc.maps(Pid(7)).unwrap_err().is_gone());
        fs::create_dir_all(root.path().join("7/task/8")).unwrap();
        fs::write(root.path().join("7/maps"), "nonsense\n").unwrap();
        fs::write(root.path().join("7/task/8/stat"), "8 (a").unwrap();
        let error = proc.maps(Pid(7)).unwrap_err().to_string();
        assert!(error.contains("7/maps says `nonsense`: expected lines of proc_pid_maps(5)"), "{error}");
        assert!(proc.stat(Pid(7), Tid(8)).is_err());
        assert_eq!(proc.tasks(Pid(7)).unwrap(), [Tid(8)]);
        assert_eq!(proc.processes().unwrap(), [Pid(7)]);
        fs::write(root.path().join("loadavg"), "0.20 0.18 0.12 3/80 11206\n").unwrap();
        assert_eq!(proc.running().unwrap(), 3);
        fs::write(root.path().join("loadavg"), "0.20 0.18\n").unwrap();
        assert!(proc.running().unwrap_err().to_string().contains("proc_loadavg(5)"));
    }

    #[test]
    fn cgroups_hold_what_is_below_them() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("inner")).unwrap();
        fs::write(root.path().join("cgroup.procs"), "9\n4\n").unwrap();
        fs::write(root.path().join("inner/cgroup.procs"), "5\n4\n").unwrap();
        assert_eq!(cgroup_processes(root.path()).unwrap(), [Pid(4), Pid(5), Pid(9)]);
        assert!(cgroup_processes(Path::new("/absent")).unwrap_err().is_gone());
    }
}
