//! The diagnosis within a report: the page of `homing why --html`, and what a comparison says besides its rows.

use super::judge;
use crate::case::Case;
use crate::error::Result;
use crate::info;
use crate::manifest::GENERATOR;
use crate::policies::policies;
use homing_core::compare::{compare, summary};
use homing_core::history::ThreadsOn;
use homing_core::policy::placement::Placement;
use homing_core::report::why::WhyReport;
use homing_core::report::{Report, TraceReport, SCHEMA};
use std::time::Instant;

/// What stands beside the bound on the page of a diagnosis: pages as they are, spread, and following their users.
pub const POLICIES: [&str; 3] = ["first-touch", "striped", "homing"];

/// Why a comparison may have no diagnosis.
pub const NONE_OF_GLOBAL: &str =
    "no diagnosis: pages begin in global memory, which is no node; leave --placement out for one";

/// The report that the page of a diagnosis shows: `why` with the page map and [`POLICIES`].
///
/// # Errors
/// If a history cannot be read back.
pub fn page(case: &Case<'_>, why: &WhyReport) -> Result<Report> {
    let ready = case.ready;
    let subject = case.subject();
    let names = POLICIES.map(String::from);
    let begin = Instant::now();
    let chosen = policies(&names, subject.placement)?;
    let mut compared = compare(&subject, &chosen, &[], &|| begin.elapsed().as_secs_f64())?;
    compared.page_map.name_areas(&case.trace, ready.page_size);
    let mut notes = compared.notes;
    notes.extend(case.layout.notes.iter().cloned());
    let mut parameters = ready.parameters(subject.replicates());
    parameters.push(info::information([&ready.experiment.information]));
    let trace = TraceReport {
        trace: case.trace_info(),
        summary: summary(&compared.rows),
        rows: compared.rows,
        further_levels: Vec::new(),
        sharing: compared.sharing,
        page_map: compared.page_map,
        why: Some(why.clone()),
        curves: Vec::new(),
        perturbation: Vec::new(),
        page_sizes: Vec::new(),
        split: Vec::new(),
    };
    Ok(Report {
        schema: SCHEMA,
        generator: GENERATOR.into(),
        machine: ready.machine_info(),
        parameters,
        traces: vec![trace],
        means: Vec::new(),
        notes,
    })
}

/// The diagnosis of a comparison's own model, which its `basis` tells from that of `homing why`; none if pages may
/// begin in global memory.
///
/// # Errors
/// If a history cannot be read back.
pub fn of_model(case: &Case<'_>) -> Result<Option<WhyReport>> {
    let global = case.layout.costs.global_node().is_some();
    if global && matches!(case.layout.placement, Some(Placement::Global | Placement::File(_))) {
        return Ok(None);
    }
    let mut why = judge(case, false)?;
    if let Some(other) = other_than_honest(case) {
        why.basis += &other;
    }
    Ok(Some(why))
}

/// How the model of a comparison differs from that of `homing why`, in a sentence.
fn other_than_honest(case: &Case<'_>) -> Option<String> {
    let (ready, model) = (case.ready, &case.ready.experiment.model);
    let caches = ready.machine.hierarchy(ready.page_size).is_ok_and(|shape| shape.is_some());
    let mut differs = Vec::new();
    if caches && !model.misses {
        differs.push("puts references through the machine's caches first (--misses)".to_owned());
    }
    if model.threads_on(&ready.machine) != ThreadsOn::Busy {
        differs.push("spreads threads that work over the nodes (--threads-on busy)".to_owned());
    }
    if ready.experiment.placement.is_some() {
        differs.push("lets pages begin where they are first touched (no --placement)".to_owned());
    }
    (!differs.is_empty()).then(|| {
        format!(" This is the model of the comparison; `homing why` by itself {}.", differs.join(", and "))
    })
}
