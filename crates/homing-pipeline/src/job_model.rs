//! An application for the simulation of jobs, from traces of a program: what an iteration computes, what it misses in
//! memory, and on which data.
//!
//! Where one CPU alone misses for a while, the others wait for its serial work, or have less to do. The first thread's
//! serial misses are those stretches of the CPU that misses most, but not more than it has beyond the others.
//!
//! Each trace goes through the machine's caches once, with pages at first touch, memories at rest and threads where the
//! experiment says. Only whole iterations count, without the first one, which makes or fetches the data.

use crate::case::Case;
use crate::error::{PipelineError, Result};
use crate::experiment::Ready;
use crate::rig::Rig;
use crate::trace_file::TraceFile;
use homing_core::ids::{Node, Time};
use homing_core::monitor::{Monitor, Reports, Seen};
use homing_core::policy::placement::Placement;
use homing_core::policy::stay::Stay;
use homing_core::system::{self, Setup};
use homing_core::timeline::{Mark, Timeline};
use homing_sched::app::{App, Bytes, Init, Share};
use std::collections::BTreeMap;

/// Parts of a trace, of which those between the first and the last iteration's end are counted.
const PARTS: u64 = 1000;

/// Misses in a row of one CPU from which they are taken to be of serial work. One of the others in 16 does not end a
/// row: threads that wait look at what they wait for.
const ALONE: usize = 64;
const MAY_LOOK: usize = 16;

/// Settings of the machine for [`of`]: in the simulation of jobs memories are crowded by all jobs together.
pub const AT_REST: [&str; 2] = ["time.memory_busy_ns=0", "time.link_busy_ns=0"];

/// What was found in one trace.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Threads.
    pub threads: u32,
    /// Iterations that the trace marks.
    pub iterations: u64,
    /// Milliseconds of the slowest thread for an iteration, by the trace.
    pub iteration_ms: f64,
    /// Milliseconds of one iteration's work on one processor, without misses.
    compute_ms: f64,
    /// Share of that which one thread does alone.
    serial: f64,
    /// Misses of an iteration.
    misses: f64,
    /// The share of writes.
    writes: f64,
    /// The share that one thread has in serial work, and of the others the share that goes to data of all threads.
    serial_misses: f64,
    shared: f64,
    /// Bytes that are missed on.
    data: u64,
    init: Init,
}

/// Counts misses in a stretch of the trace.
struct Misses {
    from: u64,
    to: u64,
    /// Waits of each CPU in use, in local accesses.
    waits: Vec<f64>,
    /// By page: misses of each CPU, in all and in stretches of its own.
    pages: BTreeMap<u32, Vec<Count>>,
    /// The last misses in a row, the CPU that they are of, and how many of others came between.
    row: Vec<u32>,
    row_of: u16,
    between: usize,
    homes: BTreeMap<u32, Node>,
    writes: u64,
}

/// Misses of a CPU on a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    all: u64,
    /// While no other CPU missed.
    alone: u64,
}

impl Misses {
    fn next_of_row(&mut self, cpu: u16, page: u32) {
        if cpu != self.row_of {
            self.between += 1;
            if self.between * MAY_LOOK <= self.row.len() {
                return;
            }
            self.end_row();
            (self.row_of, self.between) = (cpu, 0);
        }
        self.row.push(page);
    }

    /// Others miss: what a CPU had in a row counts as alone if it was long enough.
    fn end_row(&mut self) {
        if self.row.len() < ALONE {
            self.row.clear();
        }
        for page in self.row.drain(..) {
            if let Some(by_cpu) = self.pages.get_mut(&page) {
                by_cpu[usize::from(self.row_of)].alone += 1;
            }
        }
    }
}

impl Monitor for Misses {
    fn transaction(&mut self, seen: &Seen, _: &mut Reports) {
        let Time(at) = seen.time;
        if !seen.kind.is_demand() || !(self.from..self.to).contains(&at) {
            return;
        }
        let cpus = self.waits.len();
        self.waits[usize::from(seen.cpu)] += seen.latency;
        self.pages.entry(seen.page).or_insert_with(|| vec![Count::default(); cpus])[usize::from(seen.cpu)]
            .all += 1;
        self.next_of_row(seen.cpu, seen.page);
        self.homes.insert(seen.page, seen.home);
        self.writes += u64::from(seen.kind.is_write());
    }
}

