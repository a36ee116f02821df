//! Address spaces of processes, as the mappings that perf recorded make them. That a mapping ends is not recorded: what
//! is mapped in its place takes it.

use homing_core::process::{name_regions, Class};
use homing_linux::proc::maps::Mapping;
use homing_trace::perf_data::Mapped;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// Mappings that are copied when processes fork, in all: more no recording has.
const COPIES: usize = 1 << 22;

/// One program in one process.
#[derive(Clone, Debug, Default)]
pub struct Space {
    /// The process.
    pub pid: i32,
    /// The name of its first thread.
    pub name: String,
    maps: Rc<Maps>,
}

#[derive(Clone, Debug, Default)]
struct Maps {
    /// By first address: the address behind the last, and the mapping.
    now: BTreeMap<u64, (u64, usize)>,
    all: Vec<Known>,
}

/// A mapping in its largest extent.
#[derive(Clone, Debug)]
struct Known {
    mapping: Mapping,
    build_id: Option<Vec<u8>>,
}

/// The spaces of all processes.
#[derive(Debug, Default)]
pub struct Spaces {
    /// All, those that have ended, too.
    pub all: Vec<Space>,
    now: HashMap<i32, usize>,
    copied: usize,
    /// Processes that began without what their parents had mapped, since too much was copied already.
    pub bare: u64,
}

impl Spaces {
    /// The space that a process has now.
    pub fn of(&mut self, pid: i32) -> usize {
        let next = self.all.len();
        let place = *self.now.entry(pid).or_insert(next);
        if place == next {
            self.all.push(Space { pid, ..Space::default() });
        }
        place
    }

    /// A process maps memory.
    pub fn map(&mut self, mapped: Mapped) {
        let place = self.of(mapped.pid);
        Rc::make_mut(&mut self.all[place].maps).map(mapped);
    }

    /// A process gets a name; with a program that it executes it gets a new space.
    pub fn name(&mut self, pid: i32, name: String, executes: bool) {
        if executes {
            self.now.remove(&pid);
        }
        let place = self.of(pid);
        // Threads get names as well; the first is the program's.
        if executes || self.all[place].name.is_empty() {
            self.all[place].name = name;
        }
    }

    /// A process begins with what its parent has mapped.
    pub fn fork(&mut self, pid: i32, parent: i32) {
        if pid == parent {
            return;
        }
        let parent = self.of(parent);
        let Space { name, maps, .. } = self.all[parent].clone();
        self.copied += maps.all.len();
        let maps = if self.copied <= COPIES { maps } else { Rc::default() };
        self.bare += u64::from(self.copied > COPIES);
        self.now.insert(pid, self.all.len());
        self.all.push(Space { pid, name, maps });
    }
}

impl Space {
    /// The number of the mapping that has an address now.
    pub fn find(&self, address: u64) -> Option<usize> {
        let (_, &(end, number)) = self.maps.now.range(..=address).next_back()?;
        (address < end).then_some(number)
    }

    /// All that was mapped, by address, as /proc/PID/maps has it.
    pub fn mappings(&self) -> Vec<Mapping> {
        let mut all: Vec<Mapping> = self.maps.all.iter().map(|known| known.mapping.clone()).collect();
        all.sort_by_key(|mapping| mapping.start);
        all
    }

    /// The build-id that is recorded with the mappings of a file.
    pub fn build_id(&self, file: &str) -> Option<&[u8]> {
        let of_file = self.maps.all.iter().filter(|known| known.mapping.name == file);
        of_file.filter_map(|known| known.build_id.as_deref()).next()
    }

    /// What each mapping is called: its kind, counted by address.
    pub fn names(&self) -> Vec<String> {
        let all = &self.maps.all;
        let mut order: Vec<usize> = (0..all.len()).collect();
        order.sort_by_key(|&number| (all[number].mapping.start, number));
        let of = |&number: &usize| {
            let mapping = &all[number].mapping;
            // Nothing depends on the class here.
            (mapping.short_name(), mapping.start, mapping.end, Class::Anonymous)
        };
        let mut names = vec![String::new(); all.len()];
        for (number, region) in order.iter().zip(name_regions(order.iter().map(of))) {
            names[*number] = region.name;
        }
        names
    }
}

impl Maps {
    fn map(&mut self, mapped: Mapped) {
        let Mapped { start, end, .. } = mapped;
        if start >= end {
            return;
        }
        let number = self.grown(&mapped).unwrap_or(self.all.len());
        if number == self.all.len() {
            self.all.push(known(mapped));
        }
        self.clear(start, end);
        self.now.insert(start, (end, number));
    }

