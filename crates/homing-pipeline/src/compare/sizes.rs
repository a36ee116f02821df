//! `homing compare --page-size 4K,64K,2M`: bound and policies at each size, and which large pages should be split.

use crate::case::Case;
use crate::error::Result;
use crate::experiment::Ready;
use crate::layout::Layout;
use homing_core::compare::{Bound, CompareError};
use homing_core::optimal::Options;
use homing_core::page_sizes::{regions, Region};
use homing_core::report::SizeRow;
use homing_core::sharing;

/// Large pages that the report names.
const NAMED: usize = 20;

/// Rows at each size, and the pages of the largest size by what splitting them into the smallest saves.
pub fn compare(case: &Case<'_>) -> Result<(Vec<SizeRow>, Vec<Region>)> {
    let ready = case.ready;
    let mut sizes = ready.experiment.model.page_size.clone();
    sizes.sort_unstable();
    sizes.dedup();
    if sizes.len() < 2 {
        return Ok(Default::default());
    }
    let mut rows = Vec::new();
    let (mut small, mut large): (Option<Layout>, Option<Layout>) = (None, None);
    for size in sizes {
        let layout = ready.lay_out(&case.trace, size, None)?;
        rows.extend(at_size(ready, &layout)?);
        if small.is_none() {
            small = Some(layout);
        } else {
            large = Some(layout);
        }
    }
    let (Some(small), Some(large)) = (small, large) else { return Ok((rows, Vec::new())) };
    let options = Options { replication: ready.subject(&small).replicates(), ..Options::default() };
    let mut regions = regions((&large.history, &large.costs), (&small.history, &small.costs), options)?;
    regions.retain(|region| region.saved() > 0.0);
    regions.truncate(NAMED);
    Ok((rows, regions))
}

fn at_size(ready: &Ready, layout: &Layout) -> std::result::Result<Vec<SizeRow>, CompareError> {
    let subject = ready.subject(layout);
    let bound = Bound::new(&subject, &sharing::classify(&layout.history)?)?;
    let size = layout.history.page_size().bytes();
    let row =
        |row| SizeRow { page_size: size, row, tlb_misses: layout.caches.map(|caches| caches.tlb_misses) };
    let mut rows = vec![row(subject.optimal_row(&bound, 0.0))];
    for entry in &ready.policies {
        rows.push(row(subject.row(entry.name, &subject.simulate(entry, false)?, &bound, 0.0)?));
    }
    Ok(rows)
}
