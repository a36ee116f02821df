//! One program on one machine with its memory system in the loop: what the tables of Tikir & Hollingsworth and of
//! Nikolopoulos et al. are made of.

use super::tally::Tally;
use crate::exit::{self, Code};
use crate::progress;
use homing_core::areas;
use homing_core::cache::cpus::CpusInUse;
use homing_core::cache::{Addresses, HierarchyShape};
use homing_core::history::schedule::Schedule;
use homing_core::history::ThreadsOn;
use homing_core::ids::{Cpu, Node, Page, PageSize};
use homing_core::machine::{Costs, Machine};
use homing_core::monitor::Monitor;
use homing_core::policy::placement::{Placement, PlacementFile};
use homing_core::policy::settings::Settings;
use homing_core::policy::stay::Stay;
use homing_core::policy::Policy;
use homing_core::system::{monitor, run, watch, Interval, Run, Setup};
use homing_core::time::{Mover, Times};
use homing_core::timeline::Timeline;
use homing_core::trace::Trace;
use homing_pipeline::policies::policy as named;
use homing_pipeline::{model, TraceFile};
use std::path::Path;

/// Intervals of a run: the programs have a multiple of as many iterations, so that an interval sees whole ones, as the
/// papers' intervals of seconds do.
pub const INTERVALS: u64 = 20;

/// A machine scaled to our programs' sizes.
pub struct Scaled {
    machine: Machine,
    costs: Costs,
    shape: HierarchyShape,
    times: Times,
}

impl Scaled {
    /// A built-in machine with overrides.
    pub fn new(name: &str, settings: &[&str]) -> anyhow::Result<Scaled> {
        let mut machine = model::load_machine(name)?;
        for setting in settings {
            machine.set(setting)?;
        }
        let costs = machine.costs(machine.page_size())?;
        let shape = model::hierarchy(&machine, machine.page_size())?;
        let times = Times::new(&machine, machine.page_size())?;
        Ok(Scaled { machine, costs, shape, times })
    }
}

/// A trace laid over a scaled machine.
pub struct Bench<'a> {
    scaled: &'a Scaled,
    trace: &'a Trace<'a>,
    cpus: CpusInUse,
    addresses: Addresses,
    interval: u64,
    timeline: Timeline,
}

impl<'a> Bench<'a> {
    /// Calls `work` with the trace of a file, threads bound round-robin to nodes (T5), and [`INTERVALS`] intervals.
    pub fn with<R>(
        scaled: &Scaled,
        path: &Path,
        threads_on: &ThreadsOn,
        work: impl FnOnce(&Bench) -> anyhow::Result<R>,
    ) -> anyhow::Result<R> {
        Bench::scheduled(scaled, path, threads_on, |_| Schedule::default(), work)
    }

    /// The same with threads that an operating system moves, as `schedule` says for that number of references.
    pub fn scheduled<R>(
        scaled: &Scaled,
        path: &Path,
        threads_on: &ThreadsOn,
        schedule: impl FnOnce(u64) -> Schedule,
        work: impl FnOnce(&Bench) -> anyhow::Result<R>,
    ) -> anyhow::Result<R> {
        let file = TraceFile::ordered(path, &progress::of_pipeline())?;
        let trace = file.trace()?;
        let machine = &scaled.machine;
        let nodes: Vec<Node> =
            (0..machine.cpus()).map(|cpu| machine.node_of(Cpu(cpu as u16)).unwrap_or(Node(0))).collect();
        let mut binding = threads_on.bind(&nodes).map_err(|e| exit::error(Code::FAILURE, e))?;
        let threads = trace.threads().count() as u32;
        let marks = schedule(trace.references()).apply(&mut binding, threads, &nodes);
        let mut timeline = Timeline::default();
        timeline.add(marks.map_err(|e| exit::error(Code::FAILURE, e))?);
        work(&Bench {
            scaled,
            trace: &trace,
            cpus: model::cpus(&trace, &binding),
            addresses: model::addresses(&trace, machine.page_size()),
            interval: trace.references().div_ceil(INTERVALS).max(1),
            timeline,
        })
    }

