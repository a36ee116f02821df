//! The total order: merges the streams of the threads by virtual time, never across a happens-before edge
//! (design: "Interleaving is part of the truth").
//!
//! Each thread has a virtual clock: the instructions that it has executed, plus waiting. The runnable thread with the
//! smallest clock runs for a quantum, over and over. An acquire waits until the releases that it must follow are out and
//! takes over the latest releaser's clock; a child starts at its creator's clock; a join waits for the end of the thread.
//! Quantum jitter and ties are drawn from a seed, so that other seeds give other interleavings of the same execution.
//!
//! Memory: 8 bytes for each synchronisation operation, and what the cursors need; references are never held.

mod sync;
#[cfg(test)]
mod tests;

pub use sync::{Edges, Sync, SyncKind};

use crate::ids::Thread;
use rand::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::cmp::Reverse;
use std::collections::binary_heap::{BinaryHeap, PeekMut};
use sync::{Object, Operation};

/// One piece of a thread's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// `times` executions of a code block.
    Run {
        /// References of one execution.
        references: u32,
        /// Instructions of one execution: its virtual time.
        instructions: u32,
        /// Executions.
        times: u32,
    },
    /// The thread creates another.
    Start(Thread),
    /// The thread has waited for the end of another.
    Join(Thread),
    /// The thread synchronises.
    Sync(Sync),
}

/// The steps of one thread, in its order.
pub trait Cursor {
    /// The next step, or nothing at the end of the thread.
    fn step(&mut self) -> Option<Step>;
}

impl<I: Iterator<Item = Step>> Cursor for I {
    #[inline]
    fn step(&mut self) -> Option<Step> {
        self.next()
    }
}

/// How to merge.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Instructions that a thread runs before another gets its turn, on average.
    pub quantum: u32,
    /// Seed of the jitter and of the ties.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options { quantum: 32, seed: 0 }
    }
}

/// What a merge did, and which edges it had to break because the trace is damaged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// References put in order.
    pub references: u64,
    /// Turns emitted.
    pub turns: u64,
    /// Acquires that went ahead of a release, because waiting for it would never have ended.
    pub broken_acquires: u64,
    /// Threads that started without their creator.
    pub broken_starts: u64,
    /// Joins that did not wait for the end.
    pub broken_joins: u64,
}

/// Joins turns of the same thread that follow each other.
#[derive(Debug)]
pub(super) struct Turns<F> {
    thread: Thread,
    count: u64,
    turns: u64,
    sink: F,
}

impl<E, F: FnMut(Thread, u64) -> Result<(), E>> Turns<F> {
    pub(super) fn new(sink: F) -> Turns<F> {
        Turns { thread: Thread(0), count: 0, turns: 0, sink }
    }

    #[inline]
    pub(super) fn push(&mut self, thread: Thread, count: u64) -> Result<(), E> {
        if count == 0 {
            return Ok(());
        }
        if thread == self.thread || self.count == 0 {
            self.thread = thread;
            self.count += count;
            return Ok(());
        }
        let (before, references) = (self.thread, self.count);
        (self.thread, self.count) = (thread, count);
        self.turns += 1;
        (self.sink)(before, references)
    }

