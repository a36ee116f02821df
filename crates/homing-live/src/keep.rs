//! Threads that are kept on a node (`--bind auto`): what they had is given back at the end, by the next engine after a
//! kill, or by `homing doctor --restore`. A thread that chose CPUs of its own meanwhile keeps its choice. Threads that
//! the engine displaced are sent back in the same way: kept, and let go at once.
//!
//! What a kept thread starts, its heirs, gets the CPUs that it had before as soon as it is seen, at the end, and after
//! a kill.

use crate::evacuate::{restore as give_back, Was};
use crate::heirs::{heir, heirs, with_heirs, Narrowed};
use crate::host::Host;
use homing_core::ids::Node;
use homing_core::process::ThreadId;
use homing_linux::policy::{affinity, set_affinity};
use homing_linux::private::{self, Left, Private, PrivateLock, Restored};
use homing_linux::proc::{Pid, Proc, Tid};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// CPUs of each node.
pub fn cpus(host: &Host) -> Vec<u32> {
    (0..host.nodes() as u16).map(|node| host.cpus_of(Node(node)).len() as u32).collect()
}

/// Names of the files: this, the engine's process and a number, and an ending.
const PREFIX: &str = "kept-";
const ENDING: &str = ".state";
/// Waits are measured over this time at least.
const OVER: Duration = Duration::from_secs(4);
/// A thread that waits for a larger share of its time is crowded, if a CPU that it had is idle for half of it.
const WAITS: f64 = 0.4;
const IDLE: f64 = 0.5;

/// A thread that is kept.
#[derive(Debug)]
struct Kept {
    was: Was,
    /// The CPUs that it has now.
    cpus: Vec<u32>,
    waited: Duration,
}

impl Kept {
    fn narrowed(&self) -> Narrowed<'_> {
        (&self.was, &self.cpus)
    }
}

/// The threads that are kept.
#[derive(Debug)]
pub struct Keeper {
    folder: PathBuf,
    /// The file, once a thread is kept.
    file: Option<(PrivateLock, String)>,
    kept: BTreeMap<Tid, Kept>,
    measured: Instant,
    idle: BTreeMap<u32, Duration>,
}

impl Default for Keeper {
    fn default() -> Keeper {
        Keeper::at(private::standard())
    }
}

impl Keeper {
    fn at(folder: PathBuf) -> Keeper {
        Keeper { folder, file: None, kept: BTreeMap::new(), measured: Instant::now(), idle: BTreeMap::new() }
    }

    /// Lets a thread run on these CPUs of a node only, of those that it has.
    ///
    /// # Errors
    /// EINVAL if it has none there or all of its own are there, ESRCH if it has ended, and if what it had cannot be
    /// remembered: nothing is changed.
    pub fn keep(&mut self, proc: &Proc, pid: Pid, tid: Tid, cpus: &[u32]) -> io::Result<()> {
        let had = affinity(tid)?;
        let cpus: Vec<u32> = had.iter().copied().filter(|cpu| cpus.contains(cpu)).collect();
        if cpus.is_empty() || cpus == had {
            return Err(Errno::INVAL.into());
        }
        let stat = proc.stat(pid, tid).map_err(|_| io::Error::from(Errno::SRCH))?;
        let was = Was { pid: pid.0, tid: tid.0, start_ticks: stat.start_ticks, cpus: had };
        let waited = waited(pid, tid).unwrap_or_default();
        self.kept.insert(tid, Kept { was, cpus: cpus.clone(), waited });
        let done = self.remember().and_then(|()| set_affinity(tid, &cpus));
        if done.is_err() {
            self.kept.remove(&tid);
        }
        done
    }

    /// Sends a thread to these CPUs of a node, of those that it has, and leaves it free to go elsewhere. One that
    /// sleeps does not go anywhere. One that is kept, or chose other CPUs itself, stays as it is.
    ///
    /// # Errors
    /// If what it had cannot be remembered: nothing is changed.
    pub fn send_back(&mut self, proc: &Proc, pid: Pid, tid: Tid, cpus: &[u32]) -> io::Result<()> {
        if self.kept.contains_key(&tid) {
            return Ok(());
        }
        match self.keep(proc, pid, tid, cpus) {
            Err(error) if is_not_ours(&error) => Ok(()),
            kept => kept.map(|()| self.let_go(proc, tid)),
        }
    }

