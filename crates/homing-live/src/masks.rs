//! On which nodes the pages of a process may be: the masks of `MPOL_BIND`, of its mappings (`mbind`) and of its threads
//! (`set_mempolicy`, `numactl --membind`), and its cpuset, by which containers are confined. The kernel lets
//! `move_pages(2)` go against the first two, so that the movers ask here before each call.
//!
//! What the engine itself sets while it scans needs no exception: it names all nodes of the machine
//! (`homing_linux::hint_faults::shared`), and so keeps no page from any.

use crate::mover::{Landed, Order};
use homing_linux::proc::numa_maps::strict;
use homing_linux::proc::{Pid, Proc, ProcError};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Nodes that a mask names; `None`: all.
type Nodes = Option<Vec<u32>>;

fn allows(nodes: &Nodes, node: u32) -> bool {
    nodes.as_ref().is_none_or(|nodes| nodes.contains(&node))
}

/// What holds for memory without a policy of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct OfThreads {
    /// `Mems_allowed_list`.
    cpuset: Nodes,
    /// The masks of threads that have one. It is not known which thread has made a page.
    threads: Vec<Vec<u32>>,
}

impl OfThreads {
    /// Reads the policies of all threads. Also returns one thread that has memory, with its policy.
    fn read(proc: &Proc, pid: Pid) -> Result<(OfThreads, homing_linux::proc::Tid, String), ProcError> {
        let memories = proc.status(pid)?.memories;
        let (mut threads, mut first) = (Vec::new(), None);
        for tid in proc.tasks(pid)? {
            let policy = match proc.policy(pid, tid) {
                Ok(policy) => policy,
                Err(error) if error.is_gone() => continue, // it has ended
                Err(error) => return Err(error),
            };
            threads.extend(strict(&policy).filter(|nodes| !threads.contains(nodes)));
            first.get_or_insert((tid, policy));
        }
        let path = || proc.path(pid, "numa_maps");
        let (tid, policy) = first.ok_or_else(|| ProcError::Gone { path: path() })?;
        let cpuset = Some(memories).filter(|nodes| !nodes.is_empty());
        Ok((OfThreads { cpuset, threads }, tid, policy))
    }

    fn allow(&self, node: u32) -> bool {
        allows(&self.cpuset, node) && self.threads.iter().all(|nodes| nodes.contains(&node))
    }
}

/// Where the pages of a process may be.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Masks {
    of_threads: OfThreads,
    /// First addresses of mappings, and the masks of those that have a policy of their own.
    mappings: Vec<(u64, Option<Nodes>)>,
}

impl Masks {
    fn read(proc: &Proc, pid: Pid) -> Result<Masks, ProcError> {
        let (of_threads, tid, policy) = OfThreads::read(proc, pid)?;
        // A mapping without a policy of its own shows that of the thread.
        let own = |shown: &str| (shown != policy).then(|| strict(shown));
        let ranges = proc.numa_maps_of(pid, tid)?;
        let mappings = ranges.into_iter().map(|range| (range.start, own(&range.policy))).collect();
        Ok(Masks { of_threads, mappings })
    }

    fn allow(&self, address: u64, node: u32) -> bool {
        let after = self.mappings.partition_point(|(start, _)| *start <= address);
        match after.checked_sub(1).and_then(|at| self.mappings[at].1.as_ref()) {
            Some(own) => allows(own, node) && allows(&self.of_threads.cpuset, node),
            None => self.of_threads.allow(node),
        }
    }
}

/// What reading gave, or the error number.
type Read<T> = Result<Arc<T>, i32>;

/// What was read of processes lately. It is read again after [`AGAIN`] times the time that it took, so that asking
/// takes a small part of the movers' time however much memory a process has.
#[derive(Debug)]
struct Recent<T>(BTreeMap<Pid, (Instant, Duration, Read<T>)>);

const AGAIN: u32 = 10;

