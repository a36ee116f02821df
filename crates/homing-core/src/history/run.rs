//! One page run, how it grows reference by reference, and its packed form.

use crate::ids::{Node, Time};

/// A maximal stretch of references to one page by one node with none by another node in between.
///
/// A stretch of reads between two writes of the same node that is longer than the history's `read_gap` ends the run and
/// begins another of the same node, so that `reads_between` only holds gaps in which no replica could pay
/// (gap * (r - 1) <= R): the optimum with replication is then exact on runs. A run is also cut where Time passes a
/// multiple of 2^30, which keeps its counters small, and where whoever builds the history says so; neither changes a
/// cost.
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

/// Runs are cut at multiples of this Time.
const MAX_SPAN: u64 = 1 << 30;
/// In place of a run's reads before its last write: its first write begins a run of its own.
const LEADING: u32 = u32::MAX;

/// A node, and the stretch of Time between two multiples of [`MAX_SPAN`] in which it makes references: what all
/// references of a run have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct By(u64);

impl By {
    const NODE_BITS: u32 = u16::BITS;
    /// Set in a run that no reference continues any more.
    const CUT: u64 = 1 << 63;

    #[inline]
    pub(super) fn new(node: Node, time: Time) -> By {
        By((time.0 / MAX_SPAN) << Self::NODE_BITS | u64::from(node.0))
    }

    /// How many references from `time` on are in the same stretch.
    #[inline]
    pub(super) fn room(time: Time) -> u64 {
        MAX_SPAN - time.0 % MAX_SPAN
    }

    /// `time`, counted from the start of the stretch that it lies in.
    #[inline]
    pub(super) fn within(time: Time) -> u32 {
        (time.0 % MAX_SPAN) as u32
    }

    /// The Time that is `within` after the start of the stretch.
    #[inline]
    fn time(self, within: u32) -> Time {
        Time(((self.0 & !Self::CUT) >> Self::NODE_BITS) * MAX_SPAN + u64::from(within))
    }

    #[inline]
    fn node(self) -> Node {
        Node(self.0 as u16)
    }
}

/// A run in progress. A read, the usual reference, changes two numbers only. Half a cache line, as nearly every
/// reference needs another one.
#[repr(align(32))]
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenRun {
    by: By,
    /// Of its first and its last reference, [within](By::within) the stretch.
    first: u32,
    last: u32,
    reads: u32,
    writes: u32,
    /// Reads before the first and before the last write; [`LEADING`].
    at_first_write: u32,
    at_last_write: u32,
}

impl OpenRun {
    /// That of a page without references: any reference ends it.
    pub(super) const NONE: OpenRun = OpenRun {
        by: By(u64::MAX),
        first: 0,
        last: 0,
        reads: 0,
        writes: 0,
        at_first_write: 0,
        at_last_write: 0,
    };

    /// A run that begins with one reference.
    #[inline]
    pub(super) fn begin(by: By, time: Time, write: bool) -> OpenRun {
        let (reads, writes, at) = (u32::from(!write), u32::from(write), By::within(time));
        OpenRun { by, first: at, last: at, reads, writes, ..OpenRun::NONE }
    }

    /// A run to be continued.
    pub(super) fn of(run: &PageRun) -> OpenRun {
        let reads = run.reads() as u32;
        let (at_first_write, at_last_write) = match run.writes {
            0 => (0, 0),
            _ => (run.reads_before, reads - run.reads_after),
        };
        let &PageRun { node, first, last, writes, .. } = run;
        let (by, first, last) = (By::new(node, first), By::within(first), By::within(last));
        OpenRun { by, first, last, reads, writes, at_first_write, at_last_write }
    }

    /// Lets the first write, if none has come, begin a run of its own.
    pub(super) fn lead(&mut self) {
        if self.writes == 0 {
            self.at_last_write = LEADING;
        }
    }

    /// Lets any further reference begin a run of its own.
    pub(super) fn cut(&mut self) {
        self.by.0 |= By::CUT;
    }

    /// Takes back [`OpenRun::lead`].
    pub(super) fn follow(&mut self) {
        if self.writes == 0 {
            self.at_last_write = 0;
        }
    }

    /// Adds the page's next run, which has no reads before its first write if it has writes; false, and nothing done,
    /// if that stays a run of its own.
    pub(super) fn join(&mut self, next: &PageRun, read_gap: u32) -> bool {
        if self.by != By::new(next.node, next.first) {
            return false;
        }
        if next.writes > 0 {
            debug_assert_eq!(next.reads_before, 0);
            if self.writes == 0 {
                self.at_first_write = self.reads;
            } else if self.reads - self.at_last_write > read_gap {
                return false;
            }
            self.writes += next.writes;
            self.at_last_write = self.reads + next.reads_between;
        }
        self.reads += next.reads() as u32;
        self.last = By::within(next.last);
        true
    }

