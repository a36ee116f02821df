//! Names for mappings that mean the same in another run: what is mapped, counted by address (`heap#0`, `anonymous#3`).

use homing_linux::proc::maps::Mapping;
use std::collections::BTreeMap;

/// A mapping with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// First address.
    pub start: u64,
    /// Address behind the last.
    pub end: u64,
    /// Its name.
    pub name: String,
}

/// The regions of a process, by address.
pub fn of(maps: &[Mapping]) -> Vec<Region> {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    let region = |mapping: &Mapping, number: u32| {
        let name = format!("{}#{number}", mapping.short_name());
        Region { start: mapping.start, end: mapping.end, name }
    };
    let mut regions = Vec::with_capacity(maps.len());
    for mapping in maps {
        let number = counts.entry(mapping.short_name()).or_default();
        regions.push(region(mapping, *number));
        *number += 1;
    }
    regions
}

/// The region that holds the address.
pub fn find(regions: &[Region], address: u64) -> Option<&Region> {
    let after = regions.partition_point(|region| region.start <= address);
    regions[..after].last().filter(|region| address < region.end)
}

/// True if a region is among those chosen: by its full name, or by the part before the `#`. All are, if none is chosen.
pub fn chosen(name: &str, chosen: &[String]) -> bool {
    let kind = name.split('#').next().unwrap_or_default();
    chosen.is_empty() || chosen.iter().any(|choice| choice == name || choice == kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_counted_by_address_and_chosen_by_name() {
        let text =
            "1000-2000 rw-p 0 00:00 0\n2000-3000 rw-p 0 fd:01 7 /lib/libm.so.6\n5000-6000 rw-p 0 00:00 0";
        let maps: Vec<Mapping> = text.lines().map(|line| Mapping::parse(line).unwrap()).collect();
        let regions = of(&maps);
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
