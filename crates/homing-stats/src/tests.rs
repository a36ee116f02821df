//! Simulated programs whose difference is known.

use super::interval::{centre, of_centre, quantile, walsh_averages, Interval, SignedRanks};
use super::looks::{Looks, LOOKS};
use super::*;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// How times vary from run to run.
#[derive(Clone, Copy, Debug)]
enum Spread {
    /// A standard deviation of 3 %.
    Normal,
    /// Most runs near the fastest, some far above: an exponential of 4 % on top.
    Skewed,
    /// 2 % from run to run, on a machine that grows slower by 0.2 % a run and has slow swings of 10 %.
    Drifting,
    /// 2 %, and one run in twelve takes up to three times as long.
    Outliers,
}

const SPREADS: [Spread; 4] = [Spread::Normal, Spread::Skewed, Spread::Drifting, Spread::Outliers];

/// A normal deviate (Box and Muller 1958).
fn normal(random: &mut impl Rng) -> f64 {
    let (one, two): (f64, f64) = (random.gen_range(f64::MIN_POSITIVE..1.0), random.gen());
    (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * two).cos()
}

/// The time of a run, the `number`th in all, of a program that takes 10 s.
fn time(spread: Spread, number: u32, random: &mut impl Rng) -> f64 {
    10.0 * match spread {
        Spread::Normal => (0.03 * normal(random)).exp(),
        Spread::Skewed => 1.0 - 0.04 * random.gen_range(f64::MIN_POSITIVE..1.0f64).ln(),
        Spread::Drifting => {
            let slow = 1.0 + 0.002 * f64::from(number) + 0.1 * (f64::from(number) / 40.0).sin();
            slow * (0.02 * normal(random)).exp()
        }
        Spread::Outliers => {
            let extra = if random.gen_ratio(1, 12) { random.gen_range(1.0..3.0) } else { 1.0 };
            extra * (0.02 * normal(random)).exp()
        }
    }
}

fn design(ways: usize, seed: u64, rounds: u32) -> Design {
    Design { ways, seed, confidence: CONFIDENCE, margin: MARGIN, rounds }
}

/// An experiment with ways whose times are those of way 0 times these factors.
fn simulate(spread: Spread, factors: &[f64], seed: u64, rounds: u32) -> Findings {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed ^ 0x5eed);
    let mut experiment = Experiment::new(design(factors.len() + 1, seed, rounds));
    let mut number = 0;
    while let Some(order) = experiment.next_round() {
        for way in order {
            let factor = if way == 0 { 1.0 } else { factors[way - 1] };
            experiment.record(way, Outcome::Took(factor * time(spread, number, &mut random)));
            number += 1;
        }
        experiment.end_round();
    }
    experiment.finish()
}

/// How many of `repetitions` experiments with one way say the truth about it, and hold it in their interval.
fn right(spread: Spread, factor: f64, repetitions: u64, rounds: u32) -> (u64, u64) {
    let (mut verdicts, mut held) = (0, 0);
    for seed in 0..repetitions {
        let found = simulate(spread, &[factor], seed, rounds);
        let difference = found.ways[1].difference.as_ref().unwrap();
        let said = match difference.verdict {
            Verdict::Faster => factor < 1.0,
            Verdict::Slower => factor > 1.0,
            // A difference of 0 is not to be called clear.
            Verdict::Same | Verdict::NotClear => factor == 1.0,
        };
        verdicts += u64::from(said);
        held += u64::from(difference.interval.unwrap().holds(factor));
    }
    (verdicts, held)
}

/// The truth test of the subject: differences of 0, 2, 5 and 20 %, both ways, with each kind of spread.
#[test]
fn verdicts_are_right_and_intervals_hold_the_truth_in_95_of_100() {
    const REPETITIONS: u64 = 100;
    for spread in SPREADS {
        for percent in [0.0, 2.0, -2.0, 5.0, -5.0, 20.0, -20.0] {
            let (verdicts, held) = right(spread, 1.0 + percent / 100.0, REPETITIONS, 300);
            assert!(verdicts >= 95, "{spread:?}, {percent} %: {verdicts} verdicts are right");
            assert!(held >= 95, "{spread:?}, {percent} %: {held} intervals hold it");
        }
    }
}

