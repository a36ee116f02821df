//! No source: it is only observed where pages are.

use super::{Entry, Losses, Source};
use crate::host::Host;
use crate::targets::{Changes, Targets};
use homing_session::input::Access;
use std::io;

pub(super) const ENTRY: Entry = Entry {
    name: "none",
    summary: "observes where pages are and decides nothing",
    confidence: "none: nothing is known of accesses",
    brings_home: false,
    scans: false,
    holds: false,
    policy: "homing",
    missing: |_| None,
    open: |_, _| Ok(Box::new(Nothing)),
};

/// Sees nothing.
struct Nothing;

impl Source for Nothing {
    fn follow(&mut self, _: &Targets, _: &Changes) -> io::Result<()> {
        Ok(())
    }

    fn poll(&mut self, _: &Targets, _: &Host, _: &mut Vec<Access>) {}

    fn losses(&self) -> Losses {
        Losses::default()
    }
}
