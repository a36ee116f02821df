//! Sampling each CPU's own misses: performance counters that interrupt at every Nth event and tell its address (Tikir &
//! Hollingsworth 2008, section 4.1: the event address registers of the Itanium 2; today's precise events of cache
//! misses).

use super::{Missed, Monitor, Reports, Seen};

/// Every `period`-th event of each CPU.
#[derive(Debug)]
struct PerCpu {
    period: u64,
    counts: Vec<u64>,
}

impl PerCpu {
    fn new(period: u64, cpus: usize) -> PerCpu {
        // CPUs begin apart, as their counters do.
        let period = period.max(1);
        PerCpu { period, counts: (0..cpus as u64).map(|cpu| cpu * period / cpus.max(1) as u64).collect() }
    }

    fn due(&mut self, cpu: u16) -> bool {
        let count = &mut self.counts[cpu as usize];
        *count += 1;
        let due = *count >= self.period;
        if due {
            *count = 0;
        }
        due
    }
}

/// Misses of the last private cache.
#[derive(Debug)]
pub struct CacheMisses(PerCpu);

impl CacheMisses {
    /// Every `period`-th of each CPU.
    pub fn new(period: u64, cpus: usize) -> CacheMisses {
        CacheMisses(PerCpu::new(period, cpus))
    }
}

impl Monitor for CacheMisses {
    fn transaction(&mut self, seen: &Seen, reports: &mut Reports) {
        if seen.kind.is_demand() && self.0.due(seen.cpu) {
            reports.interrupts += 1;
            reports.one(seen.cpu, seen.node, seen.page, seen.kind.is_write(), self.0.period as f64);
        }
    }
}

/// Misses of the data TLB. Pages in frequent use stay in the TLB and are hardly seen.
#[derive(Debug)]
pub struct TlbMisses(PerCpu);

impl TlbMisses {
    /// Every `period`-th of each CPU.
    pub fn new(period: u64, cpus: usize) -> TlbMisses {
        TlbMisses(PerCpu::new(period, cpus))
    }
}

impl Monitor for TlbMisses {
    fn tlb_miss(&mut self, miss: &Missed, reports: &mut Reports) {
        if self.0.due(miss.cpu) {
            reports.interrupts += 1;
            reports.one(miss.cpu, miss.node, miss.page, false, self.0.period as f64);
        }
    }
}