    fn setup<'b>(&'b self, placement: &'b Placement, stopped: bool) -> Setup<'b> {
        Setup {
            trace: self.trace,
            costs: &self.scaled.costs,
            shape: &self.scaled.shape,
            cpus: &self.cpus,
            addresses: &self.addresses,
            placement,
            monitor: "reproduce",
            interval: self.interval,
            timeline: &self.timeline,
            times: Some(&self.scaled.times),
            mover: if stopped { Mover::Stopped } else { Mover::Own },
            extras: None,
            log: false,
        }
    }

    /// Pages stay where `placement` puts them.
    pub fn still(&self, placement: &Placement) -> anyhow::Result<Run> {
        Ok(watch(&self.setup(placement, false), &Stay, ())?.0)
    }

    /// Pages stay, and a monitor is only listened to.
    pub fn listen(&self, monitor: &str) -> anyhow::Result<Run> {
        let choice = monitor.parse().map_err(|e: String| exit::error(Code::FAILURE, e))?;
        Ok(run(&self.setup(&Placement::FirstTouch, false), &Stay, &choice)?)
    }

    /// A policy moves pages as a monitor says.
    pub fn moved(
        &self,
        placement: &Placement,
        policy: &str,
        monitor: &str,
        stopped: bool,
    ) -> anyhow::Result<Run> {
        let choice = monitor.parse().map_err(|e: String| exit::error(Code::FAILURE, e))?;
        let policy = named(policy)?.make(&self.scaled.costs, false, &Settings::default());
        Ok(run(&self.setup(placement, stopped), &*policy, &choice)?)
    }

    /// The same, with the run divided into `intervals` intervals, and threads stopped while pages move.
    pub fn moved_in(
        &self,
        intervals: u64,
        placement: &Placement,
        policy: &str,
        monitor: &str,
    ) -> anyhow::Result<Run> {
        let interval = self.trace.references().div_ceil(intervals).max(1);
        let (cpus, addresses, timeline) = (self.cpus.clone(), self.addresses.clone(), self.timeline.clone());
        let bench = Bench { interval, cpus, addresses, timeline, ..*self };
        bench.moved(placement, policy, monitor, true)
    }

    /// A policy moves pages, or nothing does; another monitor is around that of the table.
    pub fn watched<M: Monitor>(
        &self,
        placement: &Placement,
        policy: Option<&str>,
        name: &str,
        around: impl FnOnce(Box<dyn Monitor>) -> M,
    ) -> anyhow::Result<(Run, M)> {
        let choice = name.parse().map_err(|e: String| exit::error(Code::FAILURE, e))?;
        let make = |name| -> anyhow::Result<Box<dyn Policy>> {
            Ok(named(name)?.make(&self.scaled.costs, false, &Settings::default()))
        };
        let policy = policy.map_or_else(|| Ok(Box::new(Stay) as Box<dyn Policy>), make)?;
        let setup = Setup { log: true, ..self.setup(placement, false) };
        let inner = monitor(&setup, &choice)?;
        Ok(watch(&setup, &*policy, around(inner))?)
    }

    /// A run in which pages stay, who missed on them, and the placement that this profile asks for: each page at the
    /// node that fetched most from it while threads worked together; where nobody did, where it was.
    pub fn profiled(&self, placement: &Placement) -> anyhow::Result<(Run, Tally, Placement)> {
        let around = |inner| Tally::new(inner, self.pages(), self.nodes());
        let (run, tally) = self.watched(placement, None, "perfect", around)?;
        let together = Together::of(&run);
        let nodes = usize::from(self.nodes());
        let home = |page: usize| {
            let users = tally.users(page, |interval| together.contains(interval));
            // The first of equals.
            let most = users.iter().copied().max().filter(|&most| most > 0);
            let user = most.and_then(|most| users.iter().position(|&count| count == most));
            user.map(|node| Node(node as u16)).or(tally.home(page)).unwrap_or(Node((page % nodes) as u16))
        };
        let homes: Vec<(u64, Node)> =
            (0..self.pages()).map(|page| (self.address(page), home(page))).collect();
        Ok((run, tally, Placement::File(PlacementFile::from_homes(&homes, PageSize::KIB4))))
    }

