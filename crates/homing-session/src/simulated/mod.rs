//! The live engine on a simulated machine: the very [`Session`] that `homing run` drives against a kernel, driven by a
//! trace. References go through caches and TLBs and take modelled time; what the session asks for is answered as a
//! kernel would, after the delays of [`homing_core::monitor::kernel`]. What the engine and the kernel take of CPUs is
//! charged in the program's time (`ledger.rs`), by one table (`costs.rs`).
//!
//! What is left out: mappings that go away; page cache, which the trace does not tell from other memory; huge pages
//! beside small ones; threads that a scheduler moves by itself.

mod balancing;
#[cfg(test)]
mod charged;
mod clock;
mod costs;
mod ledger;
mod marks;
mod movers;
mod steps;
#[cfg(test)]
mod tests;
mod threads;

use crate::account::Account;
use crate::input::Access;
use crate::plan::Plan;
use crate::{weight_of_a_burst, Input, Output, Session, Settings, HUGE, INTERVAL, PAGE};
use ahash::AHashMap;
pub use balancing::{balance, Balanced};
use clock::Clock;
use costs::{Costs as Prices, COSTS};
use homing_core::action::{Action, Entry};
use homing_core::cache::cpus::Whereabouts;
use homing_core::engine;
use homing_core::ids::{Micros, Node, PageSize, Time};
use homing_core::machine::Costs;
use homing_core::monitor::kernel::{Kernel, ASK};
use homing_core::monitor::table::{Build, Choice};
use homing_core::policy::{Context, Policy};
use homing_core::process::ProcessId;
use homing_core::system::memory::{Books, Memory};
use homing_core::system::{self, Run, Setup, SystemError};
use homing_core::time::{Mover, Times};
use homing_core::timeline::{Mark, Moment};
use homing_core::trace::{Turn, Visitor};
pub use ledger::Charges;
use ledger::{Ledger, On};
use marks::Marks;
use movers::Movers;
use serde::Serialize;
use threads::Threads;

/// The one process of a trace.
const PROCESS: ProcessId = ProcessId(1);

/// What a simulated session did, beside what every run tells.
#[derive(Clone, Debug)]
pub struct Live {
    /// The session's own counts.
    pub account: Account,
    /// Scans.
    pub scans: u64,
    /// Time in which the threads stood still for them.
    pub stopped: Micros,
    /// Faults at pages whose mapping a scan had taken away.
    pub hint_faults: u64,
    /// Faults before the first scan, of which the session was not told.
    pub faults_before: u64,
    /// Orders that were left at the end.
    pub left_waiting: u64,
    /// CPU time that the session took, and the kernel for it.
    pub charges: Charges,
    /// The time that these charges took of the program, in nanoseconds of the session: how much sooner the slowest CPU
    /// of each interval would have been done without them.
    pub delay_ns: f64,
    /// By interval of the session.
    pub curve: Vec<Point>,
}

/// An interval of the session.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Its end, in milliseconds of the session.
    pub ms: u64,
    /// Share of misses that another node served; none if there were no misses.
    pub nonlocal_percent: Option<f64>,
    /// Misses.
    pub misses: u64,
    /// Pages moved.
    pub moves: u64,
}

/// Takes everything that the session was told and asked for.
pub trait Log: Send {
    /// What the session goes by, and what its policy is told at first.
    fn begin(&mut self, settings: &Settings, context: &Context);
    /// It was told something.
    fn input(&mut self, t: Micros, input: &Input);
    /// It asked for something.
    fn output(&mut self, output: &Output);
}

/// Keeps nothing.
impl Log for () {
    fn begin(&mut self, _: &Settings, _: &Context) {}
    fn input(&mut self, _: Micros, _: &Input) {}
    fn output(&mut self, _: &Output) {}
}

/// Runs a policy on what a monitor of the table reports. If that is the live session, `log` receives its inputs and
/// outputs, and what the session did is returned as well.
///
/// # Errors
/// What the session cannot be simulated on, and those of [`system::run`].
pub fn run(
    setup: &Setup,
    policy: &dyn Policy,
    choice: &Choice,
    log: &mut dyn Log,
) -> Result<(Run, Option<Live>), SystemError> {
    match choice.entry.build {
        Build::Session => {
            let (run, live) = run_session(setup, policy, Kernel::of(&choice.values), &COSTS, log)?;
            Ok((run, Some(live)))
        }
        _ => Ok((system::run(setup, policy, choice)?, None)),
    }
}

