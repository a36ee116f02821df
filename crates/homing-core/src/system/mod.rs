//! The memory system in the loop: references go through caches and TLBs, a monitor watches, a policy acts on what it
//! reports, pages move to other frames, and that changes what misses next (Tikir & Hollingsworth 2008, section 5.3).
//!
//! The decisions are those of [`crate::engine`], the same as live: samples and ends of intervals go in, moves come out.
//! Everything happens in the trace's order on one thread, since every event depends on all before it.

pub mod memory;
#[cfg(test)]
mod tests;

use crate::account::Account;
use crate::action::Entry;
use crate::cache::cpus::{CpusInUse, Whereabouts};
use crate::cache::hierarchy::HierarchyError;
use crate::cache::{Addresses, Counts, HierarchyShape};
use crate::engine::{self, Engine, Observation};
use crate::history::SpillError;
use crate::ids::{Node, Page, Thread, Time};
use crate::machine::{Costs, MoveExtras};
use crate::monitor::distance::Distance;
use crate::monitor::{perfect, table, Monitor, Observed};
use crate::policy::placement::Placement;
use crate::policy::{stay::Stay, Context, Decides, End, Policy, Sample};
use crate::time::{Elapsed, Mover, Times};
use crate::timeline::{Mark, Moment, Timeline};
use crate::trace::{Event, Trace, TraceError, Turn, VisitStats, Visitor};
use memory::{Memory, Told};
use serde::Serialize;
use std::collections::BTreeMap;

/// What is simulated.
pub struct Setup<'a> {
    /// The trace.
    pub trace: &'a Trace<'a>,
    /// The machine at the page size of `addresses`.
    pub costs: &'a Costs,
    /// Caches and TLBs.
    pub shape: &'a HierarchyShape,
    /// The CPUs that threads run on.
    pub cpus: &'a CpusInUse,
    /// The pages.
    pub addresses: &'a Addresses,
    /// Where pages begin.
    pub placement: &'a Placement,
    /// What the monitor is called, for the policy.
    pub monitor: &'a str,
    /// References of an interval.
    pub interval: u64,
    /// The program's iterations and phases, and threads that move.
    pub timeline: &'a Timeline,
    /// Times, if they are to be modelled.
    pub times: Option<&'a Times>,
    /// Whose time page moves take.
    pub mover: Mover,
    /// What they cost beyond `costs`, where that is known.
    pub extras: Option<MoveExtras>,
    /// Whether to keep every action.
    pub log: bool,
}

/// One interval, as it came out.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Interval {
    /// One more than the Time of its last reference.
    pub end: u64,
    /// Demand transactions served by the requester's own node.
    pub local: u64,
    /// ... and by others.
    pub remote: u64,
    /// Changed lines written back.
    pub write_backs: u64,
    /// Pages moved to each node at its end, or in it.
    pub moves_to: Vec<u64>,
    /// Modelled time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modelled: Option<Elapsed>,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Demand transactions and moves, and what they cost in local misses.
    pub account: Account,
    /// What the caches counted.
    pub caches: Counts,
    /// By interval.
    pub intervals: Vec<Interval>,
    /// Modelled time in all.
    pub modelled: Option<Elapsed>,
    /// How representative the samples were.
    pub distance: Distance,
    /// Samples that went to the policy.
    pub samples: u64,
    /// Samples that the hardware or its software lost.
    pub lost: u64,
    /// Interrupts and faults that the monitor caused.
    pub interrupts: u64,
    /// Home of each page at the end, and its virtual address; pages without a transaction have none.
    pub homes: Vec<(u64, Node)>,
    /// Every action, if they were kept.
    pub log: Vec<Entry>,
    /// What did not go as the policy asked.
    pub counts: engine::Counts,
    /// What of the trace was visited.
    pub visited: VisitStats,
}

