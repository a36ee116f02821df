//! What each phase and each CPU's threads have to do with what can be avoided.
//!
//! While page runs are built, [`Usage`] counts who refers to which page in which phase. A page's avoidable cost, which
//! is a matter of all its references, is then divided among them by what each costs beyond a local one.

use super::facts::PageFacts;
use crate::history::{HistoryBuilder, References, SpillError};
use crate::ids::{Node, Time};
use crate::machine::Costs;
use crate::trace::{Kind, NameId};
use ahash::AHashMap;
use std::collections::BTreeMap;

/// References by page, phase and CPU. A phase goes from a mark with its name to the next mark of a phase.
#[derive(Clone, Debug)]
pub struct Usage {
    granule_log2: u32,
    /// The phases so far, the first of which has no name: that before the first mark. Where a builder continues
    /// another, it is the phase in which that one ended.
    phases: Vec<Option<NameId>>,
    /// Since when which phase lasts, by rising Time.
    since: Vec<(Time, u32)>,
    /// By granule of dense addresses, phase, and CPU among those in use.
    counts: AHashMap<(u64, u32, u16), u64>,
}

impl Usage {
    /// Nobody refers to anything. Counts are by parts of 2^`granule_log2` bytes, at most a page.
    pub fn new(granule_log2: u32) -> Usage {
        Usage { granule_log2, phases: vec![None], since: vec![(Time(0), 0)], counts: AHashMap::new() }
    }

    /// A phase begins. Phases come by rising Time.
    pub fn begin_phase(&mut self, time: Time, name: NameId) {
        let phase = self.phase(Some(name));
        self.since.push((time, phase));
    }

    /// The number of a phase, which is entered if it is new.
    fn phase(&mut self, name: Option<NameId>) -> u32 {
        let known = self.phases.iter().position(|&known| known == name);
        known.unwrap_or_else(|| {
            self.phases.push(name);
            self.phases.len() - 1
        }) as u32
    }

    /// The phase of a Time.
    fn at(&self, time: Time) -> u32 {
        let last = self.since[self.since.len() - 1];
        if time >= last.0 {
            return last.1;
        }
        let after = self.since.partition_point(|&(since, _)| since <= time);
        self.since[after.saturating_sub(1)].1
    }

    /// References of a CPU in one phase.
    pub fn add(&mut self, cpu: u16, time: Time, addresses: &[u64]) {
        let phase = self.at(time);
        let granules = addresses.chunk_by(|a, b| a >> self.granule_log2 == b >> self.granule_log2);
        for same in granules {
            *self.counts.entry((same[0] >> self.granule_log2, phase, cpu)).or_default() += same.len() as u64;
        }
    }

    /// Adds what comes after this.
    pub fn append(&mut self, later: Usage) {
        let ours = self.since[self.since.len() - 1].1;
        let map: Vec<u32> =
            std::iter::once(ours).chain(later.phases[1..].iter().map(|&name| self.phase(name))).collect();
        for ((granule, phase, cpu), count) in later.counts {
            *self.counts.entry((granule, map[phase as usize], cpu)).or_default() += count;
        }
        self.since.extend(later.since[1..].iter().map(|&(time, phase)| (time, map[phase as usize])));
    }

    /// The same with the builder's pages in place of addresses.
    pub fn by_page(self, builder: &HistoryBuilder) -> PageUsage {
        let mut counts: BTreeMap<(u32, u32, u16), u64> = BTreeMap::new();
        for ((granule, phase, cpu), count) in self.counts {
            if let Some(page) = builder.page_of(granule << self.granule_log2) {
                *counts.entry((page, phase, cpu)).or_default() += count;
            }
        }
        PageUsage { phases: self.phases, counts }
    }
}

/// A builder of page runs, and who counts beside it.
pub struct Counting<'a> {
    /// Takes the references.
    pub builder: &'a mut HistoryBuilder,
    /// Counts them.
    pub usage: &'a mut Usage,
}

impl References for Counting<'_> {
    fn references(
        &mut self,
        cpu: u16,
        node: Node,
        first: Time,
        addresses: &[u64],
        kinds: &[Kind],
    ) -> Result<(), SpillError> {
        self.usage.add(cpu, first, addresses);
        self.builder.turn(node, first, addresses, kinds)
    }
}

/// [`Usage`] by page.
#[derive(Clone, Debug, Default)]
pub struct PageUsage {
    phases: Vec<Option<NameId>>,
    /// By page, phase and CPU.
    counts: BTreeMap<(u32, u32, u16), u64>,
}

/// What one part of a program's references is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Part {
    /// References; behind caches: those that reach memory.
    pub references: u64,
    /// Those to other nodes' memory.
    pub nonlocal: u64,
    /// 100 * its part of the avoidable cost / all of it.
    pub avoidable_percent: f64,
}

impl Part {
    /// 100 * references to other nodes' memory / references.
    pub fn nonlocal_percent(&self) -> f64 {
        100.0 * self.nonlocal as f64 / (self.references as f64).max(1.0)
    }

    fn add(&mut self, references: u64, local: bool, avoidable_percent: f64) {
        self.references += references;
        self.nonlocal += if local { 0 } else { references };
        self.avoidable_percent += avoidable_percent;
    }
}

