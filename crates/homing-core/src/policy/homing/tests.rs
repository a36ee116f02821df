//! What docs/policy.md says can be proven, and examples.

use super::expert::EXPERTS;
use super::*;
use crate::action::{Action, Locations, Outcome};
use crate::engine::{Engine, Executor, Observation};
use crate::history::History;
use crate::ids::Thread;
use crate::policy::tests::{expand, read_gap, run, uniform};
use proptest::prelude::*;

/// Memory of one page that does as asked and counts what it costs beyond local references.
struct Memory {
    at: Locations,
    costs: Costs,
    paid: f64,
}

impl Executor for Memory {
    fn at(&self, _: Page) -> Locations {
        self.at
    }

    fn execute(&mut self, action: &Action) -> Outcome {
        let to = action.kind.applied(self.at);
        let fresh = to.all().without(self.at.all());
        self.paid += fresh.iter().map(|node| self.costs.copy(self.at.home(), node)).sum::<f64>();
        self.at = to;
        Outcome::Done
    }

    fn served(&mut self, sample: &Sample) {
        let from = if self.at.holds(sample.node) { sample.node } else { self.at.home() };
        let loss = self.costs.access(sample.node, from) - 1.0;
        self.paid += (sample.reads + sample.writes) as f64 * loss;
    }
}

/// What tests begin with.
const USUAL: Parameters = Parameters {
    hysteresis: 0.5,
    catch_up: 0.0,
    pooling: true,
    constructs: 0,
    load: 1.0,
    purse: 0.5,
    patience: 3.0,
};

/// What the page and its experts paid; the page begins at node 0 and learns alone.
fn play(visits: &[(u16, u64, bool, usize)], costs: &Costs, replication: bool) -> (f64, [f64; EXPERTS]) {
    play_with(visits, costs, replication, false)
}

/// The same; `pooling`: it foresees.
fn play_with(
    visits: &[(u16, u64, bool, usize)],
    costs: &Costs,
    replication: bool,
    pooling: bool,
) -> (f64, [f64; EXPERTS]) {
    let history = History::from_references(&expand(visits), read_gap(costs));
    let parameters = Parameters { hysteresis: 1.0, pooling, ..USUAL };
    let mut policy = Homing::new(costs, replication, &parameters);
    let memory = Memory { at: Locations::single(Node(0)), costs: costs.clone(), paid: 0.0 };
    let mut engine = Engine::new(&mut policy, memory, false);
    history.runs(Page(0)).unwrap().for_each(|run| engine.run(Page(0), &run));
    let paid = engine.finish().0.paid;
    (paid, policy.pages.get_mut(Page(0)).unwrap().paid())
}