/// Where iterations end.
fn ends(timeline: &Timeline, duration: Time) -> Vec<u64> {
    let moments = timeline.moments(u64::MAX, duration);
    let ends = moments.iter().filter(|moment| matches!(moment.mark, Mark::IterationEnd));
    ends.map(|moment| moment.time.0).collect()
}

/// Measures one trace on a machine that is [`AT_REST`].
///
/// # Errors
/// If the trace cannot be read, has no iterations, or the machine has no times.
pub fn measure(ready: &Ready, file: &TraceFile) -> Result<Measured> {
    let case = Case::new(ready, file, None)?;
    let rig = Rig::new(&case)?;
    let choice = "perfect".parse().expect("a monitor that is there");
    let setup = rig.setup(&case, &Placement::FirstTouch, &choice);
    let times = match (setup.times, rig.no_times()) {
        (Some(times), _) => times,
        (None, why) => {
            let why = why.map_or_else(String::new, ToString::to_string);
            return Err(PipelineError::Usage(format!("{why}: an application needs times")));
        }
    };
    let ends = ends(&case.layout.timeline, Time(case.trace.references()));
    let (Some(&first), Some(&last)) = (ends.first(), ends.last()) else {
        return Err(none(0));
    };
    let interval = case.trace.references().div_ceil(PARTS).max(1);
    let (from, to) = (first.div_ceil(interval) * interval, last / interval * interval);
    if ends.len() < 3 || from >= to {
        return Err(none(ends.len()));
    }
    let cpus = setup.cpus.cpus().len();
    let (pages, homes) = (BTreeMap::new(), BTreeMap::new());
    let waits = vec![0.0; cpus];
    let monitor = Misses { from, to, waits, pages, row: Vec::new(), row_of: 0, between: 0, homes, writes: 0 };
    let setup = Setup { interval, ..setup };
    let (run, mut seen) = system::watch(&setup, &Stay, monitor).map_err(PipelineError::usage)?;
    let inside = run.intervals.iter().filter(|interval| interval.end > from && interval.end <= to);
    let mut busy_ns = vec![0.0; cpus];
    for elapsed in inside.filter_map(|interval| interval.modelled.as_ref()) {
        busy_ns.iter_mut().zip(&elapsed.cpus_ns).for_each(|(sum, ns)| *sum += ns);
    }
    let iterations = (ends.len() - 1) as f64 * (to - from) as f64 / (last - first) as f64;
    let waits = seen.waits.iter().map(|&cost| times.exposed_ns(cost));
    let compute_ns: Vec<f64> = busy_ns.iter().zip(waits).map(|(busy, wait)| (busy - wait).max(0.0)).collect();
    let compute: f64 = compute_ns.iter().sum();
    seen.end_row();
    let misses: u64 = seen.pages.values().flatten().map(|count| count.all).sum();
    let (serial_misses, shared) = shares_of_misses(seen.pages.values().map(Vec::as_slice), cpus);
    let share = |count: u64| count as f64 / (misses as f64).max(1.0);
    Ok(Measured {
        threads: cpus as u32,
        iterations: ends.len() as u64,
        iteration_ms: busy_ns.iter().copied().fold(0.0, f64::max) / iterations * 1e-6,
        compute_ms: compute / iterations * 1e-6,
        serial: serial(&compute_ns),
        misses: misses as f64 / iterations,
        writes: share(seen.writes),
        serial_misses,
        shared,
        data: seen.pages.len() as u64 * ready.page_size.bytes(),
        init: init(&seen, |cpu| setup.cpus.node(cpu as u16)),
    })
}