    /// The name of the data area of each page.
    pub fn areas(&self) -> Vec<Option<String>> {
        let addresses = || (0..self.addresses.pages()).map(|page| self.addresses.address(Page(page)));
        let located = areas::locate(self.trace, addresses(), self.addresses.page_size().bytes());
        let of = |address| located.iter().find(|page| page.address == address);
        addresses().map(|address| of(address).and_then(|page| page.area.clone())).collect()
    }

    /// The virtual address of a page.
    pub fn address(&self, page: usize) -> u64 {
        self.addresses.address(Page(page as u32))
    }

    /// How many pages the program has.
    pub fn pages(&self) -> usize {
        self.addresses.pages() as usize
    }

    /// The memories of the machine.
    pub fn nodes(&self) -> u16 {
        self.scaled.costs.memories()
    }
}

/// The intervals in which threads work together. The papers' programs run so long that making the data and checking the
/// result, which one thread does, do not count; in ours they would be most of the time.
pub struct Together(Vec<bool>);

impl Together {
    /// Where, in a run without moves, no thread takes more time than all others.
    pub fn of(run: &Run) -> Together {
        let shared = |interval: &Interval| {
            let times = interval.modelled.as_ref().map_or(&[][..], |modelled| &modelled.cpus_ns);
            2.0 * times.iter().copied().fold(0.0, f64::max) <= times.iter().sum()
        };
        let together: Vec<bool> = run.intervals.iter().map(shared).collect();
        // A program of one thread's work throughout is taken as a whole.
        let any = together.contains(&true);
        Together(together.into_iter().map(|shared| shared || !any).collect())
    }

    /// Whether an interval is one of them.
    pub fn contains(&self, interval: usize) -> bool {
        self.0.get(interval) == Some(&true)
    }

    /// Demand transactions, wherever they are served.
    pub fn demand(&self, run: &Run) -> f64 {
        self.sum(run, |interval| (interval.local + interval.remote) as f64)
    }

    /// A sum over these intervals.
    fn sum(&self, run: &Run, of: impl Fn(&Interval) -> f64) -> f64 {
        run.intervals.iter().zip(&self.0).filter(|(_, together)| **together).map(|(i, _)| of(i)).sum()
    }

    /// Demand transactions served by another node.
    pub fn remote(&self, run: &Run) -> f64 {
        self.sum(run, |interval| interval.remote as f64)
    }

    /// The same, in per cent of all.
    pub fn nonlocal(&self, run: &Run) -> f64 {
        100.0 * self.remote(run) / self.demand(run).max(1.0)
    }

    /// Changed lines written back.
    pub fn write_backs(&self, run: &Run) -> f64 {
        self.sum(run, |interval| interval.write_backs as f64)
    }

    /// Modelled time in nanoseconds.
    pub fn time(&self, run: &Run) -> f64 {
        self.sum(run, |interval| interval.modelled.as_ref().map_or(f64::NAN, |modelled| modelled.total_ns))
    }

    /// Modelled time of the second half of them.
    pub fn second_half(&self, run: &Run) -> f64 {
        let count = self.0.iter().filter(|together| **together).count();
        let mut seen = 0;
        let later = self.0.iter().map(|together| {
            seen += usize::from(*together);
            *together && 2 * seen > count
        });
        Together(later.collect()).time(run)
    }

    /// Modelled time of moving pages, in nanoseconds.
    pub fn moving(&self, run: &Run) -> f64 {
        self.sum(run, |interval| interval.modelled.as_ref().map_or(f64::NAN, |modelled| modelled.moving_ns))
    }
}

/// How much less `after` is than `before`, in per cent.
pub fn less(before: f64, after: f64) -> f64 {
    100.0 * (1.0 - after / before)
}
