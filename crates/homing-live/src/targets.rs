//! The processes that the engine works for: their threads, mappings and the nodes their threads run on.

use crate::host::Host;
use homing_core::ids::{Node, Thread};
use homing_linux::hint_faults;
use homing_linux::proc::maps::Mapping;
use homing_linux::proc::{cgroup_processes, Pid, Proc, ProcError, Tid};
use homing_linux::ptrace;
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
    /// Its number in the session, by order of appearance.
    pub number: Thread,
    /// Its name.
    pub name: String,
    /// The node where it was two looks in a row: where it stays.
    pub node: Option<Node>,
    /// The node where it was at the last look.
    seen: Option<Node>,
    /// CPU time in ticks.
    pub cpu_ticks: u64,
}

/// A process.
#[derive(Clone, Debug)]
pub struct Process {
    /// Its command line.
    pub command: String,
    /// When it started, in clock ticks: with the number, its identity.
    pub start_ticks: u64,
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

/// A thread that stays on another node now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The thread.
    pub thread: Thread,
    /// Where it ran.
    pub from: Node,
    /// Where it runs.
    pub to: Node,
}

/// What [`Targets::look`] found.
#[derive(Debug, Default)]
pub struct Changes {
    /// New threads, by order of appearance.
    pub new_tasks: Vec<(Pid, Tid)>,
    /// Threads that moved and stayed (Nikolopoulos 2000, section 4: two constructs in a row; here two looks).
    pub moved: Vec<Moved>,
    /// Processes that began.
    pub begun: Vec<Pid>,
    /// Processes that ended or executed another program: all that was known of them is void.
    pub ended: Vec<Pid>,
    /// Processes whose mappings changed.
    pub remapped: Vec<Pid>,
    /// Processes that may use the memory of other nodes than before.
    pub allowed: Vec<Pid>,
}

impl Changes {
    /// True if nothing has changed.
    pub fn is_empty(&self) -> bool {
        let Changes { new_tasks, moved, begun, ended, remapped, allowed } = self;
        new_tasks.is_empty()
            && moved.is_empty()
            && begun.is_empty()
            && ended.is_empty()
            && remapped.is_empty()
            && allowed.is_empty()
    }
}

/// The processes.
#[derive(Debug)]
pub struct Targets {
    proc: Proc,
    choice: Choice,
    processes: BTreeMap<Pid, Process>,
    threads: u32,
    /// Processes that this user may not trace, met so far.
    denied: BTreeSet<Pid>,
    /// All descend from one that this program starts.
    started_here: bool,
}

impl Targets {
    /// Nothing looked at yet.
    pub fn new(proc: Proc, choice: Choice) -> Targets {
        let started_here = matches!(&choice, Choice::Processes { pids, children: true } if pids.is_empty());
        Targets {
            proc,
            choice,
            processes: BTreeMap::new(),
            threads: 0,
            denied: BTreeSet::new(),
            started_here,
        }
    }

