//! The total order: merges the streams of the threads by virtual time, never across a happens-before edge
//! (design: "Interleaving is part of the truth").
//!
//! Each thread has a virtual clock: the instructions that it has executed, plus waiting. The runnable thread with the
//! smallest clock runs for a quantum, over and over. An acquire waits until the releases that it must follow are out
//! and takes over the latest releaser's clock; a child starts at its creator's clock; a join waits for the end of the
//! thread. Quantum jitter and ties are drawn from a seed, so that other seeds give other interleavings of the same
//! execution.
//!
//! Memory: 8 bytes for each synchronisation operation, up to a budget beyond which they go to a file ([`Memory`]), and
//! what the cursors need; references are never held.

mod lists;
pub(crate) mod of_trace;
mod sync;
#[cfg(test)]
mod tests;
mod turns;

pub use lists::{Memory, ReadAt, Spill};
pub use of_trace::merge_trace;
pub use sync::{Edges, Sync};
pub(super) use turns::Turns;

use super::SyncOp;
use crate::ids::Thread;
use lists::Operation;
use rand::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::cmp::Reverse;
use std::collections::binary_heap::{BinaryHeap, PeekMut};
use std::io;
use sync::Object;

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
        times: u64,
    },
    /// Instructions without references.
    Wait(u64),
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
    /// Instructions that a thread runs before another gets its turn, on average. The default is about what one access
    /// to memory takes: threads that share a page for real cannot alternate faster (docs/recording.md).
    pub quantum: u32,
    /// Seed of the jitter and of the ties.
    pub seed: u64,
    /// Bytes of memory for synchronisation operations, where there is a file for the rest.
    pub memory: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options { quantum: 128, seed: 0, memory: 1 << 30 }
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
    /// Bytes of synchronisation operations that went to a file for want of memory.
    pub spilled: u64,
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

/// A thread on its way through the merge.
struct Lane<C> {
    cursor: C,
    state: State,
    clock: u64,
    /// References emitted, and the number at which the thread stops.
    done: u64,
    limit: u64,
    /// The run in progress: references and instructions of an execution, executions left, and how many references of
    /// the first of them are out (a replayed turn may end anywhere).
    references: u32,
    instructions: u32,
    times: u64,
    partly: u64,
    /// Synchronisation operations met.
    syncs: usize,
    /// The operation that it waits for, or was woken from and has yet to carry out.
    pending: Option<(Operation, SyncOp)>,
    joiners: Vec<u32>,
}

/// A thread in the queue of runnable ones: clock, tie, number.
type Key = Reverse<(u64, u32, u32)>;

/// A merge in progress.
pub struct Merge<C> {
    lanes: Vec<Lane<C>>,
    edges: Edges,
    objects: Vec<Object>,
    queue: BinaryHeap<Key>,
    woken: Vec<u32>,
    random: Xoshiro256PlusPlus,
    quantum: u32,
    /// Edges are followed, not waited for: the order is given.
    replaying: bool,
    report: Report,
}

/// Merges the threads (thread i is `cursors[i]`), with the edges of the same streams, into turns.
///
/// # Errors
/// Those of `sink`, and if operations that went to a file cannot be read again.
pub fn merge<C: Cursor, E: From<io::Error>>(
    cursors: Vec<C>,
    edges: Edges,
    options: Options,
    mut sink: impl FnMut(Thread, u64) -> Result<(), E>,
) -> Result<Report, E> {
    let mut merge = Merge::new(cursors, edges, options);
    merge.fill(|_| u64::MAX, &mut sink)?;
    merge.edges.take_error().map_or_else(|| Ok(merge.report()), |error| Err(error.into()))
}

