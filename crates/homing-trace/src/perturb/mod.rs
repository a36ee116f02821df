//! Filters that change the interleaving of a trace a little, to measure how much the order matters
//! (Bolosky & Scott 1991, section 4.2).
//!
//! Both only choose which thread makes the next reference: each thread's own references keep their order, and events
//! travel with them. Happens-before edges may be crossed, as in the paper; `homing trace merge --seed` gives other
//! orders that keep them.

#[cfg(test)]
mod tests;

use super::by_thread::ByThread;
use super::merge::Turns;
use crate::ids::Thread;
use rand::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::VecDeque;

/// A source of randomness with exact integer probabilities, so that every machine draws the same.
#[derive(Clone, Debug)]
struct Dice(Xoshiro256PlusPlus);

impl Dice {
    fn new(seed: u64) -> Dice {
        Dice(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// A number below `bound`, which is below 2^32.
    #[inline]
    fn below(&mut self, bound: u64) -> u64 {
        ((self.0.next_u64() >> 32) * bound) >> 32
    }
}

/// "Keeps a buffer of 100 references from the incoming trace stream [...] randomly chooses an entry from the buffer,
/// emits the oldest buffered reference made by the processor whose entry was selected, and reads a new reference to
/// replace it."
///
/// The oldest reference of a thread leaves the buffer whichever of its entries is chosen, so an entry is its thread.
#[derive(Clone, Debug)]
pub struct Local {
    buffer: Vec<Thread>,
    entries: usize,
    dice: Dice,
}

impl Local {
    /// The size of the buffer in the paper.
    pub const ENTRIES: u32 = 100;

    /// A filter with a buffer of `entries` references.
    pub fn new(entries: u32, seed: u64) -> Local {
        Local { buffer: Vec::new(), entries: entries.max(1) as usize, dice: Dice::new(seed) }
    }
}

/// "With probability one in 30,000 introduces a gap on one processor for 4000 references [...] by taking any references
/// made by the chosen processor and placing them in a queue. Once the gap has ended, as long as there are saved
/// references, one of them will be emitted instead of a fresh reference with probability 2/3."
///
/// One gap is open at a time; its length is counted in references of the incoming trace. What is saved of several gaps
/// is emitted in the order of the gaps. A fresh reference of a thread with saved ones takes its place behind them.
#[derive(Clone, Debug)]
pub struct Gaps {
    parameters: GapParameters,
    dice: Dice,
    threads: ByThread<Progress>,
    /// The thread with the open gap, and the references until its end.
    open: Option<(Thread, u64)>,
    saved: VecDeque<(Thread, u64)>,
}

/// References of a thread in the input, and how many of them were read.
#[derive(Clone, Copy, Debug)]
struct Progress {
    total: u64,
    read: u64,
}

/// The parameters of [`Gaps`]; the defaults are the paper's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GapParameters {
    /// A gap begins with probability 1 / `every` at a reference.
    pub every: u32,
    /// References for which it lasts.
    pub length: u64,
    /// A saved reference goes first with probability `drain.0 / drain.1`.
    pub drain: (u32, u32),
}

impl Default for GapParameters {
    fn default() -> GapParameters {
        GapParameters { every: 30_000, length: 4_000, drain: (2, 3) }
    }
}

impl Gaps {
    /// A filter for a trace whose threads make that many references. A gap falls on any thread that has begun and not
    /// ended, with the same probability.
    pub fn new(
        parameters: GapParameters,
        references: impl IntoIterator<Item = (Thread, u64)>,
        seed: u64,
    ) -> Gaps {
        let threads = references.into_iter().map(|(thread, total)| (thread, Progress { total, read: 0 }));
        let threads = threads.collect();
        Gaps { parameters, dice: Dice::new(seed), threads, open: None, saved: VecDeque::new() }
    }

    fn open_gap(&mut self) {
        let alive = |(_, thread): &(Thread, &Progress)| thread.read > 0 && thread.read < thread.total;
        let threads = self.threads.iter().filter(alive).count() as u64;
        if threads == 0 {
            return;
        }
        let chosen = self.dice.below(threads) as usize;
        let thread = self.threads.iter().filter(alive).nth(chosen);
        self.open = thread.map(|(thread, _)| (thread, self.parameters.length));
    }

    fn save(&mut self, thread: Thread) {
        match self.saved.iter_mut().find(|saved| saved.0 == thread) {
            Some(saved) => saved.1 += 1,
            None => self.saved.push_back((thread, 1)),
        }
    }

