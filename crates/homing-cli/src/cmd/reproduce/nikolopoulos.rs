//! Nikolopoulos et al. 2000, section 5: placements against first touch, without migration, with the kernel's engine,
//! and with the user-level engine that reads the Origin's counters (sections 5.2, 5.3); what moved and what that did
//! (5.4).
//!
//! The machine is `origin2000-16` with caches and the cost of a move scaled to small programs (docs/reproduction.md).

use super::exhibit::Exhibit;
use super::looped::{less, Bench, Scaled, Together};
use super::programs::{Traces, NIKOLOPOULOS};
use super::tally::Tally;
use super::Chosen;
use homing_core::action::{Kind, Outcome};
use homing_core::history::ThreadsOn;
use homing_core::ids::Node;
use homing_core::policy::placement::Placement;
use homing_core::system::{Interval, Run};
use std::collections::{BTreeMap, BTreeSet};

const THREADS: u32 = 16;
const SCALE: &[&str] = &[
    "page_size=4K",
    // As IRIX chooses frames: a page that moves keeps its cache sets.
    "hierarchy.page_colouring=true",
    "hierarchy.l1.size=4K",
    "hierarchy.l2.size=16K",
    "hierarchy.tlb=[{entries=16}]",
    "latency.page_move=5500",
    "time.shootdown_ns=60",
];
/// Engines beside none: the kernel's, which counters interrupt, and the user-level one, which reads them.
const ENGINES: [(&str, &str); 2] = [("irix", "cache-misses:period=2"), ("competitive", "origin")];

/// All exhibits of the paper that were chosen.
pub fn exhibits(chosen: &Chosen, traces: &Traces) -> anyhow::Result<Vec<Exhibit>> {
    let mut all = Vec::new();
    let scaled = Scaled::new("origin2000-16", SCALE)?;
    if chosen.any(&["slowdown", "gain"]) {
        all.extend(placements(&scaled, traces)?);
    }
    if chosen.any(&["statistics", "remote-accesses"]) {
        all.extend(details(&scaled, traces)?);
    }
    Ok(all)
}

/// Section 5.2 and 5.3: times.
fn placements(scaled: &Scaled, traces: &Traces) -> anyhow::Result<Vec<Exhibit>> {
    let placements = [Placement::FirstTouch, Placement::RoundRobin, Placement::SingleNode(Node(0))];
    let mut slowdowns = [[0.0; 2]; 3];
    let mut gains = [0.0; 2];
    for program in NIKOLOPOULOS {
        let path = traces.get(program, THREADS)?;
        let times = Bench::with(scaled, &path, &ThreadsOn::Fill, |bench| {
            let mut times = [[0.0; 3]; 3];
            for (column, placement) in placements.iter().enumerate() {
                let still = bench.still(placement)?;
                let together = Together::of(&still);
                times[0][column] = together.time(&still);
                for (row, (policy, monitor)) in ENGINES.iter().enumerate() {
                    times[row + 1][column] = together.time(&bench.moved(placement, policy, monitor, false)?);
                }
            }
            Ok(times)
        })?;
        for (engine, sums) in slowdowns.iter_mut().enumerate() {
            sums[0] += times[engine][1] / times[engine][0] / NIKOLOPOULOS.len() as f64;
            sums[1] += times[engine][2] / times[engine][0] / NIKOLOPOULOS.len() as f64;
        }
        for (engine, gain) in gains.iter_mut().enumerate() {
            *gain += less(times[0][0], times[engine + 1][0]) / NIKOLOPOULOS.len() as f64;
        }
    }
    let mut table = Exhibit::new("slowdown")?;
    table.line("no migration", "no migration", slowdowns[0].to_vec());
    table.line("kernel (irix)", "kernel migration", slowdowns[1].to_vec());
    table.line("user-level (competitive)", "user-level migration", slowdowns[2].to_vec());
    let [none, kernel, user] = slowdowns;
    table.claim(none[1] > none[0], "all pages on one node are worse than pages on nodes in turn");
    table.claim(user[1] < none[1] && user[0] < none[0], "migration makes bad placements cheaper");
    table.claim(
        user[1] < 1.0 + (none[1] - 1.0) / 2.0,
        "it takes away more than half of the single-node slow-down",
    );
    table.claim(user[1] < kernel[1], "the user-level engine mends a bad placement better than the kernel's");
    let mut gain = Exhibit::new("gain")?;
    gain.line("mean", "mean", gains.to_vec());
    gain.claim(gains[1] > 0.0, "user-level migration helps first touch too");
    gain.claim(gains[1] > gains[0], "and more than the kernel's engine");
    Ok(vec![table, gain])
}

