//! Hand-worked examples for equations (1) to (3), ping-pong prevention, self-tuning, cold areas, and the filter of
//! section 4.

use super::super::tests::{expand, run_with, uniform};
use crate::action::{Actions, Locations};
use crate::history::History;
use crate::ids::{Node, Page, Thread, Time};
use crate::policy::settings::Settings;
use crate::policy::{table, End, Policy, Sample, ThreadMoved};
use crate::process::{HotArea, Own};
use crate::simulate::Simulation;
use crate::timeline::{Mark, Timeline};

type Visit = (u16, u64, bool, usize);

fn iterations(length: u64, duration: u64) -> Timeline {
    let mut timeline = Timeline::default();
    timeline.add_iterations(length, Time(duration));
    timeline
}

fn simulate(policy: &str, visits: &[Visit], timeline: &Timeline, sets: &[&str]) -> Simulation {
    let costs = uniform(3, 2.0, 20.0, None);
    let history = History::from_references(&expand(visits), 20);
    // The first iteration counts, unless the test says otherwise.
    let sets: Vec<&str> = std::iter::once("skip=0").chain(sets.iter().copied()).collect();
    run_with(&history, &costs, policy, None, &sets, false, "perfect", timeline)
}

fn said(result: &Simulation) -> Vec<(u64, &'static str)> {
    result.log.iter().map(|entry| (entry.time.0, entry.action.kind.describe().0)).collect()
}

#[test]
fn equation_1_with_and_without_the_migration_cost() {
    // Iterations of 20 references; r = 2, l = 1, ml = 20. Node 0: 8 local; node 1: 12 remote.
    let visits = [(0, 0, true, 8), (1, 0, true, 12), (0, 0, true, 8), (1, 0, true, 12)];
    let timeline = iterations(20, 40);
    // One node contends: r_c = 2 + c. Iteration 1: (2 + c) 12 > 2 * 8 + 20 needs c > 1; iteration 2: (2 + c) 24 > 52
    // too.
    let plain = ["contention=0"];
    assert_eq!(said(&simulate("competitive", &visits, &timeline, &plain)), []);
    assert_eq!(said(&simulate("competitive", &visits, &timeline, &["contention=1.1"]))[0], (20, "move"));
    // 48 > 32 + 20 fails, with c = 1/6: 52 > 52 fails, with c = 0.2: 52.8 > 52.
    assert_eq!(said(&simulate("competitive", &visits, &timeline, &[])), []);
    assert_eq!(said(&simulate("competitive", &visits, &timeline, &["contention=0.2"])), [(40, "move")]);
    let optimistic = ["contention=0", "migration-cost=0"];
    assert_eq!(said(&simulate("competitive", &visits, &timeline, &optimistic)), [(20, "move")]);
}

#[test]
fn a_page_that_would_go_back_freezes() {
    let ends = |times: &[u64]| {
        let mut timeline = Timeline::default();
        timeline.add(times.iter().map(|&time| (Time(time), Mark::IterationEnd)));
        timeline
    };
    let visits = [(0, 0, true, 10), (1, 0, true, 100), (0, 0, true, 400), (1, 0, true, 1000)];
    let result = simulate("competitive", &visits, &ends(&[10, 110, 510, 1510]), &[]);
    // Iteration 1 belongs to node 1: moved. Iteration 2 to node 0, its home before: frozen for good.
    assert_eq!(said(&result), [(110, "move"), (510, "freeze")]);
    // A third node is no ping-pong.
    let visits = [(0, 0, true, 10), (1, 0, true, 100), (2, 0, true, 400)];
    let result = simulate("competitive", &visits, &ends(&[10, 110, 510]), &[]);
    assert_eq!(said(&result), [(110, "move"), (510, "move")]);
}

#[test]
fn an_area_whose_latency_rises_becomes_selective() {
    // Iteration 1: 10 remote (latency 20). Iteration 2: 30 remote (latency 60): the factor doubles at its end, after
    // the decision. Iteration 3: sums local 120, remote 40 + 100 = 140; 280 > 240 + 20 holds, 280 > 480 + 20 does not.
    let visits = [
        (0, 0, true, 40),
        (1, 0, true, 10),
        (0, 0, true, 40),
        (1, 0, true, 30),
        (0, 0, true, 40),
        (1, 0, true, 100),
    ];
    let timeline = {
        let mut timeline = Timeline::default();
        timeline.add([50, 120, 260].map(|time| (Time(time), Mark::IterationEnd)));
        timeline
    };
    let sets = |selectivity| ["contention=0", selectivity];
    assert_eq!(said(&simulate("competitive", &visits, &timeline, &sets("selectivity=1"))), [(260, "move")]);
    assert_eq!(said(&simulate("competitive", &visits, &timeline, &sets("selectivity=2"))), []);
}

