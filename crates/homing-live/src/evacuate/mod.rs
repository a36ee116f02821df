//! Takes threads and pages of processes off a node, and gives the node back: dynamic partitions (Brock 2001, section
//! 5).
//!
//! Threads go first: affinities are inherited and memory is allocated where threads run, so that afterwards nothing new
//! lands on the node but where a process asks for it by a memory policy of its own, which is counted and shown.

mod pages;

use crate::account::by_name;
use crate::host::Host;
use homing_core::ids::Node;
use homing_linux::policy::{affinity, set_affinity};
use homing_linux::proc::{Pid, Proc, Tid};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Rounds of looking for pages that are left: those that were touched or busy meanwhile are found by the next.
const ROUNDS: u32 = 3;

/// The CPUs that a thread had before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Was {
    /// The process.
    pub pid: i32,
    /// The thread.
    pub tid: i32,
    /// When it started, in clock ticks: a number that is used again is another thread.
    pub start_ticks: u64,
    /// Its CPUs.
    pub cpus: Vec<u32>,
}

impl Was {
    /// True if the thread has not ended. Another may have its number by then.
    pub(crate) fn is_there(&self, proc: &Proc) -> bool {
        let stat = proc.stat(Pid(self.pid), Tid(self.tid));
        stat.is_ok_and(|stat| stat.start_ticks == self.start_ticks)
    }
}

/// What was done, and what is left on the node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Processes looked at.
    pub processes: u64,
    /// Threads that run elsewhere now.
    pub threads_moved: u64,
    /// Threads that could not be moved, by name of the error.
    pub threads_left: BTreeMap<String, u64>,
    /// Pages moved, as [to, pages].
    pub moved: Vec<[u64; 2]>,
    /// Pages that would not move, by name of the error.
    pub pages_left: BTreeMap<String, u64>,
    /// Pages that a memory policy (`MPOL_BIND`) or a cpuset keeps on the node.
    pub pages_not_allowed: u64,
    /// Pages on the node that processes share or that belong to files: shown, not moved.
    pub pages_shared: u64,
    /// Mappings with a memory policy of their own that names nodes: new pages may still land on the node.
    pub mappings_with_policy: u64,
    /// Processes without memory of their own: kernel threads, and those that have ended.
    pub without_memory: u64,
    /// Processes left alone because this user may not trace them.
    pub denied: u64,
    /// Processes whose pages could not be looked for, by name of the error.
    pub unseen: BTreeMap<String, u64>,
}

impl Report {
    /// True if nothing of the processes is left on the node.
    pub fn complete(&self) -> bool {
        self.threads_left.is_empty()
            && self.pages_left.is_empty()
            && self.pages_not_allowed == 0
            && self.pages_shared == 0
            && self.denied == 0
            && self.unseen.is_empty()
    }
}

/// Nodes in the order in which the pages of a process go there that leave `node`: those with CPUs that its threads may
/// use, then the others; of both the nearest first, and of equally near ones that with most room.
fn nearest(host: &Host, proc: &Proc, pid: Pid, node: Node, to: &[Node]) -> Vec<Node> {
    let tasks = proc.tasks(pid).unwrap_or_default();
    let cpus: BTreeSet<u32> = tasks.into_iter().filter_map(|tid| affinity(tid).ok()).flatten().collect();
    let mut others = to.to_vec();
    let distances = host.distances_from(node);
    others.sort_by_cached_key(|&other| {
        let runs = host.cpus_of(other).iter().any(|cpu| cpus.contains(cpu));
        (!runs, distances.get(other.index()).copied(), std::cmp::Reverse(host.room(other)))
    });
    others
}

