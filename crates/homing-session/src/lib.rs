//! The live session without I/O: what it knows of processes and pages, what it asks for, and when. [`Session::input`]
//! takes one [`Input`] at a time and answers with [`Output`]s; whoever drives it carries them out and hands the
//! answers in. It reads no clock: each input comes with its time. The same inputs always give the same outputs, so
//! that a log of them can be checked.
//!
//! The words:
//! * A **process scan** (*look*) finds processes, threads and mappings (`looks.rs`, `processes.rs`); `look_pace.rs`
//!   says when.
//! * A **scan** takes mappings of pages away, so that the next access to each is a **hint fault**; `scan_pace.rs` says
//!   when.
//! * An **access** was seen by a source (`accesses.rs`). What a hint fault stands for is the business of
//!   [`crate::estimate`].
//! * A **thread moved** when it stays on another node (`stays.rs`); its own pages are **forwarded** ([`threads`]).
//! * A thread **wanders** if it does that often. Threads that move can be **kept** on nodes (`wanderers.rs`).
//! * An **action** is what the policy, a plan or the session asks for; it becomes an **order** if no rule refuses it
//!   ([`orders`]). An order is **handed out**, **lands**, and is **settled** (`decisions.rs`).
//! * A **question** asks the kernel where a page is. Accesses wait for the answer.
#![forbid(unsafe_code)]

mod accesses;
pub mod account;
mod decisions;
pub mod estimate;
mod gain;
pub mod hot;
pub mod input;
mod look_pace;
mod looks;
mod numbers;
pub mod orders;
pub mod output;
pub mod pages;
mod payoff;
pub mod period;
pub mod plan;
mod processes;
mod rounds;
mod scan_pace;
pub mod sight;
pub mod simulated;
mod splits;
mod spread;
mod stays;
#[cfg(test)]
mod tests;
pub mod thinning;
pub mod threads;
pub mod undo;
mod wanderers;

pub use input::Input;
pub use output::Output;

use crate::estimate::Estimator;
use account::Account;
use gain::Gain;
use homing_core::engine::{Engine, Observation};
use homing_core::ids::{Micros, Node, Time};
use homing_core::machine::Costs;
use homing_core::policy::{Context, Policy};
use homing_core::process::{self, ProcessId};
use hot::HotAreas;
use input::{Mark, Noticed, Scanned};
use look_pace::{LookPace, Urgency};
use orders::Orders;
use payoff::Payoff;
use plan::Plan;
use processes::Processes;
use scan_pace::ScanPace;
use serde::{Deserialize, Serialize};
use splits::Splits;
use spread::Load;
use stays::Stays;
use std::collections::{BTreeMap, BTreeSet};
use thinning::{Part, Thinning};
use undo::Undo;
use wanderers::Wanderers;

/// Where a page is is asked again when its last answer is older.
const STALE: Micros = Micros::from_millis(5000);

/// ... by who only watches, and moves nothing itself.
const STALE_TO_WATCHERS: Micros = Micros::from_millis(60_000);

/// ... where the kernel moves pages by itself.
const STALE_WITH_BALANCING: Micros = Micros::from_millis(500);

/// Orders that are handed out in the middle of an interval; fewer wait for its end.
const MANY: usize = 512;

/// How often decisions are made, unless the driver is told otherwise.
pub const INTERVAL: Micros = Micros::from_millis(100);

/// Bytes of a base page.
pub const PAGE: u64 = 4096;
/// Bytes of a huge page.
pub const HUGE: u64 = 2 << 20;

/// What a session goes by. With these, a fresh policy and the same inputs it does the same again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Memory nodes of the machine.
    pub nodes: u16,
    /// Orders handed out at the end of an interval begin within this time of it.
    pub time_for_moves: Micros,
    /// Most bytes moved a second; 0 for no limit.
    pub rate_limit: u64,
    /// Names of regions whose pages may move; empty for all.
    pub regions: Vec<String>,
    /// CPUs that new threads are bound to, in turn; empty if they are not bound.
    pub bind: Vec<u32>,
    /// CPUs of each node, if threads that move are kept on nodes (`wanderers.rs`); empty if they are not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keep: Vec<u32>,
    /// Decide, move nothing.
    pub dry_run: bool,
    /// Only count who uses which pages: the policy gets no accesses, processes are looked at seldom, and of many pages
    /// a part is followed ([`thinning`]).
    pub watch: bool,
    /// References that a burst stands for ([`crate::estimate`]).
    pub weight: f64,
    /// Never split huge pages that several nodes use.
    pub keep_huge_pages: bool,
    /// Spread what all nodes use alike where one node answers for all (`spread.rs`).
    pub spread: bool,
    /// Accesses come from scans for hint faults.
    pub scans: bool,
    /// Scans hold threads: those that come to other nodes by that, or by process scans, are sent back (`stays.rs`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub send_back: bool,
}

