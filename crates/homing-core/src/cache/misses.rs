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

/// Where a thread runs, and until when (exclusive).
#[derive(Clone, Copy, Debug)]
struct Where {
    thread: Thread,
    cpu: u16,
    until: Time,
}

/// A hierarchy that filters references.
#[derive(Debug)]
pub struct Misses {
    hierarchy: Hierarchy,
    cpus: CpusInUse,
    /// Where the threads of the last turns run, by the low bits of their numbers.
    recent: [Option<Where>; 64],
}

/// Sends on what references send to their pages' homes.
struct Sent<'a> {
    builder: &'a mut HistoryBuilder,
    node: Node,
    first: Time,
    addresses: &'a [u64],
    /// The reference that is being served, and what it has sent.
    at: usize,
    any: bool,
    write: bool,
    failed: Result<(), SpillError>,
}

impl Sink for Sent<'_> {
    const WRITE_BACKS: bool = false;

    #[inline]
    fn begin(&mut self, index: usize) {
        (self.at, self.any, self.write) = (index, false, false);
    }

    #[inline]
    fn transaction(&mut self, transaction: &Transaction) {
        self.any = true;
        self.write |= transaction.kind.is_write();
    }

    #[inline]
    fn more(&mut self) -> bool {
        if self.any {
            let (time, addresses) = (Time(self.first.0 + self.at as u64), &self.addresses[self.at..=self.at]);
            self.failed = self.builder.turn(self.node, time, addresses, std::iter::once(self.write));
        }
        self.failed.is_ok()
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
        Ok(Misses { hierarchy, cpus, recent: [None; 64] })
    }

    /// Sends some references through the caches of the CPU that their thread runs on at their Time, and those that reach
    /// their page's home on to `builder`. A reference that crosses a line and misses both counts there once.
    pub fn turn(&mut self, turn: Turn<'_>, builder: &mut HistoryBuilder) -> Result<(), SpillError> {
        let mut done = 0;
        while done < turn.addresses.len() {
            let first = Time(turn.first.0 + done as u64);
            let place = self.place(turn.thread, first);
            let part =
                done..turn.addresses.len().min(done.saturating_add((place.until.0 - first.0) as usize));
            let (addresses, kinds) = (&turn.addresses[part.clone()], &turn.kinds[part.clone()]);
            let node = self.cpus.node(place.cpu);
            let mut sent =
                Sent { builder, node, first, addresses, at: 0, any: false, write: false, failed: Ok(()) };
            self.hierarchy.serve(place.cpu, addresses, kinds, &mut sent);
            sent.failed?;
            done = part.end;
        }
        Ok(())
    }

    #[inline]
    fn place(&mut self, thread: Thread, time: Time) -> Where {
        let recent = &mut self.recent[thread.index() % 64];
        match *recent {
            Some(place) if place.thread == thread && time < place.until => place,
            _ => {
                let (cpu, until) = self.cpus.at(thread, time);
                *recent.insert(Where { thread, cpu, until: until.unwrap_or(Time(u64::MAX)) })
            }
        }
    }

    /// What the caches counted.
    pub fn counts(&self) -> Counts {
        self.hierarchy.total()
    }
}
