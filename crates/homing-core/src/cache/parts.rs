//! Caches served by several workers at once, with the same result as by one.
//!
//! Lines meet in sets only: what happens to a line touches lines with the same number of their set, in each level and
//! in each CPU's caches. So lines fall into parts, by bits of their numbers that are bits of the set's number in every
//! level, and parts know nothing of each other. As long as pages stay where they are the TLBs are apart from the caches
//! too, and those of one CPU from those of another. References are collected in batches, whose lines are dealt out to
//! the parts and whose pages to the TLBs; while the workers serve one batch, the next is collected.

use super::caches::{Caches, Events};
use super::counts::Counts;
use super::frames::{Addresses, Frames, NOWHERE};
use super::hierarchy::Hierarchy;
use super::job::Job;
use super::shape::{HierarchyShape, Shape};
use super::tlbs::Tlbs;
use super::{Kind, Served};
use crate::ids::Time;
use crate::trace::Kind as Access;
use rayon::prelude::*;

/// References of a batch.
const BATCH: usize = if cfg!(test) { 256 } else { 1 << 16 };

/// How many parts the caches of this shape fall into, at most `wanted`: a power of two.
pub(super) fn parts(shape: &HierarchyShape, wanted: usize) -> usize {
    let longer = |level: &Shape| level.line_log2 - shape.l1.line_log2;
    // In lines of the first level: the bits of a set's number end here.
    let end = |level: &Shape| level.sets.trailing_zeros() + longer(level);
    let levels = [Some(&shape.l1), Some(&shape.l2), shape.l3.as_ref().map(|l3| &l3.0)];
    let end = levels.into_iter().flatten().map(end).min().unwrap_or(0);
    let bits = end.saturating_sub(longer(&shape.l2)).min(wanted.max(1).ilog2());
    1 << bits
}

/// A line that a reference asks for.
#[derive(Clone, Copy, Debug)]
struct Item {
    line: u32,
    /// The reference's index in its batch.
    index: u32,
    cpu: u16,
    write: bool,
}

/// A reference that went to its page's home.
#[derive(Clone, Copy, Debug)]
struct Sent {
    index: u32,
    write: bool,
}

/// References that one CPU makes in a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    /// The CPU.
    pub cpu: u16,
    /// Time of the first one.
    pub first: Time,
    /// Its index in the batch.
    begin: usize,
}

/// Some references, dealt out.
#[derive(Debug, Default)]
struct Batch {
    addresses: Vec<u64>,
    stretches: Vec<Stretch>,
    /// Lines that are asked for, by part.
    items: Vec<Vec<Item>>,
    /// Pages that are asked for, by CPU.
    pages: Vec<Vec<u32>>,
}

impl Batch {
    fn new(parts: usize, cpus: usize) -> Batch {
        Batch { items: vec![Vec::new(); parts], pages: vec![Vec::new(); cpus], ..Batch::default() }
    }

    fn clear(&mut self) {
        self.addresses.clear();
        self.stretches.clear();
        self.items.iter_mut().for_each(Vec::clear);
        self.pages.iter_mut().for_each(Vec::clear);
    }
}

/// One part of the caches.
#[derive(Debug)]
struct Part {
    caches: Caches,
    sent: Vec<Sent>,
}

/// Keeps what is asked of memory on behalf of one reference.
struct Asked<'a> {
    index: u32,
    sent: &'a mut Vec<Sent>,
}

impl Events for Asked<'_> {
    fn demand(&mut self, _cpu: u16, kind: Kind, _served: Served) {
        self.sent.push(Sent { index: self.index, write: kind.is_write() });
    }

    fn write_back(&mut self, _cpu: u16, _line: u32) {}
}

impl Part {
    fn serve(&mut self, items: &[Item]) {
        for &Item { line, index, cpu, write } in items {
            if !self.caches.first(cpu, line, write).1 {
                self.caches.second(cpu, line, write, &mut Asked { index, sent: &mut self.sent });
            }
        }
    }
}

/// What workers work on.
#[derive(Debug)]
struct Machine {
    parts: Vec<Part>,
    tlbs: Vec<(Tlbs, Counts)>,
}

impl Machine {
    fn serve(&mut self, batch: &Batch) {
        let Machine { parts, tlbs } = self;
        rayon::join(
            || parts.par_iter_mut().zip(&batch.items).for_each(|(part, items)| part.serve(items)),
            || {
                tlbs.par_iter_mut().zip(&batch.pages).for_each(|((tlbs, counts), pages)| {
                    for &page in pages {
                        tlbs.translate(page, counts);
                    }
                });
            },
        );
    }

    /// What was sent of a batch, in order; a reference that sent for two lines counts once.
    fn take_sent(&mut self) -> Vec<Sent> {
        let mut all: Vec<Sent> =
            self.parts.iter_mut().flat_map(|part| std::mem::take(&mut part.sent)).collect();
        all.sort_by_key(|sent| sent.index);
        all.dedup_by(|next, kept| {
            let same = next.index == kept.index;
            kept.write |= same && next.write;
            same
        });
        all
    }
}

