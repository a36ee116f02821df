//! `--monitor`: policies on what monitors report, in the loop with caches and frames, as further levels of the same table.

use super::{Args, Plan};
use crate::cmd::simulate::{row, takes_samples, Rig};
use crate::exit::{self, Code};
use crate::study::Study;
use homing_core::compare::{Bound, Subject};
use homing_core::monitor::table::Choice;
use homing_core::policy::placement::Placement;
use homing_core::policy::table::Entry;
use homing_core::report::Row;
use homing_core::trace::Trace;
use homing_core::{sharing, system};
use rayon::prelude::*;
use std::time::Instant;

/// One row for each monitor and each policy that takes samples and begins without knowing the whole trace; the names of
/// the other policies.
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
    let able = |entry: &&&'static Entry| {
        let policy = entry.make(&study.costs, false, &plan.settings);
        let placement = entry.placement(study.placement.as_ref(), &study.costs, &plan.settings);
        takes_samples(entry, &*policy) && !matches!(placement, Placement::Best | Placement::Worst)
    };
    let (able, unable): (Vec<&'static Entry>, Vec<_>) = plan.policies.iter().partition(|entry| able(entry));
    let all: Vec<_> =
        args.monitor.iter().flat_map(|choice| able.iter().map(move |&entry| (choice, entry))).collect();
    let one = |&(choice, entry): &(&Choice, &Entry)| -> anyhow::Result<Row> {
        let begin = Instant::now();
        let policy = entry.make(&study.costs, false, &plan.settings);
        let placement = entry.placement(study.placement.as_ref(), &study.costs, &plan.settings);
        let setup = rig.setup(trace, study, &placement, choice);
        let run = system::run(&setup, &*policy, choice);
        let run = run.map_err(|e| exit::error(Code::USAGE, format!("policy `{}`: {e}", entry.name)))?;
        let row = row(subject, &bound, entry.name, &run, begin.elapsed().as_secs_f64());
        Ok(Row { information: format!("monitor {}", choice.describe()), ..row })
    };
    let rows = all.par_iter().map(one).collect::<anyhow::Result<_>>()?;
    Ok((rows, unable.iter().map(|entry| entry.name).collect()))
}
