//! Happens-before edges between threads, in the form that the merge needs.
//!
//! An acquire with stamp a comes after every release of the same object with a smaller stamp. A first pass over the
//! events of all threads gives each release its *rank* among the releases of its object, and each acquire the number of
//! releases that it waits for. Objects that only one thread uses order nothing and are left out.
//!
//! A thread's stamps rise, so the pass takes all operations in the order of their stamps and counts the releases of
//! each object: what it keeps of an operation is 8 bytes. Where stamps do not rise, in a damaged trace, operations are
//! sorted.

use super::lists::{Lists, Memory, Operation};
use super::Step;
use crate::SyncOp;
use rayon::prelude::*;
use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::io;

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

/// The object orders nothing: one thread uses it.
const PRIVATE: u32 = u32::MAX;

/// All edges of a trace: the result of the first pass.
#[derive(Debug, Default)]
pub struct Edges {
    operations: Lists,
    /// By an object's number in `operations`, its dense number among those that order something, or [`PRIVATE`].
    numbers: Vec<u32>,
    pub(super) objects: usize,
    started: Vec<bool>,
}

/// A synchronisation operation in a trace whose stamps do not rise.
struct Entry {
    object: u64,
    stamp: u64,
    thread: u32,
    ordinal: u32,
    op: SyncOp,
}

/// An object on the first pass.
struct Counted {
    thread: u32,
    releases: u32,
    /// Another thread uses it, too.
    shared: bool,
}

impl Edges {
    /// Collects the edges of so many threads. `steps` gives the steps of each, in the thread's order ([`Step::Run`] may
    /// be left out), once or twice. `memory`: what their operations may take; all that they need if it is not said, and
    /// where stamps fall.
    ///
    /// # Errors
    /// If what is beyond that cannot be written.
    pub fn collect<I: Iterator<Item = Step>>(
        threads: usize,
        steps: impl Fn(usize) -> I,
        mut memory: Option<Memory<'_>>,
    ) -> io::Result<Edges> {
        let edges = Edges::by_stamp(threads, &steps, &mut memory)?;
        edges.map_or_else(|| Edges::sorted(threads, &steps), Ok)
    }

    fn of_threads(threads: usize) -> Edges {
        let (operations, numbers) = (Lists::new(threads), Vec::new());
        Edges { operations, numbers, objects: 0, started: vec![false; threads] }
    }

    /// The next operation of a thread.
    fn next(&mut self, thread: usize, steps: &mut impl Iterator<Item = Step>) -> Option<Sync> {
        loop {
            match steps.next()? {
                Step::Sync(sync) => return Some(sync),
                Step::Start(child) if child.index() != thread => {
                    if let Some(started) = self.started.get_mut(child.index()) {
                        *started = true;
                    }
                }
                _ => {}
            }
        }
    }

    /// Takes all operations in the order of their stamps. `None`: those of a thread do not rise.
    fn by_stamp<I: Iterator<Item = Step>>(
        threads: usize,
        steps: impl Fn(usize) -> I,
        memory: &mut Option<Memory<'_>>,
    ) -> io::Result<Option<Edges>> {
        let mut edges = Edges::of_threads(threads);
        let mut lanes: Vec<I> = (0..threads).map(steps).collect();
        let mut next: Vec<Option<Sync>> = Vec::with_capacity(threads);
        for (thread, lane) in lanes.iter_mut().enumerate() {
            next.push(edges.next(thread, lane));
        }
        let begins = next
            .iter()
            .enumerate()
            .filter_map(|(thread, sync)| Some(Reverse((sync.as_ref()?.stamp, thread))));
        let mut queue: BinaryHeap<Reverse<(u64, usize)>> = begins.collect();
        let (mut numbers, mut counted) = (HashMap::new(), Vec::<Counted>::new());
        while let Some(mut first) = queue.peek_mut() {
            let Reverse((stamp, thread)) = *first;
            let Some(sync) = next[thread].take() else { break };
            let number = *numbers.entry(sync.object).or_insert_with(|| {
                counted.push(Counted { thread: thread as u32, releases: 0, shared: false });
                counted.len() as u32 - 1
            });
            let object = &mut counted[number as usize];
            object.shared |= object.thread != thread as u32;
            edges.operations.push(thread, Operation { object: number, rank: object.releases }, memory)?;
            object.releases += u32::from(sync.op != SyncOp::Acquire);
            match edges.next(thread, &mut lanes[thread]) {
                Some(sync) if sync.stamp < stamp => return Ok(None),
                Some(sync) => {
                    *first = Reverse((sync.stamp, thread));
                    next[thread] = Some(sync);
                }
                None => {
                    PeekMut::pop(first);
                }
            }
        }
        edges.operations.finish(memory)?;
        edges.leave_out(&counted);
        Ok(Some(edges))
    }

