//! What a reader of a diagnosis from a file of perf must know of it.

use super::gather::{is_arm, Gathered};
use super::nodes::{Latencies, Nodes};
use super::pages::Found;
use super::{called, Asked};
use homing_linux::visible;
use std::collections::{BTreeMap, BTreeSet};

/// Most processes, files or lines that a note names.
pub const NAMED: usize = 4;
/// Fewer samples are said to be few.
const FEW: u64 = 1000;

/// What was counted besides the samples that are judged: a name for programs, the number, and words.
pub fn counted(gathered: &Gathered) -> Vec<(&'static str, u64, &'static str)> {
    let (counts, unused) = (&gathered.contents.counts, &gathered.unused);
    vec![
        ("samples-near-caches", unused.near, "samples served by near caches, which no placement changes"),
        ("samples-without-address", unused.no_address, "samples without a data address"),
        ("samples-of-kernel", unused.kernel, "samples of the kernel's memory"),
        ("samples-unsaid", unused.unsaid, "samples that do not say what served them"),
        ("samples-repeated", unused.repeated, "samples of groups that repeat the group `memory`"),
        ("lost-records", counts.lost, "records that were lost, a ring being full"),
        ("lost-samples", counts.lost_samples, "samples that were lost"),
        ("throttled", counts.throttled, "times that the kernel throttled the event"),
        ("malformed-records", counts.malformed, "records that make no sense"),
        ("forks-without-mappings", gathered.spaces.bare, "processes whose parents' mappings are left out"),
    ]
}

/// All notes.
pub fn of(
    asked: &Asked,
    gathered: &Gathered,
    nodes: &Nodes,
    latencies: Option<Latencies>,
    chosen: &BTreeSet<usize>,
    found: &Found,
) -> Vec<String> {
    let mut notes = vec![
        "who first touched a page is not known: where it is stands for that; pages of several nodes count as written"
            .to_owned(),
        "perf does not record who allocated memory: what malloc gave is `heap#0` or `anonymous#N`; `homing record` \
         names allocations"
            .to_owned(),
    ];
    if !gathered.behind_caches {
        notes.push(
            "the samples do not say what served them: they tell which nodes use a page, not how often its references \
             reach memory; page faults tell first touches alone"
                .to_owned(),
        );
    }
    notes.extend(prices(asked, gathered, latencies));
    notes.extend(places(gathered, nodes, found));
    notes.extend(others(gathered, chosen));
    notes.extend(unnamed(found));
    notes.extend(modified(gathered, found));
    if found.wandering > 0 {
        notes.push(format!(
            "{} of {} threads were sampled on more than one node",
            found.wandering, found.threads
        ));
    }
    let samples = found.local + found.nonlocal;
    if samples < FEW {
        notes.push(format!("{samples} samples are few: a longer recording makes the verdict surer"));
    }
    if gathered.contents.counts.cut {
        notes.push(
            "the file is cut, or perf was killed before it finished it: what is there is judged".to_owned(),
        );
    }
    let counts = counted(gathered).into_iter().map(|(_, count, what)| (count, what));
    let counts = counts.chain([
        (found.no_cpu, "samples of a CPU that is not recorded or that no node has"),
        (found.nowhere, "samples of pages that are left out, since nothing says where they are"),
    ]);
    notes.extend(counts.filter(|(count, _)| *count > 0).map(|(count, what)| format!("{what}: {count}")));
    notes
}

/// What accesses are charged with.
fn prices(asked: &Asked, gathered: &Gathered, latencies: Option<Latencies>) -> Option<String> {
    let measured = latencies.map(|Latencies { local, remote }| {
        format!("median latency as sampled: local memory {local:.0} cycles, remote {remote:.0}")
    });
    match (&asked.machine, measured) {
        (Some(machine), Some(measured)) => Some(format!("{measured}; charged as {machine} has it")),
        (Some(_), None) => None,
        (None, Some(measured)) => Some(format!(
            "{measured}; remote accesses are charged with that ratio, for all nodes alike (samples above a latency \
             only, and waiting is in it)"
        )),
        (None, None) if gathered.contents.facts.nodes.len() < 2 => None,
        (None, None) => Some(
            "the samples have too few latencies: remote accesses are charged as on a typical server (1.75 local ones); \
             --machine has others"
                .to_owned(),
        ),
    }
}