/// As when somebody would stop only once a difference is clear: with no difference that hardly ever comes.
#[test]
fn looking_again_and_again_finds_no_difference_that_is_not_there() {
    for spread in SPREADS {
        let clear = |seed: &u64| {
            // No interval within the margin ends it either.
            let mut experiment = Experiment::new(Design { margin: 0.0, ..design(2, *seed, 140) });
            let mut random = Xoshiro256PlusPlus::seed_from_u64(*seed);
            let mut number = 0;
            while let Some(order) = experiment.next_round() {
                for way in order {
                    experiment.record(way, Outcome::Took(time(spread, number, &mut random)));
                    number += 1;
                }
                experiment.end_round();
            }
            let verdict = experiment.finish().ways[1].difference.as_ref().unwrap().verdict;
            verdict != Verdict::NotClear
        };
        let wrong = (0..200).filter(clear).count();
        assert!(wrong <= 4, "{spread:?}: {wrong} of 200 say that there is a difference");
    }
}

#[test]
fn all_ways_hold_together() {
    let factors = [1.0, 1.0, 0.98, 1.0, 1.05];
    let wrong = (0..200).filter(|&seed| {
        let found = simulate(Spread::Skewed, &factors, seed, 60);
        let ways = found.ways[1..].iter().zip(factors);
        ways.clone().any(|(way, factor)| {
            let interval = way.difference.as_ref().unwrap().interval.unwrap();
            !interval.holds(factor)
        })
    });
    let wrong = wrong.count();
    assert!(wrong <= 4, "in {wrong} of 200 some interval does not hold");
}

#[test]
fn what_varies_by_a_tenth_is_not_clear_in_few_rounds_and_never_clear_the_wrong_way() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
    let mut clear = 0;
    for seed in 0..100 {
        let mut experiment = Experiment::new(design(2, seed, 20));
        while let Some(order) = experiment.next_round() {
            for way in order {
                let factor = [1.0, 1.02][way];
                experiment.record(way, Outcome::Took(factor * (0.1 * normal(&mut random)).exp()));
            }
            experiment.end_round();
        }
        let found = experiment.finish();
        let difference = found.ways[1].difference.as_ref().unwrap();
        let chance = difference.chance.unwrap();
        assert!((0.02..0.15).contains(&chance), "spread alone gives {chance}");
        clear += u32::from(difference.verdict != Verdict::NotClear);
    }
    assert!(clear <= 10, "2 % in 20 rounds with 10 % of spread: {clear} of 100 are called clear");
}

/// What is said of spread alone is what experiments between equal ways show.
#[test]
fn chance_is_what_equal_ways_show_in_95_of_100() {
    let all: Vec<(f64, f64)> = (0..200)
        .map(|seed| {
            let found = simulate(Spread::Normal, &[1.0], seed, 15);
            let difference = found.ways[1].difference.clone().unwrap();
            (difference.ratio.unwrap().ln().abs(), difference.chance.unwrap().ln_1p())
        })
        .collect();
    let within = all.iter().filter(|(ratio, chance)| ratio <= chance).count();
    assert!((183..=198).contains(&within), "{within} of 200");
}

/// The obvious model: all 2^n signs.
#[test]
fn chances_of_signed_ranks_are_those_of_all_signs() {
    let mut ranks = SignedRanks::default();
    for count in 1..=10usize {
        ranks.advance(count);
        let mut sums = vec![0u32; count * (count + 1) / 2 + 1];
        for signs in 0..1u32 << count {
            let sum: usize = (1..=count).filter(|rank| signs >> (rank - 1) & 1 == 1).sum();
            sums[sum] += 1;
        }
        for error in [0.001, 0.01, 0.05, 0.2] {
            let allowed = |cut: usize| {
                let below: u32 = sums[..=cut].iter().sum();
                2.0 * f64::from(below) / f64::from(1u32 << count) <= error
            };
            let cut = (0..sums.len()).take_while(|&cut| allowed(cut)).last();
            assert_eq!(ranks.cut(error), cut, "{count} values, error {error}");
        }
    }
    ranks.advance(6);
    // Tables of the test: with 6 values 5 % allow none of the sums but 0 (2 in 64 is 3.1 %).
    assert_eq!((ranks.cut(0.05), ranks.cut(0.03)), (Some(0), None));
}

