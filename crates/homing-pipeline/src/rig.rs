//! Runs with a monitor in the loop: what `simulate --monitor`, `compare --monitor` and `study --monitor` share.

use crate::case::Case;
use crate::error::{PipelineError, Result};
use crate::experiment::Ready;
use crate::layout::check_lines;
use crate::model;
use homing_core::cache::cpus::CpusInUse;
use homing_core::cache::{Addresses, HierarchyShape};
use homing_core::compare::{Bound, Floor, Subject};
use homing_core::machine::{Costs, TimePrices};
use homing_core::monitor::table::Choice;
use homing_core::policy::placement::Placement;
use homing_core::policy::settings::Settings;
use homing_core::policy::table::{Begin, Entry};
use homing_core::policy::Policy;
use homing_core::report::Row;
use homing_core::simulate::Simulation;
use homing_core::system::{self, Run, Setup};
use homing_core::time::{Elapsed, Mover, NoTimes, Times};
use homing_session::simulated::{self, Live, Log};
use std::borrow::Cow;
use std::time::Instant;

/// Intervals of a run, unless the user says another length.
const INTERVALS: u64 = 50;

/// What runs in the loop need beside a trace that is laid over a machine.
pub struct Rig {
    shape: HierarchyShape,
    cpus: CpusInUse,
    addresses: Addresses,
    times: std::result::Result<Times, NoTimes>,
    mover: Mover,
    prices: Option<TimePrices>,
}

impl Rig {
    /// For a trace that is laid over the machine of an experiment.
    pub fn new(case: &Case<'_>) -> Result<Rig> {
        check_lines(&case.trace)?;
        let Ready { experiment, machine, page_size, .. } = case.ready;
        Ok(Rig {
            shape: model::hierarchy(machine, *page_size)?,
            cpus: model::cpus(&case.trace, &case.layout.binding),
            addresses: model::addresses(&case.trace, *page_size),
            times: Times::new(machine, *page_size),
            mover: experiment.model.mover,
            prices: case.layout.prices.clone(),
        })
    }

    /// What is simulated, with [`INTERVALS`] intervals.
    pub fn setup<'a>(&'a self, case: &'a Case<'a>, placement: &'a Placement, choice: &Choice) -> Setup<'a> {
        let Case { trace, layout, .. } = case;
        Setup {
            trace,
            costs: &layout.costs,
            shape: &self.shape,
            cpus: &self.cpus,
            addresses: &self.addresses,
            placement,
            monitor: choice.entry.name,
            interval: trace.references().div_ceil(INTERVALS).max(1),
            timeline: &layout.timeline,
            times: self.times.as_ref().ok(),
            mover: self.mover,
            extras: self.prices.as_ref().map(|prices| prices.extras),
            log: false,
        }
    }

    /// The pages of the trace.
    pub fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// Why there are no modelled times, if there are none.
    pub fn no_times(&self) -> Option<&NoTimes> {
        self.times.as_ref().err()
    }

    /// The row of a policy that sees what a monitor reports; it must be `able` to.
    pub fn watched(
        &self,
        case: &Case<'_>,
        subject: &Subject,
        bound: &Bound,
        entry: &Entry,
        choice: &Choice,
    ) -> Result<Row> {
        let begin = Instant::now();
        let policy = entry.make(subject.costs, false, subject.settings);
        let placement = entry.placement(subject.placement, subject.costs, subject.settings);
        let setup = self.setup(case, &placement, choice);
        let run = simulated::run(&setup, &*policy, choice, &mut ());
        let (run, _) = run.map_err(|e| PipelineError::Usage(format!("policy `{}`: {e}", entry.name)))?;
        // A static policy begins where it says, and so does its bound if bounds begin where policies do.
        let floor = match entry.begin {
            Begin::Own(_) => bound.floor_of(subject, &subject.simulate(entry, false)?)?,
            _ => Cow::Borrowed(&bound.floor),
        };
        let row = self.row_above(&floor, subject, bound, entry.name, &run, begin.elapsed().as_secs_f64());
        Ok(Row { information: level(choice), ..row })
    }

