//! The hierarchy against an obvious model: lists of lines in order of use, no packing, no short cuts.

use super::*;
use crate::ids::{Cpu, Page, PageSize};
use crate::trace::Kind as Access;
use proptest::prelude::*;

/// A cache as lists of (line, state) a set, the most recently used first.
struct List {
    sets: Vec<Vec<(u64, State)>>,
    ways: usize,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    Shared,
    Exclusive,
    Modified,
}

impl List {
    fn new(shape: Shape) -> List {
        List { sets: vec![Vec::new(); shape.sets as usize], ways: shape.ways as usize }
    }

    fn set(&mut self, line: u64) -> &mut Vec<(u64, State)> {
        let sets = self.sets.len() as u64;
        &mut self.sets[(line % sets) as usize]
    }

    fn get(&mut self, line: u64) -> Option<&mut State> {
        self.set(line).iter_mut().find(|entry| entry.0 == line).map(|entry| &mut entry.1)
    }

    /// Uses a line: true if it was there.
    fn touch(&mut self, line: u64) -> bool {
        let set = self.set(line);
        let Some(at) = set.iter().position(|entry| entry.0 == line) else { return false };
        let entry = set.remove(at);
        set.insert(0, entry);
        true
    }

    fn insert(&mut self, line: u64, state: State) -> Option<(u64, State)> {
        let ways = self.ways;
        let set = self.set(line);
        set.insert(0, (line, state));
        (set.len() > ways).then(|| set.pop().unwrap())
    }

    fn remove(&mut self, line: u64) -> Option<State> {
        let set = self.set(line);
        let at = set.iter().position(|entry| entry.0 == line)?;
        Some(set.remove(at).1)
    }
}

/// Two private levels a CPU, one or two TLBs, MESI; no third level.
struct Model {
    shape: HierarchyShape,
    l1: Vec<List>,
    l2: Vec<List>,
    tlb: Vec<List>,
    second_tlb: Vec<List>,
    frames: Vec<Option<u64>>,
    next_frame: u64,
    counts: Counts,
}

impl Model {
    fn new(shape: &HierarchyShape, cpus: usize, pages: usize) -> Model {
        Model {
            shape: shape.clone(),
            l1: (0..cpus).map(|_| List::new(shape.l1)).collect(),
            l2: (0..cpus).map(|_| List::new(shape.l2)).collect(),
            tlb: (0..cpus).map(|_| List::new(shape.tlbs[0])).collect(),
            second_tlb: shape
                .tlbs
                .get(1)
                .map_or(Vec::new(), |&tlb| (0..cpus).map(|_| List::new(tlb)).collect()),
            frames: vec![None; pages],
            next_frame: 0,
            counts: Counts::default(),
        }
    }

    fn drop_parts(&mut self, cpu: usize, line: u64) {
        let parts = 1 << (self.shape.l2.line_log2 - self.shape.l1.line_log2);
        (0..parts).for_each(|part| {
            self.l1[cpu].remove(line * parts + part);
        });
    }

    fn reference(&mut self, cpu: usize, address: u64, write: bool) {
        let page = (address / 4096) as usize;
        self.counts.references += 1;
        self.counts.lines += 1;
        if self.frames[page].is_none() {
            self.frames[page] = Some(self.next_frame);
            self.next_frame += 1;
        }
        self.translate(cpu, page as u64);
        let physical = self.frames[page].unwrap() * 4096 + address % 4096;
        let l1_line = physical >> self.shape.l1.line_log2;
        let line = physical >> self.shape.l2.line_log2;
        if self.l1[cpu].touch(l1_line) {
            // The second level's order of use changes with a first write only, as the first level tells it then.
            if write && *self.l1[cpu].get(l1_line).unwrap() != State::Modified {
                *self.l1[cpu].get(l1_line).unwrap() = State::Modified;
                self.second(cpu, line, write);
            }
            return;
        }
        self.counts.l1_misses += 1;
        self.l1[cpu].insert(l1_line, if write { State::Modified } else { State::Shared });
        self.second(cpu, line, write);
    }

    fn translate(&mut self, cpu: usize, page: u64) {
        if self.tlb[cpu].touch(page) {
            return;
        }
        self.counts.tlb1_misses += 1;
        self.tlb[cpu].insert(page, State::Shared);
        let Some(second) = self.second_tlb.get_mut(cpu) else {
            self.counts.tlb_misses += 1;
            return;
        };
        if !second.touch(page) {
            self.counts.tlb_misses += 1;
            if let Some((lost, _)) = second.insert(page, State::Shared) {
                self.tlb[cpu].remove(lost);
            }
        }
    }

