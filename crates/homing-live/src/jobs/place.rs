//! Where jobs run: each in a group of the kernel's cgroup v2 where this user may make one, whose CPUs are set where the
//! kernel has the controller `cpuset` there; else CPUs are set thread by thread (`sched_setaffinity`), and a job is its
//! process group.

use super::journal::{bind, Journal, Line};
use homing_linux::cgroup::{self, Group};
use homing_linux::policy::{affinity, set_affinity};
use homing_linux::proc::{Pid, Proc, Tid};
use rustix::process::{kill_process, kill_process_group, Signal};
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command};

/// How CPUs are given to all jobs.
#[derive(Debug)]
pub struct Means {
    /// The group around those of jobs.
    base: Option<Group>,
    /// Groups have CPUs of their own.
    cpusets: bool,
    /// Why not better.
    lacks: Option<String>,
    /// CPUs of this process, which jobs may have.
    cpus: Vec<u32>,
}

/// Where one job runs.
#[derive(Debug)]
pub struct Place {
    group: Option<Group>,
    cpusets: bool,
    leader: Pid,
}

/// A group around jobs is below the root of the hierarchy, or below the group of this process.
fn make_base(journal: &mut Journal) -> Result<(Group, bool, Option<String>), String> {
    let mount = cgroup::mounted().ok_or("no cgroup v2 is mounted")?;
    let own = cgroup::own(&mount);
    let mut why = String::new();
    let fail = |error: io::Error| error.to_string();
    journal.note(Line::Home(own.clone())).map_err(fail)?;
    for around in [Group::at(mount), Group::at(own)] {
        let path = around.path().join(format!("homing-{}", journal.name()));
        journal.note(Line::Group(path.clone())).map_err(fail)?;
        match Group::create(path.clone()) {
            Ok(base) => {
                let divided = divide(&around, &base, journal);
                return Ok((base, divided.is_ok(), divided.err().map(|error| error.to_string())));
            }
            Err(error) => {
                journal.forget(|line| *line == Line::Group(path.clone())).map_err(fail)?;
                why = format!("{}: {error}", path.display());
            }
        }
    }
    Err(why)
}

/// Lets groups in `base` have CPUs of their own.
fn divide(around: &Group, base: &Group, journal: &mut Journal) -> io::Result<()> {
    if !around.divides_cpus() {
        // Put back after the group in it is gone, which is noted before.
        let line = Line::Divided(around.path().to_owned());
        journal.note_first(line.clone())?;
        if let Err(error) = around.divide_cpus() {
            journal.forget(|other| *other == line)?;
            return Err(error);
        }
    }
    base.divide_cpus()
}

impl Means {
    /// Finds out what this user may do here.
    ///
    /// # Errors
    /// If the journal cannot be written, or the CPUs of this process are not known.
    pub fn find(journal: &mut Journal) -> io::Result<Means> {
        let cpus = affinity(Tid(0))?;
        journal.note(Line::Cpus(cpus.clone()))?;
        Ok(match make_base(journal) {
            Ok((base, cpusets, lacks)) => Means { base: Some(base), cpusets, lacks, cpus },
            Err(why) => Means { base: None, cpusets: false, lacks: Some(why), cpus },
        })
    }

    /// CPUs that jobs may have.
    pub fn cpus(&self) -> &[u32] {
        &self.cpus
    }

    /// What to say of it.
    pub fn describe(&self) -> String {
        let lacks = self.lacks.as_deref().unwrap_or_default();
        match (&self.base, self.cpusets) {
            (Some(_), true) => "CPUs are set by cpusets of cgroup v2".into(),
            (Some(_), false) => {
                format!("CPUs are set thread by thread: this cgroup v2 has no cpusets ({lacks})")
            }
            (None, _) => {
                format!("CPUs are set thread by thread, and jobs are process groups: no cgroup v2 ({lacks})")
            }
        }
    }

