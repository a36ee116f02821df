//! What phases and threads of a trace have to do with what can be avoided: [`homing_core::why::parts`] with names.

use crate::case::Case;
use crate::error::Result;
use crate::model;
use homing_core::cache::cpus::Whereabouts;
use homing_core::ids::Time;
use homing_core::report::why::{Share, Shares};
use homing_core::why::facts::PageFacts;
use homing_core::why::parts::{parts, Part};
use std::collections::BTreeMap;

/// What the references before the first mark of a phase are called.
const BEFORE: &str = "(before the first phase)";

fn share(name: String, part: &Part) -> Share {
    Share {
        name,
        references: part.references,
        nonlocal_percent: part.nonlocal_percent(),
        avoidable_percent: part.avoidable_percent,
    }
}

/// The shares in a diagnosis, which knows `pages`; none if the experiment did not ask for [`crate::Experiment::usage`].
pub(crate) fn shares(case: &Case<'_>, pages: &[PageFacts]) -> Result<Option<Shares>> {
    let Case { layout, trace, .. } = case;
    let Some(usage) = &layout.usage else { return Ok(None) };
    let cpus = model::cpus(trace, &layout.binding);
    let parts = parts(pages, usage, &layout.costs, |cpu| cpus.node(cpu));
    let mut threads: BTreeMap<u16, Vec<String>> = BTreeMap::new();
    for (thread, _) in trace.threads() {
        let cpu = Whereabouts::default().of(&cpus, thread, Time(0)).cpu;
        threads.entry(cpu).or_default().push(thread.0.to_string());
    }
    let phase = |name: Option<_>| name.map_or(BEFORE, |name| trace.names().get(name)).to_owned();
    let mut by_thread: Vec<Share> = Vec::new();
    let mut by_cpu = parts.by_cpu;
    // By their threads' numbers, not by those of CPUs.
    by_cpu.sort_by_key(|(cpu, _)| threads.get(cpu).and_then(|names| names[0].parse::<u32>().ok()));
    for (cpu, part) in &by_cpu {
        by_thread.push(share(threads.get(cpu).map_or(String::new(), |names| names.join(", ")), part));
    }
    let by_phase = parts.by_phase.iter().map(|(name, part)| share(phase(*name), part)).collect();
    Ok(Some(Shares { by_phase, by_thread }))
}
