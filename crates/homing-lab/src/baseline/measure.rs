//! What one run was like, from the observer's counts and the kernel's.

use crate::observer::{Interval, Observed};
use crate::session::Ended;
use crate::topology::Topology;
use serde::Serialize;

/// The model's time of an access that hits the cache, in nanoseconds.
const HIT_NS: f64 = 1.0;
/// Windows are joined intervals, so that a short one with few misses does not look like a change.
const WINDOW: usize = 5;
/// A window whose non-local % is no more than this above the highest of the tail has settled.
const SETTLED: f64 = 2.0;
/// A window with less than this share of the mean window's misses is no evidence.
const THIN: f64 = 0.5;

/// One run. Percentages are of misses.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Measured {
    /// Of the whole run.
    pub nonlocal_percent: f64,
    /// Of the last third of the misses.
    pub tail_percent: f64,
    /// Over time: ten parts of the run.
    pub course_percent: Vec<f64>,
    /// Every interval of one run: its end in seconds since the first, and its non-local %. Runs have it, medians do
    /// not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub curve: Vec<[f64; 2]>,
    /// Every page at the node that misses most on it, from this run's counts by page.
    pub bound_4k_percent: f64,
    /// ... with pages of 2 MiB.
    pub bound_2m_percent: f64,
    /// Seconds from the first counted access until the non-local % stays within 2 points of the tail's highest.
    pub settled_seconds: f64,
    /// Pages that the kernel moved, whoever asked.
    pub moved_pages: f64,
    /// Pages that it could not move.
    pub failed_pages: f64,
    /// Hint faults.
    pub hint_faults: f64,
    /// The slowest CPU's accesses at 1 ns and misses at the topology's latency, without contention and cost of moves.
    pub modelled_ms: f64,
    /// Accesses.
    pub accesses: f64,
    /// Misses.
    pub misses: f64,
    /// Of the program, on the emulated machine. Without delays no measure of anything but patience.
    pub seconds: f64,
    /// ... from the first access that counts to the last, to an interval.
    pub counted_seconds: f64,
    /// What a miss waited for others at the memories, in nanoseconds; 0 where memories have no load.
    pub wait_ns: f64,
}

impl Measured {
    /// Of a run that was observed with a cache and by page.
    pub fn new(ended: &Ended, topology: &Topology) -> Measured {
        let Some(observed) = &ended.observed else { return Measured::default() };
        let total = observed.total();
        let tail_percent = percent(observed, tail(&observed.intervals));
        let kernel = |name: &str| ended.kernel.get(name).copied().unwrap_or(0) as f64;
        Measured {
            nonlocal_percent: observed.nonlocal_percent(&total.misses),
            tail_percent,
            course_percent: observed.course(10),
            curve: curve(observed),
            bound_4k_percent: observed.bound(4 << 10).miss_percent,
            bound_2m_percent: observed.bound(2 << 20).miss_percent,
            settled_seconds: settled_ms(observed) / 1e3,
            moved_pages: kernel("pgmigrate_success"),
            failed_pages: kernel("pgmigrate_fail"),
            hint_faults: kernel("numa_hint_faults"),
            modelled_ms: modelled_ms(&total, &observed.node_of_cpu, &topology.latency),
            accesses: total.accesses.total() as f64,
            misses: total.misses.total() as f64,
            seconds: ended.ran.as_secs_f64(),
            counted_seconds: counted_ms(observed) as f64 / 1e3,
            wait_ns: observed.waited.iter().sum::<u64>() as f64 / (total.misses.total() as f64).max(1.0),
        }
    }

    fn numbers(&mut self) -> Vec<&mut f64> {
        let mut all = vec![
            &mut self.nonlocal_percent,
            &mut self.tail_percent,
            &mut self.bound_4k_percent,
            &mut self.bound_2m_percent,
            &mut self.settled_seconds,
            &mut self.moved_pages,
            &mut self.failed_pages,
            &mut self.hint_faults,
            &mut self.modelled_ms,
            &mut self.accesses,
            &mut self.misses,
            &mut self.seconds,
            &mut self.counted_seconds,
            &mut self.wait_ns,
        ];
        all.extend(self.course_percent.iter_mut());
        all
    }
}

/// All runs of a contender at one setting of huge pages.
#[derive(Debug, Serialize)]
pub struct Summary {
    /// The contender.
    pub contender: String,
    /// Transparent huge pages.
    pub thp: &'static str,
    /// The medians, number by number.
    pub median: Measured,
    /// Each run.
    pub runs: Vec<Measured>,
}