#[test]
fn an_area_without_candidates_grows_cold() {
    let visits = [(0, 0, true, 60), (1, 0, true, 400)];
    let timeline = iterations(20, 460);
    // Remote latency passes 2 * 60 + 20 after 70 references, at Time 130: the end of the seventh iteration.
    assert_eq!(
        said(&simulate("competitive", &visits, &timeline, &["cold=7", "contention=0"])),
        [(140, "move")]
    );
    assert_eq!(said(&simulate("competitive", &visits, &timeline, &["cold=3", "contention=0"])), []);
}

#[test]
fn what_comes_before_the_second_iteration_makes_no_area_cold_and_is_not_counted() {
    // One thread sets up for nine intervals; then node 1 alone uses the page, 100 references an iteration.
    let visits = [(0, 0, true, 900), (1, 0, true, 400)];
    let timeline = |iterations: &[u64]| {
        let mut timeline = Timeline::default();
        timeline.add((1..=9).map(|i| (Time(i * 100), Mark::IntervalEnd)));
        timeline.add(iterations.iter().map(|&time| (Time(time), Mark::IterationEnd)));
        timeline
    };
    let marked = timeline(&[1000, 1100, 1200, 1300]);
    assert_eq!(said(&simulate("competitive", &visits, &marked, &["skip=1"])), [(1100, "move")]);
    // With what came before, 200 > 2 * 900 + 20 never holds.
    assert_eq!(said(&simulate("competitive", &visits, &marked, &["skip=0"])), []);
    assert_eq!(said(&simulate("competitive", &visits, &marked, &["skip=3"])), [(1300, "move")]);
    // Without iterations too, an area that nobody used from afar is not cold.
    let mut policy = with_pages(&["cold=1"], 1);
    (0..9).for_each(|_| assert!(interval(&mut *policy, &[]).is_empty()));
    assert_eq!(interval(&mut *policy, &[0]), [0]);
}

#[test]
fn self_tuning_counts_the_latency_of_equation_2() {
    // Three nodes use the page of node 0, which uses it less: c(h) is 1 in the first iteration, 2 in the second. The
    // uncontended latency falls, from 2 * 40 to 2 * 39, that of equation (2) rises: 3 * 40 to 4 * 39.
    let visits = [
        (0, 0, true, 30),
        (1, 0, true, 40),
        (0, 0, true, 30),
        (1, 0, true, 39),
        (2, 0, true, 31),
        (0, 0, true, 30),
        (1, 0, true, 200),
    ];
    let mut timeline = Timeline::default();
    timeline.add([70, 170, 400].map(|time| (Time(time), Mark::IterationEnd)));
    let sets = |selectivity| ["contention=1", "migration-cost=20", selectivity];
    // At the end: 279 (2 + 1) = 837 > 2 * 90 factor + 400.
    assert_eq!(said(&simulate("competitive", &visits, &timeline, &sets("selectivity=1"))), [(400, "move")]);
    assert_eq!(said(&simulate("competitive", &visits, &timeline, &sets("selectivity=3"))), []);
}

/// Thread 0 works 100 references an iteration on page 0, from node 0; at `away` it goes to node 1, at `back` returns.
fn moving(away: u64, back: Option<u64>, phases: bool) -> (Vec<Visit>, Timeline) {
    let node = |time: u64| u16::from(time >= away && back.is_none_or(|back| time < back));
    let visits = (0..80).map(|i| (node(i * 10), 0, true, 10)).collect();
    let mut timeline = iterations(100, 800);
    if phases {
        timeline.add((0..80).map(|i| (Time(i * 10 + 5), Mark::PhaseBegin(0))));
    }
    let moved = |time: u64, from: u16, to: u16| {
        let (from, to, time) = (Node(from), Node(to), Time(time));
        (time, Mark::ThreadMoved(ThreadMoved { thread: Thread(0), from, to, time }))
    };
    timeline.add(std::iter::once(moved(away, 0, 1)).chain(back.map(|back| moved(back, 1, 0))));
    (visits, timeline)
}

