//! The processes that the engine works for: their threads, mappings and the nodes their threads run on.

use crate::host::Host;
use homing_core::ids::Node;
use homing_core::process::{ProcessId, ThreadId};
use homing_linux::hint_faults;
use homing_linux::hint_faults::shared::Range;
use homing_linux::proc::maps::Mapping;
use homing_linux::proc::sharing::same_memory;
use homing_linux::proc::task::Stat;
use homing_linux::proc::{cgroup_processes, Pid, Proc, ProcError, Program, Tid};
use homing_linux::ptrace;
use homing_session::input::ThreadSeen;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Which processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// These, and with `children` all that they start.
    Processes {
        /// The processes.
        pids: Vec<Pid>,
        /// Whether what they start belongs to them.
        children: bool,
    },
    /// All in a cgroup and below it.
    Cgroup(PathBuf),
}

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its name.
    pub name: String,
    /// The node where it was at the last look.
    pub node: Option<Node>,
    /// CPU time in ticks.
    pub cpu_ticks: u64,
}

/// A process.
#[derive(Clone, Debug)]
pub struct Process {
    /// Its command line, when it was first seen.
    pub command: String,
    /// When it started, in clock ticks: with the number and the program, its identity.
    pub start_ticks: u64,
    /// What it executes; `None` if the kernel did not say.
    program: Option<Program>,
    /// Its mappings, by address.
    pub maps: Vec<Mapping>,
    /// Its threads.
    pub tasks: BTreeMap<Tid, Task>,
    /// Pages that it had in memory at the last look.
    pub resident_pages: u64,
    /// Nodes whose memory it may use, the kernel's numbers; empty if the kernel does not say.
    pub memories: Vec<u32>,
    /// True if this user may trace it: only then is anything done to it.
    pub ours: bool,
}

/// What [`Targets::look`] found.
#[derive(Debug, Default)]
pub struct Changes {
    /// New threads, by order of appearance.
    pub new_tasks: Vec<(Pid, Tid)>,
    /// Threads that are new, ran since the last look, or are on another node than then.
    pub threads: Vec<ThreadSeen>,
    /// Threads that ended in processes that go on.
    pub ended_tasks: Vec<(Pid, Tid)>,
    /// Processes that began.
    pub begun: Vec<Pid>,
    /// Processes that ended or executed another program: all that was known of them is void.
    pub ended: Vec<Pid>,
    /// Processes whose mappings changed.
    pub remapped: Vec<Pid>,
    /// Processes that may use the memory of other nodes than before.
    pub allowed: Vec<Pid>,
}

/// The processes.
#[derive(Debug)]
pub struct Targets {
    proc: Proc,
    choice: Choice,
    processes: BTreeMap<Pid, Process>,
    /// Processes that this user may not trace, met so far.
    denied: BTreeSet<Pid>,
    /// All descend from one that this program starts.
    started_here: bool,
    /// Helpers of hint faults, each with the process whose memory it shares.
    helpers: BTreeMap<Pid, Pid>,
    /// Ranges of shared memory that scans mark, each with all that map it.
    shared: Vec<Vec<(Pid, Range)>>,
    /// Looks so far.
    looks: u64,
}

impl Targets {
    /// Nothing looked at yet.
    pub fn new(proc: Proc, choice: Choice) -> Targets {
        let started_here = matches!(&choice, Choice::Processes { pids, children: true } if pids.is_empty());
        Targets {
            proc,
            choice,
            processes: BTreeMap::new(),
            denied: BTreeSet::new(),
            started_here,
            helpers: BTreeMap::new(),
            shared: Vec::new(),
            looks: 0,
        }
    }

    /// True if all processes descend from one that this program starts, and so have inherited its memory policy, unless
    /// they chose another one.
    pub fn started_here(&self) -> bool {
        self.started_here
    }

    /// These helpers work for us, each in the memory of another process. They may outlive that.
    pub fn know_helpers(&mut self, helpers: Vec<(Pid, Pid)>) {
        let proc = &self.proc;
        self.helpers.retain(|&helper, _| {
            proc.stat(helper, Tid(helper.0)).is_ok_and(|stat| stat.name == hint_faults::SCANNER_NAME)
        });
        self.helpers.extend(helpers);
    }

