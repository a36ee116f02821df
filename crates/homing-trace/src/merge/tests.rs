use super::lists::tests::InMemory;
use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

fn run(references: u32, instructions: u32, times: u64) -> Step {
    Step::Run { references, instructions, times }
}

fn sync(op: SyncOp, object: u64, stamp: u64) -> Step {
    Step::Sync(Sync { op, object, stamp })
}

fn merged(threads: &[Vec<Step>], options: Options) -> (Vec<(u32, u64)>, Report) {
    let mut spill = InMemory::default();
    let memory = Some(Memory { bytes: options.memory, spill: &mut spill });
    let edges = Edges::collect(threads.len(), |thread| threads[thread].iter().copied(), memory).unwrap();
    let cursors = threads.iter().map(|steps| steps.iter().copied()).collect();
    let mut turns = Vec::new();
    let report = merge(cursors, edges, options, |thread, count| {
        turns.push((thread.0, count));
        Ok::<_, std::io::Error>(())
    });
    (turns, report.unwrap())
}

use SyncOp::{Acquire, Both, Release};

#[test]
fn handing_over_keeps_the_order_exactly() {
    let mut threads = [vec![], vec![]];
    let mut stamp = 0;
    for _ in 0..50 {
        for (me, (mine, theirs)) in [(0, (7, 8)), (1, (8, 7))] {
            if stamp > 0 {
                threads[me].push(sync(Acquire, mine, stamp));
            }
            threads[me].push(run(10, 100, 3));
            threads[me].push(sync(Release, theirs, stamp + 1));
            stamp += 2;
        }
    }
    for seed in 0..5 {
        let (turns, report) = merged(&threads, Options { seed, quantum: 32, memory: 64 });
        assert_eq!(turns, [(0, 30), (1, 30)].repeat(50));
        assert_eq!((report.references, report.broken_acquires), (3000, 0));
    }
}

#[test]
fn independent_threads_interleave_finely() {
    let threads = vec![vec![run(3, 8, 10_000)]; 3];
    let (turns, report) = merged(&threads, Options::default());
    assert!(
        turns.iter().all(|&(_, count)| count <= 2 * 72),
        "a turn is at most two quanta of 192 instructions"
    );
    assert_eq!(report.references, 90_000);
    assert_eq!(report.turns, turns.len() as u64);
    let slow = [vec![run(1, 1, 30_000)], vec![run(1, 10, 3_000)]];
    let (turns, _) = merged(&slow, Options::default());
    let half: u64 = turns[..turns.len() / 2].iter().filter(|t| t.0 == 1).map(|t| t.1).sum();
    assert!((1400..1600).contains(&half), "virtual time is instructions, not references: {half}");
}

#[test]
fn children_start_at_their_creator_and_joins_wait() {
    let threads = [
        vec![run(1, 100, 10), Step::Start(Thread(1)), run(1, 10, 5), Step::Join(Thread(1)), run(1, 10, 7)],
        vec![run(1, 10, 100)],
    ];
    let (turns, report) = merged(&threads, Options::default());
    assert_eq!(turns.first(), Some(&(0, 10)));
    assert_eq!(turns.last(), Some(&(0, 7)));
    assert_eq!(report, Report { references: 122, turns: turns.len() as u64, ..Report::default() });
}

#[test]
fn an_atomic_is_not_separated_from_its_reference() {
    let atomics = |first: u64| -> Vec<Step> {
        (0..200).flat_map(|i| [sync(Both, 64, 2 * i + first), run(1, 1, 1), run(1, 400, 1)]).collect()
    };
    let (turns, report) = merged(&[atomics(0), atomics(1)], Options::default());
    let mut seen = [0u64; 2];
    let mut last = 1;
    for (thread, count) in turns {
        for _ in 0..count {
            if seen[thread as usize] % 2 == 0 {
                assert_ne!(thread, last, "atomics keep the recorded alternation");
                last = thread;
            }
            seen[thread as usize] += 1;
        }
    }
    assert_eq!((seen, report.broken_acquires), ([400, 400], 0));
}

