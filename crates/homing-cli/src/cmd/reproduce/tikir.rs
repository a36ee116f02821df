//! Tikir & Hollingsworth 2008: sampling (Table 1, Figure 2), migration (Tables 2 to 4, Figure 3), profile sources
//! (Tables 6 and 7, Figures 6 and 7), contention (section 5.3.3).
//!
//! The machine is `sunfire-6800` with caches and TLBs scaled to programs of a hundredth of the size. Two numbers of
//! each program are set from the paper's Tables 2 and 4 ([`calibrated`]): how often a thread requests a line, and what
//! moving all pages once costs. docs/reproduction.md has the list of what is given and what results.

mod calibration;
mod claims;

use super::exhibit::Exhibit;
use super::looped::{less, Bench, Scaled, Together};
use super::programs::{Program, Traces, TIKIR};
use super::Chosen;
use calibration::{calibrated, Calibration};
use homing_core::history::ThreadsOn;
use homing_core::ids::Node;
use homing_core::policy::placement::{Placement, PlacementFile};
use homing_core::system::{Interval, Run};
use rayon::prelude::*;

pub use claims::claims;

const THREADS: u32 = 12;
/// Threads of section 5.1.
const SAMPLED_THREADS: u32 = 6;
const SCALE: &[&str] = &[
    "page_size=4K",
    // As Solaris chooses frames: a page that moves keeps its cache sets.
    "hierarchy.page_colouring=true",
    "hierarchy.l1.size=4K",
    "hierarchy.l2.line=128",
    "hierarchy.tlb=[{entries=4}, {entries=16, ways=2}]",
    // Small caches and TLBs miss more often than theirs: all time beside requests is one number a program.
    "hierarchy.l1.ns=0",
    "hierarchy.l2.ns=0",
    "time.tlb_miss_ns=0",
    // A request moves 64 bytes, a part of a line of 512: with these a board serves some 30 M requests a second.
    "time.memory_busy_ns=20",
    "time.link_busy_ns=27",
];
const POLICY: &str = "interval-majority";
/// The analyser as section 5.2 used it, sampling scaled as the runs are.
const ANALYSER: &str = "interconnect:period=64,read=0";
/// Sources in the order of the columns of Tables 6 and 7, with Table 5's sampling divided by 32.
const SOURCES: [&str; 6] = [
    "interconnect:period=16,burst=1,read=0",
    "cache-misses:period=16",
    "tlb-misses:period=16",
    "tlb-content:every=512",
    "atc:every=512",
    "perfect-next",
];
/// Names of the paper's exhibits.
pub const IDS: [&str; 13] = [
    "inputs",
    "table1",
    "figure2",
    "table2",
    "table3",
    "table4",
    "two-phase",
    "intervals",
    "table6a",
    "table6b",
    "table7",
    "figure7",
    "contention",
];

/// Of section 5.2, and of section 5.3: made program by program.
const MIGRATION: [&str; 3] = ["table2", "table3", "table4"];
const PROFILES: [&str; 4] = ["table6a", "table6b", "table7", "figure7"];
/// Intervals of a run, from those of one iteration to those of ten.
const LENGTHS: [u64; 4] = [20, 10, 5, 2];

/// All exhibits of the paper that were chosen.
pub fn exhibits(chosen: &Chosen, traces: &Traces) -> anyhow::Result<Vec<Exhibit>> {
    let mut all = Vec::new();
    let program = |name: &str| TIKIR.iter().find(|p| p.stands_for == name).expect("it is in the list");
    if chosen.any(&["table1", "figure2"]) {
        all.extend(sampling(traces, program("CG"))?);
    }
    if chosen.any(&[&["inputs", "two-phase", "intervals"][..], &MIGRATION, &PROFILES].concat()) {
        all.extend(programs(chosen, traces)?);
    }
    if chosen.any(&["contention"]) {
        all.push(on_calibrated(traces, program("MG"), |bench, _| contention(bench))?);
    }
    Ok(all)
}

fn on_calibrated<R>(
    traces: &Traces,
    program: &Program,
    work: impl FnOnce(&Bench, &Calibration) -> anyhow::Result<R>,
) -> anyhow::Result<R> {
    let calibration = calibrated(traces, program)?;
    bench(&calibration.scaled()?, traces, program, THREADS, |bench| work(bench, &calibration))
}

fn bench<R>(
    scaled: &Scaled,
    traces: &Traces,
    program: &Program,
    threads: u32,
    work: impl FnOnce(&Bench) -> anyhow::Result<R>,
) -> anyhow::Result<R> {
    let path = traces.get(program, threads)?;
    Bench::with(scaled, &path, &ThreadsOn::RoundRobin, work)
}