    /// The row of a run: what its own misses, moves and shoot-downs cost. Moves change what misses, so that the bound,
    /// which has the misses of pages that stay, is one on time but not on each miss.
    pub fn row(&self, subject: &Subject, bound: &Bound, name: &str, run: &Run, seconds: f64) -> Row {
        self.row_above(&bound.floor, subject, bound, name, run, seconds)
    }

    /// The same, measured against an optimum.
    fn row_above(
        &self,
        floor: &Floor,
        subject: &Subject,
        bound: &Bound,
        name: &str,
        run: &Run,
        seconds: f64,
    ) -> Row {
        let mut row = subject.row_above(floor, name, &simulation(run), bound, seconds);
        if let Some(prices) = &self.prices {
            let beyond = prices.beyond(run.account.moves, run.caches.shootdowns);
            (row.cost, row.copy_cost) = (row.cost + beyond, row.copy_cost + beyond);
        }
        let optimal_cost = floor.optimum.cost;
        row.references = run.account.references();
        row.mcpr = if row.references > 0 { row.cost / row.references as f64 } else { 1.0 };
        row.nonlocal_percent = nonlocal(run);
        row.gap_percent = if optimal_cost > 0.0 { 100.0 * (row.cost / optimal_cost - 1.0) } else { 0.0 };
        row.recovered_percent = None;
        let ms = |time: fn(&Elapsed) -> f64| run.modelled.as_ref().map(|modelled| time(modelled) * 1e-6);
        (row.modelled_ms, row.own_mover_ms) = (ms(|m| m.total_ns), ms(|m| m.own_mover_ns));
        row
    }
}

/// How tables name the information that a monitor gives.
pub fn level(choice: &Choice) -> String {
    format!("monitor {}", choice.brief())
}

/// What is told of policies that are not `able`.
pub const UNABLE: &str =
    "no rows with monitors for policies that act at faults or need the whole trace beforehand";

/// Whether a policy can run in the loop: it takes samples, and begins without knowing the whole trace.
pub fn able(entry: &Entry, costs: &Costs, settings: &Settings) -> bool {
    let knows = matches!(entry.placement(None, costs, settings), Placement::Best | Placement::Worst);
    !knows && takes_samples(entry, &*entry.make(costs, false, settings))
}

/// Whether a policy does anything on what monitors report: those that act at faults do not.
pub fn takes_samples(entry: &Entry, policy: &dyn Policy) -> bool {
    policy.wants_samples() || !matches!(entry.begin, Begin::Given | Begin::Global)
}

/// The counts of a run, as simulations on page histories give them.
pub fn simulation(run: &Run) -> Simulation {
    Simulation { account: run.account, counts: run.counts, ..Simulation::default() }
}

/// Share of misses served by another node, in per cent.
pub fn nonlocal(run: &Run) -> f64 {
    let account = &run.account;
    100.0 * (account.remote + account.global) as f64 / (account.references() as f64).max(1.0)
}

/// Both runs: nothing moves, and the policy acts.
pub struct Pair {
    /// Pages stay where they begin.
    pub before: Run,
    /// The policy moves them.
    pub after: Run,
    /// The live session of `after`, if the monitor is one.
    pub session: Option<Live>,
}

/// The run without moves and the run with the policy. If the monitor is the live session, `log` gets its inputs and
/// outputs.
pub fn pair(
    setup: &Setup,
    policy: &dyn Policy,
    choice: &Choice,
    log: &mut dyn Log,
) -> std::result::Result<Pair, system::SystemError> {
    let quiet = Setup { log: false, ..*setup };
    let still = || system::watch(&quiet, &homing_core::policy::stay::Stay, ()).map(|(run, ())| run);
    let (before, after) = rayon::join(still, || simulated::run(setup, policy, choice, log));
    let (after, session) = after?;
    Ok(Pair { before: before?, after, session })
}
