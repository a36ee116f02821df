use super::*;
use crate::machine::Uniform;
use crate::optimal::{self, Options, Start};
use crate::policy::placement::Placement;
use crate::policy::settings::Settings;
use crate::policy::table;
use crate::simulate::{simulate, Setup};
use crate::timeline::Timeline;
use crate::windows::NO_WINDOWS;
use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_xoshiro::SplitMix64;

const BUTTERFLY: Costs = Costs::Uniform(Uniform { nodes: 7, remote: 15.0, page_move: 3272.0, global: None });

/// Visits to one page: node and references.
fn history(visits: impl IntoIterator<Item = (u16, usize)>) -> History {
    let references: Vec<_> =
        visits.into_iter().flat_map(|(node, count)| std::iter::repeat_n((node, 0, true), count)).collect();
    History::from_references(&references, u32::MAX)
}

fn optimum(history: &History, costs: &Costs) -> f64 {
    let options = Options { replication: false, start: Start::FirstTouch };
    optimal::solve(history, costs, options).unwrap().cost
}

fn every(period: u64) -> Information {
    Information { sampling: Sampling::Every(period), ..Information::PERFECT }
}

/// What a policy of the table pays for one copy a page.
fn policy(name: &str, history: &History, costs: &Costs, information: Information) -> f64 {
    let settings = Settings::default();
    let policy = table::find(name).unwrap().make(costs, false, &settings);
    let timeline = Timeline::default();
    let placement = &Placement::FirstTouch;
    let setup = Setup {
        history,
        costs,
        placement,
        replication: false,
        information,
        timeline: &timeline,
        windows: &NO_WINDOWS,
        log: false,
    };
    simulate(&setup, &*policy).unwrap().account.cost(costs)
}

/// Owners in turn, each for `length` references.
fn in_turn(nodes: u16, visits: usize, length: usize) -> History {
    history((0..visits).map(|visit| (visit as u16 % nodes, length)))
}

#[test]
fn at_a_period_of_1_long_visits_cost_their_first_reference_and_a_move() {
    // No quarter and no sixteenth of the page's life ends with a visit, which would announce the next one.
    let (visits, length) = (61, 1000);
    let history = in_turn(4, visits, length);
    let oracle = solve(&history, &BUTTERFLY, &every(1)).unwrap();
    // The sample is served where the page was. That is what not knowing the future costs.
    let moves = visits as f64 - 1.0;
    assert_eq!(oracle.moves as f64, moves);
    assert_eq!(oracle.cost, (visits * length) as f64 + moves * (3272.0 + 14.0));
    assert!(oracle.cost < 1.001 * optimum(&history, &BUTTERFLY) + moves * 14.0);
    assert!(oracle.cost < policy("work-function", &history, &BUTTERFLY, every(1)));
}

#[test]
fn short_visits_in_turn_are_not_followed() {
    let history = in_turn(4, 2000, 20);
    for period in [1, 4, 16] {
        let oracle = solve(&history, &BUTTERFLY, &every(period)).unwrap();
        assert_eq!(oracle.moves, 0, "every {period}");
    }
}

/// The length of a visit says which rule is right: the law tells short from long ones only after a while.
#[test]
fn it_waits_as_long_as_the_law_of_visits_says() {
    // Of ten visits nine are of 30 references (never worth a move), one of 2000.
    let lengths = (0..600).map(|visit| if visit % 10 == 9 { 2000 } else { 30 });
    let history = history(lengths.enumerate().map(|(visit, length)| (visit as u16 % 3, length)));
    let oracle = solve(&history, &BUTTERFLY, &every(1)).unwrap();
    let moving_at_once = 600.0 * 3272.0;
    let moves = oracle.moves as f64 * 3272.0;
    assert!(moves < 0.4 * moving_at_once, "{oracle:?}");
    let perfect = policy("work-function", &history, &BUTTERFLY, Information::PERFECT);
    assert!(oracle.cost < perfect, "{} {perfect}", oracle.cost);
}

#[test]
fn noise_is_not_learnt_by_heart() {
    let mut rng = SplitMix64::seed_from_u64(7);
    let history = history((0..40_000).map(|_| (rng.gen_range(0..4), 1)));
    // No rule can do better in the mean than to stay.
    let best = best_static(&history);
    for period in [1, 4, 16, 64] {
        let oracle = solve(&history, &BUTTERFLY, &every(period)).unwrap();
        assert!(oracle.cost > 0.99 * best, "every {period}: {} of {best}", oracle.cost);
        assert!(oracle.cost < 1.02 * best, "every {period}: {} of {best}", oracle.cost);
    }
}

fn best_static(history: &History) -> f64 {
    let mut counts = [0u64; 7];
    history.runs(Page(0)).unwrap().for_each(|run| counts[run.node.index()] += run.references());
    let all: u64 = counts.iter().sum();
    (all + 14 * (all - counts.iter().max().unwrap())) as f64
}

#[test]
fn fewer_samples_cost_more_and_all_stay_above_the_optimum() {
    let mut rng = SplitMix64::seed_from_u64(3);
    let history = history((0..400).map(|visit| (visit % 5, rng.gen_range(200..1500))));
    let bound = optimum(&history, &BUTTERFLY);
    let costs: Vec<f64> =
        [1, 16, 64, 256, 4096].map(|period| solve(&history, &BUTTERFLY, &every(period)).unwrap().cost).into();
    assert!(costs.is_sorted() && bound < costs[0], "{bound} {costs:?}");
    assert!(costs[4] > 2.0 * costs[0]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn it_is_never_below_the_optimum_and_repeatable(
        visits in prop::collection::vec((0u16..4, 1usize..80), 1..60),
        period in 1u64..20,
        remote in 2.0f64..20.0,
    ) {
        let costs = Costs::Uniform(Uniform { nodes: 4, remote, page_move: 50.0 * remote, global: None });
        let history = history(visits);
        let oracle = solve(&history, &costs, &every(period)).unwrap();
        prop_assert!(oracle.cost >= optimum(&history, &costs) * (1.0 - 1e-12));
        prop_assert_eq!(oracle, solve(&history, &costs, &every(period)).unwrap());
    }
}
