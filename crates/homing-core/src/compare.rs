//! Policies against the bound on one trace: the rows, sharing classes and page map of a [`Report`](crate::report).
//!
//! Time stays outside: the caller gives a clock for the `seconds` of the rows, everything else is the same bytes at any
//! number of workers.

mod bound;
mod map;
mod means;
mod requesters;
mod sentence;
pub mod sweep;
#[cfg(test)]
mod tests;

pub use bound::{Bound, BoundStart, Floor};
pub use means::means;
pub use requesters::{requesters, Requester};
pub use sentence::summary;

use crate::account::{Account, Charges};
use crate::history::{History, SpillError};
use crate::information::Information;
use crate::machine::Costs;
use crate::optimal::{OptimalError, Optimum};
use crate::policy::placement::Placement;
use crate::policy::settings::Settings;
use crate::policy::table::{Begin, Entry};
use crate::policy::Policy;
use crate::report::{ClassRow, PageMap, Row};
use crate::sharing::{classify, PageUse, SharingClass};
use crate::simulate::{simulate, Setup, SimulateError, Simulation};
use crate::timeline::Timeline;
use crate::windows::{self, Estimate, Windows};

/// A trace laid over a machine, and how policies begin.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    /// The page runs.
    pub history: &'a History,
    /// The machine at the history's page size.
    pub costs: &'a Costs,
    /// The machine's name.
    pub machine: &'a str,
    /// Whether pages may be replicated; never on machines with unequal distances.
    pub replication: bool,
    /// Where pages begin, if the user said.
    pub placement: Option<&'a Placement>,
    /// Where the optimum begins that policies are measured against.
    pub bound_start: BoundStart,
    /// What policies see.
    pub information: Information,
    /// What happens besides references.
    pub timeline: &'a Timeline,
    /// Which parts of the trace are windows of the program.
    pub windows: &'a Windows,
    /// Parameters of policies.
    pub settings: &'a Settings,
    /// Whether `costs` are prices in time.
    pub in_time: bool,
}