/// Caches in parts, and what deals references out to them.
#[derive(Debug)]
pub(super) struct Parts {
    addresses: Addresses,
    frames: Frames,
    l1_log2: u32,
    /// From a line's number to its part's.
    part_shift: u32,
    part_mask: u32,
    /// The page that each CPU has referred to last.
    last_page: Vec<u32>,
    /// References and lines of each CPU.
    counts: Vec<Counts>,
    filling: Batch,
    /// Here unless workers have them.
    machine: Option<(Machine, Batch)>,
    under_way: Option<Job<(Machine, Batch)>>,
}

impl Parts {
    /// As many parts as [`parts`] says, of a hierarchy that has served nothing.
    pub fn of(hierarchy: Hierarchy, parts: usize) -> Parts {
        let Hierarchy { tlbs, caches, addresses, frames, l1_log2, l2_log2, .. } = hierarchy;
        let cpus = tlbs.len();
        let part = |_| Part { caches: caches.clone(), sent: Vec::new() };
        let machine = Machine {
            parts: (0..parts).map(part).collect(),
            tlbs: tlbs.into_iter().map(|tlbs| (tlbs, Counts::default())).collect(),
        };
        Parts {
            addresses,
            frames,
            l1_log2,
            part_shift: l2_log2 - l1_log2,
            part_mask: parts as u32 - 1,
            last_page: vec![NOWHERE; cpus],
            counts: vec![Counts::default(); cpus],
            filling: Batch::new(parts, cpus),
            machine: Some((machine, Batch::new(parts, cpus))),
            under_way: None,
        }
    }

    /// Takes references of a CPU. True if the batch is full: [`Parts::hand_over`] comes next.
    pub fn take(&mut self, cpu: u16, first: Time, addresses: &[u64], accesses: &[Access]) -> bool {
        let granule_log2 = self.addresses.granule_log2();
        let granule_mask = (1u64 << granule_log2) - 1;
        let batch = &mut self.filling;
        let begin = batch.addresses.len();
        batch.stretches.push(Stretch { cpu, first, begin });
        batch.addresses.extend_from_slice(addresses);
        let pages = &mut batch.pages[cpu as usize];
        let last_page = &mut self.last_page[cpu as usize];
        // As in the hierarchy: the line of the last reference, if it may be read, or written too.
        let mut known = [u64::MAX; 2];
        let mut lines = 0;
        for (index, (&address, &access)) in (begin as u32..).zip(addresses.iter().zip(accesses)) {
            let write = access.is_write();
            let end = (address & granule_mask) + u64::from(access.bytes()) - 1;
            let (from, to) =
                ((address & granule_mask) >> self.l1_log2, end.min(granule_mask) >> self.l1_log2);
            lines += to - from + 1;
            let number = address >> self.l1_log2;
            if from == to && number == known[usize::from(write)] {
                continue;
            }
            let granule = address >> granule_log2;
            let mut place = self.frames.places()[granule as usize];
            if place.page == NOWHERE {
                place = self.frames.enter(granule, &self.addresses);
            }
            if place.page != *last_page {
                *last_page = place.page;
                pages.push(place.page);
            }
            for part in from..=to {
                let line = place.line + part as u32;
                let items = &mut batch.items[(line >> self.part_shift & self.part_mask) as usize];
                items.push(Item { line, index, cpu, write });
            }
            known = match (from == to, write) {
                (true, true) => [number; 2],
                (true, false) => [number, u64::MAX],
                (false, _) => [u64::MAX; 2],
            };
        }
        self.counts[cpu as usize].references += addresses.len() as u64;
        self.counts[cpu as usize].lines += lines;
        batch.addresses.len() >= BATCH
    }

    /// Hands what was taken to the workers, and what came of the batch before to `sent`: each reference that went to
    /// its page's home, with its CPU, Time, dense address, and whether it was to write.
    pub fn hand_over<E>(
        &mut self,
        sent: impl FnMut(u16, Time, &[u64], bool) -> Result<(), E>,
    ) -> Result<(), E> {
        let done = self.wait(sent);
        let (mut machine, mut batch) = self.machine.take().expect("workers have given it back");
        std::mem::swap(&mut batch, &mut self.filling);
        if rayon::current_thread_index().is_some() {
            // One of the workers must not wait for the others.
            machine.serve(&batch);
            self.machine = Some((machine, batch));
        } else {
            self.under_way = Some(Job::begin(move || {
                machine.serve(&batch);
                (machine, batch)
            }));
        }
        done
    }

    /// Waits for the batch that workers have.
    fn wait<E>(&mut self, mut sent: impl FnMut(u16, Time, &[u64], bool) -> Result<(), E>) -> Result<(), E> {
        if let Some(under_way) = self.under_way.take() {
            self.machine = Some(under_way.wait());
        }
        let (machine, batch) = self.machine.as_mut().expect("nobody else has it");
        let mut stretches = batch.stretches.iter().peekable();
        let mut stretch = None;
        let mut all = machine.take_sent().into_iter();
        let result = all.try_for_each(|Sent { index, write }| {
            let at = index as usize;
            while let Some(next) = stretches.next_if(|next| next.begin <= at) {
                stretch = Some(*next);
            }
            let Stretch { cpu, first, begin } = stretch.expect("each reference is in a stretch");
            sent(cpu, Time(first.0 + (at - begin) as u64), &batch.addresses[at..=at], write)
        });
        batch.clear();
        result
    }

