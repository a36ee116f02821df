//! The stage before the page histories: references go in, what reached the pages' homes comes out (line fetches and
//! upgrades), so that the optimum and all policies see misses.
//!
//! A write that hits in a cache is not seen behind it. So pages have one copy there: whether a replica is stale cannot be
//! told from misses, and a bound with replicas would be none.

use super::{Addresses, Counts, Hierarchy, HierarchyShape, Sink, Transaction};
use crate::cache::hierarchy::HierarchyError;
use crate::history::{Binding, HistoryBuilder, SpillError};
use crate::ids::{Cpu, Node, Thread, Time};
use crate::trace::Turn;
use std::collections::HashMap;

/// The CPUs that the threads of a trace run on.
#[derive(Clone, Debug)]
pub struct CpusInUse {
    of: HashMap<Thread, u16>,
    binding: Binding,
    cpus: Vec<Cpu>,
    nodes: Vec<Node>,
}

impl CpusInUse {
    /// Those of `threads`.
    pub fn new(threads: impl Iterator<Item = Thread>, binding: &Binding) -> CpusInUse {
        let threads: Vec<Thread> = threads.collect();
        let mut used: Vec<(Cpu, Node)> = threads.iter().flat_map(|&thread| binding.places(thread)).collect();
        used.sort_unstable();
        used.dedup();
        let index = |thread: &Thread| {
            used.binary_search(&(binding.cpu(*thread), binding.node(*thread))).expect("all are there") as u16
        };
        CpusInUse {
            of: threads.iter().map(|thread| (*thread, index(thread))).collect(),
            binding: binding.clone(),
            cpus: used.iter().map(|used| used.0).collect(),
            nodes: used.iter().map(|used| used.1).collect(),
        }
    }

    /// The index, among those in use, of the CPU on which a thread begins.
    pub fn of(&self, thread: Thread) -> u16 {
        self.of[&thread]
    }

    /// The index of the CPU on which a thread runs at `time`, and until when (exclusive) it does.
    fn at(&self, thread: Thread, time: Time) -> (u16, Option<Time>) {
        let (place, until) = self.binding.place_at(thread, time);
        let place_of = |index: usize| (self.cpus[index], self.nodes[index]);
        let index = (0..self.cpus.len()).find(|&index| place_of(index) == place);
        (index.expect("all places of the binding are in use") as u16, until)
    }

    /// The CPUs.
    pub fn cpus(&self) -> &[Cpu] {
        &self.cpus
    }

    /// The node of a CPU in use.
    pub fn node(&self, cpu: u16) -> Node {
        self.nodes[cpu as usize]
    }
}

/// A hierarchy that filters references.
#[derive(Debug)]
pub struct Misses {
    hierarchy: Hierarchy,
    cpus: CpusInUse,
}

/// What one reference sent to its page's home.
#[derive(Default)]
struct Sent {
    any: bool,
    write: bool,
}

impl Sink for Sent {
    #[inline]
    fn transaction(&mut self, transaction: &Transaction) {
        self.any |= transaction.kind.is_demand();
        self.write |= transaction.kind.is_demand() && transaction.kind.is_write();
    }
}

impl Misses {
    /// Empty caches.
    pub fn new(
        shape: &HierarchyShape,
        cpus: CpusInUse,
        addresses: Addresses,
    ) -> Result<Misses, HierarchyError> {
        let hierarchy = Hierarchy::new(shape, cpus.cpus(), addresses)?;
        Ok(Misses { hierarchy, cpus })
    }

    /// Sends some references through the caches of the CPU that their thread runs on at their Time, and those that reach their page's home on to `builder`. A reference that crosses
    /// a line and misses both counts there once.
    pub fn turn(&mut self, turn: Turn<'_>, builder: &mut HistoryBuilder) -> Result<(), SpillError> {
        let (mut cpu, mut until) = self.cpus.at(turn.thread, turn.first);
        let mut node = self.cpus.node(cpu);
        let mut sent = Sent::default();
        for ((time, &address), &kind) in (turn.first.0..).zip(turn.addresses).zip(turn.kinds) {
            if until.is_some_and(|until| until.0 <= time) {
                (cpu, until) = self.cpus.at(turn.thread, Time(time));
                node = self.cpus.node(cpu);
            }
            self.hierarchy.reference(cpu, address, kind, &mut sent);
            if sent.any {
                let write = std::mem::take(&mut sent).write;
                builder.turn(node, Time(time), &[address], std::iter::once(write))?;
            }
        }
        Ok(())
    }

    /// What the caches counted.
    pub fn counts(&self) -> Counts {
        self.hierarchy.total()
    }
}
