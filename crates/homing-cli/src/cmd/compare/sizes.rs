//! `homing compare --page-size 4K,64K,2M`: bound and policies at each size, and which large pages should be split.

use super::{subject, Args, Plan};
use crate::study::Study;
use homing_core::compare::{Bound, CompareError};
use homing_core::optimal::Options;
use homing_core::page_sizes::{regions, Region};
use homing_core::report::SizeRow;
use homing_core::sharing;
use homing_core::trace::Trace;

/// Large pages that the report names.
const NAMED: usize = 20;

/// Rows at each size, and the pages of the largest size by what splitting
/// them into the smallest saves.
pub fn compare(args: &Args, plan: &Plan, trace: &Trace<'_>) -> anyhow::Result<(Vec<SizeRow>, Vec<Region>)> {
    let mut sizes = args.model.page_size.clone();
    sizes.sort_unstable();
    sizes.dedup();
    if sizes.len() < 2 {
        return Ok(Default::default());
    }
    let mut rows = Vec::new();
    let (mut small, mut large): (Option<Study>, Option<Study>) = (None, None);
    for size in sizes {
        let study = Study::new(&args.model, &args.scene, &plan.machine, trace, size, None)?
            .begun(plan.placement.as_ref(), trace);
        rows.extend(at_size(args, plan, &study)?);
        if small.is_none() {
            small = Some(study);
        } else {
            large = Some(study);
        }
    }
    let (Some(small), Some(large)) = (small, large) else { return Ok((rows, Vec::new())) };
    let options = Options { replication: subject(args, plan, &small).replicates(), ..Options::default() };
    let mut regions = regions((&large.history, &large.costs), (&small.history, &small.costs), options)?;
    regions.retain(|region| region.saved() > 0.0);
    regions.truncate(NAMED);
    Ok((rows, regions))
}

fn at_size(args: &Args, plan: &Plan, study: &Study) -> Result<Vec<SizeRow>, CompareError> {
    let subject = subject(args, plan, study);
    let bound = Bound::new(&subject, &sharing::classify(&study.history)?)?;
    let size = study.history.page_size().bytes();
    let row =
        |row| SizeRow { page_size: size, row, tlb_misses: study.caches.map(|caches| caches.tlb_misses) };
    let mut rows = vec![row(subject.optimal_row(&bound, 0.0))];
    for entry in &plan.policies {
        rows.push(row(subject.row(entry.name, &subject.simulate(entry, false)?, &bound, 0.0)?));
    }
    Ok(rows)
}