/// A comparison that cannot be done.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// A simulation cannot be done.
    #[error(transparent)]
    Simulate(#[from] SimulateError),
    /// There is no curve of the bound.
    #[error(transparent)]
    Curve(#[from] crate::optimal::curve::CurveError),
    /// There is no bound.
    #[error(transparent)]
    Optimal(#[from] OptimalError),
    /// The history cannot be read back.
    #[error(transparent)]
    Spill(#[from] SpillError),
    /// The policy `file` without a file.
    #[error(
        "policy `file` needs a placement file: --placement file:FILE (made by `homing simulate --policy \
    best-static --placement-out FILE`)"
    )]
    NoFile,
}

/// The comparison of one trace.
#[derive(Debug)]
pub struct Compared {
    /// `optimal` first, then the policies in the order asked for.
    pub rows: Vec<Row>,
    /// Rows of the policies at further information levels.
    pub further_levels: Vec<Row>,
    /// One row a class.
    pub sharing: Vec<ClassRow>,
    /// Where pages begin, end and belong.
    pub page_map: PageMap,
    /// What the reader must know.
    pub notes: Vec<String>,
}

impl Subject<'_> {
    /// Whether pages are replicated, after what the machine allows.
    pub fn replicates(&self) -> bool {
        self.replication && matches!(self.costs, Costs::Uniform(_))
    }

    /// Simulates one policy.
    pub fn simulate(&self, entry: &Entry, log: bool) -> Result<Simulation, CompareError> {
        if matches!(entry.begin, Begin::File) && !matches!(self.placement, Some(Placement::File(_))) {
            return Err(CompareError::NoFile);
        }
        let placement = entry.placement(self.placement, self.costs, self.settings);
        let policy = entry.make(self.costs, self.replicates(), self.settings);
        self.simulate_policy(&*policy, &placement, log)
    }

    /// Simulates a policy that need not be in the table.
    pub fn simulate_policy(
        &self,
        policy: &dyn Policy,
        placement: &Placement,
        log: bool,
    ) -> Result<Simulation, CompareError> {
        let setup = Setup {
            history: self.history,
            costs: self.costs,
            placement,
            replication: self.replicates(),
            information: self.information,
            timeline: self.timeline,
            windows: self.windows,
            log,
        };
        Ok(simulate(&setup, policy)?)
    }

    /// The row of a policy that was simulated.
    pub fn row(
        &self,
        policy: &str,
        result: &Simulation,
        bound: &Bound,
        seconds: f64,
    ) -> Result<Row, CompareError> {
        let floor = bound.floor_of(self, result)?;
        let row = self.row_above(&floor, policy, result, bound, seconds);
        Ok(Row { program: self.of_program(policy, result)?, ..row })
    }

    /// What a policy does to the whole program, where the trace is of windows of it. The placements that are chosen by
    /// what is in the windows suit these too well to be taken as they are.
    fn of_program(&self, policy: &str, result: &Simulation) -> Result<Option<Estimate>, SpillError> {
        match policy {
            "best-static" => windows::best_static(self.history, self.windows, self.costs),
            "worst-static" => Ok(None),
            _ => Ok(self.windows.estimate(&result.windows, self.costs)),
        }
    }

    /// The row of a policy that was simulated, measured against an optimum.
    pub fn row_above(
        &self,
        floor: &Floor,
        policy: &str,
        result: &Simulation,
        bound: &Bound,
        seconds: f64,
    ) -> Row {
        let optimum = &floor.optimum;
        let mut row = self.plain_row(policy, Parts::of_account(&result.account, self.costs), optimum.cost);
        row.information = self.information.to_string();
        row.recovered_percent = bound.recovered_percent(row.cost, optimum);
        row.seconds = seconds;
        row
    }

    /// The row of the bound.
    pub fn optimal_row(&self, bound: &Bound, seconds: f64) -> Row {
        let optimum = &bound.floor.optimum;
        let mut row = self.row_of_optimum(optimum, seconds);
        row.recovered_percent = bound.recovered_percent(row.cost, optimum);
        row
    }

    /// The row of an optimum that no policy is measured against.
    pub fn row_of_optimum(&self, optimum: &Optimum, seconds: f64) -> Row {
        Row { seconds, ..self.plain_row("optimal", Parts::of_optimum(optimum), optimum.cost) }
    }

    fn plain_row(&self, policy: &str, parts: Parts, optimal_cost: f64) -> Row {
        let (references, pages) = (self.history.references(), u64::from(self.history.pages()));
        let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        Row {
            policy: policy.into(),
            machine: self.machine.into(),
            information: String::new(),
            references,
            cost: parts.cost,
            mcpr: if references > 0 { parts.cost / references as f64 } else { 1.0 },
            local: parts.charges.local,
            remote: parts.charges.remote,
            global: parts.charges.global,
            moves: parts.charges.moves,
            replications: parts.charges.replications,
            nonlocal_percent: 100.0
                * share((parts.charges.remote + parts.charges.global) as f64, references as f64),
            optimal_cost,
            gap_percent: 100.0 * share(parts.cost - optimal_cost, optimal_cost),
            recovered_percent: None,
            pages,
            seconds: 0.0,
            copy_cost: parts.copy_cost,
            moves_per_page: share((parts.charges.moves + parts.charges.replications) as f64, pages as f64),
            program: None,
            modelled_ms: None,
            own_mover_ms: None,
        }
    }
}

/// What a placement consists of, from either side.
struct Parts {
    cost: f64,
    copy_cost: f64,
    charges: Charges,
}

impl Parts {
    fn of_account(account: &Account, costs: &Costs) -> Parts {
        Parts { cost: account.cost(costs), copy_cost: account.copy_cost(costs), charges: **account }
    }

    fn of_optimum(optimum: &crate::optimal::Optimum) -> Parts {
        Parts { cost: optimum.cost, copy_cost: optimum.copy_cost, charges: optimum.counts }
    }
}