    /// Gives a thread the CPUs back that it had.
    pub fn let_go(&mut self, proc: &Proc, tid: Tid) {
        self.give_back(proc, self.kept.keys().copied().filter(|kept| *kept == tid).collect());
    }

    /// ... all of them, and their heirs.
    pub fn end(&mut self, proc: &Proc) {
        restore_or_say(proc, &heirs(proc, &self.kept.values().map(Kept::narrowed).collect::<Vec<_>>()));
        self.give_back(proc, self.kept.keys().copied().collect());
    }

    /// Gives new threads that are heirs of kept ones the CPUs that those had.
    pub fn free_heirs(&self, proc: &Proc, new: &[(Pid, Tid)]) {
        if self.kept.is_empty() {
            return;
        }
        let parent = |pid: Pid| proc.status(pid).ok().map(|status| status.parent);
        let of = |&(pid, tid): &(Pid, Tid)| {
            let parent = if tid.0 == pid.0 { parent(pid) } else { None };
            let from = |kept: &&Kept| [Some(pid), parent].contains(&Some(Pid(kept.was.pid)));
            let kept: Vec<_> = self.kept.values().filter(from).map(Kept::narrowed).collect();
            heir(proc, pid, tid, &kept)
        };
        let new = new.iter().filter(|(_, tid)| !self.kept.contains_key(tid));
        restore_or_say(proc, &new.filter_map(of).collect::<Vec<_>>());
    }

    fn give_back(&mut self, proc: &Proc, threads: Vec<Tid>) {
        let kept = threads.iter().filter_map(|tid| self.kept.remove(tid).map(|kept| (*tid, kept)));
        let own =
            |(tid, kept): (Tid, Kept)| affinity(tid).is_ok_and(|now| now == kept.cpus).then_some(kept.was);
        restore_or_say(proc, &kept.filter_map(own).collect::<Vec<_>>());
        // What is left in the file is given back by whoever finds it, to no harm.
        let _ = self.remember();
    }

    /// The threads that have waited long for their CPUs since this was last asked, while a CPU that they had was idle.
    pub fn crowded(&mut self) -> BTreeSet<ThreadId> {
        let elapsed = self.measured.elapsed();
        if self.kept.is_empty() || elapsed < OVER {
            return BTreeSet::new();
        }
        self.measured = Instant::now();
        let idle = idle().unwrap_or_default();
        let share = |cpu: &u32| {
            let (now, before) = (idle.get(cpu)?, self.idle.get(cpu)?);
            Some(now.saturating_sub(*before).as_secs_f64() / elapsed.as_secs_f64())
        };
        let (mut crowded, before) = (BTreeSet::new(), self.kept.len());
        self.kept.retain(|tid, kept| {
            // A thread that has ended needs nothing back.
            let Some(waited) = waited(Pid(kept.was.pid), *tid) else { return false };
            let more = waited.saturating_sub(std::mem::replace(&mut kept.waited, waited));
            let others = kept.was.cpus.iter().filter(|cpu| !kept.cpus.contains(cpu));
            let waits = more.as_secs_f64() > WAITS * elapsed.as_secs_f64();
            if waits && others.filter_map(share).any(|share| share > IDLE) {
                crowded.insert(ThreadId(tid.0));
            }
            true
        });
        if self.kept.len() < before {
            // The file has more than it needs if it cannot be written, to no harm.
            let _ = self.remember();
        }
        self.idle = idle;
        crowded
    }

    /// Writes down what threads had. With none there is no file.
    fn remember(&mut self) -> io::Result<()> {
        if self.file.is_none() && !self.kept.is_empty() {
            static SESSIONS: AtomicU32 = AtomicU32::new(0);
            let number = SESSIONS.fetch_add(1, Ordering::Relaxed);
            let name = format!("{PREFIX}{}-{number}", std::process::id());
            let busy = format!("{name} is at work");
            let lock = Private::open(&self.folder)?.lock(&format!("{name}.lock"), |_| busy.clone())?;
            self.file = Some((lock, name));
        }
        let Some((lock, name)) = &self.file else { return Ok(()) };
        let (folder, file) = (lock.directory(), format!("{name}{ENDING}"));
        if self.kept.is_empty() {
            let _ = folder.remove(&format!("{name}.lock"));
            let removed = folder.remove(&file);
            self.file = None;
            return removed;
        }
        let were: Vec<&Was> = self.kept.values().map(|kept| &kept.was).collect();
        folder.write(&file, &serde_json::to_string(&were)?)
    }
}

