//! One job that runs: its processes from begin to end, and what is counted of them.

use super::journal::{Journal, Line};
use super::place::{Means, Place};
use homing_linux::allocation::{Given, Page, Report};
use homing_linux::child::{cpu_of_ended, End};
use homing_linux::proc::{Pid, Proc, Tid};
use rustix::process::Signal;
use std::collections::HashMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

/// Time from being asked to end to being ended.
pub const GRACE: Duration = Duration::from_secs(5);

/// Time between two looks at what the kernel counts of threads: they read two files for each.
const COUNTED: Duration = Duration::from_secs(2);

/// What is asked for with a job.
#[derive(Debug)]
pub struct Launch {
    /// The program with its environment; it gets a process group of its own.
    pub command: Command,
    /// Its number.
    pub number: u32,
    /// Threads are bound to CPUs.
    pub binds: bool,
    /// Its number of threads follows its processors.
    pub follows: bool,
    /// Time after which it is terminated.
    pub limit: Option<Duration>,
}

/// CPUs and threads that a job gets.
#[derive(Clone, Debug)]
pub struct Gets {
    /// The number of the change.
    pub change: u64,
    /// CPUs, the kernel's numbers.
    pub cpus: Vec<u32>,
    /// Threads.
    pub threads: u32,
    /// The kernel moves its threads.
    pub shared: bool,
    /// Nodes on which its pages may be, the kernel's numbers; empty: all.
    pub memories: Vec<u32>,
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// The status of its first process.
    pub status: ExitStatus,
    /// It was terminated since it went on beyond its limit.
    pub over_limit: bool,
    /// Processes of it that the kernel killed since memory ran out; where groups do not count, of all of the machine.
    pub out_of_memory: u64,
    /// CPU time of all its processes; without a group, of those that were waited for.
    pub cpu: Duration,
    /// Times that its threads went to another CPU, as last seen of each; `None` where the kernel does not say.
    pub migrations: Option<u64>,
    /// Bursts of its threads, as last seen of each; `None` where the kernel does not say.
    pub bursts: Option<Bursts>,
}

/// Stretches in which a CPU ran a thread without a break.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bursts {
    /// How many.
    pub count: u64,
    /// How long all of them took.
    pub ran: Duration,
}

impl Bursts {
    /// Mean seconds of one.
    pub fn mean_s(self) -> f64 {
        self.ran.as_secs_f64() / (self.count as f64).max(1.0)
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Bursts) -> Bursts {
        Bursts { count: self.count + other.count, ran: self.ran + other.ran }
    }

    /// The first and the third number of `/proc/PID/task/TID/schedstat`: nanoseconds on a CPU, and how often it got
    /// one.
    fn parse(text: &str) -> Option<Bursts> {
        let numbers: Option<Vec<u64>> = text.split_whitespace().map(|word| word.parse().ok()).collect();
        match numbers?.as_slice() {
            &[ran, _, count] => Some(Bursts { count, ran: Duration::from_nanos(ran) }),
            _ => None,
        }
    }
}

/// A job that runs.
#[derive(Debug)]
pub struct Process {
    end: End,
    place: Place,
    page: Page,
    name: String,
    binds: bool,
    follows: bool,
    limit: Option<Instant>,
    asked_to_end: Option<Instant>,
    over_limit: bool,
    status: Option<(ExitStatus, Duration)>,
    paused: bool,
    oom_before: u64,
    migrations: HashMap<Tid, u64>,
    bursts: HashMap<Tid, Bursts>,
    /// When both were last counted.
    counted: Option<Instant>,
}

impl Process {
    /// Starts it.
    ///
    /// # Errors
    /// What cannot be made, or started.
    pub fn start(launch: Launch, gets: &Gets, means: &Means, journal: &mut Journal) -> io::Result<Process> {
        let (name, path) = journal.page(launch.number);
        journal.note(Line::Page(name.clone()))?;
        let page = Page::create(&path)?;
        let mut command = launch.command;
        command.process_group(0);
        command.env(homing_linux::allocation::PAGE_ENV, &path);
        page.give(&given(gets, launch.binds, launch.follows))?;
        let oom_before = killed_for_memory();
        let (child, place) = means.start(launch.number, command, &gets.cpus, &gets.memories, journal)?;
        let end = End::of(child).map_err(|(_, error)| error)?;
        let limit = launch.limit.map(|limit| Instant::now() + limit);
        let (binds, follows, migrations) = (launch.binds, launch.follows, HashMap::new());
        Ok(Process {
            end,
            place,
            page,
            name,
            binds,
            follows,
            limit,
            asked_to_end: None,
            over_limit: false,
            status: None,
            paused: false,
            oom_before,
            migrations,
            bursts: HashMap::new(),
            counted: None,
        })
    }

    /// Its first process.
    pub fn pid(&self) -> Pid {
        Pid(self.end.child().id() as i32)
    }