/// What a session is made of.
pub struct Setup<'p> {
    /// What it goes by.
    pub settings: Settings,
    /// The policy, fresh.
    pub policy: &'p mut dyn Policy,
    /// What the policy is told at first.
    pub context: Context,
    /// Moves of an earlier run, to be made again.
    pub plan: Plan,
    /// Whether to give [`Output::Decided`], [`Output::Settled`] and [`Output::WasSplit`].
    pub record: bool,
}

/// The session.
pub struct Session<'p> {
    settings: Settings,
    record: bool,
    /// The present, and what has been asked for in it.
    t: Micros,
    out: Vec<Output>,
    engine: Engine<'p, Orders>,
    estimator: Estimator,
    processes: Processes,
    stays: Stays,
    wanderers: Wanderers,
    splits: Splits,
    plan: Plan,
    /// What moves could still gain, by process.
    gains: BTreeMap<ProcessId, Gain>,
    /// ... and what they have brought.
    payoffs: BTreeMap<ProcessId, Payoff>,
    /// ... and whether they made it worse.
    undos: BTreeMap<ProcessId, Undo>,
    /// Which nodes answer for what each process uses.
    loads: BTreeMap<ProcessId, Load>,
    look_pace: LookPace,
    scan_pace: ScanPace,
    thinning: Thinning,
    account: Account,
    hot: HotAreas,
    /// Threads of the last parallel construct of each process that reports them.
    teams: BTreeMap<ProcessId, u32>,
    /// Questions without an answer, by number, and the number of the next.
    asked: BTreeMap<u32, accesses::Asked>,
    questions: u32,
    /// Threads of all processes.
    threads: u32,
    /// Threads that were bound.
    bound: usize,
    /// When orders were last handed out, and how many the movers have been through since.
    sent: Micros,
    landed: usize,
    kernel_moves_pages: bool,
}

/// References of a burst: as many as make a move worth it.
pub fn weight_of_a_burst(costs: &Costs) -> f64 {
    let nodes = costs.memories();
    let pairs = (0..nodes).flat_map(|a| (0..nodes).map(move |b| (Node(a), Node(b)))).filter(|(a, b)| a != b);
    let references = pairs.filter_map(|(by, at)| {
        let saved = costs.access(by, at) - costs.access(by, by);
        (saved > 0.0).then(|| costs.copy(at, by) / saved)
    });
    let least = references.fold(f64::INFINITY, f64::min);
    if least.is_finite() {
        least.max(1.0)
    } else {
        1.0
    }
}

