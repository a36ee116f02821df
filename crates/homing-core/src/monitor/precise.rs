//! Precise event sampling: every Nth load or store whose latency reaches a threshold, with address, CPU and data
//! source, and without skid (Intel PEBS load latency, AMD IBS, Arm SPE).

use super::{Monitor, Reports, Seen};

/// Per CPU, every `period`-th transaction that is slow enough.
#[derive(Debug)]
pub struct Precise {
    period: u64,
    /// Least latency, in units of a local access; above 1 only non-local ones are seen.
    threshold: f64,
    counts: Vec<u64>,
}

impl Precise {
    /// A sampler on each of `cpus` CPUs.
    pub fn new(period: u64, threshold: f64, cpus: usize) -> Precise {
        Precise { period: period.max(1), threshold, counts: vec![0; cpus] }
    }
}

impl Monitor for Precise {
    fn transaction(&mut self, seen: &Seen, reports: &mut Reports) {
        if !seen.kind.is_demand() || seen.latency < self.threshold {
            return;
        }
        let count = &mut self.counts[seen.cpu as usize];
        *count += 1;
        if *count == self.period {
            *count = 0;
            reports.one(seen.cpu, seen.node, seen.page, seen.kind.is_write(), self.period as f64);
        }
    }
}
