//! The references of a page run, one by one, without expanding it.

use crate::action::Locations;
use crate::history::PageRun;
use crate::ids::{Node, Page, Time};
use crate::policy::Sample;

/// A page run seen as a sequence: the reads before the first write, that write, then the other writes with the reads
/// between them evenly spread, then the reads after the last write.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    run: PageRun,
    len: u64,
    before: u64,
    /// Writes after the first.
    rest: u64,
    /// References after the first write up to the last.
    middle: u64,
}

impl Shape {
    pub(crate) fn new(run: &PageRun) -> Shape {
        let rest = u64::from(run.writes).saturating_sub(1);
        Shape {
            run: *run,
            len: run.references(),
            before: u64::from(run.reads_before),
            rest,
            middle: rest + u64::from(run.reads_between),
        }
    }

    pub(crate) fn node(&self) -> Node {
        self.run.node
    }

    /// Time of the last reference.
    pub(crate) fn last(&self) -> Time {
        self.run.last
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Number of writes among the first `end` references.
    #[inline]
    pub(crate) fn writes_before(&self, end: u64) -> u64 {
        if end == self.len {
            return u64::from(self.run.writes);
        }
        if end <= self.before || self.run.writes == 0 {
            return 0;
        }
        let into = end - self.before - 1;
        1 + if into >= self.middle { self.rest } else { into * self.rest / self.middle }
    }

    /// True if reference `at` is a write.
    #[inline]
    pub(crate) fn is_write(&self, at: u64) -> bool {
        self.writes_before(at + 1) > self.writes_before(at)
    }

    /// The first write at or after `from`.
    pub(crate) fn next_write(&self, from: u64) -> Option<u64> {
        if self.run.writes == 0 {
            return None;
        }
        if from <= self.before {
            return Some(self.before);
        }
        let done = self.writes_before(from);
        (done <= self.rest).then(|| self.before + (done * self.middle).div_ceil(self.rest))
    }

    /// Time of reference `at`.
    #[inline]
    pub(crate) fn time(&self, at: u64) -> Time {
        if at == 0 {
            return self.run.first;
        }
        let span = self.run.last.0 - self.run.first.0;
        Time(self.run.first.0 + scaled(span, at, self.len - 1, 0))
    }

    /// References `from..to`, served by a page at `at`.
    #[inline]
    pub(crate) fn sample(&self, page: Page, from: u64, to: u64, at: Locations) -> Sample {
        let writes = self.writes_before(to) - self.writes_before(from);
        let reads = to - from - writes;
        Sample { page, node: self.run.node, reads, writes, weight: 1.0, time: self.time(from), at }
    }

    /// The first reference whose Time is at least `due`.
    pub(crate) fn position(&self, due: Time) -> u64 {
        if due <= self.run.first {
            return 0;
        }
        if due > self.run.last {
            return self.len;
        }
        let span = self.run.last.0 - self.run.first.0;
        scaled(due.0 - self.run.first.0, self.len - 1, span, span - 1)
    }
}

/// (a * b + add) / by, where the result fits. Dividing 128 bits takes several times as long, and is hardly ever needed.
#[inline]
fn scaled(a: u64, b: u64, by: u64, add: u64) -> u64 {
    match a.checked_mul(b).and_then(|product| product.checked_add(add)) {
        Some(sum) => sum / by,
        None => ((u128::from(a) * u128::from(b) + u128::from(add)) / u128::from(by)) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(before: u32, writes: u32, between: u32, after: u32) -> Shape {
        let references = u64::from(before + writes + between + after);
        Shape::new(&PageRun {
            node: Node(1),
            first: Time(100),
            last: Time(100 + (references - 1) * 3),
            reads_before: before,
            writes,
            reads_between: between,
            reads_after: after,
        })
    }

    fn text(shape: &Shape) -> String {
        (0..shape.len()).map(|at| if shape.is_write(at) { 'w' } else { 'r' }).collect()
    }

    #[test]
    fn reads_between_are_spread_evenly() {
        assert_eq!(text(&shape(2, 3, 4, 1)), "rrwrrwrrwr");
        assert_eq!(text(&shape(0, 4, 2, 0)), "wrwrww");
        assert_eq!(text(&shape(3, 0, 0, 0)), "rrr");
        assert_eq!(text(&shape(0, 1, 0, 2)), "wrr");
    }

    #[test]
    fn long_spans_are_divided_exactly() {
        let far = PageRun { last: Time(u64::MAX / 2), ..shape(3, 0, 0, 4).run };
        let shape = Shape::new(&far);
        let span = u128::from(u64::MAX / 2 - 100);
        assert_eq!(shape.time(5), Time(100 + (span * 5 / 6) as u64));
        assert_eq!(shape.position(shape.time(5)), 5);
        assert_eq!(shape.position(Time(shape.time(5).0 + 1)), 6);
    }

    #[test]
    fn next_write_and_position_agree_with_stepping() {
        for (before, writes, between, after) in
            [(2, 3, 4, 1), (0, 4, 2, 0), (3, 0, 0, 0), (0, 1, 0, 2), (1, 7, 3, 2)]
        {
            let shape = shape(before, writes, between, after);
            for from in 0..shape.len() {
                let stepped = (from..shape.len()).find(|&at| shape.is_write(at));
                assert_eq!(shape.next_write(from), stepped, "{} from {from}", text(&shape));
            }
            for due in 98..100 + shape.len() * 3 + 2 {
                let stepped = (0..shape.len()).find(|&at| shape.time(at).0 >= due).unwrap_or(shape.len());
                assert_eq!(shape.position(Time(due)), stepped);
            }
        }
    }
}
