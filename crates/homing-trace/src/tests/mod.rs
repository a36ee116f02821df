//! Round trips against an obvious model.

mod damage;
mod fixtures;
mod grain;
mod ingest;
mod limits;
mod streams;

use super::*;
use crate::ids::{Thread, Time};
use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::HashMap;

/// What a thread did, as the model remembers: (identity of the page, offset in it, kind), and events by index.
#[derive(Default)]
struct Model {
    pages: HashMap<u64, usize>,
    /// The page of each identity when it was new.
    first_page: Vec<u64>,
    threads: HashMap<Thread, Vec<(usize, u64, Kind)>>,
    events: HashMap<Thread, Vec<(usize, Event)>>,
}

impl Model {
    fn reference(&mut self, thread: Thread, address: u64, kind: Kind) {
        let first_page = &mut self.first_page;
        let identity = *self.pages.entry(address >> 12).or_insert_with(|| {
            first_page.push(address >> 12);
            first_page.len() - 1
        });
        self.threads.entry(thread).or_default().push((identity, address & 4095, kind));
    }

    fn event(&mut self, thread: Thread, event: Event) {
        match event {
            Event::Munmap { address, length } => {
                self.pages.retain(|&p, _| p < address >> 12 || p > (address + length - 1) >> 12);
            }
            Event::Mremap { old, old_length, new, new_length } => {
                let within = |p: u64, at: u64, length: u64| p >= at >> 12 && p <= (at + length - 1) >> 12;
                let moved: Vec<_> = self
                    .pages
                    .iter()
                    .map(|(&p, &i)| (p, i))
                    .filter(|m| within(m.0, old, old_length))
                    .collect();
                self.pages.retain(|&p, _| !within(p, old, old_length) && !within(p, new, new_length));
                for (page, identity) in moved {
                    let page = page - (old >> 12) + (new >> 12);
                    if within(page, new, new_length) {
                        self.pages.insert(page, identity);
                    }
                }
            }
            _ => {}
        }
        let at = self.threads.entry(thread).or_default().len();
        self.events.entry(thread).or_default().push((at, event));
    }
}

/// Collects a visit by thread.
#[derive(Default)]
struct Collector {
    next: u64,
    threads: HashMap<Thread, Vec<(u64, Kind)>>,
    events: HashMap<Thread, Vec<(usize, Event)>>,
    order: Vec<(Thread, u64)>,
    lost: u64,
}

impl Visitor for Collector {
    fn turn(&mut self, turn: Turn<'_>) {
        assert_eq!(turn.first, Time(self.next));
        assert_eq!(turn.addresses.len(), turn.kinds.len());
        self.next += turn.addresses.len() as u64;
        match self.order.last_mut() {
            Some(last) if last.0 == turn.thread => last.1 += turn.addresses.len() as u64,
            _ => self.order.push((turn.thread, turn.addresses.len() as u64)),
        }
        let pairs = turn.addresses.iter().copied().zip(turn.kinds.iter().copied());
        self.threads.entry(turn.thread).or_default().extend(pairs);
    }

    fn event(&mut self, thread: Thread, _: Time, event: &Event) {
        let at = self.threads.entry(thread).or_default().len();
        self.events.entry(thread).or_default().push((at, event.clone()));
    }

    fn lost(&mut self, first: Time, references: u64, _: &str) {
        assert_eq!(first, Time(self.next));
        self.next += references;
        self.lost += references;
    }
}

/// A program of random code blocks, side exits, guarded accesses, single references, events and remappings.
struct Program {
    random: Xoshiro256PlusPlus,
    writer: TraceWriter<Vec<u8>>,
    model: Model,
    blocks: Vec<(CodeBlockId, BlockDef)>,
    /// The address and stride of each block's words, by thread.
    state: HashMap<(Thread, usize, usize), (u64, u64)>,
    turns: Vec<(Thread, u64)>,
    span: u64,
    /// An inner loop runs: strides and the way through the blocks stay the same.
    steady: bool,
}

