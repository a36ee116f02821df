//! Million samples/s of `homing` on one core, samples alone as in life: pages that stay at home, pages with a main user
//! and strays, pages that two nodes share reference by reference. `cargo bench -p homing-core --bench policy`

#![allow(missing_docs)] // criterion's macro makes a function without

use criterion::{criterion_group, criterion_main, BatchSize, Criterion, Throughput};
use homing_core::action::{Actions, Kind, Locations};
use homing_core::ids::{Node, Page, Time};
use homing_core::machine::Machine;
use homing_core::policy::settings::Settings;
use homing_core::policy::{table, Sample};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const SAMPLES: usize = 1 << 20;
const PAGES: u32 = 1 << 14;

/// Page and node of every sample; `strays` in a thousand come from any node.
fn stream(strays: u32) -> Vec<(Page, Node)> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(u64::from(strays));
    let sample = |_| {
        let page = random.gen_range(0..PAGES);
        let stray = random.gen_ratio(strays, 1000);
        (Page(page), Node(if stray { random.gen_range(0..4) } else { (page % 4) as u16 }))
    };
    (0..SAMPLES).map(sample).collect()
}

fn samples(c: &mut Criterion) {
    let machine = Machine::builtin("four-socket").expect("a machine of the project");
    let costs = machine.costs(machine.page_size()).expect("its prices");
    let mut group = c.benchmark_group("homing samples");
    group.throughput(Throughput::Elements(SAMPLES as u64)).sample_size(10);
    for (name, strays) in [("at home", 0), ("one stray in ten", 100), ("shared by all", 1000)] {
        let stream = stream(strays);
        let policy = table::find("homing").expect("in the table").make(&costs, true, &Settings::default());
        group.bench_function(name, |b| {
            let new = || {
                (policy.boxed_clone(), vec![Locations::single(Node(0)); PAGES as usize], Actions::default())
            };
            b.iter_batched(
                new,
                |(mut policy, mut at, mut actions)| {
                    let mut taken = Vec::new();
                    for (time, &(page, node)) in stream.iter().enumerate() {
                        let (at, time) = (&mut at[page.index()], Time(time as u64));
                        let sample = Sample { page, node, reads: 1, writes: 0, weight: 16.0, time, at: *at };
                        policy.sample(&sample, &mut actions);
                        actions.take(&mut taken);
                        for action in taken.drain(..) {
                            *at = match action.kind {
                                Kind::Move { to } | Kind::Collapse { keep: to } => Locations::single(to),
                                Kind::Replicate { to } => at.with_replica(to),
                                Kind::Freeze | Kind::Defrost => *at,
                            };
                        }
                    }
                    at
                },
                BatchSize::PerIteration,
            )
        });
    }
    group.finish();
}

criterion_group!(benches, samples);
criterion_main!(benches);
