//! Nikolopoulos et al. 2000, section 5: placements against first touch, without migration, with the kernel's engine,
//! and with the user-level engine that reads the Origin's counters (sections 5.2, 5.3); what moved and what that did
//! (5.4); two programs that share the machine (5.5).
//!
//! The machine is `origin2000-16` with caches and the cost of a move scaled to small programs (docs/reproduction.md).

use super::claim::Claim;
use super::exhibit::Exhibit;
use super::looped::{less, Bench, Scaled, Together, INTERVALS};
use super::programs::{Traces, NIKOLOPOULOS};
use super::tally::Tally;
use super::Chosen;
use homing_core::action::{Kind, Outcome};
use homing_core::history::schedule::Schedule;
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

/// Names of the paper's exhibits.
pub const IDS: [&str; 5] = ["slowdown", "gain", "statistics", "remote-accesses", "multiprogrammed"];

/// The workloads of Figure 4.
const WORKLOADS: [(&str, [&str; 2]); 3] =
    [("wl-1", ["BT", "BT"]), ("wl-2", ["SP", "SP"]), ("wl-3", ["BT", "SP"])];
/// Iterations of the twenty after which programs use half of the processors.
const ADJUST_AFTER: u64 = 3;

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
    if chosen.any(&["multiprogrammed"]) {
        all.push(multiprogrammed(&scaled, traces)?);
    }
    Ok(all)
}

/// Section 5.2 and 5.3: times.
fn placements(scaled: &Scaled, traces: &Traces) -> anyhow::Result<Vec<Exhibit>> {
    let placements = [Placement::FirstTouch, Placement::RoundRobin, Placement::SingleNode(Node(0))];
    let mut slowdowns = [[0.0; 3]; 3];
    let mut gains = [0.0; 3];
    let share = 1.0 / traces.of(NIKOLOPOULOS).count() as f64;
    for program in traces.of(NIKOLOPOULOS) {
        let path = traces.get(program, THREADS)?;
        // By engine and placement: the whole time, and that of the second half.
        let times = Bench::with(scaled, &path, &ThreadsOn::Fill, |bench| {
            let mut times = [[(0.0, 0.0); 3]; 3];
            for (column, placement) in placements.iter().enumerate() {
                let still = bench.still(placement)?;
                let together = Together::of(&still);
                let both = |run: &Run| (together.time(run), together.second_half(run));
                times[0][column] = both(&still);
                for (row, (policy, monitor)) in ENGINES.iter().enumerate() {
                    times[row + 1][column] = both(&bench.moved(placement, policy, monitor, false)?);
                }
            }
            Ok(times)
        })?;
        for (sums, of_engine) in slowdowns.iter_mut().zip(times) {
            let [first_touch, round_robin, single] = of_engine;
            sums[0] += round_robin.0 / first_touch.0 * share;
            sums[1] += single.0 / first_touch.0 * share;
            sums[2] += single.1 / first_touch.1 * share;
        }
        let [none, kernel, user] = times.map(|of_engine| of_engine[0].0);
        for (gain, (before, after)) in gains.iter_mut().zip([(none, kernel), (none, user), (kernel, user)]) {
            *gain += less(before, after) * share;
        }
    }
    let mut table = Exhibit::new("slowdown")?;
    table.line("no migration", "no migration", slowdowns[0].to_vec());
    table.line("kernel (irix)", "kernel migration", slowdowns[1].to_vec());
    table.line("user-level (competitive)", "user-level migration", slowdowns[2].to_vec());
    let mut gain = Exhibit::new("gain")?;
    gain.line("mean", "mean", gains.to_vec());
    Ok(vec![table, gain])
}

