//! The processes that the session works for: their regions and threads, as the last process scan found them.

use super::input::ThreadSeen;
use super::pages::Key;
use homing_core::ids::{Node, Thread};
use homing_core::process::{self, Object, ProcessId, Region, ThreadId};
use std::collections::BTreeMap;

/// A thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Task {
    /// Its number in the session, by order of appearance.
    pub(super) number: Thread,
    /// The node where it stays.
    pub(super) home: Option<Node>,
    /// The node where it was at the last scan.
    seen: Option<Node>,
    /// It was seen to use a page since it last moved.
    used: bool,
}

/// A thread that stays on another node now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moved {
    pub(super) process: ProcessId,
    pub(super) id: ThreadId,
    pub(super) thread: Thread,
    pub(super) from: Node,
    pub(super) to: Node,
    /// It was seen to use a page since it had moved before.
    pub(super) used: bool,
}

/// What a process scan says of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    New,
    Moved(Moved),
    Same,
}

/// What a process maps of a shared object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    object: u32,
    offset: u64,
    process: ProcessId,
    start: u64,
    end: u64,
}

impl Shown {
    /// The process that maps this, and where; `None` if it is not in here.
    pub(super) fn find(&self, key: Key) -> Option<(ProcessId, u64)> {
        let Key::Shared(object, place) = key else { return None };
        let address = self.start.checked_add(place.checked_sub(self.offset)?)?;
        (object == self.object && address < self.end).then_some((self.process, address))
    }
}

#[derive(Debug, Default)]
struct Process {
    /// By order of appearance, once its regions are known.
    number: Option<u32>,
    regions: Vec<Region>,
    /// One of them at least shows what others can map too.
    shares: bool,
    tasks: BTreeMap<ThreadId, Task>,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Processes {
    known: BTreeMap<ProcessId, Process>,
    /// The objects that several processes can map, by order of appearance.
    objects: BTreeMap<Object, u32>,
    /// Numbers given to processes and to threads.
    numbered: u32,
    threads: u32,
}

impl Processes {
    pub(super) fn begin(&mut self, process: ProcessId) {
        self.known.insert(process, Process::default());
    }

    pub(super) fn end(&mut self, process: ProcessId) {
        self.known.remove(&process);
    }

    /// True if the process is there.
    pub(super) fn contains(&self, process: ProcessId) -> bool {
        self.known.contains_key(&process)
    }

    /// Its mappings changed. False if there is no such process.
    pub(super) fn remap(&mut self, process: ProcessId, regions: Vec<Region>) -> bool {
        let Some(known) = self.known.get_mut(&process) else { return false };
        known.shares = false;
        for backing in regions.iter().filter_map(|region| region.backing) {
            let number = self.objects.len() as u32;
            self.objects.entry(backing.object).or_insert(number);
            known.shares = true;
        }
        known.regions = regions;
        if known.number.is_none() {
            known.number = Some(self.numbered);
            self.numbered += 1;
        }
        true
    }

    /// The region that holds the address, and the number of its process.
    pub(super) fn region(&self, process: ProcessId, address: u64) -> Option<(u32, &Region)> {
        let known = self.known.get(&process)?;
        Some((known.number?, process::find(&known.regions, address)?))
    }

    /// What the memory at an address is known by, whichever process uses it.
    pub(super) fn key(&self, process: ProcessId, address: u64) -> Key {
        let shares = self.known.get(&process).filter(|known| known.shares);
        let shown = shares.and_then(|known| process::find(&known.regions, address)?.shows(address));
        let shared = shown.and_then(|(object, offset)| Some(Key::Shared(self.number(object)?, offset)));
        shared.unwrap_or(Key::Own(process, address))
    }

    /// The number of an object that a process maps or has mapped.
    pub(super) fn number(&self, object: Object) -> Option<u32> {
        self.objects.get(&object).copied()
    }

    /// All that processes map of shared objects.
    pub(super) fn shared(&self) -> Vec<Shown> {
        let sharing = self.known.iter().filter(|(_, known)| known.shares);
        let all =
            sharing.flat_map(|(&process, known)| known.regions.iter().map(move |region| (process, region)));
        let shown = all.filter_map(|(process, region)| {
            let (object, offset) = (self.number(region.backing?.object)?, region.backing?.offset);
            Some(Shown { object, offset, process, start: region.start, end: region.end })
        });
        shown.collect()
    }

    /// All its regions, as the last scan found them.
    pub(super) fn regions(&self, process: ProcessId) -> &[Region] {
        self.known.get(&process).map_or(&[], |known| &known.regions)
    }

