//! Every policy of the table over random histories, against an obvious model of the bound; and hand-worked examples.

use super::placement::Placement;
use super::settings::Settings;
use super::table::{self, POLICIES};
use crate::action::{Action, Kind, Locations, Outcome};
use crate::engine::{Engine, Executor};
use crate::history::History;
use crate::ids::{Node, Page, Thread, Time};
use crate::machine::{Costs, General, Global, Uniform};
use crate::policy::ThreadMoved;
use crate::simulate::{simulate, Setup, Simulation};
use crate::timeline::{Mark, Timeline, NO_MARKS};
use crate::windows::NO_WINDOWS;
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};

type Reference = (u16, u64, bool);

pub(super) fn uniform(nodes: u16, remote: f64, page_move: f64, global: Option<(f64, f64)>) -> Costs {
    let global = global.map(|(access, page_move)| Global { access, page_move });
    Costs::Uniform(Uniform { nodes, remote, page_move, global })
}

fn unequal() -> Costs {
    #[rustfmt::skip]
    let (access, copy) = (vec![1.0, 2.0, 3.0,  2.0, 1.0, 2.5,  3.0, 2.5, 1.5],
                          vec![0.0, 9.0, 12.0, 8.0, 0.0, 10.0, 14.0, 11.0, 0.0]);
    Costs::General(General { nodes: 3, access, copy })
}

fn machines() -> Vec<Costs> {
    vec![uniform(3, 3.0, 11.0, None), uniform(2, 5.0, 40.0, Some((2.0, 25.0))), unequal()]
}

/// Greatest gap in which no replica could pay.
pub(super) fn read_gap(costs: &Costs) -> u32 {
    match costs {
        Costs::Uniform(u) => (u.page_move / (u.remote - 1.0)) as u32,
        Costs::General(_) => u32::MAX,
    }
}

/// The least cost of one page's references by trying every location set at every reference: equations (1) and (2), from
/// any one copy.
fn exhaustive(references: &[Reference], costs: &Costs, replication: bool) -> f64 {
    let memories = costs.memories();
    let sets: Vec<Vec<Node>> = (1u32..1 << memories)
        .filter(|set| replication || set.count_ones() == 1)
        .map(|set| (0..memories).filter(|m| set >> m & 1 == 1).map(Node).collect())
        .collect();
    let access =
        |by: Node, set: &[Node]| set.iter().map(|&at| costs.access(by, at)).fold(f64::INFINITY, f64::min);
    let relocate = |from: &[Node], to: &[Node]| -> f64 {
        let global = costs.global_node().filter(|g| from.contains(g) || to.contains(g));
        let copy = |&to: &Node| match global {
            Some(g) => costs.copy(g, if to == g { Node(0) } else { to }),
            None => from.iter().map(|&f| costs.copy(f, to)).fold(f64::INFINITY, f64::min),
        };
        to.iter().filter(|node| !from.contains(node)).map(copy).sum()
    };
    let mut least: Vec<f64> =
        sets.iter().map(|set| if set.len() == 1 { 0.0 } else { f64::INFINITY }).collect();
    for &(by, _, write) in references {
        let before = least.clone();
        for (set, least) in sets.iter().zip(&mut least) {
            let arrive = |(from, cost): (&Vec<Node>, &f64)| cost + relocate(from, set);
            let cost = sets.iter().zip(&before).map(arrive).fold(f64::INFINITY, f64::min);
            *least = if write && set.len() > 1 { f64::INFINITY } else { cost + access(Node(by), set) };
        }
    }
    least.into_iter().fold(f64::INFINITY, f64::min)
}

pub(super) fn run(
    history: &History,
    costs: &Costs,
    name: &str,
    placement: Option<&str>,
    sets: &[&str],
    replication: bool,
) -> Simulation {
    run_with(history, costs, name, placement, sets, replication, "perfect", &NO_MARKS)
}