    /// True if all processes descend from one that this program starts, and so have inherited its memory policy, unless they
    /// chose another one.
    pub fn started_here(&self) -> bool {
        self.started_here
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

    /// A thread that a look has found.
    pub fn task(&self, pid: Pid, tid: Tid) -> Option<&Task> {
        self.processes.get(&pid)?.tasks.get(&tid)
    }

    /// A thread stays on another node now, as was seen between two looks. None if it is not known, or was there.
    pub fn moved(&mut self, pid: Pid, tid: Tid, to: Node) -> Option<Moved> {
        let task = self.processes.get_mut(&pid)?.tasks.get_mut(&tid)?;
        task.seen = Some(to);
        let from = task.node.replace(to).filter(|&from| from != to)?;
        Some(Moved { thread: task.number, from, to })
    }

    /// Looks at everything anew.
    ///
    /// # Errors
    /// If the cgroup cannot be read. Processes that end meanwhile are no error.
    pub fn look(&mut self, host: &Host) -> Result<Changes, ProcError> {
        let mut changes = Changes::default();
        let wanted = self.wanted()?;
        let gone: Vec<Pid> = self.processes.keys().filter(|pid| !wanted.contains(pid)).copied().collect();
        for pid in gone {
            self.processes.remove(&pid);
            changes.ended.push(pid);
        }
        for pid in wanted {
            if self.look_at(pid, host, &mut changes).is_err() && self.processes.remove(&pid).is_some() {
                changes.ended.push(pid);
            }
        }
        Ok(changes)
    }

    fn wanted(&self) -> Result<BTreeSet<Pid>, ProcError> {
        match &self.choice {
            Choice::Cgroup(path) => Ok(cgroup_processes(path)?.into_iter().collect()),
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

    fn look_at(&mut self, pid: Pid, host: &Host, changes: &mut Changes) -> Result<(), ProcError> {
        let first = self.proc.stat(pid, Tid(pid.0))?;
        // The helpers of hint faults are in the program's cgroup, and share its memory.
        let helper = first.name == hint_faults::SCANNER_NAME;
        if helper || first.state == 'Z' && self.proc.tasks(pid)?.len() <= 1 {
            return Err(ProcError::Gone { path: self.proc.path(pid, "stat") });
        }
        let command = self.proc.command(pid)?;
        let known = self.processes.get(&pid);
        if known.is_some_and(|p| p.start_ticks != first.start_ticks || p.command != command) {
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
            if ours {
                self.denied.remove(&pid);
            } else {
                self.denied.insert(pid);
            }
            let process = Process {
                command,
                start_ticks: first.start_ticks,
                maps: Vec::new(),
                tasks: BTreeMap::new(),
                resident_pages: 0,
                memories: Vec::new(),
                ours,
            };
            self.processes.insert(pid, process);
            changes.begun.push(pid);
        }
        let Some(process) = self.processes.get_mut(&pid).filter(|process| process.ours) else {
            return Ok(());
        };
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
        process.tasks.retain(|tid, _| tids.binary_search(tid).is_ok());
        for tid in tids {
            // A thread that ended in between is left out.
            let Ok(stat) = self.proc.stat(pid, tid) else { continue };
            let now = host.node_of_cpu(stat.processor);
            let task = process.tasks.entry(tid).or_insert_with(|| {
                changes.new_tasks.push((pid, tid));
                let number = Thread(self.threads);
                self.threads += 1;
                Task { number, name: String::new(), node: now, seen: now, cpu_ticks: 0 }
            });
            // A thread that did not run since the last look is where it was.
            let ran = task.cpu_ticks != stat.cpu_ticks;
            (task.name, task.cpu_ticks) = (stat.name, stat.cpu_ticks);
            if let (Some(from), Some(to)) = (task.node, now) {
                if from != to && task.seen == now && ran {
                    task.node = now;
                    changes.moved.push(Moved { thread: task.number, from, to });
                }
            }
            task.node = task.node.or(now);
            task.seen = now;
        }
        Ok(())
    }
}

/// The nodes whose memory a process may use; none if that cannot be known.
fn memories(proc: &Proc, pid: Pid) -> Vec<u32> {
    proc.status(pid).map(|status| status.memories).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::tests::snapshot;
    use std::process::{Command, Stdio};

    fn look_until(targets: &mut Targets, host: &Host, done: impl Fn(&Targets) -> bool) -> Vec<Changes> {
        let mut all = Vec::new();
        for _ in 0..1000 {
            all.push(targets.look(host).unwrap());
            if done(targets) {
                return all;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        panic!("did not happen: {all:?}");
    }

    #[test]
    fn processes_begin_run_another_program_fork_and_end() {
        let (_sys, host) = snapshot(2);
        let mut command = Command::new("sh");
        command.args(["-c", "read a; sleep 100 & read b; kill $!; wait; exec cat"]).stdin(Stdio::piped());
        let mut child = command.stdout(Stdio::null()).spawn().unwrap();
        let pid = Pid(child.id() as i32);
        let mut input = child.stdin.take().unwrap();
        let mut say = |word: &[u8]| std::io::Write::write_all(&mut input, word).unwrap();
        let choice = Choice::Processes { pids: vec![pid], children: true };
        let mut targets = Targets::new(Proc::default(), choice);
        let shell = |t: &Targets| t.processes().get(&pid).is_some_and(|p| p.command.starts_with("sh "));
        look_until(&mut targets, &host, shell);
        assert!(targets.contains(pid) && targets.processes()[&pid].tasks.len() == 1);
        say(b"a\n");
        look_until(&mut targets, &host, |t| t.processes().values().any(|p| p.command == "sleep 100"));
        say(b"b\n");
        let cat = |t: &Targets| t.processes().len() == 1 && t.processes()[&pid].command == "cat";
        let changes = look_until(&mut targets, &host, cat);
        assert!(
            changes.iter().any(|change| change.ended.contains(&pid)),
            "another program is another process"
        );
        drop(input);
        look_until(&mut targets, &host, |t| t.processes().is_empty());
        child.wait().unwrap();
        assert!(targets.denied().is_empty());
    }

    #[test]
    fn a_cpuset_that_widens_is_a_change() {
        let (_sys, host) = snapshot(2);
        let root = tempfile::tempdir().unwrap();
        let me = Pid(std::process::id() as i32);
        let directory = root.path().join(format!("{me}/task/{me}"));
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(root.path().join(format!("{me}/cmdline")), "x\0").unwrap();
        std::fs::write(root.path().join(format!("{me}/maps")), "").unwrap();
        let stat = format!(
            "{me} (x) R 1 1 1 0 -1 0 0 0 0 0 1 0 0 0 20 0 1 0 5 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0"
        );
        std::fs::write(directory.join("stat"), stat).unwrap();
        let mut targets =
            Targets::new(Proc::at(root.path()), Choice::Processes { pids: vec![me], children: false });
        let mut look = |memories: &str| {
            let before = targets.may_use_others(me);
            let status = format!(
                "Name:\tx\nTgid:\t{me}\nPPid:\t1\nUid:\t0\t0\t0\t0\nMems_allowed_list:\t{memories}\n"
            );
            std::fs::write(root.path().join(format!("{me}/status")), status).unwrap();
            assert!(!before, "as at the last look");
            let noticed = targets.may_use_others(me);
            let changes = targets.look(&host).unwrap();
            (noticed, changes.allowed, targets.processes()[&me].memories.clone())
        };
        assert_eq!(look("0"), (false, vec![me], vec![0]), "nothing was known of it");
        assert_eq!(look("0"), (false, vec![], vec![0]));
        assert_eq!(look("0,2"), (true, vec![me], vec![0, 2]));
    }

    #[test]
    fn a_thread_counts_as_moved_when_it_stays() {
        let (_sys, host) = snapshot(2);
        let root = tempfile::tempdir().unwrap();
        let me = Pid(std::process::id() as i32);
        let directory = root.path().join(format!("{me}/task/{me}"));
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(root.path().join(format!("{me}/cmdline")), "x\0").unwrap();
        std::fs::write(root.path().join(format!("{me}/maps")), "").unwrap();
        let mut targets =
            Targets::new(Proc::at(root.path()), Choice::Processes { pids: vec![me], children: false });
        let mut ticks = 0;
        let mut look = |cpu: u32, runs: bool| {
            ticks += u32::from(runs);
            let stat = format!("{me} (x) R 1 1 1 0 -1 0 0 0 0 0 {ticks} 0 0 0 20 0 1 0 5 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 {cpu} 0");
            std::fs::write(directory.join("stat"), stat).unwrap();
            targets.look(&host).unwrap().moved
        };
        assert!(look(0, true).is_empty());
        assert!(look(2, true).is_empty(), "once is no move");
        assert!(look(1, true).is_empty(), "and it came back");
        assert!(look(3, true).is_empty());
        assert!(look(3, false).is_empty(), "did not run there again");
        assert_eq!(look(2, true), [Moved { thread: Thread(0), from: Node(0), to: Node(1) }]);
        assert!(look(2, true).is_empty());
    }
}
