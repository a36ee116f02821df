//! The shares of phases and threads, as rows of small tables.

use crate::tables::count;
use homing_core::report::why::{Share, Shares};
use homing_linux::visible;

/// What references are divided by.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The phases that the program marks (include/homing.h)
    Phase,
    /// Its threads
    Thread,
}

impl By {
    /// The header of the table, and its rows.
    pub fn table(self, shares: &Shares) -> ([&'static str; 4], Vec<Vec<String>>) {
        let (name, shares) = match self {
            By::Phase => ("phase", &shares.by_phase),
            By::Thread => ("thread", &shares.by_thread),
        };
        ([name, "references", "non-local", "avoidable"], shares.iter().map(row).collect())
    }
}

fn row(share: &Share) -> Vec<String> {
    vec![
        visible::name(&share.name).into_owned(),
        count(share.references),
        format!("{:.1} %", share.nonlocal_percent),
        format!("{:.1} %", share.avoidable_percent),
    ]
}
