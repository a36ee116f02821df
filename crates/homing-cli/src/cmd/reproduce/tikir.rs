//! Tikir & Hollingsworth 2008: sampling (Table 1, Figure 2), migration (Tables 2 to 4, Figure 3), profile sources
//! (Tables 6 and 7, Figures 6 and 7), contention (section 5.3.3).
//!
//! The machine is `sunfire-6800` with caches and TLBs scaled to programs of a hundredth of the size. Two numbers of
//! each program are set from the paper's Tables 2 and 4 ([`calibrated`]): how often a thread requests a line, and what
//! moving all pages once costs. docs/reproduction.md has the list of what is given and what results.

use super::claim::Claim;
use super::exhibit::Exhibit;
use super::looped::{less, Bench, Scaled, Together};
use super::programs::{Program, Traces, TIKIR};
use super::Chosen;
use homing_core::history::ThreadsOn;
use homing_core::ids::Node;
use homing_core::policy::placement::{Placement, PlacementFile};
use homing_core::system::{Interval, Run};
use rayon::prelude::*;

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
/// Second-level caches, from which the largest is taken with which a thread can request as often as the paper's, or
/// nearly.
const NEARLY: f64 = 0.95;
const CACHES: [&str; 5] = ["64K", "32K", "16K", "8K", "4K"];
/// The model of references wants a move to cost more than two remote ones.
const LEAST_MOVE_NS: f64 = 700.0;
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

/// What a program was set to.
struct Calibration {
    l2: &'static str,
    /// Nanoseconds beside each reference.
    compute_ns: f64,
    /// Requests of a thread in a second.
    rate: f64,
    /// Nanoseconds of a move.
    move_ns: f64,
}

impl Calibration {
    fn scaled(&self) -> anyhow::Result<Scaled> {
        let shootdown = self.move_ns * 5000.0 / 93_000.0;
        let own = [
            format!("hierarchy.l2.size={}", self.l2),
            format!("time.compute_ns={:?}", self.compute_ns),
            format!("latency.page_move={:?}", self.move_ns),
            format!("time.shootdown_ns={shootdown:?}"),
        ];
        let settings: Vec<&str> = SCALE.iter().copied().chain(own.iter().map(String::as_str)).collect();
        Scaled::new("sunfire-6800", &settings)
    }
}

