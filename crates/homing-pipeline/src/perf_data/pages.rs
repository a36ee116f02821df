//! Pages of the chosen processes with who used them: what the diagnosis begins with.

use super::gather::{is_arm, Access, Gathered};
use super::homes::{place, Known, Votes};
use super::names::Names;
use super::nodes::{node, Nodes};
use homing_core::why::samples::Sampled;
use homing_linux::perf::data_src::Served;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Bytes of a page where a sample does not say it.
const PAGE: u64 = 4096;
/// ... and the largest that there is: 16 GiB, of Power.
const LARGEST: u64 = 1 << 34;
/// References that a sample stands for at most: more no event counts between two samples.
const HEAVIEST: u64 = 1 << 36;
/// Bytes of a line.
const LINE: u64 = 64;

/// What was found.
#[derive(Debug, Default)]
pub struct Found {
    /// The pages.
    pub pages: Vec<Sampled>,
    /// Names of areas, by number.
    pub names: Vec<String>,
    /// Files whose variables could not be looked up.
    pub missing: BTreeSet<String>,
    /// Threads that were seen.
    pub threads: u64,
    /// ... on more than one node.
    pub wandering: u64,
    /// Between the first sample and the last.
    pub seconds: f64,
    /// Samples on the page's own node.
    pub local: u64,
    /// ... on others.
    pub nonlocal: u64,
    /// Samples without a CPU, or of one that no node has.
    pub no_cpu: u64,
    /// Samples of pages of which nothing says where they are.
    pub nowhere: u64,
    /// Pages by how it is known where they are.
    pub sure: u64,
    /// As above.
    pub by_source: u64,
    /// As above.
    pub as_neighbours: u64,
    /// Samples that do not say how large their page is.
    pub unsized_pages: u64,
    /// Samples that found their line modified in another cache, by line, and the line's area.
    pub modified: BTreeMap<u64, (u64, i32)>,
}

/// A page while samples of it come in.
#[derive(Debug, Default)]
struct Page {
    bytes: u64,
    area: i32,
    seen: Vec<u32>,
    weights: Vec<u64>,
    votes: Votes,
}

/// Takes the samples of these processes.
pub fn take(gathered: &Gathered, nodes: &Nodes, chosen: &BTreeSet<usize>, symfs: Option<&Path>) -> Found {
    let mut taking = Taking::new(gathered, nodes);
    let facts = &gathered.contents.facts;
    let spaces = chosen.iter().map(|&at| (at, Names::of(&gathered.spaces.all[at], facts, symfs)));
    let names: BTreeMap<usize, Names> = spaces.collect();
    for access in &gathered.accesses {
        if let Some(names) = names.get(&access.space) {
            taking.take(access, names, chosen.len() > 1);
        }
    }
    let mut found = taking.finish();
    found.missing = names.into_values().flat_map(|names| names.missing).collect();
    found
}

struct Taking<'g> {
    gathered: &'g Gathered,
    nodes: &'g Nodes,
    arm: bool,
    pages: BTreeMap<(usize, u64), Page>,
    areas: BTreeMap<String, i32>,
    /// Nodes that each thread was seen on.
    threads: BTreeMap<(i32, i32), BTreeSet<usize>>,
    times: Option<(u64, u64)>,
    found: Found,
}