/// Gives threads the CPUs back that they had, and says of how many that failed.
fn restore_or_say(proc: &Proc, were: &[Was]) {
    for (why, count) in give_back(proc, were).failed {
        homing_linux::errln!("homing: {count} threads that were kept on a node could not be let go: {why}");
    }
}

/// Gives threads that engines kept which were killed the CPUs back that they had, and counts them. A file that is not
/// what an engine wrote is moved aside; one whose threads refuse stays.
///
/// # Errors
/// If the directory could be somebody else's.
pub fn restore() -> io::Result<Restored> {
    restore_in(&private::standard())
}

fn restore_in(folder: &Path) -> io::Result<Restored> {
    let mut all = Restored::default();
    for abandoned in private::abandoned(folder, PREFIX, ENDING)? {
        all.add(abandoned.and_then(|(lock, name)| restore_one(lock.directory(), &name)));
    }
    Ok(all)
}

/// Gives the threads of one engine their CPUs back. Returns how many.
fn restore_one(folder: &Private, name: &str) -> io::Result<u64> {
    let file = format!("{name}{ENDING}");
    let parse = |text: &str| serde_json::from_str(text).map_err(|_| "not what homing wrote there".to_owned());
    let were: Vec<Was> = match folder.left(&file, parse)? {
        Left::Nothing => return Ok(0),
        Left::Whole(were) => were,
        Left::Aside(why) => return Err(io::Error::new(io::ErrorKind::InvalidData, why)),
    };
    let proc = Proc::default();
    let restored = give_back(&proc, &with_heirs(&proc, were));
    if let Some((why, count)) = restored.failed.first_key_value() {
        return Err(io::Error::other(format!("{count} threads that were kept on a node refuse: {why}")));
    }
    folder.remove(&file)?;
    folder.remove(&format!("{name}.lock"))?;
    Ok(restored.threads)
}

/// True if a thread could not be kept since it has ended, or chose its CPUs itself.
pub fn is_not_ours(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::SRCH | Errno::INVAL))
}

/// Time in which a thread could run and had no CPU (`schedstat`).
fn waited(pid: Pid, tid: Tid) -> Option<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?;
    Some(Duration::from_nanos(text.split_whitespace().nth(1)?.parse().ok()?))
}

/// Time in which each CPU was idle, from `/proc/stat`.
fn idle() -> io::Result<BTreeMap<u32, Duration>> {
    Ok(parse_idle(&std::fs::read_to_string("/proc/stat")?))
}