    /// Starts a job on some CPUs. Its pages may be on some nodes only, if any are named; only groups with cpusets can
    /// see to that.
    ///
    /// # Errors
    /// What cannot be made, or started.
    pub fn start(
        &self,
        number: u32,
        mut command: Command,
        cpus: &[u32],
        memories: &[u32],
        journal: &mut Journal,
    ) -> io::Result<(Child, Place)> {
        let group = match &self.base {
            Some(base) => {
                Some(self.group(base.path().join(format!("job-{number}")), cpus, memories, journal)?)
            }
            None => None,
        };
        if let Some(group) = &group {
            homing_linux::child::enters(&mut command, &group.path().join("cgroup.procs"))?;
        }
        // The child has what this thread has when it begins.
        let bound = !self.cpusets;
        if bound {
            set_affinity(Tid(0), cpus)?;
        }
        let child = command.spawn();
        if bound {
            set_affinity(Tid(0), &self.cpus)?;
        }
        let child = child?;
        let leader = Pid(child.id() as i32);
        let start = Proc::default().process_stat(leader).map_or(0, |stat| stat.start_ticks);
        journal.note(Line::Process(leader, start))?;
        Ok((child, Place { group, cpusets: self.cpusets, leader }))
    }

    fn group(
        &self,
        path: PathBuf,
        cpus: &[u32],
        memories: &[u32],
        journal: &mut Journal,
    ) -> io::Result<Group> {
        journal.note(Line::Group(path.clone()))?;
        let group = Group::create(path)?;
        if self.cpusets {
            group.set_cpus(cpus)?;
            confine(&group, memories)?;
        }
        Ok(group)
    }
}

/// Lets the memory of a group be on some nodes only, if any are named.
fn confine(group: &Group, memories: &[u32]) -> io::Result<()> {
    if memories.is_empty() {
        return Ok(());
    }
    group.set_memories(memories)
}

fn number(pid: Pid) -> Option<rustix::process::Pid> {
    rustix::process::Pid::from_raw(pid.0)
}

impl Place {
    /// The processes of the job.
    pub fn processes(&self) -> Vec<Pid> {
        match &self.group {
            Some(group) => group.processes().unwrap_or_default(),
            None => {
                let all = Proc::default().processes().unwrap_or_default();
                all.into_iter().filter(|&pid| self.leads(pid)).collect()
            }
        }
    }

    /// True if a process is in the job's process group and has not ended.
    fn leads(&self, pid: Pid) -> bool {
        let stat = Proc::default().process_stat(pid);
        stat.is_ok_and(|stat| stat.group == self.leader.0 && stat.state != 'Z')
    }

    /// Gives it CPUs, and if any are named nodes for its pages.
    ///
    /// # Errors
    /// What the kernel gives; a process that has ended is none.
    pub fn give(&self, cpus: &[u32], memories: &[u32]) -> io::Result<()> {
        match self.group.as_ref().filter(|_| self.cpusets) {
            Some(group) => group.set_cpus(cpus).and_then(|()| confine(group, memories)),
            None => self.processes().into_iter().try_for_each(|pid| bind(pid, cpus)),
        }
    }

    /// Lets it stand still, or go on.
    ///
    /// # Errors
    /// If it is gone.
    pub fn pause(&self, still: bool) -> io::Result<()> {
        match &self.group {
            Some(group) => group.freeze(still),
            None => self.signal(if still { Signal::Stop } else { Signal::Cont }),
        }
    }

    /// Sends a signal to all of it.
    ///
    /// # Errors
    /// EPERM. A process that has ended is none.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        let gone_is_fine = |sent: rustix::io::Result<()>| match sent {
            Err(rustix::io::Errno::SRCH) | Ok(()) => Ok(()),
            Err(errno) => Err(io::Error::from(errno)),
        };
        match &self.group {
            Some(_) => self
                .processes()
                .into_iter()
                .filter_map(number)
                .try_for_each(|pid| gone_is_fine(kill_process(pid, signal))),
            None => {
                number(self.leader).map_or(Ok(()), |leader| gone_is_fine(kill_process_group(leader, signal)))
            }
        }
    }

    /// Microseconds of CPU time of all of it; `None` without a group.
    pub fn cpu_us(&self) -> Option<u64> {
        self.group.as_ref()?.cpu_us()
    }

    /// How many of its processes were killed since memory ran out, where the group counts.
    pub fn out_of_memory(&self) -> Option<u64> {
        self.group.as_ref()?.out_of_memory()
    }

    /// Takes its group away. It has no processes any more.
    ///
    /// # Errors
    /// If it cannot be removed, or the journal cannot be written.
    pub fn remove(&self, journal: &mut Journal) -> io::Result<()> {
        if let Some(group) = &self.group {
            group.remove()?;
        }
        let mine = |line: &Line| match line {
            Line::Process(pid, _) => *pid == self.leader,
            Line::Group(path) => self.group.as_ref().is_some_and(|group| group.path() == path),
            _ => false,
        };
        journal.forget(mine)
    }
}
