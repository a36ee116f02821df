//! What allocations are called after: one frame of the call stack, that of the program's own code.
//!
//! A call site is its frames, the innermost first, between " < ". A frame is `function (file.c:12)`, `function (in
//! /lib/libx.so)` where no line is known, `object+0x12` where no function is, or `/app/train.py:12 in load`.

use super::allocators::is_allocator;
use crate::trace::{NameId, Names};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What stands between frames.
const CALLED_BY: &str = " < ";
/// Lines that allocate for several callers are told apart by those that had most bytes, this number of them at most.
/// The other callers are one area.
const CALLERS: usize = 16;
/// Python code that is not the program's own lies in such places.
const PYTHON_LIBRARY: [&str; 4] = ["<frozen ", "/lib/python", "/site-packages/", "/dist-packages/"];

/// The call sites of a trace, by area.
#[derive(Clone, Debug, Default)]
pub(super) struct Sites {
    /// The area of a call site.
    area: HashMap<NameId, u32>,
    labels: Vec<String>,
    foreign: Vec<bool>,
    /// The call site that allocated most bytes of each area, and how many.
    most: Vec<(u64, NameId)>,
}

impl Sites {
    /// `bytes`: what each call site allocated.
    pub(super) fn new(names: &Names, bytes: &BTreeMap<NameId, u64>) -> Sites {
        let chosen = |(&site, &bytes): (&NameId, &u64)| (site, bytes, Chosen::of(names.get(site)));
        let all: Vec<(NameId, u64, Chosen<'_>)> = bytes.iter().map(chosen).collect();
        let callers = Callers::new(&all);
        let mut sites = Sites::default();
        let mut numbers: HashMap<String, u32> = HashMap::new();
        for (site, bytes, chosen) in all {
            let label = chosen.label(callers.tells_apart(chosen));
            let number = *numbers.entry(label).or_insert_with_key(|label| {
                sites.labels.push(label.clone());
                sites.foreign.push(is_foreign(chosen.frame));
                sites.most.push((0, site));
                sites.labels.len() as u32 - 1
            });
            sites.area.insert(site, number);
            let most = &mut sites.most[number as usize];
            if bytes > most.0 {
                *most = (bytes, site);
            }
        }
        sites
    }

    /// The number of a call site's area.
    pub(super) fn area(&self, site: NameId) -> u32 {
        self.area.get(&site).copied().unwrap_or(u32::MAX)
    }

    /// What an area is called.
    pub(super) fn label(&self, area: u32) -> &str {
        self.labels.get(area as usize).map_or("", String::as_str)
    }

    /// Whether a library allocates an area.
    pub(super) fn is_foreign(&self, area: u32) -> bool {
        self.foreign.get(area as usize).is_some_and(|&foreign| foreign)
    }

    /// The call stack that allocated most bytes of an area, the innermost frame first.
    pub(super) fn stack(&self, area: u32, names: &Names) -> Vec<String> {
        let site = self.most.get(area as usize).map_or("", |&(_, site)| names.get(site));
        site.split(CALLED_BY).map(str::to_owned).collect()
    }
}

/// The callers by which a frame's allocations are told apart.
struct Callers<'a>(HashMap<&'a str, BTreeSet<&'a str>>);

impl<'a> Callers<'a> {
    fn new(sites: &[(NameId, u64, Chosen<'a>)]) -> Callers<'a> {
        let mut bytes: HashMap<&str, BTreeMap<&str, u64>> = HashMap::new();
        for &(_, size, Chosen { frame, caller }) in sites {
            let callers = bytes.entry(frame).or_default();
            caller.into_iter().for_each(|caller| *callers.entry(caller).or_default() += size);
        }
        let most = |callers: BTreeMap<&'a str, u64>| {
            let mut callers: Vec<(&str, u64)> = callers.into_iter().collect();
            // The sort is stable: among equals the order is that of the names.
            callers.sort_by_key(|&(_, bytes)| std::cmp::Reverse(bytes));
            let apart = if callers.len() > 1 { CALLERS } else { 0 };
            callers.into_iter().take(apart).map(|(caller, _)| caller).collect()
        };
        Callers(bytes.into_iter().map(|(frame, callers)| (frame, most(callers))).collect())
    }

    fn tells_apart(&self, Chosen { frame, caller }: Chosen<'_>) -> bool {
        caller.is_some_and(|caller| self.0.get(frame).is_some_and(|callers| callers.contains(caller)))
    }
}

/// The frame that an allocation is called after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Chosen<'a> {
    frame: &'a str,
    /// Who called it; a function that calls itself is no caller.
    caller: Option<&'a str>,
}

impl<'a> Chosen<'a> {
    /// Of Python code the first line outside its libraries; else the first function that is no allocator.
    fn of(site: &'a str) -> Chosen<'a> {
        let frames: Vec<&str> = site.split(CALLED_BY).collect();
        let own = |frame: &&str| is_python(frame) && !is_python_library(frame);
        let first = |wanted: &dyn Fn(&&str) -> bool| frames.iter().position(wanted);
        let at = first(&own)
            .or_else(|| first(&|frame| is_python(frame)))
            .or_else(|| first(&|frame| !is_allocator(function(frame), file(frame))))
            .unwrap_or(frames.len() - 1);
        let others = |frame: &&&str| function(frame) != function(frames[at]);
        Chosen { frame: frames[at], caller: frames[at + 1..].iter().find(others).copied() }
    }

    fn label(&self, with_caller: bool) -> String {
        match self.caller {
            Some(caller) if with_caller => format!("{}{CALLED_BY}{}", short(self.frame), short(caller)),
            _ => short(self.frame),
        }
    }
}

/// The function of a frame: in Python with its file.
fn function(frame: &str) -> &str {
    frame.rsplit_once(" (").map_or(frame, |(function, _)| function)
}

/// The file of a frame whose line is known.
fn file(frame: &str) -> Option<&str> {
    let (_, place) = frame.rsplit_once(" (")?;
    Some(place.rsplit_once(':')?.0)
}

fn is_python_library(frame: &str) -> bool {
    PYTHON_LIBRARY.iter().any(|at| frame.contains(at))
}

fn is_python(frame: &str) -> bool {
    frame.rsplit_once(" in ").is_some_and(|(place, _)| {
        place.rsplit_once(':').is_some_and(|(_, line)| line.bytes().all(|b| b.is_ascii_digit()))
    })
}

/// Whether a frame is of a library; one of C code whose lines are known counts as the program's own.
fn is_foreign(frame: &str) -> bool {
    let place = frame.rsplit_once(" (in ").map(|(_, place)| place.trim_end_matches(')'));
    let object = place.or_else(|| frame.split_once("+0x").map(|(object, _)| object));
    match is_python(frame) {
        true => is_python_library(frame),
        false => object.is_some_and(super::is_library),
    }
}

/// A frame with files in place of paths.
fn short(frame: &str) -> String {
    let file = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    if is_python(frame) {
        let (place, function) = frame.rsplit_once(" in ").unwrap_or((frame, ""));
        return format!("{} in {function}", file(place));
    }
    match frame.rsplit_once(" (in ") {
        Some((function, place)) => format!("{function} ({}", file(place)),
        None if frame.starts_with('/') => file(frame),
        None => match frame.rsplit_once(" (") {
            Some((function, place)) => format!("{function} ({}", file(place)),
            None => frame.to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(sites: &[&str]) -> Vec<String> {
        let mut names = Names::default();
        let bytes: BTreeMap<NameId, u64> = sites.iter().map(|site| (names.intern(site), 1)).collect();
        let made = Sites::new(&names, &bytes);
        bytes.keys().map(|&site| made.label(made.area(site)).to_owned()).collect()
    }

    #[test]
    fn the_first_frame_that_is_no_allocator_is_chosen() {
        for (site, label) in [
            ("main (program.c:3)", "main (program.c:3)"),
            ("xmalloc (util.c:9) < load (load.c:4) < main (main.c:2)", "load (load.c:4)"),
            (
                "operator new(unsigned long) (in /usr/lib/libstdc++.so.6.0.30) < std::vector<int, std::allocator<int> \
                 >::vector(unsigned long) (stl_vector.h:511) < Grid::Grid(int) (grid.h:12) < main (m.cpp:3)",
                "Grid::Grid(int) (grid.h:12)",
            ),
            (
                "malloc (in /lib/libc.so.6) < gomp_malloc (alloc.c:1) < start (in /x/libgomp.so.1)",
                "start (libgomp.so.1)",
            ),
            ("malloc < xmalloc", "xmalloc"),
            ("prog+0x12", "prog+0x12"),
            ("load<u64> (src/app/load.rs:7)", "load<u64> (load.rs:7)"),
            ("/opt/app/prog+0x12", "prog+0x12"),
            (
                "default_malloc (alloc.c:3) < array_zeros (in /x/multi.so) < \
                 /usr/lib/python3/dist-packages/numpy/core/numeric.py:191 in ones < /home/me/train.py:12 in load < \
                 /home/me/train.py:40 in <module>",
                "train.py:12 in load",
            ),
            ("allocate (new_allocator.h:137) < vector (stl_vector.h:9) < fill (f.cpp:2)", "fill (f.cpp:2)"),
            ("malloc < <frozen importlib._bootstrap>:241 in _call", "<frozen importlib._bootstrap>:241 in _call"),
        ] {
            assert_eq!(labels(&[site]), [label]);
        }
    }

    #[test]
    fn callers_tell_a_line_apart_that_allocates_for_several() {
        let two =
            ["make (m.c:2) < main (m.c:8)", "make (m.c:2) < main (m.c:9)", "other (m.c:3) < main (m.c:7)"];
        assert_eq!(
            labels(&two),
            ["make (m.c:2) < main (m.c:8)", "make (m.c:2) < main (m.c:9)", "other (m.c:3)"]
        );
        let many: Vec<String> = (0..=CALLERS).map(|i| format!("make (m.c:2) < f{i} (m.c:8)")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let rest = labels(&many).iter().filter(|label| *label == "make (m.c:2)").count();
        assert_eq!(rest, 1, "{many:?}");
        // The stack of the second was too deep to show who called.
        assert_eq!(
            labels(&["make (m.c:2) < main (m.c:8)", "make (m.c:2)"]),
            ["make (m.c:2)", "make (m.c:2)"]
        );
        let recursive =
            ["node (t.c:2) < node (t.c:4) < main (t.c:9)", "node (t.c:2) < node (t.c:5) < main (t.c:9)"];
        assert!(labels(&recursive).iter().all(|label| label == "node (t.c:2)"));
    }

    #[test]
    fn the_callers_that_had_most_bytes_are_told_apart() {
        let mut names = Names::default();
        let sizes: BTreeMap<NameId, u64> = (0..2 * CALLERS as u64)
            .map(|i| (names.intern(&format!("Vector (v.h:2) < f{i} (m.c:8)")), i))
            .collect();
        let sites = Sites::new(&names, &sizes);
        for (&site, &bytes) in &sizes {
            let apart = sites.label(sites.area(site)).contains(CALLED_BY);
            assert_eq!(apart, bytes >= CALLERS as u64, "{bytes}");
        }
    }

    #[test]
    fn the_stack_is_that_of_most_bytes_and_libraries_are_foreign() {
        let mut names = Names::default();
        let [few, many, library] = [
            "malloc < load (a.c:1) < load (a.c:5) < main (a.c:9)",
            "calloc < load (a.c:1) < main (a.c:9)",
            "start (in /lib/libgomp.so.1)",
        ]
        .map(|site| names.intern(site));
        let sites = Sites::new(&names, &BTreeMap::from([(few, 10), (many, 20), (library, 1)]));
        assert_eq!(sites.area(few), sites.area(many));
        assert_eq!(sites.stack(sites.area(few), &names), ["calloc", "load (a.c:1)", "main (a.c:9)"]);
        assert!(sites.is_foreign(sites.area(library)) && !sites.is_foreign(sites.area(few)));
    }
}
