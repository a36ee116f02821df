//! Where the pages of a process are in the joined trace: its own in a part of the address space that is its own,
//! 2^48 bytes for each process; those that others may have, too, in a part for each thing that is shared.
//!
//! A file is one memory wherever it is mapped (by name and offset), unless a process may write to a mapping of its own,
//! which are copies. A private page that a forked process has not written yet is that of the process that forked it.
//! Shared memory without a file that can be told by its name (anonymous, memfd, System V) is that of
//! the process that forked this one, if it has such memory at the same address; else it is new.

use homing_core::history::ranges::Ranges;
use homing_trace::ids::Thread;
use homing_trace::{Event, NameId, Names, Trace, FRAME_BYTES};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::Range;

/// mmap(2).
const PROT_WRITE: u32 = 2;
const MAP_SHARED: u16 = 0x01;
const MAP_FIXED: u16 = 0x10;
const MAP_ANONYMOUS: u16 = 0x20;
/// Files in memory whose names several of them may have.
const NAMELESS: [&str; 3] = ["/dev/zero", "/memfd:", "/SYSV"];
/// Pages of a part of the joined address space.
const PART: u32 = 36;

/// The parts that are taken.
pub struct Slots {
    next: u64,
    files: HashMap<String, u64>,
    /// By part: which processes have mapped it, and whether one of them may write to it where others see that.
    users: HashMap<u64, (BTreeSet<usize>, bool)>,
}

impl Slots {
    /// The first part of each process is taken.
    pub fn behind(processes: usize) -> Slots {
        Slots { next: processes as u64, files: HashMap::new(), users: HashMap::new() }
    }

    /// The processes that have mapped the same memory, of all memory that one of them may write to.
    pub fn in_common(&self) -> Vec<&BTreeSet<usize>> {
        let written = |(users, written): &&(BTreeSet<usize>, bool)| *written && users.len() > 1;
        self.users.values().filter(written).map(|(users, _)| users).collect()
    }

    fn used(&mut self, pieces: &Pieces, by: usize, written: bool) {
        for (pages, added) in pieces {
            let part = self.users.entry(pages.start.wrapping_add(*added) >> PART).or_default();
            part.0.insert(by);
            part.1 |= written;
        }
    }

    fn file(&mut self, name: &str) -> u64 {
        if let Some(&part) = self.files.get(name) {
            return part;
        }
        let part = self.next << PART;
        self.next += 1;
        self.files.insert(name.to_owned(), part);
        part
    }
}

/// Pages of a process and what is added to their numbers.
type Pieces = Vec<(Range<u64>, u64)>;

/// The memory of a process. What is added to the number of a page is all that is known of it.
#[derive(Clone, Debug)]
pub struct Memory {
    own: u64,
    /// What is mapped now.
    now: Ranges<u64>,
    /// What was mapped last, in the whole run: of other threads, events may come later than references.
    ever: Ranges<u64>,
    /// What each mapping of a thread is, in their order.
    planned: HashMap<Thread, VecDeque<Pieces>>,
    /// What is added to pages of the process that forked this one, if there is one; and its private memory, as far as
    /// it is mapped here still.
    parent: Option<u64>,
    inherited: Ranges<u64>,
}

impl Memory {
    /// Of the process with this number.
    pub fn of_process(number: usize) -> Memory {
        let (now, ever) = (Ranges::default(), Ranges::default());
        let (planned, inherited) = (HashMap::new(), Ranges::default());
        Memory { own: (number as u64) << PART, now, ever, planned, parent: None, inherited }
    }

    /// The process began as a copy of the process with this number.
    pub fn forked_by(&mut self, number: usize) {
        self.parent = Some((number as u64) << PART);
    }

    /// What is shared of it, at any time.
    pub fn shared(&self) -> Ranges<u64> {
        self.ever.clone()
    }

    /// Finds out what is shared, by all events of a process and what the one shares that forked it.
    pub fn plan(&mut self, trace: &Trace<'_>, parent: Option<&Ranges<u64>>, slots: &mut Slots) {
        for (thread, _) in trace.threads() {
            for event in trace.thread_events(thread) {
                if let Event::Mmap { protection, flags, .. } = event {
                    let pieces = of_others(&event, trace.names(), parent, slots);
                    let written = flags & MAP_SHARED != 0 && protection & PROT_WRITE != 0;
                    slots.used(&pieces, (self.own >> PART) as usize, written);
                    pieces.iter().for_each(|(pages, added)| self.ever.set(pages.clone(), *added));
                    self.planned.entry(thread).or_default().push_back(pieces);
                }
            }
        }
    }