/// The share of the misses that one CPU has in serial work, and the share of the others that are of other CPUs than the
/// one that has most on its page.
fn shares_of_misses<'a>(pages: impl Iterator<Item = &'a [Count]> + Clone, cpus: usize) -> (f64, f64) {
    let mut of_cpus = vec![0.0; cpus];
    let mut alone = vec![0.0; cpus];
    for by_cpu in pages.clone() {
        for (cpu, count) in by_cpu.iter().enumerate() {
            of_cpus[cpu] += count.all as f64;
            alone[cpu] += count.alone as f64;
        }
    }
    let all: f64 = of_cpus.iter().sum();
    let Some(most) = (0..cpus).max_by(|&a, &b| of_cpus[a].total_cmp(&of_cpus[b])).filter(|_| all > 0.0)
    else {
        return (0.0, 0.0);
    };
    let serial_misses = serial(&of_cpus).min(alone[most] / all);
    // How much of what it missed alone is taken to be serial.
    let part = if alone[most] > 0.0 { serial_misses * all / alone[most] } else { 0.0 };
    let of_others = |by_cpu: &[Count]| -> f64 {
        let parallel = by_cpu.iter().enumerate().map(|(cpu, count)| match cpu == most {
            true => count.all as f64 - part * count.alone as f64,
            false => count.all as f64,
        });
        let (sum, greatest) =
            parallel.fold((0.0, 0.0f64), |(sum, most), count| (sum + count, most.max(count)));
        sum - greatest
    };
    let parallel = all * (1.0 - serial_misses);
    (serial_misses, if parallel > 0.0 { pages.map(of_others).sum::<f64>() / parallel } else { 0.0 })
}

/// The share that one thread does alone, if the others share the rest evenly: the busiest of p threads computes
/// serial + (1 - serial) / p of all.
fn serial(compute: &[f64]) -> f64 {
    let (p, all) = (compute.len() as f64, compute.iter().sum::<f64>());
    let most = compute.iter().copied().fold(0.0, f64::max);
    if p < 2.0 || all <= 0.0 {
        return 0.0;
    }
    ((most / all - 1.0 / p) / (1.0 - 1.0 / p)).clamp(0.0, 1.0)
}

/// One thread touched everything first if all that several nodes use is on one.
fn init(seen: &Misses, node: impl Fn(usize) -> Node) -> Init {
    let mut homes: Vec<Node> = seen.homes.values().copied().collect();
    homes.sort_unstable();
    homes.dedup();
    let mut users: Vec<Node> = seen
        .pages
        .values()
        .flat_map(|by_cpu| (0..by_cpu.len()).filter(|&cpu| by_cpu[cpu].all > 0))
        .map(node)
        .collect();
    users.sort_unstable();
    users.dedup();
    match homes.len() == 1 && users.len() > 1 {
        true => Init::Serial,
        false => Init::Parallel,
    }
}

/// The application, from traces of the same program with different numbers of threads.
///
/// # Errors
/// If there is none, or two have as many threads.
pub fn app(name: &str, mut measured: Vec<Measured>) -> Result<App> {
    measured.sort_by_key(|one| one.threads);
    if let Some(pair) = measured.windows(2).find(|pair| pair[0].threads == pair[1].threads) {
        let message =
            format!("two traces have {} threads: expected a number of its own for each", pair[0].threads);
        return Err(PipelineError::Usage(message));
    }
    let (Some(first), Some(last)) = (measured.first(), measured.last()) else {
        return Err(PipelineError::Usage("no trace".into()));
    };
    Ok(App {
        name: name.into(),
        request: last.threads,
        iterations: last.iterations as f64,
        compute_ms: rounded(first.compute_ms),
        serial: rounded(last.serial),
        overhead_us: 0.0,
        data: Bytes(measured.iter().map(|one| one.data).max().unwrap_or(0)),
        shared: rounded(last.shared),
        writes: rounded(last.writes),
        misses: measured.iter().map(|one| (f64::from(one.threads), one.misses.round())).collect(),
        serial_misses: Share::By(
            measured.iter().map(|one| (f64::from(one.threads), rounded(one.serial_misses))).collect(),
        ),
        init: last.init,
        malleable: true,
    })
}

/// Four digits.
fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().expect("a number")
}