/// Section 5.1: CG with six threads.
fn sampling(traces: &Traces, program: &Program) -> anyhow::Result<Vec<Exhibit>> {
    let settings: Vec<&str> = SCALE.iter().copied().chain(["hierarchy.l2.size=64K"]).collect();
    let scaled = Scaled::new("sunfire-6800", &settings)?;
    bench(&scaled, traces, program, SAMPLED_THREADS, |bench| {
        let mut table = Exhibit::new("table1")?;
        let read = reading(bench, &table)?;
        let listen = |period: &u32| -> anyhow::Result<Run> {
            match period {
                1 => bench.listen(&format!("interconnect-max:read={read}")),
                _ => bench.listen(&format!("interconnect:period={period},read={read}")),
            }
        };
        let all = [1u32, 64, 256, 1024, 4096, 16_384, 65_536];
        let runs: Vec<Run> = all.par_iter().map(listen).collect::<anyhow::Result<_>>()?;
        let published = [0, 4, 3, 2, 1].map(|at: usize| &runs[at].distance);
        table.line("average distance", "average distance", published.iter().map(|one| one.mean).collect());
        table.line("% sampled", "% sampled", published.iter().map(|one| one.sampled_percent).collect());
        let mut figure = Exhibit {
            id: "figure2".into(),
            place: "section 5.1, Figure 2 (no numbers printed)".into(),
            plotted: vec![0],
            columns: vec!["distance".into(), "% of pages sampled".into()],
            lines: Vec::new(),
            ..Exhibit::new("table1")?
        };
        for (period, run) in all.iter().zip(&runs) {
            let label = if *period == 1 { "maximum rate".into() } else { format!("every {period}") };
            figure.line(&label, &label, vec![run.distance.mean, run.distance.pages_percent]);
        }
        Ok(vec![table, figure])
    })
}

