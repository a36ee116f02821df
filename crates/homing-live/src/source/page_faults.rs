//! Ordinary page faults.

use super::rings::Rings;
use super::{Entry, RING_PAGES};
use homing_linux::perf::{self, Event, Sampling, Watch};
use homing_linux::proc::Tid;

pub(super) const ENTRY: Entry = Entry {
    name: "page-faults",
    summary: "ordinary page faults: first touches, and hint faults where the kernel's own balancing is on",
    confidence: "low: without kernel balancing each page is seen once; with it the kernel moves pages too",
    brings_home: false,
    scans: false,
    holds: false,
    policy: "work-function",
    missing: |_| missing(),
    open: |_, host| Ok(Box::new(Rings::new(Event::PAGE_FAULTS, FAULTS, host))),
};

/// Every page fault is a sample.
pub(super) const FAULTS: Sampling = Sampling { period: 1, memory: false, ring_pages: RING_PAGES };

/// What is missing to see page faults, if anything.
pub(super) fn missing() -> Option<String> {
    let me = Watch::Thread(Tid(std::process::id() as i32));
    let sampling = Sampling { ring_pages: 1, ..FAULTS };
    let error = perf::open(Event::PAGE_FAULTS, me, sampling).err()?;
    Some(format!("perf_event_open: {error}; needs kernel.perf_event_paranoid <= 2, or CAP_PERFMON"))
}