    /// Leaves out the objects that only one thread uses.
    fn leave_out(&mut self, counted: &[Counted]) {
        let mut shared = 0..PRIVATE;
        let number = |object: &Counted| match object.shared {
            true => shared.next().unwrap_or(PRIVATE),
            false => PRIVATE,
        };
        self.numbers = counted.iter().map(number).collect();
        self.objects = shared.start as usize;
    }

    /// Sorts all operations.
    fn sorted<I: Iterator<Item = Step>>(threads: usize, steps: impl Fn(usize) -> I) -> io::Result<Edges> {
        let mut edges = Edges::of_threads(threads);
        let mut entries = Vec::new();
        for thread in 0..threads {
            let (mut lane, mut ordinal) = (steps(thread), 0);
            while let Some(Sync { op, object, stamp }) = edges.next(thread, &mut lane) {
                entries.push(Entry { object, stamp, thread: thread as u32, ordinal, op });
                ordinal += 1;
            }
            for _ in 0..ordinal {
                edges.operations.push(thread, Operation { object: PRIVATE, rank: 0 }, &mut None)?;
            }
        }
        edges.rank(entries);
        Ok(edges)
    }

    /// Whether another thread is known to have created this one.
    pub(super) fn is_started(&self, thread: usize) -> bool {
        self.started.get(thread).is_some_and(|&started| started)
    }

    /// The operation of a thread with an ordinal, unless it orders nothing.
    #[inline]
    pub(super) fn operation(&mut self, thread: u32, ordinal: usize) -> Option<Operation> {
        let Operation { object, rank } = self.operations.get(thread as usize, ordinal)?;
        let object = self.numbers.get(object as usize).copied().unwrap_or(object);
        (object != PRIVATE).then_some(Operation { object, rank })
    }

    /// Why an operation could not be read again, if that has happened; what was ordered since is wrong.
    pub(super) fn take_error(&mut self) -> Option<io::Error> {
        self.operations.take_error()
    }

    /// Bytes of operations that went to a file.
    pub fn spilled(&self) -> u64 {
        self.operations.written()
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
                self.operations.put(entry.thread as usize, entry.ordinal as usize, operation);
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

#[cfg(test)]
mod tests {
    use super::super::lists::tests::InMemory;
    use super::*;
    use proptest::prelude::*;

    fn operations(edges: &mut Edges, threads: &[Vec<Step>]) -> Vec<Vec<Option<(u32, u32)>>> {
        // By the objects' first use: numbers are of no account.
        let mut numbers = HashMap::new();
        let mut named = |operation: Operation| {
            let next = numbers.len() as u32;
            (*numbers.entry(operation.object).or_insert(next), operation.rank)
        };
        let syncs = |steps: &Vec<Step>| steps.iter().filter(|step| matches!(step, Step::Sync(_))).count();
        let of = |(thread, steps): (u32, &Vec<Step>)| -> Vec<Option<(u32, u32)>> {
            (0..syncs(steps)).map(|ordinal| edges.operation(thread, ordinal).map(&mut named)).collect()
        };
        (0..).zip(threads).map(of).collect()
    }

    proptest! {
        /// In the order of the stamps, and sorted: the same.
        #[test]
        fn operations_in_order_are_ranked_as_sorted_ones(
            drawn in prop::collection::vec((0..4usize, 0..3u8, 0..6u64, 0..3u64), 0..200)
        ) {
            let mut threads = vec![Vec::new(); 4];
            let mut stamp = 0;
            for (thread, op, object, later) in drawn {
                stamp += later;
                let op = [SyncOp::Release, SyncOp::Acquire, SyncOp::Both][usize::from(op)];
                threads[thread].push(Step::Sync(Sync { op, object, stamp }));
                if object == 5 {
                    threads[thread].push(Step::Start(crate::ids::Thread(3)));
                }
            }
            let steps = |thread: usize| threads[thread].iter().copied();
            let mut spill = InMemory::default();
            let mut memory = Some(Memory { bytes: 64, spill: &mut spill });
            let mut by_stamp = Edges::by_stamp(4, steps, &mut memory).unwrap().unwrap();
            let mut sorted = Edges::sorted(4, steps).unwrap();
            prop_assert_eq!(operations(&mut by_stamp, &threads), operations(&mut sorted, &threads));
            prop_assert_eq!((by_stamp.objects, by_stamp.started), (sorted.objects, sorted.started));
        }
    }

    #[test]
    fn stamps_that_fall_are_sorted() {
        let sync = |op, stamp| Step::Sync(Sync { op, object: 1, stamp });
        let threads =
            [vec![sync(SyncOp::Release, 5), sync(SyncOp::Release, 2)], vec![sync(SyncOp::Acquire, 4)]];
        let steps = |thread: usize| threads[thread].iter().copied();
        assert!(Edges::by_stamp(2, steps, &mut None).unwrap().is_none());
        let mut edges = Edges::collect(2, steps, None).unwrap();
        let mut rank = |thread, ordinal| edges.operation(thread, ordinal).unwrap().rank;
        assert_eq!((rank(0, 0), rank(0, 1), rank(1, 0)), (1, 0, 1));
    }
}