#[test]
fn predictive_forwarding_pays_where_threads_move() {
    let (visits, timeline) = moving(350, None, true);
    let predictive = simulate("predictive", &visits, &timeline, &[]);
    let competitive = simulate("competitive", &visits, &timeline, &[]);
    // 350 local references stand in the counters: equation (1) needs 2 n > 2 * 350 + 20; equation (3) one iteration.
    assert_eq!(said(&predictive), [(400, "move")]);
    assert_eq!(said(&competitive), []);
    let costs = uniform(3, 2.0, 20.0, None);
    assert!(predictive.account.cost(&costs) < 0.75 * competitive.account.cost(&costs));
}

#[test]
fn a_move_counts_only_after_two_constructs() {
    // The thread is back after 12 references: it was away for one construct.
    let (visits, timeline) = moving(340, Some(360), true);
    let all = simulate("predictive", &visits, &timeline, &["constructs=0"]);
    assert_eq!(said(&all)[0], (400, "move"), "without the filter the page follows a false alarm");
    assert_eq!(said(&simulate("predictive", &visits, &timeline, &[])), []);
    // Two constructs later the move counts.
    let (visits, timeline) = moving(340, None, true);
    assert_eq!(said(&simulate("predictive", &visits, &timeline, &[])), [(400, "move")]);
    // The third construct after the move begins at 405 only: the move counts an iteration later, when the rates are
    // steady.
    let (visits, timeline) = moving(380, None, true);
    assert_eq!(said(&simulate("predictive", &visits, &timeline, &["constructs=9"])), [(500, "move")]);
}

#[test]
fn a_thread_that_is_back_at_the_next_poll_was_never_away() {
    let moved = |time: u64, from: u16, to: u16| {
        let (from, to, time) = (Node(from), Node(to), Time(time));
        (time, Mark::ThreadMoved(ThreadMoved { thread: Thread(0), from, to, time }))
    };
    let visits = [(0, 0, true, 10), (1, 0, true, 190)];
    let with = |moves: &[(Time, Mark)]| {
        let mut timeline = iterations(100, 200);
        timeline.add([5, 55].map(|time| (Time(time), Mark::PhaseBegin(0))));
        timeline.add(moves.iter().copied());
        said(&simulate("predictive", &visits, &timeline, &["constructs=0"]))
    };
    // Equation (1) holds, and the predictive criterion would find nothing.
    assert_eq!(with(&[moved(46, 1, 2), moved(50, 2, 1)]), [(100, "move")]);
    assert_eq!(with(&[moved(46, 1, 2), moved(48, 2, 0), moved(50, 0, 1)]), [(100, "move")]);
    assert_eq!(with(&[moved(46, 1, 2)]), [(200, "move")]);
}

#[test]
fn a_move_warms_a_cold_area_and_finds_the_counts_of_the_iteration_before() {
    let (mut visits, mut timeline) = moving(350, None, false);
    // Somebody reads the page from afar now and then, but too little: the area is cold after the second iteration.
    visits.iter_mut().skip(5).step_by(10).for_each(|visit| visit.0 = 2);
    timeline.add((0..16).map(|i| (Time(i * 50 + 1), Mark::PhaseBegin((i % 2) as u32))));
    assert_eq!(said(&simulate("predictive", &visits, &timeline, &["cold=1"])), [(500, "move")]);
}

#[test]
fn two_constructs_an_iteration_are_enough_for_the_filter() {
    // Iterations of 100 references, of two constructs each. The thread goes away in the first construct of the fourth:
    // noticed at its end, it stays for two, and the iteration in which it is the first time always away shows the rise.
    let (visits, mut timeline) = moving(320, None, false);
    timeline.add((0..16).map(|i| (Time(i * 50 + 1), Mark::PhaseBegin((i % 2) as u32))));
    assert_eq!(said(&simulate("predictive", &visits, &timeline, &[])), [(500, "move")]);
    // Between iterations: two constructs and the iteration end together, where the move counts in time.
    let (visits, mut timeline) = moving(300, None, false);
    timeline.add((0..16).map(|i| (Time(i * 50 + 1), Mark::PhaseBegin((i % 2) as u32))));
    assert_eq!(said(&simulate("predictive", &visits, &timeline, &[])), [(400, "move")]);
}