impl<T> Recent<T> {
    fn get(&mut self, pid: Pid, read: impl FnOnce() -> Result<T, ProcError>) -> Read<T> {
        self.0.retain(|_, (at, took, _)| at.elapsed() <= *took * AGAIN);
        if let Some((_, _, known)) = self.0.get(&pid) {
            return known.clone();
        }
        let begin = Instant::now();
        let known = read().map(Arc::new).map_err(|error| errno(&error));
        self.0.insert(pid, (Instant::now(), begin.elapsed(), known.clone()));
        known
    }
}

fn errno(error: &ProcError) -> i32 {
    let errno = match error {
        ProcError::Gone { .. } => Errno::SRCH,
        ProcError::Denied { .. } => Errno::PERM,
        ProcError::Read { source, .. } => Errno::from_io_error(source).unwrap_or(Errno::IO),
        ProcError::Content { .. } => Errno::IO,
    };
    errno.raw_os_error()
}

/// The masks of the processes whose pages are moved.
#[derive(Debug)]
pub(crate) struct Known {
    proc: Proc,
    masks: Recent<Masks>,
    of_threads: Recent<OfThreads>,
    /// The processes that may share pages.
    sharers: Vec<Pid>,
}

impl Default for Known {
    fn default() -> Known {
        let (masks, of_threads) = (Recent(BTreeMap::new()), Recent(BTreeMap::new()));
        Known { proc: Proc::default(), masks, of_threads, sharers: Vec::new() }
    }
}

impl Known {
    /// Pages that are moved for all who map them must be allowed where they go to all of these.
    pub(crate) fn share(&mut self, sharers: Vec<Pid>) {
        self.sharers = sharers;
    }

