//! `--monitor`: policies on what monitors report, in the loop with caches and frames, as further levels of the same
//! table.

use super::Options;
use crate::error::Result;
use crate::experiment::Ready;
use crate::layout::Layout;
use crate::rig::{self, Rig};
use homing_core::compare::{Bound, Subject};
use homing_core::monitor::table::Choice;
use homing_core::policy::table::Entry;
use homing_core::report::Row;
use homing_core::sharing;
use homing_trace::Trace;
use rayon::prelude::*;

/// One row for each monitor and each policy that can run in the loop; the names of the other policies.
pub fn rows(
    options: &Options,
    ready: &Ready,
    trace: &Trace<'_>,
    layout: &Layout,
    subject: &Subject,
) -> Result<(Vec<Row>, Vec<&'static str>)> {
    if options.monitors.is_empty() {
        return Ok(Default::default());
    }
    let rig = Rig::new(ready, trace, &layout.costs)?;
    let bound = Bound::new(subject, &sharing::classify(&layout.history)?)?;
    let (able, unable): (Vec<&'static Entry>, Vec<_>) =
        ready.policies.iter().partition(|entry| rig::able(entry, &layout.costs, &ready.settings));
    let all: Vec<(&Choice, &Entry)> =
        options.monitors.iter().flat_map(|choice| able.iter().map(move |&entry| (choice, entry))).collect();
    let one =
        |&(choice, entry): &(&Choice, &Entry)| rig.watched(trace, layout, subject, &bound, entry, choice);
    let rows = all.par_iter().map(one).collect::<Result<_>>()?;
    Ok((rows, unable.iter().map(|entry| entry.name).collect()))
}