impl<C: Cursor> Merge<C> {
    /// Begins a merge.
    pub fn new(cursors: Vec<C>, edges: Edges, options: Options) -> Merge<C> {
        let lane = |(thread, cursor)| Lane {
            cursor,
            state: if edges.is_started(thread) { State::Unborn } else { State::Ready },
            clock: 0,
            done: 0,
            limit: 0,
            references: 0,
            instructions: 0,
            times: 0,
            partly: 0,
            syncs: 0,
            pending: None,
            joiners: Vec::new(),
        };
        let report = Report { spilled: edges.spilled(), ..Report::default() };
        Merge {
            lanes: cursors.into_iter().enumerate().map(lane).collect(),
            objects: std::iter::repeat_with(Object::default).take(edges.objects).collect(),
            edges,
            queue: BinaryHeap::new(),
            woken: Vec::new(),
            random: Xoshiro256PlusPlus::seed_from_u64(options.seed),
            quantum: options.quantum.clamp(1, 1 << 30),
            replaying: false,
            report,
        }
    }

    /// What was done so far.
    pub fn report(&self) -> Report {
        self.report
    }

    /// Goes through the next references of a thread in an order that is known, without emitting them.
    pub fn replay(&mut self, thread: Thread, references: u64) {
        let Some(lane) = self.lanes.get_mut(thread.index()) else { return };
        lane.limit = lane.done.saturating_add(references);
        if lane.state == State::Done {
            return;
        }
        if let (State::Waiting(_), Some((operation, _))) = (lane.state, lane.pending) {
            self.objects[operation.object as usize].give_up(thread.0);
        }
        lane.state = State::Ready;
        self.replaying = true;
        loop {
            let runnable = self.turn(thread.0, u64::MAX);
            while let Some(woken) = self.woken.pop() {
                self.lanes[woken as usize].state = State::Ready;
            }
            if !runnable {
                break;
            }
        }
        self.replaying = false;
    }

