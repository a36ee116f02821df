//! Memory accesses that the processor samples.

use super::rings::Rings;
use super::{Entry, Places, Source, RING_PAGES};
use crate::host::Host;
use homing_linux::perf::{pmu, Event, Sampling, Watch};
use homing_linux::proc::Tid;
use std::io;

pub(super) const ENTRY: Entry = Entry {
    name: "pmu",
    summary: "memory accesses sampled by the processor: PEBS on Intel, IBS on AMD",
    confidence: "high: a fair sample of the accesses that missed the near caches, with CPU and latency",
    brings_home: true,
    scans: false,
    holds: false,
    policy: "homing",
    missing,
    open,
};

/// Loads above the latency threshold between two samples; IBS counts all micro-operations instead.
const PEBS_PERIOD: u64 = 2_003;
const IBS_PERIOD: u64 = 200_003;

/// The event that samples memory accesses here; else why there is none.
pub(crate) fn event(places: &Places) -> Result<(Event, Sampling), String> {
    let sampling = |period| Sampling { period, memory: true, ring_pages: RING_PAGES };
    match pmu::find(&places.sys) {
        None => Err(
            "the machine shows no PEBS, IBS or SPE below /sys/bus/event_source (virtual machines rarely do)"
                .into(),
        ),
        Some(pmu::Hardware::Pebs { needs_auxiliary: true, .. }) => {
            Err("this processor wants its load event in a group with mem-loads-aux, which is not made yet"
                .into())
        }
        Some(pmu::Hardware::Pebs { event, .. }) => Ok((event, sampling(PEBS_PERIOD))),
        Some(pmu::Hardware::Ibs { event }) => Ok((event, sampling(IBS_PERIOD))),
        Some(pmu::Hardware::Spe { .. }) => Err("Arm SPE is there; its packets are not decoded yet".into()),
    }
}

fn missing(places: &Places) -> Option<String> {
    let (event, sampling) = match event(places) {
        Ok(found) => found,
        Err(why) => return Some(why),
    };
    let me = Watch::Thread(Tid(std::process::id() as i32));
    let error = homing_linux::perf::open(event, me, Sampling { ring_pages: 1, ..sampling }).err()?;
    Some(format!(
        "perf_event_open: {error}; needs kernel.perf_event_paranoid <= 1 (IBS: <= 0), or CAP_PERFMON"
    ))
}

fn open(places: &Places, host: &Host) -> io::Result<Box<dyn Source>> {
    let (event, sampling) = event(places).map_err(io::Error::other)?;
    Ok(Box::new(Rings::new(event, sampling, host)))
}
