//! A second reading of a trace: what each CPU does when, and what the lines of shared pages do.

use crate::case::Case;
use crate::chosen::Chooser;
use crate::error::Result;
use crate::model::{self, frames};
use homing_core::history::{Binding, History};
use homing_core::ids::{Cpu, Page, Thread, Time};
use homing_core::why::active::Active;
use homing_core::why::facts::{PageFacts, INTERVALS};
use homing_core::why::lines::{Capacity, Lines, PageLines, LINE};
use homing_trace::{Event, Names, Turn, Visitor, FRAME_BYTES};
use std::collections::hash_map::Entry;
use std::collections::HashMap;

/// What a second reading gave.
pub struct Reading {
    /// References of each CPU in use in each interval.
    pub by_cpu: Vec<[u64; INTERVALS]>,
    /// Pages that several nodes use and whose lines were not watched for want of memory.
    pub unwatched: usize,
}

/// Reads a trace again, and, with `lines`, gives the facts of pages that several nodes use what their lines say, if the
/// trace has the addresses of lines.
pub fn read(case: &Case<'_>, nodes: usize, facts: &mut [PageFacts], lines: bool) -> Result<Reading> {
    let frames = frames(&case.trace);
    let history = &case.layout.history;
    let page_bytes = history.page_size().bytes();
    // Pages smaller than frames are told apart by neither.
    let whole = page_bytes >= FRAME_BYTES;
    let watched = match lines && whole && case.trace.header().grain.is_exact() {
        true => watched(facts, &frames, history),
        false => Vec::new(),
    };
    let known = if whole { with_pages(facts, &frames, history, |_| true) } else { Vec::new() };
    let numbers: Vec<u32> = watched.iter().map(|&(frame, _)| frame).collect();
    let binding = &case.layout.binding;
    let cpus = model::cpus(&case.trace, binding);
    let choice = &case.ready.experiment.choice;
    let mut watch = Watch {
        names: case.trace.names(),
        chooser: (!choice.is_everything()).then(|| Chooser::new(choice, frames.len())),
        lines: Lines::new(nodes, cpus.cpus().len(), frames.len(), &numbers, capacity(case)),
        active: whole.then(|| Active::new(nodes, frames.len())),
        binding,
        cpus: cpus.cpus().iter().zip(0..).map(|(&cpu, index)| (cpu, index)).collect(),
        length: history.duration().0 / INTERVALS as u64 + 1,
        by_cpu: vec![[0; INTERVALS]; cpus.cpus().len()],
    };
    case.trace.visit_all(&mut watch)?;
    if let Some(active) = &watch.active {
        tell_intervals(active, nodes, &known, facts);
    }
    let mut unwatched = 0;
    let mut found: HashMap<usize, PageLines> = HashMap::new();
    for (frame, page) in watched {
        let Some(more) = watch.lines.of_frame(frame, frames[frame as usize] % page_bytes) else {
            unwatched += 1;
            continue;
        };
        match found.entry(page) {
            Entry::Occupied(mut known) => known.get_mut().add(more),
            Entry::Vacant(none) => {
                none.insert(more);
            }
        }
    }
    found.into_iter().for_each(|(page, lines)| facts[page].look_into(lines));
    Ok(Reading { by_cpu: watch.by_cpu, unwatched })
}

/// Lines that the caches of a node hold: those of its largest level; and those of a CPU: of the largest that it has
/// alone. Without caches nothing is dropped.
fn capacity(case: &Case<'_>) -> Capacity {
    let shape = case.ready.machine.hierarchy(case.ready.page_size).ok().flatten();
    let shape = shape.filter(|_| case.layout.caches.is_some());
    shape.map_or(Capacity { node: u64::MAX, cpu: u64::MAX }, |shape| Capacity {
        node: shape.l3.map_or(shape.l2, |(l3, _)| l3).bytes() / LINE,
        cpu: shape.l2.bytes() / LINE,
    })
}