    /// What can be read once its first process has ended, if that has not been seen.
    pub fn ended(&self) -> Option<BorrowedFd<'_>> {
        self.status.is_none().then(|| self.end.ended())
    }

    /// Gives it other CPUs, and lets it go on.
    ///
    /// # Errors
    /// What the kernel gives.
    pub fn give(&mut self, gets: &Gets) -> io::Result<()> {
        self.place.give(&gets.cpus, &gets.memories)?;
        self.page.give(&given(gets, self.binds, self.follows))?;
        self.pause(false)
    }

    /// Lets it stand still, or go on.
    ///
    /// # Errors
    /// What the kernel gives.
    pub fn pause(&mut self, still: bool) -> io::Result<()> {
        if std::mem::replace(&mut self.paused, still) == still {
            return Ok(());
        }
        self.place.pause(still)
    }

    /// What the library inside of it reports.
    pub fn reported(&self) -> Option<Report> {
        self.page.reported()
    }

    /// Asks all of it to end, by a signal; after [`GRACE`] it is ended.
    ///
    /// # Errors
    /// What the kernel gives.
    pub fn ask_to_end(&mut self, signal: Signal) -> io::Result<()> {
        self.asked_to_end.get_or_insert_with(Instant::now);
        self.place.signal(signal)?;
        // Who stands still takes no signal.
        self.pause(false)
    }

    /// Looks at it; how it ended, once the last of its processes has.
    ///
    /// # Errors
    /// What the kernel gives.
    pub fn poll(&mut self) -> io::Result<Option<Ending>> {
        if self.counted.is_none_or(|at| at.elapsed() >= COUNTED) {
            self.counted = Some(Instant::now());
            self.count_threads();
        }
        if self.limit.is_some_and(|limit| Instant::now() >= limit) {
            self.limit = None;
            self.over_limit = true;
            self.ask_to_end(Signal::Term)?;
        }
        if self.asked_to_end.is_some_and(|asked| asked.elapsed() >= GRACE) {
            self.place.signal(Signal::Kill)?;
        }
        if self.status.is_none() {
            let before = cpu_of_ended();
            self.status = self.end.status()?.map(|status| (status, cpu_of_ended() - before));
        }
        let Some((status, waited)) = self.status else { return Ok(None) };
        if !self.place.processes().is_empty() {
            return Ok(None);
        }
        let out_of_memory = match self.place.out_of_memory() {
            Some(killed) => killed,
            None if status.signal() == Some(Signal::Kill as i32) => killed_for_memory() - self.oom_before,
            None => 0,
        };
        let migrations = (!self.migrations.is_empty()).then(|| self.migrations.values().sum());
        let cpu = self.place.cpu_us().map_or(waited, Duration::from_micros);
        let bursts = self.bursts.values().copied().reduce(Bursts::plus);
        Ok(Some(Ending { status, over_limit: self.over_limit, out_of_memory, cpu, migrations, bursts }))
    }

    /// Takes away what was made for it. It has ended.
    ///
    /// # Errors
    /// What cannot be removed.
    pub fn remove(self, journal: &mut Journal) -> io::Result<()> {
        self.place.remove(journal)?;
        journal.remove_page(&self.name)
    }

    /// Its processes.
    pub fn processes(&self) -> Vec<Pid> {
        self.place.processes()
    }

    /// Pages of it at each node, by the kernel's numbers.
    pub fn pages(&self) -> HashMap<u32, u64> {
        pages_of(&self.place.processes())
    }

    fn count_threads(&mut self) {
        for pid in self.place.processes() {
            for tid in Proc::default().tasks(pid).unwrap_or_default() {
                if let Some(count) = migrations(pid, tid) {
                    self.migrations.insert(tid, count);
                }
                if let Some(bursts) = bursts(pid, tid) {
                    self.bursts.insert(tid, bursts);
                }
            }
        }
    }
}

/// Pages of processes at each node, by the kernel's numbers.
pub fn pages_of(pids: &[Pid]) -> HashMap<u32, u64> {
    let mut pages = HashMap::new();
    for &pid in pids {
        for range in Proc::default().numa_maps(pid).unwrap_or_default() {
            range.pages.iter().for_each(|(&node, &count)| *pages.entry(node).or_default() += count);
        }
    }
    pages
}

fn given(gets: &Gets, binds: bool, follows: bool) -> Given {
    Given {
        change: gets.change,
        threads: if follows { gets.threads } else { 0 },
        binds: binds && follows && !gets.shared,
        cpus: gets.cpus.clone(),
    }
}

/// Times that a thread went to another CPU.
fn migrations(pid: Pid, tid: Tid) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{}/task/{}/sched", pid.0, tid.0)).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("se.nr_migrations"))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// Bursts of a thread.
fn bursts(pid: Pid, tid: Tid) -> Option<Bursts> {
    Bursts::parse(&std::fs::read_to_string(format!("/proc/{}/task/{}/schedstat", pid.0, tid.0)).ok()?)
}

/// Processes of this machine that were killed since memory ran out.
fn killed_for_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/vmstat").unwrap_or_default();
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_are_read_as_the_kernel_writes_them() {
        let found = Bursts::parse("2000000000 59439 8\n").unwrap();
        assert_eq!((found.count, found.mean_s()), (8, 0.25));
        let both = found.plus(Bursts { count: 2, ran: Duration::from_secs(3) });
        assert_eq!((both.count, both.mean_s()), (10, 0.5));
        assert_eq!(
            (Bursts::parse(""), Bursts::parse("1 2 x"), Bursts::default().mean_s()),
            (None, None, 0.0)
        );
    }
}
