//! What a program has mapped, as far as others than its own threads decide where its pages are: memory that it shares
//! with other processes, files, and huge pages, which the kernel makes.

use homing_core::history::ranges::Ranges;
use homing_trace::{Event, NameId, Names, FRAME_BYTES};
use std::ops::Range;

/// mmap(2).
const MAP_SHARED: u16 = 0x01;
const MAP_ANONYMOUS: u16 = 0x20;
/// Files in memory: nobody but the programs that share them has placed their pages.
const IN_MEMORY: [&str; 4] = [SHM, "/dev/zero", "/memfd:", "/SYSV"];
/// POSIX shared memory, which any process can open by name.
const SHM: &str = "/dev/shm/";

/// Whose memory a page is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Processes that this one makes, or that made it, may have it, too.
    Shared,
    /// The process that forked this one has it, too, until one of them writes.
    Inherited,
    /// Any process may have it, by its name.
    Named,
    /// The page cache has it. What a process writes to a private mapping is a copy of its own.
    File {
        /// Its name.
        name: NameId,
        /// Others see what is written.
        shared: bool,
    },
}

/// What a trace's program has mapped.
#[derive(Clone, Debug, Default)]
pub struct Mappings {
    /// By number of a frame. What is not in it is the process's own.
    kinds: Ranges<Option<Memory>>,
    /// By number of a frame: whether the program asks for huge pages there, where it has said so.
    huge: Ranges<bool>,
    /// Child processes that the program made, and that are not in the trace.
    pub forks: u64,
}

fn frames(address: u64, length: u64) -> Range<u64> {
    address / FRAME_BYTES..address.saturating_add(length).div_ceil(FRAME_BYTES)
}

impl Mappings {
    /// Takes an event. `inherited`: what is mapped comes from the process that forked this one.
    pub fn event(&mut self, event: &Event, names: &Names, inherited: bool) {
        match *event {
            Event::Fork { .. } => self.forks += 1,
            Event::Mmap { flags, address, length, name, .. } => {
                let private = inherited.then_some(Memory::Inherited);
                self.kinds.set(frames(address, length), kind(flags, name, names).or(private));
            }
            Event::Huge { address, length, wanted } => {
                self.huge.set(frames(address, length), wanted);
            }
            // What was unmapped was referred to before: it stays, until something else lies there.
            _ => {}
        }
    }

    /// Adds those of a later part of the trace.
    pub fn append(&mut self, later: Mappings) {
        later.kinds.iter().for_each(|(frames, kind)| self.kinds.set(frames, kind));
        later.huge.iter().for_each(|(frames, wanted)| self.huge.set(frames, wanted));
        self.forks += later.forks;
    }

    /// Whether the program has asked for huge pages, and not refused them later.
    pub fn wants_huge_pages(&self) -> bool {
        self.huge.iter().any(|(_, wanted)| wanted)
    }

    /// Whose the page of an address is; none: the process's own.
    pub fn of(&self, address: u64) -> Option<Memory> {
        self.kinds.get(address / FRAME_BYTES).flatten()
    }
}

fn kind(flags: u16, name: NameId, names: &Names) -> Option<Memory> {
    let file = if name.0 == 0 { "" } else { names.get(name) };
    let in_memory = IN_MEMORY.iter().any(|prefix| file.starts_with(prefix));
    let shared = flags & MAP_SHARED != 0;
    match file.starts_with('/') && !in_memory && flags & MAP_ANONYMOUS == 0 {
        true => Some(Memory::File { name, shared }),
        false if shared && file.starts_with(SHM) => Some(Memory::Named),
        false => shared.then_some(Memory::Shared),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_mappings_replace_earlier_ones() {
        let names = Names::default();
        let map = |page: u64, pages: u64, flags| {
            let (address, length) = (page * FRAME_BYTES, pages * FRAME_BYTES);
            Event::Mmap { protection: 3, flags, address, length, offset: 0, name: NameId(0) }
        };
        let mut mappings = Mappings::default();
        mappings.event(&map(6, 1, MAP_ANONYMOUS), &names, true);
        mappings.event(&map(1, 4, MAP_SHARED | MAP_ANONYMOUS), &names, true);
        mappings.event(&Event::Fork { process: 7 }, &names, false);
        let mut later = Mappings::default();
        later.event(&map(2, 1, MAP_ANONYMOUS), &names, false);
        later.event(&Event::Fork { process: 8 }, &names, false);
        mappings.append(later);
        let of = |page| mappings.of(page * FRAME_BYTES + 5);
        assert_eq!([0, 1, 2, 3, 5].map(of), [None, Some(Memory::Shared), None, Some(Memory::Shared), None]);
        assert_eq!(of(6), Some(Memory::Inherited));
        assert_eq!(mappings.forks, 2);
    }

    #[test]
    fn huge_pages_are_wanted_until_they_are_refused() {
        let huge = |page: u64, pages: u64, wanted| Event::Huge {
            address: page * FRAME_BYTES,
            length: pages * FRAME_BYTES,
            wanted,
        };
        let mut mappings = Mappings::default();
        assert!(!mappings.wants_huge_pages());
        mappings.event(&huge(512, 1024, true), &Names::default(), false);
        assert!(mappings.wants_huge_pages());
        let mut later = Mappings::default();
        later.event(&huge(0, 4096, false), &Names::default(), false);
        mappings.append(later);
        assert!(!mappings.wants_huge_pages());
    }

    #[test]
    fn who_else_has_memory_goes_by_its_name() {
        let mut names = Names::default();
        let mut of = |name: &str, flags| {
            let id = names.intern(name);
            (kind(flags, id, &names), id)
        };
        assert_eq!(of("/dev/shm/queue", MAP_SHARED).0, Some(Memory::Named));
        assert_eq!(of("/memfd:queue (deleted)", MAP_SHARED).0, Some(Memory::Shared));
        assert_eq!(of("", MAP_SHARED | MAP_ANONYMOUS).0, Some(Memory::Shared));
        assert_eq!(of("", MAP_ANONYMOUS).0, None);
        let (file, name) = of("/data/weights", MAP_SHARED);
        assert_eq!(file, Some(Memory::File { name, shared: true }));
        assert_eq!(of("/data/weights", 2).0, Some(Memory::File { name, shared: false }));
    }
}