    /// Emits the last turn and gives the number of turns.
    pub(super) fn finish(mut self) -> Result<u64, E> {
        if self.count > 0 {
            self.turns += 1;
            (self.sink)(self.thread, self.count)?;
        }
        Ok(self.turns)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unborn,
    Ready,
    /// For releases; the stamp of the acquire.
    Waiting(u64),
    Joining(Thread),
    Done,
}

struct Lane<C> {
    cursor: C,
    state: State,
    clock: u64,
    references: u32,
    instructions: u32,
    times: u32,
    /// Synchronisation operations met.
    syncs: usize,
    /// The operation that it waits for, or was woken from and has yet to carry out.
    pending: Option<(Operation, SyncKind)>,
    joiners: Vec<u32>,
}

/// A thread in the queue of runnable ones: clock, tie, number.
type Key = Reverse<(u64, u32, u32)>;

struct Merge<C> {
    lanes: Vec<Lane<C>>,
    edges: Edges,
    objects: Vec<Object>,
    queue: BinaryHeap<Key>,
    woken: Vec<u32>,
    random: Xoshiro256PlusPlus,
    report: Report,
}

/// Merges the threads (thread i is `cursors[i]`), with the edges of the same streams, into turns.
pub fn merge<C: Cursor, E>(
    cursors: Vec<C>,
    edges: Edges,
    options: Options,
    sink: impl FnMut(Thread, u64) -> Result<(), E>,
) -> Result<Report, E> {
    let mut merge = Merge::new(cursors, edges, options.seed);
    let mut turns = Turns::new(sink);
    let quantum = options.quantum.clamp(1, 1 << 30);
    loop {
        merge.run(quantum, &mut turns)?;
        if !merge.break_stall() {
            break;
        }
    }
    merge.report.turns = turns.finish()?;
    Ok(merge.report)
}

impl<C: Cursor> Merge<C> {
    fn new(cursors: Vec<C>, edges: Edges, seed: u64) -> Merge<C> {
        let mut merge = Merge {
            lanes: Vec::with_capacity(cursors.len()),
            objects: std::iter::repeat_with(Object::default).take(edges.objects).collect(),
            edges,
            queue: BinaryHeap::new(),
            woken: Vec::new(),
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            report: Report::default(),
        };
        for (thread, cursor) in cursors.into_iter().enumerate() {
            merge.lanes.push(Lane {
                cursor,
                state: State::Unborn,
                clock: 0,
                references: 0,
                instructions: 0,
                times: 0,
                syncs: 0,
                pending: None,
                joiners: Vec::new(),
            });
            if !merge.edges.started.get(thread).is_some_and(|&started| started) {
                merge.ready(thread as u32);
            }
        }
        merge
    }

    fn ready(&mut self, thread: u32) {
        let lane = &mut self.lanes[thread as usize];
        lane.state = State::Ready;
        if let Some((operation, _)) = lane.pending {
            let released = self.objects[operation.object as usize].acquire(operation.rank);
            lane.clock = lane.clock.max(released.unwrap_or(0));
        }
        self.queue.push(Reverse((lane.clock, self.random.next_u32(), thread)));
    }

    /// Runs until no thread is runnable.
    fn run<E, F>(&mut self, quantum: u32, turns: &mut Turns<F>) -> Result<(), E>
    where
        F: FnMut(Thread, u64) -> Result<(), E>,
    {
        while let Some(&Reverse((_, _, thread))) = self.queue.peek() {
            let random = self.random.next_u64();
            let jitter = u64::from(quantum / 2) * 2 + 1;
            let budget = match self.queue.len() {
                1 => u64::MAX,
                _ => u64::from(quantum - quantum / 2) + (((random & 0xffff_ffff) * jitter) >> 32),
            };
            let before = self.report.references;
            let runnable = self.turn(thread, budget);
            turns.push(Thread(thread), self.report.references - before)?;
            let top = self.queue.peek_mut().expect("the thread that ran is the first of the queue");
            if runnable {
                *{ top } = Reverse((self.lanes[thread as usize].clock, (random >> 32) as u32, thread));
            } else {
                PeekMut::pop(top);
            }
            while let Some(woken) = self.woken.pop() {
                self.ready(woken);
            }
        }
        Ok(())
    }

    /// Runs a thread for about `budget` instructions, until it waits or ends (then false), or wakes another.
    ///
    /// A turn never ends between an atomic operation's event and its reference, which follows it.
    fn turn(&mut self, thread: u32, budget: u64) -> bool {
        let end = self.lanes[thread as usize].clock.saturating_add(budget);
        let mut atomic = false;
        if let Some((operation, kind)) = self.lanes[thread as usize].pending.take() {
            self.pass(thread, operation, kind);
            atomic = kind == SyncKind::Both;
        }
        loop {
            let lane = &mut self.lanes[thread as usize];
            if lane.times == 0 {
                match lane.cursor.step() {
                    Some(Step::Run { references, instructions, times }) => {
                        lane.references = references;
                        lane.instructions = instructions.max(1);
                        lane.times = times;
                        continue;
                    }
                    Some(step) => match self.event(thread, step) {
                        false => return false,
                        true => atomic |= matches!(step, Step::Sync(s) if s.kind == SyncKind::Both),
                    },
                    None => {
                        self.end(thread);
                        return false;
                    }
                }
            } else {
                let (times, instructions) = (lane.times, u64::from(lane.instructions));
                let mut take = 1;
                if times > 1 && !atomic && self.woken.is_empty() {
                    take = end.saturating_sub(lane.clock).div_ceil(instructions).clamp(1, u64::from(times));
                }
                lane.times -= take as u32;
                lane.clock = lane.clock.saturating_add(take * instructions);
                self.report.references += take * u64::from(lane.references);
                atomic = false;
                if lane.clock >= end {
                    return true;
                }
            }
            if !self.woken.is_empty() && !atomic {
                return true;
            }
        }
    }