fn none(found: usize) -> PipelineError {
    PipelineError::Usage(format!(
        "{found} iterations end in the trace: expected 3 or more; mark them (docs/recording.md, \"Marks\"), or say \
         where they end by --iterations"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(threads: u32, compute_ms: f64) -> Measured {
        Measured {
            threads,
            iterations: 5,
            iteration_ms: 1.0,
            compute_ms,
            serial: 0.123_45,
            misses: 100.4,
            writes: 0.25,
            shared: 0.0,
            serial_misses: 0.0,
            data: 4096 * u64::from(threads),
            init: Init::Serial,
        }
    }

    #[test]
    fn the_serial_share_by_hand() {
        // A fifth alone, the rest on four threads: 0.2 + 0.8 / 4 of all, and 0.2 for each of the others.
        assert!((serial(&[4.0, 2.0, 2.0, 2.0]) - 0.2).abs() < 1e-12);
        assert_eq!((serial(&[3.0, 3.0]), serial(&[3.0]), serial(&[0.0, 0.0])), (0.0, 0.0, 0.0));
    }

    #[test]
    fn rows_are_of_one_cpu_that_hardly_any_other_interrupts() {
        let pages = BTreeMap::from([(0, vec![Count::default(); 2])]);
        let mut misses = Misses {
            from: 0,
            to: 0,
            waits: Vec::new(),
            pages,
            row: Vec::new(),
            row_of: 0,
            between: 0,
            homes: BTreeMap::new(),
            writes: 0,
        };
        let alone = |misses: &mut Misses, rows: &[(u16, usize)]| {
            rows.iter().for_each(|&(cpu, count)| (0..count).for_each(|_| misses.next_of_row(cpu, 0)));
            misses.end_row();
            [0, 1].map(|cpu| std::mem::take(&mut misses.pages.get_mut(&0).unwrap()[cpu].alone))
        };
        assert_eq!(alone(&mut misses, &[(0, 63), (1, 67), (0, 1)]), [0, 64], "shorter ones do not count");
        assert_eq!(alone(&mut misses, &[(0, 32), (1, 2), (0, 32)]), [64, 0], "two looks in 32");
        assert_eq!(alone(&mut misses, &[(0, 32), (1, 3), (0, 32)]), [0, 0]);
    }

    #[test]
    fn shares_of_misses_by_hand() {
        let count = |all, alone| Count { all, alone };
        // Evenly, and one of four misses on the first page is the other's.
        let even = [vec![count(3, 0), count(1, 0)], vec![count(0, 0), count(2, 0)]];
        assert_eq!(shares_of_misses(even.iter().map(Vec::as_slice), 2), (0.0, 1.0 / 6.0));
        // The first CPU goes over both pages alone, then each over its own.
        let sweep = [vec![count(8, 4), count(0, 0)], vec![count(4, 4), count(4, 0)]];
        assert_eq!(shares_of_misses(sweep.iter().map(Vec::as_slice), 2), (0.5, 0.0));
        // Stretches of its own that the other has, too, are no serial work.
        let turns = [vec![count(4, 4), count(0, 0)], vec![count(0, 0), count(4, 4)]];
        assert_eq!(shares_of_misses(turns.iter().map(Vec::as_slice), 2), (0.0, 0.0));
        assert_eq!(shares_of_misses(std::iter::empty::<&[Count]>(), 2), (0.0, 0.0));
    }

    #[test]
    fn an_application_has_the_work_of_the_fewest_threads_and_the_rest_of_the_most() {
        let app = app("x", vec![measured(8, 9.0), measured(1, 7.0)]).unwrap();
        assert_eq!((app.request, app.compute_ms, app.serial), (8, 7.0, 0.1235));
        assert_eq!(
            (app.misses.as_slice(), app.data, app.init),
            (&[(1.0, 100.0), (8.0, 100.0)][..], Bytes(32768), Init::Serial)
        );
        let twice = super::app("x", vec![measured(8, 9.0), measured(8, 7.0)]).unwrap_err().to_string();
        assert!(twice.contains("two traces have 8 threads"), "{twice}");
    }
}
