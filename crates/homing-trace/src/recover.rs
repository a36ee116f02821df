//! Makes a whole trace of what is readable in a damaged or unfinished one.
//!
//! Blocks that read from end to end are copied; references are renumbered over the holes, so that the result is
//! undamaged, and says in its header and summary how many references it lacks: it stays a part
//! ([`Trace::is_partial`]). Turns of the old order are kept where they can be read; what has no place in them is put in
//! order by [`super::merge`].

use super::format::{self, BlockHeader, BlockKind, BlockSink, Placed, RECOVERED_LOST};
use super::inspect::{inspect, Counts, Depth};
use super::merge::of_trace::{Lanes, Lost};
use super::merge::{Merge, Options, Report, Turns as JoinedTurns};
use super::order::OrderEncoder;
use super::varint::{self, zigzag};
use super::{Summary, Trace, TraceError};
use crate::ids::Thread;
use rayon::prelude::*;
use std::collections::{BTreeMap, HashSet};
use std::io::Write;

/// Frames in one block of the rewritten frame table.
const FRAMES_A_BLOCK: usize = 1 << 16;

/// Lanes with the index of their first reference in an order block.
type LaneStarts = Vec<(usize, u64)>;

/// What a recovery kept and what is lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// References in the result.
    pub references: u64,
    /// References that are lost, as far as they are known: what a recorder still held when it was killed is not.
    pub lost: u64,
    /// References blocks that were left out.
    pub damaged_blocks: u64,
    /// Blocks of names, symbols or frames that were left out.
    pub damaged_tables: u64,
    /// References whose place in the order was kept.
    pub order_kept: u64,
    /// References that were put in order anew.
    pub order_made: u64,
    /// What the merge did, if there was one.
    pub merge: Report,
}

/// The references of one lane that are kept: stretches of old indices.
#[derive(Debug, Default)]
struct Kept {
    /// First index of each stretch, its length, and the references kept before it.
    stretches: Vec<(u64, u64, u64)>,
}

impl Kept {
    fn push(&mut self, first: u64, count: u64) {
        let before = self.total();
        self.stretches.push((first, count, before));
    }

    fn total(&self) -> u64 {
        self.stretches.last().map_or(0, |&(_, count, before)| before + count)
    }

    /// The references kept of those with an old index below `index`: the new index of the next one.
    fn before(&self, index: u64) -> u64 {
        let next = self.stretches.partition_point(|&(first, ..)| first < index);
        let Some(&(first, count, before)) = next.checked_sub(1).and_then(|i| self.stretches.get(i)) else {
            return 0;
        };
        before + count.min(index - first)
    }
}

struct Recovery<'t, 'b> {
    trace: &'t Trace<'b>,
    lanes: Lanes,
    kept: Vec<Kept>,
    counts: Counts,
    result: Recovered,
}

/// Writes what is whole of `trace` to `out`. `done` receives the number of references of each block that was checked.
pub fn recover<W: Write>(
    mut trace: Trace<'_>,
    out: W,
    options: Options,
    done: impl Fn(u64) + Sync,
) -> Result<(W, Recovered), TraceError> {
    let blocks: Vec<Placed> = trace.threads.values().flat_map(|thread| &thread.blocks).copied().collect();
    let all: u64 = trace.references();
    let check = |placed: &Placed| {
        let counts = inspect(&trace, placed, Depth::References);
        done(u64::from(placed.header.b));
        counts.ok().map(|counts| (placed.offset, counts))
    };
    let whole: Vec<(u64, Counts)> = blocks.par_iter().filter_map(check).collect();
    let mut result =
        Recovered { damaged_blocks: (blocks.len() - whole.len()) as u64, ..Recovered::default() };
    let offsets: HashSet<u64> = whole.iter().map(|(offset, _)| *offset).collect();
    for thread in trace.threads.values_mut() {
        thread.blocks.retain(|placed| offsets.contains(&placed.offset));
    }
    let counts = whole.into_iter().fold(Counts::default(), |all, (_, counts)| all.with(counts));
    result.references = counts.references;
    result.lost = all.saturating_sub(counts.references).saturating_add(cut_off(&trace));
    let lanes = Lanes::of(&trace);
    let mut recovery = Recovery { trace: &trace, lanes, kept: Vec::new(), counts, result };
    recovery.write(out, options)
}

