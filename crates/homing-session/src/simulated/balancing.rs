//! Linux's own NUMA balancing on the same simulated machine: what a session is compared with. The decisions are
//! [`homing_core::policy::balancing`]; the program's threads scan, fault and move pages themselves, and are charged for
//! it by the same table as a session. Threads stay where the trace's schedule puts them.

use super::clock::Clock;
use super::costs::{Costs as Prices, COSTS};
use super::ledger::{Charges, Ledger, On};
use super::marks::Marks;
use super::{check, INTERVAL};
use homing_core::action::{Action, Kind, Outcome};
use homing_core::cache::cpus::Whereabouts;
use homing_core::engine::Executor;
use homing_core::ids::{Micros, Page, Time};
use homing_core::policy::balancing::{Balancing, Tunables};
use homing_core::system::memory::{Books, Memory};
use homing_core::system::{Run, Setup, SystemError};
use homing_core::time::{Times, Work};
use homing_core::trace::{Turn, Visitor};

/// What the kernel did, beside what every run tells.
#[derive(Clone, Debug)]
pub struct Balanced {
    /// Scans.
    pub scans: u64,
    /// Hint faults.
    pub hint_faults: u64,
    /// CPU time that it took, all of it of the program.
    pub charges: Charges,
    /// By how much the charges have made the program slower, in nanoseconds of its time.
    pub delay_ns: f64,
}

/// Runs a trace under the kernel's balancing with these settings; pages stay if there are none. A modelled nanosecond
/// stands for `slow` nanoseconds of the program.
///
/// # Errors
/// As for the live session, which knows the same machines and page sizes.
pub fn balance(setup: &Setup, slow: f64, tunables: Option<Tunables>) -> Result<(Run, Balanced), SystemError> {
    let machine = check(setup)?;
    let times = &machine.without_moves();
    let memory = Memory::new(&Setup { times: Some(times), ..*setup }, Marks::new(setup.addresses))?;
    let cpus = setup.cpus.cpus().len();
    let first_scan =
        tunables.map_or(Micros(u64::MAX), |tunables| Micros((tunables.scan_delay * 1000.0) as u64));
    let tunables = tunables.unwrap_or(Tunables::DEFAULT);
    let mut world = World {
        setup,
        times,
        prices: &COSTS,
        copy_ns: machine.page_move_ns(),
        shootdown_ns: machine.parameters().shootdown_ns,
        clock: Clock::new(times.hit_ns() / cpus.max(1) as f64, slow),
        ledger: Ledger::new(cpus, setup.mover, slow),
        stretch: memory.books(),
        memory,
        whereabouts: Whereabouts::default(),
        balancing: Balancing::new(tunables, setup.addresses.page_size().bytes()),
        next_scan: first_scan,
        scans: 0,
        interval_end: INTERVAL,
    };
    let visited = setup.trace.visit_all(&mut world)?;
    let (run, balanced) = world.finish();
    Ok((Run { visited, ..run }, balanced))
}

struct World<'a, 'p> {
    setup: &'p Setup<'a>,
    times: &'p Times,
    prices: &'p Prices,
    /// The copy of a page, and a shoot-down on a CPU, in nanoseconds.
    copy_ns: f64,
    shootdown_ns: f64,
    clock: Clock,
    ledger: Ledger,
    /// When the clock's stretch began.
    stretch: Books,
    memory: Memory<'p, Marks>,
    whereabouts: Whereabouts,
    balancing: Balancing,
    next_scan: Micros,
    scans: u64,
    interval_end: Micros,
}

impl Visitor for World<'_, '_> {
    fn turn(&mut self, turn: Turn<'_>) {
        let mut from = 0;
        while from < turn.addresses.len() {
            let time = Time(self.clock.references());
            let place = self.whereabouts.of(self.setup.cpus, turn.thread, time);
            self.come_to_events(place.cpu);
            let stop = self.clock.until(self.next_scan.min(self.interval_end)).min(place.until.0 - time.0);
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
            self.take_faults(place.cpu);
        }
    }
}

impl World<'_, '_> {
    /// Everything that is due by now; a thread runs on `cpu`.
    fn come_to_events(&mut self, cpu: u16) {
        if self.clock.stretch_is_over() {
            let now = self.memory.books();
            let work = self.memory.work(&self.stretch, &now);
            let (ns, charged_ns) = self.ledger.end_stretch(self.times, &work);
            self.clock.measured(ns);
            self.clock.lose(charged_ns);
            self.stretch = now;
        }
        if self.next_scan <= self.clock.now() {
            self.scan(cpu);
        }
        if self.interval_end <= self.clock.now() {
            self.close_interval();
            self.interval_end = self.clock.now().plus(INTERVAL);
        }
    }

    fn scan(&mut self, cpu: u16) {
        let now = self.clock.now();
        let mut marked = Vec::new();
        self.balancing.scan(|page| marked.push(page));
        for &page in &marked {
            self.memory.watch.monitor.take_away(page, now);
            self.memory.unmap(page);
        }
        self.ledger.charge(On::Scanner(cpu), marked.len() as f64 * self.prices.mark_page);
        (0..self.setup.cpus.cpus().len() as u16)
            .for_each(|cpu| self.ledger.charge(On::Shootdown(cpu), self.shootdown_ns));
        self.scans += 1;
        self.next_scan = now.plus(Micros((self.balancing.period() * 1000.0) as u64));
    }

    /// Takes the faults of the last references, on a CPU.
    fn take_faults(&mut self, cpu: u16) {
        for page in std::mem::take(&mut self.memory.watch.born) {
            self.balancing.begins(Page(page));
        }
        if self.memory.watch.reports.samples.is_empty() {
            return;
        }
        for seen in self.memory.take_samples() {
            self.ledger.charge(On::Fault(cpu), self.prices.hint_fault);
            let page = Page(seen.page);
            let local = self.memory.watch.homes[page.index()] == seen.node;
            if self.balancing.fault(page, seen.node, local) {
                let before = self.memory.shootdowns();
                let action = Action { page, kind: Kind::Move { to: seen.node }, reason: "" };
                if self.memory.execute(&action) == Outcome::Done {
                    self.ledger.charge(On::Copy(cpu), self.copy_ns);
                }
                self.ledger.shootdowns(&before, &self.memory.shootdowns(), self.shootdown_ns);
            }
        }
    }

    fn close_interval(&mut self) {
        let ledger = &mut self.ledger;
        let elapsed = |times: &Times, work: &Work| ledger.end_interval(times, work, 0.0);
        self.memory.close_interval_as(self.clock.references(), elapsed);
    }

    fn finish(mut self) -> (Run, Balanced) {
        self.close_interval();
        let balanced = Balanced {
            scans: self.scans,
            hint_faults: self.memory.watch.monitor.faults.hints,
            charges: self.ledger.charges(),
            delay_ns: self.ledger.delay_ns(),
        };
        (self.memory.finish().0, balanced)
    }
}