    /// Merges until each thread has made `limit(thread)` references in all, or ended.
    pub fn fill<E>(
        &mut self,
        limit: impl Fn(Thread) -> u64,
        sink: &mut impl FnMut(Thread, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        self.queue.clear();
        for thread in 0..self.lanes.len() as u32 {
            let lane = &mut self.lanes[thread as usize];
            lane.limit = limit(Thread(thread));
            if lane.state == State::Ready {
                self.ready(thread);
            }
        }
        let mut turns = Turns::new(sink);
        loop {
            self.run(&mut turns)?;
            if !self.break_stall() {
                break;
            }
        }
        self.report.turns += turns.finish()?;
        Ok(())
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
    fn run<E, F>(&mut self, turns: &mut Turns<F>) -> Result<(), E>
    where
        F: FnMut(Thread, u64) -> Result<(), E>,
    {
        let shortest = u64::from(self.quantum - self.quantum / 2);
        let jitter = u64::from(self.quantum / 2) * 2 + 1;
        while let Some(&Reverse((_, _, thread))) = self.queue.peek() {
            let random = self.random.next_u64();
            let budget = match self.queue.len() {
                1 => u64::MAX,
                _ => shortest + (((random & 0xffff_ffff) * jitter) >> 32),
            };
            let before = self.lanes[thread as usize].done;
            let runnable = self.turn(thread, budget);
            let references = self.lanes[thread as usize].done - before;
            self.report.references = self.report.references.saturating_add(references);
            turns.push(Thread(thread), references)?;
            let mut top = self.queue.peek_mut().expect("the thread that ran is the first of the queue");
            if runnable {
                *top = Reverse((self.lanes[thread as usize].clock, (random >> 32) as u32, thread));
                drop(top);
            } else {
                PeekMut::pop(top);
            }
            while let Some(woken) = self.woken.pop() {
                self.ready(woken);
            }
        }
        Ok(())
    }

    /// Runs a thread for about `budget` instructions, until it waits, ends or meets its limit (then false), or wakes
    /// another.
    ///
    /// A turn never ends between an atomic operation's event and its reference, which follows it.
    fn turn(&mut self, thread: u32, budget: u64) -> bool {
        let end = self.lanes[thread as usize].clock.saturating_add(budget);
        let mut atomic = false;
        if let Some((operation, op)) = self.lanes[thread as usize].pending.take() {
            self.pass(thread, operation, op);
            atomic = op == SyncOp::Both;
        }
        loop {
            let lane = &mut self.lanes[thread as usize];
            if lane.times > 0 {
                if lane.done >= lane.limit {
                    return false;
                }
                let most = if atomic || !self.woken.is_empty() { 1 } else { lane.times };
                lane.execute(end, most);
                atomic = false;
                if lane.clock >= end {
                    return true;
                }
            } else {
                match lane.cursor.step() {
                    Some(Step::Run { references, instructions, times }) => {
                        (lane.references, lane.instructions) = (references, instructions.max(1));
                        lane.times = times;
                        continue;
                    }
                    Some(Step::Wait(instructions)) => lane.clock = lane.clock.saturating_add(instructions),
                    Some(step) => match self.event(thread, step) {
                        false => return false,
                        true => atomic |= matches!(step, Step::Sync(s) if s.op == SyncOp::Both),
                    },
                    None => {
                        self.end(thread);
                        return false;
                    }
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
            Step::Run { .. } | Step::Wait(_) => {}
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
                if lane.state != State::Done && other.0 != thread && !self.replaying {
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
                let free = sync.op == SyncOp::Release || object.acquire(operation.rank).is_some();
                if !free && !self.replaying {
                    object.wait(operation.rank, thread);
                    lane.state = State::Waiting(sync.stamp);
                    lane.pending = Some((operation, sync.op));
                    return false;
                }
                self.pass(thread, operation, sync.op);
            }
        }
        true
    }

    /// Carries out a synchronisation that need not wait, or whose wait is over or broken.
    fn pass(&mut self, thread: u32, operation: Operation, op: SyncOp) {
        let lane = &mut self.lanes[thread as usize];
        let object = &mut self.objects[operation.object as usize];
        if op != SyncOp::Release {
            lane.clock = lane.clock.max(object.acquire(operation.rank).unwrap_or(0));
        }
        if op != SyncOp::Acquire {
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
    /// all have ended or met their limit.
    fn break_stall(&mut self) -> bool {
        let stuck = || self.lanes.iter().enumerate().filter(|(_, lane)| lane.done < lane.limit);
        let waiting = stuck().filter_map(|(thread, lane)| match lane.state {
            State::Waiting(stamp) => Some((stamp, thread)),
            _ => None,
        });
        let found = |wanted: fn(State) -> bool| stuck().find(|(_, lane)| wanted(lane.state)).map(|(i, _)| i);
        let thread = if let Some((_, thread)) = waiting.min() {
            self.report.broken_acquires += 1;
            thread
        } else if let Some(thread) = found(|state| state == State::Unborn) {
            self.report.broken_starts += 1;
            thread
        } else if let Some(thread) = found(|state| matches!(state, State::Joining(_))) {
            self.report.broken_joins += 1;
            thread
        } else {
            return false;
        };
        if let Some((operation, _)) = self.lanes[thread].pending {
            self.objects[operation.object as usize].give_up(thread as u32);
        }
        self.ready(thread as u32);
        true
    }
}

/// The quotient, rounded up. Divisions of 32 bits take a third of the time.
#[inline]
fn div_ceil(a: u64, b: u64) -> u64 {
    match (u32::try_from(a), u32::try_from(b)) {
        (Ok(a), Ok(b)) => u64::from(a.div_ceil(b)),
        _ => a.div_ceil(b),
    }
}

impl<C> Lane<C> {
    /// Executes until the clock reaches `end`, at most `most` executions and never beyond the limit.
    #[inline]
    fn execute(&mut self, end: u64, most: u64) {
        let instructions = u64::from(self.instructions);
        let budget = end.saturating_sub(self.clock);
        let mut take = most;
        // A division costs more than all the rest, and most runs are short.
        if most > 1 && most.saturating_mul(instructions) > budget {
            take = div_ceil(budget, instructions).clamp(1, most);
        }
        let each = u64::from(self.references);
        let mut made = take.saturating_mul(each) - self.partly;
        let left = self.limit - self.done;
        if made > left {
            made = left;
            take = (made + self.partly) / each;
            self.partly = (made + self.partly) % each;
        } else {
            self.partly = 0;
        }
        self.times -= take;
        self.clock = self.clock.saturating_add(take.saturating_mul(instructions));
        self.done += made;
    }
}