impl Summary {
    /// Takes the medians.
    pub fn new(contender: &str, thp: &'static str, runs: Vec<Measured>) -> Summary {
        // A run shorter than ten intervals has fewer points over time.
        let points = runs.iter().map(|run| run.course_percent.len()).min().unwrap_or(0);
        let mut all = runs.clone();
        all.iter_mut().for_each(|run| run.course_percent.truncate(points));
        let mut columns: Vec<Vec<f64>> = Vec::new();
        for run in &mut all {
            let numbers = run.numbers();
            columns.resize(numbers.len(), Vec::new());
            columns.iter_mut().zip(numbers).for_each(|(column, number)| column.push(*number));
        }
        let mut median = all.first().cloned().unwrap_or_default();
        median.curve.clear();
        median.numbers().into_iter().zip(columns).for_each(|(number, column)| *number = middle(column));
        Summary { contender: contender.into(), thp, median, runs }
    }
}

fn curve(observed: &Observed) -> Vec<[f64; 2]> {
    let first = observed.intervals.first().map_or(0, |interval| interval.ms);
    let point = |interval: &Interval| {
        let percent = observed.nonlocal_percent(observed.transactions(interval));
        [interval.ms.saturating_sub(first) as f64 / 1e3, percent]
    };
    observed.intervals.iter().map(point).collect()
}

/// From the end of the first interval in which something counts to the end of the last.
fn counted_ms(observed: &Observed) -> u64 {
    let mut ends = observed.intervals.iter().map(|interval| interval.ms);
    let first = ends.next().unwrap_or(0);
    ends.next_back().unwrap_or(first) - first
}

fn middle(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    let half = numbers.len() / 2;
    if numbers.len() % 2 == 1 {
        numbers[half]
    } else {
        (numbers[half - 1] + numbers[half]) / 2.0
    }
}

fn percent(observed: &Observed, intervals: &[Interval]) -> f64 {
    observed.nonlocal_percent(&observed.sum(intervals).misses)
}

/// The last intervals that have at least a third of the misses.
fn tail(intervals: &[Interval]) -> &[Interval] {
    let all: u64 = intervals.iter().map(|interval| interval.misses.total()).sum();
    let (mut sum, mut from) = (0, intervals.len());
    while from > 0 && 3 * sum < all {
        from -= 1;
        sum += intervals[from].misses.total();
    }
    &intervals[from..]
}

/// Several intervals in a row.
struct Window {
    /// Non-local % of its misses.
    percent: f64,
    misses: u64,
    /// CPUs that do a tenth as much as the busiest one, or more.
    busy: usize,
    /// Its end.
    ms: u64,
}

impl Window {
    fn of(observed: &Observed, intervals: &[Interval]) -> Window {
        let sum = observed.sum(intervals);
        let by_cpu: Vec<u64> = sum.accesses.both().iter().map(|row| row.iter().sum()).collect();
        let most = by_cpu.iter().copied().max().unwrap_or(0);
        Window {
            percent: observed.nonlocal_percent(&sum.misses),
            misses: sum.misses.total(),
            busy: by_cpu.iter().filter(|&&accesses| accesses > 0 && 10 * accesses >= most).count(),
            ms: intervals[intervals.len() - 1].ms,
        }
    }
}

/// To the end of the last window that is above all of the tail's, which have the program's own ups and downs. Windows
/// with few misses are no evidence, nor are those in which at most half of the CPUs work that did at most: a program
/// that begins or ends with one thread says nothing about its parallel part there.
fn settled_ms(observed: &Observed) -> f64 {
    let intervals = &observed.intervals;
    let mut windows: Vec<Window> = intervals.chunks(WINDOW).map(|part| Window::of(observed, part)).collect();
    let mean = windows.iter().map(|window| window.misses as f64).sum::<f64>() / windows.len().max(1) as f64;
    windows.retain(|window| window.misses as f64 >= THIN * mean);
    let busiest = windows.iter().map(|window| window.busy).max().unwrap_or(0);
    windows.retain(|window| 2 * window.busy > busiest);
    let all: u64 = windows.iter().map(|window| window.misses).sum();
    let (mut sum, mut from) = (0, windows.len());
    while from > 0 && 3 * sum < all {
        from -= 1;
        sum += windows[from].misses;
    }
    let highest = windows[from..].iter().map(|window| window.percent).fold(0.0, f64::max);
    let last = windows.iter().rfind(|window| window.percent > highest + SETTLED);
    let begin = intervals.first().map_or(0, |first| first.ms);
    last.map_or(0.0, |window| window.ms.saturating_sub(begin) as f64)
}