#[allow(clippy::too_many_arguments)]
pub(super) fn run_with(
    history: &History,
    costs: &Costs,
    name: &str,
    placement: Option<&str>,
    sets: &[&str],
    replication: bool,
    information: &str,
    timeline: &Timeline,
) -> Simulation {
    let entry = table::find(name).unwrap();
    let mut settings = Settings::default();
    sets.iter().for_each(|set| settings.set(&format!("{name}.{set}")).unwrap());
    let given: Option<Placement> = placement.map(|text| text.parse().unwrap());
    let placement = entry.placement(given.as_ref(), costs, &settings);
    let policy = entry.make(costs, replication, &settings);
    let setup = Setup {
        history,
        costs,
        placement: &placement,
        replication,
        information: information.parse().unwrap(),
        timeline,
        windows: &NO_WINDOWS,
        log: true,
    };
    simulate(&setup, &*policy).unwrap()
}

/// Memory that leaves all pages at node 0.
struct Nowhere;

impl Executor for Nowhere {
    fn at(&self, _: Page) -> Locations {
        Locations::single(Node(0))
    }

    fn execute(&mut self, _: &Action) -> Outcome {
        Outcome::Refused("not here")
    }
}

pub(super) fn expand(visits: &[(u16, u64, bool, usize)]) -> Vec<Reference> {
    visits
        .iter()
        .flat_map(|&(node, page, write, count)| std::iter::repeat_n((node, page, write), count))
        .collect()
}

#[test]
fn the_table_is_sound() {
    let mut names = HashSet::new();
    for entry in POLICIES {
        assert!(names.insert(entry.name), "{} twice", entry.name);
        assert!(!entry.source.is_empty() && !entry.summary.is_empty());
        assert!(entry.summary.len() < 110, "{}: one line", entry.name);
        let mut params = HashSet::new();
        for param in entry.params {
            assert!(params.insert(param.name) && !param.doc.is_empty(), "{}.{}", entry.name, param.name);
            assert!(
                (param.range.0..=param.range.1).contains(&param.default),
                "{}.{}",
                entry.name,
                param.name
            );
        }
    }
}

#[test]
fn settings_name_what_is_wrong() {
    let mut settings = Settings::default();
    settings.set("delay.count=50").unwrap();
    assert_eq!(settings.of(table::find("delay").unwrap()).count("count"), 50);
    assert_eq!(settings.of(table::find("ace").unwrap()).count("invalidations"), 4);
    for (bad, says) in [
        ("delay.count", "expected policy.parameter=value"),
        ("count=5", "expected policy.parameter"),
        ("nobody.count=5", "no policy `nobody`"),
        ("delay.c=5", "count, invalidations"),
        ("delay.count=0", "a number from 1"),
        ("delay.count=x", "a number from 1"),
    ] {
        let message = settings.set(bad).unwrap_err();
        assert!(message.contains(says) && message.contains(bad), "{message}");
    }
}

/// Runs every policy with both settings of replication and checks what must hold of any policy.
fn check_all(references: &[Reference], costs: &Costs) {
    let history = History::from_references(references, read_gap(costs));
    let mut of_page: HashMap<u64, Vec<Reference>> = HashMap::new();
    references.iter().for_each(|reference| of_page.entry(reference.1).or_default().push(*reference));
    for replication in [false, true] {
        let replication = replication && matches!(costs, Costs::Uniform(_));
        let bound: f64 = of_page.values().map(|page| exhaustive(page, costs, replication)).sum();
        for entry in POLICIES {
            for placement in [None, Some("first-touch"), Some("single-node:1"), Some("round-robin")] {
                let result = run(&history, costs, entry.name, placement, &[], replication);
                let what = format!("{} from {placement:?}, replication {replication}", entry.name);
                check_one(&result, costs, references, &what);
                assert!(
                    result.account.cost(costs) >= bound - 1e-9 * bound,
                    "{what}: below the bound {bound}"
                );
            }
            for level in ["every:3", "interval:7", "every:2+intervals:3"] {
                let timeline = busy(references.len() as u64);
                let result = run_with(&history, costs, entry.name, None, &[], replication, level, &timeline);
                let what = format!("{} at {level}, replication {replication}", entry.name);
                check_one(&result, costs, references, &what);
                assert!(result.account.cost(costs) >= bound - 1e-9 * bound, "{what}: below the bound");
            }
        }
    }
}

/// Iterations, phases and moving threads.
fn busy(duration: u64) -> Timeline {
    let mut timeline = Timeline::default();
    timeline.add_iterations(11, Time(duration));
    timeline.add((0..duration / 5).map(|i| (Time(i * 5), Mark::PhaseBegin((i % 3) as u32))));
    timeline.add((1..duration / 17).map(|i| {
        let (from, to, time) = (Node((i % 2) as u16), Node(((i + 1) % 2) as u16), Time(i * 17));
        (time, Mark::ThreadMoved(ThreadMoved { thread: Thread(0), from, to, time }))
    }));
    timeline
}

