//! Tikir & Hollingsworth 2008: sampling (Table 1, Figure 2), migration (Tables 2 to 4, Figure 3), profile sources
//! (Tables 6 and 7, Figures 6 and 7), contention (section 5.3.3).
//!
//! The machine is `sunfire-6800` with caches, TLBs and the cost of a move scaled to programs of a hundredth of the size
//! (docs/reproduction.md).

use super::exhibit::Exhibit;
use super::looped::{less, Bench, Scaled, Together};
use super::programs::{Program, Traces, TIKIR};
use super::Chosen;
use homing_core::history::ThreadsOn;
use homing_core::ids::Node;
use homing_core::policy::placement::{Placement, PlacementFile};
use homing_core::system::Run;
use rayon::prelude::*;

const THREADS: u32 = 12;
const SCALE: &[&str] = &[
    "page_size=4K",
    // As Solaris chooses frames: a page that moves keeps its cache sets.
    "hierarchy.page_colouring=true",
    "hierarchy.l1.size=4K",
    "hierarchy.l2.size=64K",
    "hierarchy.l2.line=128",
    "hierarchy.tlb=[{entries=4}, {entries=16, ways=2}]",
    "latency.page_move=1100",
    "time.shootdown_ns=60",
    "time.memory_busy_ns=20",
    "time.link_busy_ns=27",
];
const POLICY: &str = "interval-majority";
/// Sources in the order of the columns of Tables 6 and 7, with sampling scaled as the runs are.
const SOURCES: [&str; 6] = [
    "interconnect:period=16",
    "cache-misses:period=16",
    "tlb-misses:period=16",
    "tlb-content:every=4096",
    "atc:every=4096",
    "perfect-next",
];

/// All exhibits of the paper that were chosen.
pub fn exhibits(chosen: &Chosen, traces: &Traces) -> anyhow::Result<Vec<Exhibit>> {
    let scaled = Scaled::new("sunfire-6800", SCALE)?;
    let mut all = Vec::new();
    let program = |name: &str| TIKIR.iter().find(|p| p.name == name).expect("it is in the list");
    if chosen.any(&["table1", "figure2"]) {
        all.extend(bench(&scaled, traces, program("cg"), sampling)?);
    }
    if chosen.any(&["table2", "table3", "table4"]) {
        all.extend(migration(&scaled, traces)?);
    }
    if chosen.any(&["table6a", "table6b", "table7", "figure7"]) {
        all.extend(sources(&scaled, traces)?);
    }
    if chosen.any(&["contention"]) {
        all.push(bench(&scaled, traces, program("mg"), contention)?);
    }
    Ok(all)
}

fn bench<R>(
    scaled: &Scaled,
    traces: &Traces,
    program: &Program,
    work: impl FnOnce(&Bench) -> anyhow::Result<R>,
) -> anyhow::Result<R> {
    let path = traces.get(program, THREADS)?;
    Bench::with(scaled, &path, &ThreadsOn::RoundRobin, work)
}

fn sampling(bench: &Bench) -> anyhow::Result<Vec<Exhibit>> {
    let mut table = Exhibit::new("table1")?;
    let monitors = [
        "interconnect-max",
        "interconnect:period=4096",
        "interconnect:period=1024",
        "interconnect:period=256",
        "interconnect:period=64",
    ];
    let runs: Vec<Run> =
        monitors.par_iter().map(|monitor| bench.listen(monitor)).collect::<anyhow::Result<_>>()?;
    let distances: Vec<_> = runs.iter().map(|run| &run.distance).collect();
    let mean: Vec<f64> = distances.iter().map(|distance| distance.mean).collect();
    table.line("average distance", "average distance", mean.clone());
    table.line("% sampled", "% sampled", distances.iter().map(|distance| distance.sampled_percent).collect());
    let many = |i: &usize| runs[*i].samples >= 2000;
    let distorts = (1..5).filter(many).all(|i| mean[0] > mean[i]);
    table.claim(distorts, "maximum rate distorts more than every interval that leaves at least 2000 samples");
    let mut figure = Exhibit {
        id: "figure2".into(),
        place: "section 5.1, Figure 2 (no numbers printed)".into(),
        plotted: vec![0],
        columns: vec!["distance".into(), "% of pages sampled".into()],
        lines: Vec::new(),
        ..Exhibit::new("table1")?
    };
    let mut points = vec![(distances[0].mean, distances[0].pages_percent)];
    figure.line("maximum rate", "", vec![points[0].0, points[0].1]);
    for period in [64u32, 256, 1024, 4096, 16384, 65536] {
        let distance = bench.listen(&format!("interconnect:period={period}"))?.distance;
        figure.line(&format!("every {period}"), "", vec![distance.mean, distance.pages_percent]);
        points.push((distance.mean, distance.pages_percent));
    }
    let least = points[1..].iter().fold(f64::INFINITY, |least, point| least.min(point.0));
    figure.claim(points[6].0 > 2.0 * least, "the error rises again where samples are few");
    let falling = points[1..].windows(2).all(|pair| pair[1].1 <= pair[0].1);
    figure.claim(falling, "the share of pages that are sampled falls as the interval grows");
    Ok(vec![table, figure])
}