fn modelled_ms(total: &Interval, node_of_cpu: &[usize], latency: &[Vec<f64>]) -> f64 {
    let rows = total.accesses.both().into_iter().zip(total.misses.both()).zip(node_of_cpu);
    let cpu_ns = rows.map(|((accesses, misses), &node)| {
        let hits = accesses.iter().sum::<u64>() as f64 * HIT_NS;
        hits + misses.iter().zip(&latency[node]).map(|(&count, ns)| count as f64 * ns).sum::<f64>()
    });
    cpu_ns.fold(0.0, f64::max) / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observer::Counts;

    /// An interval in which CPU 0 misses so often on node 0 and node 1.
    fn interval(ms: u64, near: u64, far: u64) -> Interval {
        let counts = Counts { reads: vec![vec![near, far], vec![0, 0]], writes: vec![vec![0, 0]; 2] };
        Interval { ms, accesses: counts.clone(), misses: counts }
    }

    fn observed(intervals: Vec<Interval>) -> Observed {
        Observed {
            node_of_cpu: vec![0, 1],
            nodes: vec![0, 1],
            cached: true,
            intervals,
            ..Observed::default()
        }
    }

    #[test]
    fn tail_convergence_and_modelled_time() {
        let mut intervals: Vec<_> = (1..=10).map(|n| interval(100 * n, 20, 80)).collect();
        intervals.extend((11..=30).map(|n| interval(100 * n, 90, 10)));
        let observed = observed(intervals);
        assert_eq!(tail(&observed.intervals).len(), 10);
        assert_eq!(percent(&observed, tail(&observed.intervals)), 10.0);
        assert_eq!(settled_ms(&observed), 900.0);
        let ms =
            modelled_ms(&observed.total(), &observed.node_of_cpu, &[vec![80.0, 160.0], vec![160.0, 80.0]]);
        assert_eq!(ms, (3000.0 + 2000.0 * 80.0 + 1000.0 * 160.0) / 1e6);
    }

    #[test]
    fn ups_and_downs_and_thin_windows_are_settled() {
        let mut intervals: Vec<_> = (1..=10).map(|n| interval(100 * n, 20, 80)).collect();
        let wave = |n: u64| interval(100 * n, 90 - n / 5 % 2 * 15, 10 + n / 5 % 2 * 15);
        intervals.extend((11..=60).map(wave));
        intervals.extend((61..=65).map(|n| interval(100 * n, 0, 5)));
        assert_eq!(settled_ms(&observed(intervals)), 900.0);
        assert_eq!(settled_ms(&observed((11..=60).map(wave).collect())), 0.0);
        assert_eq!(settled_ms(&observed(Vec::new())), 0.0);
    }

    #[test]
    fn a_serial_end_does_not_hide_when_the_parallel_part_settled() {
        let both = |n: u64, near: u64, far: u64| {
            let mut interval = interval(100 * n, near, far);
            interval.accesses.reads[1] = vec![far, near];
            interval.misses.reads[1] = vec![far, near];
            interval
        };
        let mut intervals: Vec<_> = (1..=10).map(|n| both(n, 20, 80)).collect();
        intervals.extend((11..=30).map(|n| both(n, 90, 10)));
        // Then one thread reads what all have made, as much in each interval.
        intervals.extend((31..=60).map(|n| interval(100 * n, 40, 160)));
        assert_eq!(settled_ms(&observed(intervals)), 900.0);
    }

    #[test]
    fn medians_are_taken_number_by_number() {
        let run = |moved_pages: f64, course_percent: Vec<f64>| Measured {
            moved_pages,
            course_percent,
            ..Measured::default()
        };
        let runs = vec![run(3.0, vec![1.0, 5.0]), run(1.0, vec![2.0]), run(2.0, vec![9.0, 7.0])];
        let summary = Summary::new("x", "never", runs);
        assert_eq!((summary.median.moved_pages, summary.median.course_percent), (2.0, vec![2.0]));
        assert_eq!(summary.runs[0].course_percent.len(), 2);
        assert_eq!(middle(vec![4.0, 1.0]), 2.5);
    }
}
