//! Happens-before edges between threads, in the form that the merge needs.
//!
//! An acquire with stamp a comes after every release of the same object with a smaller stamp. A first pass over the
//! events of all threads gives each release its *rank* among the releases of its object, and each acquire the number of
//! releases that it waits for. Objects that only one thread uses order nothing and are left out.

use super::Step;
use crate::SyncOp;
use rayon::prelude::*;
use std::collections::BTreeMap;

/// One synchronisation operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sync {
    /// What it does.
    pub op: SyncOp,
    /// What is synchronised on: an address.
    pub object: u64,
    /// Its place in the recorded order of all synchronisation operations of the process.
    pub stamp: u64,
}

/// A synchronisation operation as the merge sees it: 8 bytes each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operation {
    /// Dense number of the object, or [`Operation::PRIVATE`].
    pub object: u32,
    /// Releases of the object with a smaller stamp.
    pub rank: u32,
}

impl Operation {
    /// The object orders nothing: one thread uses it.
    pub const PRIVATE: u32 = u32::MAX;
}

/// All edges of a trace: the result of the first pass.
#[derive(Debug, Default)]
pub struct Edges {
    operations: Vec<Vec<Operation>>,
    pub(super) objects: usize,
    started: Vec<bool>,
}

struct Entry {
    object: u64,
    stamp: u64,
    thread: u32,
    ordinal: u32,
    op: SyncOp,
}

impl Edges {
    /// Collects the edges from the steps of each thread, in the thread's order ([`Step::Run`] may be left out).
    pub fn collect<I: IntoIterator<Item = Step>>(threads: impl IntoIterator<Item = I>) -> Edges {
        let mut edges = Edges::default();
        let mut entries = Vec::new();
        let mut starts = Vec::new();
        for (thread, steps) in threads.into_iter().enumerate() {
            let mut ordinal = 0;
            for step in steps {
                match step {
                    Step::Sync(Sync { op, object, stamp }) => {
                        entries.push(Entry { object, stamp, thread: thread as u32, ordinal, op });
                        ordinal += 1;
                    }
                    Step::Start(child) if child.index() != thread => starts.push(child),
                    _ => {}
                }
            }
            let unknown = Operation { object: Operation::PRIVATE, rank: 0 };
            edges.operations.push(vec![unknown; ordinal as usize]);
        }
        edges.started = vec![false; edges.operations.len()];
        for child in starts {
            if let Some(started) = edges.started.get_mut(child.index()) {
                *started = true;
            }
        }
        edges.rank(entries);
        edges
    }

    /// Whether another thread is known to have created this one.
    pub(super) fn is_started(&self, thread: usize) -> bool {
        self.started.get(thread).is_some_and(|&started| started)
    }

    /// The operation of a thread with an ordinal, unless it orders nothing.
    pub(super) fn operation(&self, thread: u32, ordinal: usize) -> Option<Operation> {
        let operation = *self.operations.get(thread as usize)?.get(ordinal)?;
        (operation.object != Operation::PRIVATE).then_some(operation)
    }

    fn rank(&mut self, mut entries: Vec<Entry>) {
        entries.par_sort_unstable_by_key(|e| (e.object, e.stamp, e.thread, e.ordinal));
        for group in entries.chunk_by(|a, b| a.object == b.object) {
            if group.iter().all(|e| e.thread == group[0].thread) {
                continue;
            }
            let object = self.objects as u32;
            self.objects += 1;
            let mut releases = 0;
            for entry in group {
                let operation = Operation { object, rank: releases };
                self.operations[entry.thread as usize][entry.ordinal as usize] = operation;
                releases += u32::from(entry.op != SyncOp::Acquire);
            }
        }
    }
}

/// How far the releases of one object have come.
#[derive(Debug, Default)]
pub(super) struct Object {
    /// Releases emitted without a hole: the ranks below are done.
    frontier: u32,
    /// The latest virtual clock among them.
    clock: u64,
    /// Releases emitted ahead of the frontier, with their clocks.
    early: BTreeMap<u32, u64>,
    /// Threads that wait, with the frontier they wait for.
    waiting: Vec<(u32, u32)>,
}

impl Object {
    /// The releaser's clock for an acquire that waits for `rank` releases, or nothing if it must wait.
    pub fn acquire(&self, rank: u32) -> Option<u64> {
        (self.frontier >= rank).then_some(self.clock)
    }

    /// Puts a thread to sleep until `rank` releases are out.
    pub fn wait(&mut self, rank: u32, thread: u32) {
        self.waiting.push((rank, thread));
    }

    /// Takes a thread out of the waiting ones (its wait was broken).
    pub fn give_up(&mut self, thread: u32) {
        self.waiting.retain(|&(_, t)| t != thread);
    }

    /// Emits a release; threads that need wait no longer are added to `woken`.
    pub fn release(&mut self, rank: u32, clock: u64, woken: &mut Vec<u32>) {
        if rank != self.frontier {
            self.early.insert(rank, clock);
            return;
        }
        self.frontier += 1;
        self.clock = self.clock.max(clock);
        while let Some(clock) = self.early.remove(&self.frontier) {
            self.frontier += 1;
            self.clock = self.clock.max(clock);
        }
        let frontier = self.frontier;
        self.waiting.retain(|&(rank, thread)| {
            if rank <= frontier {
                woken.push(thread);
            }
            rank > frontier
        });
    }
}