/// References of blocks of which only the header can be read, where the file ends.
fn cut_off(trace: &Trace<'_>) -> u64 {
    let headers = trace.damage().iter().filter_map(|damage| {
        let at = usize::try_from(damage.offset).ok()?;
        let header = BlockHeader::decode(trace.bytes.get(at..)?)?;
        let known = trace.blocks.iter().any(|placed| placed.offset == damage.offset);
        (header.kind == BlockKind::References && !known).then_some(u64::from(header.b))
    });
    headers.sum()
}

impl Recovery<'_, '_> {
    fn write<W: Write>(&mut self, out: W, options: Options) -> Result<(W, Recovered), TraceError> {
        let mut sink = BlockSink::new(out, 0, Vec::new())?;
        let mut header = self.trace.header().clone();
        if self.trace.is_partial() || self.result.lost > 0 {
            let lost = header.recovered_lost().unwrap_or(0).saturating_add(self.result.lost);
            header.more.insert(RECOVERED_LOST.to_owned(), lost.into());
        }
        sink.put_bytes(&header.encode()?)?;
        self.write_tables(&mut sink)?;
        self.write_references(&mut sink)?;
        self.write_order(&mut sink, options)?;
        let summary = self.summary();
        let raw = summary.encode(&header)?;
        sink.put(table(BlockKind::Summary, 0, 0), &raw)?;
        Ok((sink.finish()?, self.result.clone()))
    }

    /// Names and symbols as they are; the frame table as far as it is known.
    fn write_tables<W: Write>(&mut self, sink: &mut BlockSink<W>) -> Result<(), TraceError> {
        // Damaged are also those whose checksum is right and whose content makes no sense.
        let damaged: HashSet<u64> = self.trace.damage().iter().map(|damage| damage.offset).collect();
        for placed in &self.trace.blocks {
            let kept = match placed.header.kind {
                BlockKind::Names | BlockKind::Symbols => true,
                BlockKind::Frames => false,
                _ => continue,
            };
            match format::stored(self.trace.bytes, placed.offset) {
                Ok((header, stored)) if header == placed.header && !damaged.contains(&placed.offset) => {
                    if kept {
                        sink.put_stored(header, stored)?;
                    }
                }
                _ => self.result.damaged_tables += 1,
            }
        }
        let mut first = 0;
        for pages in self.trace.frames().chunks(FRAMES_A_BLOCK) {
            let (mut raw, mut last) = (Vec::new(), 0u64);
            for &page in pages {
                varint::put(&mut raw, zigzag(page.wrapping_sub(last) as i64));
                last = page;
            }
            sink.put(table(BlockKind::Frames, first, pages.len() as u32), &raw)?;
            first += pages.len() as u32;
        }
        Ok(())
    }

    /// The whole references blocks, renumbered.
    fn write_references<W: Write>(&mut self, sink: &mut BlockSink<W>) -> Result<(), TraceError> {
        for thread in self.trace.threads.values() {
            let mut kept = Kept::default();
            for placed in &thread.blocks {
                let stored = format::stored(self.trace.bytes, placed.offset);
                let (header, stored) = stored.map_err(std::io::Error::other)?;
                sink.put_stored(BlockHeader { c: kept.total(), ..header }, stored)?;
                kept.push(header.c, u64::from(header.b));
            }
            self.kept.push(kept);
        }
        Ok(())
    }

    /// The readable order blocks with the index at which each lane starts in them; whether nothing is missing between,
    /// nor for any lane.
    fn readable_order(&self) -> (Vec<(usize, LaneStarts)>, bool) {
        let mut gapless = true;
        let mut end = 0;
        let mut ordered = vec![0u64; self.kept.len()];
        let mut readable = Vec::new();
        for (number, placed) in self.trace.order.iter().enumerate() {
            gapless &= placed.header.c == end;
            end = placed.header.c.saturating_add(placed.header.d);
            match self.trace.turns(placed) {
                Ok(turns) => {
                    for (local, count) in turns.turns {
                        let lane = self.lanes.lane(turns.starts[local as usize].0).index();
                        ordered.get_mut(lane).into_iter().for_each(|sum| *sum = sum.saturating_add(count));
                    }
                    let starts = turns.starts.iter().map(|&(t, index)| (self.lanes.lane(t).index(), index));
                    readable.push((number, starts.filter(|&(lane, _)| lane < self.kept.len()).collect()));
                }
                Err(_) => gapless = false,
            }
        }
        let all = self.lanes.threads.iter().zip(ordered).all(|(&(_, references), sum)| sum >= references);
        (readable, gapless && all)
    }

