//! How quick the simulated caches and TLBs are on one core, decoding apart. Prints a table of million references a
//! second and nanoseconds a reference: `cargo bench -p homing-benches --bench hierarchy [-- TRACE...]`. Without traces
//! it makes streams: a gather as sparse matrices have it, private strides, and random references to 2 GiB.

use homing_core::cache::{Addresses, Colours, Hierarchy, HierarchyShape, Shape, Sink, Transaction};
use homing_core::ids::{Cpu, PageSize, Thread};
use homing_core::trace::{Kind, Trace, Turn, Visitor};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::HashMap;

/// Most references taken from a trace.
const MOST: usize = 1 << 24;
/// References of a turn of the made streams, about that of merged traces.
const TURN: usize = 12;

/// References of four CPUs in turns.
#[derive(Default)]
struct Stream {
    turns: Vec<(u16, usize)>,
    addresses: Vec<u64>,
    kinds: Vec<Kind>,
    frames: Vec<u64>,
    decode: f64,
}

/// Collects turns, or only passes over them.
#[derive(Default)]
struct Collector {
    stream: Stream,
    cpus: HashMap<Thread, u16>,
    passing: bool,
    passed: u64,
}

impl Visitor for Collector {
    fn turn(&mut self, turn: Turn<'_>) {
        if self.passing {
            self.passed += turn.addresses.iter().fold(0, |sum, address| sum ^ address);
            return;
        }
        if self.stream.addresses.len() + turn.addresses.len() > MOST {
            return;
        }
        let next = self.cpus.len() as u16;
        let cpu = *self.cpus.entry(turn.thread).or_insert(next);
        self.stream.turns.push((cpu, turn.addresses.len()));
        self.stream.addresses.extend_from_slice(turn.addresses);
        self.stream.kinds.extend_from_slice(turn.kinds);
    }
}

fn of_trace(path: &str) -> Stream {
    let bytes = std::fs::read(path).expect("a readable file");
    let trace = Trace::open(&bytes).expect("a trace");
    let mut pass = Collector { passing: true, ..Collector::default() };
    let begin = cpu_seconds();
    trace.visit_all(&mut pass).expect("a trace in order");
    let decode = (cpu_seconds() - begin) / trace.references() as f64;
    assert_ne!(pass.passed, 1, "or all of it could be left out");
    let mut collector = Collector::default();
    trace.visit_all(&mut collector).expect("a trace in order");
    collector.stream.frames = trace.frames().iter().map(|frame| frame << 12).collect();
    collector.stream.decode = decode;
    collector.stream
}

fn made(references: usize, frames: u64, mut next: impl FnMut(usize, u16) -> (u64, bool)) -> Stream {
    let mut stream = Stream { frames: (0..frames).map(|frame| frame << 12).collect(), ..Stream::default() };
    for turn in 0..references / TURN {
        let cpu = (turn % 4) as u16;
        stream.turns.push((cpu, TURN));
        for i in 0..TURN {
            let (address, write) = next(i, cpu);
            stream.addresses.push(address);
            stream.kinds.push(Kind::new(8, write, false));
        }
    }
    stream
}

/// Two private streams and a gather from a shared vector that fits the first level.
fn gather() -> Stream {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut at = [0u64; 4];
    made(MOST, 4 * 256 + 8, move |i, cpu| {
        let private = (u64::from(cpu) * 256 + 8) << 12;
        let own = &mut at[usize::from(cpu)];
        match i % 3 {
            0 => {
                *own = (*own + 8) % (128 << 12);
                (private + *own, false)
            }
            1 => (private + (128 << 12) + *own / 2, i == 10),
            _ => (random.gen_range(0..1400) * 8, false),
        }
    })
}

fn private() -> Stream {
    let mut at = [0u64; 4];
    made(MOST, 4 * 64, move |i, cpu| {
        let own = &mut at[usize::from(cpu)];
        *own = (*own + 8) % (64 << 12);
        ((u64::from(cpu) << 18) + *own, i % 3 == 0)
    })
}

fn random() -> Stream {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
    made(MOST / 2, 1 << 19, move |_, _| (random.gen_range(0..1u64 << 28) * 8, random.gen_ratio(1, 4)))
}

/// What is counted of transactions, so that they are made.
#[derive(Default)]
struct Tally(u64);

impl Sink for Tally {
    fn transaction(&mut self, transaction: &Transaction) {
        self.0 += 1 + u64::from(transaction.page);
    }
}

fn shape() -> HierarchyShape {
    HierarchyShape {
        l1: Shape::cache(32 << 10, 8, 64).expect("a cache"),
        l2: Shape::cache(1 << 20, 16, 64).expect("a cache"),
        l3: None,
        tlbs: vec![Shape::tlb(64, 4).expect("a TLB"), Shape::tlb(2048, 16).expect("a TLB")],
        colours: Colours::InOrder,
    }
}

fn measure(name: &str, stream: &Stream) {
    let cpus: Vec<Cpu> =
        (0..stream.turns.iter().map(|turn| turn.0 + 1).max().unwrap_or(1)).map(Cpu).collect();
    let mut best = f64::MAX;
    let mut counts = None;
    for _ in 0..3 {
        let addresses = Addresses::new(PageSize::KIB4, &stream.frames);
        let mut hierarchy = Hierarchy::new(&shape(), &cpus, addresses).expect("a small machine");
        let mut tally = Tally::default();
        let begin = cpu_seconds();
        let mut from = 0;
        for &(cpu, count) in &stream.turns {
            let part = from..from + count;
            hierarchy.serve(cpu, &stream.addresses[part.clone()], &stream.kinds[part], &mut tally);
            from += count;
        }
        best = best.min(cpu_seconds() - begin);
        counts = Some((hierarchy.total(), tally.0));
    }
    let (counts, _) = counts.expect("measured");
    let references = counts.references as f64;
    let percent = |part: u64| 100.0 * part as f64 / references;
    println!(
        "{name:24} {:6.1} M/s {:6.1} ns | decoding {:5.1} ns | of a turn {:5.1} | misses % L1 {:5.2} L2 {:5.2} TLB1 \
        {:5.2} TLB {:5.2}",
        references / best / 1e6,
        best / references * 1e9,
        stream.decode * 1e9,
        references / stream.turns.len() as f64,
        percent(counts.l1_misses),
        percent(counts.l2_misses),
        percent(counts.tlb1_misses),
        percent(counts.tlb_misses),
    );
}

fn main() {
    let traces: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    for path in &traces {
        let name = path.rsplit('/').next().unwrap_or(path);
        measure(name, &of_trace(path));
    }
    if traces.is_empty() {
        measure("gather", &gather());
        measure("private strides", &private());
        measure("random 2 GiB", &random());
    }
}

/// Seconds that this thread has had a CPU: other work on the machine does not count.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("a kernel with schedstats");
    let nanos: f64 = text.split_whitespace().next().and_then(|word| word.parse().ok()).expect("a number");
    nanos / 1e9
}
