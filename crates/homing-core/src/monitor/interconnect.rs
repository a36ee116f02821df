//! Sampling the address transactions of a bus or switch that one monitor can listen to: Sun Fire Link hardware monitors
//! (Tikir & Hollingsworth 2008, sections 2.2 and 5.1).
//!
//! The bus analyser puts transactions into a FIFO of eight. Software reads it, and while it reads it records nothing
//! new.
//! *Interval* sampling takes every Nth transaction; *maximum-rate* sampling takes what comes whenever the FIFO is free,
//! so that a processor which asks in bursts is under-represented.

use super::{Monitor, Reports, Seen};
use crate::cache::Kind;

/// Entries of the FIFO.
const DEPTH: usize = 8;

/// Which transactions are looked at: a mask over [`Kind::ALL`], a node, a range of addresses.
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
    /// Samples every Nth transaction; 1 at maximum rate.
    period: u64,
    /// References (Time) that the software takes to read an entry.
    read_time: u64,
    /// Transactions until the next one is taken.
    left: u64,
    /// The FIFO's entries in use.
    held: usize,
    /// Time until which the software reads.
    busy_until: u64,
    passed: u64,
    taken: u64,
}

impl Interconnect {
    /// Samples every `period`-th transaction, or at maximum rate if that is 1.
    pub fn new(filter: Filter, period: u64, read_time: u64) -> Interconnect {
        let period = period.max(1);
        Interconnect { filter, period, read_time, left: period, held: 0, busy_until: 0, passed: 0, taken: 0 }
    }
}

impl Monitor for Interconnect {
    fn transaction(&mut self, seen: &Seen, reports: &mut Reports) {
        if !self.filter.passes(seen) {
            return;
        }
        self.passed += 1;
        self.left -= 1;
        if self.left > 0 {
            return;
        }
        self.left = self.period;
        if seen.time.0 < self.busy_until {
            reports.lost += 1;
            return;
        }
        self.taken += 1;
        // The share taken so far is what software can know of how many a sample stands for.
        let weight = self.passed as f64 / self.taken as f64;
        reports.one(seen.cpu, seen.node, seen.page, seen.kind.is_write(), weight);
        self.held += 1;
        // Interval sampling arms the analyser for one entry; at maximum rate it fills.
        if self.held == DEPTH || self.period > 1 {
            self.busy_until = seen.time.0 + self.held as u64 * self.read_time;
            self.held = 0;
        }
    }
}
