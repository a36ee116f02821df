//! Speed and size of traces: streams as a recorder writes them (serial flavour, code blocks, four threads) through the
//! encoder and back, as a table. `cargo bench -p homing-benches --bench trace [-- MILLIONS] [STREAM]`: millions of
//! references each.

use homing_trace::ids::Thread;
use homing_trace::wire::Flavour;
use homing_trace::{Header, Ingest, IngestOptions, OrderWriter, Trace, TraceWriter, Turn, Visitor};
use homing_wire::{bit, op};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::time::{Duration, Instant};

const THREADS: u64 = 4;
const SEGMENT: usize = 1 << 15;

/// CPU time of this thread: other programs on the machine do not disturb it. Wall-clock time where the kernel does not
/// tell.
fn now(start: Instant) -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let on_cpu = told.and_then(|text| text.split(' ').next()?.parse().ok());
    on_cpu.map_or_else(|| start.elapsed(), Duration::from_nanos)
}

/// Collects words and hands them to the ingest, timing only that.
struct Feed {
    ingest: Ingest<Vec<u8>>,
    words: Vec<u64>,
    index: u32,
    spent: Duration,
    references: u64,
    start: Instant,
}

impl Feed {
    fn new() -> Feed {
        let writer =
            TraceWriter::new(Vec::new(), &Header::new("bench", "1")).expect("a vector takes everything");
        let ingest = Ingest::new(writer, Flavour::Serial, IngestOptions::default());
        Feed {
            ingest,
            words: Vec::new(),
            index: 0,
            spent: Duration::ZERO,
            references: 0,
            start: Instant::now(),
        }
    }

    fn control(&mut self, operation: u8, payload: u64) {
        self.words.push(homing_wire::word(operation, payload));
    }

    /// `r` and `w` are a read and a write with words of their own; `R` and `W` repeat the address of the last word.
    fn define(&mut self, number: u64, accesses: &str, instructions: u64) {
        self.control(op::DEFINE, number);
        self.words.extend([(accesses.len() as u64) << 32 | instructions, 0x40_0000 + number * 64]);
        let mut own = 0u64;
        for (i, access) in accesses.chars().enumerate() {
            let write = u64::from(access.eq_ignore_ascii_case(&'w')) << bit::ACCESS_WRITE;
            let derived = if access.is_uppercase() {
                1 << bit::ACCESS_DERIVED | (own - 1) << bit::ACCESS_WORD
            } else {
                0
            };
            own += u64::from(access.is_lowercase());
            self.words.push(i as u64 | 8 << 16 | write | derived);
        }
    }

    #[inline]
    fn block(&mut self, number: u64, references: u64, words: &[u64]) {
        self.control(op::BLOCK, number);
        self.words.extend_from_slice(words);
        self.references += references;
    }

    fn thread(&mut self, thread: u64) {
        if self.words.len() >= SEGMENT {
            let before = now(self.start);
            self.ingest.segment(0, self.index, &self.words).expect("a vector takes everything");
            self.spent += now(self.start) - before;
            self.index += 1;
            self.words.clear();
        }
        self.control(op::THREAD, thread);
    }

    fn finish(mut self) -> (Vec<u8>, u64, Duration) {
        let before = now(self.start);
        self.ingest.segment(0, self.index, &self.words).expect("a vector takes everything");
        let bytes = self.ingest.finish().expect("a vector takes everything").0;
        (bytes, self.references, self.spent + (now(self.start) - before))
    }
}

/// Conjugate gradient: y = A x by rows, then vector updates.
fn cg(rows: u64, per_row: u64, references: u64) -> Feed {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut feed = Feed::new();
    feed.define(1, "rrr", 8);
    feed.define(2, "rw", 7);
    feed.define(3, "rrW", 6);
    let columns: Vec<Vec<u64>> = (0..rows)
        .map(|_| {
            let count = random.gen_range(per_row / 2..=per_row * 3 / 2);
            let mut row: Vec<u64> = (0..count).map(|_| random.gen_range(0..rows)).collect();
            row.sort_unstable();
            row
        })
        .collect();
    let starts: Vec<u64> =
        columns.iter().scan(0, |at, row| Some(std::mem::replace(at, *at + row.len() as u64))).collect();
    let (a, col, x, y, start) =
        (0x10_0000_0000, 0x20_0000_0000, 0x30_0000_0000, 0x31_0000_0000, 0x32_0000_0000u64);
    while feed.references < references {
        for chunk in 0..rows.div_ceil(THREADS * 16) {
            for thread in 0..THREADS {
                feed.thread(thread);
                let first = thread * rows / THREADS + chunk * 16;
                for row in first..(first + 16).min((thread + 1) * rows / THREADS) {
                    feed.block(2, 2, &[start + row * 4, y + row * 8]);
                    for (k, column) in (starts[row as usize]..).zip(&columns[row as usize]) {
                        feed.block(1, 3, &[a + k * 8, col + k * 4, x + column * 8]);
                    }
                }
            }
        }
        for thread in 0..THREADS {
            feed.thread(thread);
            for row in thread * rows / THREADS..(thread + 1) * rows / THREADS {
                feed.block(3, 3, &[y + row * 8, x + row * 8]);
            }
        }
    }
    feed
}

