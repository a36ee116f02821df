//! Processes as plain data: what the live session knows of them without asking a kernel.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// A process, by the kernel's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ProcessId(pub i32);

/// A thread, by the kernel's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ThreadId(pub i32);

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a mapping holds, as far as moving its pages is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// The program's break area.
    Heap,
    /// The first thread's stack.
    Stack,
    /// Anonymous private memory: arrays, other threads' stacks, most allocators' memory.
    Anonymous,
    /// Private pages of a file: data segments, copied on the first write.
    FilePrivate,
    /// Pages of the page cache: code, shared files. Other processes may use them too.
    PageCache,
    /// Shared memory without a file that others would see by name.
    SharedMemory,
    /// The kernel's own: vdso, vvar, vsyscall, device memory. Never moved.
    Special,
}

impl Class {
    /// All, in the order of tables.
    pub const ALL: [Class; 7] = [
        Class::Heap,
        Class::Stack,
        Class::Anonymous,
        Class::FilePrivate,
        Class::PageCache,
        Class::SharedMemory,
        Class::Special,
    ];

    /// Name in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Class::Heap => "heap",
            Class::Stack => "stack",
            Class::Anonymous => "anonymous",
            Class::FilePrivate => "file-private",
            Class::PageCache => "page-cache",
            Class::SharedMemory => "shared-memory",
            Class::Special => "special",
        }
    }

    /// True if pages of it may move. Those that several processes map move only where all of them belong to the
    /// session ([`Held`]).
    pub fn movable(self) -> bool {
        !matches!(self, Class::PageCache | Class::Special)
    }

    /// True if the kernel makes huge pages of it.
    pub fn may_be_huge(self) -> bool {
        matches!(self, Class::Anonymous | Class::Heap | Class::SharedMemory)
    }
}

/// Memory that several processes can map: a file, or shared memory, which is a file inside of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Object {
    /// The device that has it; for System V shared memory the namespace of its number.
    pub device: u64,
    /// Its inode; for System V shared memory its number, and the highest bit.
    pub inode: u64,
}

/// What a mapping shows of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backing {
    /// The object.
    pub object: Object,
    /// Offset of the mapping's first byte in it.
    pub offset: u64,
}

/// Why the pages of an object stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Held {
    /// A process outside of the session maps it too.
    Outside,
    /// Several mappings have it, and this user may not move the pages of such memory.
    NoRight,
}

impl Held {
    /// The reason, for people.
    pub fn reason(self) -> &'static str {
        match self {
            Held::Outside => "shared with processes outside of the session",
            Held::NoRight => {
                "mapped more than once, and moving such pages needs CAP_SYS_NICE and a view of all processes"
            }
        }
    }
}

/// A mapping with a name that means the same in another run: what is mapped, counted by address (`heap#0`,
/// `anonymous#3`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Region {
    /// Its name.
    pub name: String,
    /// First address.
    pub start: u64,
    /// Address behind the last.
    pub end: u64,
    /// What it holds.
    pub class: Class,
    /// What others that map the same memory know it by; `None` if it is the process's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backing: Option<Backing>,
}

impl Region {
    /// The object and the place in it that an address of the region shows.
    pub fn shows(&self, address: u64) -> Option<(Object, u64)> {
        let Backing { object, offset } = self.backing?;
        Some((object, address.wrapping_sub(self.start).wrapping_add(offset)))
    }
}

/// Names mappings, given by address as (short name, start, end, class).
pub fn name_regions<'n>(mappings: impl Iterator<Item = (&'n str, u64, u64, Class)>) -> Vec<Region> {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    let name_region = |(name, start, end, class)| {
        let number = counts.entry(name).or_default();
        let region = Region { name: format!("{name}#{number}"), start, end, class, backing: None };
        *number += 1;
        region
    };
    mappings.map(name_region).collect()
}

/// The region that holds the address, of regions by address.
pub fn find(regions: &[Region], address: u64) -> Option<&Region> {
    let after = regions.partition_point(|region| region.start <= address);
    regions[..after].last().filter(|region| address < region.end)
}

/// True if a region is among those chosen: by its full name, or by the part before the `#`. All are, if none is chosen.
pub fn chosen(name: &str, chosen: &[String]) -> bool {
    let kind = name.split('#').next().unwrap_or_default();
    chosen.is_empty() || chosen.iter().any(|choice| choice == name || choice == kind)
}

/// A hot area of a process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HotArea {
    /// First address.
    pub start: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Its name; empty if it has none.
    #[serde(default)]
    pub name: String,
    /// What holds for this area alone.
    #[serde(default)]
    pub own: Own,
}

impl HotArea {
    /// The address behind it.
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.bytes)
    }
}

/// What holds for one area alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Own {
    /// Its accesses are counted, and its pages are never moved.
    pub stays: bool,
    /// How many times the usual evidence the policy needs: its references count by this less.
    pub threshold: f64,
    /// Parameters of policies, by `policy.name`. Policies take those that they can have for each area.
    pub set: BTreeMap<String, f64>,
}

impl Default for Own {
    fn default() -> Own {
        Own { stays: false, threshold: 1.0, set: BTreeMap::new() }
    }
}

impl Own {
    /// The value of a policy's parameter, if the area has one of its own.
    pub fn parameter(&self, policy: &str, name: &str) -> Option<f64> {
        self.set.get(&format!("{policy}.{name}")).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_counted_by_address_and_chosen_by_name() {
        let mappings = [
            ("anonymous", 0x1000, 0x2000, Class::Anonymous),
            ("libm.so.6", 0x2000, 0x3000, Class::FilePrivate),
            ("anonymous", 0x5000, 0x6000, Class::Anonymous),
        ];
        let regions = name_regions(mappings.into_iter());
        let names: Vec<&str> = regions.iter().map(|region| region.name.as_str()).collect();
        assert_eq!(names, ["anonymous#0", "libm.so.6#0", "anonymous#1"]);
        assert_eq!(find(&regions, 0x5fff).unwrap().name, "anonymous#1");
        assert_eq!((find(&regions, 0x3000), find(&regions, 0xfff)), (None, None));
        let choice = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert!(chosen("heap#0", &[]) && chosen("heap#0", &choice(&["heap"])));
        assert!(chosen("anonymous#1", &choice(&["heap", "anonymous#1"])));
        assert!(!chosen("anonymous#0", &choice(&["heap", "anonymous#1"])));
    }
}
