//! Policies against the bound and each other, on several traces: rows, levels of information, monitors, sweeps, page sizes,
//! disturbed orders.

mod monitors;
mod perturb;
mod sizes;
mod sweep;

pub use perturb::{disturb, Filter};
pub use sweep::Sweep;

use crate::error::{PipelineError, Result};
use crate::experiment::{Experiment, Ready};
use crate::policies::{each_once, policies};
use crate::trace_file::{naming, TraceFile};
use crate::{manifest, rig, trace_names};
use homing_core::compare::{compare, means, summary, BoundStart};
use homing_core::information::Information;
use homing_core::machine::Costs;
use homing_core::monitor::table::Choice;
use homing_core::report::{Parameter, Report, TraceReport, SCHEMA};
use std::path::PathBuf;
use std::time::Instant;

/// What is compared.
#[derive(Clone)]
pub struct Options {
    /// The traces.
    pub traces: Vec<PathBuf>,
    /// What is asked of each; policies see what `information` says first.
    pub experiment: Experiment,
    /// Names of policies; all if there is none.
    pub policies: Vec<String>,
    /// What policies see, the first as in the experiment.
    pub information: Vec<Information>,
    /// Monitors that policies see the misses through.
    pub monitors: Vec<Choice>,
    /// What is varied.
    pub sweeps: Vec<Sweep>,
    /// How the order is disturbed.
    pub perturb: Vec<Filter>,
    /// Seeds of each disturbance, from 0 up.
    pub seeds: u64,
}

/// The result.
pub struct Compared {
    /// The report.
    pub report: Report,
    /// A trace is damaged or unfinished.
    pub partial: bool,
}

/// Compares.
pub fn run(options: &Options) -> Result<Compared> {
    let ready = options.experiment.clone().ready(|placement| policies(&options.policies, placement))?;
    each_once("level of --info", options.information.iter().map(Information::to_string))?;
    each_once("monitor", options.monitors.iter().map(Choice::describe))?;
    let elsewhere = !options.sweeps.is_empty() || !options.perturb.is_empty();
    if options.experiment.bound_start == BoundStart::Same && elsewhere {
        let message =
            "--bound-start same: --sweep and --perturb bound from one copy anywhere; leave one of them out";
        return Err(PipelineError::Usage(message.into()));
    }
    let mut notes = Vec::new();
    let mut traces = Vec::new();
    let mut partial = false;
    let names = trace_names::distinct(&options.traces)?;
    for (path, name) in options.traces.iter().zip(&names) {
        let file = TraceFile::open(path)?.named(name);
        traces.push(one_trace(options, &ready, &file, &mut notes, &mut partial)?);
    }
    Ok(Compared { report: report(options, &ready, traces, notes), partial })
}

fn one_trace(
    options: &Options,
    ready: &Ready,
    file: &TraceFile,
    notes: &mut Vec<String>,
    partial: &mut bool,
) -> Result<TraceReport> {
    let trace = file.trace()?;
    let read_gap = options.sweeps.iter().filter_map(|sweep| sweep.read_gap(&ready.costs)).min();
    let layout = ready.lay_out(file, &trace, read_gap)?;
    let info = ready.trace_info(file, &trace, &layout);
    let subject = ready.subject(&layout);
    let begin = Instant::now();
    let further = options.information.get(1..).unwrap_or_default();
    let mut compared = compare(&subject, &ready.policies, further, &|| begin.elapsed().as_secs_f64())?;
    compared.page_map.name_areas(&trace, ready.page_size);
    let (watched, unable) = monitors::rows(options, ready, &trace, &layout, &subject)?;
    compared.further_levels.extend(watched);
    if !unable.is_empty() {
        let unable = unable.join(", ");
        compared.notes.push(format!("{}: {unable}", rig::UNABLE));
    }
    let about = |note: &String| {
        if options.traces.len() > 1 {
            format!("{}: {note}", info.name)
        } else {
            note.clone()
        }
    };
    let common = subject.notes();
    notes.extend(common.iter().filter(|note| !notes.contains(note)).cloned().collect::<Vec<_>>());
    notes.extend(compared.notes.iter().filter(|note| !common.contains(note)).map(about));
    notes.extend(layout.notes.iter().map(about));
    *partial |= layout.partial;
    let curves =
        options.sweeps.iter().map(|sweep| sweep.run(ready, &trace, &layout)).collect::<Result<_>>()?;
    let perturbation = perturb::table(options, ready, &trace, compared.rows[0].cost);
    let perturbation = naming(perturbation, &file.path)?;
    let (page_sizes, split) = sizes::compare(ready, &trace)?;
    Ok(TraceReport {
        summary: summary(&compared.rows),
        rows: compared.rows,
        further_levels: compared.further_levels,
        sharing: compared.sharing,
        page_map: compared.page_map,
        trace: info,
        curves,
        perturbation,
        page_sizes,
        split,
    })
}

fn report(options: &Options, ready: &Ready, traces: Vec<TraceReport>, notes: Vec<String>) -> Report {
    let replication = ready.replication() && matches!(ready.costs, Costs::Uniform(_));
    let mut parameters = ready.parameters(replication);
    parameters.extend(options.experiment.scene.parameters(&options.information));
    let monitor = |choice: &Choice| Parameter { name: "monitor".into(), value: choice.describe() };
    parameters.extend(options.monitors.iter().map(monitor));
    if !options.perturb.is_empty() {
        parameters.push(Parameter { name: "seeds".into(), value: options.seeds.to_string() });
    }
    Report {
        schema: SCHEMA,
        generator: manifest::GENERATOR.into(),
        machine: ready.machine_info(),
        parameters,
        means: means(&traces),
        traces,
        notes,
    }
}