fn run_session(
    setup: &Setup,
    policy: &dyn Policy,
    kernel: Kernel,
    prices: &Prices,
    log: &mut dyn Log,
) -> Result<(Run, Live), SystemError> {
    let machine = check(setup)?;
    // Moves are charged here, in the session's time, whatever the trace stands for.
    let times = &machine.without_moves();
    let (settings, context) = (settings(setup), context(setup));
    log.begin(&settings, &context);
    let mut policy = policy.boxed_clone();
    let session = Session::new(crate::Setup {
        settings,
        policy: &mut *policy,
        context,
        plan: Plan::default(),
        record: true,
    });
    let memory = Memory::new(&Setup { times: Some(times), ..*setup }, Marks::new(setup.addresses))?;
    let began = memory.books();
    let moments = setup.timeline.moments(u64::MAX, Time(setup.trace.references()));
    let mut world = World {
        setup,
        times,
        kernel,
        session,
        memory,
        log,
        prices,
        copy_ns: kernel.page_copy(machine.page_move_ns()),
        shootdown_ns: machine.parameters().shootdown_ns,
        clock: Clock::new(times.hit_ns() / setup.cpus.cpus().len().max(1) as f64, kernel.slow),
        ledger: Ledger::new(setup.cpus.cpus().len(), setup.mover, kernel.slow),
        stretch: began,
        whereabouts: Whereabouts::default(),
        threads: Threads::default(),
        moments: moments.into_iter().peekable(),
        movers: Movers::new(kernel.page_move(machine.page_move_ns())),
        page_at: AHashMap::new(),
        used: vec![0; usize::from(setup.costs.memories())],
        hints: 0,
        accesses: Vec::new(),
        found: false,
        open: kernel.closed == Micros(0),
        mappings: 0,
        ready: None,
        last_scan: None,
        asked_at: Micros(0),
        interval_end: Micros(0),
        still: Micros(0),
        stopped: Micros(0),
        scans: 0,
        curve: Vec::new(),
        entries: Vec::new(),
        numbered: AHashMap::new(),
    };
    let visited = setup.trace.visit_all(&mut world)?;
    let (run, live) = world.finish();
    Ok((Run { visited, ..run }, live))
}

fn check<'a>(setup: &Setup<'a>) -> Result<&'a Times, SystemError> {
    let size = setup.addresses.page_size().bytes();
    if setup.shape.tlbs.is_empty() {
        return Err(SystemError::NoTlb("hint-faults"));
    }
    if size != PAGE && size != HUGE {
        return Err(SystemError::Session("knows pages of 4K and of 2M"));
    }
    if setup.costs.global_node().is_some() {
        return Err(SystemError::Session("knows no global memory"));
    }
    setup.times.ok_or(SystemError::Session("goes by modelled time, and the machine has no section [time]"))
}

/// What the live engine would go by on this machine (`settings` of homing-live), without options.
fn settings(setup: &Setup) -> Settings {
    Settings {
        nodes: setup.costs.memories(),
        time_for_moves: if setup.mover == Mover::Stopped { Micros(INTERVAL.0 / 2) } else { INTERVAL },
        rate_limit: 0,
        regions: Vec::new(),
        bind: Vec::new(),
        keep: Vec::new(),
        dry_run: false,
        watch: false,
        weight: weight_of_a_burst(setup.costs),
        keep_huge_pages: false,
        spread: true,
        scans: true,
        send_back: false,
    }
}

fn context(setup: &Setup) -> Context {
    Context {
        monitor: setup.monitor.to_owned(),
        weight: weight_of_a_burst(setup.costs),
        interval: Some(INTERVAL.0),
        iterations: false,
        phases: false,
        page_bytes: PAGE,
        nodes: setup.costs.memories(),
        loads: false,
        // The live engine is not told.
        moves: None,
    }
}

/// The machine, the kernel and the driver around the session.
struct World<'a, 'p> {
    setup: &'p Setup<'a>,
    times: &'a Times,
    kernel: Kernel,
    session: Session<'p>,
    memory: Memory<'a, Marks>,
    log: &'p mut dyn Log,
    prices: &'p Prices,
    /// The copy of a page on the CPU that moves it, and a shoot-down on a CPU, in nanoseconds.
    copy_ns: f64,
    shootdown_ns: f64,
    clock: Clock,
    ledger: Ledger,
    /// When the clock's stretch began.
    stretch: Books,
    whereabouts: Whereabouts,
    threads: Threads,
    moments: std::iter::Peekable<std::vec::IntoIter<Moment>>,
    movers: Movers,
    /// The page that is at an address now.
    page_at: AHashMap<u64, u32>,
    /// Bytes in use on each node.
    used: Vec<u64>,
    /// Hint faults that were charged.
    hints: u64,
    /// What was seen and not handed to the session yet.
    accesses: Vec<Access>,
    /// A look has found the process.
    found: bool,
    /// The session knows that the program may use all memories.
    open: bool,
    /// Mappings at the last look.
    mappings: usize,
    /// When the scanning helper is ready, since when it was asked for.
    ready: Option<(Micros, Micros)>,
    /// When pages were last marked.
    last_scan: Option<Micros>,
    /// When the session was last asked what is due.
    asked_at: Micros,
    interval_end: Micros,
    /// Time in which threads stood still, in this interval and in all.
    still: Micros,
    stopped: Micros,
    scans: u64,
    curve: Vec<Point>,
    /// Decisions, if they are kept, and the last one about each of the session's pages.
    entries: Vec<Entry>,
    numbered: AHashMap<u32, Action>,
}

