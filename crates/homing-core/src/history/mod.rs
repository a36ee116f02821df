//! Page histories: for each page, in Time order, its page runs. Everything about placement needs only these, not the
//! references (design: "Page histories").
//!
//! [`run`] holds one page run, [`binding`] says which node a thread runs on, [`busy`] which threads work at the same
//! time, [`schedule`] how their nodes change, [`placed`] which pages the kernel places for them. [`build`] turns
//! references into runs, [`store`] keeps the packed runs of all pages in memory up to a budget and beyond it in a spill
//! file.

pub mod binding;
pub mod build;
pub mod busy;
pub mod placed;
pub mod ranges;
pub mod run;
pub mod schedule;
pub mod store;

pub use binding::{Binding, ThreadsOn};
pub use build::{HistoryBuilder, Options, References};
pub use busy::Busy;
pub use placed::Placed;
pub use run::PageRun;
pub use schedule::{Schedule, ScheduleError};
pub use store::{Runs, Spill};

use crate::ids::{Node, Page, PageSize, Time};
use std::collections::HashMap;
use store::Store;

/// The page runs of all pages of a trace, for one binding of threads to nodes and one page size.
#[derive(Debug)]
pub struct History {
    page_size: PageSize,
    /// Virtual address of each page's first byte.
    addresses: Vec<u64>,
    store: Store,
    /// The nodes of the pages that the kernel placed before their first references.
    makers: HashMap<u32, Node>,
    references: u64,
    reads: u64,
    duration: Time,
}

/// A history whose spilled part could not be written or read back.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} the spill file of the page histories")]
pub struct SpillError {
    /// `write` or `read back`.
    pub action: &'static str,
    /// What the file said.
    pub source: std::io::Error,
}

impl History {
    /// Builds a history from references given as (node, page number, is a write), in Time order; for tests and small
    /// inputs. Pages are renumbered densely in order of first reference. `read_gap` as in [`PageRun`].
    pub fn from_references(references: &[(u16, u64, bool)], read_gap: u32) -> History {
        let mut numbers = std::collections::HashMap::new();
        let mut addresses = Vec::new();
        let mut builder = HistoryBuilder::new(Options { read_gap, ..Options::default() });
        for (time, &(node, page, write)) in references.iter().enumerate() {
            let next = numbers.len() as u64;
            let frame = *numbers.entry(page).or_insert(next);
            if frame == next {
                addresses.push(page << 12);
            }
            builder.reference(crate::ids::Node(node), Time(time as u64), frame << 12, write);
        }
        builder.finish(&addresses).expect("nothing is spilled under the default budget")
    }

    /// Number of pages.
    pub fn pages(&self) -> u32 {
        self.addresses.len() as u32
    }

    /// The page size.
    pub fn page_size(&self) -> PageSize {
        self.page_size
    }

    /// Virtual address of the first byte of `page`.
    pub fn address(&self, page: Page) -> u64 {
        self.addresses[page.index()]
    }

    /// Number of references in all runs.
    pub fn references(&self) -> u64 {
        self.references
    }

    /// Number of reads in all runs.
    pub fn reads(&self) -> u64 {
        self.reads
    }

    /// One more than the Time of the last reference.
    pub fn duration(&self) -> Time {
        self.duration
    }

    /// Number of page runs.
    pub fn run_count(&self) -> u64 {
        self.store.runs()
    }

    /// Bytes of packed runs (in memory, in the spill file).
    pub fn bytes(&self) -> (u64, u64) {
        self.store.bytes()
    }

    /// The node that first touch puts a page on: that of its first reference, unless the kernel placed the page for a
    /// thread before. None without references.
    ///
    /// # Errors
    /// If the history cannot be read back.
    pub fn first_touch(&self, page: Page) -> Result<Option<Node>, SpillError> {
        match self.maker(page) {
            Some(node) => Ok(Some(node)),
            None => Ok(self.runs(page)?.next().map(|run| run.node)),
        }
    }

    /// The node of the thread that the kernel placed a page for before its first reference; none if it did not.
    pub fn maker(&self, page: Page) -> Option<Node> {
        self.makers.get(&page.0).copied()
    }

    /// The runs of a page, in Time order.
    pub fn runs(&self, page: Page) -> Result<Runs<'_>, SpillError> {
        self.store.page(page)
    }
}

#[cfg(test)]
mod tests;