    fn second(&mut self, cpu: usize, line: u64, write: bool) {
        let others: Vec<usize> =
            (0..self.l2.len()).filter(|&c| c != cpu && self.l2[c].get(line).is_some()).collect();
        if self.l2[cpu].touch(line) {
            if write {
                if *self.l2[cpu].get(line).unwrap() == State::Shared {
                    self.counts.upgrades += 1;
                    others.iter().for_each(|&other| self.take(other, line));
                }
                *self.l2[cpu].get(line).unwrap() = State::Modified;
            }
            return;
        }
        self.counts.l2_misses += 1;
        let changed = others.iter().any(|&other| self.l2[other].get(line) == Some(&mut State::Modified));
        self.counts.interventions += u64::from(changed);
        if write {
            self.counts.fetches_write += 1;
            others.iter().for_each(|&other| self.take(other, line));
        } else {
            self.counts.fetches_read += 1;
            self.counts.write_backs += u64::from(changed);
            for &other in &others {
                if self.l2[other].get(line) == Some(&mut State::Modified) {
                    let parts = 1 << (self.shape.l2.line_log2 - self.shape.l1.line_log2);
                    for part in 0..parts {
                        if let Some(state) = self.l1[other].get(line * parts + part) {
                            *state = State::Shared;
                        }
                    }
                }
                *self.l2[other].get(line).unwrap() = State::Shared;
            }
        }
        let state = match (write, others.is_empty()) {
            (true, _) => State::Modified,
            (false, true) => State::Exclusive,
            (false, false) => State::Shared,
        };
        if let Some((victim, state)) = self.l2[cpu].insert(line, state) {
            self.drop_parts(cpu, victim);
            self.counts.write_backs += u64::from(state == State::Modified);
        }
    }

    fn take(&mut self, other: usize, line: u64) {
        self.l2[other].remove(line);
        self.drop_parts(other, line);
        self.counts.invalidations += 1;
    }

    fn relocate(&mut self, page: usize) {
        let Some(frame) = self.frames[page] else { return };
        let lines = 4096 >> self.shape.l2.line_log2;
        for line in frame * lines..(frame + 1) * lines {
            for cpu in 0..self.l2.len() {
                if let Some(state) = self.l2[cpu].remove(line) {
                    self.drop_parts(cpu, line);
                    self.counts.invalidations += 1;
                    self.counts.write_backs += u64::from(state == State::Modified);
                }
            }
        }
        for (cpu, tlb) in self.tlb.iter_mut().enumerate() {
            let first = tlb.remove(page as u64);
            let second = self.second_tlb.get_mut(cpu).and_then(|tlb| tlb.remove(page as u64));
            self.counts.shootdowns += u64::from(first.or(second).is_some());
        }
        self.frames[page] = Some(self.next_frame);
        self.next_frame += 1;
    }
}

fn small() -> HierarchyShape {
    HierarchyShape {
        l1: Shape::cache(512, 2, 32).unwrap(),
        l2: Shape::cache(4096, 4, 128).unwrap(),
        l3: None,
        tlbs: vec![Shape::tlb(4, 2).unwrap()],
        colours: Colours::InOrder,
    }
}

fn frames(count: u64) -> Vec<u64> {
    (0..count).map(|frame| 0x10000 + frame * 4096).collect()
}

fn hierarchy(shape: &HierarchyShape, cpus: u16, pages: u64) -> Hierarchy {
    let cpus: Vec<Cpu> = (0..cpus).map(Cpu).collect();
    Hierarchy::new(shape, &cpus, Addresses::new(PageSize::KIB4, &frames(pages))).unwrap()
}

/// Few sets of few to many ways, each kind of set that arrays know.
fn shapes() -> impl Strategy<Value = HierarchyShape> {
    let level = |line_log2| {
        let ways = prop::sample::select(vec![1u32, 2, 3, 4, 8, 11, 16, 20]);
        (0u32..4, ways).prop_map(move |(log2, ways)| Shape { sets: 1 << log2, ways, line_log2 })
    };
    let tlbs = (level(0), prop::option::of(level(0)));
    (level(5), level(7), tlbs).prop_map(|(l1, l2, (first, second))| HierarchyShape {
        l1,
        l2,
        tlbs: [Some(first), second].into_iter().flatten().collect(),
        ..small()
    })
}

/// Wants no more after every third reference that something comes of.
#[derive(Default)]
struct Stops(u32);

impl Sink for Stops {
    fn more(&mut self) -> bool {
        self.0 += 1;
        !self.0.is_multiple_of(3)
    }
}

