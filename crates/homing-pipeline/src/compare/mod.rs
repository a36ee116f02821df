//! Policies against the bound and each other, on several traces: rows, levels of information, monitors, sweeps, page
//! sizes, disturbed orders.

mod monitors;
mod perturb;
mod sizes;
mod sweep;

pub use perturb::{disturb, Filter, SEEDS};
pub use sweep::Sweep;

use crate::case::Case;
use crate::error::{PipelineError, Result};
use crate::experiment::{Experiment, Ready};
use crate::info;
use crate::policies::{each_once, policies};
use crate::trace_file::{naming, TraceFile};
use crate::windows::{self, Bound};
use crate::{honest, manifest, rig, trace_names, why};
use homing_core::compare::{compare, means, summary, BoundStart};
use homing_core::information::Information;
use homing_core::machine::Costs;
use homing_core::monitor::table::Choice;
use homing_core::optimal::Start;
use homing_core::report::{Report, TraceReport, SCHEMA};
use std::path::PathBuf;
use std::time::Instant;

/// What is compared.
#[derive(Clone)]
pub struct Comparison {
    /// The traces.
    pub traces: Vec<PathBuf>,
    /// What is asked of each.
    pub experiment: Experiment,
    /// Names of policies; all if there is none.
    pub policies: Vec<String>,
    /// What policies see besides what the experiment says.
    pub further_levels: Vec<Information>,
    /// Monitors that policies see the misses through; the experiment must have misses.
    pub monitors: Vec<Choice>,
    /// What is varied.
    pub sweeps: Vec<Sweep>,
    /// How the order is disturbed.
    pub perturb: Vec<Filter>,
    /// Seeds of each disturbance, from 0 up.
    pub seeds: u64,
    /// Also say what is wrong with where pages are ([`crate::why`]).
    pub diagnose: bool,
}

/// The result.
pub struct Compared {
    /// The report.
    pub report: Report,
    /// What holds for every number of it, which is its first note, too.
    pub model: String,
    /// A trace is damaged or unfinished.
    pub partial: bool,
}

impl Comparison {
    /// All policies on traces, and nothing varied.
    pub fn new(traces: Vec<PathBuf>, experiment: Experiment) -> Comparison {
        Comparison {
            traces,
            experiment,
            policies: Vec::new(),
            further_levels: Vec::new(),
            monitors: Vec::new(),
            sweeps: Vec::new(),
            perturb: Vec::new(),
            seeds: SEEDS,
            diagnose: false,
        }
    }

    /// Compares.
    ///
    /// # Errors
    /// If a name is unknown or named twice, or a trace cannot be used on the machine.
    pub fn run(&self) -> Result<Compared> {
        let ready = self.experiment.clone().ready(|placement| policies(&self.policies, placement))?;
        each_once("level of --info", self.levels().map(Information::to_string))?;
        each_once("monitor", self.monitors.iter().map(Choice::describe))?;
        if !self.monitors.is_empty() && !self.experiment.model.misses {
            let message = "--monitor: monitors see what caches let through; add --misses";
            return Err(PipelineError::usage(message));
        }
        let elsewhere = !self.sweeps.is_empty() || !self.perturb.is_empty();
        if self.experiment.bound_start == BoundStart::Same && elsewhere {
            let message =
                "--bound-start same: --sweep and --perturb bound from one copy anywhere; leave one of them out";
            return Err(PipelineError::Usage(message.into()));
        }
        let model = honest::in_words(&ready);
        let mut notes = vec![model.clone()];
        let mut traces = Vec::new();
        let mut partial = false;
        let names = trace_names::distinct(&self.traces)?;
        let read_gap = self.sweeps.iter().filter_map(|sweep| sweep.read_gap(&ready.costs)).min();
        for (path, name) in self.traces.iter().zip(&names) {
            let file = TraceFile::ordered(path, &self.experiment.progress)?.named(name);
            let case = ready.case(&file, read_gap)?;
            partial |= case.layout.partial;
            traces.push(self.one_trace(&case, &mut notes)?);
        }
        Ok(Compared { report: self.report(&ready, traces, notes), model, partial })
    }

    /// What policies see, level by level.
    fn levels(&self) -> impl Iterator<Item = &Information> {
        std::iter::once(&self.experiment.information).chain(&self.further_levels)
    }

    fn one_trace(&self, case: &Case<'_>, notes: &mut Vec<String>) -> Result<TraceReport> {
        let Case { ready, trace, layout, .. } = case;
        let (info, subject) = (case.trace_info(), case.subject());
        let begin = Instant::now();
        let clock = || begin.elapsed().as_secs_f64();
        let mut compared = compare(&subject, &ready.policies, &self.further_levels, &clock)?;
        compared.page_map.name_areas(trace, ready.page_size);
        let (watched, unable) = monitors::rows(case, &self.monitors)?;
        compared.further_levels.extend(watched);
        if !unable.is_empty() {
            compared.notes.push(format!("{}: {}", rig::UNABLE, unable.join(", ")));
        }
        let about = |note: &String| match self.traces.len() {
            1 => note.clone(),
            _ => format!("{}: {note}", info.name),
        };
        if !layout.windows.is_empty() && ready.experiment.bound_start == BoundStart::OneCopy {
            if let Bound::From(estimated) = windows::bound(case, Start::OneCopy)? {
                compared.rows[0].program = Some(estimated.of_program());
                notes.extend(estimated.notes.iter().map(|note| about(&format!("optimal: {note}"))));
            }
        }
        let common = subject.notes();
        notes.extend(common.iter().filter(|note| !notes.contains(note)).cloned().collect::<Vec<_>>());
        notes.extend(compared.notes.iter().filter(|note| !common.contains(note)).map(about));
        notes.extend(layout.notes.iter().map(about));
        let curves = self.sweeps.iter().map(|sweep| sweep.run(case)).collect::<Result<_>>()?;
        let perturbation = perturb::table(case, &self.perturb, self.seeds, compared.rows[0].cost);
        let perturbation = naming(perturbation, &case.file.path)?;
        let (page_sizes, split) = sizes::compare(case)?;
        let why = self.diagnose.then(|| why::of_model(case)).transpose()?;
        if why.as_ref().is_some_and(Option::is_none) {
            notes.push(about(&why::NONE_OF_GLOBAL.to_owned()));
        }
        Ok(TraceReport {
            summary: summary(&compared.rows),
            rows: compared.rows,
            further_levels: compared.further_levels,
            sharing: compared.sharing,
            page_map: compared.page_map,
            why: why.flatten(),
            trace: info,
            curves,
            perturbation,
            page_sizes,
            split,
        })
    }

    fn report(&self, ready: &Ready, traces: Vec<TraceReport>, notes: Vec<String>) -> Report {
        let replication = ready.replication() && matches!(ready.costs, Costs::Uniform(_));
        let mut parameters = ready.parameters(replication);
        parameters.push(info::information(self.levels()));
        parameters.extend(self.experiment.scene.parameters());
        parameters.extend(self.monitors.iter().map(|choice| info::parameter("monitor", choice.describe())));
        if !self.perturb.is_empty() {
            parameters.push(info::parameter("seeds", self.seeds));
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
}
