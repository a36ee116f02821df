//! Policies on a grid of traces, machines, starts and information levels or monitors, one row a cell.
//!
//! The cells of a trace on a machine share the page histories and the bound. Each finished cell goes to a journal at
//! once, under a key that names everything it depends on; a study that was killed goes on from there, and one that is
//! asked for more computes only what is new.

mod cell;
mod grid;
mod journal;
mod output;
mod plan;

pub use cell::{Cell, ClassCost};
pub use grid::Grid;
pub use output::{document, write, Document};
pub use plan::{Level, Plan};

use crate::case::Case;
use crate::error::{Result, While};
use crate::experiment::Ready;
use crate::placement::Begins;
use crate::progress::Unit;
use crate::rig::{self, Rig};
use crate::trace_file::TraceFile;
use crate::windows;
use homing_core::compare::{Bound, BoundStart, Subject};
use homing_core::information::Information;
use homing_core::policy::placement::Placement;
use homing_core::policy::table::{Begin, Entry};
use homing_core::sharing::{self, PageUse};
use homing_linux::files::{make_directory, read_text};
use journal::Journal;
use rayon::prelude::*;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

/// What a study writes into its directory.
pub const FILES: &[&str] = &[JOURNAL, "cells.csv", "cells.parquet", MANIFEST, PAGE];
/// The page, which [`write`] leaves to who has one.
pub const PAGE: &str = "study.html";
/// What the results were made of.
pub const MANIFEST: &str = "manifest.json";
const JOURNAL: &str = "cells.jsonl";

/// What a study found.
pub struct Found {
    /// All cells, in the order of the plan.
    pub cells: Vec<Cell>,
    /// How many of them no earlier run had computed.
    pub computed: u64,
    /// A trace is damaged or unfinished.
    pub damaged: bool,
    /// What a reader of the results must know.
    pub notes: Vec<String>,
}

/// A study with its directory and its journal.
pub struct Begun<'a> {
    plan: &'a Plan,
    journal: Journal,
}

impl Plan {
    /// Makes the directory and reads what earlier runs have left in it. No other study may be at work there.
    pub fn begin(&self) -> Result<Begun<'_>> {
        crate::manifest::refuse_others(&self.out.join(MANIFEST))?;
        make_directory(&self.out)
            .doing(|| format!("--out: cannot make the directory {}", self.out.display()))?;
        Ok(Begun { plan: self, journal: Journal::open(&self.out.join(JOURNAL))? })
    }
}

impl Begun<'_> {
    /// What earlier runs left that is no cell: the journal and its strange lines, which are left out.
    pub fn strange(&self) -> Option<(&Path, u64)> {
        self.journal.strange()
    }

    /// Computes what the journal does not have.
    pub fn run(&self) -> Result<Found> {
        let Begun { plan, journal } = self;
        let tally = Tally::default();
        let progress = &plan.experiment().progress;
        let open = |(path, name): &(PathBuf, String)| Ok(TraceFile::ordered(path, progress)?.named(name));
        let files = plan.traces.par_iter().map(open).collect::<Result<Vec<TraceFile>>>()?;
        let units: Vec<_> =
            files.iter().flat_map(|file| plan.machines.iter().map(move |ready| (file, ready))).collect();
        let progress = progress.begin(units.len() as u64, Unit::Cases, "traces on machines");
        let cells = units
            .par_iter()
            .map(|(file, ready)| {
                let cells = On::new(plan, journal, file, ready).and_then(|on| on.cells(&tally));
                progress.advance(1);
                cells.doing(|| format!("{} on {}", file.path.display(), ready.experiment.model.machine))
            })
            .collect::<Result<Vec<Vec<Cell>>>>()?;
        let (damaged, notes) = tally.notes();
        let computed = tally.computed.into_inner();
        Ok(Found { cells: cells.into_iter().flatten().collect(), computed, damaged, notes })
    }
}

