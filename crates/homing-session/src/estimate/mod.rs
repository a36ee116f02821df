//! From hint faults to what a policy is told: one model of a hint fault, without I/O.
//!
//! A scan takes the mappings of pages away; the next access to such a page is a *hint fault*
//! ([`homing_core::monitor::mapping`]). It says who came first after the scan, not who came later, nor how often. So a
//! fault is taken as evidence, in three steps:
//!
//! 1. **How often** ([`bursts`]): a fault soon after the scan stands for several *bursts* of use until the next scan,
//!    a late one for one. A burst is as much use as makes a move worth it.
//! 2. **By whom** ([`users`]): the bursts belong to all nodes seen at the page lately, older faults counting less. A
//!    page that all nodes use in turn gives no node an advantage by chance.
//! 3. **In what surroundings** ([`neighbours`]): large arrays are swept in long stretches, and all of them late. Where
//!    one node alone was seen in the same 2 MiB, a fault counts as an early one.
//!
//! What was learnt is void when the work is divided anew; [`changes`] notices that, and counts how much of what is
//! seen is new.

pub mod bursts;
pub mod changes;
pub mod neighbours;
pub mod users;

use changes::Changes;
use homing_core::ids::{Micros, Node, Thread};
use homing_core::process::ProcessId;
use neighbours::Neighbours;
use users::Users;

/// A hint fault, and where its page was.
#[derive(Clone, Copy, Debug)]
pub struct HintFault {
    /// The process.
    pub process: ProcessId,
    /// The address of the page.
    pub address: u64,
    /// The node of the CPU that faulted.
    pub node: Node,
    /// The thread, if it is known.
    pub thread: Option<Thread>,
    /// The node where the page is.
    pub at: Node,
    /// Nothing was seen of the page before.
    pub first: bool,
    /// Time since the scan; `None` if the fault came before it, or there are no scans.
    pub after_scan: Option<Micros>,
    /// Time from one scan to the next.
    pub period: Micros,
}

/// What is known beyond single pages, and the answer to the last fault.
#[derive(Debug, Default)]
pub struct Estimator {
    /// What is new, and when what was known is void.
    pub changes: Changes,
    neighbours: Neighbours,
    /// Kept, so that not every fault needs memory.
    shares: Vec<(Node, f64)>,
}

impl Estimator {
    /// Takes a fault. Returns how many bursts it stands for; [`Estimator::shares`] says whose they are.
    pub fn fault(&mut self, users: &mut Users, fault: &HintFault) -> f64 {
        let era = self.changes.era();
        self.shares.clear();
        if fault.first && fault.node == fault.at {
            // Who makes a page, or is first met where it is, need not be its user.
            self.shares.push((fault.node, 1.0));
        } else {
            let new = users.fault(fault.node, fault.thread, era);
            self.changes.sample(new && fault.node != fault.at);
            users.shares(fault.node, &mut self.shares);
        }
        let alone = self.neighbours.fault(fault.process, fault.address, fault.node, era);
        match self.shares.len() {
            // One tells all that there is to tell of a page that nobody else uses.
            1 if fault.node == fault.at => 1.0,
            1 if alone => bursts::MOST,
            _ => bursts::of(fault.after_scan, fault.period),
        }
    }

    /// The users of the page that faulted last, and the share of each in its bursts. Who faulted comes last.
    pub fn shares(&self) -> &[(Node, f64)] {
        &self.shares
    }

    /// Forgets memory that is gone.
    pub fn forget(&mut self, gone: impl Fn(ProcessId, u64) -> bool) {
        self.neighbours.forget(gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(node: u16, at: u16, first: bool, after_ms: u64) -> HintFault {
        HintFault {
            process: ProcessId(1),
            address: 0x1000,
            node: Node(node),
            thread: None,
            at: Node(at),
            first,
            after_scan: Some(Micros::from_millis(after_ms)),
            period: Micros::from_millis(400),
        }
    }

    #[test]
    fn a_fault_soon_after_the_scan_by_the_only_user_counts_most() {
        let (mut estimator, mut users) = (Estimator::default(), Users::default());
        assert_eq!(estimator.fault(&mut users, &fault(0, 0, true, 1)), 1.0);
        assert_eq!(users, Users::default(), "who made a page is not taken for its user");
        assert_eq!(estimator.fault(&mut users, &fault(1, 0, false, 1)), bursts::MOST);
        assert_eq!(estimator.shares(), [(Node(1), 1.0)]);
        assert_eq!(estimator.fault(&mut users, &fault(1, 0, false, 400)), 1.0, "a late fault is one burst");
        assert_eq!(estimator.changes.take(), (2, 1), "two samples, of which the first was new");
    }

    #[test]
    fn late_faults_count_as_early_ones_where_all_around_has_the_same_user() {
        let mut estimator = Estimator::default();
        let mut bursts = |page: u64| {
            let fault = HintFault { address: page << 12, ..fault(1, 0, false, 400) };
            estimator.fault(&mut Users::default(), &fault)
        };
        assert_eq!(bursts(0), 1.0);
        (1..40).for_each(|page| assert!(bursts(page) >= 1.0));
        assert_eq!(bursts(40), bursts::MOST);
        estimator.forget(|process, _| process == ProcessId(1));
        let late = estimator.fault(&mut Users::default(), &fault(1, 0, false, 400));
        assert_eq!(late, 1.0);
    }
}
