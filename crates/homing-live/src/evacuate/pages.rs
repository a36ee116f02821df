//! Pages that leave a node: found in bounded pieces, so that what is only reserved costs nothing, and moved as they are
//! found.

use crate::host::Host;
use crate::mover::{Landed, Mover, Order};
use crate::movers::Movers;
use homing_core::ids::Node;
use homing_linux::move_pages::{self, PageStatus};
use homing_linux::pagemap::PageMap;
use homing_linux::proc::{Pid, Proc, Tid};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

const PAGE: u64 = 4096;

/// One round over a process's pages.
pub(super) struct Round<'a> {
    host: &'a Host,
    pid: Pid,
    node: Node,
    /// The other nodes, the best first, and bytes that they can still take.
    room: Vec<(Node, u64)>,
    movers: Movers,
    moved: &'a mut BTreeMap<Node, u64>,
    done: Done,
}

/// What came of a round.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Done {
    /// Pages that would not move, by error.
    pub(super) failed: BTreeMap<i32, u64>,
    /// Pages that must not leave the node.
    pub(super) not_allowed: u64,
    /// Why pages could not be looked for.
    pub(super) unseen: Option<i32>,
}

impl Done {
    /// True if nothing is left to be done.
    pub(super) fn is_clean(&self) -> bool {
        *self == Done::default()
    }
}

impl<'a> Round<'a> {
    /// A round that moves pages to the first of these nodes that may have them and has room, and adds to those `moved`
    /// to each.
    pub(super) fn new(
        host: &'a Host,
        pid: Pid,
        node: Node,
        to: &[Node],
        moved: &'a mut BTreeMap<Node, u64>,
    ) -> Round<'a> {
        let room = to.iter().map(|&other| (other, host.room(other).unwrap_or(0))).collect();
        Round { host, pid, node, room, movers: Movers::new(Mover::default()), moved, done: Done::default() }
    }

    /// Moves what is found.
    pub(super) fn make(mut self, proc: &Proc) -> Done {
        let (pid, id) = (self.pid, self.host.kernel_id(self.node));
        let mut waiting = Vec::new();
        let looked = pages_on(proc, pid, id, &mut |pages| {
            waiting.extend_from_slice(pages);
            while waiting.len() >= move_pages::BATCH {
                let batch: Vec<u64> = waiting.drain(..move_pages::BATCH).collect();
                self.send(&batch);
            }
        });
        self.send(&waiting);
        let errno = looked.err().map(|error| error.raw_os_error().unwrap_or(0));
        // One that has ended has no pages.
        let there = || proc.stat(pid, Tid(pid.0)).is_ok_and(|stat| !matches!(stat.state, 'Z' | 'X'));
        self.done.unseen = errno.filter(|_| there());
        self.done
    }

    /// Moves pages, each to the first node that has room and may have it.
    fn send(&mut self, pages: &[u64]) {
        let mut open = pages.to_vec();
        let mut not_allowed = Vec::new();
        for place in 0..self.room.len() {
            open.append(&mut not_allowed);
            let fits = (self.room[place].1 / PAGE).min(open.len() as u64) as usize;
            let now: Vec<u64> = open.drain(..fits).collect();
            not_allowed = self.send_to(place, &now);
        }
        self.done.not_allowed += not_allowed.len() as u64;
        if !open.is_empty() {
            *self.done.failed.entry(Errno::NOMEM.raw_os_error()).or_default() += open.len() as u64;
        }
    }

    /// Moves pages to the node at a place of the list, and returns those that must not go there.
    fn send_to(&mut self, place: usize, pages: &[u64]) -> Vec<u64> {
        let to = self.room[place].0;
        let (pid, id) = (self.pid, self.host.kernel_id(to));
        let order = |&address: &u64| Order { pid, to: id, address, tag: 0, all: false };
        let mut not_allowed = Vec::new();
        self.movers.send(pages.iter().map(order).collect(), None);
        self.movers.rest();
        for (order, landed) in self.movers.finished() {
            match landed {
                Landed::There => *self.moved.entry(to).or_default() += 1,
                Landed::Later => {}
                Landed::NotAllowed => not_allowed.push(order.address),
                Landed::Not(errno) => match Errno::from_raw_os_error(errno) {
                    Errno::NOENT | Errno::FAULT | Errno::SRCH => {} // gone meanwhile
                    _ => *self.done.failed.entry(errno).or_default() += 1,
                },
            }
        }
        self.room[place].1 -= (pages.len() - not_allowed.len()) as u64 * PAGE;
        not_allowed
    }
}