/// What traces on machines say together.
#[derive(Default)]
struct Tally {
    /// Traces that are damaged or unfinished.
    damaged: Mutex<BTreeSet<String>>,
    /// What is to be said of traces of windows.
    windows: Mutex<BTreeSet<String>>,
    /// Cells that no earlier run had computed.
    computed: AtomicU64,
    /// Policies that cannot run with monitors.
    unable: Mutex<BTreeSet<&'static str>>,
}

impl Tally {
    /// Whether a trace is damaged, and what a reader of the results must know.
    fn notes(&self) -> (bool, Vec<String>) {
        let (damaged, unable) = (held(&self.damaged), held(&self.unable));
        let mut notes: Vec<String> = held(&self.windows).iter().cloned().collect();
        if !damaged.is_empty() {
            let names: Vec<_> = damaged.iter().map(String::as_str).collect();
            notes.push(format!(
                "damaged or unfinished, what is lost is not counted (`homing trace info` says where): {}",
                names.join(", ")
            ));
        }
        if !unable.is_empty() {
            let names: Vec<_> = unable.iter().copied().collect();
            notes.push(format!("{}: {}", rig::UNABLE, names.join(", ")));
        }
        (!damaged.is_empty(), notes)
    }
}

/// What is behind a lock; who panicked with it does not return here.
fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// One trace on one machine.
struct On<'a> {
    plan: &'a Plan,
    journal: &'a Journal,
    file: &'a TraceFile,
    ready: &'a Ready,
    /// What the keys of all its cells begin with.
    key: String,
}

/// What all cells of a trace on a machine share.
struct Laid<'a> {
    case: Case<'a>,
    uses: Vec<PageUse>,
    /// By start, or one for all starts if the bound does not begin there.
    bounds: Vec<Bound>,
    /// By start: where pages begin.
    starts: Vec<Placement>,
    /// What monitors run in, if there are any.
    rig: Option<Rig>,
}

/// What keys say of where pages begin: its name, and what is in its file.
fn start_key((name, begins): &(String, Begins)) -> String {
    match begins.placement() {
        Placement::File(file) => format!("{name} {}", cell::digest(file.text().as_bytes())),
        _ => name.clone(),
    }
}

impl<'a> On<'a> {
    fn new(plan: &'a Plan, journal: &'a Journal, file: &'a TraceFile, ready: &'a Ready) -> Result<Self> {
        let digest = cell::digest(file.bytes());
        let Ready { experiment, machine, costs, page_size, .. } = ready;
        let (model, scene) = (&experiment.model, &experiment.scene);
        let events = match &scene.events {
            Some(events) if !events.starts_with("random:") => {
                read_text(Path::new(events), "file of scheduling events")?
            }
            events => format!("{events:?}"),
        };
        let key = format!(
            "{} {digest} {costs:?} {machine:?} {page_size} {} {} {} {} {} {} {events}",
            env!("CARGO_PKG_VERSION"),
            model.threads_on(machine),
            model.misses,
            model.mover,
            experiment.replication,
            experiment.bound_start,
            scene.iterations,
        );
        Ok(On { plan, journal, file, ready, key })
    }