impl<'p> Session<'p> {
    /// Nothing known yet.
    pub fn new(setup: Setup<'p>) -> Session<'p> {
        let Setup { settings, policy, context, plan, record } = setup;
        let look_pace = LookPace::new(settings.watch);
        let mut engine =
            Engine::new(policy, Orders::new(usize::from(settings.nodes), settings.dry_run), false);
        engine.begin(&context);
        let wanderers = Wanderers::new(&settings.keep);
        Session {
            settings,
            record,
            t: Micros(0),
            out: Vec::new(),
            engine,
            estimator: Estimator::default(),
            processes: Processes::default(),
            stays: Stays::default(),
            wanderers,
            splits: Splits::new(),
            plan,
            gains: BTreeMap::new(),
            payoffs: BTreeMap::new(),
            undos: BTreeMap::new(),
            loads: BTreeMap::new(),
            look_pace,
            scan_pace: ScanPace::new(),
            thinning: Thinning::default(),
            account: Account::default(),
            hot: HotAreas::default(),
            teams: BTreeMap::new(),
            asked: BTreeMap::new(),
            questions: 0,
            threads: 0,
            bound: 0,
            sent: Micros(0),
            landed: 0,
            kernel_moves_pages: false,
        }
    }

    /// Takes what happened at `t` and adds what is to be done to `out`. Time does not run backwards: an earlier `t`
    /// counts as the last one.
    pub fn input(&mut self, t: Micros, input: Input, out: &mut Vec<Output>) {
        self.t = self.t.max(t);
        self.engine.executor_mut().set_now(self.t);
        match input {
            Input::Tick { behind, scannable } => self.tick(behind, scannable),
            Input::Looked(looked) => self.looked(looked),
            Input::Noticed(noticed) => self.look_pace.request(match noticed {
                Noticed::ProcessEnded | Noticed::CpusetChanged => Urgency::Now,
                Noticed::ThreadsBegan => Urgency::Soon,
            }),
            Input::Migrated(arrivals) => self.migrated(&arrivals),
            Input::Accesses(accesses) => self.take_accesses(accesses),
            Input::Located { number, answers } => self.located(number, &answers),
            Input::MoversIdle => self.movers_idle(),
            Input::Landed { results, moving, stopped } => self.landed(&results, moving, stopped),
            Input::Split(results) => self.took_split(&results),
            Input::Scanned(scan) => self.scanned(&scan),
            Input::NotBound { errno } => *self.account.failures.entry(errno).or_default() += 1,
            Input::Crowded(threads) => self.crowded(&threads),
            Input::NotKept(thread) => self.not_kept(thread),
            Input::Areas(areas) => self.take_areas(areas),
            Input::Constructs(constructs) => self.in_constructs(&constructs),
            Input::Marked(mark) => self.marked(mark),
            Input::IntervalEnd => self.interval_end(),
            Input::End => self.account.end_interval(self.t.0 / 1000),
        }
        out.append(&mut self.out);
    }

    /// Pages were marked: what the uses since the last scan say is judged.
    fn scanned(&mut self, scan: &Scanned) {
        self.gains.values_mut().for_each(Gain::scanned);
        self.payoffs.values_mut().for_each(Payoff::scanned);
        self.undos.values_mut().for_each(Undo::scanned);
        self.judge_gains();
        self.scan_pace.scanned(self.t, scan);
        self.account.sight.scanned(scan.everywhere);
        if self.settings.send_back {
            self.stays.over(self.t);
        }
    }

    /// What was seen says nothing about what moves gain now.
    fn forget_gains(&mut self) {
        self.gains.values_mut().for_each(Gain::forget);
        self.payoffs.values_mut().for_each(Payoff::forget);
        self.judge_gains();
    }

    /// Lets pages stay where moves would gain nothing, and for a while where moves did not pay; scans are rare once
    /// that is so of all processes.
    fn judge_gains(&mut self) {
        for gain in self.gains.values_mut() {
            gain.judge();
        }
        for payoff in self.payoffs.values_mut() {
            self.account.pauses += u64::from(payoff.judge(self.t, self.settings.scans));
        }
        let pauses =
            |process: &ProcessId| self.payoffs.get(process).is_some_and(|payoff| payoff.pauses(self.t));
        let stays = |(process, gain): (&ProcessId, &Gain)| {
            let did_not = pauses(process).then_some(payoff::DID_NOT_PAY);
            Some((*process, did_not.or(gain.is_nothing().then_some(gain::NOTHING))?))
        };
        let left: BTreeMap<ProcessId, &str> = self.gains.iter().filter_map(stays).collect();
        let open = self.gains.iter().any(|(process, gain)| gain.is_open() && !pauses(process));
        self.scan_pace.set_no_gain(self.t, !left.is_empty() && !open);
        let waits = self.gains.iter().filter(|(_, gain)| self.settings.scans && gain.waits());
        let waits = waits.map(|(process, _)| *process).collect();
        self.engine.executor_mut().put_off(waits);
        let taken_back = self.engine.executor_mut().leave(left);
        self.taken_back(taken_back);
    }

    fn tick(&mut self, behind: bool, scannable: bool) {
        self.settle_threads();
        let looks = self.look_pace.take_due(self.t);
        let scans = self.settings.scans && self.scan_pace.take_due(self.t, behind, scannable);
        if looks {
            self.out.push(Output::Look);
        }
        if self.due().is_some_and(|due| due <= self.t) {
            self.account.sight.waits(self.t);
        }
        if scans {
            self.account.sight.asks(self.t);
            self.out.push(Output::Scan);
        }
        if self.settings.send_back && (looks || scans) {
            self.stays.disturbed(self.t);
        }
        self.split_some();
    }

    fn marked(&mut self, mark: Mark) {
        let t = Time(self.t.0);
        if mark == Mark::IterationEnd {
            self.hot.iteration_ends();
        }
        self.engine.observe(match mark {
            Mark::IterationEnd => Observation::IterationEnd(t),
            Mark::PhaseBegin(phase) => Observation::PhaseBegin(phase, t),
        });
        self.record_actions();
        if self.engine.policy_hurries() {
            self.send_orders();
        }
    }

    fn interval_end(&mut self) {
        self.engine.observe(Observation::IntervalEnd(Time(self.t.0)));
        self.follow_plan();
        self.record_actions();
        let (samples, new) = self.estimator.changes.take();
        self.scan_pace.learnt(samples, new);
        self.judge_gains();
        self.undo();
        self.spread();
        self.send_orders();
        self.splits.interval();
        self.account.end_interval(self.t.0 / 1000);
    }

    /// When the next scan is due; `None` if the source does not scan, or does so now. Other things are done at ticks
    /// of the driver's own choice.
    pub fn due(&self) -> Option<Micros> {
        self.scan_pace.due().filter(|_| self.settings.scans)
    }

    /// Counts so far.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// The mappings of a process, as the last look found them.
    pub fn regions(&self, process: ProcessId) -> &[process::Region] {
        self.processes.regions(process)
    }

    /// The pages, and orders for them.
    pub fn orders(&self) -> &Orders {
        self.engine.executor()
    }

    /// Processes with moves that wait until they may use other nodes' memory: it matters when they may.
    pub fn confined(&self) -> &BTreeSet<ProcessId> {
        self.orders().confined()
    }

    /// What is looked at: all, but for who only watches.
    pub fn part(&self) -> Part {
        self.thinning.part()
    }

    /// Moves of the plan that were not made yet.
    pub fn planned(&self) -> usize {
        self.plan.len() + self.asked.values().map(|asked| asked.then().planned()).sum::<usize>()
    }
}