    /// Adds a reference, made by `by` at the Time `within` its stretch; false, and nothing done, if it belongs to
    /// another run.
    #[inline(always)]
    pub(super) fn extend(&mut self, by: By, within: u32, write: bool, read_gap: u32) -> bool {
        if self.by != by {
            return false;
        }
        if write {
            if self.writes == 0 {
                if self.at_last_write == LEADING {
                    return false;
                }
                self.at_first_write = self.reads;
            } else if self.reads - self.at_last_write > read_gap {
                return false;
            }
            self.writes += 1;
            self.at_last_write = self.reads;
        } else {
            self.reads += 1;
        }
        self.last = within;
        true
    }

    /// The run as it is so far; `None` if it has no references.
    #[inline]
    pub(super) fn finished(&self) -> Option<PageRun> {
        if self.reads + self.writes == 0 {
            return None;
        }
        let (reads_before, reads_after) = match self.writes {
            0 => (self.reads, 0),
            _ => (self.at_first_write, self.reads - self.at_last_write),
        };
        Some(PageRun {
            node: self.by.node(),
            first: self.by.time(self.first),
            last: self.by.time(self.last),
            reads_before,
            writes: self.writes,
            reads_between: self.reads - reads_before - reads_after,
            reads_after,
        })
    }
}

impl PageRun {
    /// All reads of the run.
    pub fn reads(&self) -> u64 {
        u64::from(self.reads_before) + u64::from(self.reads_between) + u64::from(self.reads_after)
    }

    /// All references of the run.
    pub fn references(&self) -> u64 {
        self.reads() + u64::from(self.writes)
    }

    /// Appends the packed form. First word: shape (2 bits; 0: reads only, 1: writes only, 2: a second word has the four
    /// counts, 3: five more words have everything), node (7), count (9), span (14), `gap` (32), the Time from the run's
    /// end to the page's next run.
    #[inline]
    pub(super) fn pack(&self, gap: u64, out: &mut Vec<u64>) {
        let span = self.last.0 - self.first.0;
        let node = u64::from(self.node.0);
        if node < 1 << 7 && span < 1 << 14 && gap < 1 << 32 {
            let common = node << 2 | span << 18 | gap << 32;
            let reads_later = self.reads_between | self.reads_after;
            // A count is at most span + 1, so 16 bits hold it.
            if self.writes == 0 && self.reads_before < 1 << 9 {
                return out.push(common | u64::from(self.reads_before) << 9);
            }
            if self.reads_before | reads_later == 0 && self.writes < 1 << 9 {
                return out.push(common | 1 | u64::from(self.writes) << 9);
            }
            let counts = [self.reads_before, self.writes, self.reads_between, self.reads_after];
            let counts = counts.iter().rev().fold(0, |word, &count| word << 16 | u64::from(count));
            return out.extend_from_slice(&[common | 2, counts]);
        }
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let counts = [pair(self.reads_before, self.writes), pair(self.reads_between, self.reads_after)];
        out.extend_from_slice(&[3, node, span, gap, counts[0], counts[1]]);
    }

    /// Unpacks the run at the front of `words` that begins at `first`; gives it, the words it took and the gap to the
    /// next. `None` at their end.
    #[inline]
    pub(super) fn unpack(words: &[u64], first: Time) -> Option<(PageRun, usize, u64)> {
        let (&head, rest) = words.split_first()?;
        let node = Node((head >> 2 & 0x7f) as u16);
        let count = (head >> 9 & 0x1ff) as u32;
        let last = Time(first.0 + (head >> 18 & 0x3fff));
        let none =
            PageRun { node, first, last, reads_before: 0, writes: 0, reads_between: 0, reads_after: 0 };
        let (run, used, gap) = match head & 3 {
            0 => (PageRun { reads_before: count, ..none }, 1, head >> 32),
            1 => (PageRun { writes: count, ..none }, 1, head >> 32),
            2 => {
                let counts = *rest.first()?;
                let count = |i: u32| (counts >> (16 * i) & 0xffff) as u32;
                (none.with_counts([count(0), count(1), count(2), count(3)]), 2, head >> 32)
            }
            _ => {
                let [node, span, gap, a, b] = *rest.first_chunk()?;
                let none = PageRun { node: Node(node as u16), last: Time(first.0 + span), ..none };
                (none.with_counts([a as u32, (a >> 32) as u32, b as u32, (b >> 32) as u32]), 6, gap)
            }
        };
        Some((run, used, gap))
    }

    fn with_counts(self, [reads_before, writes, reads_between, reads_after]: [u32; 4]) -> PageRun {
        PageRun { reads_before, writes, reads_between, reads_after, ..self }
    }
}
