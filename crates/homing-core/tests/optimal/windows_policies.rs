//! What windows say of policies against the whole program.

use super::windows::{general, plain, program, Kind, Reference, KINDS, LONG, PAGES, WINDOWS};
use homing_core::history::{History, HistoryBuilder, Options};
use homing_core::ids::{Node, Time};
use homing_core::information::Information;
use homing_core::machine::Costs;
use homing_core::policy::settings::Settings;
use homing_core::policy::table;
use homing_core::simulate::{simulate, Setup, Simulation};
use homing_core::timeline::NO_MARKS;
use homing_core::windows::{best_static, still, Figure, Windows, NO_WINDOWS};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rayon::prelude::*;
use std::collections::HashSet;

const POLICIES: [&str; 5] = ["first-touch", "round-robin", "best-static", "homing", "work-function"];

/// Windows at random places of equal parts, one after the other, and between them the first reference to each page.
fn recorded(program: &[Reference], gap: u32, seed: u64) -> (History, Windows) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed ^ 0x9e);
    let part = program.len() / WINDOWS;
    let (mut trace, mut spans, mut known) = (Vec::new(), Vec::new(), HashSet::new());
    let mut before = 0;
    for number in 0..WINDOWS {
        let begin = number * part + random.gen_range(0..=part - LONG);
        trace.extend(program[before..begin].iter().filter(|&&(_, page, _)| known.insert(page)));
        known.extend(program[begin..begin + LONG].iter().map(|&(_, page, _)| page));
        let first = Time(trace.len() as u64);
        trace.extend(&program[begin..begin + LONG]);
        spans.push((first..Time(trace.len() as u64), LONG as f64));
        before = begin + LONG;
    }
    let mut builder = HistoryBuilder::new(Options { read_gap: gap, ..Options::default() });
    for (&(node, page, write), time) in trace.iter().zip(0..) {
        if spans.iter().any(|(span, _)| span.start == Time(time) || span.end == Time(time)) {
            builder.cut();
        }
        builder.reference(Node(node), Time(time), page << 12, write);
    }
    let frames: Vec<u64> = (0..PAGES).map(|page| page << 12).collect();
    let history = builder.finish(&frames).unwrap();
    (history, Windows::new(spans, before as f64 / (WINDOWS * LONG) as f64))
}

fn run(history: &History, costs: &Costs, name: &str, windows: &Windows) -> Simulation {
    let (entry, settings) = (table::find(name).unwrap(), Settings::default());
    let placement = entry.placement(None, costs, &settings);
    let policy = entry.make(costs, false, &settings);
    let setup = Setup {
        history,
        costs,
        placement: &placement,
        replication: false,
        information: Information::PERFECT,
        timeline: &NO_MARKS,
        windows,
        log: false,
    };
    simulate(&setup, &*policy).unwrap()
}

fn holds(figure: &Figure, truth: f64) -> bool {
    let (low, high) = (figure.low.unwrap(), figure.high.unwrap());
    low - 1e-9 <= truth && truth <= high + 1e-9
}

/// Mean cost and non-local percentage of the whole program.
fn truth(simulation: &Simulation, costs: &Costs) -> (f64, f64) {
    let account = &simulation.account;
    let references = account.references() as f64;
    (account.cost(costs) / references, 100.0 * (account.remote + account.global) as f64 / references)
}

#[test]
fn intervals_hold_what_policies_do_to_the_whole_program() {
    for (machine, costs) in [("plain", plain()), ("unequal", general())] {
        for name in POLICIES {
            let runs: Vec<(Kind, u64)> =
                KINDS.iter().flat_map(|&kind| (0..15).map(move |seed| (kind, seed))).collect();
            let one = |&(kind, seed): &(Kind, u64)| {
                let program = program(kind, seed);
                let whole = History::from_references(&program, costs.read_gap());
                let (mcpr, nonlocal) = truth(&run(&whole, &costs, name, &NO_WINDOWS), &costs);
                let (history, windows) = recorded(&program, costs.read_gap(), seed);
                let found = match name {
                    "best-static" => best_static(&history, &windows, &costs).unwrap().unwrap(),
                    _ => {
                        let simulated = run(&history, &costs, name, &windows);
                        windows.estimate(&simulated.windows, &costs).unwrap()
                    }
                };
                let width = (found.mcpr.high.unwrap() - found.mcpr.low.unwrap()) / mcpr;
                let error = (found.mcpr.value / mcpr - 1.0).abs();
                let held = holds(&found.mcpr, mcpr);
                (kind, held, holds(&found.nonlocal_percent.unwrap(), nonlocal), width, error)
            };
            let found: Vec<_> = runs.par_iter().map(one).collect();
            for kind in KINDS {
                let of: Vec<_> = found.iter().filter(|found| found.0 == kind).collect();
                let mean = |value: fn(&(Kind, bool, bool, f64, f64)) -> f64| {
                    of.iter().map(|&found| value(found)).sum::<f64>() / of.len() as f64
                };
                println!(
                    "{machine} {name} {kind:?}: MCPR held {:.2}, non-local {:.2}, width {:.1} %, error {:.2} %",
                    mean(|found| f64::from(u8::from(found.1))),
                    mean(|found| f64::from(u8::from(found.2))),
                    100.0 * mean(|found| found.3),
                    100.0 * mean(|found| found.4),
                );
            }
            let held = |which: fn(&(Kind, bool, bool, f64, f64)) -> bool| {
                found.iter().filter(|&found| which(found)).count()
            };
            let (mcpr, nonlocal) = (held(|found| found.1), held(|found| found.2));
            // Policies that move pages have a memory. Where nodes visit pages in turn, what they would have moved next
            // at the end of a window is in none (docs/policies.md, "From windows").
            let least = if matches!(name, "homing" | "work-function") { 8 } else { 9 };
            assert!(mcpr * 10 >= runs.len() * least, "{machine} {name}: {mcpr} of {}", runs.len());
            assert!(
                nonlocal * 10 >= runs.len() * least,
                "{machine} {name}: non-local {nonlocal} of {}",
                runs.len()
            );
        }
    }
}

#[test]
fn intervals_hold_what_better_places_save() {
    let costs = plain();
    let runs: Vec<(Kind, u64)> =
        KINDS.iter().flat_map(|&kind| (20..35).map(move |seed| (kind, seed))).collect();
    let one = |&(kind, seed): &(Kind, u64)| {
        let program = program(kind, seed);
        let whole = History::from_references(&program, costs.read_gap());
        let cost = |name| run(&whole, &costs, name, &NO_WINDOWS).account.cost(&costs);
        let truth = 100.0 * (1.0 - cost("best-static") / cost("first-touch"));
        let (history, windows) = recorded(&program, costs.read_gap(), seed);
        let homes = run(&history, &costs, "first-touch", &windows).first_homes;
        let found = still(&history, &windows, &costs, &homes).unwrap().unwrap();
        // The same as a simulation of pages that stay.
        let simulated = run(&history, &costs, "first-touch", &windows);
        let again = windows.estimate(&simulated.windows, &costs).unwrap().nonlocal_percent.unwrap();
        assert!((again.value - found.nonlocal_percent.value).abs() < 1e-9);
        println!("{kind:?} {seed}: {truth:.2} in {}", found.avoidable_percent.in_words(2));
        holds(&found.avoidable_percent, truth)
    };
    let held = runs.par_iter().map(one).filter(|&held| held).count();
    assert!(held * 10 >= runs.len() * 9, "{held} of {}", runs.len());
}
