//! The bound with load against all placements with moves there are, by the model of time itself.

use homing_core::cache::Counts;
use homing_core::history::{History, HistoryBuilder, Options};
use homing_core::ids::{Node, Time};
use homing_core::machine::Machine;
use homing_core::optimal::load::{bound, LoadBound, Program};
use homing_core::time::{CpuWork, Mover, Times, Work};
use proptest::prelude::*;

/// A machine on which queues are long.
fn times(nodes: usize, (remote, step): (f64, f64), busy: f64, link: f64, move_ns: f64) -> Times {
    let row = |i: usize| {
        let of = |j: usize| (100.0 + if i == j { 0.0 } else { remote + step * (i + j) as f64 }).to_string();
        format!("[{}]", (0..nodes).map(of).collect::<Vec<_>>().join(","))
    };
    let matrix = (0..nodes).map(row).collect::<Vec<_>>().join(",");
    let cache = |size: &str, ns: f64| format!("{{ size = \"{size}\", ways = 2, line = 64, ns = {ns} }}");
    let (l1, l2) = (cache("1K", 1.0), cache("2K", 2.0));
    let text = format!(
        "name = \"test\"\nnodes = {nodes}\ncpus_per_node = 2\npage_size = \"4K\"\n\
         [latency]\nmatrix = [{matrix}]\npage_move = 10000.0\n\
         [hierarchy]\nl1 = {l1}\nl2 = {l2}\n\
         [time]\ncompute_ns = 1.0\nexposed = 0.5\nmemory_busy_ns = {busy}\nlink_busy_ns = {link}\n\
         move_ns = {move_ns}\nshootdown_ns = 40.0\n"
    );
    let machine = Machine::from_toml(&text, "test.toml").unwrap();
    Times::new(&machine, machine.page_size()).unwrap()
}

/// References of each CPU in use to each page in each interval: `[interval][page][cpu]`.
type Uses = Vec<Vec<Vec<u64>>>;

/// The node of a CPU in use; two CPUs of node 0 may be.
fn node_of(cpu: usize, nodes: usize) -> Node {
    Node((cpu % nodes) as u16)
}

/// In each interval in turn, one reference of each CPU to each page a round.
fn history(uses: &Uses, nodes: usize) -> History {
    let mut builder = HistoryBuilder::new(Options::default());
    let mut time = 0;
    for interval in uses {
        let rounds = interval.iter().flatten().max().copied().unwrap_or(0);
        for round in 0..rounds {
            for (page, cpus) in interval.iter().enumerate() {
                for (cpu, _) in cpus.iter().enumerate().filter(|(_, &n)| n > round) {
                    builder.reference(node_of(cpu, nodes), Time(time), (page as u64) << 12, false);
                    time += 1;
                }
            }
        }
    }
    let addresses: Vec<u64> = (0..uses[0].len() as u64).map(|page| page << 12).collect();
    builder.finish(&addresses).unwrap()
}

/// What the caches of a CPU counted in an interval.
fn counted(uses: &Uses, cpu: usize, interval: usize) -> Counts {
    let references = [50, 10, 400, 20][(cpu + interval) % 4];
    let fetches_read = uses[interval].iter().map(|page| page[cpu]).sum();
    Counts { references, l1_misses: references / 5, tlb_misses: 2, fetches_read, ..Counts::default() }
}

/// `twice`: references of CPU 0 that missed two lines.
fn bounded(uses: &Uses, times: &Times, mover: Mover, twice: u64) -> LoadBound {
    let of = |cpu: usize| {
        let all: Vec<Counts> = (0..uses.len()).map(|interval| counted(uses, cpu, interval)).collect();
        let mut counts = Counts::sum(&all);
        counts.fetches_read += if cpu == 0 { twice } else { 0 };
        (node_of(cpu, times.nodes()), counts)
    };
    let cpus: Vec<(Node, Counts)> = (0..uses[0][0].len()).map(of).collect();
    let history = history(uses, times.nodes());
    bound(Program { history: &history, times, cpus: &cpus, mover }).unwrap()
}

