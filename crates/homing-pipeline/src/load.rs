//! A bound on modelled time over all placements of a trace behind caches, with the load of memories and links.

use crate::case::Case;
use crate::error::{PipelineError, Result};
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

/// The bound of a case.
///
/// # Errors
/// If references do not go through caches, the machine has no times, or the trace is of windows of a program; if the
/// page histories cannot be read back, or a page has too many runs.
pub fn bound(case: &Case<'_>) -> Result<Load> {
    let (ready, layout) = (case.ready, &case.layout);
    let usage = |why: String| PipelineError::Usage(format!("--load: {why}"));
    let no_caches = || usage("expected --misses: where every reference counts, time is not modelled".into());
    let counts = layout.caches_by_cpu.as_ref().ok_or_else(no_caches)?;
    let times = Times::new(&ready.machine, ready.page_size).map_err(|why| usage(why.to_string()))?;
    if case.trace.header().windows().is_some() {
        return Err(usage(
            "the trace is of windows of a program, whose loads between them are not known".into(),
        ));
    }
    let in_use = model::cpus(&case.trace, &layout.binding);
    let cpus: Vec<_> = (0u16..).map(|cpu| in_use.node(cpu)).zip(counts.iter().copied()).collect();
    let mover = ready.experiment.model.mover;
    let program = Program { history: &layout.history, times: &times, cpus: &cpus, mover };
    Ok(Load { bound: load::bound(program)?, mover: mover.to_string() })
}
