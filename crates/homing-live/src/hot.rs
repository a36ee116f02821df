//! Hot areas without a word from the program (Nikolopoulos 2000, section 2.3, where the compiler names arrays): its
//! large mappings, and its large static data by name.

use homing_core::policy::settings::Settings;
use homing_core::process::{Class, Region};
use homing_linux::proc::maps::Mapping;
use homing_linux::proc::symbols::Symbol;
use homing_session::input::{HotArea, Own};
use serde::Deserialize;

/// Areas of a process at most, the largest first.
pub const AREAS: usize = 64;

/// A mapping that begins behind one without any right of at most this many bytes is the stack of a thread.
const GUARD: u64 = 64 << 10;

/// What holds for one area alone, as TOML has it.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct Given {
    stays: bool,
    threshold: f64,
    set: Vec<String>,
}

impl Default for Given {
    fn default() -> Given {
        let Own { stays, threshold, .. } = Own::default();
        Given { stays, threshold, set: Vec::new() }
    }
}

/// Parameters that policies take for each area.
const OF_AREAS: [&str; 4] = ["migration-cost", "contention", "selectivity", "cold"];

/// Reads what holds for one area alone: `stays = true`, `threshold = 2.0`, `set = ["competitive.cold=9"]`.
///
/// # Errors
/// What is wrong, and what was expected.
pub fn own(text: &str) -> Result<Own, String> {
    let Given { stays, threshold, set } =
        toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
    if !(1e-6..=1e6).contains(&threshold) {
        return Err(format!("threshold: `{threshold}`: expected a number from 0.000001 to 1000000"));
    }
    let mut settings = Settings::default();
    set.iter().try_for_each(|set| settings.set(set))?;
    for key in settings.given().keys() {
        let (policy, name) = key.split_once('.').unwrap_or_default();
        if !["competitive", "predictive"].contains(&policy) || !OF_AREAS.contains(&name) {
            return Err(format!(
                "set: `{key}` is the same for all areas: expected {} of competitive or predictive",
                OF_AREAS.join(", ")
            ));
        }
    }
    Ok(Own { stays, threshold, set: settings.given().clone() })
}

/// The areas of at least `least` bytes, by address: static data by its name, and what it leaves of mappings.
pub fn find(maps: &[Mapping], regions: &[Region], symbols: &[(String, Symbol)], least: u64) -> Vec<HotArea> {
    let mut data: Vec<HotArea> = symbols
        .iter()
        .filter(|(_, symbol)| symbol.end - symbol.start >= least)
        .filter(|(_, symbol)| writable(maps, symbol.start))
        .map(|(_, symbol)| area(symbol.start, symbol.end, symbol.name.clone()))
        .collect();
    data.sort_by_key(|area| area.start);
    let mut areas = data.clone();
    for (mapping, region) in maps.iter().zip(regions) {
        let hot =
            matches!(region.class, Class::Heap | Class::Anonymous | Class::FilePrivate | Class::SharedMemory);
        if hot && mapping.write && !is_stack(maps, mapping) {
            areas.extend(rest(region, &data, least));
        }
    }
    areas.sort_by_key(|area| std::cmp::Reverse(area.bytes));
    areas.truncate(AREAS);
    areas.sort_by_key(|area| area.start);
    areas
}

fn area(start: u64, end: u64, name: String) -> HotArea {
    HotArea { start, bytes: end - start, name, own: Own::default() }
}

fn writable(maps: &[Mapping], address: u64) -> bool {
    maps.iter().any(|mapping| mapping.holds(address) && mapping.write)
}

fn is_stack(maps: &[Mapping], mapping: &Mapping) -> bool {
    let guard = |other: &Mapping| {
        other.end == mapping.start && !other.read && !other.write && other.end - other.start <= GUARD
    };
    mapping.class() == homing_linux::proc::maps::Class::Anonymous && maps.iter().any(guard)
}

/// What named data leaves of a mapping.
fn rest(region: &Region, data: &[HotArea], least: u64) -> Vec<HotArea> {
    let inside = data.iter().filter(|area| area.start < region.end && area.end() > region.start);
    let (mut parts, mut from) = (Vec::new(), region.start);
    for area in inside {
        parts.push((from, area.start));
        from = area.end();
    }
    parts.push((from, region.end));
    parts.retain(|(start, end)| end.saturating_sub(*start) >= least);
    parts.into_iter().map(|(start, end)| area(start, end, region.name.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regions;

    #[test]
    fn large_mappings_and_static_data_are_areas_and_stacks_are_none() {
        let text = "\
            10000-20000 r-xp 00000 fd:01 7 /bin/app\n\
            20000-40000 rw-p 10000 fd:01 7 /bin/app\n\
            40000-90000 rw-p 0 00:00 0\n\
            a0000-b8000 rw-p 0 00:00 0 [heap]\n\
            c0000-c4000 rw-p 0 00:00 0\n\
            c5000-c6000 ---p 0 00:00 0\n\
            c6000-e6000 rw-p 0 00:00 0\n\
            f0000-f8000 r--p 0 00:00 0\n\
            100000-190000 rw-p 0 00:00 0";
        let maps: Vec<Mapping> = text.lines().map(|line| Mapping::parse(line.trim()).unwrap()).collect();
        let symbol = |name: &str, start, end| ("app".to_owned(), Symbol { name: name.into(), start, end });
        // `u` lies over the end of the file's part of the data and into the rest; `table` may not be written.
        let symbols = [
            symbol("u", 0x30000, 0x60000),
            symbol("few", 0x61000, 0x62000),
            symbol("table", 0x10000, 0x20000),
        ];
        let found = find(&maps, &regions::of(&maps, 0), &symbols, 0x10000);
        let told: Vec<(&str, u64, u64)> =
            found.iter().map(|area| (area.name.as_str(), area.start, area.end())).collect();
        let expected = [
            ("app#1", 0x20000, 0x30000),
            ("u", 0x30000, 0x60000),
            ("anonymous#0", 0x60000, 0x90000),
            ("heap#0", 0xa0000, 0xb8000),
            ("anonymous#5", 0x10_0000, 0x19_0000),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn what_an_area_has_of_its_own_is_checked() {
        assert_eq!(own("").unwrap(), Own::default());
        let set = own("stays = true\nthreshold = 2.5\nset = [\"competitive.cold=9\"]").unwrap();
        assert_eq!((set.stays, set.threshold, set.parameter("competitive", "cold")), (true, 2.5, Some(9.0)));
        for (text, why) in [
            ("stay = true", "unknown field `stay`"),
            ("threshold = 0.0", "expected a number from"),
            ("set = [\"competitive.cold=x\"]", "expected a number"),
            ("set = [\"competitive.area-pages=8\"]", "the same for all areas"),
            ("set = [\"ace.invalidations=8\"]", "the same for all areas"),
        ] {
            assert!(own(text).unwrap_err().contains(why), "{text}: {}", own(text).unwrap_err());
        }
    }

    #[test]
    fn the_largest_areas_are_taken() {
        let lines = (1..=AREAS as u64 * 2)
            .map(|i| format!("{:x}-{:x} rw-p 0 00:00 0", i << 24, (i << 24) + i * 4096));
        let maps: Vec<Mapping> = lines.map(|line| Mapping::parse(&line).unwrap()).collect();
        let found = find(&maps, &regions::of(&maps, 0), &[], 4096);
        assert_eq!(found.len(), AREAS);
        assert!(found.iter().all(|area| area.bytes > AREAS as u64 * 4096));
        assert!(found.windows(2).all(|pair| pair[0].end() <= pair[1].start));
    }
}