/// References that software takes to read an entry, so that at the maximum rate the published share is sampled.
fn reading(bench: &Bench, table: &Exhibit) -> anyhow::Result<u64> {
    let wanted = Exhibit::published(&table.id, "% sampled")?[0];
    // The share falls as reading takes longer.
    let (mut low, mut high) = (0u64, 1 << 12);
    while high - low > 1 {
        let middle = (low + high) / 2;
        let sampled = bench.listen(&format!("interconnect-max:read={middle}"))?.distance.sampled_percent;
        if sampled > wanted {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

/// A row of an exhibit.
struct Row {
    exhibit: &'static str,
    label: String,
    published_as: &'static str,
    values: Vec<f64>,
}

/// Sections 5.2 and 5.3, program by program.
fn programs(chosen: &Chosen, traces: &Traces) -> anyhow::Result<Vec<Exhibit>> {
    let figure7 = Exhibit {
        id: "figure7".into(),
        place: "section 5.3.2, Figure 7 (no numbers printed): % of all moves of mg in the first eighth, quarter, \
                half"
            .into(),
        columns: ["first eighth", "first quarter", "first half", "moves"].map(String::from).to_vec(),
        plotted: vec![0, 1, 2],
        ..Exhibit::new("table6a")?
    };
    let ids =
        ["inputs", "table2", "table3", "table4", "two-phase", "intervals", "table6a", "table6b", "table7"];
    let mut exhibits: Vec<Exhibit> = ids.into_iter().map(Exhibit::new).collect::<anyhow::Result<_>>()?;
    exhibits.push(figure7);
    let programs: Vec<&Program> = traces.of(TIKIR).collect();
    let of = |program: &&Program| {
        on_calibrated(traces, program, |bench, calibration| rows(chosen, program, bench, calibration))
    };
    let made: Vec<Vec<Row>> = programs.par_iter().map(of).collect::<anyhow::Result<_>>()?;
    for row in made.into_iter().flatten() {
        let exhibit = exhibits.iter_mut().find(|exhibit| exhibit.id == row.exhibit);
        exhibit.expect("one of these").line(&row.label, row.published_as, row.values);
    }
    Ok(exhibits)
}

/// All rows of a program.
fn rows(
    chosen: &Chosen,
    program: &Program,
    bench: &Bench,
    calibration: &Calibration,
) -> anyhow::Result<Vec<Row>> {
    let name = format!("{} ({})", program.name, program.stands_for);
    let row =
        |exhibit, values| Row { exhibit, label: name.clone(), published_as: program.stands_for, values };
    let before = bench.still(&Placement::FirstTouch)?;
    let together = Together::of(&before);
    let (remote, time) = (together.remote(&before), together.time(&before));
    let fewer = |run: &Run| less(remote, together.remote(run));
    let moving_s = calibration.move_ns * bench.pages() as f64 / 1e9;
    let given = vec![together.demand(&before) / 1e6, time / 1e9, calibration.rate / 1e6, moving_s];
    let label = format!("{name}, cache {}, {:.2} ns a reference", calibration.l2, calibration.compute_ns);
    let mut rows = vec![Row { label, ..row("inputs", given) }];
    if chosen.any(&MIGRATION) {
        let after = bench.moved(&Placement::FirstTouch, POLICY, ANALYSER, true)?;
        let change = -less(together.write_backs(&before), together.write_backs(&after));
        let overhead = 100.0 * together.moving(&after) / time;
        let gain = less(time, together.time(&after));
        rows.push(row("table2", vec![together.nonlocal(&before), together.nonlocal(&after), fewer(&after)]));
        rows.push(row("table3", vec![change]));
        rows.push(row("table4", vec![gain, overhead, after.account.moves as f64]));
    }
    if chosen.any(&["two-phase"]) {
        let placed = bench.still(&bench.profiled(&Placement::FirstTouch)?.2)?;
        let moved = bench.moved(&Placement::FirstTouch, POLICY, ANALYSER, true)?;
        rows.push(row("two-phase", vec![fewer(&moved), fewer(&placed), less(time, together.time(&placed))]));
    }
    if chosen.any(&["intervals"]) {
        let reduction = |intervals: u64| -> anyhow::Result<f64> {
            let run = bench.moved_in(intervals, &Placement::FirstTouch, POLICY, ANALYSER)?;
            Ok(less(nonlocal(&before), nonlocal(&run)))
        };
        rows.push(row("intervals", LENGTHS.into_iter().map(reduction).collect::<anyhow::Result<_>>()?));
    }
    // EP is not in Tables 6 and 7.
    if program.stands_for != "EP" && chosen.any(&PROFILES) {
        // The paper replayed these moves on its machine, whose threads stand still meanwhile.
        let run = |source: &&str| bench.moved(&Placement::FirstTouch, POLICY, source, true);
        let runs = SOURCES.par_iter().map(run).collect::<anyhow::Result<Vec<Run>>>()?;
        let all = |of: &dyn Fn(&Run) -> f64| runs.iter().map(of).collect::<Vec<f64>>();
        let perfect = (runs[5].account.moves as f64).max(1.0);
        rows.push(row("table6a", all(&fewer)));
        rows.push(row("table6b", all(&|run| run.account.moves as f64 / perfect)[..5].to_vec()));
        rows.push(row("table7", all(&|run| less(time, together.time(run)))));
        if program.stands_for == "MG" {
            let over_time = runs.iter().zip(SOURCES).map(|(run, source)| Row {
                exhibit: "figure7",
                label: source.into(),
                published_as: source,
                values: first_moves(run),
            });
            rows.extend(over_time);
        }
    }
    Ok(rows)
}

/// Non-local accesses of a whole run, in per cent.
fn nonlocal(run: &Run) -> f64 {
    let sum = |of: fn(&Interval) -> u64| run.intervals.iter().map(of).sum::<u64>() as f64;
    let remote = sum(|interval| interval.remote);
    100.0 * remote / (remote + sum(|interval| interval.local)).max(1.0)
}

/// Share of moves in the first eighth, quarter and half of the intervals, in per cent, and their number.
fn first_moves(run: &Run) -> Vec<f64> {
    let by_interval: Vec<u64> = run.intervals.iter().map(|interval| interval.moves_to.iter().sum()).collect();
    let all = by_interval.iter().sum::<u64>();
    let first = |part: usize| {
        let some: u64 = by_interval[..by_interval.len() / part].iter().sum();
        100.0 * some as f64 / (all as f64).max(1.0)
    };
    vec![first(8), first(4), first(2), all as f64]
}

/// All pages on one board, on all boards in turn, and where they are used.
fn contention(bench: &Bench) -> anyhow::Result<Exhibit> {
    let single = bench.still(&Placement::SingleNode(Node(0)))?;
    let uniform = bench.still(&Placement::RoundRobin)?;
    let learnt = bench.moved(&Placement::SingleNode(Node(0)), POLICY, "perfect", false)?;
    let used = PlacementFile::from_homes(&learnt.homes, homing_core::ids::PageSize::KIB4);
    let used = bench.still(&Placement::File(used))?;
    let mut table = Exhibit::new("contention")?;
    let together = Together::of(&single);
    let gain = |run: &Run| less(together.time(&single), together.time(run));
    table.line("mg (MG)", "MG", vec![gain(&uniform), gain(&used)]);
    let place = format!(
        "{}; non-local % of ours {:.0}, {:.0}, {:.0}",
        table.place,
        together.nonlocal(&single),
        together.nonlocal(&uniform),
        together.nonlocal(&used)
    );
    table.place = place;
    Ok(table)
}