    /// True for a helper of ours whose process has ended, or executes another program, a moment ago: it still has the
    /// memory that nobody else has. It is in a list of ours, or carries a mark from its start.
    pub fn outlives(&self, helper: Pid) -> bool {
        let named = |stat: Stat| stat.name == hint_faults::SCANNER_NAME;
        self.proc.stat(helper, Tid(helper.0)).is_ok_and(named)
            && (self.helpers.contains_key(&helper) || hint_faults::preload::is_ours(&self.proc, helper))
    }

    /// Scans mark these ranges of shared memory, which the kernel does not mark by itself. Each comes with all that map
    /// it, and is marked in one of them.
    pub fn mark_shared(&mut self, ranges: Vec<Vec<(Pid, Range)>>) {
        self.shared = ranges;
    }

    /// The ranges of shared memory that scans mark, each with all that map it.
    pub fn shared(&self) -> &[Vec<(Pid, Range)>] {
        &self.shared
    }

    /// Takes one more process into a choice of processes.
    pub fn add(&mut self, pid: Pid) {
        if let Choice::Processes { pids, .. } = &mut self.choice {
            pids.push(pid);
        }
    }

    /// True if a process may use the memory of other nodes now than at the last look.
    pub fn may_use_others(&self, pid: Pid) -> bool {
        self.processes.get(&pid).is_some_and(|process| memories(&self.proc, pid) != process.memories)
    }

    /// How often [`Targets::look`] was called.
    pub fn looks(&self) -> u64 {
        self.looks
    }

    /// The processes that are there.
    pub fn processes(&self) -> &BTreeMap<Pid, Process> {
        &self.processes
    }

    /// The proc file system.
    pub fn proc(&self) -> &Proc {
        &self.proc
    }

    /// Processes that this user may not trace.
    pub fn denied(&self) -> &BTreeSet<Pid> {
        &self.denied
    }

    /// True for an access of a process of ours.
    pub fn contains(&self, pid: Pid) -> bool {
        self.processes.get(&pid).is_some_and(|process| process.ours)
    }

    /// Looks at everything anew.
    ///
    /// # Errors
    /// If the cgroup cannot be read. Processes that end meanwhile are no error, nor is a cgroup that is removed after
    /// the first look.
    pub fn look(&mut self, host: &Host) -> Result<Changes, ProcError> {
        self.looks += 1;
        let mut changes = Changes::default();
        let wanted = self.wanted()?;
        let gone: Vec<Pid> = self.processes.keys().filter(|pid| !wanted.contains(pid)).copied().collect();
        for pid in gone {
            self.processes.remove(&pid);
            changes.ended.push(pid);
        }
        for &pid in &wanted {
            if self.look_at(pid, &wanted, host, &mut changes).is_err()
                && self.processes.remove(&pid).is_some()
            {
                changes.ended.push(pid);
            }
        }
        Ok(changes)
    }

    /// True for a helper of hint faults, which is in the program's cgroup. It shares the memory of a process that is
    /// looked at, so that nothing of that is overlooked. The name alone, which anybody can take, hides nobody.
    fn is_helper(&self, pid: Pid, first: &Stat, wanted: &BTreeSet<Pid>) -> bool {
        if first.name != hint_faults::SCANNER_NAME {
            return false;
        }
        if let Some(&program) = self.helpers.get(&pid) {
            // Where the kernel does not tell, that we have made it.
            return same_memory(pid, program).is_none_or(|same| same && first.stack_start != 0);
        }
        // One of another session: it may outlive that for some seconds.
        let shows = |other: Pid| {
            let stat = self.proc.stat(other, Tid(other.0));
            stat.is_ok_and(|stat| stat.name != hint_faults::SCANNER_NAME && stat.may_share_memory(first))
        };
        wanted.iter().any(|&other| other != pid && same_memory(pid, other) == Some(true) && shows(other))
    }

    /// True if this is not the process that was known by the number: that has ended, or executes another program.
    fn is_another(&self, pid: Pid, first: &Stat) -> bool {
        let Some(known) = self.processes.get(&pid) else { return false };
        if known.start_ticks != first.start_ticks {
            return true;
        }
        match (known.program, self.proc.program(pid, first)) {
            (Some(before), Ok(now)) => before != now,
            // The first thread has ended, and others go on.
            _ => false,
        }
    }

