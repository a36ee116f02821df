//! The bound with load against all placements with moves there are, by the model of time itself.

use homing_core::cache::Counts;
use homing_core::history::{History, HistoryBuilder, Options};
use homing_core::ids::{Node, Page, Time};
use homing_core::machine::Machine;
use homing_core::optimal::load::{bound, LoadBound, Program};
use homing_core::time::{CpuWork, Mover, Times, Work};
use proptest::prelude::*;

/// A machine of `nodes` nodes with one CPU each on which queues are long and moves cheap.
fn times(nodes: usize, remote: f64, busy: f64, link: f64, move_ns: f64) -> Times {
    let row = |i: usize| {
        let of = |j: usize| (100.0 + if i == j { 0.0 } else { remote + 30.0 * (i + j) as f64 }).to_string();
        format!("[{}]", (0..nodes).map(of).collect::<Vec<_>>().join(","))
    };
    let matrix = (0..nodes).map(row).collect::<Vec<_>>().join(",");
    let text = format!(
        "name = \"test\"\nnodes = {nodes}\ncpus_per_node = 1\npage_size = \"4K\"\n[latency]\nmatrix = \
         [{matrix}]\npage_move = 10000.0\n[hierarchy]\nl1 = {{ size = \"1K\", ways = 2, line = 64, ns = 1.0 }}\nl2 = {{ \
         size = \"2K\", ways = 2, line = 64, ns = 2.0 }}\n[time]\ncompute_ns = 1.0\nexposed = 0.5\nmemory_busy_ns = \
         {busy}\nlink_busy_ns = {link}\nmove_ns = {move_ns}\nshootdown_ns = 40.0\n"
    );
    let machine = Machine::from_toml(&text, "test.toml").unwrap();
    Times::new(&machine, machine.page_size()).unwrap()
}

/// References of each node to each page in each interval: `[interval][page][node]`.
type Uses = Vec<Vec<Vec<u64>>>;

/// In each interval in turn, one reference of each node to each page a round.
fn history(uses: &Uses) -> History {
    let mut builder = HistoryBuilder::new(Options::default());
    let mut time = 0;
    for interval in uses {
        let rounds = interval.iter().flatten().max().copied().unwrap_or(0);
        for round in 0..rounds {
            for (page, nodes) in interval.iter().enumerate() {
                for (node, _) in nodes.iter().enumerate().filter(|(_, &n)| n > round) {
                    builder.reference(Node(node as u16), Time(time), (page as u64) << 12, false);
                    time += 1;
                }
            }
        }
    }
    let addresses: Vec<u64> = (0..uses[0].len() as u64).map(|page| page << 12).collect();
    builder.finish(&addresses).unwrap()
}

/// The same work of each CPU besides misses in each interval.
fn beside(node: usize, interval: usize) -> Counts {
    let references = [50, 10, 400, 20][(node + interval) % 4];
    Counts { references, l1_misses: references / 5, tlb_misses: 2, ..Counts::default() }
}

fn bounded(uses: &Uses, times: &Times, mover: Mover) -> LoadBound {
    let cpus: Vec<(Node, Counts)> = (0..times.nodes())
        .map(|node| {
            let all: Vec<Counts> = (0..uses.len()).map(|interval| beside(node, interval)).collect();
            (Node(node as u16), Counts::sum(&all))
        })
        .collect();
    let history = history(uses);
    bound(Program { history: &history, times, cpus: &cpus, mover }).unwrap()
}

