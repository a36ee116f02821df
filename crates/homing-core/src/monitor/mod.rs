//! Monitors: what turns the events of a memory system into profiles that a policy can act on. One trait; one file for
//! each kind of hardware; the table in [`table`].
//!
//! A monitor sees what its hardware would see (transactions on the interconnect, a CPU's misses, the contents of its
//! TLB) and reports samples with the number of references that each stands for. It knows nothing of policies. To add
//! one: write a file beside [`interconnect`], headed by its source, and add a line to the table.

pub mod access_bits;
pub mod card;
pub mod distance;
pub mod hints;
pub mod interconnect;
pub mod kernel;
pub mod mapping;
pub mod misses;
pub mod origin;
pub mod perfect;
pub mod precise;
pub mod table;
#[cfg(test)]
mod tests;
pub mod tlb;

use crate::cache::{Hierarchy, Kind};
use crate::ids::{Node, Time};

/// A transaction on the interconnect, with what a monitor there could know.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// The CPU whose caches ask.
    pub cpu: u16,
    /// Its node.
    pub node: Node,
    /// Where the page is at home.
    pub home: Node,
    /// The page.
    pub page: u32,
    /// Virtual address.
    pub address: u64,
    /// What it is.
    pub kind: Kind,
    /// Uncontended latency in units of a local access.
    pub latency: f64,
    /// When.
    pub time: Time,
}

/// A translation that no TLB of the CPU held.
#[derive(Clone, Copy, Debug)]
pub struct Missed {
    /// The CPU.
    pub cpu: u16,
    /// Its node.
    pub node: Node,
    /// The page.
    pub page: u32,
    /// When.
    pub time: Time,
}

/// References to a page that a monitor reports.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observed {
    /// The CPU that made them, where the hardware tells CPUs apart.
    pub cpu: Option<u16>,
    /// Its node.
    pub node: Node,
    /// The page.
    pub page: u32,
    /// Reads seen.
    pub reads: u64,
    /// Writes seen.
    pub writes: u64,
    /// What each one seen stands for.
    pub weight: f64,
}

/// What a monitor reports to.
#[derive(Clone, Debug, Default)]
pub struct Reports {
    /// Not yet taken by the policy.
    pub samples: Vec<Observed>,
    /// Samples that the hardware had no room or the software no time for.
    pub lost: u64,
    /// Interrupts and faults that the monitor caused.
    pub interrupts: u64,
}

impl Reports {
    /// One reference.
    pub fn one(&mut self, cpu: u16, node: Node, page: u32, write: bool, weight: f64) {
        let (reads, writes) = (u64::from(!write), u64::from(write));
        self.samples.push(Observed { cpu: Some(cpu), node, page, reads, writes, weight });
    }
}

/// What a monitor may look at when it is polled: the state of the hardware, by software.
pub struct Poll<'a> {
    /// Caches and TLBs.
    pub hierarchy: &'a mut Hierarchy,
    /// The node of each CPU in use.
    pub nodes: &'a [Node],
    /// Home of each page; [`NO_HOME`] before its first transaction.
    pub homes: &'a [Node],
    /// When.
    pub time: Time,
    /// The CPU whose turn it is, if each has its own ([`Monitor::poll_each`]).
    pub cpu: Option<u16>,
}

/// A page that nothing has referred to yet.
pub const NO_HOME: Node = Node(u16::MAX);

/// A source of profiles. All methods default to nothing.
pub trait Monitor: Send {
    /// A transaction passed by.
    fn transaction(&mut self, _seen: &Seen, _reports: &mut Reports) {}

    /// A CPU missed its TLBs.
    fn tlb_miss(&mut self, _miss: &Missed, _reports: &mut Reports) {}

    /// How many references lie between two polls; none if the monitor is polled at the ends of intervals only.
    fn poll_every(&self) -> Option<u64> {
        None
    }

    /// How many references of a CPU's own lie between two polls of it.
    fn poll_each(&self) -> Option<u64> {
        None
    }

    /// The software looks at the hardware.
    fn poll(&mut self, _poll: &mut Poll, _reports: &mut Reports) {}

    /// An interval is over; the profiles that are reported now are of it.
    fn interval_end(&mut self, _poll: &mut Poll, _reports: &mut Reports) {}
}

/// Sees nothing.
impl Monitor for () {}

impl Monitor for Box<dyn Monitor> {
    fn transaction(&mut self, seen: &Seen, reports: &mut Reports) {
        (**self).transaction(seen, reports);
    }

    fn tlb_miss(&mut self, miss: &Missed, reports: &mut Reports) {
        (**self).tlb_miss(miss, reports);
    }

    fn poll_every(&self) -> Option<u64> {
        (**self).poll_every()
    }

    fn poll_each(&self) -> Option<u64> {
        (**self).poll_each()
    }

    fn poll(&mut self, poll: &mut Poll, reports: &mut Reports) {
        (**self).poll(poll, reports);
    }

    fn interval_end(&mut self, poll: &mut Poll, reports: &mut Reports) {
        (**self).interval_end(poll, reports);
    }
}