    /// A process that was not known.
    fn meet(&mut self, pid: Pid, first: &Stat, ours: bool) -> Result<(), ProcError> {
        if ours {
            self.denied.remove(&pid);
        } else {
            self.denied.insert(pid);
        }
        let process = Process {
            command: self.proc.command(pid)?,
            start_ticks: first.start_ticks,
            program: self.proc.program(pid, first).ok(),
            maps: Vec::new(),
            tasks: BTreeMap::new(),
            resident_pages: 0,
            memories: Vec::new(),
            ours,
        };
        self.processes.insert(pid, process);
        Ok(())
    }

    fn wanted(&self) -> Result<BTreeSet<Pid>, ProcError> {
        match &self.choice {
            Choice::Cgroup(path) => match cgroup_processes(path) {
                // One that is removed while we look holds nobody any more.
                Err(ProcError::Gone { .. }) if self.looks > 1 => Ok(BTreeSet::new()),
                processes => Ok(processes?.into_iter().collect()),
            },
            Choice::Processes { pids, children } => {
                let mut wanted: BTreeSet<Pid> = pids.iter().copied().collect();
                if *children {
                    // What a process of ours started stays ours when its parent ends.
                    wanted.extend(self.processes.keys());
                    wanted = self.proc.with_descendants(wanted);
                }
                Ok(wanted)
            }
        }
    }

    fn look_at(
        &mut self,
        pid: Pid,
        wanted: &BTreeSet<Pid>,
        host: &Host,
        changes: &mut Changes,
    ) -> Result<(), ProcError> {
        let first = self.proc.stat(pid, Tid(pid.0))?;
        let ended = first.state == 'Z' && self.proc.tasks(pid)?.len() <= 1;
        if ended || self.is_helper(pid, &first, wanted) {
            return Err(ProcError::Gone { path: self.proc.path(pid, "stat") });
        }
        if self.is_another(pid, &first) {
            self.processes.remove(&pid);
            changes.ended.push(pid);
        }
        let gone = |_| ProcError::Gone { path: self.proc.path(pid, "mem") };
        // Between fork and exec of a program that belongs to somebody else a process may be denied for a moment.
        let denied = self.processes.get(&pid).is_some_and(|process| !process.ours);
        if denied && ptrace::may_trace(pid).map_err(gone)? {
            self.processes.remove(&pid);
            self.denied.remove(&pid);
        }
        if !self.processes.contains_key(&pid) {
            let ours = ptrace::may_trace(pid).map_err(gone)?;
            self.meet(pid, &first, ours)?;
            changes.begun.push(pid);
        }
        if self.contains(pid) {
            self.look_into(pid, &first, host, changes)?;
        }
        Ok(())
    }

    /// Looks at mappings and threads of a process of ours.
    fn look_into(
        &mut self,
        pid: Pid,
        first: &Stat,
        host: &Host,
        changes: &mut Changes,
    ) -> Result<(), ProcError> {
        let Some(process) = self.processes.get_mut(&pid) else { return Ok(()) };
        process.resident_pages = first.resident_pages;
        let maps = self.proc.maps(pid)?;
        if maps != process.maps {
            process.maps = maps;
            changes.remapped.push(pid);
        }
        let memories = memories(&self.proc, pid);
        if memories != process.memories {
            process.memories = memories;
            changes.allowed.push(pid);
        }
        let tids = self.proc.tasks(pid)?;
        process.tasks.retain(|tid, _| {
            let lives = tids.binary_search(tid).is_ok();
            changes.ended_tasks.extend((!lives).then_some((pid, *tid)));
            lives
        });
        for tid in tids {
            // A thread that ended in between is left out.
            let Ok(stat) = self.proc.stat(pid, tid) else { continue };
            let node = host.node_of_cpu(stat.processor);
            let mut new = false;
            let task = process.tasks.entry(tid).or_insert_with(|| {
                changes.new_tasks.push((pid, tid));
                new = true;
                Task { name: String::new(), node, cpu_ticks: 0 }
            });
            let ran = task.cpu_ticks != stat.cpu_ticks;
            if new || ran || task.node != node {
                let (process, thread) = (ProcessId(pid.0), ThreadId(tid.0));
                changes.threads.push(ThreadSeen { process, thread, node, ran });
            }
            *task = Task { name: stat.name, node, cpu_ticks: stat.cpu_ticks };
        }
        Ok(())
    }
}

/// The nodes whose memory a process may use; none if that cannot be known.
fn memories(proc: &Proc, pid: Pid) -> Vec<u32> {
    proc.status(pid).map(|status| status.memories).unwrap_or_default()
}

#[cfg(test)]
mod tests;