impl Program {
    fn new(seed: u64) -> Program {
        Program::written(seed, &Header::new("test", "1"))
    }

    /// The same program, written as a header says.
    fn written(seed: u64, header: &Header) -> Program {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut writer = TraceWriter::new(Vec::new(), header).unwrap();
        let mut blocks = Vec::new();
        for _ in 0..random.gen_range(1..12) {
            let accesses =
                if random.gen_bool(0.1) { random.gen_range(65..150) } else { random.gen_range(0..12) };
            let mut def = BlockDef { accesses: Vec::new(), instructions: accesses as u32 + 3 };
            let mut words = 0;
            for i in 0..accesses {
                let mut access = Access::new(i as u16, 1 << random.gen_range(0..5), random.gen());
                access.atomic = access.write && random.gen_bool(0.1);
                if words > 0 && random.gen_bool(0.2) {
                    let word = random.gen_range(0..words) as u16;
                    access.source = AddressSource::Derived { word, offset: random.gen_range(-300..300) };
                } else {
                    access.exit = i > 0;
                    words += 1;
                }
                def.accesses.push(access);
            }
            blocks.push((writer.define(&def), def));
        }
        let span = 1 << random.gen_range(13..40);
        Program {
            random,
            writer,
            model: Model::default(),
            blocks,
            state: HashMap::new(),
            turns: Vec::new(),
            span,
            steady: false,
        }
    }

    fn chance(&mut self, chance: f64) -> bool {
        !self.steady && self.random.gen_bool(chance)
    }

    fn address(&mut self, thread: Thread, block: usize, word: usize) -> u64 {
        let strays = self.chance(0.05);
        let (random, span) = (&mut self.random, self.span);
        let (address, stride) = self.state.entry((thread, block, word)).or_insert_with(|| {
            (
                random.gen_range(1..span),
                [8, 4, 0, 64, 4096, 5000, 1u64.wrapping_neg()][random.gen_range(0..7)],
            )
        });
        *address = if strays { random.gen_range(1..span) } else { address.wrapping_add(*stride) };
        if *address < 4096 || *address > 1 << 62 {
            *address = random.gen_range(4096..1 << 41);
        }
        *address
    }

    fn step(&mut self) {
        let thread = Thread(self.random.gen_range(0..4));
        let before = self.model.threads.get(&thread).map_or(0, Vec::len);
        match self.random.gen_range(0..100) {
            0..=1 => self.event(thread),
            2..=9 => {
                for _ in 0..self.random.gen_range(1..50) {
                    let address = self.address(thread, 0, 999);
                    let kind = Kind::new(1 << self.random.gen_range(0..4), self.random.gen(), false);
                    let pc = self.random.gen_range(0..50);
                    self.writer.reference(thread, pc, address, kind).unwrap();
                    self.model.reference(thread, address, kind);
                }
            }
            13..=22 => self.inner_loop(thread),
            10..=12 => self.writer.advance(thread, self.random.gen_range(0..3000)).unwrap(),
            _ => {
                let block = self.random.gen_range(0..self.blocks.len());
                for _ in 0..self.random.gen_range(1..20) {
                    self.execute(thread, block);
                }
            }
        }
        let after = self.model.threads.get(&thread).map_or(0, Vec::len);
        self.turns.push((thread, (after - before) as u64));
    }

    fn inner_loop(&mut self, thread: Thread) {
        let blocks = self.blocks.len();
        let length = self.random.gen_range(1..11);
        let body: Vec<(usize, u32)> = (0..length)
            .map(|_| {
                let times = if self.random.gen_bool(0.7) { 1 } else { self.random.gen_range(2..5) };
                (self.random.gen_range(0..blocks), times)
            })
            .collect();
        self.steady = true;
        for _ in 0..self.random.gen_range(1..16) {
            for &(block, times) in &body {
                (0..times).for_each(|_| self.execute(thread, block));
            }
        }
        self.steady = false;
    }

