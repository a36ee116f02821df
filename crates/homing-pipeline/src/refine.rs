//! Counts what filters see of a trace: the runs of a successive refinement ([`homing_core::refine`]).

use crate::error::Result;
use homing_core::ids::{Thread, Time};
use homing_core::refine::Filters;
use homing_trace::{Trace, Turn, Visitor};
use rayon::prelude::*;
use std::ops::Range;

/// The references that are looked at.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// Of this thread; of all if none.
    pub thread: Option<Thread>,
    /// Writes only, or reads only; both if none.
    pub writes: Option<bool>,
    /// To these virtual addresses.
    pub addresses: Range<u64>,
}

impl Chosen {
    /// The addresses of the trace's pages (4096 bytes) that may have such references.
    pub fn pages(&self, trace: &Trace<'_>) -> Vec<u64> {
        let known = trace.frames().iter().filter(|&&frame| frame != u64::MAX).map(|frame| frame << 12);
        known.filter(|page| page + 4096 > self.addresses.start && *page < self.addresses.end).collect()
    }
}

/// What a run counted.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// By counter.
    pub counts: Vec<u64>,
    /// References that were looked at, in a filter or not.
    pub looked_at: u64,
    /// References lost to damage.
    pub lost: u64,
}

impl Counted {
    fn with(mut self, other: Counted) -> Counted {
        self.counts.iter_mut().zip(&other.counts).for_each(|(all, more)| *all += more);
        self.looked_at += other.looked_at;
        self.lost += other.lost;
        self
    }
}

struct Counting<'r> {
    frames: &'r [u64],
    filters: &'r Filters,
    chosen: &'r Chosen,
    counted: Counted,
}

impl Visitor for Counting<'_> {
    fn turn(&mut self, turn: Turn<'_>) {
        if self.chosen.thread.is_some_and(|thread| thread != turn.thread) {
            return;
        }
        for (&dense, kind) in turn.addresses.iter().zip(turn.kinds) {
            let Some(&frame) = self.frames.get((dense >> 12) as usize) else { continue };
            let address = frame << 12 | dense & 4095;
            if frame == u64::MAX
                || self.chosen.writes.is_some_and(|writes| writes != kind.is_write())
                || !self.chosen.addresses.contains(&address)
            {
                continue;
            }
            self.counted.looked_at += 1;
            if let Some(counter) = self.filters.counter(address) {
                self.counted.counts[counter] += 1;
            }
        }
    }

    fn lost(&mut self, _first: Time, references: u64, _reason: &str) {
        self.counted.lost += references;
    }
}

/// Counts what the filters see in these order blocks, which are read in parallel. A reference counts where it begins.
/// `done` receives the number of references that were read.
pub fn count(
    trace: &Trace<'_>,
    blocks: Range<usize>,
    filters: &Filters,
    chosen: &Chosen,
    done: impl Fn(u64) + Sync,
) -> Result<Counted> {
    let sizes: Vec<u64> = trace.order_blocks().map(|block| block.references).collect();
    let at_a_time = blocks.len().div_ceil(rayon::current_num_threads()).max(1);
    // An empty trace may have no blocks; its lost references still count.
    let pieces: Vec<Range<usize>> = match blocks.is_empty() {
        true => vec![blocks],
        false => {
            let ends = |from: usize| from..(from + at_a_time).min(blocks.end);
            blocks.clone().step_by(at_a_time).map(ends).collect()
        }
    };
    let counted = pieces.into_par_iter().map(|piece| {
        let counted = Counted { counts: vec![0; filters.counters() as usize], ..Counted::default() };
        let mut counting = Counting { frames: trace.frames(), filters, chosen, counted };
        trace.visit(piece.clone(), &mut counting)?;
        done(sizes[piece].iter().sum());
        Ok(counting.counted)
    });
    let pieces: Vec<Counted> = counted.collect::<Result<_>>()?;
    Ok(pieces.into_iter().reduce(Counted::with).unwrap_or_default())
}