/// Moves threads and pages of `pids` off `node`, pages to those nodes of `to` that are nearest and where the threads
/// may run. `remember` is given what affinities were before they are changed.
///
/// # Errors
/// Those of `remember`: the threads that it was last asked to remember are as they were.
pub fn evacuate<E>(
    host: &Host,
    proc: &Proc,
    pids: &BTreeSet<Pid>,
    node: Node,
    to: &[Node],
    remember: &mut impl FnMut(Vec<Was>) -> Result<(), E>,
) -> Result<Report, E> {
    let mut report = Report::default();
    let (mut left, mut unseen) = (BTreeMap::new(), BTreeMap::new());
    let mut moved: BTreeMap<Node, u64> = BTreeMap::new();
    for &pid in pids {
        if proc.tasks(pid).is_err() {
            continue; // it has ended
        }
        if has_no_memory(proc, pid) {
            report.without_memory += 1;
            continue;
        }
        if !homing_linux::ptrace::may_trace(pid).unwrap_or(false) {
            report.denied += 1;
            continue;
        }
        report.processes += 1;
        let (threads, failed) = move_threads(host, proc, pid, node, remember)?;
        report.threads_moved += threads;
        for (name, count) in by_name(&failed) {
            *report.threads_left.entry(name).or_default() += count;
        }
        let to = nearest(host, proc, pid, node, to);
        for round in 1..=ROUNDS {
            let done = pages::Round::new(host, pid, node, &to, &mut moved).make(proc);
            if done.is_clean() || round == ROUNDS {
                report.pages_not_allowed += done.not_allowed;
                done.failed.into_iter().for_each(|(errno, count)| *left.entry(errno).or_default() += count);
                done.unseen.into_iter().for_each(|errno| *unseen.entry(errno).or_default() += 1);
                break;
            }
        }
        look_at_the_rest(host, proc, pid, node, &mut report);
    }
    report.moved = moved.iter().map(|(&to, &pages)| [u64::from(host.kernel_id(to)), pages]).collect();
    report.pages_left = by_name(&left);
    report.unseen = by_name(&unseen);
    Ok(report)
}

/// True for kernel threads, and for a process that has ended and was not waited for.
fn has_no_memory(proc: &Proc, pid: Pid) -> bool {
    let status = std::fs::read_to_string(proc.path(pid, "status"));
    status.is_ok_and(|status| !status.lines().any(|line| line.starts_with("VmSize:")))
}

/// Takes the node's CPUs from every thread; one that had no others gets those of all other nodes. Returns how many
/// moved, and failures.
fn move_threads<E>(
    host: &Host,
    proc: &Proc,
    pid: Pid,
    node: Node,
    remember: &mut impl FnMut(Vec<Was>) -> Result<(), E>,
) -> Result<(u64, BTreeMap<i32, u64>), E> {
    let here = host.cpus_of(node);
    let (mut moved, mut failed) = (0, BTreeMap::new());
    let mut seen = BTreeSet::new();
    // Threads that begin meanwhile inherit from one that may not have been reached yet: until nothing new is seen.
    loop {
        let tasks = proc.tasks(pid).unwrap_or_default();
        let new: Vec<Tid> = tasks.into_iter().filter(|tid| seen.insert(*tid)).collect();
        if new.is_empty() {
            return Ok((moved, failed));
        }
        let (mut were, mut wanted) = (Vec::new(), Vec::new());
        for tid in new {
            let Ok(stat) = proc.stat(pid, tid) else { continue };
            let Ok(cpus) = affinity(tid) else { continue };
            let mut rest: Vec<u32> = cpus.iter().copied().filter(|cpu| !here.contains(cpu)).collect();
            if rest.len() == cpus.len() {
                continue;
            }
            if rest.is_empty() {
                rest = host.cpus().into_iter().filter(|cpu| !here.contains(cpu)).collect();
            }
            were.push(Was { pid: pid.0, tid: tid.0, start_ticks: stat.start_ticks, cpus });
            wanted.push((tid, rest));
        }
        if !were.is_empty() {
            remember(were)?;
        }
        for (tid, cpus) in wanted {
            match set_affinity(tid, &cpus) {
                Ok(()) => moved += 1,
                Err(error) if proc.stat(pid, tid).is_err() => drop(error),
                Err(error) => *failed.entry(error.raw_os_error().unwrap_or(0)).or_default() += 1,
            }
        }
    }
}