/// Gives `each` the addresses of the process's own pages on the node (the kernel's number), a few thousand at a time.
fn pages_on(proc: &Proc, pid: Pid, id: u32, each: &mut impl FnMut(&[u64])) -> io::Result<()> {
    // Mappings that have nothing there need no look at each page; those that the kernel does not list are looked at.
    let elsewhere: BTreeSet<u64> = proc
        .numa_maps(pid)
        .unwrap_or_default()
        .into_iter()
        .filter(|range| !range.pages.contains_key(&id))
        .map(|range| range.start)
        .collect();
    let page_map = PageMap::open(pid)?;
    let (mut pages, mut statuses) = (Vec::new(), Vec::new());
    for mapping in proc.maps(pid).unwrap_or_default() {
        if !mapping.class().movable() || elsewhere.contains(&mapping.start) {
            continue;
        }
        let mut at = mapping.start;
        while at < mapping.end {
            pages.clear();
            at = page_map.present(at, mapping.end, &mut pages)?;
            move_pages::query(pid, &pages, &mut statuses)?;
            let mut statuses = statuses.iter();
            pages.retain(|_| {
                statuses.next().is_some_and(|&status| PageStatus::from(status) == PageStatus::On(id))
            });
            each(&pages);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufRead;
    use std::process::{Command, Stdio};

    /// Reserves 1 TiB, touches four pages of it, and says where they are.
    const SPARSE: &str = "import ctypes,sys
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + 3 * [ctypes.c_int] + [ctypes.c_long]
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
size = 1 << 40
start = libc.mmap(None, size, 3, 0x4022, -1, 0)
libc.madvise(start, size, 15)
pages = [start, start + (size >> 1), start + (size >> 1) + 4096, start + size - 4096]
for page in pages: ctypes.c_char.from_address(page).value = 1
print(*pages, flush=True)
sys.stdin.read()
";

    #[test]
    fn the_few_pages_of_a_large_reservation_are_found_in_pieces() {
        let mut command = Command::new("python3");
        command.args(["-c", SPARSE]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let Ok(mut child) = command.spawn() else {
            eprintln!("SKIPPED: no python3");
            return;
        };
        let mut line = String::new();
        std::io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let touched: Vec<u64> = line.split_whitespace().map(|page| page.parse().unwrap()).collect();
        let (first, last) = (touched[0], touched[3]);
        let pid = Pid(child.id() as i32);
        let mut statuses = Vec::new();
        move_pages::query(pid, &touched, &mut statuses).unwrap();
        let mut found = Vec::new();
        let mut most = 0;
        for id in statuses.iter().map(|&status| u32::try_from(status).unwrap()).collect::<BTreeSet<_>>() {
            pages_on(&Proc::default(), pid, id, &mut |pages| {
                most = most.max(pages.len());
                found.extend(pages.iter().copied().filter(|page| (first..=last).contains(page)));
            })
            .unwrap();
        }
        found.sort_unstable();
        assert_eq!(found, touched);
        assert!(most <= 1 << 14, "{most} pages at once");
        child.kill().unwrap();
        child.wait().unwrap();
        let ended = pages_on(&Proc::default(), pid, 0, &mut |_| panic!("nothing is there"));
        assert!(ended.is_err());
    }

    #[test]
    fn what_would_not_move_and_what_could_not_be_seen_is_told() {
        let (_sys, host) = crate::host::tests::snapshot(2);
        let (mut moved, me) = (BTreeMap::new(), Pid(std::process::id() as i32));
        let mut round = Round::new(&host, me, Node(0), &[Node(1)], &mut moved);
        round.room[0].1 = 0;
        round.send(&[4096, 8192]);
        round.send(&[]);
        assert_eq!(round.done.failed, BTreeMap::from([(Errno::NOMEM.raw_os_error(), 2)]));
        assert!(!round.done.is_clean());
        // Where this machine has no such node no page of this process may be there.
        if !Proc::default().status(me).unwrap().memories.contains(&host.kernel_id(Node(1))) {
            let (mut moved, page) = (BTreeMap::new(), vec![1u8; 3 * 4096]);
            let inside = (page.as_ptr() as u64 + 4095) & !4095;
            let mut round = Round::new(&host, me, Node(0), &[Node(1)], &mut moved);
            round.send(&[inside, inside + 4096]);
            assert_eq!((round.done.not_allowed, round.done.failed.len()), (2, 0));
            assert_eq!(
                (round.room[0].1, round.moved.len()),
                (host.room(Node(1)).unwrap(), 0),
                "no room is taken"
            );
        }
        let gone = Round::new(&host, Pid(i32::MAX), Node(0), &[Node(1)], &mut moved).make(&Proc::default());
        assert!(gone.is_clean(), "who has ended has no pages: {gone:?}");
    }
}
