//! Page runs from references, without decoding: million references/s on one core, for streams that hit few pages and
//! for a random one. `cargo bench -p homing-benches --bench history`

#![allow(missing_docs)] // criterion's macro makes a function without

use criterion::{criterion_group, criterion_main, BatchSize, Criterion, Throughput};
use homing_core::history::{HistoryBuilder, Options};
use homing_core::ids::{Node, Time};
use homing_core::trace::Kind;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const REFERENCES: usize = 1 << 22;
const TURN: usize = 12;

fn kind(write: bool) -> Kind {
    Kind::new(8, write, false)
}

/// Addresses as a sparse matrix-vector product makes them: two private streams and a gather from a shared vector.
fn gather() -> (Vec<u64>, Vec<Kind>) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut at = [0u64; 4];
    let address = |i: usize| {
        let thread = (i / TURN) % 4;
        let private = (thread as u64 + 1) << 26;
        match i % 3 {
            0 => {
                at[thread] += 8;
                private + at[thread]
            }
            1 => private + (1 << 24) + at[thread] / 2,
            _ => random.gen_range(0..14_000) * 8,
        }
    };
    let mut write = Xoshiro256PlusPlus::seed_from_u64(2);
    ((0..REFERENCES).map(address).collect(), (0..REFERENCES).map(|_| kind(write.gen_ratio(1, 20))).collect())
}

/// Four threads that stride through pages of their own.
fn private() -> (Vec<u64>, Vec<Kind>) {
    let address = |i: usize| (((i / TURN % 4) as u64) << 26) | ((i / 4) as u64 * 8);
    ((0..REFERENCES).map(address).collect(), (0..REFERENCES).map(|i| kind(i % 3 == 0)).collect())
}

fn random() -> (Vec<u64>, Vec<Kind>) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
    let addresses = (0..REFERENCES).map(|_| random.gen_range(0..1u64 << 31)).collect();
    (addresses, (0..REFERENCES).map(|i| kind(i % 2 == 0)).collect())
}

fn page_runs(c: &mut Criterion) {
    let mut group = c.benchmark_group("page runs");
    group.throughput(Throughput::Elements(REFERENCES as u64)).sample_size(10);
    for (name, (addresses, writes)) in
        [("private", private()), ("gather", gather()), ("random 2 GiB", random())]
    {
        group.bench_function(name, |b| {
            b.iter_batched(
                || HistoryBuilder::new(Options::default()),
                |mut builder| {
                    for (turn, (a, w)) in addresses.chunks(TURN).zip(writes.chunks(TURN)).enumerate() {
                        let node = Node((turn % 4) as u16);
                        builder.turn(node, Time((turn * TURN) as u64), a, w).unwrap();
                    }
                    builder
                },
                BatchSize::PerIteration,
            )
        });
    }
    group.finish();
}

criterion_group!(benches, page_runs);
criterion_main!(benches);
