//! Sharing classes: how the nodes share a page over the whole trace.
//!
//! The terms are those of Weber & Gupta 1989 (cache invalidation patterns) and Bennett, Carter & Zwaenepoel 1990
//! (Munin); the definitions, by page runs, are ours and in docs/policies.md. The first that fits counts.

use crate::history::{History, SpillError};
use crate::ids::{Node, Page};
use rayon::prelude::*;

/// A sharing class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SharingClass {
    /// One node makes all references but at most one in a thousand.
    Private,
    /// Several nodes; after the first node's initial writes nobody writes, or at most one reference in a thousand.
    ReadShared,
    /// Several nodes write, one after the other: at least nine tenths of the references that come in runs of at least
    /// two are in runs with both reads and writes, and runs average at least eight references.
    Migratory,
    /// One node makes all writes but at most one in a hundred, others read.
    ProducerConsumer,
    /// Everything else: several nodes write, mixed finely or with reads of others.
    WriteShared,
}

impl SharingClass {
    /// All classes, in the order of reports.
    pub const ALL: [SharingClass; 5] = [
        SharingClass::Private,
        SharingClass::ReadShared,
        SharingClass::Migratory,
        SharingClass::ProducerConsumer,
        SharingClass::WriteShared,
    ];

    /// Name in reports.
    pub fn name(self) -> &'static str {
        match self {
            SharingClass::Private => "private",
            SharingClass::ReadShared => "read-shared",
            SharingClass::Migratory => "migratory",
            SharingClass::ProducerConsumer => "producer-consumer",
            SharingClass::WriteShared => "write-shared",
        }
    }
}

/// What one page's runs say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageUse {
    /// Its class.
    pub class: SharingClass,
    /// References.
    pub references: u64,
    /// Writes among them.
    pub writes: u64,
    /// The node that refers to it most; the lower number of equals.
    pub most_frequent: Node,
}

/// References a run must have on average in a migratory page.
const MIGRATORY_RUN: u64 = 8;

/// Classifies every page.
pub fn classify(history: &History) -> Result<Vec<PageUse>, SpillError> {
    (0..history.pages()).into_par_iter().map(|page| classify_page(history, Page(page))).collect()
}

fn classify_page(history: &History, page: Page) -> Result<PageUse, SpillError> {
    let mut tally = Tally::default();
    for run in history.runs(page)? {
        tally.add(run.node, run.reads(), u64::from(run.writes));
    }
    Ok(tally.finish())
}

/// Runs of a page, counted one by one.
#[derive(Default)]
pub struct Tally {
    /// References and writes by node.
    nodes: Vec<(u64, u64)>,
    last: Option<Node>,
    visits: u64,
    /// References and writes of the visit in progress.
    visit: (u64, u64),
    /// References in visits that both read and write.
    updating: u64,
    /// Writes of the first visit.
    initial_writes: u64,
}

impl Tally {
    /// Adds a run.
    pub fn add(&mut self, node: Node, reads: u64, writes: u64) {
        if self.last != Some(node) {
            self.end_visit();
            self.last = Some(node);
            self.visits += 1;
        }
        if node.index() >= self.nodes.len() {
            self.nodes.resize(node.index() + 1, (0, 0));
        }
        let (references_of, writes_of) = &mut self.nodes[node.index()];
        *references_of += reads + writes;
        *writes_of += writes;
        self.visit.0 += reads + writes;
        self.visit.1 += writes;
    }

    fn end_visit(&mut self) {
        let (references, writes) = std::mem::take(&mut self.visit);
        if writes > 0 && references > writes {
            self.updating += references;
        }
        if self.visits == 1 {
            self.initial_writes = writes;
        }
    }

    /// What the runs say.
    pub fn finish(mut self) -> PageUse {
        self.end_visit();
        let references: u64 = self.nodes.iter().map(|node| node.0).sum();
        let writes: u64 = self.nodes.iter().map(|node| node.1).sum();
        let most = self.nodes.iter().map(|node| node.0).max().unwrap_or(0);
        let most_frequent = self.nodes.iter().position(|node| node.0 == most).unwrap_or(0);
        PageUse {
            class: self.class(references, writes, most),
            references,
            writes,
            most_frequent: Node(most_frequent as u16),
        }
    }

    fn class(&self, references: u64, writes: u64, most: u64) -> SharingClass {
        let most_writes = self.nodes.iter().map(|node| node.1).max().unwrap_or(0);
        if (references - most) * 1000 <= references {
            SharingClass::Private
        } else if (writes - self.initial_writes) * 1000 <= references {
            SharingClass::ReadShared
        } else if (writes - most_writes) * 100 <= writes {
            SharingClass::ProducerConsumer
        } else if self.updating * 10 >= references * 9 && references >= self.visits * MIGRATORY_RUN {
            SharingClass::Migratory
        } else {
            SharingClass::WriteShared
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(references: &[(u16, bool, usize)]) -> SharingClass {
        let expand =
            |&(node, write, count): &(u16, bool, usize)| std::iter::repeat_n((node, 0, write), count);
        let references: Vec<_> = references.iter().flat_map(expand).collect();
        classify(&History::from_references(&references, 0)).unwrap()[0].class
    }

    #[test]
    fn classes_of_clear_cases() {
        let (r, w) = (false, true);
        assert_eq!(class(&[(0, w, 500), (0, r, 600), (1, r, 1)]), SharingClass::Private);
        assert_eq!(class(&[(0, w, 100), (1, r, 50), (2, r, 50), (0, r, 50)]), SharingClass::ReadShared);
        let visit = |node| [(node, r, 10), (node, w, 10)];
        let visits: Vec<_> = [0, 1, 2, 0, 1, 2].iter().flat_map(|&node| visit(node)).collect();
        assert_eq!(class(&visits), SharingClass::Migratory);
        assert_eq!(class(&[(0, w, 9), (1, r, 9), (0, w, 9), (1, r, 9)]), SharingClass::ProducerConsumer);
        let mixed: Vec<_> = (0..40).map(|i| (i % 2, i % 3 == 0, 1)).collect();
        assert_eq!(class(&mixed), SharingClass::WriteShared);
    }
}
