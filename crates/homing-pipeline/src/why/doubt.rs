//! Whether a trace tells at all if the placement of memory matters.

use crate::case::Case;
use crate::mappings::Memory;
use homing_core::history::Busy;
use homing_core::ids::{Cpu, Node};
use homing_core::machine::Costs;
use homing_core::why::doubt::Doubt;
use homing_core::why::facts::{PageFacts, INTERVALS};
use homing_core::why::verdict::Cause;
use homing_core::why::{self, Setup};
use homing_trace::NameId;
use std::collections::{BTreeMap, BTreeSet};

/// One thread with more than this share of all references does all the work.
const ALONE: f64 = 0.97;
/// Caches of other machines are up to this much larger than those that are modelled.
const LARGER: f64 = 1.2;
/// A program whose last quarter is the first to use this share of its pages still fills new memory.
const GROWING: f64 = 0.1;
/// With fewer references a trace says nothing of longer runs: less than a millisecond of one thread.
const FEW: u64 = 100_000;

/// Whether one thread does all the work.
pub fn one_works(busy: &Busy) -> bool {
    busy.share_of_busiest() > ALONE
}

/// Whether a trace is of a part of its program's run.
fn is_part(case: &Case<'_>) -> bool {
    is_of_region(case) || is_ended(case)
}

/// Whether the recording ended before the program did, and is of all that came before.
pub fn ends_early(case: &Case<'_>) -> bool {
    is_ended(case) && !is_of_region(case)
}

/// Whether a part of the run was asked for, or it had begun before.
fn is_of_region(case: &Case<'_>) -> bool {
    let header = case.trace.header();
    let asked =
        |key: &str| header.more.get(key).is_some_and(|value| !value.is_null() && value.as_u64() != Some(0));
    ["from", "to", "skip", "attached"].into_iter().any(asked) || header.windows().is_some()
}

/// Whether a limit, or a signal that somebody sent on purpose, ended the recording.
fn is_ended(case: &Case<'_>) -> bool {
    let summary = case.trace.summary();
    let limit = case.trace.header().more.get("limit").and_then(serde_json::Value::as_u64);
    summary.beyond_limit > 0
        || limit.is_some_and(|limit| summary.references >= limit)
        || summary.ending.is_some_and(|ending| ending.asked)
}

/// Why there is no verdict, if there is none; `found`: what would be the verdict.
pub fn doubt(case: &Case<'_>, setup: &Setup<'_>, busy: &Busy, found: Cause) -> Option<Doubt> {
    let summary = case.trace.summary();
    if let Some(ending) = summary.ending.filter(homing_trace::Ending::is_crash) {
        return Some(Doubt::Crashed { signal: ending.status - 128 });
    }
    if case.layout.partial {
        return Some(Doubt::Cut);
    }
    if found != Cause::NotNuma || !case.ready.experiment.choice.is_whole_program() {
        return None;
    }
    if is_flat(setup.costs) {
        return None;
    }
    if one_works(busy) && is_part(case) {
        return Some(Doubt::OneThread { percent: 100.0 * busy.share_of_busiest() });
    }
    let whole = case.ready.experiment.choice.is_everything();
    let of_part = (whole && ends_early(case)).then(|| growing(setup.facts)).flatten();
    let of_others = of_part.or_else(|| of_others(case, setup));
    // One thread that does all the work has its own memory near itself, however much that is.
    of_others.or_else(|| {
        (!one_works(busy)).then(|| too_small(case, setup.facts).or_else(|| order(case, setup))).flatten()
    })
}

/// Whether the recording ended while the program still filled new memory.
fn growing(facts: &[PageFacts]) -> Option<Doubt> {
    let last = (INTERVALS - INTERVALS / 4) as u16;
    let first_use = |page: &&PageFacts| page.uses.iter().map(|used| used.interval).min();
    let new = facts.iter().filter(|page| first_use(page).is_some_and(|first| first >= last)).count();
    let share = new as f64 / (facts.len() as f64).max(1.0);
    (share >= GROWING).then_some(Doubt::Growing { percent: 100.0 * share })
}