impl<'g> Taking<'g> {
    fn new(gathered: &'g Gathered, nodes: &'g Nodes) -> Taking<'g> {
        Taking {
            gathered,
            nodes,
            arm: is_arm(&gathered.contents),
            pages: BTreeMap::new(),
            areas: BTreeMap::new(),
            threads: BTreeMap::new(),
            times: None,
            found: Found::default(),
        }
    }

    fn take(&mut self, access: &Access, names: &Names, several: bool) {
        let sample = &access.sample;
        let Some(by) = sample.cpu.and_then(|cpu| self.nodes.of_cpu(cpu)) else {
            self.found.no_cpu += 1;
            return;
        };
        self.threads.entry((sample.pid, sample.tid)).or_default().insert(by);
        if let Some(time) = sample.time {
            let (first, last) = self.times.unwrap_or((time, time));
            self.times = Some((first.min(time), last.max(time)));
        }
        let told = sample.page_bytes.filter(|&bytes| bytes.is_power_of_two() && bytes <= LARGEST);
        self.found.unsized_pages += u64::from(told.is_none());
        let bytes = told.unwrap_or(PAGE).max(PAGE);
        let (address, start) = (access.address(), access.address() & !(bytes - 1));
        let area =
            self.area(access, names, several, if bytes == PAGE { start } else { address & !(PAGE - 1) });
        let page =
            self.pages.entry((access.space, start)).or_insert_with(|| Page { area, ..Page::default() });
        // A page that became huge meanwhile is counted as that.
        page.bytes = page.bytes.max(bytes);
        let count = self.nodes.ids.len();
        page.seen.resize(count, 0);
        page.weights.resize(count, 0);
        page.seen[by] = page.seen[by].saturating_add(1);
        page.weights[by] = page.weights[by].saturating_add(sample.period.unwrap_or(1).clamp(1, HEAVIEST));
        let physical = sample.physical.filter(|&physical| physical != 0);
        let memory = self.gathered.contents.facts.memory.as_ref();
        if let Some(id) = physical.zip(memory).and_then(|(physical, memory)| memory.node_of(physical)) {
            page.votes.physical = self.nodes.numbered(id).or(page.votes.physical);
        }
        vote(&mut page.votes, access, by, self.nodes, self.arm);
        if access.source.modified {
            let line = self.found.modified.entry(address & !(LINE - 1)).or_insert((0, page.area));
            line.0 += 1;
        }
    }

    /// The number of the area that an address is in; -1 if it has no name.
    fn area(&mut self, access: &Access, names: &Names, several: bool, page: u64) -> i32 {
        let Some(name) = names.name(page, access.mapping) else { return -1 };
        let name = match several {
            true => format!("{}: {name}", access.sample.pid),
            false => name.to_owned(),
        };
        let next = self.areas.len() as i32;
        *self.areas.entry(name).or_insert(next)
    }

    fn finish(self) -> Found {
        let Taking { nodes, pages, areas, threads, times, mut found, .. } = self;
        let votes: Vec<(u64, Votes)> =
            pages.values().map(|page| (page.area as u64, page.votes.clone())).collect();
        for (((_, address), page), placed) in pages.into_iter().zip(place(nodes.ids.len(), &votes)) {
            let samples: u64 = page.seen.iter().copied().map(u64::from).sum();
            let Some((at, known)) = placed else {
                found.nowhere += samples;
                continue;
            };
            *match known {
                Known::Surely => &mut found.sure,
                Known::BySource => &mut found.by_source,
                Known::AsNeighbours => &mut found.as_neighbours,
            } += 1;
            let local = u64::from(page.seen[at]);
            found.local += local;
            found.nonlocal += samples - local;
            found.pages.push(Sampled {
                address,
                bytes: page.bytes,
                at: node(at),
                seen: page.seen,
                weights: page.weights,
                area: page.area,
                held: false,
                stands_for: 1,
            });
        }
        found.names = vec![String::new(); areas.len()];
        areas.into_iter().for_each(|(name, number)| found.names[number as usize] = name);
        found.threads = threads.len() as u64;
        found.wandering = threads.values().filter(|nodes| nodes.len() > 1).count() as u64;
        found.seconds = times.map_or(0.0, |(first, last)| (last - first) as f64 / 1e9);
        found
    }
}

/// What a sample says of where its page is.
fn vote(votes: &mut Votes, access: &Access, by: usize, nodes: &Nodes, arm: bool) {
    let count = nodes.ids.len();
    match access.source.served {
        Served::LocalMemory => votes.vote(count, by, true),
        Served::RemoteMemory => votes.vote(count, by, false),
        Served::FarMemory if !nodes.far.is_empty() => votes.far(count, &nodes.far),
        // Arm's SPE says of an access that missed the last cache whether it left the socket, and no more.
        Served::Beyond if arm => votes.vote(count, by, true),
        Served::RemoteCache if arm && !access.source.modified => votes.vote(count, by, false),
        _ => {}
    }
}