fn visits() -> impl Strategy<Value = Vec<(u16, u64, bool, usize)>> {
    prop::collection::vec((0u16..3, Just(0u64), any::<bool>(), 1usize..60), 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn the_expert_that_never_moves_pays_what_doing_nothing_costs_until_it_is_left_behind(visits in visits()) {
        let costs = uniform(3, 5.0, 100.0, None);
        let (_, paid) = play(&visits, &costs, false);
        let history = History::from_references(&expand(&visits), read_gap(&costs));
        let stay = run(&history, &costs, "single-node", None, &[], false).account.cost(&costs);
        let stay = stay - history.references() as f64;
        let left_behind = paid[0] < stay && paid[0] >= 8.0 * 100.0;
        prop_assert!((paid[0] - stay).abs() < 1e-6 || left_behind, "{} {stay}", paid[0]);
    }

    #[test]
    fn a_page_pays_at_most_the_bound(visits in visits(), pooling: bool) {
        let costs = uniform(3, 5.0, 100.0, None);
        let (page, paid) = play_with(&visits, &costs, false, pooling);
        let best = paid.iter().copied().fold(f64::INFINITY, f64::min);
        let (experts, copy) = (EXPERTS as f64, 100.0);
        // docs/policy.md, "What can be proven", with h = 1, what pools add to it, and the overshoot of one stretch.
        let hysteresis = if pooling { 36.0 } else { 1.0 };
        let changes = experts * (1.0 + best / copy);
        let bound = experts * (best + (hysteresis + 1.25) * copy) + 2.0 * copy * (1.0 + changes);
        prop_assert!(page <= bound, "{page} > {bound}, best expert {best}");
    }

    #[test]
    fn quiet_references_change_nothing(
        stream in prop::collection::vec((0u32..4, 0u16..3, 0u64..9, 0u64..3, 1u32..40), 1..400),
        replication: bool,
        moves in prop::collection::vec((0u16..3, 0u16..3), 0..3),
    ) {
        let parameters = Parameters { hysteresis: 1.0, ..USUAL };
        let costs = uniform(3, 5.0, 100.0, None);
        let mut policies = [(); 2].map(|()| Homing::new(&costs, replication, &parameters));
        let mut at = [Locations::single(Node(0)); 4];
        let (mut actions, mut taken) = (Actions::default(), [Vec::new(), Vec::new()]);
        let mut moves = moves.into_iter();
        for (time, (page, node, reads, writes, again)) in stream.into_iter().enumerate() {
            for _ in 0..again {
                let (page, node, at, time) = (Page(page), Node(node), &mut at[page as usize], Time(time as u64));
                let reads = reads.max(1 - writes.min(1));
                let sample = Sample { page, node, reads, writes, weight: 4.0, time, at: *at };
                for (policy, taken) in policies.iter_mut().zip(&mut taken) {
                    policy.sample(&sample, &mut actions);
                    taken.clear();
                    actions.take(taken);
                }
                // Of one policy, no reference is quiet.
                policies[1].quiet = Table::default();
                prop_assert_eq!(&taken[0], &taken[1]);
                for action in &taken[0] {
                    *at = action.kind.applied(*at);
                }
            }
            if let Some((from, to)) = moves.next() {
                let moved = ThreadMoved { thread: Thread(1), from: Node(from), to: Node(to), time: Time(time as u64) };
                policies.iter_mut().for_each(|policy| policy.thread_moved(&moved, &mut actions));
            }
        }
        let paid = policies.map(|mut policy| {
            [0, 1, 2, 3].map(|page| policy.pages.get_mut(Page(page)).map(|state| state.paid()))
        });
        prop_assert_eq!(paid[0], paid[1]);
    }
}

#[test]
fn a_page_whose_leader_never_moves_is_not_left_behind_in_a_long_run() {
    let costs = uniform(2, 5.0, 100.0, None);
    let mut visits: Vec<_> = (0..2000).map(|i| ((i % 2) as u16, 0, true, 3)).collect();
    let (before, _) = play(&visits, &costs, false);
    visits.push((1, 0, true, 100_000));
    let (after, _) = play(&visits, &costs, false);
    assert!(after - before < 40.0 * 100.0, "{before} {after}");
}

#[test]
fn a_page_follows_a_leader_that_is_in_global_memory_already() {
    let costs = uniform(3, 5.0, 100.0, Some((2.0, 50.0)));
    // Long visits let an eager expert lead. In shorter ones by three nodes the cautious one goes to global memory long
    // before it leads.
    let mut visits: Vec<_> = (0..20).map(|i| ((i % 2) as u16, 0, true, 2000)).collect();
    let (before, _) = play(&visits, &costs, false);
    visits.extend((0..400).map(|i| ((i % 3) as u16, 0, true, 60)));
    let (after, paid) = play(&visits, &costs, false);
    // There a visit costs 60 more than local references; on a processor's node 160 in the mean.
    assert!(after - before < 400.0 * 80.0, "{before} {after} {paid:?}");
}

#[test]
fn pages_that_are_only_read_get_replicas() {
    let costs = uniform(3, 5.0, 100.0, None);
    let visits: Vec<_> = (0..900).map(|i| ((i % 3) as u16, 0, i == 0, 10)).collect();
    let (with, _) = play(&visits, &costs, true);
    let (without, _) = play(&visits, &costs, false);
    assert!(with <= 2.0 * 2.0 * 100.0 + 100.0, "two replicas by ski rental: {with}");
    assert!(without > 10.0 * with, "{without}");
}

#[test]
fn a_page_that_is_read_and_then_written_is_copied_once_a_visit() {
    let costs = uniform(2, 5.0, 100.0, None);
    let visit = |i: u16| [(i % 2, 0, false, 3), (i % 2, 0, true, 100)];
    let visits: Vec<_> = (0..200).flat_map(visit).collect();
    let (paid, _) = play_with(&visits, &costs, true, true);
    assert!(paid <= 200.0 * 100.0 + 20.0 * 100.0, "{paid}");
}

#[test]
fn pages_of_a_moved_thread_come_at_their_first_use() {
    let costs = uniform(3, 5.0, 100.0, None);
    let parameters = Parameters { hysteresis: 1.0, ..USUAL };
    let mut policy = Homing::new(&costs, false, &parameters);
    let memory = Memory { at: Locations::single(Node(0)), costs: costs.clone(), paid: 0.0 };
    let mut engine = Engine::new(&mut policy, memory, false);
    let sample = |node: u16, time: u64| {
        let at = Locations::single(Node(0));
        let (page, node, time) = (Page(0), Node(node), Time(time));
        Observation::Sample(Sample { page, node, reads: 0, writes: 1, weight: 500.0, time, at })
    };
    engine.observe(sample(0, 0));
    let (thread, time) = (Thread(7), Time(1));
    engine.observe(Observation::ThreadMoved(ThreadMoved { thread, from: Node(0), to: Node(2), time }));
    engine.observe(sample(1, 2));
    assert_eq!(engine.executor().at.home(), Node(0), "a stranger's reference brings nothing along");
    engine.observe(Observation::ThreadMoved(ThreadMoved { thread, from: Node(2), to: Node(0), time }));
    engine.observe(sample(0, 3));
    engine.observe(Observation::ThreadMoved(ThreadMoved { thread, from: Node(0), to: Node(2), time }));
    engine.observe(sample(2, 4));
    assert_eq!(engine.executor().at.home(), Node(2));
}

#[test]
fn pages_come_at_the_start_of_visits_that_will_last_and_stay_in_short_ones() {
    let costs = uniform(3, 5.0, 100.0, None);
    // A page move is worth 25 references. Node 1 stays for 200, node 2 for 12.
    let visit = |i: usize| [(0, 0, true, 200), (1, 0, true, 200), (0, 0, true, 200), (2, 0, true, 12)][i % 4];
    let visits: Vec<_> = (0..400).map(visit).collect();
    let (foreseeing, _) = play_with(&visits, &costs, false, true);
    let (waiting, _) = play_with(&visits, &costs, false, false);
    // Each period costs two moves and the 12 references of node 2: 248. Who waits pays a move or two more for each.
    assert!(foreseeing < 1.15 * 100.0 * 248.0, "{foreseeing}");
    assert!(waiting > 1.5 * foreseeing, "{waiting} {foreseeing}");
}

#[test]
fn pages_that_are_long_read_between_writes_get_replicas_at_once() {
    let costs = uniform(3, 5.0, 100.0, None);
    // The writes are worth more than a move, so that node 0 has the page whenever it writes.
    let period = [(0, 0, true, 60), (1, 0, false, 300), (2, 0, false, 300)];
    let (foreseeing, _) = play_with(&period.repeat(100), &costs, true, true);
    let (waiting, _) = play_with(&period.repeat(100), &costs, true, false);
    // Two replicas a period; who waits loses half a move more for each.
    assert!(foreseeing < 1.3 * 100.0 * 200.0, "{foreseeing}");
    assert!(waiting > 1.1 * foreseeing, "{waiting} {foreseeing}");
}

#[test]
fn the_state_of_a_page_is_small() {
    let nodes = |count: usize| count * (expert::SCALES.len() * size_of::<f64>() + size_of::<page::Seat>());
    assert_eq!((size_of::<State>(), nodes(4), size_of::<pools::Losses>()), (280, 208, 12));
    assert_eq!(size_of::<Quiet>(), 20);
}

#[test]
fn samples_that_are_rare_move_a_page_by_agreeing() {
    // A page move is worth 25 references; a sample stands for 1000.
    let costs = uniform(3, 5.0, 100.0, None);
    let homes = |nodes: &[u16]| -> Vec<u16> {
        let mut policy = Homing::new(&costs, false, &USUAL);
        let (mut actions, mut taken, mut at) = (Actions::default(), Vec::new(), Locations::single(Node(0)));
        let sampled = |(time, &node): (usize, &u16)| {
            let time = Time(1000 * time as u64);
            let sample =
                Sample { page: Page(0), node: Node(node), reads: 1, writes: 0, weight: 1000.0, time, at };
            policy.sample(&sample, &mut actions);
            taken.clear();
            actions.take(&mut taken);
            taken.iter().for_each(|action| at = action.kind.applied(at));
            at.home().0
        };
        nodes.iter().enumerate().map(sampled).collect()
    };
    let moved = homes(&[0, 0, 0, 2, 2, 2, 2]);
    assert!(moved[3] == 0 && moved[6] == 2, "one sample is not enough, some are: {moved:?}");
    let shared: Vec<u16> = (0..200).map(|i| [0, 2, 1, 0, 1, 2][i % 6]).collect();
    let moves = homes(&shared).windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!(moves < 10, "a page that all use follows nobody: {moves} moves");
}

/// Pages that know where they are.
struct Many {
    at: Vec<Node>,
    moves: usize,
}

impl Executor for Many {
    fn at(&self, page: Page) -> Locations {
        Locations::single(self.at[page.index()])
    }

    fn execute(&mut self, action: &Action) -> Outcome {
        self.at[action.page.index()] = action.kind.applied(self.at(action.page)).home();
        self.moves += 1;
        Outcome::Done
    }
}

/// 64 pages that all of four nodes use alike and 16 that node 0 uses, all of them at node 0, for `intervals` intervals;
/// a memory makes requests wait for eight local accesses if it serves all. Where the pages are then, and how often they
/// moved.
fn served_by_one(intervals: usize, load: f64) -> Many {
    let parameters = Parameters { load, ..USUAL };
    let mut policy = Homing::new(&uniform(4, 2.0, 40.0, None), false, &parameters);
    let mut engine = Engine::new(&mut policy, Many { at: vec![Node(0); 80], moves: 0 }, false);
    engine.begin(&Context {
        monitor: "test".into(),
        weight: 1.0,
        interval: Some(1),
        iterations: false,
        phases: false,
        page_bytes: 4096,
        nodes: 4,
        loads: true,
        moves: None,
    });
    for interval in 0..intervals {
        let mut served = [0.0; 4];
        for visit in 0..16 {
            for page in 0..80 {
                let node = if page < 64 { (visit + page) % 4 } else { 0 };
                let (page, node) = (Page(page as u32), Node(node as u16));
                let (at, time) = (engine.at(page), Time(interval as u64));
                served[at.home().index()] += 2.0 / 2560.0;
                let sample = Sample { page, node, reads: 1, writes: 1, weight: 1.0, time, at };
                engine.observe(Observation::Sample(sample));
            }
        }
        engine.loads(&served.map(|share| 8.0 * share));
    }
    engine.finish().0
}

#[test]
fn pages_that_all_use_leave_a_loaded_memory_for_the_others_and_a_nodes_own_stay() {
    let still = served_by_one(60, 0.0);
    assert_eq!(still.moves, 0, "distances alone give no reason");
    let levelled = served_by_one(60, 1.0);
    let pages_at = |node| levelled.at.iter().filter(|&&at| at == Node(node)).count();
    let loads: Vec<usize> = (0..4).map(pages_at).collect();
    assert!(
        loads.iter().all(|&pages| pages <= 28),
        "no memory serves much more than the mean, 20: {loads:?}"
    );
    assert!(levelled.at[64..].iter().all(|&at| at == Node(0)), "{:?}", levelled.at);
    let later = served_by_one(120, 1.0);
    assert!(
        later.moves <= levelled.moves + 16,
        "they come to rest: {} and then {}",
        levelled.moves,
        later.moves
    );
}

/// Where a page that begins at node 0 of four is after profiles in which nodes have counted these reads, and how
/// often it moved.
fn profiled(counts: &[(u16, u64)], profiles: u64) -> (Node, usize) {
    let mut policy = Homing::new(&uniform(4, 2.0, 40.0, None), false, &USUAL);
    let mut engine = Engine::new(&mut policy, Many { at: vec![Node(0)], moves: 0 }, false);
    let at = Locations::single(Node(0));
    for time in (0..profiles).map(Time) {
        let samples = counts.iter().map(|&(node, reads)| Sample {
            page: Page(0),
            node: Node(node),
            reads,
            writes: 0,
            weight: 1.0,
            time,
            at,
        });
        engine.profiles(&mut samples.collect());
    }
    let many = engine.finish().0;
    (many.at[0], many.moves)
}

#[test]
fn counts_of_an_interval_are_no_visits() {
    assert_eq!(profiled(&[(0, 500), (1, 500), (2, 500), (3, 500)], 20), (Node(0), 0), "all use it alike");
    assert_eq!(profiled(&[(0, 100), (1, 120), (2, 500), (3, 90)], 20), (Node(2), 1), "one uses it most");
    assert_eq!(profiled(&[(0, 5), (3, 1_000_000)], 2), (Node(3), 1));
    assert_eq!(profiled(&[(1, 30)], 6), (Node(1), 1), "one node alone is reported as it is");
}

#[test]
fn a_memory_that_no_page_is_in_does_not_make_samples_count_less() {
    let machine = |name: &str| crate::machine::Machine::builtin(name).unwrap();
    let costs = |name: &str| machine(name).costs_behind_caches(machine(name).page_size()).unwrap();
    // Samples of 64 misses, two of three by node 1, of a page at node 0: after how many it moves.
    let until = |costs: &crate::machine::Costs| {
        let mut policy = Homing::new(costs, false, &USUAL);
        let mut actions = Actions::default();
        let moved = |&count: &u64| {
            let (node, at) = (Node(u16::from(count % 3 != 0)), Locations::single(Node(0)));
            let sample =
                Sample { page: Page(0), node, reads: 1, writes: 0, weight: 64.0, time: Time(count), at };
            policy.sample(&sample, &mut actions);
            !actions.is_empty()
        };
        (1..10_000).find(moved).unwrap_or(0)
    };
    let (without, with) = (until(&costs("two-socket")), until(&costs("two-socket-cxl")));
    assert!(without > 0 && with == without, "{without} {with}");
}