/// How it is known where pages are.
fn places(gathered: &Gathered, nodes: &Nodes, found: &Found) -> Option<String> {
    if nodes.ids.len() == 1 {
        return None;
    }
    let mut ways = Vec::new();
    let mut way = |pages: u64, how: &str| {
        if pages > 0 {
            ways.push(format!("{pages} {how}"));
        }
    };
    way(found.sure, "by physical addresses");
    let arm = " (a miss of the last cache that stayed in the socket counts as local)";
    let arm = if is_arm(&gathered.contents) { arm } else { "" };
    way(found.by_source, &format!("by what was local or remote to the CPU{arm}"));
    way(found.as_neighbours, "as most of their area, since their samples leave several nodes");
    let sizes = match found.unsized_pages {
        0 => "",
        _ => "; sizes of pages are not recorded (--data-page-size), all count as 4 KiB",
    };
    Some(format!("where pages are is known of {}{sizes}", ways.join(", of ")))
}

/// Who else was sampled.
fn others(gathered: &Gathered, chosen: &BTreeSet<usize>) -> Option<String> {
    let mut counts: BTreeMap<usize, u64> = BTreeMap::new();
    let others = gathered.accesses.iter().filter(|access| !chosen.contains(&access.space));
    others.for_each(|access| *counts.entry(access.space).or_default() += 1);
    let mut all: Vec<(u64, usize)> = counts.into_iter().map(|(space, count)| (count, space)).collect();
    all.sort_by_key(|&(count, space)| (std::cmp::Reverse(count), space));
    let samples: u64 = all.iter().map(|(count, _)| count).sum();
    let name = |&(count, space): &(u64, usize)| format!("{} {count}", called(gathered, space));
    let named: Vec<String> = all.iter().take(NAMED).map(name).collect();
    let more = if all.len() > NAMED { ", ..." } else { "" };
    (samples > 0).then(|| {
        format!(
            "samples of other processes are left out: {samples} ({}{more}); --process has them",
            named.join(", ")
        )
    })
}

/// Which files' variables have no names.
fn unnamed(found: &Found) -> Option<String> {
    let names: Vec<_> = found.missing.iter().take(NAMED).map(|name| visible::name(name)).collect();
    let more = if found.missing.len() > NAMED { ", ..." } else { "" };
    (!names.is_empty()).then(|| {
        format!(
            "variables of {}{more} have no names: no file with that build-id or inode is here; --symfs DIRECTORY has \
             one, or `perf archive` there and its files in ~/.debug here",
            names.join(", ")
        )
    })
}

/// Lines that caches hand to each other.
fn modified(gathered: &Gathered, found: &Found) -> Option<String> {
    let all: u64 = found.modified.values().map(|(count, _)| count).sum();
    let mut lines: Vec<(&u64, &(u64, i32))> = found.modified.iter().collect();
    lines.sort_by_key(|(address, (count, _))| (std::cmp::Reverse(*count), **address));
    let line = |(address, (count, area)): &(&u64, &(u64, i32))| {
        let area = usize::try_from(*area).ok().and_then(|area| found.names.get(area));
        let name = area.map_or("unknown".into(), |name| visible::name(name).into_owned());
        format!("{address:#x} in {name} {count}")
    };
    let named: Vec<String> = lines.iter().take(NAMED).map(line).collect();
    (all > 0).then(|| {
        format!(
            "{all} of {} samples found their line modified in another cache (HITM), most at {}: contended or falsely \
             shared lines, which placement does not mend; `perf c2c report` shows who",
            gathered.accesses.len(),
            named.join(", ")
        )
    })
}