    fn execute(&mut self, thread: Thread, block: usize) {
        let (id, def) = self.blocks[block].clone();
        let all = def.words();
        let words = if self.chance(0.1) { self.random.gen_range(0..=all) } else { all };
        let guarded = self.chance(0.1);
        let leaned: Vec<u16> = def
            .accesses
            .iter()
            .filter_map(
                |a| if let AddressSource::Derived { word, .. } = a.source { Some(word) } else { None },
            )
            .collect();
        let words: Vec<u64> = (0..words)
            .map(|w| {
                let address = self.address(thread, block, w);
                if guarded && !leaned.contains(&(w as u16)) && self.random.gen_bool(0.3) {
                    0
                } else {
                    address
                }
            })
            .collect();
        self.writer.execute(thread, id, &words).unwrap();
        let mut taken = 0;
        for access in &def.accesses {
            let address = match access.source {
                AddressSource::Word if taken == words.len() => break,
                AddressSource::Word => {
                    taken += 1;
                    words[taken - 1]
                }
                AddressSource::Derived { word, offset } => {
                    words[usize::from(word)].wrapping_add(offset as u64)
                }
            };
            if address != 0 {
                self.model.reference(thread, address, Kind::new(access.bytes, access.write, access.atomic));
            }
        }
    }

    fn event(&mut self, thread: Thread) {
        let address = self.random.gen_range(0..self.span) >> 12 << 12;
        let length = self.random.gen_range(1..64) << 12;
        let event = match self.random.gen_range(0..5) {
            0 => Event::Munmap { address, length },
            1 => Event::Mremap {
                old: address,
                old_length: length,
                new: self.random.gen_range(0..self.span) >> 12 << 12,
                new_length: self.random.gen_range(1..64) << 12,
            },
            2 => Event::Sync { op: SyncOp::Both, object: u64::MAX, stamp: self.random.gen() },
            3 => Event::Alloc {
                function: AllocFunction::New,
                address,
                size: length,
                site: self.writer.name("site"),
            },
            _ => Event::ThreadEnd,
        };
        self.writer.event(thread, &event).unwrap();
        self.model.event(thread, event);
    }

    fn finish(mut self, ordered: bool) -> (Vec<u8>, Model, Vec<(Thread, u64)>, Summary) {
        if ordered {
            self.writer.order(self.turns.iter().copied()).unwrap();
        }
        let (bytes, summary) = self.writer.finish(Summary::default()).unwrap();
        (bytes, self.model, self.turns, summary)
    }
}

/// The turns without empty ones, neighbours joined.
fn joined(turns: &[(Thread, u64)]) -> Vec<(Thread, u64)> {
    let mut joined: Vec<(Thread, u64)> = Vec::new();
    for &(thread, count) in turns.iter().filter(|t| t.1 > 0) {
        match joined.last_mut() {
            Some(last) if last.0 == thread => last.1 += count,
            _ => joined.push((thread, count)),
        }
    }
    joined
}

fn check(trace: &Trace<'_>, model: &Model, collector: &Collector) {
    let mut frames: HashMap<usize, u64> = HashMap::new();
    for (thread, expected) in &model.threads {
        let empty = Vec::new();
        let got = collector.threads.get(thread).unwrap_or(&empty);
        assert_eq!(got.len(), expected.len(), "thread {thread}");
        for (i, (&(address, kind), &(identity, offset, expected_kind))) in
            got.iter().zip(expected).enumerate()
        {
            assert_eq!((address & 4095, kind), (offset, expected_kind), "thread {thread} reference {i}");
            let frame = *frames.entry(identity).or_insert(address >> 12);
            assert_eq!(frame, address >> 12, "thread {thread} reference {i}");
            assert_eq!(trace.frames()[frame as usize], model.first_page[identity]);
        }
        assert_eq!(collector.events.get(thread), model.events.get(thread));
    }
    let distinct: std::collections::HashSet<_> = frames.values().collect();
    assert_eq!((distinct.len(), trace.frames().len()), (frames.len(), frames.len()));
}