/// Section 5.4: where BT and SP began, what moved, and what that did to the accesses to their arrays.
fn details(scaled: &Scaled, traces: &Traces) -> anyhow::Result<Vec<Exhibit>> {
    let (mut table, mut figure) = (Exhibit::new("statistics")?, Exhibit::new("remote-accesses")?);
    for program in NIKOLOPOULOS.iter().filter(|program| ["BT", "SP"].contains(&program.stands_for)) {
        let path = traces.get(program, THREADS)?;
        Bench::with(scaled, &path, &ThreadsOn::Fill, |bench| {
            let arrays = Arrays::of(bench);
            for (name, placement) in
                [("first-touch", Placement::FirstTouch), ("single-node", Placement::SingleNode(Node(0)))]
            {
                let label = format!("{}, {name}", program.stands_for);
                let around = |inner| Tally::new(inner, arrays.of_page.len(), bench.nodes());
                let (_, still) = bench.watched(&placement, None, ENGINES[1].1, around)?;
                let (kernel, _) = bench.watched(&placement, Some(ENGINES[0].0), ENGINES[0].1, around)?;
                let (user, moved) = bench.watched(&placement, Some(ENGINES[1].0), ENGINES[1].1, around)?;
                let hot = arrays.of_page.iter().flatten().count();
                let values = vec![
                    user.homes.len() as f64,
                    hot as f64,
                    of_eligible(&kernel, &still),
                    of_eligible(&user, &still),
                    in_first_two(&user),
                ];
                table.line(&label, &label, values);
                if name == "first-touch" {
                    figure_lines(&mut figure, program.stands_for, &arrays, &still, &moved);
                }
            }
            Ok(())
        })?;
    }
    let all = |holds: &dyn Fn(&[f64]) -> bool| table.lines.iter().all(|line| holds(&line.ours));
    let (more, most, early) =
        (all(&|row| row[3] > row[2]), all(&|row| row[3] > 50.0), all(&|row| row[4] > 50.0));
    table.claim(more, "the user-level engine migrates more of the misplaced pages than the kernel's");
    table.claim(most, "it migrates most of them");
    table.claim(early, "most of its migrations are done in the first two iterations");
    let pairs: Vec<_> =
        figure.lines.chunks(2).map(|pair| (pair[0].ours.clone(), pair[1].ours.clone())).collect();
    let any = !pairs.is_empty();
    let falls = pairs.iter().all(|(still, moved)| (1..4).all(|quarter| moved[quarter] < still[quarter]));
    figure.claim(
        any && falls,
        "remote accesses to each array are fewer with migration in every later quarter of the run",
    );
    let stays = pairs.iter().all(|(_, moved)| moved[3] <= 1.1 * moved[1]);
    figure.claim(any && stays, "and stay as few from the second quarter on");
    Ok(vec![table, figure])
}

/// The large arrays of a program.
struct Arrays {
    names: Vec<String>,
    /// The array that each page is of.
    of_page: Vec<Option<usize>>,
}

impl Arrays {
    /// Data areas with a tenth of all pages at least.
    fn of(bench: &Bench) -> Arrays {
        let areas = bench.areas();
        let mut pages: BTreeMap<&String, usize> = BTreeMap::new();
        areas.iter().flatten().for_each(|area| *pages.entry(area).or_default() += 1);
        let large = pages.iter().filter(|(_, &count)| 10 * count >= areas.len());
        let names: Vec<String> = large.map(|(name, _)| (*name).clone()).collect();
        let of = |area: &Option<String>| names.iter().position(|name| Some(name) == area.as_ref());
        Arrays { of_page: areas.iter().map(of).collect(), names }
    }
}

/// The misplaced pages that were migrated, in per cent.
fn of_eligible(run: &Run, still: &Tally) -> f64 {
    let moved = run.log.iter().filter(|entry| matches!(entry.action.kind, Kind::Move { .. }));
    let moved: BTreeSet<usize> =
        moved.filter(|entry| entry.outcome == Outcome::Done).map(|entry| entry.action.page.index()).collect();
    let eligible: Vec<usize> = (0..still.pages()).filter(|&page| still.misplaced(page)).collect();
    let both = eligible.iter().filter(|page| moved.contains(page)).count();
    100.0 * both as f64 / (eligible.len() as f64).max(1.0)
}

/// The moves of the first two intervals, which are iterations here, in per cent.
fn in_first_two(run: &Run) -> f64 {
    let moves = |intervals: &[Interval]| -> u64 { intervals.iter().flat_map(|i| &i.moves_to).sum() };
    100.0 * moves(&run.intervals[..2.min(run.intervals.len())]) as f64
        / (moves(&run.intervals) as f64).max(1.0)
}

/// Remote accesses to each array by quarters of the run, without migration and with it.
fn figure_lines(figure: &mut Exhibit, program: &str, arrays: &Arrays, still: &Tally, moved: &Tally) {
    for (array, name) in arrays.names.iter().enumerate() {
        let quarters = |tally: &Tally| -> Vec<f64> {
            let of_interval = |pages: &Vec<u64>| -> u64 {
                let mine = pages.iter().zip(&arrays.of_page).filter(|(_, of)| **of == Some(array));
                mine.map(|(count, _)| count).sum()
            };
            let each = tally.remote.len().div_ceil(4).max(1);
            tally.remote.chunks(each).map(|some| some.iter().map(of_interval).sum::<u64>() as f64).collect()
        };
        let (still, moved) = (quarters(still), quarters(moved));
        let of_first = |values: &[f64]| values.iter().map(|value| 100.0 * value / still[0]).collect();
        figure.line(&format!("{program}, {name}, still"), "", of_first(&still));
        figure.line(&format!("{program}, {name}, user-level"), "", of_first(&moved));
    }
}