/// Integer sort: keys in order, counters of 64 MB at random.
fn is(references: u64) -> Feed {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(2);
    let mut feed = Feed::new();
    feed.define(1, "rrW", 5);
    let (keys, counters) = (0x10_0000_0000, 0x20_0000_0000u64);
    let mut key = 0;
    while feed.references < references {
        for thread in 0..THREADS {
            feed.thread(thread);
            for i in key..key + 512 {
                let counter = counters + random.gen_range(0..1u64 << 24) * 4;
                feed.block(1, 3, &[keys + (thread << 28) + i * 4 % (1 << 28), counter]);
            }
        }
        key += 512;
    }
    feed
}

/// Multigrid: the 27-point stencil with its two line buffers, on 128^3 doubles.
fn mg(references: u64) -> Feed {
    const N: u64 = 130;
    let mut feed = Feed::new();
    feed.define(1, "rrrrwrrrrw", 22);
    feed.define(2, "rrrrrrrw", 20);
    let (u, v, r, buffer) = (0x10_0000_0000, 0x11_0000_0000, 0x12_0000_0000, 0x20_0000_0000u64);
    let at = |array: u64, i: u64, j: u64, k: u64| array + ((k * N + j) * N + i) * 8;
    while feed.references < references {
        for step in 0..(N - 2) * (N - 2) / THREADS {
            for thread in 0..THREADS {
                feed.thread(thread);
                let line = thread * (N - 2) * (N - 2) / THREADS + step;
                let (j, k) = (1 + line % (N - 2), 1 + line / (N - 2));
                let (one, two) = (buffer + thread * 0x10000, buffer + thread * 0x10000 + 0x1000);
                for i in 0..N {
                    let words = [
                        at(u, i, j - 1, k),
                        at(u, i, j + 1, k),
                        at(u, i, j, k - 1),
                        at(u, i, j, k + 1),
                        one + i * 8,
                        at(u, i, j - 1, k - 1),
                        at(u, i, j + 1, k - 1),
                        at(u, i, j - 1, k + 1),
                        at(u, i, j + 1, k + 1),
                        two + i * 8,
                    ];
                    feed.block(1, 10, &words);
                }
                for i in 1..N - 1 {
                    let words = [
                        at(v, i, j, k),
                        at(u, i, j, k),
                        two + i * 8,
                        one + i * 8 - 8,
                        one + i * 8 + 8,
                        two + i * 8 - 8,
                        two + i * 8 + 8,
                        at(r, i, j, k),
                    ];
                    feed.block(2, 8, &words);
                }
            }
        }
    }
    feed
}

/// Uses what it gets, as cheaply as can be.
#[derive(Default)]
struct Sum(u64);

impl Visitor for Sum {
    fn turn(&mut self, turn: Turn<'_>) {
        let addresses = turn.addresses.iter().fold(0u64, |sum, &a| sum.wrapping_add(a));
        self.0 = self.0.wrapping_add(addresses + turn.kinds.len() as u64);
    }
}

/// Orders the references in turns of about 32 references.
fn order(bytes: Vec<u8>) -> Vec<u8> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
    let trace = Trace::open(&bytes).expect("just written");
    let mut writer = OrderWriter::append(Vec::new(), &trace).expect("a vector takes everything");
    let mut left: Vec<(Thread, u64)> = trace.threads().collect();
    while left.iter().any(|l| l.1 > 0) {
        for (thread, left) in &mut left {
            let count = random.gen_range(24..40).min(*left);
            writer.turn(*thread, count).expect("a vector takes everything");
            *left -= count;
        }
    }
    let end = trace.blocks_end() as usize;
    let order = writer.finish().expect("a vector takes everything").0;
    [&bytes[..end], &order].concat()
}

fn main() {
    let millions = std::env::args().filter_map(|a| a.parse::<u64>().ok()).next().unwrap_or(100);
    let references = millions * 1_000_000;
    println!("stream        M refs   encode M/s   decode M/s   B/ref   with order");
    type Stream = (&'static str, fn(u64) -> Feed);
    let streams: [Stream; 4] = [
        ("CG, 1400 rows", |n| cg(1400, 56, n)),
        ("CG, 14000", |n| cg(14000, 130, n)),
        ("IS, 64 MB", is),
        ("MG, 128^3", mg),
    ];
    let chosen = std::env::args().skip(1).find(|a| a.chars().all(char::is_alphabetic)).unwrap_or_default();
    for (name, make) in streams.into_iter().filter(|(name, _)| name.starts_with(&chosen)) {
        let (bytes, count, spent) = make(references).finish();
        let plain = bytes.len() as f64 / count as f64;
        let file = order(bytes);
        let trace = Trace::open(&file).expect("just written");
        let mut sum = Sum::default();
        let start = Instant::now();
        let before = now(start);
        let stats = trace.visit_all(&mut sum).expect("just ordered");
        let decode = now(start) - before;
        assert_eq!((stats.references, stats.lost), (count, 0));
        std::hint::black_box(sum.0);
        let rate = |spent: Duration| count as f64 / spent.as_secs_f64() / 1e6;
        println!(
            "{name:13} {:6.0} {:12.0} {:12.0} {plain:7.3} {:12.3}",
            count as f64 / 1e6,
            rate(spent),
            rate(decode),
            file.len() as f64 / count as f64,
        );
    }
}