    /// The region of that name, and its process, whose number is given.
    pub(super) fn named(&self, number: u32, name: &str) -> Option<(ProcessId, &Region)> {
        let (&process, known) = self.known.iter().find(|(_, known)| known.number == Some(number))?;
        Some((process, known.regions.iter().find(|region| region.name == name)?))
    }

    /// Threads of all processes.
    pub(super) fn threads(&self) -> u32 {
        self.known.values().map(|known| known.tasks.len() as u32).sum()
    }

    pub(super) fn task(&self, process: ProcessId, thread: ThreadId) -> Option<&Task> {
        self.known.get(&process)?.tasks.get(&thread)
    }

    pub(super) fn thread_ended(&mut self, process: ProcessId, thread: ThreadId) {
        if let Some(known) = self.known.get_mut(&process) {
            known.tasks.remove(&thread);
        }
    }

    /// A process scan saw a thread. It has moved when it was on another node in two scans in a row and ran in between
    /// (Nikolopoulos 2000, section 4: two constructs in a row; here two scans).
    pub(super) fn thread_seen(&mut self, seen: &ThreadSeen) -> Seen {
        let Some(known) = self.known.get_mut(&seen.process) else { return Seen::Same };
        let now = seen.node;
        let Some(task) = known.tasks.get_mut(&seen.thread) else {
            let number = Thread(self.threads);
            self.threads += 1;
            known.tasks.insert(seen.thread, Task { number, home: now, seen: now, used: false });
            return Seen::New;
        };
        let before = std::mem::replace(&mut task.seen, now);
        match (task.home, now) {
            (Some(from), Some(to)) if from != to && before == now && seen.ran => {
                task.home = now;
                let (process, id) = (seen.process, seen.thread);
                let used = std::mem::take(&mut task.used);
                Seen::Moved(Moved { process, id, thread: task.number, from, to, used })
            }
            _ => {
                task.home = task.home.or(now);
                Seen::Same
            }
        }
    }

    /// A thread stays on another node now, as was seen between two scans. `None` if it is not known, or was there.
    pub(super) fn thread_stays(&mut self, process: ProcessId, thread: ThreadId, to: Node) -> Option<Moved> {
        let task = self.known.get_mut(&process)?.tasks.get_mut(&thread)?;
        task.seen = Some(to);
        let from = task.home.replace(to).filter(|&from| from != to)?;
        let used = std::mem::take(&mut task.used);
        Some(Moved { process, id: thread, thread: task.number, from, to, used })
    }

    /// True if a thread stays on a node that was seen to use a page since it came there.
    pub(super) fn is_used_from(&self, process: ProcessId, node: Node) -> bool {
        let is_used = |task: &Task| task.used && task.home == Some(node);
        self.known.get(&process).is_some_and(|known| known.tasks.values().any(is_used))
    }

    /// A thread was seen to use a page. What is known of it.
    pub(super) fn thread_uses(&mut self, process: ProcessId, thread: ThreadId) -> Option<Task> {
        let task = self.known.get_mut(&process)?.tasks.get_mut(&thread)?;
        task.used = true;
        Some(*task)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROCESS: ProcessId = ProcessId(7);

    fn seen(node: u16, ran: bool) -> ThreadSeen {
        ThreadSeen { process: PROCESS, thread: ThreadId(8), node: Some(Node(node)), ran }
    }

    #[test]
    fn a_thread_counts_as_moved_when_it_stays() {
        let mut processes = Processes::default();
        assert_eq!(processes.thread_seen(&seen(0, true)), Seen::Same, "of no known process");
        processes.begin(PROCESS);
        let (id, thread) = (ThreadId(8), Thread(0));
        let moved = |from, to| {
            Seen::Moved(Moved { process: PROCESS, id, thread, from: Node(from), to: Node(to), used: false })
        };
        let mut see = |node, ran| processes.thread_seen(&seen(node, ran));
        assert_eq!((see(0, true), see(1, true)), (Seen::New, Seen::Same), "once is not enough");
        assert_eq!((see(1, false), see(1, true)), (Seen::Same, moved(0, 1)), "it has to run there");
        assert_eq!((see(0, true), see(1, true), see(1, true)), (Seen::Same, Seen::Same, Seen::Same));
        let between = processes.thread_stays(PROCESS, ThreadId(8), Node(0));
        assert_eq!(between.map(Seen::Moved), Some(moved(1, 0)));
        assert_eq!(processes.thread_stays(PROCESS, ThreadId(8), Node(0)), None, "it was there");
        assert_eq!(processes.thread_seen(&seen(0, true)), Seen::Same);
        processes.thread_ended(PROCESS, ThreadId(8));
        assert_eq!((processes.threads(), processes.thread_stays(PROCESS, ThreadId(8), Node(1))), (0, None));
    }
}
