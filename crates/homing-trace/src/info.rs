//! What a trace holds and what state it is in: the facts behind `homing trace info`.

use super::inspect::{inspect, Counts, Depth};
use super::{Damage, Summary, Trace};
use crate::ids::Thread;
use rayon::prelude::*;

/// What a pass over a trace found.
#[derive(Clone, Debug)]
pub struct Info {
    /// The writer's counts; where the trace is unfinished or damaged, those of the pass.
    pub summary: Summary,
    /// Events, allocations and what the recorder dropped, as the pass found them.
    pub counts: Counts,
    /// Each thread's readable references, and those lost to damage.
    pub threads: Vec<ThreadInfo>,
    /// All damage found.
    pub damage: Vec<Damage>,
    /// References without a place in the total order: of a damaged or a missing order block.
    pub unordered: u64,
}

/// What is there of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadInfo {
    /// The thread.
    pub thread: Thread,
    /// References that can be read.
    pub references: u64,
    /// References that damage has taken.
    pub lost: u64,
}

impl Info {
    /// Reads the whole trace, its blocks in parallel. `done` receives the number of references of each block that was
    /// read.
    pub fn of(trace: &Trace<'_>, done: impl Fn(u64) + Sync) -> Info {
        let whole = trace.complete() && trace.damage().is_empty();
        let mut info = Info::pass(trace, if whole { Depth::Steps } else { Depth::References }, &done);
        if whole && !info.damage.is_empty() {
            info = Info::pass(trace, Depth::References, &done);
        }
        info
    }

    fn pass(trace: &Trace<'_>, depth: Depth, done: &(impl Fn(u64) + Sync)) -> Info {
        let blocks: Vec<_> =
            trace.threads.iter().flat_map(|(&t, of)| of.blocks.iter().map(move |b| (t, b))).collect();
        let found: Vec<_> = blocks
            .par_iter()
            .map(|(_, placed)| {
                let counts = inspect(trace, placed, depth);
                done(u64::from(placed.header.b));
                counts
            })
            .collect();
        let total = |(thread, lost)| ThreadInfo { thread, references: 0, lost };
        let mut threads: Vec<ThreadInfo> = trace.threads().map(total).collect();
        let mut damage = trace.damage().to_vec();
        let mut counts = Counts::default();
        for ((thread, placed), found) in blocks.into_iter().zip(found) {
            let references = u64::from(placed.header.b);
            match found {
                Ok(found) => {
                    counts = counts.with(found);
                    if let Ok(at) = threads.binary_search_by_key(&thread, |t| t.thread) {
                        threads[at].references += references;
                        threads[at].lost -= references;
                    }
                }
                Err(reason) => {
                    damage.push(Damage { offset: placed.offset, reason, thread: Some(thread), references })
                }
            }
        }
        let orders =
            (0..trace.order.len()).into_par_iter().filter_map(|block| trace.order_turns(block).err());
        let orders: Vec<Damage> = orders.collect();
        let ordered: u64 = trace.order_blocks().map(|block| block.references).sum();
        let all = if trace.awaits_order() { 0 } else { trace.references() };
        let unordered =
            all.saturating_sub(ordered) + orders.iter().map(|damage| damage.references).sum::<u64>();
        damage.extend(orders);
        let mut summary = trace.summary();
        if depth == Depth::References {
            summary.references = counts.references;
            summary.reads = counts.reads;
            summary.writes = counts.writes;
            summary.atomics = counts.atomics;
            summary.bytes_accessed = counts.bytes_accessed;
            summary.events = counts.all_events();
        }
        Info { summary, counts, threads, damage, unordered }
    }

    /// References that damage has taken, as far as they are known.
    pub fn lost(&self) -> u64 {
        self.threads.iter().map(|thread| thread.lost).fold(0, u64::saturating_add)
    }
}
