//! Writes what happened in a block as tokens: equal executions in a row as one run, and runs that come again and again
//! in the same order, as those of an inner loop of several code blocks do, as one loop.

use super::super::varint;
use super::dictionary::Entry;

/// Token forms (`docs/trace-format.md`).
pub(crate) const ONE: u64 = 0;
pub(crate) const ONE_MASKED: u64 = 1;
pub(crate) const MANY_MASKED: u64 = 2;
pub(crate) const MANY: u64 = 3;
/// Tokens that are no execution.
pub(crate) const EVENT: u64 = 0;
pub(crate) const ADVANCE: u64 = 1;
pub(crate) const LOOP: u64 = 2;
/// The most runs of a loop's body.
pub(crate) const MAX_BODY: usize = 8;

/// A body that came less often than this is written out.
const LEAST_ROUNDS: usize = 4;

/// Runs that are remembered before all but the last few are forgotten at once.
const MAX_RECENT: usize = 8 * MAX_BODY;

/// Executions with the same mask in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Run {
    entry: u32,
    count: u32,
    mask: u64,
}

impl Run {
    #[inline]
    fn hash(&self) -> u8 {
        let key = self.mask ^ u64::from(self.entry).rotate_left(40) ^ u64::from(self.count) << 20;
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
    }
}

/// Whether one of the eight bytes of `bytes` is `byte`.
#[inline]
fn has_byte(bytes: u64, byte: u8) -> bool {
    const ONES: u64 = u64::MAX / 0xff;
    let zero_if_like = bytes ^ (u64::from(byte) * ONES);
    zero_if_like.wrapping_sub(ONES) & !zero_if_like & (ONES << 7) != 0
}

/// The tokens of a block in progress.
#[derive(Debug, Default)]
pub(super) struct TokenWriter {
    bytes: Vec<u8>,
    /// The run in progress; empty if its count is 0. It is taken out while executions are added.
    run: Run,
    /// The last runs that were written (at least those that a body may hold), oldest first, and where each begins in
    /// `bytes`.
    recent: Vec<(Run, usize)>,
    /// Of the last runs that were written, as many as a body may hold, the last one first: their hashes, a byte each.
    /// Most runs are like none of them, which is seen by comparing these all at once.
    hashes: u64,
    /// Length of the body, the last of the recent runs, that seems to come again; 0 for none.
    body: usize,
    /// Runs that were as the body foretold, not written yet.
    foretold: usize,
}

impl TokenWriter {
    /// Bytes so far, but for the runs that are held back.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Gives the run in progress, to be handed from execution to execution and then [back](TokenWriter::resume). It
    /// changes with every execution: the caller has it in registers.
    #[inline]
    pub(super) fn take_run(&mut self) -> Run {
        std::mem::take(&mut self.run)
    }

    /// Takes back the run in progress.
    #[inline]
    pub(super) fn resume(&mut self, run: Run) {
        self.run = run;
    }

    /// One execution after those of `run`; returns the run in progress.
    #[inline]
    pub(super) fn execution(&mut self, run: Run, entry: u32, mask: u64, entries: &[Entry]) -> Run {
        if run.entry == entry && run.mask == mask && run.count > 0 {
            return Run { count: run.count + 1, ..run };
        }
        self.end_run(run, entries);
        Run { entry, mask, count: 1 }
    }

    /// An event.
    pub(super) fn event(&mut self, entries: &[Entry]) {
        self.end(entries);
        varint::put(&mut self.bytes, EVENT);
    }

    /// Virtual time without references.
    pub(super) fn advance(&mut self, units: u64, entries: &[Entry]) {
        self.end(entries);
        varint::put(&mut self.bytes, ADVANCE);
        varint::put(&mut self.bytes, units);
    }

    /// The tokens written so far; to be taken at the end of a block, after [`TokenWriter::end`].
    pub(super) fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Writes all that is held back.
    pub(super) fn end(&mut self, entries: &[Entry]) {
        let run = self.take_run();
        self.end_run(run, entries);
        self.end_loop(entries);
        self.recent.clear();
    }

    fn end_run(&mut self, run: Run, entries: &[Entry]) {
        if run.count == 0 {
            return;
        }
        if self.body > 0 {
            let next = self.recent.len() - self.body + self.foretold % self.body;
            if self.recent[next].0 == run {
                self.foretold += 1;
                return;
            }
            self.end_loop(entries);
        }
        // Neighbours differ, so a body has two runs at least.
        match self.find(run) {
            Some(back) => (self.body, self.foretold) = (back + 1, 1),
            None => self.write(run, entries),
        }
    }

    /// How many runs were written after the last one that was like this one, if that was not long ago.
    #[inline]
    fn find(&self, run: Run) -> Option<usize> {
        if !has_byte(self.hashes, run.hash()) {
            return None;
        }
        self.recent.iter().rev().take(MAX_BODY).position(|&(recent, _)| recent == run)
    }

    /// Writes the runs that are held back, as a loop if there are many.
    fn end_loop(&mut self, entries: &[Entry]) {
        let (body, foretold) = (std::mem::take(&mut self.body), std::mem::take(&mut self.foretold));
        if body == 0 {
            return;
        }
        let start = self.recent.len() - body;
        let mut runs = [(Run::default(), 0); MAX_BODY];
        runs[..body].copy_from_slice(&self.recent[start..]);
        let mut left = foretold;
        let rounds = 1 + foretold / body;
        if rounds >= LEAST_ROUNDS {
            let mut token = Vec::with_capacity(8);
            [LOOP, body as u64, rounds as u64].iter().for_each(|&part| varint::put(&mut token, part));
            let at = runs[0].1;
            self.bytes.splice(at..at, token);
            self.recent.clear();
            left %= body;
        }
        for i in 0..left {
            self.write(runs[i % body].0, entries);
        }
    }

    fn write(&mut self, run: Run, entries: &[Entry]) {
        if self.recent.len() == MAX_RECENT {
            self.recent.drain(..MAX_RECENT - MAX_BODY);
        }
        self.recent.push((run, self.bytes.len()));
        self.hashes = (self.hashes << 8) | u64::from(run.hash());
        let Run { entry, count, mask } = run;
        let form = match (count, mask) {
            (1, 0) => ONE,
            (1, _) => ONE_MASKED,
            (_, 0) => MANY,
            _ => MANY_MASKED,
        };
        varint::put(&mut self.bytes, (u64::from(entry) + 1) << 2 | form);
        if count > 1 {
            varint::put(&mut self.bytes, u64::from(count));
        }
        if mask != 0 {
            // All eight of them, which is faster than a copy of some.
            let bytes = (entries[entry as usize].accesses as usize).div_ceil(8);
            let end = self.bytes.len() + bytes;
            self.bytes.extend_from_slice(&mask.to_le_bytes());
            self.bytes.truncate(end);
        }
    }
}