    fn write_order<W: Write>(&mut self, sink: &mut BlockSink<W>, options: Options) -> Result<(), TraceError> {
        let (readable, gapless) = self.readable_order();
        let mut merge = match gapless {
            true => None,
            false => {
                let cursors = self.lanes.cursors(self.trace, Lost::Drop);
                Some(Merge::new(cursors, self.lanes.edges(self.trace, None)?, options))
            }
        };
        let mut order = Order { sink, encoder: OrderEncoder::default() };
        let mut joined =
            JoinedTurns::new(|lane: Thread, count| order.turn(self.lanes.threads[lane.index()].0, count));
        let mut at = vec![0; self.kept.len()];
        for (i, (number, starts)) in readable.iter().enumerate() {
            if let Some(merge) = &mut merge {
                let next = self.next_starts(&readable[i..]);
                if starts.iter().any(|&(lane, index)| at[lane] < index) {
                    merge
                        .fill(|lane| self.kept[lane.index()].before(next[lane.index()]), &mut |lane, n| {
                            joined.push(lane, n)
                        })?;
                }
            }
            starts.iter().for_each(|&(lane, index)| at[lane] = at[lane].max(index));
            for (thread, count) in self.trace.order_turns(*number).unwrap_or_default() {
                let lane = self.lanes.lane(thread);
                let Some(index) = at.get_mut(lane.index()) else { continue };
                let kept = &self.kept[lane.index()];
                let next = index.saturating_add(count);
                let references = kept.before(next) - kept.before(*index);
                *index = next;
                joined.push(lane, references)?;
                if let Some(merge) = &mut merge {
                    merge.replay(lane, references);
                }
            }
        }
        if let Some(merge) = &mut merge {
            merge.fill(|_| u64::MAX, &mut |lane, n| joined.push(lane, n))?;
            self.result.merge = merge.report();
        }
        joined.finish()?;
        order.seal()?;
        self.result.order_made = self.result.merge.references;
        self.result.order_kept = self.result.references.saturating_sub(self.result.order_made);
        Ok(())
    }

    /// The index at which each lane goes on in the given order blocks; its end if it does not.
    fn next_starts(&self, blocks: &[(usize, Vec<(usize, u64)>)]) -> Vec<u64> {
        let mut next = vec![u64::MAX; self.kept.len()];
        for (_, starts) in blocks.iter().rev() {
            starts.iter().for_each(|&(lane, index)| next[lane] = index);
        }
        next
    }

    fn summary(&self) -> Summary {
        let old = self.trace.summary();
        Summary {
            references: self.counts.references,
            reads: self.counts.reads,
            writes: self.counts.writes,
            atomics: self.counts.atomics,
            bytes_accessed: self.counts.bytes_accessed,
            threads: self.lanes.threads.len() as u32,
            frames: self.trace.frames().len() as u32,
            events: self.counts.all_events(),
            // Not known of what is left.
            by_file: BTreeMap::new(),
            lost: old.lost.max(self.counts.lost).saturating_add(self.result.lost),
            ..old
        }
    }
}

fn table(kind: BlockKind, a: u32, b: u32) -> BlockHeader {
    BlockHeader { kind, stored: 0, raw: 0, a, b, c: 0, d: 0 }
}

/// Turns on their way to order blocks.
struct Order<'s, W> {
    sink: &'s mut BlockSink<W>,
    encoder: OrderEncoder,
}

impl<W: Write> Order<'_, W> {
    fn turn(&mut self, thread: Thread, references: u64) -> std::io::Result<()> {
        let mut left = references;
        while left > 0 {
            left = self.encoder.push(thread, left);
            if self.encoder.is_full() {
                self.seal()?;
            }
        }
        Ok(())
    }

    fn seal(&mut self) -> std::io::Result<()> {
        self.encoder.seal().map_or(Ok(()), |(header, raw)| self.sink.put(header, &raw))
    }
}