proptest! {
    /// Random references and moves of several CPUs, packed tightly enough that everything happens.
    #[test]
    fn the_hierarchy_is_the_obvious_model(
        shape in shapes(),
        steps in prop::collection::vec((0u16..3, 0u64..6, 0u64..4096, any::<bool>(), 0u8..60), 1..1500)
    ) {
        let mut fast = hierarchy(&shape, 3, 6);
        let mut model = Model::new(&shape, 3, 6);
        for (cpu, page, offset, write, what) in steps {
            if what == 0 && model.next_frame < 12 {
                // Up to here both take frames in order; afterwards the hierarchy uses old ones again.
                fast.relocate(Page(page as u32));
                model.relocate(page as usize);
                continue;
            }
            // Mostly few lines, so that hits are as common as misses.
            let address = page * 4096 + if what < 40 { offset % 512 } else { offset };
            fast.reference(cpu, address, Access::new(1, write, false), &mut ());
            model.reference(cpu as usize, address, write);
        }
        prop_assert_eq!(fast.total(), model.counts);
    }

    /// A stretch of references is its references one by one, wherever a sink stops it.
    #[test]
    fn stretches_are_their_references(
        shape in shapes(),
        turns in prop::collection::vec(
            (0u16..3, prop::collection::vec((0u64..6 << 12, any::<bool>(), 0u32..7), 1..20)), 1..60)
    ) {
        let (mut whole, mut single) = (hierarchy(&shape, 3, 6), hierarchy(&shape, 3, 6));
        let mut stops = Stops::default();
        for (cpu, turn) in turns {
            let addresses: Vec<u64> = turn.iter().map(|&(address, ..)| address).collect();
            let kind = |&(_, write, log2): &(_, bool, u32)| Access::new(1 << log2, write, false);
            let kinds: Vec<Access> = turn.iter().map(kind).collect();
            let mut from = 0;
            while from < addresses.len() {
                from += whole.serve(cpu, &addresses[from..], &kinds[from..], &mut stops);
            }
            addresses.iter().zip(&kinds).for_each(|(&address, &kind)| single.reference(cpu, address, kind, &mut ()));
        }
        prop_assert!(whole.counts().eq(single.counts()));
    }
}

/// Takes everything down.
#[derive(Default)]
struct Log(Vec<(u16, Kind, u32, Served)>);

impl Sink for Log {
    fn transaction(&mut self, t: &Transaction) {
        self.0.push((t.cpu, t.kind, t.page, t.served));
    }
}

fn read(h: &mut Hierarchy, cpu: u16, address: u64, log: &mut Log) {
    h.reference(cpu, address, Access::read(8), log);
}

fn write(h: &mut Hierarchy, cpu: u16, address: u64, log: &mut Log) {
    h.reference(cpu, address, Access::write(8), log);
}

#[test]
fn coherence_step_by_step() {
    let mut h = hierarchy(&small(), 2, 2);
    let mut log = Log::default();
    read(&mut h, 0, 0, &mut log);
    write(&mut h, 0, 0, &mut log);
    assert_eq!(log.0, [(0, Kind::Read, 0, Served::Memory)], "a line held alone is written without asking");
    log.0.clear();
    read(&mut h, 1, 8, &mut log);
    let shared = [(0, Kind::WriteBack, 0, Served::Memory), (1, Kind::Read, 0, Served::Cache)];
    assert_eq!(log.0, shared, "the owner gives it and memory is up to date again");
    log.0.clear();
    write(&mut h, 0, 0, &mut log);
    assert_eq!(log.0, [(0, Kind::Upgrade, 0, Served::Memory)]);
    log.0.clear();
    write(&mut h, 1, 16, &mut log);
    assert_eq!(
        log.0,
        [(1, Kind::ReadOwn, 0, Served::Cache)],
        "false sharing: the changed line goes from cache to cache"
    );
}

#[test]
fn a_third_level_keeps_neighbours_off_the_interconnect() {
    let mut shape = small();
    shape.l3 = Some((Shape::cache(16384, 4, 128).unwrap(), 2));
    let mut h = hierarchy(&shape, 4, 2);
    let mut log = Log::default();
    write(&mut h, 0, 0, &mut log);
    log.0.clear();
    read(&mut h, 1, 0, &mut log);
    write(&mut h, 1, 0, &mut log);
    assert_eq!(log.0, [], "CPUs 0 and 1 share a third level");
    assert_eq!(h.total().l3_hits, 1);
    read(&mut h, 2, 0, &mut log);
    assert_eq!(log.0, [(2, Kind::WriteBack, 0, Served::Memory), (2, Kind::Read, 0, Served::Cache)]);
    log.0.clear();
    write(&mut h, 2, 0, &mut log);
    assert_eq!(log.0, [(2, Kind::Upgrade, 0, Served::Memory)]);
    log.0.clear();
    read(&mut h, 0, 0, &mut log);
    let again = [(0, Kind::WriteBack, 0, Served::Memory), (0, Kind::Read, 0, Served::Cache)];
    assert_eq!(log.0, again, "the old copy in the first third level is gone");
}