    /// The page that a page of the process is.
    pub fn page(&self, page: u64) -> u64 {
        let added = self.now.get(page).or_else(|| self.ever.get(page)).unwrap_or(self.own);
        page.wrapping_add(added)
    }

    /// The page that it is until the process writes to it, if that is another one.
    pub fn inherited(&self, page: u64) -> Option<u64> {
        self.inherited.get(page).map(|added| page.wrapping_add(added))
    }

    /// The address that an address of the process is.
    pub fn address(&self, address: u64) -> u64 {
        self.page(address / FRAME_BYTES) * FRAME_BYTES + address % FRAME_BYTES
    }

    /// The same of memory that is the process's own.
    pub fn own(&self, address: u64) -> u64 {
        address.wrapping_add(self.own * FRAME_BYTES)
    }

    /// Takes a change of mappings, and says what the joined trace has of it. What a process no longer maps of shared
    /// memory goes on in others. `begins`: the process has done nothing yet.
    pub fn mapping(
        &mut self,
        thread: Thread,
        event: &Event,
        begins: bool,
        rename: impl Fn(NameId) -> NameId,
    ) -> Vec<Event> {
        match *event {
            Event::Mmap { protection, flags, address, length, offset, name } => {
                let name = rename(name);
                let planned = self.planned.get_mut(&thread).and_then(VecDeque::pop_front).unwrap_or_default();
                self.inherited.remove(pages(address, length));
                if planned.is_empty() {
                    self.now.set(pages(address, length), self.own);
                    if let Some(parent) = self.parent.filter(|_| begins) {
                        self.inherited.set(pages(address, length), parent);
                    }
                    let address = self.own(address);
                    return vec![Event::Mmap { protection, flags, address, length, offset, name }];
                }
                let mut events = Vec::new();
                if flags & MAP_FIXED != 0 {
                    events.push(Event::Munmap { address: self.own(address), length });
                }
                for (pages, added) in planned {
                    self.now.set(pages.clone(), added);
                    let before = (pages.start * FRAME_BYTES).saturating_sub(address);
                    events.push(Event::Mmap {
                        protection,
                        flags: flags & !MAP_FIXED,
                        address: pages.start.wrapping_add(added) * FRAME_BYTES,
                        length: (pages.end - pages.start) * FRAME_BYTES,
                        offset: offset.saturating_add(before),
                        name,
                    });
                }
                events
            }
            Event::Munmap { address, length } => {
                self.inherited.remove(pages(address, length));
                self.now.set(pages(address, length), self.own);
                vec![Event::Munmap { address: self.own(address), length }]
            }
            Event::Mremap { old, old_length, new, new_length } => {
                let (from, to) = (pages(old, old_length), pages(new, new_length));
                let added = self.now.get(from.start).unwrap_or(self.own);
                self.inherited.remove(from.clone());
                self.inherited.remove(to.clone());
                self.now.set(from.clone(), self.own);
                if added == self.own {
                    self.now.set(to, added);
                    let (old, new) = (self.own(old), self.own(new));
                    return vec![Event::Mremap { old, old_length, new, new_length }];
                }
                self.now.set(to.clone(), added.wrapping_add(from.start).wrapping_sub(to.start));
                Vec::new()
            }
            _ => Vec::new(),
        }
    }
}

/// The memory of others that a new mapping shows; empty for the process's own memory.
fn of_others(event: &Event, names: &Names, parent: Option<&Ranges<u64>>, slots: &mut Slots) -> Pieces {
    let Event::Mmap { protection, flags, address, length, offset, name } = *event else {
        return Pieces::new();
    };
    let (pages, shared) = (pages(address, length), flags & MAP_SHARED != 0);
    let file = if name.0 == 0 || flags & MAP_ANONYMOUS != 0 { "" } else { names.get(name) };
    let nameless = NAMELESS.iter().any(|prefix| file.starts_with(prefix)) || file.ends_with(" (deleted)");
    if !shared && (nameless || !file.starts_with('/') || protection & PROT_WRITE != 0) {
        return Pieces::new();
    }
    if file.starts_with('/') && !nameless {
        let added = slots.file(file).wrapping_add(offset / FRAME_BYTES).wrapping_sub(pages.start);
        return vec![(pages, added)];
    }
    let mut all = Ranges::default();
    for (known, added) in parent.iter().flat_map(|parent| parent.iter()) {
        let both = known.start.max(pages.start)..known.end.min(pages.end);
        if !both.is_empty() {
            all.set(both, added);
        }
    }
    if all.fill(pages, slots.next << PART) {
        slots.next += 1;
    }
    all.iter().collect()
}

fn pages(address: u64, length: u64) -> Range<u64> {
    address / FRAME_BYTES..address.saturating_add(length).div_ceil(FRAME_BYTES)
}
