//! `--monitor`: policies on what monitors report, in the loop with caches and frames, as further levels of the same
//! table.

use crate::case::Case;
use crate::error::Result;
use crate::rig::{self, Rig};
use homing_core::monitor::table::Choice;
use homing_core::policy::table::Entry;
use homing_core::report::Row;
use rayon::prelude::*;

/// One row for each monitor and each policy that can run in the loop; the names of the other policies.
pub fn rows(case: &Case<'_>, monitors: &[Choice]) -> Result<(Vec<Row>, Vec<&'static str>)> {
    if monitors.is_empty() {
        return Ok(Default::default());
    }
    let (subject, bound, rig) = (case.subject(), case.bound()?, Rig::new(case)?);
    let (able, unable): (Vec<&'static Entry>, Vec<_>) =
        case.ready.policies.iter().partition(|entry| rig::able(entry, subject.costs, subject.settings));
    let all: Vec<(&Choice, &Entry)> =
        monitors.iter().flat_map(|choice| able.iter().map(move |&entry| (choice, entry))).collect();
    let one = |&(choice, entry): &(&Choice, &Entry)| rig.watched(case, &subject, &bound, entry, choice);
    let rows = all.par_iter().map(one).collect::<Result<_>>()?;
    Ok((rows, unable.iter().map(|entry| entry.name).collect()))
}