#[test]
fn a_moved_page_leaves_caches_and_tlbs() {
    let mut h = hierarchy(&small(), 2, 2);
    let mut log = Log::default();
    write(&mut h, 0, 0, &mut log);
    read(&mut h, 1, 256, &mut log);
    assert_eq!(h.relocate(Page(0)), Relocation { shootdowns: 2, lines: 2, write_backs: 1 });
    assert_eq!(h.relocate(Page(1)), Relocation::default(), "a page without a frame is nowhere");
    log.0.clear();
    read(&mut h, 0, 0, &mut log);
    assert_eq!(log.0, [(0, Kind::Read, 0, Served::Memory)]);
    assert_eq!((h.total().tlb_misses, h.total().shootdowns), (3, 2));
}

#[test]
fn references_across_lines_ask_for_each_line_within_their_page() {
    let mut h = hierarchy(&small(), 1, 2);
    h.reference(0, 28, Access::read(8), &mut ());
    let total = h.total();
    assert_eq!((total.references, total.lines, total.l1_misses, total.l2_misses), (1, 2, 2, 1));
    h.reference(0, 4092, Access::read(8), &mut ());
    assert_eq!(h.total().lines, 3, "a reference belongs to the page of its first byte");
}

#[test]
fn translations_are_counted_by_page_and_cleared_when_they_leave() {
    let mut h = hierarchy(&small(), 1, 6);
    h.count_translations();
    for (page, count) in [(0, 3), (1, 2), (0, 1)] {
        (0..count).for_each(|i| h.reference(0, page * 4096 + i * 64, Access::read(4), &mut ()));
    }
    let mut seen = Vec::new();
    h.read_tlb(0, |page, count| seen.push((page, count)));
    seen.sort_unstable();
    assert_eq!(seen, [(0, 4), (1, 2)]);
    // Pages 2 and 4 push page 0 out of its set of two.
    [2, 4, 0].iter().for_each(|page| h.reference(0, page * 4096, Access::read(4), &mut ()));
    seen.clear();
    h.read_tlb(0, |page, count| seen.push((page, count)));
    seen.sort_unstable();
    assert_eq!(seen, [(0, 1), (1, 0), (4, 1)]);
}

#[test]
fn coloured_pages_take_the_sets_of_their_virtual_addresses() {
    let mut shape = small();
    shape.l2 = Shape::cache(32768, 2, 128).unwrap(); // four colours
    let page_of = |colours: Colours| {
        let shape = HierarchyShape { colours, ..shape.clone() };
        let trace: Vec<u64> = [1u64, 5, 9].map(|page| page << 12).to_vec();
        let addresses = Addresses::new(PageSize::KIB4, &trace);
        let mut h = Hierarchy::new(&shape, &[Cpu(0)], addresses).unwrap();
        [0, 1, 2, 0].iter().for_each(|frame| h.reference(0, frame << 12, Access::read(4), &mut ()));
        h.total().l2_misses
    };
    assert_eq!(shape.virtual_colours(PageSize::KIB4), Colours::Virtual(2));
    assert_eq!(page_of(shape.virtual_colours(PageSize::KIB4)), 4, "three pages in the same two ways");
    assert_eq!(page_of(Colours::InOrder), 3);
}

#[test]
fn shapes_must_be_whole() {
    assert_eq!(Shape::cache(64 << 10, 4, 32).map(|shape| (shape.sets, shape.bytes())), Some((512, 64 << 10)));
    for (bytes, ways, line) in [(1000, 4, 32), (64 << 10, 3, 32), (64 << 10, 4, 48), (64, 4, 32), (0, 1, 64)]
    {
        assert_eq!(Shape::cache(bytes, ways, line), None, "{bytes} {ways} {line}");
    }
    assert_eq!(Shape::tlb(64, 0), None);
    assert_eq!(Shape::tlb(48, 16), None, "three sets");
}

#[test]
fn large_pages_hold_their_granules_in_order_and_small_ones_split_them() {
    let trace = [0x200000u64, 0x1ff000, 0x201000, 0x200000];
    let large = Addresses::new(PageSize::new(2 << 20).unwrap(), &trace);
    assert_eq!((0..4).map(|granule| large.page(granule)).collect::<Vec<_>>(), [0, 1, 0, 2]);
    assert_eq!((large.offset(1), large.offset(2), large.address(Page(1))), (0x1ff000, 0x1000, 0));
    let small = Addresses::new(PageSize::new(512).unwrap(), &trace[..2]);
    assert_eq!((small.pages(), small.granule_log2(), small.page(9), small.offset(9)), (16, 9, 9, 0));
    assert_eq!(small.address(Page(9)), 0x1ff200);
}