/// The least modelled time of all placements that may move any page between intervals. A move shoots down on the CPU
/// where that is cheapest.
fn cheapest(uses: &Uses, times: &Times, mover: Mover) -> f64 {
    let (nodes, pages) = (times.nodes(), uses[0].len());
    let places = nodes.pow(pages as u32);
    let home = |place: usize, page: usize| place / nodes.pow(page as u32) % nodes;
    let elapsed = |interval: usize, from: usize, to: usize| {
        let work = |cpu: usize| CpuWork::of(node_of(cpu, nodes), &counted(uses, cpu, interval));
        let mut cpus: Vec<CpuWork> = (0..uses[0][0].len()).map(work).collect();
        let mut moves = vec![0; nodes * nodes];
        for page in 0..pages {
            moves[home(from, page) * nodes + home(to, page)] += u64::from(home(from, page) != home(to, page));
        }
        for (number, cpu) in cpus.iter_mut().enumerate() {
            cpu.demand = vec![0; nodes];
            for (page, uses) in uses[interval].iter().enumerate() {
                cpu.demand[home(to, page)] += uses[number];
            }
        }
        let shot: u64 = moves.iter().sum();
        let with = |cpu: usize| {
            let mut cpus = cpus.clone();
            cpus[cpu].shootdowns = shot;
            times
                .elapsed(&Work { cpus, write_backs: vec![0; nodes * nodes], moves: moves.clone() }, mover)
                .total_ns
        };
        (0..cpus.len()).map(with).fold(f64::INFINITY, f64::min)
    };
    let mut least: Vec<f64> = (0..places).map(|place| elapsed(0, place, place)).collect();
    for interval in 1..uses.len() {
        let to = |to: usize| {
            (0..places).map(|from| least[from] + elapsed(interval, from, to)).fold(f64::INFINITY, f64::min)
        };
        least = (0..places).map(to).collect();
    }
    least.into_iter().fold(f64::INFINITY, f64::min)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn no_placement_with_moves_is_below(
        (nodes, uses) in (2usize..4, 2usize..4, 2usize..4, 0usize..2).prop_flat_map(
            |(nodes, pages, intervals, more)| {
                let page = prop::collection::vec(0u64..40, nodes + more);
                let uses = prop::collection::vec(prop::collection::vec(page, pages), intervals);
                (Just(nodes), uses)
            },
        ),
        twice in 0u64..10,
        remote in 10.0..400.0f64,
        busy in 1.0..200.0f64,
        link in 1.0..200.0f64,
        move_ns in prop_oneof![Just(1.0), 1.0..4000.0f64],
        mover in prop::sample::select(Mover::ALL.to_vec()),
    ) {
        // Pages that nobody uses are none.
        let mut uses = uses;
        uses[0].iter_mut().for_each(|page| page[0] += 1);
        let times = times(nodes, (remote, 30.0), busy, link, move_ns);
        let bound = bounded(&uses, &times, mover, twice);
        let least = cheapest(&uses, &times, mover);
        prop_assert!(bound.bound_ns <= least * (1.0 + 1e-9), "{bound:?} {least}");
        prop_assert!(bound.without_load_ns <= bound.bound_ns);
        // Where moves are dear those within intervals, which the search does not try, gain nothing.
        if move_ns > 1000.0 && mover != Mover::Own {
            prop_assert!(bound.bound_ns > 0.4 * least, "not far below either: {bound:?} {least}");
        }
    }
}

#[test]
fn a_table_that_all_read_alike_has_to_be_spread() {
    let uses: Uses = vec![vec![vec![100; 4]; 64]];
    let times = times(4, (20.0, 0.0), 60.0, 1.0, 1000.0);
    let bound = bounded(&uses, &times, Mover::Program, 0);
    let of = |name: &str| bound.placements.iter().find(|placed| placed.placement == name).unwrap().ns;
    assert!(bound.bound_ns > 1.1 * bound.without_load_ns, "{bound:?}");
    assert!(bound.bound_ns > 0.99 * of("striped"), "{bound:?}");
    assert!(of("first touch") > 2.0 * of("striped"), "the first node has all of it: {bound:?}");
    assert!(of("spread") < 1.02 * of("striped"), "{bound:?}");
    assert!(bound.placements.iter().all(|placed| placed.ns >= bound.bound_ns), "{bound:?}");
}

#[test]
fn without_load_the_bound_is_the_optimum_of_the_mean_thread() {
    // Two nodes use a page each, alone: both local, and nobody waits for long.
    let uses: Uses = vec![vec![vec![1000, 0], vec![0, 1000]]];
    let times = times(2, (100.0, 30.0), 1e-6, 1e-6, 1000.0);
    let bound = bounded(&uses, &times, Mover::Program, 0);
    let thread = |cpu: usize| {
        let work = CpuWork::of(node_of(cpu, 2), &counted(&uses, cpu, 0));
        times.besides_misses_ns(&work) + 1000.0 * 50.0
    };
    let (mean, most) = ((thread(0) + thread(1)) / 2.0, thread(0).max(thread(1)));
    assert!(bound.without_load_ns >= mean - 1e-6 && bound.without_load_ns <= most, "{bound:?} {mean} {most}");
    assert!((bound.bound_ns / bound.without_load_ns - 1.0).abs() < 1e-6, "{bound:?}");
}

#[test]
fn a_slow_thread_counts_more_than_the_mean() {
    // One of two CPUs of node 0 has nearly all of the work: the mean of all threads is a third of what it takes.
    let uses: Uses = vec![vec![vec![2000, 10, 10], vec![2000, 10, 10]]];
    let times = times(2, (100.0, 30.0), 1e-6, 1e-6, 1000.0);
    let bound = bounded(&uses, &times, Mover::Own, 0);
    assert!(bound.without_load_ns > 0.95 * 4000.0 * 50.0, "{bound:?}");
    assert_eq!(bound.placements[0].moves, 0);
    assert!(bound.placements.iter().all(|placed| placed.ns >= bound.bound_ns), "{bound:?}");
}