    /// Serves what is left. Returns what was counted, by CPU.
    pub fn finish<E>(
        &mut self,
        mut sent: impl FnMut(u16, Time, &[u64], bool) -> Result<(), E>,
    ) -> Result<Vec<Counts>, E> {
        self.hand_over(&mut sent)?;
        self.wait(&mut sent)?;
        let (machine, _) = self.machine.as_ref().expect("nobody else has it");
        let mut by_cpu = self.counts.clone();
        let caches = machine.parts.iter().map(|part| part.caches.counts.as_slice());
        for counts in caches {
            by_cpu.iter_mut().zip(counts).for_each(|(sum, counts)| sum.add(counts));
        }
        by_cpu.iter_mut().zip(&machine.tlbs).for_each(|(sum, (_, counts))| sum.add(counts));
        Ok(by_cpu)
    }
}

#[cfg(test)]
mod tests {
    use super::super::cpus::CpusInUse;
    use super::super::misses::Misses;
    use super::*;
    use crate::history::{HistoryBuilder, Options, ThreadsOn};
    use crate::ids::{Node, Page, PageSize, Thread};
    use crate::trace::Turn;
    use proptest::prelude::*;

    fn shape(l1: (u64, u32, u64), l2: (u64, u32, u64), l3: Option<(u64, u32, u64)>) -> HierarchyShape {
        let cache = |(bytes, ways, line)| Shape::cache(bytes, ways, line).unwrap();
        HierarchyShape {
            l1: cache(l1),
            l2: cache(l2),
            l3: l3.map(|l3| (cache(l3), 2)),
            tlbs: vec![Shape::tlb(2, 2).unwrap(), Shape::tlb(8, 2).unwrap()],
            colours: Default::default(),
        }
    }

    fn shapes() -> [HierarchyShape; 4] {
        [
            shape((512, 2, 32), (2048, 4, 64), None),
            shape((1024, 2, 64), (2048, 2, 64), Some((8192, 4, 64))),
            // One part: the first level has one set.
            shape((128, 2, 64), (2048, 2, 64), None),
            shape((4096, 1, 32), (16 * 17 * 32, 17, 32), None),
        ]
    }

    /// Everything that comes out: counts, and all page runs.
    fn served(shape: &HierarchyShape, turns: &[(u32, Vec<(u64, bool)>)], workers: usize) -> String {
        let binding = ThreadsOn::Fill.bind(&[0, 0, 1, 1].map(Node)).unwrap();
        let cpus = CpusInUse::new((0..4).map(Thread), &binding);
        let frames: Vec<u64> = (0..8).map(|frame| frame << 12).collect();
        let addresses = Addresses::new(PageSize::KIB4, &frames);
        let mut misses = Misses::new(shape, cpus, addresses, workers).unwrap();
        let mut builder = HistoryBuilder::new(Options {
            page_size: PageSize::KIB4,
            read_gap: 10,
            budget: 1 << 20,
            spill: None,
        });
        builder.group_frames(&frames);
        let mut first = Time(0);
        for (thread, references) in turns {
            let addresses: Vec<u64> = references.iter().map(|reference| reference.0).collect();
            let kinds: Vec<Access> =
                references.iter().map(|&(_, write)| Access::new(8, write, false)).collect();
            let turn = Turn { thread: Thread(*thread), first, addresses: &addresses, kinds: &kinds };
            misses.turn(turn, &mut builder).unwrap();
            first.0 += references.len() as u64;
        }
        let counts = misses.finish(&mut builder).unwrap();
        let history = builder.finish(&frames).unwrap();
        let runs = (0..history.pages()).map(|page| history.runs(Page(page)).unwrap().collect::<Vec<_>>());
        format!("{counts:?} {:?}", runs.collect::<Vec<_>>())
    }

    #[test]
    fn as_many_parts_as_all_levels_have_bits_of_the_set_in_common() {
        let numbers: Vec<usize> = shapes().iter().map(|shape| parts(shape, 1000)).collect();
        // Of 8 sets of the first level two neighbours belong to one line of the second; 8 sets; 1 set; 16 sets of the
        // second.
        assert_eq!(numbers, [4, 8, 1, 16]);
        assert_eq!([1, 2, 3, 5].map(|wanted| parts(&shapes()[1], wanted)), [1, 2, 2, 4]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn any_number_of_workers_gives_the_same(
            turns in prop::collection::vec(
                (0u32..4, prop::collection::vec((0u64..8 * 4096 - 8, any::<bool>()), 1..20)),
                1..120,
            ),
        ) {
            for shape in shapes() {
                let alone = served(&shape, &turns, 1);
                for workers in [2, 16] {
                    prop_assert_eq!(&served(&shape, &turns, workers), &alone);
                }
            }
        }
    }
}