/// The parts of a program's references.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parts {
    /// By phase, in the order in which they first began; `None`: before the first mark. Phases without references have
    /// none.
    pub by_phase: Vec<(Option<NameId>, Part)>,
    /// By CPU in use that refers to anything.
    pub by_cpu: Vec<(u16, Part)>,
}

/// Divides references and avoidable cost among phases and CPUs. `node`: where each CPU is.
pub fn parts(pages: &[PageFacts], usage: &PageUsage, costs: &Costs, node: impl Fn(u16) -> Node) -> Parts {
    let beyond_local = |page: &PageFacts, cpu: u16, count: u64| {
        let node = node(cpu);
        count as f64 * (costs.access(node, page.home) - costs.access(node, node)).max(0.0)
    };
    let mut beyond = vec![0.0; pages.len()];
    for (&(page, _, cpu), &count) in &usage.counts {
        beyond[page as usize] += beyond_local(&pages[page as usize], cpu, count);
    }
    let avoidable = |page: &PageFacts| (page.costs.here - page.costs.bound).max(0.0);
    let divided = pages.iter().zip(&beyond).filter(|(_, &beyond)| beyond > 0.0);
    let all: f64 = divided.map(|(page, _)| avoidable(page)).sum();
    let mut by_phase = vec![Part::default(); usage.phases.len()];
    let mut by_cpu: BTreeMap<u16, Part> = BTreeMap::new();
    for (&(number, phase, cpu), &count) in &usage.counts {
        let (page, beyond) = (&pages[number as usize], beyond[number as usize]);
        let share = match beyond > 0.0 && all > 0.0 {
            true => 100.0 * avoidable(page) / all * beyond_local(page, cpu, count) / beyond,
            false => 0.0,
        };
        let local = node(cpu) == page.home;
        by_phase[phase as usize].add(count, local, share);
        by_cpu.entry(cpu).or_default().add(count, local, share);
    }
    let by_phase = usage.phases.iter().copied().zip(by_phase).filter(|(_, part)| part.references > 0);
    Parts { by_phase: by_phase.collect(), by_cpu: by_cpu.into_iter().collect() }
}

#[cfg(test)]
mod tests {
    use super::super::facts::facts;
    use super::*;
    use crate::history::Options;
    use crate::machine::Machine;
    use crate::policy::placement::Placement;

    const KINDS: [Kind; 8] = [Kind(0); 8];

    /// CPU i is node i's. References of CPUs, with the phase that begins before.
    fn usage(turns: &[(Option<u32>, u16, u64)], cut: usize) -> (Parts, u64) {
        let costs = Machine::builtin("butterfly").unwrap();
        let costs = costs.costs(costs.page_size()).unwrap();
        let mut builder = HistoryBuilder::new(Options::default());
        let mut usage = Usage::new(12);
        let mut later = Usage::new(12);
        for (i, &(phase, cpu, page)) in turns.iter().enumerate() {
            let time = Time(8 * i as u64);
            let part = if i < cut { &mut usage } else { &mut later };
            if let Some(name) = phase {
                part.begin_phase(time, NameId(name));
            }
            let addresses = [page << 12; 8];
            Counting { builder: &mut builder, usage: part }
                .references(cpu, Node(cpu), time, &addresses, &KINDS)
                .unwrap();
        }
        usage.append(later);
        let usage = usage.by_page(&builder);
        let frames: Vec<u64> = (0..4).map(|page| page << 12).collect();
        let history = builder.finish(&frames).unwrap();
        let pages = facts(&history, &costs, &Placement::FirstTouch).unwrap();
        (parts(&pages, &usage, &costs, Node), history.references())
    }

    #[test]
    fn avoidable_cost_is_divided_by_what_references_cost_beyond_local_ones() {
        // CPU 0 makes both pages; in phase 7 CPU 1 uses page 0 and in phase 8 each its own, CPU 1 twice as often.
        let turns = [
            (None, 0, 0),
            (None, 0, 1),
            (Some(7), 1, 0),
            (None, 1, 0),
            (Some(8), 1, 0),
            (None, 1, 0),
            (None, 0, 1),
            (Some(7), 1, 0),
        ];
        for cut in 0..=turns.len() {
            let (parts, references) = usage(&turns, cut);
            let percent =
                |part: &Part| (part.references, part.nonlocal, part.avoidable_percent.round() as u64);
            let phases: Vec<_> =
                parts.by_phase.iter().map(|(name, part)| (name.map(|n| n.0), percent(part))).collect();
            assert_eq!(
                phases,
                [(None, (16, 0, 0)), (Some(7), (24, 24, 60)), (Some(8), (24, 16, 40))],
                "{cut}"
            );
            let cpus: Vec<_> = parts.by_cpu.iter().map(|(cpu, part)| (*cpu, percent(part))).collect();
            assert_eq!(cpus, [(0, (24, 0, 0)), (1, (40, 40, 100))], "{cut}");
            assert_eq!(parts.by_cpu.iter().map(|(_, part)| part.references).sum::<u64>(), references);
        }
    }
}