/// Sets a program's second-level cache and its time beside each reference so that a thread requests lines as often as
/// the paper's (Tables 2 and 4), and the cost of a move so that moving all pages once takes the share of the time that
/// the paper's moves took (Table 4).
fn calibrated(traces: &Traces, program: &Program) -> anyhow::Result<Calibration> {
    let published = Exhibit::published("inputs", program.stands_for)?;
    let [transactions, seconds, moving_s] = [0, 1, 3].map(|column| published[column]);
    let wanted = transactions * 1e6 / seconds / f64::from(THREADS);
    let requests = f64::from(THREADS) * 1e-9;
    // Requests and time of a run without moves.
    let run = |calibration: &Calibration| -> anyhow::Result<(f64, f64)> {
        bench(&calibration.scaled()?, traces, program, THREADS, |bench| {
            let run = bench.still(&Placement::FirstTouch)?;
            let together = Together::of(&run);
            Ok((together.demand(&run), together.time(&run)))
        })
    };
    let mut found = Calibration { l2: CACHES[0], compute_ns: 0.0, rate: 0.0, move_ns: 1000.0 };
    let (mut demand, mut time) = run(&found)?;
    for l2 in &CACHES[1..] {
        if demand / time >= NEARLY * wanted * requests {
            break;
        }
        found.l2 = l2;
        (demand, time) = run(&found)?;
    }
    let aim = demand / (wanted * requests);
    // Time rises nearly in proportion to what is computed beside each reference: secants.
    let mut last = (0.0, time);
    found.compute_ns = 1.0;
    for _ in 0..3 {
        time = run(&found)?.1;
        let slope = (time - last.1) / (found.compute_ns - last.0);
        let next = (found.compute_ns + (aim - time) / slope).max(0.0);
        last = (found.compute_ns, time);
        if (time / aim - 1.0).abs() < 0.002 || next == found.compute_ns {
            break;
        }
        found.compute_ns = next;
    }
    found.rate = demand / run(&found)?.1 / requests;
    let path = traces.get(program, THREADS)?;
    let pages = Bench::with(&found.scaled()?, &path, &ThreadsOn::RoundRobin, |bench| Ok(bench.pages()))?;
    let moving_ns = moving_s * 1e9 * demand / (transactions * 1e6);
    found.move_ns = (moving_ns / (pages as f64).max(1.0)).max(LEAST_MOVE_NS);
    Ok(found)
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

/// What the paper says that its tables show.
pub fn claims(exhibit: &Exhibit) -> Vec<Claim> {
    let of = |row: &str, column: usize| exhibit.of(row, column);
    let rows: Vec<&str> = exhibit.lines.iter().map(|line| line.published_as.as_str()).collect();
    let each = |claim: Claim, rows: &[&str], holds: &dyn Fn(&str) -> bool| {
        let there = rows.iter().filter(|row| exhibit.row(row).is_some());
        there.fold(claim, |claim, row| claim.direction(row, holds(row)))
    };
    match exhibit.id.as_str() {
        "table1" => {
            let distance = |column| of("average distance", column);
            let least = (1..5).map(distance).fold(f64::INFINITY, f64::min);
            vec![
                Claim::new("for maximum-rate sampling the average distance over all processors is 0.56")
                    .direction("above all intervals", (1..5).all(|column| distance(0) > distance(column)))
                    .size("maximum rate", distance(0), 0.56),
                Claim::new(
                    "if interval sampling exceeds 5 % of all transactions, it becomes less representative",
                )
                .direction("every 64th above every 256th", distance(4) > distance(3))
                .size("every 64th", distance(4), 0.11),
                Claim::new("distances are low and similar for every 256th, 1024th and 4096th [within 0.02]")
                    .direction("similar", (1..4).all(|column| distance(column) - least < 0.02)),
                Claim::new("% of all transactions sampled, by interval")
                    .size("every 4096th", of("% sampled", 1), 0.19)
                    .size("every 1024th", of("% sampled", 2), 0.78)
                    .size("every 256th", of("% sampled", 3), 3.07)
                    .size("every 64th", of("% sampled", 4), 9.75),
            ]
        }
        "figure2" => {
            let column =
                |column: usize| exhibit.lines.iter().map(|line| line.ours[column]).collect::<Vec<_>>();
            let (errors, pages) = (column(0), column(1));
            let least = errors[1..].iter().copied().fold(f64::INFINITY, f64::min);
            let last = errors[errors.len() - 1];
            vec![
                Claim::new("the average sampling error is the highest for maximum-rate sampling")
                    .direction("maximum rate", errors[1..].iter().all(|&error| error < errors[0])),
                Claim::new(
                    "the error starts to increase again where the number of samples is not large enough",
                )
                .direction("the longest interval", last > 2.0 * least),
                Claim::new(
                    "as the interval increases, the percentage of pages sampled decreases dramatically",
                )
                .direction("falls", pages[1..].windows(2).all(|pair| pair[1] <= pair[0]))
                .direction("to less than half", pages[pages.len() - 1] < pages[1] / 2.0),
                Claim::new("for smaller intervals around 90 % of the pages are sampled [above 80]")
                    .direction("every 64th", pages[1] > 80.0)
                    .direction("every 256th", pages[2] > 80.0),
            ]
        }
        "table2" => {
            let mean = exhibit.mean(2);
            vec![
                Claim::new("dynamic page migration reduces non-local accesses of all applications")
                    .sizes(exhibit, 2, 0.0, &rows),
                Claim::new("the average reduction is 58.3 %").size("mean", mean, 58.3),
                Claim::new("least for LU: boards uniformly access the majority of the pages").above(
                    exhibit,
                    2,
                    &["BT", "CG", "EP", "FT", "MG", "SP"],
                    &["LU"],
                ),
                Claim::new("most for MG and CG").above(exhibit, 2, &["MG", "CG"], &["BT", "FT", "LU", "SP"]),
            ]
        }
        "table3" => vec![each(
            Claim::new("no significant effect on write-backs [less than the paper's largest change, 2.4 %]"),
            &rows,
            &|row| of(row, 0).abs() < 2.4,
        )],
        "table4" => vec![
            Claim::new("CG and SP gain 12.8 % and 13.2 %, MG 18.8 %").sizes(
                exhibit,
                0,
                0.0,
                &["CG", "SP", "MG"],
            ),
            Claim::new("not as effective for BT, EP and LU").above(
                exhibit,
                0,
                &["CG", "MG", "SP"],
                &["BT", "EP", "LU"],
            ),
            Claim::new("BT gains 2.6 %, LU 0.8 %").sizes(exhibit, 0, 0.0, &["BT", "LU"]),
            Claim::new("FT slows down, mainly by the overhead of migration").sizes(exhibit, 0, 0.0, &["FT"]),
        ],
        "two-phase" => vec![
            Claim::new(
                "static placement from a profile reduces non-local accesses less than migration, but for FT",
            )
            .direction("mean", {
                let others = || rows.iter().filter(|row| **row != "FT");
                others().map(|row| of(row, 1)).sum::<f64>() < others().map(|row| of(row, 0)).sum()
            }),
            Claim::new("for FT static placement reduces them by up to 68 %, migration by 54 %")
                .direction("static over migration", of("FT", 1) > of("FT", 0))
                .sizes(exhibit, 1, 0.0, &["FT"]),
            Claim::new("static placement improves times by only 0.02 to 7.9 % [CG, MG]")
                .direction("CG", of("CG", 2) < 7.9)
                .direction("MG", of("MG", 2) < 7.9),
        ],
        "intervals" => {
            let range = |row: &str| {
                let values: Vec<f64> = (0..LENGTHS.len()).map(|column| of(row, column)).collect();
                let (least, most) =
                    values.iter().fold((f64::MAX, f64::MIN), |(l, m), &v| (l.min(v), m.max(v)));
                most - least
            };
            let others: Vec<&str> = rows.iter().copied().filter(|row| *row != "MG").collect();
            vec![
                each(
                    Claim::new("the migration interval has no major impact, except for MG [15 points]"),
                    &others,
                    &|row| range(row) < 15.0,
                ),
                Claim::new("when migration is triggered at a slower rate, MG does not benefit")
                    .direction("MG", of("MG", LENGTHS.len() - 1) < of("MG", 0) / 2.0),
            ]
        }
        "table6a" => {
            let near = |first: usize, second: usize, within: f64| {
                move |row: &str| (exhibit.of(row, first) - exhibit.of(row, second)).abs() <= within
            };
            vec![
                Claim::new("perfect profiles reduce non-local accesses by 17.1 to 87.6 %")
                    .sizes(exhibit, 5, 0.0, &rows),
                Claim::new("interconnect transactions reduce them by 13.6 to 82.7 %")
                    .sizes(exhibit, 0, 0.0, &rows),
                each(Claim::new("TLB misses perform poorly compared to the others"), &rows, &|row| {
                    (0..6).all(|column| column == 2 || of(row, column) > of(row, 2))
                }),
                each(
                    Claim::new(
                        "cache misses perform similarly to interconnect transactions [the paper's within 3]",
                    ),
                    &rows,
                    &near(0, 1, 3.0),
                ),
                each(
                    Claim::new("ATC content performs similarly to TLB content [the paper's within 6.1]"),
                    &rows,
                    &near(3, 4, 6.1),
                ),
                Claim::new("for LU TLB and ATC content are not as effective as cache misses")
                    .direction("TLB content", of("LU", 3) < of("LU", 1))
                    .direction("ATC", of("LU", 4) < of("LU", 1)),
                Claim::new("LU has more non-local accesses if TLB misses are used")
                    .direction("LU", of("LU", 2) < 0.0),
            ]
        }
        "table6b" => vec![
            Claim::new("for CG and MG all but TLB misses move a comparable number of pages")
                .sizes(exhibit, 0, 0.0, &["CG", "MG"])
                .sizes(exhibit, 1, 0.0, &["CG", "MG"])
                .sizes(exhibit, 3, 0.0, &["CG", "MG"])
                .sizes(exhibit, 4, 0.0, &["CG", "MG"]),
            each(
                Claim::new("TLB and ATC content tend to trigger fewer migrations than the samples of misses"),
                &["BT", "FT", "LU", "SP"],
                &|row| of(row, 3).max(of(row, 4)) < of(row, 0).min(of(row, 1)),
            ),
        ],
        "table7" => vec![
            Claim::new("perfect profiles gain time").sizes(exhibit, 5, 0.0, &rows),
            each(Claim::new("TLB misses save the least"), &["BT", "CG", "MG", "SP"], &|row| {
                (0..6).all(|column| column == 2 || of(row, column) >= of(row, 2))
            }),
            Claim::new("most for MG, then CG and SP").above(exhibit, 5, &["MG"], &["CG", "SP"]).above(
                exhibit,
                5,
                &["CG", "SP"],
                &["BT", "FT", "LU"],
            ),
        ],
        "figure7" => {
            let tlb = SOURCES[2];
            let others: Vec<&str> = SOURCES.into_iter().filter(|source| *source != tlb).collect();
            vec![
                each(
                    Claim::new(
                        "with other sources than TLB misses the majority of migrations are early [half]",
                    ),
                    &others,
                    &|row| of(row, 2) > 50.0,
                ),
                each(Claim::new("TLB misses trigger significantly fewer"), &others, &|row| {
                    of(row, 3) > of(tlb, 3)
                }),
            ]
        }
        "contention" => vec![
            Claim::new("uniform placement gains 10.2 % at the same share of non-local accesses: contention")
                .sizes(exhibit, 0, 0.0, &["MG"]),
            Claim::new("placement where used gains a further 10.3 %: locality").size(
                "MG",
                of("MG", 1) - of("MG", 0),
                19.5 - 10.2,
            ),
        ],
        _ => Vec::new(),
    }
}