fn check_one(result: &Simulation, costs: &Costs, references: &[Reference], what: &str) {
    let account = &result.account;
    assert_eq!(account.references(), references.len() as u64, "{what}");
    assert_eq!(account.copies + account.global_copies, account.moves + account.replications, "{what}");
    let pages: f64 = result.page_costs.iter().sum();
    assert!((pages - account.cost(costs)).abs() <= 1e-9 * pages, "{what}");
    assert_eq!(result.counts.refused, 0, "{what}");
    assert_eq!(result.counts.forced_collapses, 0, "{what}");
    let mut homes = result.first_homes.clone();
    for entry in &result.log {
        match entry.action.kind {
            Kind::Move { to } | Kind::Collapse { keep: to } if entry.outcome == Outcome::Done => {
                homes[entry.action.page.index()] = to;
            }
            _ => {}
        }
    }
    assert_eq!(homes, result.last_homes, "{what}: the log leads where the pages are");
    assert!(result.log.is_sorted_by_key(|entry| entry.time), "{what}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn every_policy_keeps_the_invariants(
        visits in prop::collection::vec((0u16..2, 0u64..2, any::<bool>(), 1usize..14), 1..40),
        third in any::<bool>(),
    ) {
        for costs in machines() {
            let wide = third && costs.memories() == 3 && costs.global_node().is_none();
            let node = |index: usize, node: u16| if wide && index.is_multiple_of(3) { 2 } else { node };
            let visits: Vec<_> = visits.iter().enumerate().map(|(i, v)| (node(i, v.0), v.1, v.2, v.3)).collect();
            check_all(&expand(&visits), &costs);
        }
    }

    #[test]
    fn snapshots_restore(visits in prop::collection::vec((0u16..2, 0u64..3, any::<bool>(), 1usize..30), 1..30)) {
        for costs in machines() {
            let history = History::from_references(&expand(&visits), read_gap(&costs));
            for entry in POLICIES {
                let mut policy = entry.make(&costs, false, &Settings::default());
                let mut engine = Engine::new(&mut *policy, Nowhere, false);
                for page in (0..history.pages()).map(Page) {
                    history.runs(page).unwrap().for_each(|run| engine.run(page, &run));
                }
                let state = policy.snapshot();
                let restored = (entry.restore)(state.clone()).unwrap();
                prop_assert_eq!(restored.snapshot(), state, "{}", entry.name);
            }
        }
    }
}

#[test]
fn results_do_not_depend_on_the_number_of_workers() {
    let visits: Vec<_> =
        (0..4000u64).map(|i| ((i * 7 % 3) as u16, i * i % 700, i % 3 == 0, 1 + (i % 50) as usize)).collect();
    let costs = uniform(3, 3.0, 40.0, None);
    let history = History::from_references(&expand(&visits), read_gap(&costs));
    let timeline = busy(4000);
    for entry in POLICIES {
        let with = |workers: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(workers).build().unwrap();
            let run = |level| run_with(&history, &costs, entry.name, None, &[], true, level, &timeline);
            pool.install(|| ["perfect", "every:8", "intervals:20"].map(run))
        };
        for (one, four) in with(1).into_iter().zip(with(4)) {
            assert_eq!(one.account, four.account);
            assert_eq!(one.log, four.log, "{}", entry.name);
            assert_eq!(one.page_costs, four.page_costs);
        }
    }
}

