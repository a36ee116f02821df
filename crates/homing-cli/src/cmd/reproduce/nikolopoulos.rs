//! Nikolopoulos et al. 2000, section 5: placements against first touch, without migration, with the kernel's engine, and with the
//! user-level engine that reads the Origin's counters.
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
/// Engines beside none: the kernel's, which counters interrupt, and the user-level one, which reads them.
const ENGINES: [(&str, &str); 2] = [("irix", "cache-misses:period=2"), ("competitive", "origin")];

/// All exhibits of the paper that were chosen.
pub fn exhibits(chosen: &Chosen, traces: &Traces) -> anyhow::Result<Vec<Exhibit>> {
    if !chosen.any(&["slowdown", "gain"]) {
        return Ok(Vec::new());
    }
    let scaled = Scaled::new("origin2000-16", SCALE)?;
    let placements = [Placement::FirstTouch, Placement::RoundRobin, Placement::SingleNode(Node(0))];
    let mut slowdowns = [[0.0; 2]; 3];
    let mut gains = [0.0; 2];
    for program in NIKOLOPOULOS {
        let path = traces.get(program, THREADS)?;
        let times = Bench::with(&scaled, &path, &ThreadsOn::Fill, |bench| {
            let mut times = [[0.0; 3]; 3];
            for (column, placement) in placements.iter().enumerate() {
                times[0][column] = time(&bench.still(placement)?);
                for (row, (policy, monitor)) in ENGINES.iter().enumerate() {
                    times[row + 1][column] = time(&bench.moved(placement, policy, monitor, false)?);
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