/// The least modelled time of all placements that may move any page between intervals. A move shoots down on the CPU
/// where that is cheapest.
fn cheapest(uses: &Uses, times: &Times, mover: Mover) -> f64 {
    let (nodes, pages) = (times.nodes(), uses[0].len());
    let places = nodes.pow(pages as u32);
    let home = |place: usize, page: usize| place / nodes.pow(page as u32) % nodes;
    let elapsed = |interval: usize, from: usize, to: usize| {
        let mut cpus: Vec<CpuWork> =
            (0..nodes).map(|node| CpuWork::of(Node(node as u16), &beside(node, interval))).collect();
        let mut moves = vec![0; nodes * nodes];
        for page in 0..pages {
            moves[home(from, page) * nodes + home(to, page)] += u64::from(home(from, page) != home(to, page));
        }
        for (node, cpu) in cpus.iter_mut().enumerate() {
            cpu.demand = vec![0; nodes];
            for page in 0..pages {
                cpu.demand[home(to, page)] += uses[interval][page][node];
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
        (0..nodes).map(with).fold(f64::INFINITY, f64::min)
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
        (nodes, uses) in (2usize..4, 2usize..4, 2usize..4).prop_flat_map(|(nodes, pages, intervals)| {
            let uses = prop::collection::vec(prop::collection::vec(prop::collection::vec(0u64..40, nodes), pages), intervals);
            (Just(nodes), uses)
        }),
        remote in 10.0..400.0f64,
        busy in 1.0..200.0f64,
        link in 1.0..200.0f64,
        move_ns in prop_oneof![Just(1.0), 1.0..4000.0f64],
        mover in prop::sample::select(Mover::ALL.to_vec()),
    ) {
        // Pages that nobody uses are none.
        let mut uses = uses;
        uses[0].iter_mut().for_each(|page| page[0] += 1);
        let times = times(nodes, remote, busy, link, move_ns);
        let bound = bounded(&uses, &times, mover);
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
    let times = times(4, 20.0, 60.0, 1.0, 1000.0);
    let bound = bounded(&uses, &times, Mover::Program);
    let of = |name: &str| bound.placements.iter().find(|placed| placed.placement == name).unwrap().ns;
    assert!(bound.bound_ns > 1.1 * bound.without_load_ns, "{bound:?}");
    assert!(bound.bound_ns > 0.9 * of("striped"), "{bound:?}");
    assert!(of("first touch") > 2.0 * of("striped"), "the first node has all of it: {bound:?}");
    assert!(of("spread") < 1.02 * of("striped"), "{bound:?}");
    assert!(bound.placements.iter().all(|placed| placed.ns >= bound.bound_ns), "{bound:?}");
}

#[test]
fn without_load_the_bound_is_the_optimum_of_the_mean_thread() {
    // Two nodes use a page each, alone: both local, and nobody waits for long.
    let uses: Uses = vec![vec![vec![1000, 0], vec![0, 1000]]];
    let times = times(2, 100.0, 1e-6, 1e-6, 1000.0);
    let bound = bounded(&uses, &times, Mover::Program);
    let thread = |node: usize| {
        times.besides_misses_ns(&CpuWork::of(Node(node as u16), &beside(node, 0))) + 1000.0 * 50.0
    };
    let (mean, most) = ((thread(0) + thread(1)) / 2.0, thread(0).max(thread(1)));
    assert!(bound.without_load_ns >= mean - 1e-6 && bound.without_load_ns <= most, "{bound:?} {mean} {most}");
    assert!((bound.bound_ns / bound.without_load_ns - 1.0).abs() < 1e-6, "{bound:?}");
}

#[test]
fn a_slow_thread_counts_more_than_the_mean() {
    // Node 0 has nearly all of the work: the mean of both threads is about half of what it takes.
    let uses: Uses = vec![vec![vec![2000, 10], vec![2000, 10]]];
    let times = times(2, 100.0, 1e-6, 1e-6, 1000.0);
    let bound = bounded(&uses, &times, Mover::Own);
    let alone = 4000.0 * 50.0;
    assert!(bound.without_load_ns > 0.95 * alone, "{bound:?}");
    assert_eq!(bound.placements[0].moves, 0);
    assert_eq!(history(&uses).pages(), 2);
    assert!(history(&uses).runs(Page(0)).is_ok());
}