#[test]
fn ace_by_hand() {
    let costs = uniform(3, 5.0, 100.0, Some((2.0, 60.0)));
    let references = expand(&[
        (0, 0, false, 10), // made at node 0 beside global memory: G, 10 local
        (1, 0, false, 1),  // replicated: G, local
        (1, 0, true, 1),   // node 0 and global memory lose their copies: invalidation 1, local
        (0, 0, true, 1),   // moved: R, invalidation 2, local
        (1, 0, true, 1),   // moved: R, invalidation 3, local
        (0, 0, true, 1),   // moved: R, invalidation 4, local
        (1, 0, true, 4),   // frozen in global memory: G, 4 global references
        (0, 0, false, 3),  // 3 global references
    ]);
    let history = History::from_references(&references, read_gap(&costs));
    let result = run(&history, &costs, "ace", None, &[], true);
    let account = result.account;
    assert_eq!((account.local, account.global, account.remote), (15, 7, 0));
    assert_eq!((account.copies, account.global_copies), (3, 3));
    assert_eq!((account.moves, account.replications), (4, 2));
    assert_eq!(account.cost(&costs), 15.0 + 7.0 * 2.0 + 3.0 * 100.0 + 3.0 * 60.0);
    let without = run(&history, &costs, "ace", Some("first-touch"), &["invalidations=1"], false).account;
    // Node 0 keeps 10, node 1's first read takes the page (invalidation 1, R), node 0's write freezes it (G).
    assert_eq!((without.local, without.global, without.copies, without.global_copies), (12, 10, 1, 1));
}

#[test]
fn delay_by_hand() {
    let costs = uniform(3, 5.0, 100.0, None);
    let references = expand(&[
        (0, 0, true, 5),  // first touch
        (1, 0, true, 2),  // counter 3 -> 1: remote
        (0, 0, true, 1),  // local
        (1, 0, true, 9),  // one more remote, then the fault: moved, 8 local
        (2, 0, false, 4), // 3 remote, then replicated, 1 local
        (1, 0, true, 1),  // holds a copy: the other is dropped
        (2, 0, false, 2), // the mapping went away, the counter began anew: remote
    ]);
    let history = History::from_references(&references, read_gap(&costs));
    let account = run(&history, &costs, "delay", None, &["count=3"], true).account;
    assert_eq!((account.local, account.remote), (5 + 1 + 8 + 1 + 1, 3 + 3 + 2));
    assert_eq!((account.moves, account.replications, account.copies), (1, 1, 2));
}

/// A writer that holds no copy drops the replicas: that counts, and the fifth time freezes the page.
#[test]
fn delay_freezes_a_page_whose_replicas_are_dropped_by_others() {
    let costs = uniform(3, 5.0, 100.0, None);
    let round = [
        (1, 0, false, 3), // one remote, replicated, two local
        (2, 0, true, 1),  // holds no copy: the replica is dropped, one remote
    ];
    let references = expand(&[[(0, 0, true, 1)].as_slice(), &round.repeat(30)].concat());
    let history = History::from_references(&references, read_gap(&costs));
    let result = run(&history, &costs, "delay", None, &["count=1"], true);
    let times = |kind: &str| result.log.iter().filter(|e| e.action.kind.describe().0 == kind).count();
    assert_eq!((times("replicate"), times("freeze")), (5, 1));
    // Five rounds with two local references; of the rest all are remote.
    assert_eq!((result.account.local, result.account.remote), (1 + 5 * 2, 5 * 2 + 25 * 4));
}

#[test]
fn platinum_by_hand() {
    let costs = uniform(3, 15.0, 100.0, None);
    let references = expand(&[
        (0, 0, true, 10), // Time 0..10: first touch
        (1, 0, true, 10), // Time 10..20: moved, invalidated at Time 10
        (0, 0, true, 10), // Time 20: within t1 = 15 of Time 10: frozen at node 1 until Time 50, 10 remote
        (2, 0, true, 25), // Time 30..55: remote up to Time 50, then defrosted and moved, 5 local
        (0, 0, true, 1),  // Time 55: within t1 of Time 50: frozen again, remote
    ]);
    let history = History::from_references(&references, read_gap(&costs));
    let settings = ["rate=1000", "t1-ms=15", "t2-ms=50"];
    let result = run(&history, &costs, "platinum", None, &settings, true);
    assert_eq!((result.account.local, result.account.remote), (10 + 10 + 5, 10 + 20 + 1));
    assert_eq!(result.account.moves, 2);
    let kinds: Vec<_> =
        result.log.iter().map(|entry| (entry.time.0, entry.action.kind.describe().0)).collect();
    let frozen = |time| [(time, "collapse"), (time, "freeze")];
    let expected =
        [&[(10, "move")], &frozen(20)[..], &[(50, "defrost"), (50, "move")], &frozen(55)[..]].concat();
    assert_eq!(kinds, expected);
}

