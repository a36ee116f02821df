//! The regions of a process, from its mappings.

use homing_core::process::{name_regions, Backing, Class, Object, Region};
use homing_linux::proc::maps::{self, Mapping};

/// The regions of a process, by address. `namespace` is that of its System V memory.
pub fn of(maps: &[Mapping], namespace: u64) -> Vec<Region> {
    let named = name_regions(maps.iter().map(|m| (m.short_name(), m.start, m.end, class(m.class()))));
    let shared = |(region, mapping)| Region { backing: backing(mapping, namespace), ..region };
    named.into_iter().zip(maps).map(shared).collect()
}

/// What others that map the same memory know it by, if it is shared memory, which can move.
pub fn backing(mapping: &Mapping, namespace: u64) -> Option<Backing> {
    let shown = mapping.shared && mapping.class() == maps::Class::SharedMemory;
    // Huge pages of hugetlbfs are not moved.
    let held = mapping.name.starts_with("/anon_hugepage");
    (shown && !held).then(|| Backing { object: object(mapping, namespace), offset: mapping.offset })
}

/// The object that a mapping shows. Numbers of System V memory are those of their namespace, and begin at 0.
pub fn object(mapping: &Mapping, namespace: u64) -> Object {
    match mapping.is_system_v() {
        true => Object { device: namespace, inode: mapping.inode | 1 << 63 },
        false => Object { device: mapping.device, inode: mapping.inode },
    }
}

/// What a mapping holds, as the session calls it.
fn class(class: maps::Class) -> Class {
    match class {
        maps::Class::Heap => Class::Heap,
        maps::Class::Stack => Class::Stack,
        maps::Class::Anonymous => Class::Anonymous,
        maps::Class::FilePrivate => Class::FilePrivate,
        maps::Class::PageCache => Class::PageCache,
        maps::Class::SharedMemory => Class::SharedMemory,
        maps::Class::Special => Class::Special,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_named_by_what_is_mapped_and_have_the_same_classes() {
        let text =
            "1000-2000 rw-p 0 00:00 0\n2000-3000 rw-p 0 fd:01 7 /lib/libm.so.6\n5000-6000 rw-p 0 00:00 0";
        let maps: Vec<Mapping> = text.lines().map(|line| Mapping::parse(line).unwrap()).collect();
        let names: Vec<String> = of(&maps, 0).into_iter().map(|region| region.name).collect();
        assert_eq!(names, ["anonymous#0", "libm.so.6#0", "anonymous#1"]);
        for (ours, theirs) in Class::ALL.into_iter().zip(maps::Class::ALL) {
            assert_eq!((class(theirs), ours.name()), (ours, theirs.name()));
            assert_eq!(ours.movable(), theirs.movable());
        }
    }

    #[test]
    fn what_several_processes_map_has_one_identity() {
        let at = |line: &str, address, namespace| {
            let maps = [Mapping::parse(line).unwrap()];
            of(&maps, namespace)[0].shows(address)
        };
        let (here, there) = ("1000-9000 rw-s 2000 00:01 7 /memfd:x", "70000-79000 rw-s 0 00:01 7 /memfd:x");
        assert_eq!(at(here, 0x3000, 1), at(there, 0x74000, 1));
        assert!(at(here, 0x3000, 1).is_some() && at(here, 0x3000, 1) != at(there, 0x73000, 1));
        let segment = "1000-9000 rw-s 0 00:01 7 /SYSV00000000 (deleted)";
        assert_ne!(at(segment, 0x3000, 1), at(segment, 0x3000, 2), "numbers count in their namespace");
        assert_ne!(at(segment, 0x1000, 0), at("1000-9000 rw-s 0 00:01 7 /memfd:x", 0x1000, 0));
        for own in [
            "1000-9000 rw-p 0 00:01 7 /memfd:x",
            "1000-9000 r--p 0 fd:01 7 /lib/libm.so",
            "1000-9000 rw-p 0 00:00 0",
        ] {
            assert_eq!(at(own, 0x3000, 1), None, "{own}");
        }
    }
}