/// Section 5.4: where BT and SP began, what moved, and what that did to the accesses to their arrays.
fn details(scaled: &Scaled, traces: &Traces) -> anyhow::Result<Vec<Exhibit>> {
    let (mut table, mut figure) = (Exhibit::new("statistics")?, Exhibit::new("remote-accesses")?);
    for program in traces.of(NIKOLOPOULOS).filter(|program| ["BT", "SP"].contains(&program.stands_for)) {
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
    Ok(vec![table, figure])
}

/// Section 5.5: two programs of which each has all processors first and then half of them, so that its threads move. A
/// run is of one program: what the other one does to memories and links is left out, and so is the time in which both
/// share processors.
fn multiprogrammed(scaled: &Scaled, traces: &Traces) -> anyhow::Result<Exhibit> {
    let mut figure = Exhibit::new("multiprogrammed")?;
    // By program and half of the machine: % less time than under the kernel's engine.
    let mut gains: BTreeMap<(&str, usize), f64> = BTreeMap::new();
    for program in traces.of(NIKOLOPOULOS).filter(|program| ["BT", "SP"].contains(&program.stands_for)) {
        let path = traces.get(program, THREADS)?;
        for half in 0..2 {
            let schedule = |references: u64| halved(references * ADJUST_AFTER / INTERVALS, half);
            let gain = Bench::scheduled(scaled, &path, &ThreadsOn::Fill, schedule, |bench| {
                let together = Together::of(&bench.still(&Placement::FirstTouch)?);
                let time = |policy: &str, monitor: &str| -> anyhow::Result<f64> {
                    Ok(together.time(&bench.moved(&Placement::FirstTouch, policy, monitor, false)?))
                };
                Ok(less(time(ENGINES[0].0, ENGINES[0].1)?, time("predictive", ENGINES[1].1)?))
            })?;
            gains.insert((program.stands_for, half as usize), gain);
        }
    }
    for (name, programs) in WORKLOADS {
        let each: Option<Vec<f64>> = programs
            .iter()
            .enumerate()
            .map(|(half, program)| gains.get(&(*program, half)).copied())
            .collect();
        // BT is not in a quick run.
        if let Some(each) = each {
            figure.line(name, name, vec![each.iter().sum::<f64>() / 2.0]);
        }
    }
    Ok(figure)
}

/// From some time on the threads have half of the processors, two on each.
fn halved(time: u64, half: u32) -> Schedule {
    let line = |thread: u32| format!("{time},{thread},{}\n", (half * THREADS + thread) / 2);
    let events: String = (0..THREADS).map(line).collect();
    Schedule::parse(&format!("time,thread,cpu\n{events}")).expect("as it is written here")
}

/// What the paper says that its tables and figures show.
pub fn claims(exhibit: &Exhibit) -> Vec<Claim> {
    let of = |row: &str, column: usize| exhibit.of(row, column);
    let [none, kernel, user] = ["no migration", "kernel migration", "user-level migration"];
    match exhibit.id.as_str() {
        "slowdown" => vec![
            Claim::new("the average slowdown due to the worst-case placement is 1.79").sizes(
                exhibit,
                1,
                1.0,
                &[none],
            ),
            Claim::new("the slowdown with round-robin is modest, 1.27")
                .direction("less than single-node", of(none, 0) < of(none, 1))
                .sizes(exhibit, 0, 1.0, &[none]),
            Claim::new("migration in the IRIX kernel reduces the slowdown slightly, down to 1.76")
                .direction("down", of(kernel, 1) < of(none, 1))
                .size("what it takes off 1.79", of(none, 1) - of(kernel, 1), 1.79 - 1.76),
            Claim::new("the user-level runtime takes the slowdown down to 1.12, less than the kernel's")
                .direction("less than the kernel's", of(user, 1) < of(kernel, 1))
                .sizes(exhibit, 1, 1.0, &[user]),
            Claim::new("in the last half of the iterations it was 1.03 [at most 1.05]")
                .direction("second half", of(user, 2) <= 1.05),
        ],
        "gain" => vec![
            Claim::new("migration in the kernel improves on first touch by 6 %").size(
                "mean",
                of("mean", 0),
                6.0,
            ),
            Claim::new("user-level migration by 19 %").size("mean", of("mean", 1), 19.0),
            Claim::new("and by 11 % compared to the kernel's").size("mean", of("mean", 2), 11.0),
        ],
        "statistics" => {
            let rows: Vec<&str> = exhibit.lines.iter().map(|line| line.published_as.as_str()).collect();
            vec![
                Claim::new("IRIX migrates only 24 % of the pages considered eligible")
                    .sizes(exhibit, 2, 0.0, &rows),
                Claim::new("the runtime migrates on average 84 % of the eligible pages")
                    .sizes(exhibit, 3, 0.0, &rows),
                rows.iter().fold(Claim::new("more than the kernel does"), |claim, row| {
                    claim.direction(row, of(row, 3) > of(row, 2))
                }),
                Claim::new("73 to 88 % of its migrations are in the first two iterations")
                    .sizes(exhibit, 4, 0.0, &rows),
            ]
        }
        "remote-accesses" => {
            let pairs = exhibit.lines.chunks(2).map(|pair| (&pair[0].label, &pair[0].ours, &pair[1].ours));
            let (mut falls, mut stays) = (
                Claim::new("the user-level engine reduces drastically the number of remote accesses [to half, from the \
                            second quarter on]"),
                Claim::new("and soon reaches a point at which it is practically minimised [within a tenth]"),
            );
            for (label, still, moved) in pairs {
                falls = falls.direction(label, (1..4).all(|quarter| moved[quarter] < still[quarter] / 2.0));
                stays = stays.direction(label, moved[3] <= 1.1 * moved[1]);
            }
            vec![falls, stays]
        }
        "multiprogrammed" => {
            let gains = || exhibit.lines.iter().map(|line| line.ours[0]);
            let (least, most) = (gains().fold(f64::MAX, f64::min), gains().fold(f64::MIN, f64::max));
            let words =
                "predictive migration reduces the execution times in all three workloads by 28 % to 49 %";
            vec![Claim::new(words).size("least", least, 28.0).size("most", most, 49.0)]
        }
        _ => Vec::new(),
    }
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
        figure.line(&format!("{program}, {name}, no migration"), "", of_first(&still));
        figure.line(&format!("{program}, {name}, user-level"), "", of_first(&moved));
    }
}