fn round_trip(seed: u64, steps: usize) {
    let mut program = Program::new(seed);
    (0..steps).for_each(|_| program.step());
    let (bytes, model, turns, summary) = program.finish(true);
    let trace = Trace::open(&bytes).unwrap();
    assert!(trace.complete() && trace.damage().is_empty());
    let mut collector = Collector::default();
    let stats = trace.visit_all(&mut collector).unwrap();
    assert_eq!((stats.lost, stats.damage.len()), (0, 0));
    check(&trace, &model, &collector);
    assert_eq!(joined(&turns), collector.order);
    let all: Vec<_> = model.threads.values().flatten().collect();
    assert_eq!(summary.references, all.len() as u64);
    assert_eq!(summary.writes, all.iter().filter(|r| r.2.is_write()).count() as u64);
    assert_eq!(summary.reads + summary.writes, summary.references);
    assert_eq!(trace.summary(), summary);
    check_steps(&trace, &model);
}

fn check_steps(trace: &Trace<'_>, model: &Model) {
    for (thread, expected) in &model.threads {
        let (mut references, mut atomics, mut events) = (0, 0, 0);
        let mut steps = trace.thread_steps(*thread);
        for step in &mut steps {
            match step {
                Step::Run { executions, references: each, atomics: of, .. } => {
                    references += executions * u64::from(each);
                    atomics += executions * u64::from(of);
                }
                Step::Event(_) => events += 1,
                Step::Advance(_) => {}
                Step::Lost { .. } => panic!("nothing is lost"),
            }
        }
        assert_eq!((references, steps.references()), (expected.len() as u64, references));
        assert_eq!(atomics, expected.iter().filter(|r| r.2.is_atomic()).count() as u64);
        assert_eq!(events, model.events.get(thread).map_or(0, Vec::len));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_is_read(seed: u64, steps in 1usize..400) {
        round_trip(seed, steps);
    }
}

#[test]
fn order_blocks_can_be_visited_alone_and_replaced() {
    let mut program = Program::new(7);
    while program.model.threads.values().map(Vec::len).sum::<usize>() < 1_400_000 {
        program.step();
    }
    let (bytes, model, turns, summary) = program.finish(false);
    let unordered = Trace::open(&bytes).unwrap();
    assert!(unordered.complete() && unordered.awaits_order() && !unordered.ordered());
    assert!(matches!(unordered.visit_all(&mut Collector::default()), Err(TraceError::NoOrder)));
    let end = unordered.blocks_end() as usize;
    let mut appended = OrderWriter::append(Vec::new(), &unordered).unwrap();
    let mut copied = OrderWriter::copy(Vec::new(), &unordered).unwrap();
    for &(thread, count) in &turns {
        appended.turn(thread, count).unwrap();
        copied.turn(thread, count).unwrap();
    }
    let mut in_place = bytes[..end].to_vec();
    in_place.extend(appended.finish().unwrap().0);
    let copy = copied.finish().unwrap().0;
    for file in [in_place, copy] {
        let trace = Trace::open(&file).unwrap();
        assert!(trace.complete());
        assert_eq!(trace.summary(), summary);
        assert!(trace.order_blocks().len() > 1);
        let mut whole = Collector::default();
        trace.visit_all(&mut whole).unwrap();
        check(&trace, &model, &whole);
        assert_eq!(joined(&turns), whole.order);
        let mut parts = Collector::default();
        for (number, block) in trace.order_blocks().enumerate() {
            let mut part = Collector { next: block.first.0, ..Collector::default() };
            let stats = trace.visit(number..number + 1, &mut part).unwrap();
            assert_eq!((stats.references, stats.lost), (block.references, 0));
            for (thread, events) in part.events {
                let before = parts.threads.get(&thread).map_or(0, Vec::len);
                let events = events.into_iter().map(|(at, event)| (at + before, event));
                parts.events.entry(thread).or_default().extend(events);
            }
            for (thread, references) in part.threads {
                parts.threads.entry(thread).or_default().extend(references);
            }
        }
        check(&trace, &model, &parts);
    }
}