/// Whether no memory is far: then it does not matter where any page is.
fn is_flat(costs: &Costs) -> bool {
    let nodes = || (0..costs.memories()).map(Node);
    nodes().all(|by| nodes().all(|at| costs.access(by, at) <= costs.access(by, by)))
}

/// Memory whose place others than the program's own threads decide, where it matters where that is.
fn of_others(case: &Case<'_>, setup: &Setup<'_>) -> Option<Doubt> {
    let mappings = &case.layout.mappings;
    let has_family = mappings.forks > 0 || case.trace.header().is_child();
    let (mut all, mut shared, mut cached) = (0u64, Part::default(), Part::default());
    let mut files: BTreeMap<NameId, u64> = BTreeMap::new();
    for (index, page) in setup.facts.iter().enumerate() {
        all += page.references();
        match mappings.of(page.address) {
            Some(Memory::Shared) if has_family => shared.add(index, page),
            Some(Memory::Named) => shared.add(index, page),
            Some(Memory::Inherited) if page.writes == 0 => shared.add(index, page),
            Some(Memory::File { name, shared }) if shared || page.writes == 0 => {
                cached.add(index, page);
                *files.entry(name).or_default() += page.references();
            }
            _ => {}
        }
    }
    let percent = |part: &Part| 100.0 * part.references as f64 / (all as f64).max(1.0);
    let matters =
        |part: &Part| !part.pages.is_empty() && why::sensitivity(setup, &part.pages) >= why::NOTHING;
    if matters(&shared) {
        return Some(Doubt::SharedMemory { percent: percent(&shared) });
    }
    let (&most, _) = files.iter().max_by_key(|(_, references)| **references).filter(|_| matters(&cached))?;
    Some(Doubt::PageCache {
        file: case.trace.names().get(most).to_owned(),
        bytes: cached.bytes,
        percent: percent(&cached),
    })
}

/// Some pages.
#[derive(Default)]
struct Part {
    pages: Vec<usize>,
    references: u64,
    bytes: u64,
}

impl Part {
    fn add(&mut self, index: usize, page: &PageFacts) {
        self.pages.push(index);
        self.references += page.references();
        self.bytes += page.bytes;
    }
}

/// Lines whose travels the order of the recording may hide, where that changes the time.
fn order(case: &Case<'_>, setup: &Setup<'_>) -> Option<Doubt> {
    if case.trace.header().windows().is_some() {
        return None;
    }
    let why::Hidden { seen, hidden, share } = why::hidden(setup)?;
    (share >= why::NOTHING).then_some(Doubt::Order { seen, hidden, percent: 100.0 * share })
}

/// Whether what was recorded is too small to tell of larger runs.
fn too_small(case: &Case<'_>, facts: &[PageFacts]) -> Option<Doubt> {
    let trace = &case.trace;
    if trace.header().windows().is_some() {
        return None;
    }
    let references = trace.references() + trace.summary().filtered;
    if references < FEW {
        return Some(Doubt::Few { references });
    }
    let caches = caches(case)?;
    let bytes: u64 = facts.iter().map(|page| page.bytes).sum();
    (bytes as f64 <= LARGER * caches as f64).then_some(Doubt::FitsCaches { bytes, caches })
}

/// Bytes of the last-level caches of the CPUs that threads run on; nothing without caches.
fn caches(case: &Case<'_>) -> Option<u64> {
    let shape = case.ready.machine.hierarchy(case.ready.page_size).ok().flatten();
    let shape = shape.filter(|_| case.layout.caches.is_some())?;
    let (last, cpus) = shape.l3.map_or((shape.l2, 1), |(l3, cpus)| (l3, cpus.max(1)));
    let used = case.trace.threads().map(|(thread, _)| case.layout.binding.cpu(thread));
    let caches: BTreeSet<u32> = used.map(|Cpu(cpu)| u32::from(cpu) / cpus).collect();
    Some(last.bytes() * caches.len() as u64)
}
