//! The CPUs that a trace's threads run on, and which of them each does at what Time.

use crate::history::Binding;
use crate::ids::{Cpu, Node, Thread, Time};

/// The CPUs that the threads of a trace run on.
#[derive(Clone, Debug)]
pub struct CpusInUse {
    binding: Binding,
    cpus: Vec<Cpu>,
    nodes: Vec<Node>,
}

impl CpusInUse {
    /// Those of `threads`.
    pub fn new(threads: impl Iterator<Item = Thread>, binding: &Binding) -> CpusInUse {
        let mut used: Vec<(Cpu, Node)> = threads.flat_map(|thread| binding.places(thread)).collect();
        used.sort_unstable();
        used.dedup();
        CpusInUse {
            binding: binding.clone(),
            cpus: used.iter().map(|used| used.0).collect(),
            nodes: used.iter().map(|used| used.1).collect(),
        }
    }

    /// The index of the CPU on which a thread runs at `time`, and until when (exclusive) it does.
    fn at(&self, thread: Thread, time: Time) -> (u16, Option<Time>) {
        let (place, until) = self.binding.place_at(thread, time);
        let place_of = |index: usize| (self.cpus[index], self.nodes[index]);
        let index = (0..self.cpus.len()).find(|&index| place_of(index) == place);
        (index.expect("all places of the binding are in use") as u16, until)
    }

    /// The node on which a thread runs at `time`, whether it refers to anything or not.
    pub fn node_at(&self, thread: Thread, time: Time) -> Node {
        self.binding.node_at(thread, time).0
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

/// Where a thread runs.
#[derive(Clone, Copy, Debug)]
pub struct Where {
    thread: Thread,
    /// The index of its CPU among those in use.
    pub cpu: u16,
    /// Until when (exclusive).
    pub until: Time,
}

/// Finds quickly where the threads of the last turns run.
#[derive(Clone, Debug)]
pub struct Whereabouts {
    /// By the low bits of their numbers.
    recent: [Option<Where>; 64],
}

impl Default for Whereabouts {
    fn default() -> Whereabouts {
        Whereabouts { recent: [None; 64] }
    }
}

impl Whereabouts {
    /// Where `thread` runs at `time`. Times rise from call to call.
    #[inline]
    pub fn of(&mut self, cpus: &CpusInUse, thread: Thread, time: Time) -> Where {
        let recent = &mut self.recent[thread.index() % 64];
        match *recent {
            Some(place) if place.thread == thread && time < place.until => place,
            _ => {
                let (cpu, until) = cpus.at(thread, time);
                *recent.insert(Where { thread, cpu, until: until.unwrap_or(Time(u64::MAX)) })
            }
        }
    }
}
