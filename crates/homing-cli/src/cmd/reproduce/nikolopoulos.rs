//! Nikolopoulos et al. 2000, section 5: placements against first touch, without migration and with a user-level engine that reads
//! the Origin's counters.
//!
//! The machine is `origin2000-16` with caches and the cost of a move scaled to small programs (docs/reproduction.md).

use super::exhibit::Exhibit;
use super::looped::{less, time, Bench, Scaled};
use super::programs::{Traces, NIKOLOPOULOS};
use super::Chosen;
use homing_core::history::ThreadsOn;
use homing_core::ids::Node;
use homing_core::policy::placement::Placement;

const THREADS: u32 = 16;
const SCALE: &[&str] = &[
    "page_size=4K",
    "hierarchy.l1.size=4K",
    "hierarchy.l2.size=16K",
    "hierarchy.tlb=[{entries=16}]",
    "latency.page_move=5500",
    "time.shootdown_ns=60",
];
const POLICY: &str = "interval-majority";

/// All exhibits of the paper that were chosen.
pub fn exhibits(chosen: &Chosen, traces: &Traces) -> anyhow::Result<Vec<Exhibit>> {
    if !chosen.any(&["slowdown", "gain"]) {
        return Ok(Vec::new());
    }
    let scaled = Scaled::new("origin2000-16", SCALE)?;
    let placements = [Placement::FirstTouch, Placement::RoundRobin, Placement::SingleNode(Node(0))];
    let mut slowdowns = [[0.0; 2]; 2];
    let mut gain = 0.0;
    for program in NIKOLOPOULOS {
        let path = traces.get(program, THREADS)?;
        let times = Bench::with(&scaled, &path, &ThreadsOn::Fill, |bench| {
            let mut times = [[0.0; 3]; 2];
            for (column, placement) in placements.iter().enumerate() {
                times[0][column] = time(&bench.still(placement)?);
                times[1][column] = time(&bench.moved(placement, POLICY, "origin", false)?);
            }
            Ok(times)
        })?;
        for (engine, sums) in slowdowns.iter_mut().enumerate() {
            sums[0] += times[engine][1] / times[engine][0] / NIKOLOPOULOS.len() as f64;
            sums[1] += times[engine][2] / times[engine][0] / NIKOLOPOULOS.len() as f64;
        }
        gain += less(times[0][0], times[1][0]) / NIKOLOPOULOS.len() as f64;
    }
    let mut table = Exhibit::new("slowdown")?;
    table.line("no migration", "no migration", slowdowns[0].to_vec());
    table.line("user-level migration", "user-level migration", slowdowns[1].to_vec());
    let [none, user] = slowdowns;
    table.claim(none[1] > none[0], "all pages on one node are worse than pages on nodes in turn");
    table.claim(user[1] < none[1] && user[0] < none[0], "migration makes bad placements cheaper");
    table.claim(
        user[1] < 1.0 + (none[1] - 1.0) / 2.0,
        "it takes away more than half of the single-node slow-down",
    );
    let mut gains = Exhibit::new("gain")?;
    gains.line("mean", "mean", vec![gain]);
    gains.claim(gain > 0.0, "migration helps first touch too");
    Ok(vec![table, gains])
}