    /// The mapping that became larger, if one did: heaps and stacks grow, and the kernel joins neighbours.
    fn grown(&mut self, mapped: &Mapped) -> Option<usize> {
        let (_, &(end, number)) = self.now.range(..=mapped.end).next_back()?;
        let before = &mut self.all[number].mapping;
        let same = end >= mapped.start
            && before.name == plain(&mapped.name)
            && before.inode == mapped.inode
            && (before.inode == 0
                || before.start.wrapping_sub(before.offset) == mapped.start.wrapping_sub(mapped.offset))
            && mapped.protection.is_none_or(|bits| (bits & 2 != 0) == before.write);
        if !same {
            return None;
        }
        before.offset = if mapped.start < before.start { mapped.offset } else { before.offset };
        (before.start, before.end) = (before.start.min(mapped.start), before.end.max(mapped.end));
        Some(number)
    }

    /// Cuts what is mapped there.
    fn clear(&mut self, start: u64, end: u64) {
        let within: Vec<u64> = self.now.range(start..end).map(|(&at, _)| at).collect();
        let before = self.now.range(..start).next_back().map(|(&at, &piece)| (at, piece));
        if let Some((at, (last, number))) = before.filter(|(_, (last, _))| *last > start) {
            self.now.insert(at, (start, number));
            if last > end {
                self.now.insert(end, (last, number));
            }
        }
        for at in within {
            if let Some((last, number)) = self.now.remove(&at).filter(|(last, _)| *last > end) {
                self.now.insert(end, (last, number));
            }
        }
    }
}

/// The name that /proc/PID/maps has for what perf calls `//anon`.
fn plain(name: &str) -> &str {
    if name == "//anon" {
        ""
    } else {
        name
    }
}

fn known(mapped: Mapped) -> Known {
    let bits = mapped.protection.unwrap_or(3);
    let name = plain(&mapped.name).to_owned();
    let mapping = Mapping {
        start: mapped.start,
        end: mapped.end,
        read: bits & 1 != 0,
        write: bits & 2 != 0,
        execute: bits & 4 != 0,
        shared: mapped.shared,
        offset: mapped.offset,
        device: 0,
        inode: match mapped.inode {
            // With a build-id in its place the inode is not known.
            0 if name.starts_with('/') => u64::MAX,
            inode => inode,
        },
        name,
    };
    Known { mapping, build_id: mapped.build_id }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapped(pid: i32, start: u64, end: u64, name: &str) -> Mapped {
        Mapped {
            pid,
            start,
            end,
            offset: 0,
            inode: u64::from(name.starts_with('/') && name != "//anon"),
            build_id: None,
            protection: Some(3),
            shared: false,
            name: name.into(),
        }
    }

    #[test]
    fn what_is_mapped_later_takes_the_place_of_what_was_there() {
        let mut spaces = Spaces::default();
        spaces.map(mapped(7, 0x1000, 0x9000, "/bin/app"));
        spaces.map(mapped(7, 0x3000, 0x5000, "//anon"));
        let space = &spaces.all[0];
        let found = [0xfff, 0x1000, 0x2fff, 0x3000, 0x5000, 0x8fff, 0x9000].map(|at| space.find(at));
        assert_eq!(found, [None, Some(0), Some(0), Some(1), Some(0), Some(0), None]);
        spaces.map(mapped(7, 0, 0x10000, "[heap]"));
        assert_eq!(spaces.all[0].find(0x3000), Some(2));
        assert_eq!(spaces.all[0].names(), ["app#0", "anonymous#0", "heap#0"]);
    }

    #[test]
    fn heaps_that_grow_are_one() {
        let mut spaces = Spaces::default();
        spaces.map(mapped(7, 0x1000, 0x3000, "[heap]"));
        spaces.map(mapped(7, 0x1000, 0x9000, "[heap]"));
        spaces.map(mapped(7, 0x9000, 0xb000, "[heap]"));
        let space = &spaces.all[0];
        assert_eq!((space.find(0xa000), space.names().len(), space.mappings()[0].end), (Some(0), 1, 0xb000));
    }

    #[test]
    fn forks_copy_and_programs_that_are_executed_begin_anew() {
        let mut spaces = Spaces::default();
        spaces.name(7, "sh".into(), false);
        spaces.map(mapped(7, 0x1000, 0x3000, "//anon"));
        spaces.fork(8, 7);
        let copy = spaces.of(8);
        assert_eq!((spaces.all[copy].find(0x1000), spaces.all[copy].name.as_str()), (Some(0), "sh"));
        spaces.name(8, "app".into(), true);
        let app = spaces.of(8);
        assert!(app != copy && spaces.all[app].find(0x1000).is_none());
        spaces.name(8, "worker".into(), false);
        assert_eq!(spaces.all[app].name, "app");
    }
}