    fn unsave(&mut self) -> Option<Thread> {
        let first = self.saved.front_mut()?;
        let thread = first.0;
        first.1 -= 1;
        if first.1 == 0 {
            self.saved.pop_front();
        }
        Some(thread)
    }
}

/// A filter over turns.
pub trait Filter {
    /// Takes a reference of a thread and emits what comes out.
    fn reference<E>(
        &mut self,
        thread: Thread,
        emit: &mut impl FnMut(Thread, u64) -> Result<(), E>,
    ) -> Result<(), E>;

    /// Emits what is left at the end.
    fn finish<E>(&mut self, emit: &mut impl FnMut(Thread, u64) -> Result<(), E>) -> Result<(), E>;
}

impl Filter for Local {
    #[inline]
    fn reference<E>(
        &mut self,
        thread: Thread,
        emit: &mut impl FnMut(Thread, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.buffer.len() < self.entries {
            self.buffer.push(thread);
            return Ok(());
        }
        let chosen = self.dice.below(self.buffer.len() as u64) as usize;
        emit(std::mem::replace(&mut self.buffer[chosen], thread), 1)
    }

    fn finish<E>(&mut self, emit: &mut impl FnMut(Thread, u64) -> Result<(), E>) -> Result<(), E> {
        while !self.buffer.is_empty() {
            let chosen = self.dice.below(self.buffer.len() as u64) as usize;
            emit(self.buffer.swap_remove(chosen), 1)?;
        }
        Ok(())
    }
}

impl Filter for Gaps {
    #[inline]
    fn reference<E>(
        &mut self,
        thread: Thread,
        emit: &mut impl FnMut(Thread, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        if let Some(thread) = self.threads.get_mut(thread) {
            thread.read += 1;
        }
        if let Some((stopped, left)) = &mut self.open {
            let stopped = *stopped;
            *left -= 1;
            if *left == 0 {
                self.open = None;
            }
            if stopped == thread {
                self.save(thread);
                return Ok(());
            }
            return emit(thread, 1);
        }
        while !self.saved.is_empty() {
            let (of, all) = self.parameters.drain;
            if self.dice.below(u64::from(all)) >= u64::from(of) {
                break;
            }
            if let Some(saved) = self.unsave() {
                emit(saved, 1)?;
            }
        }
        if self.parameters.length > 0 && self.dice.below(u64::from(self.parameters.every)) == 0 {
            self.open_gap();
        }
        emit(thread, 1)
    }

    fn finish<E>(&mut self, emit: &mut impl FnMut(Thread, u64) -> Result<(), E>) -> Result<(), E> {
        self.saved.drain(..).try_for_each(|(thread, count)| emit(thread, count))
    }
}

/// Feeds turns through the chosen filters (gaps first) and joins what comes out to turns again.
#[derive(Debug)]
pub struct Perturb<F> {
    gaps: Option<Gaps>,
    local: Option<Local>,
    turns: Turns<F>,
}

impl<E, F: FnMut(Thread, u64) -> Result<(), E>> Perturb<F> {
    /// A chain of the filters that are given.
    pub fn new(gaps: Option<Gaps>, local: Option<Local>, sink: F) -> Perturb<F> {
        Perturb { gaps, local, turns: Turns::new(sink) }
    }

    /// Takes a turn of the incoming order.
    pub fn turn(&mut self, thread: Thread, count: u64) -> Result<(), E> {
        let Perturb { gaps, local, turns } = self;
        let mut last = |thread, count| through(local, thread, count, &mut |t, n| turns.push(t, n));
        for _ in 0..count {
            match gaps {
                Some(gaps) => gaps.reference(thread, &mut last)?,
                None => last(thread, 1)?,
            }
        }
        Ok(())
    }

    /// Emits what the filters still hold; the number of turns emitted in all.
    pub fn finish(self) -> Result<u64, E> {
        let Perturb { gaps, mut local, mut turns } = self;
        if let Some(mut gaps) = gaps {
            gaps.finish(&mut |thread, count| {
                through(&mut local, thread, count, &mut |t, n| turns.push(t, n))
            })?;
        }
        if let Some(mut local) = local {
            local.finish(&mut |t, n| turns.push(t, n))?;
        }
        turns.finish()
    }
}

#[inline]
fn through<E>(
    filter: &mut Option<impl Filter>,
    thread: Thread,
    count: u64,
    emit: &mut impl FnMut(Thread, u64) -> Result<(), E>,
) -> Result<(), E> {
    match filter {
        Some(filter) => (0..count).try_for_each(|_| filter.reference(thread, emit)),
        None => emit(thread, count),
    }
}
