//! One program on one machine with its memory system in the loop: what the tables of Tikir & Hollingsworth and of
//! Nikolopoulos et al. are made of.

use crate::exit::{self, Code};
use crate::input::{self, TraceFile};
use crate::study;
use homing_core::cache::misses::CpusInUse;
use homing_core::cache::{Addresses, HierarchyShape};
use homing_core::history::ThreadsOn;
use homing_core::ids::{Cpu, Node};
use homing_core::machine::{Costs, Machine};
use homing_core::policy::placement::Placement;
use homing_core::policy::settings::Settings;
use homing_core::policy::stay::Stay;
use homing_core::system::{run, watch, Run, Setup};
use homing_core::time::Times;
use homing_core::timeline::NO_MARKS;
use homing_core::trace::Trace;
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
        let mut machine = input::load_machine(name)?;
        for setting in settings {
            machine.set(setting)?;
        }
        let costs = machine.costs(machine.page_size())?;
        let shape = input::hierarchy(&machine, machine.page_size())?;
        let times = Times::new(&machine, &costs)?;
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
}

impl<'a> Bench<'a> {
    /// Calls `work` with the trace of a file, threads bound round-robin to nodes (T5), and [`INTERVALS`] intervals.
    pub fn with<R>(
        scaled: &Scaled,
        path: &Path,
        threads_on: &ThreadsOn,
        work: impl FnOnce(&Bench) -> anyhow::Result<R>,
    ) -> anyhow::Result<R> {
        let file = TraceFile::open(path)?;
        let trace = file.trace()?;
        let machine = &scaled.machine;
        let nodes: Vec<Node> =
            (0..machine.cpus()).map(|cpu| machine.node_of(Cpu(cpu as u16)).unwrap_or(Node(0))).collect();
        let binding = threads_on.bind(&nodes).map_err(|e| exit::error(Code::FAILURE, e))?;
        work(&Bench {
            scaled,
            trace: &trace,
            cpus: input::cpus(&trace, &binding),
            addresses: input::addresses(&trace, machine.page_size()),
            interval: trace.references().div_ceil(INTERVALS).max(1),
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
            timeline: &NO_MARKS,
            times: Some(&self.scaled.times),
            stopped,
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
        let policy = study::policy(policy)?.make(&self.scaled.costs, false, &Settings::default());
        Ok(run(&self.setup(placement, stopped), &*policy, &choice)?)
    }
}

/// Demand transactions served by another node, in per cent.
pub fn nonlocal(run: &Run) -> f64 {
    crate::cmd::simulate::nonlocal(run)
}

/// Modelled time in nanoseconds.
pub fn time(run: &Run) -> f64 {
    run.modelled.as_ref().map_or(f64::NAN, |modelled| modelled.total_ns)
}

/// How much less `after` is than `before`, in per cent.
pub fn less(before: f64, after: f64) -> f64 {
    100.0 * (1.0 - after / before)
}
