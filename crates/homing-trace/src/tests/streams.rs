//! Long streams of executions in a recorder's words: they come back, whatever the processor can do.

use super::*;
use crate::wide::plain;
use crate::wire::Flavour;
use homing_wire::{bit, op, word as control};

/// A code block of a stream: distances of the addresses that are derived from the word before, exits.
struct Code {
    accesses: Vec<(Option<i16>, bool)>,
    words: usize,
}

/// What each word of a code block does.
#[derive(Clone, Copy)]
enum Way {
    Strides(u64),
    Anywhere,
    /// Strides, but from time to time for a while anywhere.
    Phases(u64),
}

pub(super) struct Stream {
    random: Xoshiro256PlusPlus,
    segments: Vec<Vec<u64>>,
    /// The virtual addresses, by thread.
    expected: Vec<Vec<u64>>,
    codes: Vec<Code>,
    /// Of each word of each code block, by thread.
    ways: Vec<Vec<Vec<(Way, u64)>>>,
}

const THREADS: usize = 3;

impl Stream {
    pub(super) fn new(seed: u64) -> Stream {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut segment = Vec::new();
        let mut codes = Vec::new();
        for number in 0..random.gen_range(2..7u64) {
            let count = random.gen_range(1..20);
            let mut words = 0;
            let mut accesses = Vec::new();
            segment.extend([control(op::DEFINE, number), count << 32 | (count + 3), 0x40_0000]);
            for i in 0..count {
                let mut word = i | 8 << bit::ACCESS_SIZE;
                let derived = (words > 0 && random.gen_bool(0.25)).then(|| random.gen_range(-200..200i16));
                let exit = i > 0 && random.gen_bool(0.2);
                match derived {
                    Some(offset) => {
                        word |= 1 << bit::ACCESS_DERIVED | (words as u64 - 1) << bit::ACCESS_WORD;
                        word |= u64::from(offset as u16) << bit::ACCESS_OFFSET;
                    }
                    None => words += 1,
                }
                // An exit before a derived access is at the same place as one before the next word.
                let exit = exit && derived.is_none();
                segment.push(word | u64::from(exit) << bit::ACCESS_EXIT);
                accesses.push((derived, exit));
            }
            codes.push(Code { accesses, words });
        }
        let ways = (0..THREADS)
            .map(|_| {
                let of = |random: &mut Xoshiro256PlusPlus| {
                    let stride =
                        [0u64, 4, 8, 8, 24, 64, 4096, 5000, 8u64.wrapping_neg()][random.gen_range(0..9)];
                    let way = match random.gen_range(0..4) {
                        0 => Way::Anywhere,
                        1 => Way::Phases(stride),
                        _ => Way::Strides(stride),
                    };
                    (way, random.gen_range(1u64 << 30..1 << 31))
                };
                codes.iter().map(|code| (0..code.words).map(|_| of(&mut random)).collect()).collect()
            })
            .collect();
        Stream { random, segments: vec![segment], expected: vec![Vec::new(); THREADS], codes, ways }
    }

    fn execute(&mut self, thread: usize, number: usize) {
        let Stream { random, segments, expected, codes, ways } = self;
        let code = &codes[number];
        let segment = segments.last_mut().unwrap();
        segment.push(control(op::BLOCK, number as u64));
        let early = random.gen_bool(0.1);
        let mut last = 0u64;
        let mut word = 0;
        let time = expected[thread].len();
        for &(derived, exit) in &code.accesses {
            if early && exit && random.gen_bool(0.5) {
                return;
            }
            let address = match derived {
                Some(offset) => last.wrapping_add(offset as u64),
                None => {
                    let (way, at) = &mut ways[thread][number][word];
                    word += 1;
                    *at = match *way {
                        Way::Anywhere => random.gen_range(1 << 30..1 << 31),
                        Way::Phases(_) if time / 3000 % 2 == 1 => random.gen_range(1 << 30..1 << 31),
                        Way::Strides(stride) | Way::Phases(stride) => {
                            at.wrapping_add(stride).clamp(1 << 29, 1 << 40)
                        }
                    };
                    segment.push(*at);
                    last = *at;
                    *at
                }
            };
            expected[thread].push(address);
        }
    }

    pub(super) fn run(&mut self, executions: usize) {
        for thread in (0..THREADS).cycle().take(executions / 100) {
            if self.segments.last().unwrap().len() > 5000 {
                self.segments.push(Vec::new());
            }
            self.segments.last_mut().unwrap().push(control(op::THREAD, thread as u64));
            let body: Vec<usize> = (0..self.random.gen_range(1..5))
                .map(|_| self.random.gen_range(0..self.codes.len()))
                .collect();
            for round in 0..100 {
                self.execute(thread, body[round % body.len()]);
            }
        }
    }

    /// The trace.
    fn bytes(&self) -> Vec<u8> {
        self.recorded(&Header::new("test", "1"), IngestOptions::default())
    }

    /// The trace, written as a header says, of what these options keep.
    pub(super) fn recorded(&self, header: &Header, options: IngestOptions) -> Vec<u8> {
        let writer = TraceWriter::new(Vec::new(), header).unwrap();
        let mut ingest = Ingest::new(writer, Flavour::Serial, options);
        for (index, segment) in self.segments.iter().enumerate() {
            ingest.segment(0, index as u32, segment).unwrap();
        }
        let (bytes, summary) = ingest.finish().unwrap();
        assert_eq!(summary.malformed, 0);
        bytes
    }
}

#[test]
fn long_streams_come_back_and_are_the_same_with_and_without_wide_vectors() {
    for seed in 0..12 {
        let mut stream = Stream::new(seed);
        stream.run(30_000);
        let bytes = stream.bytes();
        plain::FORCED.set(true);
        assert!(stream.bytes() == bytes, "seed {seed}: vectors make a difference");
        plain::FORCED.set(false);
        let trace = Trace::open(&bytes).unwrap();
        let mut order = OrderWriter::copy(Vec::new(), &trace).unwrap();
        trace.threads().for_each(|(thread, references)| order.turn(thread, references).unwrap());
        let ordered = order.finish().unwrap().0;
        let trace = Trace::open(&ordered).unwrap();
        for forced in [false, true] {
            plain::FORCED.set(forced);
            let mut collector = Collector::default();
            assert_eq!(trace.visit_all(&mut collector).unwrap().lost, 0);
            for (thread, expected) in stream.expected.iter().enumerate() {
                let virtual_address = |&(address, _): &(u64, Kind)| {
                    trace.frames()[(address >> 12) as usize] << 12 | address & 4095
                };
                let got: Vec<u64> =
                    collector.threads[&Thread(thread as u32)].iter().map(virtual_address).collect();
                assert!(got == *expected, "seed {seed} thread {thread}");
            }
        }
        plain::FORCED.set(false);
    }
}