#[test]
fn damage_is_broken_and_counted() {
    let crossed = [
        vec![sync(Acquire, 1, 9), run(1, 1, 1), sync(Release, 2, 3)],
        vec![sync(Acquire, 2, 8), run(1, 1, 1), sync(Release, 1, 4)],
    ];
    let (turns, report) = merged(&crossed, Options::default());
    assert_eq!((turns, report.broken_acquires), (vec![(1, 1), (0, 1)], 1));
    let orphans = [
        vec![Step::Join(Thread(1)), Step::Join(Thread(9)), run(1, 1, 1)],
        vec![Step::Join(Thread(0)), run(1, 1, 2)],
        vec![Step::Start(Thread(3)), run(1, 1, 1)],
        vec![Step::Start(Thread(2)), Step::Start(Thread(77)), run(1, 1, 1)],
    ];
    let (_, report) = merged(&orphans, Options::default());
    assert_eq!((report.references, report.broken_joins, report.broken_starts), (5, 1, 1));
}

#[test]
fn a_seed_gives_one_order_and_another_seed_another() {
    let threads = vec![vec![run(2, 7, 1000)]; 4];
    let order = |seed| merged(&threads, Options { seed, quantum: 32, memory: 64 }).0;
    assert_eq!(order(1), order(1));
    assert_ne!(order(1), order(2));
}

/// One action of a random execution: thread, references, then maybe a synchronisation on an object.
type Action = (usize, u32, Option<(SyncOp, u64)>);

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let kind = prop_oneof![Just(Release), Just(Acquire), Just(Both)];
    prop::collection::vec((0..5usize, 1..40u32, prop::option::of((kind, 0..4u64))), 1..300)
}

/// The emitted position (in Time) of each (thread, reference) pair, checking that each comes once and in its order.
fn positions(turns: &[(u32, u64)], totals: &[u64]) -> Vec<Vec<u64>> {
    let mut positions = vec![Vec::new(); totals.len()];
    let mut time = 0;
    for &(thread, count) in turns {
        positions[thread as usize].extend(time..time + count);
        time += count;
    }
    let found: Vec<u64> = positions.iter().map(|p| p.len() as u64).collect();
    assert_eq!(found, totals);
    positions
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// A random sequential execution is a valid order, so its edges have no cycle; no merge may cross one of them.
    #[test]
    fn no_edge_is_ever_crossed(actions in actions(), seed: u64, quantum in 1..200u32) {
        let mut threads = vec![Vec::new(); 5];
        let mut totals = vec![0u64; 5];
        let mut releases: HashMap<u64, Vec<(usize, u64)>> = HashMap::new();
        let mut before = Vec::new();
        for (stamp, &(thread, references, op)) in actions.iter().enumerate() {
            if let Some((kind, object)) = op {
                threads[thread].push(sync(kind, object, stamp as u64));
                let list = releases.entry(object).or_default();
                if kind != Release {
                    before.extend(list.iter().map(|&(t, n)| ((t, n), (thread, totals[thread]))));
                }
                if kind != Acquire {
                    list.push((thread, totals[thread]));
                }
            }
            threads[thread].push(run(1, 1 + references % 7, u64::from(references)));
            totals[thread] += u64::from(references);
        }
        let (turns, report) = merged(&threads, Options { seed, quantum, memory: 64 });
        prop_assert_eq!(report.broken_acquires, 0);
        let positions = positions(&turns, &totals);
        for ((t, released), (u, acquired)) in before {
            if let (Some(last), Some(next)) =
                (released.checked_sub(1).map(|n| positions[t][n as usize]), positions[u].get(acquired as usize))
            {
                prop_assert!(last < *next, "release of {t} at {last}, acquire of {u} at {next}");
            }
        }
    }

    /// Whatever the streams hold, the merge ends and every reference comes once.
    #[test]
    fn nonsense_ends(steps in prop::collection::vec((0..6usize, 0..6u8, 0..8u32, 0..20u64), 0..200), seed: u64) {
        let mut threads = vec![Vec::new(); 6];
        let mut totals = vec![0u64; 6];
        for (thread, kind, number, stamp) in steps {
            threads[thread].push(match kind {
                0 => Step::Start(Thread(number)),
                1 => Step::Join(Thread(number)),
                2 => sync(Release, u64::from(number), stamp),
                3 => sync(Acquire, u64::from(number), stamp),
                4 => sync(Both, u64::from(number), stamp),
                _ => {
                    totals[thread] += u64::from(number) * stamp;
                    run(number, stamp as u32, stamp)
                }
            });
        }
        let (turns, report) = merged(&threads, Options { seed, quantum: 8, memory: 64 });
        prop_assert_eq!(report.references, totals.iter().sum::<u64>());
        positions(&turns, &totals);
    }
}
