//! `--monitor`: policies on what monitors report, in the loop with caches and frames, as further levels of the same
//! table.

use super::{Args, Plan};
use crate::rig::{self, Rig};
use crate::study::Study;
use homing_core::compare::{Bound, Subject};
use homing_core::monitor::table::Choice;
use homing_core::policy::table::Entry;
use homing_core::report::Row;
use homing_core::sharing;
use homing_core::trace::Trace;
use rayon::prelude::*;

/// One row for each monitor and each policy that can run in the loop; the names of the other policies.
pub fn rows(
    args: &Args,
    plan: &Plan,
    trace: &Trace<'_>,
    study: &Study,
    subject: &Subject,
) -> anyhow::Result<(Vec<Row>, Vec<&'static str>)> {
    if args.monitor.is_empty() {
        return Ok(Default::default());
    }
    let rig = Rig::new(&args.model, &args.scene, &plan.machine, trace, &study.costs)?;
    let bound = Bound::new(subject, &sharing::classify(&study.history)?)?;
    let (able, unable): (Vec<&'static Entry>, Vec<_>) =
        plan.policies.iter().partition(|entry| rig::able(entry, &study.costs, &plan.settings));
    let all: Vec<(&Choice, &Entry)> =
        args.monitor.iter().flat_map(|choice| able.iter().map(move |&entry| (choice, entry))).collect();
    let one =
        |&(choice, entry): &(&Choice, &Entry)| rig.watched(trace, study, subject, &bound, entry, choice);
    let rows = all.par_iter().map(one).collect::<anyhow::Result<_>>()?;
    Ok((rows, unable.iter().map(|entry| entry.name).collect()))
}
