//! What a hierarchy counts.

use serde::{Deserialize, Serialize};

/// Counts of one CPU, or of all together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Counts {
    /// References; one that crosses a line counts once.
    pub references: u64,
    /// Lines asked of the first level (a reference that crosses lines asks for each).
    pub lines: u64,
    /// Lines that the first level did not hold.
    pub l1_misses: u64,
    /// ... nor the second.
    pub l2_misses: u64,
    /// ... of which the third level held.
    pub l3_hits: u64,
    /// Lines fetched by way of the interconnect to be read: from the home's memory, or sent on by it.
    pub fetches_read: u64,
    /// The same, to be written.
    pub fetches_write: u64,
    /// Fetches that another CPU's cache served because it held the line changed.
    pub interventions: u64,
    /// Writes to lines that other CPUs held too.
    pub upgrades: u64,
    /// Copies that another CPU's write took from this CPU.
    pub invalidations: u64,
    /// Changed lines that went back to memory.
    pub write_backs: u64,
    /// Translations that the first TLB did not hold.
    pub tlb1_misses: u64,
    /// Translations that no TLB held.
    pub tlb_misses: u64,
    /// Translations shot down because a page moved.
    pub shootdowns: u64,
}

impl Counts {
    /// Fetches and upgrades: what threads wait for at a page's home.
    pub fn demand(&self) -> u64 {
        self.fetches_read + self.fetches_write + self.upgrades
    }

    /// Those of several CPUs together.
    pub fn sum<'a>(all: impl IntoIterator<Item = &'a Counts>) -> Counts {
        let mut total = Counts::default();
        all.into_iter().for_each(|counts| total.add(counts));
        total
    }

    /// Adds other counts.
    pub fn add(&mut self, other: &Counts) {
        self.references += other.references;
        self.lines += other.lines;
        self.l1_misses += other.l1_misses;
        self.l2_misses += other.l2_misses;
        self.l3_hits += other.l3_hits;
        self.fetches_read += other.fetches_read;
        self.fetches_write += other.fetches_write;
        self.interventions += other.interventions;
        self.upgrades += other.upgrades;
        self.invalidations += other.invalidations;
        self.write_backs += other.write_backs;
        self.tlb1_misses += other.tlb1_misses;
        self.tlb_misses += other.tlb_misses;
        self.shootdowns += other.shootdowns;
    }
}
