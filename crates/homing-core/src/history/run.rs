//! One page run, how it grows reference by reference, and its packed form.

use crate::ids::{Node, Time};

/// A maximal stretch of references to one page by one node with none by another node in between.
///
/// A stretch of reads between two writes of the same node that is longer than the history's `read_gap` ends the run and
/// begins another of the same node, so that `reads_between` only holds gaps in which no replica could pay
/// (gap * (r - 1) <= R): the optimum with replication is then exact on runs. A run is also cut when it spans 2^30
/// references of Time, which keeps its counters small and changes no cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRun {
    /// The node whose CPUs made the references.
    pub node: Node,
    /// Time of the first reference.
    pub first: Time,
    /// Time of the last reference.
    pub last: Time,
    /// Reads before the first write (all reads if the run has no write).
    pub reads_before: u32,
    /// Writes.
    pub writes: u32,
    /// Reads after the first write and before the last.
    pub reads_between: u32,
    /// Reads after the last write.
    pub reads_after: u32,
}

/// A run that spans this much Time is cut.
const MAX_SPAN: u64 = 1 << 30;

impl PageRun {
    /// The run in progress of a page without references: any reference ends it.
    pub(super) const NONE: PageRun = PageRun {
        node: Node(u16::MAX),
        first: Time(0),
        last: Time(0),
        reads_before: 0,
        writes: 0,
        reads_between: 0,
        reads_after: 0,
    };

    /// A run that begins with one reference.
    #[inline]
    pub fn begin(node: Node, time: Time, write: bool) -> PageRun {
        PageRun {
            node,
            first: time,
            last: time,
            reads_before: u32::from(!write),
            writes: u32::from(write),
            reads_between: 0,
            reads_after: 0,
        }
    }

    /// Adds a reference. If it belongs to another run, returns the finished one and begins the next in its place.
    #[inline]
    pub fn extend(&mut self, node: Node, time: Time, write: bool, read_gap: u32) -> Option<PageRun> {
        let ends = self.node != node
            || (write && self.writes > 0 && self.reads_after > read_gap)
            || time.0 - self.first.0 >= MAX_SPAN;
        if ends {
            return Some(std::mem::replace(self, PageRun::begin(node, time, write)));
        }
        self.last = time;
        if write {
            self.writes += 1;
            self.reads_between += self.reads_after;
            self.reads_after = 0;
        } else if self.writes == 0 {
            self.reads_before += 1;
        } else {
            self.reads_after += 1;
        }
        None
    }

    /// All reads of the run.
    pub fn reads(&self) -> u64 {
        u64::from(self.reads_before) + u64::from(self.reads_between) + u64::from(self.reads_after)
    }

    /// All references of the run.
    pub fn references(&self) -> u64 {
        self.reads() + u64::from(self.writes)
    }

    /// Appends the packed form: a head `node << 2 | shape`, the counts that the shape has (0: reads only, 1: writes
    /// only, 2: all four), the Time since `previous` (the end of the page's previous run) and the span.
    #[inline]
    pub(super) fn pack(&self, previous: Time, out: &mut Vec<u8>) {
        let reads_later = self.reads_between | self.reads_after;
        let shape = match (self.writes, self.reads_before | reads_later) {
            (0, _) => 0,
            (_, 0) => 1,
            _ => 2,
        };
        put(out, u64::from(self.node.0) << 2 | shape);
        match shape {
            0 => put(out, u64::from(self.reads_before)),
            1 => put(out, u64::from(self.writes)),
            _ => [self.reads_before, self.writes, self.reads_between, self.reads_after]
                .into_iter()
                .for_each(|count| put(out, u64::from(count))),
        }
        put(out, self.first.0.wrapping_sub(previous.0));
        put(out, self.last.0 - self.first.0);
    }

    /// Takes one packed run off the front of `bytes`; `None` at their end.
    #[inline]
    pub(super) fn unpack(bytes: &mut &[u8], previous: Time) -> Option<PageRun> {
        let head = take(bytes)?;
        let (mut reads_before, mut writes, mut reads_between, mut reads_after) = (0, 0, 0, 0);
        match head & 3 {
            0 => reads_before = take(bytes)? as u32,
            1 => writes = take(bytes)? as u32,
            _ => {
                reads_before = take(bytes)? as u32;
                writes = take(bytes)? as u32;
                reads_between = take(bytes)? as u32;
                reads_after = take(bytes)? as u32;
            }
        }
        let first = Time(previous.0.wrapping_add(take(bytes)?));
        let last = Time(first.0 + take(bytes)?);
        let node = Node((head >> 2) as u16);
        Some(PageRun { node, first, last, reads_before, writes, reads_between, reads_after })
    }
}

/// Appends an LEB128 number.
#[inline]
fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Takes an LEB128 number off the front.
#[inline]
fn take(bytes: &mut &[u8]) -> Option<u64> {
    let (&first, rest) = bytes.split_first()?;
    *bytes = rest;
    if first < 0x80 {
        return Some(u64::from(first));
    }
    let mut number = u64::from(first & 0x7f);
    for shift in (7..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}
