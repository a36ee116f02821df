//! Takes threads and pages of processes off a node, and gives the node back: dynamic partitions (Brock 2001, section 5).
//!
//! Threads go first: affinities are inherited and memory is allocated where threads run, so that afterwards nothing new lands
//! on the node but where a process asks for it by a memory policy of its own, which is counted and shown.

use crate::account::by_name;
use crate::host::Host;
use crate::mover::{Landed, Mover, Order};
use homing_core::ids::Node;
use homing_linux::move_pages::{self, PageStatus};
use homing_linux::policy::{affinity, set_affinity};
use homing_linux::proc::{Pid, Proc, Tid};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io;

const PAGE: u64 = 4096;

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
    /// Pages on the node that processes share or that belong to files: shown, not moved.
    pub pages_shared: u64,
    /// Mappings with a memory policy of their own that names nodes: new pages may still land on the node.
    pub mappings_with_policy: u64,
    /// Processes left alone because this user may not trace them.
    pub denied: u64,
}

impl Report {
    /// True if nothing of the processes is left on the node.
    pub fn complete(&self) -> bool {
        self.threads_left.is_empty()
            && self.pages_left.is_empty()
            && self.pages_shared == 0
            && self.denied == 0
    }
}

/// Moves threads and pages of `pids` off `node`. `remember` is given what affinities were before they are changed.
///
/// # Errors
/// Those of `remember`: the threads that it was last asked to remember are as they were.
pub fn evacuate<E>(
    host: &Host,
    proc: &Proc,
    pids: &BTreeSet<Pid>,
    node: Node,
    remember: &mut impl FnMut(Vec<Was>) -> Result<(), E>,
) -> Result<Report, E> {
    let mut report = Report::default();
    let mut left: BTreeMap<i32, u64> = BTreeMap::new();
    let mut moved: BTreeMap<Node, u64> = BTreeMap::new();
    for &pid in pids {
        if proc.tasks(pid).is_err() {
            continue; // it has ended
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
        for round in 1..=ROUNDS {
            let failed = move_pages_off(host, proc, pid, node, &mut moved);
            if failed.is_empty() || round == ROUNDS {
                failed.into_iter().for_each(|(errno, count)| *left.entry(errno).or_default() += count);
                break;
            }
        }
        look_at_the_rest(host, proc, pid, node, &mut report);
    }
    report.moved = moved.iter().map(|(&to, &pages)| [u64::from(host.kernel_id(to)), pages]).collect();
    report.pages_left = by_name(&left);
    Ok(report)
}

/// Takes the node's CPUs from every thread; one that had no others gets those of all other nodes. Returns how many moved,
/// and failures.
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

/// One round over the process's pages. Returns those that would not move, by error.
fn move_pages_off(
    host: &Host,
    proc: &Proc,
    pid: Pid,
    node: Node,
    moved: &mut BTreeMap<Node, u64>,
) -> BTreeMap<i32, u64> {
    let mut room: Vec<(Node, u64)> = (0..host.nodes())
        .map(|index| Node(index as u16))
        .filter(|&other| other != node)
        .map(|other| (other, host.room(other).unwrap_or(0)))
        .collect();
    let mut failed: BTreeMap<i32, u64> = BTreeMap::new();
    for pages in pages_on(host, proc, pid, node).chunks(move_pages::BATCH) {
        let bytes = pages.len() as u64 * PAGE;
        // Where most memory is free, so that pages that follow each other stay together and no node fills up.
        let Some((to, left)) =
            room.iter_mut().max_by_key(|(_, left)| *left).filter(|(_, left)| *left >= bytes)
        else {
            *failed.entry(ENOMEM).or_default() += pages.len() as u64;
            continue;
        };
        *left -= bytes;
        let to = *to;
        let order = |&address: &u64| Order { pid, to: host.kernel_id(to), address, tag: 0 };
        for (_, landed) in Mover::default().carry_out(pages.iter().map(order).collect()) {
            match landed {
                Landed::There => *moved.entry(to).or_default() += 1,
                Landed::Not(ENOENT | EFAULT | ESRCH) | Landed::Later => {} // gone meanwhile
                Landed::Not(errno) => *failed.entry(errno).or_default() += 1,
            }
        }
    }
    failed
}

const ENOENT: i32 = 2;
const ESRCH: i32 = 3;
const ENOMEM: i32 = 12;
const EFAULT: i32 = 14;

/// Addresses of the process's own pages on the node.
fn pages_on(host: &Host, proc: &Proc, pid: Pid, node: Node) -> Vec<u64> {
    let id = host.kernel_id(node);
    // Mappings that have nothing there need no look at each page; those that the kernel does not list are looked at.
    let elsewhere: BTreeSet<u64> = proc
        .numa_maps(pid)
        .unwrap_or_default()
        .into_iter()
        .filter(|range| !range.pages.contains_key(&id))
        .map(|range| range.start)
        .collect();
    let mut found = Vec::new();
    let mut statuses = Vec::new();
    for mapping in proc.maps(pid).unwrap_or_default() {
        if !mapping.class().movable() || elsewhere.contains(&mapping.start) {
            continue;
        }
        let addresses: Vec<u64> = (mapping.start..mapping.end).step_by(PAGE as usize).collect();
        if move_pages::query(pid, &addresses, &mut statuses).is_err() {
            return found; // it has ended
        }
        let here = |(_, &status): &(&u64, &i32)| PageStatus::from(status) == PageStatus::On(id);
        found.extend(addresses.iter().zip(&statuses).filter(here).map(|(&address, _)| address));
    }
    found
}

/// Counts what stays: shared pages, and policies that may bring new ones.
fn look_at_the_rest(host: &Host, proc: &Proc, pid: Pid, node: Node, report: &mut Report) {
    let id = host.kernel_id(node);
    let maps = proc.maps(pid).unwrap_or_default();
    for range in proc.numa_maps(pid).unwrap_or_default() {
        let names_nodes = |policy: &str| {
            policy.starts_with("bind") || policy.starts_with("interleave") || policy.starts_with("prefer")
        };
        report.mappings_with_policy += u64::from(names_nodes(&range.policy));
        let mapping = maps.iter().find(|mapping| mapping.start == range.start);
        if mapping.is_some_and(|mapping| !mapping.class().movable()) {
            report.pages_shared += range.pages.get(&id).copied().unwrap_or(0);
        }
    }
}

/// Gives threads the CPUs back that they had. Returns how many of them are still there.
///
/// # Errors
/// The first affinity that could not be set.
pub fn restore(proc: &Proc, were: &[Was]) -> io::Result<u64> {
    let mut restored = 0;
    // The oldest record of a thread is what it had before the first evacuation.
    for was in were.iter().rev() {
        let (pid, tid) = (Pid(was.pid), Tid(was.tid));
        if proc.stat(pid, tid).is_ok_and(|stat| stat.start_ticks == was.start_ticks) {
            set_affinity(tid, &was.cpus)?;
            restored += 1;
        }
    }
    Ok(restored)
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
        assert!(evacuate(&host, &proc, &pids, Node(0), &mut |_| Err("no room")).is_err());
        assert_eq!(affinity(Tid(pid.0)).unwrap(), before, "what cannot be remembered is not changed");
        let mut were = Vec::new();
        let mut remember = |more: Vec<Was>| -> Result<(), std::convert::Infallible> {
            were.extend(more);
            Ok(())
        };
        let report = evacuate(&host, &proc, &pids, Node(0), &mut remember).unwrap();
        if others.is_empty() {
            assert_eq!((report.threads_moved, report.threads_left.len()), (0, 1), "nowhere to go");
        } else {
            assert_eq!((report.processes, report.threads_moved, were[0].cpus == before), (1, 1, true));
            assert_eq!(affinity(Tid(pid.0)).unwrap(), others);
            assert_eq!(restore(&proc, &were).unwrap(), 1);
        }
        assert_eq!(affinity(Tid(pid.0)).unwrap(), before);
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(restore(&proc, &were).unwrap(), 0, "who has ended needs nothing");
    }
}