#[test]
fn work_function_by_hand() {
    let costs = uniform(2, 5.0, 20.0, None);
    let history = History::from_references(&expand(&[(0, 0, true, 1), (1, 0, true, 30)]), 5);
    // W[0] - W[1] begins at -R and grows by r - 1 = 4 a reference: +R after 10, 0 after 5.
    for (eagerness, remote) in [("-1", 10), ("0", 5), ("0.5", 3), ("1", 0)] {
        let account =
            run(&history, &costs, "work-function", None, &[&format!("eagerness={eagerness}")], true).account;
        assert_eq!((account.remote, account.moves), (remote, 1), "eagerness {eagerness}");
    }
}

#[test]
fn best_static_is_the_best_of_all_static_placements() {
    let costs = unequal();
    let visits: Vec<_> =
        (0..300u64).map(|i| ((i * i % 3) as u16, i % 7, i % 2 == 0, 1 + (i % 11) as usize)).collect();
    let history = History::from_references(&expand(&visits), read_gap(&costs));
    let cost = |name: &str| run(&history, &costs, name, None, &[], false).account.cost(&costs);
    for name in ["first-touch", "round-robin", "single-node", "striped"] {
        assert!(cost("best-static") <= cost(name) && cost(name) <= cost("worst-static"), "{name}");
    }
}

#[test]
fn homing_learns_what_a_page_needs() {
    let costs = uniform(2, 5.0, 100.0, None);
    // Long visits that always pay: once learned, the page moves where a visit begins, four references at most after its
    // first.
    let long: Vec<_> = (0..60).map(|i| (i % 2, 0, true, 200)).collect();
    let history = History::from_references(&expand(&long), 25);
    let result = run(&history, &costs, "homing", None, &[], false);
    let late: Vec<_> = result.log.iter().filter(|entry| entry.time.0 >= 6000).collect();
    assert!(late.len() == 30 && late.iter().all(|entry| entry.time.0 % 200 <= 4), "{late:?}");
    // Short visits that never pay: the page stays.
    let short: Vec<_> = (0..2000).map(|i| (i % 2, 0, true, 3)).collect();
    let history = History::from_references(&expand(&short), 25);
    assert!(run(&history, &costs, "homing", None, &[], false).account.moves <= 2);
}

#[test]
fn interval_majority_by_hand() {
    let costs = uniform(2, 5.0, 20.0, None);
    // Intervals of ten references.
    let references = expand(&[
        (0, 0, true, 6),
        (1, 0, true, 4), // interval 0: node 0 has more: stays
        (1, 0, true, 7),
        (0, 0, true, 3), // interval 1: moves to node 1 at Time 20, frozen at the ends of 2, 3 and 4
        (0, 0, true, 30), // intervals 2 to 4
        (0, 0, true, 10), // interval 5: moves back at Time 60
        (0, 0, true, 5),
    ]);
    let history = History::from_references(&references, 5);
    let moves = |sets: &[&str]| -> Vec<u64> {
        let result =
            run_with(&history, &costs, "interval-majority", None, sets, false, "interval:10", &NO_MARKS);
        result.log.iter().map(|entry| entry.time.0).collect()
    };
    assert_eq!(moves(&[]), [20, 60]);
    assert_eq!(moves(&["freeze=0"]), [20, 30]);
    assert_eq!(moves(&["threshold=11"]), [0; 0]);
    let account =
        run_with(&history, &costs, "interval-majority", None, &[], false, "interval:10", &NO_MARKS).account;
    assert_eq!((account.remote, account.moves), (4 + 7 + 30 + 10, 2));
}

#[test]
fn interval_ends_are_the_same_whatever_else_happens() {
    // Profiles are those of the interval whether the level is perfect or asks for them.
    let visits: Vec<_> =
        (0..900u64).map(|i| ((i * i % 5 % 3) as u16, i % 13, i % 4 == 0, 1 + (i % 23) as usize)).collect();
    let costs = uniform(3, 3.0, 40.0, None);
    let history = History::from_references(&expand(&visits), read_gap(&costs));
    let log =
        |level: &str| run_with(&history, &costs, "interval-majority", None, &[], false, level, &NO_MARKS).log;
    assert_eq!(log("perfect"), log("intervals:100"));
    assert_ne!(log("perfect"), log("every:8"));
}
