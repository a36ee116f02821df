//! Page histories: for each page, in Time order, its page runs. Everything about placement needs only these, not the
//! references (design: "Page histories").

use crate::ids::{Node, Page, Time};

/// A maximal stretch of references to one page by one node with none by another node in between.
///
/// A stretch of reads between two writes of the same node that is longer than the history's `read_gap` ends the run and
/// begins another of the same node, so that `reads_between` only holds gaps in which no replica could pay
/// (gap * (r - 1) <= R): the optimum with replication is then exact on runs.
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

impl PageRun {
    /// All reads of the run.
    pub fn reads(&self) -> u64 {
        u64::from(self.reads_before) + u64::from(self.reads_between) + u64::from(self.reads_after)
    }

    /// All references of the run.
    pub fn references(&self) -> u64 {
        self.reads() + u64::from(self.writes)
    }
}

/// Where a page run stands while it grows; the state machine behind every history.
#[derive(Clone, Copy, Debug)]
pub struct OpenRun {
    run: PageRun,
}

impl OpenRun {
    /// A run that begins with one reference.
    #[inline]
    pub fn begin(node: Node, time: Time, write: bool) -> OpenRun {
        let (reads_before, writes) = if write { (0, 1) } else { (1, 0) };
        let run =
            PageRun { node, first: time, last: time, reads_before, writes, reads_between: 0, reads_after: 0 };
        OpenRun { run }
    }

    /// Adds a reference. If it belongs to another run (another node, a read gap that is over, a full counter), returns
    /// the finished run and begins the next.
    #[inline]
    pub fn reference(&mut self, node: Node, time: Time, write: bool, read_gap: u32) -> Option<PageRun> {
        let run = &mut self.run;
        let ends = run.node != node
            || (write && run.writes > 0 && run.reads_after > read_gap)
            || run.reads_before.max(run.writes).max(run.reads_between).max(run.reads_after) >= u32::MAX >> 2;
        if ends {
            let finished = self.run;
            *self = OpenRun::begin(node, time, write);
            return Some(finished);
        }
        run.last = time;
        if write {
            run.writes += 1;
            run.reads_between += run.reads_after;
            run.reads_after = 0;
        } else if run.writes == 0 {
            run.reads_before += 1;
        } else {
            run.reads_after += 1;
        }
        None
    }

    /// The run as far as it has come.
    pub fn run(&self) -> PageRun {
        self.run
    }
}

/// The page runs of all pages of a trace, for one binding of threads to nodes and one page size.
#[derive(Clone, Debug, Default)]
pub struct History {
    pages: Vec<Vec<PageRun>>,
}

impl History {
    /// Builds a history from references given as (node, page number, is a write), in Time order; for tests and small
    /// inputs. Pages are renumbered densely in order of first reference. `read_gap` as in [`PageRun`].
    pub fn from_references(references: &[(u16, u64, bool)], read_gap: u32) -> History {
        let mut numbers = std::collections::HashMap::new();
        let mut open: Vec<OpenRun> = Vec::new();
        let mut pages: Vec<Vec<PageRun>> = Vec::new();
        for (time, &(node, page, write)) in references.iter().enumerate() {
            let (node, time) = (Node(node), Time(time as u64));
            let number = *numbers.entry(page).or_insert(open.len());
            if number == open.len() {
                open.push(OpenRun::begin(node, time, write));
                pages.push(Vec::new());
            } else if let Some(run) = open[number].reference(node, time, write, read_gap) {
                pages[number].push(run);
            }
        }
        for (runs, last) in pages.iter_mut().zip(&open) {
            runs.push(last.run());
        }
        History { pages }
    }

    /// Number of pages.
    pub fn pages(&self) -> u32 {
        self.pages.len() as u32
    }

    /// The runs of a page, in Time order.
    pub fn runs(&self, page: Page) -> impl Iterator<Item = PageRun> + '_ {
        self.pages[page.index()].iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_split_at_nodes_and_read_gaps() {
        let (r, w) = (false, true);
        let refs = [(0, 9, r), (0, 9, w), (0, 9, r), (0, 9, w), (0, 9, r), (1, 9, r), (1, 5, w), (0, 9, w)];
        let history = History::from_references(&refs, 2);
        assert_eq!(history.pages(), 2);
        let runs: Vec<_> = history.runs(Page(0)).collect();
        let counts: Vec<_> = runs
            .iter()
            .map(|r| (r.node.0, r.reads_before, r.writes, r.reads_between, r.reads_after))
            .collect();
        assert_eq!(counts, [(0, 1, 2, 1, 1), (1, 1, 0, 0, 0), (0, 0, 1, 0, 0)]);
        assert_eq!((runs[0].first, runs[0].last), (Time(0), Time(4)));
        let split = History::from_references(&refs, 0);
        assert_eq!(split.runs(Page(0)).count(), 4);
    }
}
