//! The memory hierarchy of a machine: what of a program's references reaches memory (design: cost model 2; Tikir &
//! Hollingsworth 2008, section 5.3).
//!
//! Per CPU two levels of cache and one or two levels of data TLB, an optional third level that neighbouring CPUs share,
//! coherence by a directory (MESI), and physical indexing: a page that moves gets another frame, and with it other
//! cache sets. Instructions are left out.
//!
//! [`array`] is set-associative LRU arrays, [`stamped`] those of the first level, [`shape`] how large they are,
//! [`frames`] which frame a page has, [`tlbs`] and [`caches`] what a CPU looks up, the latter with their coherence,
//! [`third`] the level that neighbours share, [`hierarchy`] the walk of a reference through them, [`quick`] the way
//! round it that most references take, [`counts`] what is counted, [`cpus`] which CPUs threads run on. [`misses`] is
//! the stage before the page histories that lets everything downstream see misses instead of references, by several
//! workers with [`parts`].

pub mod array;
mod caches;
pub mod counts;
pub mod cpus;
pub mod frames;
pub mod hierarchy;
mod job;
pub mod misses;
mod parts;
mod quick;
pub mod shape;
mod stamped;
#[cfg(test)]
mod tests;
mod third;
mod tlbs;

pub use counts::Counts;
pub use frames::{Addresses, Colours};
pub use hierarchy::{Hierarchy, Relocation};
pub use shape::{HierarchyShape, Shape};

/// What a transaction on the interconnect is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A line is fetched to be read.
    Read,
    /// A line is fetched to be written.
    ReadOwn,
    /// A line that is shared is to be written: the other copies go.
    Upgrade,
    /// A changed line goes back to memory. Nobody waits for it.
    WriteBack,
}

impl Kind {
    /// All kinds, in the order of their bits in masks.
    pub const ALL: [Kind; 4] = [Kind::Read, Kind::ReadOwn, Kind::Upgrade, Kind::WriteBack];

    /// True if a thread waits for it.
    pub fn is_demand(self) -> bool {
        self != Kind::WriteBack
    }

    /// True if it is for a write.
    pub fn is_write(self) -> bool {
        self != Kind::Read
    }
}

/// Who gives the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// The memory that the page is at home in.
    Memory,
    /// The cache of another CPU, which held the line changed; the home sends the request on.
    Cache,
}

/// A transaction between a CPU's caches and the memory where a page is at home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// The CPU whose caches ask, as the hierarchy numbers them.
    pub cpu: u16,
    /// The page.
    pub page: u32,
    /// Where in the page: the byte of the reference, or the start of the line for a write-back.
    pub offset: u32,
    /// What it is.
    pub kind: Kind,
    /// Who gives the data.
    pub served: Served,
}

/// Takes what a hierarchy does. All methods default to nothing.
pub trait Sink {
    /// Whether it wants to know of write-backs.
    const WRITE_BACKS: bool = true;

    /// What follows belongs to the reference with this index among those that are served.
    #[inline]
    fn begin(&mut self, _index: usize) {}

    /// A translation that no TLB of the CPU held.
    #[inline]
    fn tlb_miss(&mut self, _cpu: u16, _page: u32) {}

    /// Something went to a page's home.
    #[inline]
    fn transaction(&mut self, _transaction: &Transaction) {}

    /// The reference that has begun is served. False to stop after it.
    #[inline]
    fn more(&mut self) -> bool {
        true
    }
}

/// Nobody listens.
impl Sink for () {
    const WRITE_BACKS: bool = false;
}
