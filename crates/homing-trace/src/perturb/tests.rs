use super::*;
use proptest::prelude::*;
use std::convert::Infallible;

/// Runs the filters over an order and gives, for each thread, the output positions of its references.
fn perturbed(order: &[u32], gaps: Option<Gaps>, local: Option<Local>) -> Vec<u32> {
    let mut out = Vec::new();
    let mut perturb = Perturb::new(gaps, local, |thread: Thread, count| {
        out.extend(std::iter::repeat_n(thread.0, count as usize));
        Ok::<_, Infallible>(())
    });
    for turn in order.chunk_by(|a, b| a == b) {
        perturb.turn(Thread(turn[0]), turn.len() as u64).unwrap();
    }
    perturb.finish().unwrap();
    out
}

fn totals(order: &[u32]) -> Vec<u64> {
    let mut totals = vec![0; order.iter().max().map_or(0, |&t| t as usize + 1)];
    order.iter().for_each(|&t| totals[t as usize] += 1);
    totals
}

fn of_threads(order: &[u32]) -> impl Iterator<Item = (Thread, u64)> {
    (0..).map(Thread).zip(totals(order))
}

/// How far each reference moved: its place in the output minus its place in the input.
fn displacements(order: &[u32], out: &[u32]) -> Vec<i64> {
    let places = |order: &[u32]| {
        let mut places = vec![Vec::new(); totals(order).len()];
        order.iter().enumerate().for_each(|(time, &t)| places[t as usize].push(time as i64));
        places
    };
    places(order).iter().flatten().zip(places(out).iter().flatten()).map(|(from, to)| to - from).collect()
}

#[test]
fn the_oldest_of_the_chosen_thread_goes_first() {
    let order: Vec<u32> = (0..200_000).map(|i| i / 7 % 4).collect();
    let out = perturbed(&order, None, Some(Local::new(Local::ENTRIES, 1)));
    let moved = displacements(&order, &out);
    assert!(moved.iter().all(|d| *d > -100), "nothing leaves before it was read");
    let mean = moved.iter().map(|d| d.abs() as f64).sum::<f64>() / moved.len() as f64;
    assert!((2.0..60.0).contains(&mean), "near references swap, far ones do not: mean distance {mean}");
    let far = moved.iter().filter(|d| **d > 300).count();
    assert!(far < moved.len() / 1000, "drops off sharply: {far} moved by more than 300");
    assert_ne!(out, order);
}

#[test]
fn one_thread_alone_is_left_alone() {
    let order = vec![0; 1000];
    assert_eq!(perturbed(&order, None, Some(Local::new(100, 3))), order);
}

#[test]
fn a_gap_delays_one_thread_and_drains_at_two_thirds() {
    let order: Vec<u32> = (0..3_000_000).map(|i| i % 2).collect();
    let parameters = GapParameters::default();
    let out = perturbed(&order, Some(Gaps::new(parameters, of_threads(&order), 5)), None);
    let runs: Vec<usize> = out.chunk_by(|a, b| a == b).map(<[u32]>::len).filter(|&n| n > 1000).collect();
    let expected = 3_000_000 / 30_000;
    assert!((expected / 2..expected * 2).contains(&runs.len()), "{} gaps", runs.len());
    assert!(runs.iter().all(|&n| (1999..2100).contains(&n)), "half of 4000 references are the other's");
    // After a gap, two of three references are saved ones of one thread, and the third alternates: 5 of 6.
    let end =
        out.chunk_by(|a, b| a == b).take_while(|run| run.len() <= 1000).map(<[u32]>::len).sum::<usize>();
    let start = end + out[end..].chunk_by(|a, b| a == b).next().unwrap().len();
    let stopped = 1 - out[end];
    let drained = out[start..start + 2000].iter().filter(|&&t| t == stopped).count() as f64 / 2000.0;
    assert!((0.80..0.87).contains(&drained), "{drained}");
}

#[test]
fn seeds_decide() {
    let order: Vec<u32> = (0..50_000).map(|i| i / 3 % 3).collect();
    let both = |seed| {
        let gaps = Gaps::new(GapParameters { every: 500, ..Default::default() }, of_threads(&order), seed);
        perturbed(&order, Some(gaps), Some(Local::new(100, seed)))
    };
    assert_eq!(both(1), both(1));
    assert_ne!(both(1), both(2));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn nothing_is_lost_or_added(
        order in prop::collection::vec(0..6u32, 0..3000),
        entries in 1..200u32,
        every in 1..400u32,
        length in 0..500u64,
        drain in (0..4u32, 1..4u32),
        which in 0..4,
        seed: u64,
    ) {
        let parameters = GapParameters { every, length, drain };
        let gaps = (which & 1 != 0).then(|| Gaps::new(parameters, of_threads(&order), seed));
        let local = (which & 2 != 0).then(|| Local::new(entries, seed));
        let out = perturbed(&order, gaps, local);
        prop_assert_eq!(totals(&out), totals(&order));
        if which == 0 {
            prop_assert_eq!(&out, &order);
        }
    }
}