/// Tells the facts of pages in which intervals their frames are referred to.
fn tell_intervals(active: &Active, nodes: usize, known: &[(u32, usize)], facts: &mut [PageFacts]) {
    let mut intervals = vec![0; nodes * facts.len()];
    for &(frame, page) in known {
        active.add_to(frame, &mut intervals[page * nodes..][..nodes]);
    }
    facts.iter_mut().zip(intervals.chunks(nodes)).for_each(|(page, intervals)| page.refer_only_in(intervals));
}

/// The frames of the pages that several nodes use, those with most references first, each with its page.
fn watched(facts: &[PageFacts], frames: &[u64], history: &History) -> Vec<(u32, usize)> {
    let mut watched = with_pages(facts, frames, history, PageFacts::is_shared);
    watched.sort_by_key(|&(frame, page)| (std::cmp::Reverse(facts[page].references()), frame));
    watched
}

/// The frames of the pages that are `wanted`, each with its page.
fn with_pages(
    facts: &[PageFacts],
    frames: &[u64],
    history: &History,
    wanted: impl Fn(&PageFacts) -> bool,
) -> Vec<(u32, usize)> {
    let page_bytes = history.page_size().bytes();
    let of_page = |address: u64| address / page_bytes;
    // Addresses that were unmapped and mapped again have several pages: where numbers do not tell them apart, the one
    // with most references stands for all.
    let identical = page_bytes == FRAME_BYTES && frames.len() == facts.len();
    let mut pages: HashMap<u64, usize> = HashMap::new();
    for (page, found) in facts.iter().enumerate().filter(|(_, found)| wanted(found)) {
        let known = pages.entry(of_page(found.address)).or_insert(page);
        if facts[*known].references() < found.references() {
            *known = page;
        }
    }
    let page_of = |(number, &address): (usize, &u64)| {
        let same = identical && history.address(Page(number as u32)) == address;
        let page = match same {
            true => wanted(&facts[number]).then_some(number),
            false => pages.get(&of_page(address)).copied(),
        };
        page.map(|page| (number as u32, page))
    };
    frames.iter().enumerate().filter_map(page_of).collect()
}

struct Watch<'a> {
    names: &'a Names,
    /// If not all references are looked at.
    chooser: Option<Chooser<'a>>,
    lines: Lines,
    /// If pages are not smaller than frames.
    active: Option<Active>,
    binding: &'a Binding,
    /// The index of each CPU in use.
    cpus: HashMap<Cpu, usize>,
    /// Time of an interval.
    length: u64,
    by_cpu: Vec<[u64; INTERVALS]>,
}

impl Visitor for Watch<'_> {
    fn turn(&mut self, turn: Turn<'_>) {
        match self.chooser.take() {
            None => self.add(turn),
            Some(mut chooser) => {
                chooser.choose(turn, |turn| self.add(turn));
                self.chooser = Some(chooser);
            }
        }
    }

    fn event(&mut self, _thread: Thread, _time: Time, event: &Event) {
        if let (Event::Mark { name, .. }, Some(chooser)) = (event, &mut self.chooser) {
            chooser.mark(self.names.get(*name));
        }
    }
}

impl Watch<'_> {
    /// Adds references that are looked at.
    fn add(&mut self, turn: Turn<'_>) {
        // Where a thread moves within a turn, or an interval ends, the turn's first reference stands for all of it.
        let ((cpu, node), _) = self.binding.place_at(turn.thread, turn.first);
        let interval = ((turn.first.0 / self.length) as usize).min(INTERVALS - 1);
        if let Some(active) = &mut self.active {
            active.turn(node, interval, turn.addresses);
        }
        let cpu = self.cpus.get(&cpu).copied();
        if let Some(cpu) = cpu {
            self.by_cpu[cpu][interval] += turn.addresses.len() as u64;
        }
        // The program's threads run on no other CPUs.
        self.lines.turn(node, cpu.unwrap_or(usize::MAX), turn.addresses, turn.kinds);
    }
}