/// Counts what stays: shared pages, and policies that may bring new ones.
fn look_at_the_rest(host: &Host, proc: &Proc, pid: Pid, node: Node, report: &mut Report) {
    let id = host.kernel_id(node);
    let maps = proc.maps(pid).unwrap_or_default();
    let stays: BTreeSet<u64> =
        maps.iter().filter(|mapping| !mapping.class().movable()).map(|mapping| mapping.start).collect();
    for range in proc.numa_maps(pid).unwrap_or_default() {
        let names_nodes = |policy: &str| {
            policy.starts_with("bind") || policy.starts_with("interleave") || policy.starts_with("prefer")
        };
        report.mappings_with_policy += u64::from(names_nodes(&range.policy));
        if stays.contains(&range.start) {
            report.pages_shared += range.pages.get(&id).copied().unwrap_or(0);
        }
    }
}

/// What came of giving threads their CPUs back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Restored {
    /// Threads that have them.
    pub threads: u64,
    /// Threads that have ended.
    pub ended: u64,
    /// Threads that could not be given them, by name of the error.
    pub failed: BTreeMap<String, u64>,
    /// ... and what they had, to try again.
    #[serde(skip)]
    pub left: Vec<Was>,
}

/// Gives threads the CPUs back that they had. One for which that fails keeps no other from having them.
pub fn restore(proc: &Proc, were: &[Was]) -> Restored {
    let mut restored = Restored::default();
    let (mut seen, mut failed) = (BTreeSet::new(), BTreeMap::new());
    // The oldest record of a thread is what it had before the first evacuation.
    for was in were.iter().filter(|was| seen.insert((was.pid, was.tid, was.start_ticks))) {
        let there = || was.is_there(proc);
        let set = if there() { set_affinity(Tid(was.tid), &was.cpus).map(|()| true) } else { Ok(false) };
        match set {
            Ok(true) => restored.threads += 1,
            Err(error) if there() => {
                *failed.entry(error.raw_os_error().unwrap_or(0)).or_default() += 1;
                restored.left.push(was.clone());
            }
            _ => restored.ended += 1,
        }
    }
    restored.failed = by_name(&failed);
    restored
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::tests::snapshot;
    use std::process::{Command, Stdio};

    #[test]
    fn threads_leave_the_node_and_come_back() {
        let proc = Proc::default();
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let pid = Pid(child.id() as i32);
        let before = affinity(Tid(pid.0)).unwrap();
        // A machine of one CPU a node: node 0 has the child's first CPU, node 1 (the kernel's 2) all others.
        let (sys, _) = snapshot(2);
        let list = |cpus: &[u32]| cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let others: Vec<u32> = before[1..].to_vec();
        let file = |node: u32| sys.path().join(format!("devices/system/node/node{node}/cpulist"));
        std::fs::write(file(0), list(&before[..1])).unwrap();
        std::fs::write(file(2), list(&others)).unwrap();
        let host = Host::read(sys.path()).unwrap();
        let pids = BTreeSet::from([pid]);
        assert!(evacuate(&host, &proc, &pids, Node(0), &[Node(1)], &mut |_| Err("no room")).is_err());
        assert_eq!(affinity(Tid(pid.0)).unwrap(), before, "what cannot be remembered is not changed");
        let mut were = Vec::new();
        let mut remember = |more: Vec<Was>| -> Result<(), std::convert::Infallible> {
            were.extend(more);
            Ok(())
        };
        let report = evacuate(&host, &proc, &pids, Node(0), &[Node(1)], &mut remember).unwrap();
        if others.is_empty() {
            assert_eq!((report.threads_moved, report.threads_left.len()), (0, 1), "nowhere to go");
        } else {
            assert_eq!((report.processes, report.threads_moved, were[0].cpus == before), (1, 1, true));
            assert_eq!(affinity(Tid(pid.0)).unwrap(), others);
            assert_eq!(restore(&proc, &were).threads, 1);
        }
        assert_eq!(affinity(Tid(pid.0)).unwrap(), before);
        drop(child.stdin.take());
        child.wait().unwrap();
        let restored = restore(&proc, &were);
        assert_eq!((restored.threads, restored.ended), (0, were.len() as u64), "who has ended needs nothing");
    }

    #[test]
    fn pages_go_to_the_nearest_nodes_where_their_threads_may_run() {
        let proc = Proc::default();
        let me = Pid(std::process::id() as i32);
        let mine = affinity(Tid(me.0)).unwrap();
        let list = |cpus: &[u32]| cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        // Nodes 1 and 3 have the CPUs of this process, the others those of nobody; node 2 is nearest and has most room.
        let (sys, _) = snapshot(4);
        let file = |node: u32, name: &str| sys.path().join(format!("devices/system/node/node{node}/{name}"));
        let half = mine.len() / 2;
        for (node, cpus) in [(0, "4000"), (2, &*list(&mine[..half])), (4, "4001"), (6, &*list(&mine[half..]))]
        {
            std::fs::write(file(node, "cpulist"), cpus).unwrap();
        }
        std::fs::write(file(0, "distance"), "10 30 15 20").unwrap();
        let host = Host::read(sys.path()).unwrap();
        let near = |host: &Host| {
            nearest(host, &proc, me, Node(0), &[Node(1), Node(2), Node(3)])
                .iter()
                .map(|node| node.0)
                .collect::<Vec<_>>()
        };
        assert_eq!(near(&host), if half == 0 { vec![3, 2, 1] } else { vec![3, 1, 2] });
        std::fs::write(file(0, "distance"), "10 20 20 20").unwrap();
        std::fs::write(file(2, "meminfo"), "Node 2 MemTotal: 4096 kB\nNode 2 MemFree:  2048 kB\n").unwrap();
        if half > 0 {
            assert_eq!(near(&Host::read(sys.path()).unwrap()), [1, 3, 2]);
        }
    }

    #[test]
    fn kernel_threads_are_no_processes_that_may_not_be_traced() {
        let root = tempfile::tempdir().unwrap();
        let proc = Proc::at(root.path());
        std::fs::create_dir_all(root.path().join("2/task/2")).unwrap();
        std::fs::write(root.path().join("2/status"), "Name:\tkthreadd\nThreads:\t1\n").unwrap();
        let (_sys, host) = snapshot(2);
        let mut remember = |_: Vec<Was>| -> Result<(), std::convert::Infallible> { Ok(()) };
        let report =
            evacuate(&host, &proc, &BTreeSet::from([Pid(2)]), Node(0), &[Node(1)], &mut remember).unwrap();
        assert_eq!((report.without_memory, report.denied, report.complete()), (1, 0, true));
    }

    #[test]
    fn threads_that_ended_or_refuse_keep_no_other_from_its_cpus() {
        let proc = Proc::default();
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let pid = child.id() as i32;
        let before = affinity(Tid(pid)).unwrap();
        let start_ticks = proc.stat(Pid(pid), Tid(pid)).unwrap().start_ticks;
        let me = std::process::id() as i32;
        let mine = proc.stat(Pid(me), Tid(me)).unwrap().start_ticks;
        // No machine has this CPU: the thread is there, and what it had is refused.
        let refused = Was { pid: me, tid: me, start_ticks: mine, cpus: vec![4095] };
        let good = Was { pid, tid: pid, start_ticks, cpus: before.clone() };
        let later = Was { cpus: vec![4095], ..good.clone() };
        let another = Was { start_ticks: start_ticks + 1, ..good.clone() };
        let gone = Was { pid: i32::MAX, tid: i32::MAX, start_ticks: 1, cpus: before.clone() };
        set_affinity(Tid(pid), &before[..1]).unwrap();
        let were = [refused.clone(), gone, another, good, later];
        let restored = restore(&proc, &were);
        assert_eq!(affinity(Tid(pid)).unwrap(), before);
        assert_eq!((restored.threads, restored.ended), (1, 2));
        assert_eq!((restored.left, restored.failed["EINVAL"]), (vec![refused], 1));
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