    /// The cells of all starts, levels and policies, from the journal where it has them.
    fn cells(&self, tally: &Tally) -> Result<Vec<Cell>> {
        let Ready { costs, settings, policies, .. } = self.ready;
        let (able, unable): (Vec<&Entry>, Vec<_>) =
            policies.iter().partition(|entry| rig::able(entry, costs, settings));
        if self.plan.has_monitors() {
            held(&tally.unable).extend(unable.iter().map(|entry| entry.name));
        }
        let trace = self.file.trace()?;
        let path = self.file.path.display();
        held(&tally.windows).extend(windows::note(&trace).map(|note| format!("{path}: {note}")));
        if trace.is_partial() || !trace.whole() {
            held(&tally.damaged).insert(self.file.path.display().to_string());
        }
        let mut laid = None;
        let mut cells = Vec::new();
        let watched = self.plan.levels.iter().position(|level| matches!(level, Level::Monitor(_)));
        for (index, start) in self.plan.starts.iter().enumerate() {
            let start = start_key(start);
            for (number, level) in self.plan.levels.iter().enumerate() {
                // Static policies begin as they say and see nothing: once is enough, and once in the loop with caches.
                let first = index == 0 && (number == 0 || Some(number) == watched);
                let wanted = |entry: &&&Entry| first || !matches!(entry.begin, Begin::Own(_));
                let policies = match level {
                    Level::Information(_) => policies,
                    Level::Monitor(_) => &able,
                };
                for entry in policies.iter().filter(wanted) {
                    let parameters = settings.of(entry).all();
                    let key = format!("{} {start} {} {} {parameters:?}", self.key, level.name(), entry.name);
                    let key = cell::digest(key.as_bytes());
                    if let Some(cell) = self.journal.get(&key) {
                        cells.push(self.renamed(cell));
                        continue;
                    }
                    let laid = match &laid {
                        Some(laid) => laid,
                        None => laid.insert(self.lay()?),
                    };
                    let cell = self.compute(laid, key, index, level, entry)?;
                    self.journal.add(&cell)?;
                    tally.computed.fetch_add(1, Ordering::Relaxed);
                    cells.push(cell);
                }
            }
        }
        Ok(cells)
    }

    /// A cell of an earlier run under the names of this one: a key says what was computed, and an earlier run may have
    /// had other names for that, or have told apart what this one has not.
    fn renamed(&self, mut cell: Cell) -> Cell {
        cell.trace.clone_from(&self.file.name);
        cell.row.machine.clone_from(&self.ready.experiment.model.machine);
        cell
    }

    fn lay(&self) -> Result<Laid<'a>> {
        let case = Case::new(self.ready, self.file, None)?;
        let uses = sharing::classify(&case.layout.history)?;
        let starts: Vec<Placement> = self
            .plan
            .starts
            .iter()
            .map(|(_, start)| start.of(&case.trace, &case.layout.history).into_owned())
            .collect();
        let bounded = match self.ready.experiment.bound_start {
            BoundStart::OneCopy => &starts[..1],
            BoundStart::Same => &starts,
        };
        let bound = |start| Bound::new(&self.subject(&case, start, Information::PERFECT), &uses);
        let bounds = bounded.iter().map(bound).collect::<std::result::Result<_, _>>()?;
        let rig = if self.plan.has_monitors() { Some(Rig::new(&case)?) } else { None };
        Ok(Laid { uses, bounds, starts, rig, case })
    }

    /// What bounds and policies are asked about, under the machine's name on the command line.
    fn subject<'s>(
        &'s self,
        case: &'s Case<'_>,
        start: &'s Placement,
        information: Information,
    ) -> Subject<'s> {
        let machine = &self.ready.experiment.model.machine;
        Subject { machine, placement: Some(start), information, ..case.subject() }
    }

    fn compute(
        &self,
        laid: &Laid<'_>,
        key: String,
        start: usize,
        level: &Level,
        entry: &Entry,
    ) -> Result<Cell> {
        let subject = |information| self.subject(&laid.case, &laid.starts[start], information);
        let bound = laid.bounds.get(start).unwrap_or(&laid.bounds[0]);
        let (row, classes) = match (level, &laid.rig) {
            (Level::Monitor(choice), Some(rig)) => {
                let subject = subject(Information::PERFECT);
                (rig.watched(&laid.case, &subject, bound, entry, choice)?, Vec::new())
            }
            (Level::Monitor(_), None) => unreachable!("there is a rig where there are monitors"),
            (Level::Information(information), _) => {
                let (subject, begin) = (subject(*information), Instant::now());
                let result = subject.simulate(entry, false)?;
                let floor = bound.floor_of(&subject, &result)?;
                let seconds = begin.elapsed().as_secs_f64();
                let row = subject.row_above(&floor, entry.name, &result, bound, seconds);
                (row, cell::classes(laid, &floor, &result))
            }
        };
        let trace = self.file.name.clone();
        let start = match entry.begin {
            Begin::Own(_) => "own".to_owned(),
            _ => self.plan.starts[start].0.clone(),
        };
        Ok(Cell { key, trace, start, classes, row })
    }
}