#[test]
fn centres_and_intervals_are_those_of_walsh_averages() {
    let values = [3.0, 1.0, 10.0];
    let mut averages = walsh_averages(&values);
    averages.sort_by(f64::total_cmp);
    assert_eq!(averages, [1.0, 2.0, 3.0, 5.5, 6.5, 10.0]);
    assert_eq!((centre(&values), centre(&[])), (Some(4.25), None));
    assert_eq!(of_centre(&values, 0), Some(Interval { low: 1.0, high: 10.0 }));
    assert_eq!(of_centre(&values, 1), Some(Interval { low: 2.0, high: 6.5 }));
    assert_eq!((of_centre(&values, 3), of_centre(&[], 0)), (None, None));
    assert_eq!(quantile(&mut [4.0, 1.0, 2.0, 3.0], 0.25), 1.75);
}

#[test]
fn the_looks_of_all_ways_share_the_errors() {
    for ways in [1, 3, 8] {
        let looks = Looks::new(ways, 0.95);
        let all: f64 = (0..LOOKS + 3).map(|look| looks.error(look)).sum();
        assert!((all * ways as f64 - 0.05).abs() < 1e-12, "{all}");
        let mut ranks = SignedRanks::default();
        let first = looks.pairs(0);
        assert_eq!(looks.cut(0, first, &mut ranks), Some(0));
        assert_eq!(looks.cut(0, first - 1, &mut ranks), None);
        assert!(looks.pairs(LOOKS) > MOST_ROUNDS as usize);
    }
    assert_eq!(Looks::new(1, 0.95).pairs(0), 7);
}

#[test]
fn cold_runs_stand_apart_and_failures_are_counted() {
    let mut experiment = Experiment::new(design(3, 1, 4));
    let mut rounds = Vec::new();
    while let Some(order) = experiment.next_round() {
        assert_eq!(order.iter().filter(|&&way| way == 0).count(), 1);
        let cold = rounds.is_empty();
        for &way in &order {
            experiment.record(
                way,
                match way {
                    _ if cold => Outcome::Took(50.0),
                    2 => Outcome::Failed,
                    _ => Outcome::Took(5.0),
                },
            );
        }
        rounds.push(order.len());
        experiment.end_round();
    }
    assert_eq!(rounds, [3, 3, 3, 3, 2], "what fails three times is given up");
    let found = experiment.finish();
    assert_eq!((found.rounds, found.fewest_pairs), (4, 11));
    let times = &found.ways[1].times;
    assert_eq!((times.cold, times.runs, times.median), (Some(50.0), 4, Some(5.0)));
    let failing = &found.ways[2];
    assert_eq!((failing.given_up, failing.times.failed, failing.times.median), (true, 3, None));
    let difference = found.ways[1].difference.as_ref().unwrap();
    assert_eq!((difference.verdict, difference.interval), (Verdict::NotClear, None), "4 rounds say nothing");
    assert!(found.faster().is_empty());
}

#[test]
fn the_experiment_ends_when_all_is_clear_and_says_which_is_fastest() {
    let found = simulate(Spread::Normal, &[0.8, 1.2, 0.5], 1, 300);
    assert!(found.rounds < 30, "{}", found.rounds);
    assert_eq!(found.faster(), [3, 1]);
    assert!(found.differ(3, 1) && found.differ(0, 2) && !found.differ(1, 1));
    let same = simulate(Spread::Normal, &[0.8, 0.8], 1, 300);
    assert!(!same.differ(1, 2));
}

#[test]
fn an_experiment_is_what_its_seed_and_its_times_make_it() {
    let once = || simulate(Spread::Outliers, &[0.95, 1.0], 7, 40);
    assert_eq!(once(), once());
    assert_ne!(once(), simulate(Spread::Outliers, &[0.95, 1.0], 8, 40));
}

#[test]
fn equal_times_are_the_same_not_faster() {
    let mut experiment = Experiment::new(design(2, 1, 100));
    while let Some(order) = experiment.next_round() {
        order.into_iter().for_each(|way| experiment.record(way, Outcome::Took(3.0)));
        experiment.end_round();
    }
    let found = experiment.finish();
    let difference = found.ways[1].difference.as_ref().unwrap();
    assert_eq!((difference.verdict, difference.pairs), (Verdict::Same, 10));
    assert_eq!(difference.interval, Some(Interval { low: 1.0, high: 1.0 }));
}
