//! `homing study`: policies on a grid of traces, machines, starts and information levels, one row a cell.
//!
//! Cells are computed in units of a trace on a machine, which share the page histories and the bound. Each finished cell
//! goes to a journal at once, under a key that names everything it depends on; a study that was killed goes on from there,
//! and one that is asked for more computes only what is new.

mod cell;
mod journal;
mod output;
mod plan;

use crate::exit::{Code, Result};
use crate::input::{ModelArgs, TraceFile};
use crate::study::{self, Study};
use anyhow::Context;
use cell::Cell;
use homing_core::compare::{Bound, Subject};
use homing_core::information::Information;
use homing_core::machine::Costs;
use homing_core::policy::placement::Placement;
use homing_core::policy::table::{Begin, Entry};
use homing_core::sharing::{self, PageUse};
use journal::Journal;
pub use plan::Args;
use plan::Plan;
use rayon::prelude::*;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// Runs the study.
pub fn run(args: Args) -> Result {
    let plan = Plan::new(args)?;
    std::fs::create_dir_all(&plan.out).with_context(|| format!("cannot make {}", plan.out.display()))?;
    let journal = Journal::open(&plan.out.join("cells.jsonl"))?;
    let (partial, computed) = (AtomicBool::new(false), AtomicU64::new(0));
    let units: Vec<_> = plan
        .traces
        .iter()
        .flat_map(|trace| plan.models.iter().map(move |model| (trace.as_path(), model)))
        .collect();
    let progress = crate::progress::units(units.len() as u64, "traces on machines");
    let cells = units
        .par_iter()
        .map(|(trace, model)| {
            let unit =
                Unit::new(&plan, &journal, trace, model).and_then(|unit| unit.cells(&computed, &partial));
            progress.inc(1);
            unit.with_context(|| format!("{} on {}", trace.display(), model.machine))
        })
        .collect::<anyhow::Result<Vec<Vec<Cell>>>>()?;
    progress.finish_and_clear();
    let cells: Vec<Cell> = cells.into_iter().flatten().collect();
    output::write(&plan, &cells)?;
    let computed = computed.into_inner();
    outln!("{}", output::table(&cells));
    outln!("\n{} cells, {computed} of them computed now; results in {}", cells.len(), plan.out.display());
    Ok(if partial.into_inner() { Code::PARTIAL } else { Code::OK })
}

/// One trace on one machine.
struct Unit<'a> {
    plan: &'a Plan,
    journal: &'a Journal,
    file: TraceFile,
    model: &'a ModelArgs,
    /// What the keys of all cells of the unit begin with.
    key: String,
}

/// What all cells of a unit share.
struct Laid {
    study: Study,
    uses: Vec<PageUse>,
    bound: Bound,
    /// By start: where pages begin.
    starts: Vec<Placement>,
}

impl<'a> Unit<'a> {
    fn new(plan: &'a Plan, journal: &'a Journal, trace: &Path, model: &'a ModelArgs) -> anyhow::Result<Self> {
        let file = TraceFile::open(trace)?;
        let digest = cell::digest(file.bytes());
        let machine = model.machine(study::is_machine)?;
        let page_size = model.page_size(&machine);
        let events = match &plan.scene.events {
            Some(events) if !events.starts_with("random:") => std::fs::read_to_string(events)
                .with_context(|| format!("cannot read scheduling events {events}"))?,
            events => format!("{events:?}"),
        };
        let key = format!(
            "{} {digest} {:?} {machine:?} {page_size} {} {} {} {} {}",
            env!("CARGO_PKG_VERSION"),
            model.costs(&machine)?,
            model.threads_on,
            model.misses,
            plan.replication,
            plan.scene.iterations,
            events
        );
        Ok(Unit { plan, journal, file, model, key })
    }

    /// The cells of the unit, from the journal where it has them.
    fn cells(&self, computed: &AtomicU64, partial: &AtomicBool) -> anyhow::Result<Vec<Cell>> {
        let mut laid = None;
        let mut cells = Vec::new();
        for (index, start) in self.plan.starts.iter().enumerate() {
            for (level, &information) in self.plan.information.iter().enumerate() {
                let first = index == 0 && level == 0;
                // Static policies begin as they say and see nothing: once is enough.
                let wanted = |entry: &&&Entry| first || !matches!(entry.begin, Begin::Own(_));
                for entry in self.plan.policies.iter().filter(wanted) {
                    let parameters = self.plan.settings.of(entry).all();
                    let key = format!("{} {} {information} {} {parameters:?}", self.key, start.0, entry.name);
                    let key = cell::digest(key.as_bytes());
                    if let Some(cell) = self.journal.get(&key) {
                        cells.push(cell);
                        continue;
                    }
                    let laid = match &laid {
                        Some(laid) => laid,
                        None => laid.insert(self.lay()?),
                    };
                    let cell = self.compute(laid, key, index, information, entry)?;
                    self.journal.add(&cell)?;
                    computed.fetch_add(1, Ordering::Relaxed);
                    partial.fetch_or(laid.study.partial, Ordering::Relaxed);
                    cells.push(cell);
                }
            }
        }
        Ok(cells)
    }

    fn lay(&self) -> anyhow::Result<Laid> {
        let trace = self.file.trace()?;
        let machine = self.model.machine(study::is_machine)?;
        let page_size = self.model.page_size(&machine);
        let study = Study::new(self.model, &self.plan.scene, &machine, &trace, page_size, None)?;
        let uses = sharing::classify(&study.history)?;
        let starts: Vec<_> =
            self.plan.starts.iter().map(|(_, start)| start.of(&trace, &study.history).into_owned()).collect();
        let bound = Bound::new(&self.subject(&study, &starts[0], Information::PERFECT), &uses)?;
        Ok(Laid { study, uses, bound, starts })
    }

    fn subject<'s>(
        &'s self,
        study: &'s Study,
        start: &'s Placement,
        information: Information,
    ) -> Subject<'s> {
        let uniform = matches!(study.costs, Costs::Uniform(_));
        Subject {
            history: &study.history,
            costs: &study.costs,
            machine: &self.model.machine,
            replication: self.plan.replication && uniform && !self.model.misses,
            placement: Some(start),
            information,
            timeline: &study.timeline,
            settings: &self.plan.settings,
        }
    }

    fn compute(
        &self,
        laid: &Laid,
        key: String,
        start: usize,
        information: Information,
        entry: &Entry,
    ) -> anyhow::Result<Cell> {
        let subject = self.subject(&laid.study, &laid.starts[start], information);
        let begin = Instant::now();
        let result = subject.simulate(entry, false)?;
        let row = subject.row(entry.name, &result, &laid.bound, begin.elapsed().as_secs_f64());
        let trace = self.file.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let start = match entry.begin {
            Begin::Own(_) => "own".to_owned(),
            _ => self.plan.starts[start].0.clone(),
        };
        Ok(Cell { key, trace, start, classes: cell::classes(laid, &result), row })
    }
}