    /// Handles an event; false if the thread must wait.
    fn event(&mut self, thread: u32, step: Step) -> bool {
        match step {
            Step::Run { .. } => unreachable!("runs are no events"),
            Step::Start(child) => {
                let clock = self.lanes[thread as usize].clock;
                match self.lanes.get_mut(child.index()) {
                    Some(lane) if lane.state == State::Unborn => {
                        (lane.state, lane.clock) = (State::Ready, clock);
                        self.woken.push(child.0);
                    }
                    _ => {}
                }
            }
            Step::Join(other) => {
                let Some(lane) = self.lanes.get_mut(other.index()) else { return true };
                if lane.state != State::Done && other.0 != thread {
                    lane.joiners.push(thread);
                    self.lanes[thread as usize].state = State::Joining(other);
                    return false;
                }
                let clock = lane.clock;
                let lane = &mut self.lanes[thread as usize];
                lane.clock = lane.clock.max(clock);
            }
            Step::Sync(sync) => {
                let lane = &mut self.lanes[thread as usize];
                let operation = self.edges.operation(thread, lane.syncs);
                lane.syncs += 1;
                let Some(operation) = operation else { return true };
                let object = &mut self.objects[operation.object as usize];
                if sync.kind != SyncKind::Release && object.acquire(operation.rank).is_none() {
                    object.wait(operation.rank, thread);
                    lane.state = State::Waiting(sync.stamp);
                    lane.pending = Some((operation, sync.kind));
                    return false;
                }
                self.pass(thread, operation, sync.kind);
            }
        }
        true
    }

    /// Carries out a synchronisation that need not wait, or whose wait is over or broken.
    fn pass(&mut self, thread: u32, operation: Operation, kind: SyncKind) {
        let lane = &mut self.lanes[thread as usize];
        let object = &mut self.objects[operation.object as usize];
        if kind != SyncKind::Release {
            lane.clock = lane.clock.max(object.acquire(operation.rank).unwrap_or(0));
        }
        if kind != SyncKind::Acquire {
            object.release(operation.rank, lane.clock, &mut self.woken);
        }
    }

    fn end(&mut self, thread: u32) {
        let lane = &mut self.lanes[thread as usize];
        lane.state = State::Done;
        let clock = lane.clock;
        for joiner in std::mem::take(&mut lane.joiners) {
            let lane = &mut self.lanes[joiner as usize];
            if lane.state == State::Joining(Thread(thread)) {
                lane.clock = lane.clock.max(clock);
                self.woken.push(joiner);
            }
        }
    }

    /// With no thread runnable: lets one go on against its edge, the acquire with the smallest stamp first. False if
    /// all have ended.
    fn break_stall(&mut self) -> bool {
        let waiting = self.lanes.iter().enumerate().filter_map(|(thread, lane)| match lane.state {
            State::Waiting(stamp) => Some((stamp, thread)),
            _ => None,
        });
        if let Some((_, thread)) = waiting.min() {
            if let Some((operation, _)) = self.lanes[thread].pending {
                self.objects[operation.object as usize].give_up(thread as u32);
            }
            self.report.broken_acquires += 1;
            self.ready(thread as u32);
            return true;
        }
        let stuck = |wanted: fn(&State) -> bool| self.lanes.iter().position(|lane| wanted(&lane.state));
        if let Some(thread) = stuck(|state| *state == State::Unborn) {
            self.report.broken_starts += 1;
            self.ready(thread as u32);
            return true;
        }
        if let Some(thread) = stuck(|state| matches!(state, State::Joining(_))) {
            self.report.broken_joins += 1;
            self.ready(thread as u32);
            return true;
        }
        false
    }
}