fn migration(scaled: &Scaled, traces: &Traces) -> anyhow::Result<Vec<Exhibit>> {
    let (mut shares, mut write_backs) = (Exhibit::new("table2")?, Exhibit::new("table3")?);
    let mut times = Exhibit::new("table4")?;
    for program in TIKIR {
        let (before, after) = bench(scaled, traces, program, |bench| {
            let start = start(program);
            Ok((bench.still(&start)?, bench.moved(&start, POLICY, SOURCES[0], true)?))
        })?;
        let (name, together) = (label(program), Together::of(&before));
        let reduction = less(together.remote(&before), together.remote(&after));
        let shares_of = vec![together.nonlocal(&before), together.nonlocal(&after), reduction];
        shares.line(&name, program.stands_for, shares_of);
        let change = -less(together.write_backs(&before), together.write_backs(&after));
        write_backs.line(&name, program.stands_for, vec![change]);
        let time = together.time(&before);
        let overhead = 100.0 * together.moving(&after) / time;
        let values = vec![less(time, together.time(&after)), overhead, after.account.moves as f64];
        times.line(&name, program.stands_for, values);
    }
    let reduced = shares.lines.iter().all(|line| line.ours[2] > 0.0);
    shares.claim(reduced, "migration reduces non-local accesses of every program");
    let reduction =
        |program: &str| shares.lines.iter().find(|l| l.label.starts_with(program)).map(|l| l.ours[2]);
    let (mg, cg, lu) = (reduction("mg"), reduction("cg"), reduction("sorbyc"));
    shares.claim(
        cg > lu && mg > lu,
        "least where all boards use all pages (LU), most where one board holds them (CG, MG)",
    );
    let small = write_backs.lines.iter().all(|line| line.ours[0].abs() < 5.0);
    write_backs.claim(small, "migration hardly changes write-backs");
    claims_of_times(&mut times);
    Ok(vec![shares, write_backs, times])
}

fn claims_of_times(times: &mut Exhibit) {
    let lines = times.lines.clone();
    let of = |program: &str, column: usize| -> f64 {
        let line = lines.iter().find(|line| line.label.ends_with(&format!("({program})")));
        line.map_or(f64::NAN, |line| line.ours[column])
    };
    let gains = ["MG", "CG", "SP"].iter().all(|many| ["BT", "LU"].iter().all(|few| of(many, 0) > of(few, 0)));
    let overhead = ["BT", "CG", "LU", "MG", "SP"].iter().all(|other| of("FT", 1) > of(other, 1));
    let least = ["BT", "CG", "LU", "MG", "SP"].iter().all(|other| of("FT", 0) < of(other, 0));
    times.claim(gains, "MG, CG and SP gain more time than BT and LU");
    times.claim(overhead, "overhead takes the largest share of the time of FT");
    times.claim(least && of("FT", 0) < 0.0, "FT alone loses time, by that overhead");
}

/// Where the pages are before migration.
fn start(program: &Program) -> Placement {
    if program.serial_start {
        Placement::SingleNode(Node(0))
    } else {
        Placement::FirstTouch
    }
}

fn label(program: &Program) -> String {
    format!("{} ({})", program.name, program.stands_for)
}

fn sources(scaled: &Scaled, traces: &Traces) -> anyhow::Result<Vec<Exhibit>> {
    let mut reduced = Exhibit::new("table6a")?;
    let mut moves = Exhibit::new("table6b")?;
    let mut times = Exhibit::new("table7")?;
    let mut over_time = Exhibit {
        id: "figure7".into(),
        place: "section 5.3.2, Figure 7 (no numbers printed): % of all moves of mg in the first eighth, quarter, \
        half".into(),
        columns: ["first eighth", "first quarter", "first half", "moves"].map(String::from).to_vec(),
        plotted: vec![0, 1, 2],
        ..Exhibit::new("table6a")?
    };
    for program in TIKIR {
        let (before, runs) = bench(scaled, traces, program, |bench| {
            let start = start(program);
            let run = |source: &&str| bench.moved(&start, POLICY, source, false);
            Ok((bench.still(&start)?, SOURCES.par_iter().map(run).collect::<anyhow::Result<Vec<Run>>>()?))
        })?;
        let (name, together) = (label(program), Together::of(&before));
        let all = |of: &dyn Fn(&Run) -> f64| runs.iter().map(of).collect::<Vec<f64>>();
        let remote = together.remote(&before);
        reduced.line(&name, program.stands_for, all(&|run| less(remote, together.remote(run))));
        let perfect = (runs[5].account.moves as f64).max(1.0);
        moves.line(&name, program.stands_for, all(&|run| run.account.moves as f64 / perfect)[..5].to_vec());
        times.line(&name, program.stands_for, all(&|run| less(together.time(&before), together.time(run))));
        if program.name == "mg" {
            runs.iter().zip(SOURCES).for_each(|(run, source)| over_time.line(source, "", first_moves(run)));
        }
    }
    let mean: Vec<f64> = (0..6).map(|column| reduced.mean(column)).collect();
    let worst = (0..6).all(|column| column == 2 || mean[column] > mean[2]);
    reduced.claim(worst, "TLB misses are the worst source");
    reduced.claim((mean[0] - mean[1]).abs() < 10.0, "cache misses are as good as interconnect transactions");
    reduced.claim(mean[1] > 0.8 * mean[5], "cache misses come near perfect profiles");
    reduced.claim((mean[3] - mean[4]).abs() < 15.0, "TLB content and translation counters are alike");
    let mean: Vec<f64> = (0..6).map(|column| times.mean(column)).collect();
    let last = (0..6).all(|column| column == 2 || mean[column] > mean[2]);
    times.claim(last, "TLB misses save the least time");
    let early =
        over_time.lines.iter().enumerate().filter(|(i, _)| *i != 2).all(|(_, line)| line.ours[2] > 50.0);
    over_time.claim(early, "but for TLB misses, most moves are early");
    Ok(vec![reduced, moves, times, over_time])
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
    let (uniform, used) = (table.lines[0].ours[0], table.lines[0].ours[1]);
    table.claim(
        uniform > 0.0,
        "at nearly the same share of non-local misses, spreading pages saves time: contention",
    );
    table.claim(used > uniform, "placing them where they are used saves more: distance");
    Ok(table)
}
