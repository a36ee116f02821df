//! Sampling the address transactions of a bus or switch that one monitor can listen to: Sun Fire Link hardware monitors
//! (Tikir & Hollingsworth 2008, sections 2.2 and 5.1).
//!
//! The bus analyser "has an 8-deep FIFO that records a limited sequence of consecutive interconnect address
//! transactions". Software reads it, and while it reads the analyser records nothing new.
//! *Interval* sampling takes the transactions that come at every Nth: as many as the FIFO holds, since the published
//! shares of transactions sampled (Table 1: 0.19, 0.78, 3.07, 9.75 % at N = 4096, 1024, 256, 64) are 8 / N, less what
//! is lost at 64. *Maximum-rate* sampling takes what comes whenever the FIFO is free, so that a processor which asks in
//! bursts is under-represented.

use super::{Monitor, Reports, Seen};
use crate::cache::Kind;

/// Entries of the FIFO.
pub const DEPTH: u64 = 8;

/// Which transactions are looked at: a mask over [`Kind::ALL`], a CPU, a range of addresses (section 2.2).
#[derive(Clone, Copy, Debug)]
pub struct Filter {
    /// Bit i: transactions of kind `Kind::ALL[i]`.
    pub kinds: u8,
    /// Of this CPU only.
    pub cpu: Option<u16>,
    /// Of these virtual addresses only.
    pub addresses: (u64, u64),
}

impl Filter {
    /// Everything that a thread waits for.
    pub const DEMAND: Filter = Filter { kinds: 0b0111, cpu: None, addresses: (0, u64::MAX) };

    fn passes(&self, seen: &Seen) -> bool {
        let kind = Kind::ALL.iter().position(|&kind| kind == seen.kind).expect("all kinds are in the list");
        self.kinds >> kind & 1 == 1
            && self.cpu.is_none_or(|cpu| cpu == seen.cpu)
            && (self.addresses.0..self.addresses.1).contains(&seen.address)
    }
}

/// The analyser and the software that reads it.
#[derive(Debug)]
pub struct Interconnect {
    filter: Filter,
    /// Is armed at every Nth transaction; 1 at maximum rate.
    period: u64,
    /// Consecutive transactions that it records each time.
    burst: u64,
    /// References (Time) that the software takes to read an entry.
    read_time: u64,
    /// Transactions until it is armed.
    left: u64,
    /// Transactions that it is still to record before the software reads.
    wanted: u64,
    /// Time until which the software reads.
    busy_until: u64,
    passed: u64,
    taken: u64,
}

impl Interconnect {
    /// Samples `burst` transactions (1 to [`DEPTH`]) at every `period`-th, or at maximum rate if `period` is 1.
    pub fn new(filter: Filter, period: u64, burst: u64, read_time: u64) -> Interconnect {
        let (period, burst) = (period.max(1), burst.clamp(1, DEPTH));
        Interconnect {
            filter,
            period,
            burst,
            read_time,
            left: period,
            wanted: 0,
            busy_until: 0,
            passed: 0,
            taken: 0,
        }
    }

    /// Counts a transaction towards the next burst. One that comes due while the last is recorded or read is lost.
    fn arm(&mut self, now: u64, reports: &mut Reports) {
        self.left -= 1;
        if self.left > 0 {
            return;
        }
        self.left = self.period;
        if self.wanted == 0 && now >= self.busy_until {
            self.wanted = self.burst;
        } else if self.wanted == 0 || self.period > 1 {
            // At maximum rate transactions come due one by one, and those of a burst are recorded.
            reports.lost += if self.period > 1 { self.burst } else { 1 };
        }
    }
}

impl Monitor for Interconnect {
    fn transaction(&mut self, seen: &Seen, reports: &mut Reports) {
        if !self.filter.passes(seen) {
            return;
        }
        self.passed += 1;
        self.arm(seen.time.0, reports);
        if self.wanted == 0 {
            return;
        }
        self.wanted -= 1;
        self.taken += 1;
        // The share taken so far is what software can know of how many a sample stands for.
        let weight = self.passed as f64 / self.taken as f64;
        reports.one(seen.cpu, seen.node, seen.page, seen.kind.is_write(), weight);
        if self.wanted == 0 {
            self.busy_until = seen.time.0 + self.burst * self.read_time;
        }
    }
}
