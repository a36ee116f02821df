//! `--perturb`: how much the bound changes when the order of references is disturbed (Bolosky & Scott 1991, table II).

use crate::case::Case;
use crate::error::Result;
use homing_core::optimal::{self, solve};
use homing_core::report::PerturbationRow;
use homing_trace::perturb::{GapParameters, Gaps, Local, Perturb};
use homing_trace::{OrderWriter, Trace, TraceError};
use std::cell::RefCell;

/// Seeds of each disturbance, unless the user says another number.
pub const SEEDS: u64 = 3;

/// A filter of section 4.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// References within a hundred change places.
    Local,
    /// A thread stops for 4000 references once in 30000, and catches up.
    Gaps,
}

impl Filter {
    /// Its name in tables.
    fn name(self) -> &'static str {
        match self {
            Filter::Local => "local",
            Filter::Gaps => "gaps",
        }
    }
}

/// One row for each filter and seed. `undisturbed`: the cost of the optimum on the trace as it is.
pub fn table(
    case: &Case<'_>,
    filters: &[Filter],
    seeds: u64,
    undisturbed: f64,
) -> Result<Vec<PerturbationRow>> {
    let ready = case.ready;
    let mut rows = Vec::new();
    for &filter in filters {
        for seed in 0..seeds {
            let disturbed = disturb(&case.trace, filter, seed)?;
            let layout = ready.lay_out(&Trace::open(&disturbed)?, ready.page_size, None)?;
            let replication = ready.subject(&layout).replicates();
            let bound = optimal::Options { replication, ..optimal::Options::default() };
            let optimal_cost = solve(&layout.history, &layout.costs, bound)?.cost;
            let change_percent = 100.0 * (optimal_cost - undisturbed) / undisturbed.max(1.0);
            rows.push(PerturbationRow { filter: filter.name().into(), seed, optimal_cost, change_percent });
        }
    }
    Ok(rows)
}

/// The same trace in another order, in memory.
pub fn disturb(trace: &Trace<'_>, filter: Filter, seed: u64) -> Result<Vec<u8>> {
    let writer = RefCell::new(OrderWriter::copy(Vec::new(), trace)?);
    let gaps = (filter == Filter::Gaps).then(|| Gaps::new(GapParameters::default(), trace.threads(), seed));
    let local = (filter == Filter::Local).then(|| Local::new(Local::ENTRIES, seed));
    let mut perturb = Perturb::new(gaps, local, |thread, count| writer.borrow_mut().turn(thread, count));
    for number in 0..trace.order_blocks().len() {
        let turns = trace.order_turns(number).map_err(TraceError::DamagedOrder)?;
        turns.into_iter().try_for_each(|(thread, count)| perturb.turn(thread, count))?;
    }
    perturb.finish()?;
    Ok(writer.into_inner().finish()?.0)
}