/// A run that cannot be done.
#[derive(Debug, thiserror::Error)]
pub enum SystemError {
    /// The caches.
    #[error(transparent)]
    Hierarchy(#[from] HierarchyError),
    /// The trace.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The histories.
    #[error(transparent)]
    Spill(#[from] SpillError),
    /// A placement that needs to know the whole trace.
    #[error("placement {0} needs the whole trace beforehand and cannot begin a run with monitors; make a file of it")]
    Placement(&'static str),
    /// A monitor without what it watches.
    #[error("monitor `{0}` works by TLB misses, and the machine has no `tlb` in its section [hierarchy]")]
    NoTlb(&'static str),
    /// The live session cannot be simulated on this.
    #[error(
        "monitor `hint-faults` is the live session, which {0}; `hint-faults:every=N,window=M`, the scanner at a fixed \
         rate, does not need that"
    )]
    Session(&'static str),
}

/// Runs a policy on what a monitor of the table reports.
///
/// # Errors
/// [`SystemError::Session`] for the live session, which has a loop of its own (`homing_session::simulated`).
pub fn run(setup: &Setup, policy: &dyn Policy, choice: &table::Choice) -> Result<Run, SystemError> {
    watch(setup, policy, monitor(setup, choice)?).map(|(run, _)| run)
}

/// A monitor of the table, for what is simulated. The live session is none: it has its own loop.
pub fn monitor(setup: &Setup, choice: &table::Choice) -> Result<Box<dyn Monitor>, SystemError> {
    if choice.entry.needs_tlb && setup.shape.tlbs.is_empty() {
        return Err(SystemError::NoTlb(choice.entry.name));
    }
    Ok(match choice.entry.build {
        table::Build::Session => return Err(SystemError::Session("is no monitor for another loop")),
        table::Build::Plain(build) => build(&table::MonitorSetup {
            cpus: setup.cpus.cpus().len(),
            nodes: setup.costs.memories(),
            addresses: setup.addresses,
            values: &choice.values,
        }),
        table::Build::Future(build) => {
            let quiet = Setup { log: false, times: None, ..*setup };
            let (_, recorder) = watch(&quiet, &Stay, perfect::Recorder::default())?;
            build(recorder.finish())
        }
    })
}

/// Runs a policy on what any monitor reports, and gives the monitor back.
pub fn watch<M: Monitor>(setup: &Setup, policy: &dyn Policy, monitor: M) -> Result<(Run, M), SystemError> {
    let memory = Memory::new(setup, monitor)?;
    let mut policy = policy.boxed_clone();
    let moments = setup.timeline.moments(setup.interval, Time(setup.trace.references()));
    let at_ends = policy.decides() == Decides::AtEnds;
    let poll_every = memory.watch.monitor.poll_every();
    let poll_each = memory.watch.monitor.poll_each();
    let mut engine = Engine::new(&mut *policy, memory, setup.log);
    engine.begin(&Context {
        monitor: setup.monitor.to_owned(),
        weight: 1.0,
        interval: Some(setup.interval),
        iterations: setup.timeline.has_iterations(),
        phases: setup.timeline.has_phases(),
        page_bytes: setup.addresses.page_size().bytes(),
        nodes: setup.costs.memories(),
        loads: setup.times.is_some(),
        moves: setup.extras,
    });
    let mut looped = Loop {
        engine,
        cpus: setup.cpus,
        whereabouts: Whereabouts::default(),
        addresses: setup.addresses,
        now: 0,
        moments: moments.into_iter().peekable(),
        poll_every,
        next_poll: poll_every.unwrap_or(u64::MAX),
        poll_each,
        left: vec![poll_each.unwrap_or(u64::MAX); setup.cpus.cpus().len()],
        profile: at_ends.then(BTreeMap::new),
        samples: 0,
    };
    let visited = setup.trace.visit_all(&mut looped)?;
    // What is left if damage has cut the trace short.
    looped.now = u64::MAX;
    looped.come_to_moments();
    let samples = looped.samples;
    let (memory, log, counts) = looped.engine.finish();
    let (run, monitor) = memory.finish();
    Ok((Run { samples, log, counts, visited, ..run }, monitor))
}

struct Loop<'p, M> {
    engine: Engine<'p, Memory<'p, M>>,
    cpus: &'p CpusInUse,
    whereabouts: Whereabouts,
    addresses: &'p Addresses,
    /// Time of the next reference.
    now: u64,
    moments: std::iter::Peekable<std::vec::IntoIter<Moment>>,
    poll_every: Option<u64>,
    next_poll: u64,
    poll_each: Option<u64>,
    /// References of each CPU until it is polled.
    left: Vec<u64>,
    /// For policies that decide at ends: what was reported since the last one, by page and node.
    profile: Option<BTreeMap<(u32, Node), Sum>>,
    samples: u64,
}

/// Samples of a page by a node, added up.
#[derive(Clone, Copy, Default)]
struct Sum {
    reads: u64,
    writes: u64,
    /// Weighted references.
    stands_for: f64,
}

impl<M: Monitor> Visitor for Loop<'_, M> {
    fn turn(&mut self, turn: Turn<'_>) {
        let mut from = 0;
        while from < turn.addresses.len() {
            // Up to the next end of an interval or poll, or until the thread moves; a sample ends a stretch too.
            let place = self.whereabouts.of(self.cpus, turn.thread, Time(self.now));
            let left = self.left[usize::from(place.cpu)];
            let stop = (self.stop().min(place.until.0) - self.now).min(left);
            let to = turn.addresses.len().min(from.saturating_add(stop as usize));
            let stretch = Turn {
                thread: turn.thread,
                first: Time(self.now),
                addresses: &turn.addresses[from..to],
                kinds: &turn.kinds[from..to],
            };
            let served = self.engine.executor_mut().refer(place.cpu, &stretch);
            from += served;
            self.go_on(served as u64);
            self.poll_cpu(place.cpu, served as u64);
        }
    }

    fn event(&mut self, thread: Thread, time: Time, event: &Event) {
        let node = || self.cpus.node_at(thread, time);
        self.engine.executor_mut().watch.kernel.event(event, node);
    }

    fn lost(&mut self, _first: Time, references: u64, _reason: &str) {
        // Time goes on through what damage has lost.
        let mut left = references;
        while left > 0 {
            let step = left.min(self.stop() - self.now);
            self.go_on(step);
            left -= step;
        }
    }
}

impl<M: Monitor> Loop<'_, M> {
    /// The next time at which something else than a reference happens.
    fn stop(&mut self) -> u64 {
        self.moments.peek().map_or(u64::MAX, |moment| moment.time.0).min(self.next_poll)
    }