impl Visitor for World<'_, '_> {
    fn turn(&mut self, turn: Turn<'_>) {
        let mut from = 0;
        while from < turn.addresses.len() {
            self.come_to_events();
            let time = Time(self.clock.references());
            let place = self.whereabouts.of(self.setup.cpus, turn.thread, time);
            self.threads.runs(turn.thread, self.setup.cpus.node(place.cpu));
            let stop = self.stop().min(place.until.0 - time.0);
            let to = turn.addresses.len().min(from.saturating_add(stop as usize));
            let stretch = Turn {
                thread: turn.thread,
                first: time,
                addresses: &turn.addresses[from..to],
                kinds: &turn.kinds[from..to],
            };
            let served = self.memory.refer(place.cpu, &stretch);
            from += served;
            self.clock.pass(served as u64);
            self.take_faults(turn.thread, place.cpu);
        }
    }

    fn lost(&mut self, _first: Time, references: u64, _reason: &str) {
        // Time goes on through what damage has lost.
        let mut left = references;
        while left > 0 {
            self.come_to_events();
            let step = left.min(self.stop());
            self.clock.pass(step);
            left -= step;
        }
    }
}

impl World<'_, '_> {
    /// References until something else happens than a reference; at least one.
    fn stop(&mut self) -> u64 {
        let scan_due = self.session.due().filter(|_| self.ready.is_none());
        let scan_due = scan_due.map(|due| due.max(self.asked_at.plus(ASK)));
        let events = [self.movers.due(), self.ready.map(|(ready, _)| ready), scan_due];
        let next = events.into_iter().flatten().fold(self.interval_end, Micros::min);
        let moment = self.moments.peek().map_or(u64::MAX, |moment| moment.time.0);
        self.clock.until(next).min(moment.saturating_sub(self.clock.references()).max(1))
    }

    /// Everything that is due by now, in order.
    fn come_to_events(&mut self) {
        self.measure();
        let reference = self.clock.references();
        while let Some(moment) = self.moments.next_if(|moment| moment.time.0 <= reference) {
            if let Mark::ThreadMoved(moved) = moment.mark {
                self.threads.moved(&moved, self.clock.now());
            }
        }
        loop {
            let now = self.clock.now();
            if let Some(orders) = self.movers.landed(now) {
                self.land(&orders);
            } else if let Some((_, began)) = self.ready.take_if(|(ready, _)| *ready <= now) {
                self.mark(began);
            } else if self.interval_end <= now {
                self.step();
            } else if self.scan_is_due(now) {
                self.tick();
            } else {
                return;
            }
        }
    }

    fn scan_is_due(&self, now: Micros) -> bool {
        let due = self.session.due().is_some_and(|due| due <= now);
        due && self.ready.is_none() && now >= self.asked_at.plus(ASK)
    }

    /// Measures the clock's stretch when it is over.
    fn measure(&mut self) {
        if self.clock.stretch_is_over() {
            self.end_stretch();
        }
    }

    fn end_stretch(&mut self) {
        let now = self.memory.books();
        let work = self.memory.work(&self.stretch, &now);
        let (ns, charged_ns) = self.ledger.end_stretch(self.times, &work);
        self.clock.measured(ns);
        self.clock.lose(charged_ns);
        self.stretch = now;
    }

    /// Ends the session.
    fn finish(mut self) -> (Run, Live) {
        self.movers.leave();
        while let Some(orders) = self.movers.landed(Micros(u64::MAX)) {
            self.land(&orders);
        }
        self.settle();
        self.feed(Input::End);
        self.end_stretch();
        self.close_interval();
        let account = self.session.account().clone();
        let faults = self.memory.watch.monitor.faults;
        let refused = account.refused.values().sum::<u64>() + account.failures.values().sum::<u64>();
        let live = Live {
            scans: self.scans,
            stopped: self.stopped,
            hint_faults: faults.hints,
            faults_before: faults.before,
            left_waiting: self.session.orders().waiting() as u64,
            charges: self.ledger.charges(),
            delay_ns: self.ledger.delay_ns(),
            curve: self.curve,
            account,
        };
        let (run, _) = self.memory.finish();
        let seen = live.account.total.local + live.account.total.remote;
        let counts = engine::Counts { refused, forced_collapses: 0 };
        (Run { samples: seen, log: self.entries, counts, ..run }, live)
    }
}

/// The nodes of a machine.
fn nodes(costs: &Costs) -> impl Iterator<Item = Node> {
    (0..costs.memories()).map(Node)
}

/// The page size of the session's pages.
fn is_huge(size: PageSize) -> bool {
    size.bytes() == HUGE
}
