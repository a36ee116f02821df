//! What is set for each program, from the paper's Tables 2 and 4: how often a thread requests a line, and what a move
//! costs.

use super::super::exhibit::Exhibit;
use super::super::looped::{Bench, Scaled, Together};
use super::super::programs::{Program, Traces};
use super::{bench, SCALE, THREADS};
use homing_core::history::ThreadsOn;
use homing_core::policy::placement::Placement;

/// Second-level caches, from which the largest is taken with which a thread can request as often as the paper's, or
/// nearly.
const NEARLY: f64 = 0.95;
const CACHES: [&str; 5] = ["64K", "32K", "16K", "8K", "4K"];
/// The model of references wants a move to cost more than two remote ones.
const LEAST_MOVE_NS: f64 = 700.0;

/// What a program was set to.
pub struct Calibration {
    pub l2: &'static str,
    /// Nanoseconds beside each reference.
    pub compute_ns: f64,
    /// Requests of a thread in a second.
    pub rate: f64,
    /// Nanoseconds of a move.
    pub move_ns: f64,
}

impl Calibration {
    pub fn scaled(&self) -> anyhow::Result<Scaled> {
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
pub fn calibrated(traces: &Traces, program: &Program) -> anyhow::Result<Calibration> {
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
