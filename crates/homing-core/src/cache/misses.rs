//! The stage before the page histories: references go in, what reached the pages' homes comes out (line fetches and
//! upgrades), so that the optimum and all policies see misses.
//!
//! A write that hits in a cache is not seen behind it. So pages have one copy there: whether a replica is stale cannot
//! be told from misses, and a bound with replicas would be none.

use super::cpus::{CpusInUse, Whereabouts};
use super::parts::{self, Parts};
use super::{Addresses, Counts, Hierarchy, HierarchyShape, Sink, Transaction};
use crate::cache::hierarchy::HierarchyError;
use crate::history::{References, SpillError};
use crate::ids::{Node, Time};
use crate::trace::{Kind, Turn};

/// A hierarchy that filters references, by one worker or by several with the same result.
#[derive(Debug)]
enum Caches {
    One(Hierarchy),
    Several(Parts),
}

/// Caches that filter references.
#[derive(Debug)]
pub struct Misses {
    caches: Caches,
    cpus: CpusInUse,
    whereabouts: Whereabouts,
}

/// Sends on what references send to their pages' homes.
struct Sent<'a, R> {
    to: &'a mut R,
    cpu: u16,
    node: Node,
    first: Time,
    addresses: &'a [u64],
    /// The reference that is being served, and what it has sent.
    at: usize,
    any: bool,
    write: bool,
    failed: Result<(), SpillError>,
}

impl<R: References> Sink for Sent<'_, R> {
    const WRITE_BACKS: bool = false;

    #[inline]
    fn begin(&mut self, index: usize) {
        (self.at, self.any, self.write) = (index, false, false);
    }

    #[inline]
    fn transaction(&mut self, transaction: &Transaction) {
        self.any = true;
        self.write |= transaction.kind.is_write();
    }

    #[inline]
    fn more(&mut self) -> bool {
        if self.any {
            let (time, addresses) = (Time(self.first.0 + self.at as u64), &self.addresses[self.at..=self.at]);
            let kinds = [Kind::new(1, self.write, false)];
            self.failed = self.to.references(self.cpu, self.node, time, addresses, &kinds);
        }
        self.failed.is_ok()
    }
}

impl Misses {
    /// Empty caches, served by at most `workers` workers.
    pub fn new(
        shape: &HierarchyShape,
        cpus: CpusInUse,
        addresses: Addresses,
        workers: usize,
    ) -> Result<Misses, HierarchyError> {
        let hierarchy = Hierarchy::new(shape, cpus.cpus(), addresses)?;
        let caches = match parts::parts(shape, workers) {
            1 => Caches::One(hierarchy),
            parts => Caches::Several(Parts::of(hierarchy, parts)),
        };
        Ok(Misses { caches, whereabouts: Whereabouts::default(), cpus })
    }

    /// Sends some references through the caches of the CPU that their thread runs on at their Time, and those that
    /// reach their page's home on, now or later. A reference that crosses a line and misses both counts
    /// there once.
    pub fn turn(&mut self, turn: Turn<'_>, to: &mut impl References) -> Result<(), SpillError> {
        let mut done = 0;
        while done < turn.addresses.len() {
            let first = Time(turn.first.0 + done as u64);
            let place = self.whereabouts.of(&self.cpus, turn.thread, first);
            let part =
                done..turn.addresses.len().min(done.saturating_add((place.until.0 - first.0) as usize));
            let (addresses, kinds) = (&turn.addresses[part.clone()], &turn.kinds[part.clone()]);
            match &mut self.caches {
                Caches::One(hierarchy) => {
                    let node = self.cpus.node(place.cpu);
                    let mut sent = Sent {
                        to,
                        cpu: place.cpu,
                        node,
                        first,
                        addresses,
                        at: 0,
                        any: false,
                        write: false,
                        failed: Ok(()),
                    };
                    hierarchy.serve(place.cpu, addresses, kinds, &mut sent);
                    sent.failed?;
                }
                Caches::Several(parts) => {
                    if parts.take(place.cpu, first, addresses, kinds) {
                        parts.hand_over(sending(&self.cpus, to))?;
                    }
                }
            }
            done = part.end;
        }
        Ok(())
    }

    /// Sends on what is left. Returns what the caches of each CPU counted, in the order of the CPUs in use.
    pub fn finish(mut self, to: &mut impl References) -> Result<Vec<Counts>, SpillError> {
        match &mut self.caches {
            Caches::One(hierarchy) => Ok(hierarchy.counts().copied().collect()),
            Caches::Several(parts) => parts.finish(sending(&self.cpus, to)),
        }
    }
}

/// Sends on a reference that went to its page's home.
fn sending<'a, R: References>(
    cpus: &'a CpusInUse,
    to: &'a mut R,
) -> impl FnMut(u16, Time, &[u64], bool) -> Result<(), SpillError> + 'a {
    |cpu, time, address, write| {
        to.references(cpu, cpus.node(cpu), time, address, &[Kind::new(1, write, false)])
    }
}
