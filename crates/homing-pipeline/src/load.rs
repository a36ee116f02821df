//! A bound on modelled time over all placements of a trace behind caches, with the load of memories and links.

use crate::case::Case;
use crate::error::Result;
use crate::model;
use homing_core::optimal::load::{self, LoadBound, Program};
use homing_core::time::Times;
use serde::Serialize;

/// The bound, and what it assumes.
#[derive(Clone, Debug, Serialize)]
pub struct Load {
    /// It.
    #[serde(flatten)]
    pub bound: LoadBound,
    /// Whose time page moves take.
    pub mover: String,
}

/// The bound of a case; none if references do not go through caches, the machine has no times, or the trace is of
/// windows of a program.
///
/// # Errors
/// If the page histories cannot be read back, or a page has too many runs.
pub fn bound(case: &Case<'_>) -> Result<Option<Load>> {
    let (ready, layout) = (case.ready, &case.layout);
    let Some(counts) = &layout.caches_by_cpu else { return Ok(None) };
    let Ok(times) = Times::new(&ready.machine, ready.page_size) else { return Ok(None) };
    if case.trace.header().windows().is_some() {
        return Ok(None);
    }
    let binding = ready.experiment.model.binding(&ready.machine)?;
    let in_use = model::cpus(&case.trace, &binding);
    let cpus: Vec<_> = (0u16..).map(|cpu| in_use.node(cpu)).zip(counts.iter().copied()).collect();
    let mover = ready.experiment.model.mover;
    let program = Program { history: &layout.history, times: &times, cpus: &cpus, mover };
    Ok(Some(Load { bound: load::bound(program)?, mover: mover.to_string() }))
}