/// Compares policies with the bound and with each other, also at `further` information levels. `clock` gives seconds
/// since any moment.
pub fn compare(
    subject: &Subject,
    policies: &[&Entry],
    further: &[Information],
    clock: &dyn Fn() -> f64,
) -> Result<Compared, CompareError> {
    let uses = classify(subject.history)?;
    let begin = clock();
    let bound = Bound::new(subject, &uses)?;
    let mut rows = vec![subject.optimal_row(&bound, clock() - begin)];
    let mut notes = subject.notes();
    let mut shown: Option<(&str, Simulation)> = None;
    for entry in policies {
        let begin = clock();
        let result = subject.simulate(entry, false)?;
        rows.push(subject.row(entry.name, &result, &bound, clock() - begin)?);
        note_counts(&mut notes, entry.name, &result);
        if shown.as_ref().is_none_or(|(name, _)| *name != "homing") {
            shown = Some((entry.name, result));
        }
    }
    let mut further_levels = Vec::new();
    for &information in further {
        let subject = Subject { information, ..*subject };
        for entry in policies {
            let begin = clock();
            let result = subject.simulate(entry, false)?;
            further_levels.push(subject.row(entry.name, &result, &bound, clock() - begin)?);
        }
    }
    let sharing = sharing_rows(&uses, &bound, shown.as_ref());
    let page_map = map::page_map(subject.history, &uses, &bound, shown.as_ref())?;
    if page_map.shown < page_map.pages {
        notes.push(format!(
            "the page map holds the {} pages with most references of {}",
            page_map.shown, page_map.pages
        ));
    }
    Ok(Compared { rows, further_levels, sharing, page_map, notes })
}

impl Subject<'_> {
    /// What holds for every number of this subject.
    pub fn notes(&self) -> Vec<String> {
        let unit =
            if self.in_time { "local misses as threads wait for them" } else { "local word references" };
        let mut notes = vec![format!(
            "costs are modelled, in {unit} (Bolosky & Scott 1991, equations 1 and 2); reference counts are of the \
             recorded program"
        )];
        if self.replication && !self.replicates() {
            notes.push(
                "without replication: the exact bound with replication is only known for machines with equal distances"
                    .into(),
            );
        } else if !self.replication {
            notes.push("without replication, policies and bound alike".into());
        }
        if self.bound_start == BoundStart::Same {
            notes.push(
                "every policy is measured against the optimum that begins where it begins; `optimal` begins where \
                pages do"
                    .into(),
            );
        }
        notes
    }
}

/// Says what a simulation could not do as asked.
pub fn note_counts(notes: &mut Vec<String>, policy: &str, result: &Simulation) {
    let counts = &result.counts;
    let said = [
        (counts.refused, "actions were refused"),
        (counts.forced_collapses, "writes met several copies that the policy had left"),
        (result.not_in_file, "pages are not in the placement file and began at their first touch"),
    ];
    for (count, what) in said.into_iter().filter(|(count, _)| *count > 0) {
        notes.push(format!("{policy}: {count} {what}"));
    }
}

fn sharing_rows(uses: &[PageUse], bound: &Bound, shown: Option<&(&str, Simulation)>) -> Vec<ClassRow> {
    let total: u64 = uses.iter().map(|page| page.references).sum();
    let homing = shown.filter(|(name, _)| *name == "homing").map(|(_, result)| result);
    let row = |class: SharingClass| {
        let of_class = |(page, _): &(usize, &PageUse)| uses[*page].class == class;
        let sum =
            |part: fn(&PageUse) -> u64| uses.iter().filter(|page| page.class == class).map(part).sum::<u64>();
        let cost = |costs: &[f64]| {
            uses.iter().enumerate().filter(of_class).fold(0.0, |sum, (page, _)| sum + costs[page])
        };
        let (references, writes) = (sum(|page| page.references), sum(|page| page.writes));
        ClassRow {
            class: class.name().into(),
            pages: sum(|_| 1),
            references,
            reads: references - writes,
            writes,
            references_percent: if total > 0 { 100.0 * references as f64 / total as f64 } else { 0.0 },
            optimal_cost: bound.floor.class_costs[class as usize],
            first_touch_cost: cost(&bound.first_touch.page_costs),
            homing_cost: homing.map(|result| cost(&result.page_costs)),
        }
    };
    SharingClass::ALL.into_iter().map(row).collect()
}