fn parse_idle(text: &str) -> BTreeMap<u32, Duration> {
    let line = |line: &str| {
        let mut words = line.strip_prefix("cpu")?.split_whitespace();
        let cpu = words.next()?.parse().ok()?;
        // user, nice, system, idle, iowait: in hundredths of a second, whatever the kernel's tick is.
        let ticks: u64 = words.skip(3).take(2).filter_map(|word| word.parse::<u64>().ok()).sum();
        Some((cpu, Duration::from_millis(10 * ticks)))
    };
    // The first line, "cpu ", has no number and sums up.
    text.lines().filter(|text| !text.starts_with("cpu ")).filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heirs::tests::Shell;
    use std::process::{Child, Command, Stdio};

    fn child() -> (Child, Pid, Vec<u32>) {
        let child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let pid = Pid(child.id() as i32);
        (child, pid, affinity(Tid(pid.0)).unwrap())
    }

    /// How many threads got their CPUs back, where nothing is broken.
    fn restored(folder: &Path) -> u64 {
        let Restored { count, troubles } = restore_in(folder).unwrap();
        assert!(troubles.is_empty(), "{troubles:?}");
        count
    }

    fn end(mut child: Child) {
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn a_thread_is_kept_and_let_go() {
        let (folder, proc) = (tempfile::tempdir().unwrap(), Proc::default());
        let mut keeper = Keeper::at(folder.path().join("homing"));
        let (child, pid, had) = child();
        let tid = Tid(pid.0);
        let einval = keeper.keep(&proc, pid, tid, &[4095]).unwrap_err();
        assert_eq!(einval.raw_os_error(), Some(Errno::INVAL.raw_os_error()));
        keeper.keep(&proc, pid, tid, &had[..1]).unwrap();
        assert_eq!(affinity(tid).unwrap(), had[..1]);
        assert_eq!(restored(&folder.path().join("homing")), 0, "its engine is at work");
        keeper.let_go(&proc, Tid(1));
        assert_eq!(affinity(tid).unwrap(), had[..1], "another one");
        keeper.send_back(&proc, pid, tid, &had).unwrap();
        assert_eq!(affinity(tid).unwrap(), had[..1], "it is kept");
        keeper.let_go(&proc, tid);
        assert_eq!(affinity(tid).unwrap(), had);
        keeper.send_back(&proc, pid, tid, &had[..1]).unwrap();
        assert_eq!(affinity(tid).unwrap(), had, "it is free");
        keeper.send_back(&proc, pid, Tid(i32::MAX), &had).unwrap();
        keeper.send_back(&proc, pid, tid, &[4095]).unwrap();
        assert_eq!(affinity(tid).unwrap(), had, "it may not run there");
        assert_eq!(std::fs::read_dir(folder.path().join("homing")).unwrap().count(), 0, "no file is left");
        keeper.keep(&proc, pid, tid, &had[..1]).unwrap();
        let own = had[had.len() - 1..].to_vec();
        set_affinity(tid, &own).unwrap();
        keeper.end(&proc);
        if had.len() > 1 {
            assert_eq!(affinity(tid).unwrap(), own, "its own choice");
        }
        end(child);
    }

    #[test]
    fn what_a_killed_engine_kept_is_let_go() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("homing");
        let (child, pid, had) = child();
        let mut keeper = Keeper::at(folder.clone());
        keeper.keep(&Proc::default(), pid, Tid(pid.0), &had[..1]).unwrap();
        // Its lock ends with it; the file stays.
        drop(keeper.file.take().unwrap());
        assert_eq!(restored(&folder), 1);
        assert_eq!(affinity(Tid(pid.0)).unwrap(), had);
        assert_eq!(restored(&folder), 0);
        // One that is broken is in nobody's way.
        keeper.keep(&Proc::default(), pid, Tid(pid.0), &had[..1]).unwrap();
        drop(keeper.file.take());
        let odd = Private::open(&folder).unwrap();
        odd.write(&format!("{PREFIX}0-0{ENDING}"), "words").unwrap();
        let Restored { count, troubles } = restore_in(&folder).unwrap();
        assert_eq!((count, affinity(Tid(pid.0)).unwrap()), (1, had));
        assert!(troubles.len() == 1 && troubles[0].contains(".broken-1"), "{troubles:?}");
        assert_eq!(restored(&folder), 0);
        end(child);
    }

    #[test]
    fn heirs_of_kept_threads_are_let_go() {
        let (folder, proc) = (tempfile::tempdir().unwrap(), Proc::default());
        let mut keeper = Keeper::at(folder.path().join("homing"));
        let mut shell = Shell::new();
        let (pid, tid) = (Pid(shell.id()), Tid(shell.id()));
        let had = affinity(tid).unwrap();
        keeper.keep(&proc, pid, tid, &had[..1]).unwrap();
        let heir = shell.start();
        let inherits = || affinity(Tid(heir)).unwrap();
        assert_eq!(inherits(), had[..1]);
        keeper.free_heirs(&proc, &[(pid, tid), (Pid(heir), Tid(heir))]);
        assert_eq!((inherits(), affinity(tid).unwrap()), (had.clone(), had[..1].to_vec()));

        // One that nobody has looked at before the engine is killed, and before it ends.
        set_affinity(Tid(heir), &had[..1]).unwrap();
        drop(keeper.file.take());
        assert_eq!(restored(&folder.path().join("homing")), 2);
        assert_eq!((inherits(), affinity(tid).unwrap()), (had.clone(), had.clone()));
        let mut keeper = Keeper::at(folder.path().join("homing"));
        keeper.keep(&proc, pid, tid, &had[..1]).unwrap();
        set_affinity(Tid(heir), &had[..1]).unwrap();
        keeper.end(&proc);
        assert_eq!((inherits(), affinity(tid).unwrap()), (had.clone(), had));
        shell.end();
    }

    #[test]
    fn idle_time_is_by_cpu() {
        let text = "cpu  9 9 9 900 9 0\ncpu0 1 2 3 400 50 6 7\ncpu11 0 0 0 7 0 0\nintr 5\n";
        let idle = parse_idle(text);
        assert_eq!(idle, BTreeMap::from([(0, Duration::from_millis(4500)), (11, Duration::from_millis(70))]));
        assert!(super::idle().unwrap().len() >= 2 && waited(Pid(1), Tid(1)).is_some());
    }
}