#[test]
fn without_constructs_a_move_counts_at_the_end_of_its_iteration() {
    let (visits, timeline) = moving(350, None, false);
    assert_eq!(said(&simulate("predictive", &visits, &timeline, &[])), [(400, "move")]);
    let (visits, timeline) = moving(320, Some(380), false);
    let back = simulate("predictive", &visits, &timeline, &[]);
    assert_eq!(back.account.moves, 0, "the thread is at the page's home again");
}

/// The policy itself, with pages whose address is that many pages.
fn with_pages(sets: &[&str], pages: u32) -> Box<dyn Policy> {
    let mut settings = Settings::default();
    sets.iter().for_each(|set| settings.set(&format!("competitive.{set}")).unwrap());
    let mut policy = table::find("competitive").unwrap().make(&uniform(3, 2.0, 20.0, None), false, &settings);
    (0..pages).for_each(|page| policy.page_new(Page(page), u64::from(page) * 4096));
    policy
}

/// Node 1 uses pages of node 0, and an interval ends: the pages that move.
fn interval(policy: &mut dyn Policy, used: &[u32]) -> Vec<u32> {
    reads(policy, used, 100)
}

fn reads(policy: &mut dyn Policy, used: &[u32], reads: u64) -> Vec<u32> {
    let (mut actions, mut taken) = (Actions::default(), Vec::new());
    for &page in used {
        let at = Locations::single(Node(0));
        let (page, node, time) = (Page(page), Node(1), Time(0));
        let sample = Sample { page, node, reads, writes: 0, weight: 1.0, time, at };
        policy.sample(&sample, &mut actions);
    }
    policy.interval_end(&End { number: 0, time: Time(0) }, &mut actions);
    actions.take(&mut taken);
    taken.iter().map(|action| action.page.0).collect()
}

#[test]
fn without_iterations_areas_are_served_in_turn_and_some_pages_at_a_time() {
    let mut policy = with_pages(&["wake-pages=2", "area-pages=3"], 7);
    let all = [0, 1, 2, 3, 4, 5, 6];
    let served: Vec<Vec<u32>> = (0..5).map(|_| interval(&mut *policy, &all)).collect();
    assert_eq!(served, [vec![0, 1], vec![2, 3], vec![4, 5], vec![6], vec![0, 1]]);
    let mut policy = with_pages(&["wake-every=3"], 1);
    let served: Vec<usize> = (0..5).map(|_| interval(&mut *policy, &[0]).len()).collect();
    assert_eq!(served, [1, 0, 0, 1, 0]);
}

#[test]
fn areas_that_the_program_names_are_served_by_their_own_parameters() {
    let mut policy = with_pages(&["area-pages=1"], 6);
    let own = Own { set: [("competitive.cold".to_owned(), 1.0)].into(), ..Own::default() };
    let area = |start, own: &Own| HotArea { start, bytes: 2 * 4096, name: String::new(), own: own.clone() };
    policy.areas(&[area(0, &own), area(2 * 4096, &Own::default())]);
    // The second area is warm after an interval without candidates, the first is cold, and page 5 is in no area.
    assert!(reads(&mut *policy, &[0, 2], 1).is_empty());
    assert_eq!(interval(&mut *policy, &[0, 1, 2, 3, 5]), [5, 2, 3]);
    // Named anew, an area that was known stays as it was; one that is forgotten leaves its pages to their blocks.
    policy.areas(&[area(0, &own)]);
    assert_eq!(interval(&mut *policy, &[1, 3]), [2, 3, 5]);
    policy.areas(&[]);
    assert_eq!(interval(&mut *policy, &[1]), [0, 1, 2, 3, 5]);
}

#[test]
fn a_page_that_is_forgotten_is_looked_at_again() {
    let mut policy = with_pages(&[], 1);
    policy.page_forget(Page(0), 0);
    assert!(interval(&mut *policy, &[]).is_empty());
    assert_eq!(interval(&mut *policy, &[0]), [0]);
    policy.page_gone(Page(0));
    policy.page_new(Page(0), 1 << 30);
    assert_eq!(interval(&mut *policy, &[0]), [0], "once, by its new address");
}