    /// Time goes on, at most to the next stop.
    fn go_on(&mut self, references: u64) {
        self.now += references;
        self.hand_over();
        if self.now == self.next_poll {
            self.next_poll += self.poll_every.unwrap_or(u64::MAX);
            self.engine.executor_mut().poll(None);
            self.hand_over();
        }
        self.come_to_moments();
    }

    /// A CPU has made some references.
    fn poll_cpu(&mut self, cpu: u16, references: u64) {
        let Some(each) = self.poll_each else { return };
        let left = &mut self.left[usize::from(cpu)];
        *left -= references;
        if *left == 0 {
            *left = each;
            self.engine.executor_mut().poll(Some(cpu));
            self.hand_over();
        }
    }

    fn come_to_moments(&mut self) {
        while let Some(moment) = self.moments.next_if(|moment| moment.time.0 <= self.now) {
            let end = End { number: moment.number, time: moment.time };
            match moment.mark {
                Mark::IntervalEnd => {
                    self.engine.executor_mut().interval_end();
                    self.hand_over();
                    self.close_profile(end.time);
                    self.engine.interval_end(&end);
                    if let Some(Told { waits, paces }) =
                        self.engine.executor_mut().close_interval(end.time.0, 0.0)
                    {
                        self.engine.loads(&waits);
                        self.engine.paces(&paces);
                    }
                }
                Mark::IterationEnd => {
                    self.close_profile(end.time);
                    self.engine.iteration_end(&end);
                }
                Mark::PhaseBegin(phase) => self.engine.observe(Observation::PhaseBegin(phase, end.time)),
                Mark::ThreadMoved(moved) => self.engine.observe(Observation::ThreadMoved(moved)),
                Mark::ThreadsChanged(changed) => self.engine.observe(Observation::ThreadsChanged(changed)),
            }
        }
    }

    /// Gives the policy what the monitor has reported, at once or at the end.
    fn hand_over(&mut self) {
        let memory = self.engine.executor_mut();
        if memory.watch.reports.samples.is_empty() {
            return;
        }
        for page in std::mem::take(&mut memory.watch.born) {
            let address = self.addresses.address(Page(page));
            self.engine.observe(Observation::PageNew(Page(page), address));
        }
        let samples = self.engine.executor_mut().take_samples();
        self.samples += samples.len() as u64;
        let Some(profile) = &mut self.profile else { return self.tell(&samples) };
        for sample in samples {
            let sum = profile.entry((sample.page, sample.node)).or_default();
            sum.reads += sample.reads;
            sum.writes += sample.writes;
            sum.stands_for += (sample.reads + sample.writes) as f64 * sample.weight;
        }
    }

    /// Tells the policy what was reported now: one sample, or what was counted since the last report.
    fn tell(&mut self, samples: &[Observed]) {
        let time = Time(self.now);
        let engine = &self.engine;
        let told = samples.iter().map(|sample| {
            let Observed { node, reads, writes, weight, .. } = *sample;
            let page = Page(sample.page);
            Sample { page, node, reads, writes, weight, time, at: engine.at(page) }
        });
        let mut told: Vec<Sample> = told.collect();
        match told[..] {
            [sample] => self.engine.observe(Observation::Sample(sample)),
            _ => self.engine.profiles(&mut told),
        }
    }

    /// Gives the policy that decides at ends what was reported since the last one.
    fn close_profile(&mut self, time: Time) {
        let Some(profile) = self.profile.as_mut().map(std::mem::take) else { return };
        for ((page, node), sum) in profile {
            let (reads, writes) = (sum.reads, sum.writes);
            let weight = sum.stands_for / ((reads + writes) as f64).max(1.0);
            let page = Page(page);
            let at = self.engine.at(page);
            self.engine.observe(Observation::Sample(Sample { page, node, reads, writes, weight, time, at }));
        }
    }
}
