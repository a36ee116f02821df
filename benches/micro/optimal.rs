//! The optimum on page runs: the lazy passes against the straightforward dynamic program of Bolosky & Scott 1991,
//! Figure 1, which visits every node at every run, in the same process and on the same runs.
//!
//! `cargo bench -p homing-benches --bench optimal`

#![allow(missing_docs)] // criterion's macro makes a function without

use criterion::{criterion_group, criterion_main, Criterion, Throughput};
use homing_core::history::PageRun;
use homing_core::ids::{Node, Page, Time};
use homing_core::machine::{Costs, Global, Uniform};
use homing_core::optimal::{Options, Solver, Start};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256StarStar;
use std::hint::black_box;

/// Runs of one page each.
type Pages = Vec<Vec<PageRun>>;

const RUNS: usize = 1 << 20;

/// Short runs by random nodes on pages of 4096 runs: the worst case for an optimum that works on runs.
fn short_runs(nodes: u16) -> Pages {
    let mut random = Xoshiro256StarStar::seed_from_u64(1);
    let mut page = || {
        let mut time = 0;
        let mut run = || {
            let (reads_before, writes) = (random.gen_range(0..3), random.gen_range(0..2));
            let reads_before = reads_before.max(1 - writes);
            let first = Time(time);
            time += u64::from(reads_before + writes);
            let node = Node(random.gen_range(0..nodes));
            PageRun {
                node,
                first,
                last: Time(time - 1),
                reads_before,
                writes,
                reads_between: 0,
                reads_after: 0,
            }
        };
        (0..4096).map(|_| run()).collect()
    };
    (0..RUNS / 4096).map(|_| page()).collect()
}

fn machine(nodes: u16, global: bool) -> Costs {
    let global = global.then_some(Global { access: 2.0, page_move: 2248.0 });
    let (remote, page_move) = if global.is_some() { (5.0, 4496.0) } else { (15.0, 3272.0) };
    Costs::Uniform(Uniform { nodes, remote, page_move, global })
}

fn lazy(pages: &Pages, costs: &Costs, replication: bool) -> f64 {
    let mut solver = Solver::new(costs, Options { replication, start: Start::OneCopy });
    for (number, runs) in (0u32..).zip(pages) {
        solver.page(Page(number), runs.iter().copied(), &mut ()).expect("few runs");
    }
    solver.finish().cost
}

/// Figure 1 on runs: no replication, no global memory, every node at every run, cost only.
fn straightforward(pages: &Pages, costs: &Uniform) -> f64 {
    let mut total = 0.0;
    let mut so_far = vec![0.0f64; usize::from(costs.nodes)];
    for runs in pages {
        so_far.fill(0.0);
        for run in runs {
            let references = run.references() as f64;
            let arrival = so_far.iter().copied().fold(f64::INFINITY, f64::min) + costs.page_move;
            for (node, cost) in so_far.iter_mut().enumerate() {
                let access = if node == run.node.index() { 1.0 } else { costs.remote };
                *cost = cost.min(arrival) + access * references;
            }
        }
        total += so_far.iter().copied().fold(f64::INFINITY, f64::min);
    }
    total
}

fn optimum(criterion: &mut Criterion) {
    for nodes in [4, 64] {
        let pages = short_runs(nodes);
        let mut group = criterion.benchmark_group(format!("short runs, {nodes} nodes"));
        group.throughput(Throughput::Elements(RUNS as u64)).sample_size(10);
        let (plain, with_global) = (machine(nodes, false), machine(nodes, true));
        let Costs::Uniform(uniform) = &plain else { unreachable!("the machine is uniform") };
        let (a, b) = (lazy(&pages, &plain, false), straightforward(&pages, uniform));
        assert!((a - b).abs() < 1e-9 * b, "the two agree: {a} {b}");
        group.bench_function("straightforward, no replication", |bencher| {
            bencher.iter(|| straightforward(black_box(&pages), uniform))
        });
        for (name, costs, replication) in [
            ("no replication", &plain, false),
            ("no replication, global memory", &with_global, false),
            ("replication", &plain, true),
            ("replication, global memory", &with_global, true),
        ] {
            group
                .bench_function(name, |bencher| bencher.iter(|| lazy(black_box(&pages), costs, replication)));
        }
        group.finish();
    }
}

criterion_group!(benches, optimum);
criterion_main!(benches);
