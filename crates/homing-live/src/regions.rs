//! The regions of a process, from its mappings.

use homing_core::process::{name_regions, Class, Region};
use homing_linux::proc::maps::{self, Mapping};

/// The regions of a process, by address.
pub fn of(maps: &[Mapping]) -> Vec<Region> {
    name_regions(maps.iter().map(|m| (m.short_name(), m.start, m.end, class(m.class()))))
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
        let names: Vec<String> = of(&maps).into_iter().map(|region| region.name).collect();
        assert_eq!(names, ["anonymous#0", "libm.so.6#0", "anonymous#1"]);
        for (ours, theirs) in Class::ALL.into_iter().zip(maps::Class::ALL) {
            assert_eq!((class(theirs), ours.name()), (ours, theirs.name()));
            assert_eq!(ours.movable(), theirs.movable());
        }
    }
}