    /// Which of these orders, all of one process and one right, must not be carried out, and what came of them.
    pub(crate) fn refused(&mut self, orders: &[Order]) -> Vec<Option<Landed>> {
        let Some(Order { pid, all, .. }) = orders.first().copied() else { return Vec::new() };
        let Known { proc, masks, of_threads, sharers } = self;
        let own = masks.get(pid, || Masks::read(proc, pid));
        let others = sharers.iter().filter(|&&other| all && other != pid);
        let others: Vec<Read<OfThreads>> = others
            .map(|&other| of_threads.get(other, || Ok(OfThreads::read(proc, other)?.0)))
            .filter(|read| !matches!(read, Err(errno) if *errno == Errno::SRCH.raw_os_error()))
            .collect();
        let refused = |order: &Order| match &own {
            Err(errno) => Some(Landed::Not(*errno)),
            Ok(own) if !own.allow(order.address, order.to) => Some(Landed::NotAllowed),
            Ok(_) => others.iter().find_map(|other| match other {
                Err(errno) => Some(Landed::Not(*errno)),
                Ok(other) => (!other.allow(order.to)).then_some(Landed::NotAllowed),
            }),
        };
        orders.iter().map(refused).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    /// A process: its cpuset, the policy of each thread, and mappings with a policy of their own (`None`: without).
    fn process(root: &Path, pid: i32, cpuset: &str, threads: &[&str], own: &[Option<&str>]) {
        let ids = format!("Name:\tx\nTgid:\t{pid}\nPPid:\t1\nUid:\t0\t0\t0\t0\n");
        for (place, thread) in threads.iter().enumerate() {
            let folder = root.join(format!("{pid}/task/{}", pid + place as i32));
            fs::create_dir_all(&folder).unwrap();
            let line = |(place, own): (usize, &Option<&str>)| {
                let start = 0x1_0000 * (place + 1);
                format!("{start:x} {} anon=1 N0=1 kernelpagesize_kB=4\n", own.unwrap_or(thread))
            };
            let maps: String = own.iter().enumerate().map(line).collect();
            fs::write(folder.join("numa_maps"), maps).unwrap();
        }
        fs::write(root.join(format!("{pid}/status")), format!("{ids}Mems_allowed_list:\t{cpuset}\n"))
            .unwrap();
    }

    fn order(pid: i32, address: u64, to: u32, all: bool) -> Order {
        Order { pid: Pid(pid), all, to, address, tag: 0 }
    }

    /// The nodes of four to which a page may go.
    fn open_to(known: &mut Known, pid: i32, address: u64, all: bool) -> Vec<u32> {
        let orders: Vec<Order> = (0..4).map(|to| order(pid, address, to, all)).collect();
        let refused = known.refused(&orders);
        assert!(refused.iter().flatten().all(|landed| *landed == Landed::NotAllowed), "{refused:?}");
        (0..4).filter(|to| refused[*to as usize].is_none()).collect()
    }

    #[test]
    fn pages_may_go_where_cpusets_threads_and_their_mapping_let_them() {
        let root = tempfile::tempdir().unwrap();
        let mappings = [None, Some("bind:2-3"), Some("prefer:0"), None, Some("bind=balancing:0-3")];
        process(root.path(), 10, "0-3", &["default", "local"], &mappings);
        process(root.path(), 20, "0-3", &["default", "bind:0-1", "bind=static:1-2"], &mappings);
        process(root.path(), 30, "0,2", &["bind:0-2", "interleave:1"], &mappings);
        process(root.path(), 40, "0-3", &["bind:0", "bind:1"], &mappings);
        let mut known = Known { proc: Proc::at(root.path()), ..Known::default() };
        let mut all = |pid: i32, place: u64| open_to(&mut known, pid, 0x1_0000 * (place + 1) + 0x1000, false);
        let each =
            |all: &mut dyn FnMut(i32, u64) -> Vec<u32>, pid| (0..5).map(|place| all(pid, place)).collect();
        let found: Vec<Vec<u32>> = each(&mut all, 10);
        assert_eq!(found, [&[0, 1, 2, 3][..], &[2, 3], &[0, 1, 2, 3], &[0, 1, 2, 3], &[0, 1, 2, 3]]);
        let found: Vec<Vec<u32>> = each(&mut all, 20);
        assert_eq!(found, [&[1][..], &[2, 3], &[0, 1, 2, 3], &[1], &[0, 1, 2, 3]]);
        let found: Vec<Vec<u32>> = each(&mut all, 30);
        assert_eq!(found, [&[0, 2][..], &[2], &[0, 2], &[0, 2], &[0, 2]]);
        let found: Vec<Vec<u32>> = each(&mut all, 40);
        assert_eq!(found, [&[][..], &[2, 3], &[0, 1, 2, 3], &[], &[0, 1, 2, 3]]);
    }

    #[test]
    fn what_several_map_may_go_where_all_of_them_allow_it_and_what_cannot_be_read_stays() {
        let root = tempfile::tempdir().unwrap();
        process(root.path(), 10, "0-3", &["default"], &[None]);
        process(root.path(), 20, "0-2", &["bind:1-3"], &[None]);
        process(root.path(), 30, "0-3", &["default"], &[None]);
        let mut known = Known { proc: Proc::at(root.path()), ..Known::default() };
        known.share(vec![Pid(10), Pid(20), Pid(99)]);
        assert_eq!(open_to(&mut known, 10, 0x1_1000, true), [1, 2]);
        assert_eq!(open_to(&mut known, 10, 0x1_1000, false), [0, 1, 2, 3]);
        fs::write(root.path().join("30/task/30/numa_maps"), "10000\n").unwrap();
        let refused = known.refused(&[order(30, 0x1_1000, 0, false)]);
        assert_eq!(refused, [Some(Landed::Not(Errno::IO.raw_os_error()))]);
        let gone = known.refused(&[order(99, 0x1_1000, 0, false)]);
        assert_eq!(gone, [Some(Landed::Not(Errno::SRCH.raw_os_error()))]);
    }
}
