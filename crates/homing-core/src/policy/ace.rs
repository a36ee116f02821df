//! ACE: Bolosky & Scott 1991, section 4.4.1 (the policy of the ACE's Mach kernel, Bolosky, Fitzgerald & Scott 1989).
//!
//! "Pages begin in global memory. When possible, they are replicated to each processor reading them. If a page is
//! written by a processor that has no local copy, or if multiple copies exist, then a local copy is made and all others
//! are invalidated. After a small, fixed number of invalidations, the page is permanently frozen in global memory. We
//! permit four invalidations per page."
//!
//! Left open by the paper, chosen here:
//! * An invalidation is counted when a processor memory loses its copy, not when only global memory does: otherwise the
//!   first write to a private page would count. The write that would need one more than permitted freezes the page.
//! * Without global memory a page begins at its first touch and is frozen in place; its replicas are dropped.
//! * Without replication a read from a node without a copy moves the page and counts like a write.

use super::pages::Pages;
use super::{Fault, Next, Policy};
use crate::action::{Actions, Kind};
use crate::ids::{Node, Page};
use serde::{Deserialize, Serialize};

/// What to do about a fault, as ACE, PLATINUM and Delay do it: replicate for reads, move for writes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Protocol {
    /// The node of global memory.
    pub(super) global: Option<Node>,
    /// Whether reads replicate.
    pub(super) replicates: bool,
}

impl Protocol {
    /// True if serving this fault with a local copy takes a copy away from a processor memory.
    pub(super) fn invalidates(&self, fault: &Fault) -> bool {
        let loses = |node: Node| node != fault.node && Some(node) != self.global;
        self.takes_copies(fault) && fault.at.all().iter().any(loses)
    }

    fn takes_copies(&self, fault: &Fault) -> bool {
        fault.write || !self.replicates
    }

    /// Gives the node a local copy: the only one for a write, one more for a read.
    pub(super) fn serve_locally(&self, fault: &Fault, actions: &mut Actions) {
        let (page, to) = (fault.page, fault.node);
        match (self.takes_copies(fault), fault.at.holds(to)) {
            (false, true) => {}
            (false, false) => actions.push(page, Kind::Replicate { to }, "read from a node without a copy"),
            (true, true) => {
                actions.push(page, Kind::Collapse { keep: to }, "write while several copies exist")
            }
            (true, false) if fault.write => {
                actions.push(page, Kind::Move { to }, "write from a node without a copy")
            }
            (true, false) => actions.push(page, Kind::Move { to }, "read from a node without the page"),
        }
    }

    /// Leaves the page in global memory, or where it is.
    pub(super) fn freeze(&self, page: Page, home: Node, reason: &'static str, actions: &mut Actions) {
        match self.global {
            Some(to) => actions.push(page, Kind::Move { to }, reason),
            None => actions.push(page, Kind::Collapse { keep: home }, reason),
        }
        actions.push(page, Kind::Freeze, reason);
    }
}

/// Invalidations of one page so far, and whether it is frozen.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Quota {
    pub(super) invalidations: u64,
    pub(super) frozen: bool,
}

/// The policy.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ace {
    protocol: Protocol,
    limit: u64,
    pages: Pages<Quota>,
}

impl Ace {
    /// With this many invalidations permitted a page.
    pub fn new(global: Option<Node>, replicates: bool, limit: u64) -> Ace {
        Ace { protocol: Protocol { global, replicates }, limit, pages: Pages::default() }
    }

    pub(super) fn protocol(&self) -> &Protocol {
        &self.protocol
    }

    pub(super) fn quota(&mut self, page: Page) -> &mut Quota {
        self.pages.entry(page, Quota::default)
    }

    /// True if no invalidation more is permitted.
    pub(super) fn is_spent(&mut self, page: Page) -> bool {
        let limit = self.limit;
        self.quota(page).invalidations >= limit
    }

    /// Decides now, and says whether the page stays mapped remotely for good.
    pub(super) fn decide(&mut self, fault: &Fault, actions: &mut Actions) -> Next {
        let protocol = self.protocol;
        let invalidates = protocol.invalidates(fault);
        if self.quota(fault.page).frozen {
            return Next::Never;
        }
        if invalidates && self.is_spent(fault.page) {
            self.quota(fault.page).frozen = true;
            protocol.freeze(fault.page, fault.at.home(), "invalidated too often", actions);
            return Next::Never;
        }
        self.quota(fault.page).invalidations += u64::from(invalidates);
        protocol.serve_locally(fault, actions);
        Next::Never
    }
}

impl Policy for Ace {
    fn fault(&mut self, fault: &Fault, actions: &mut Actions) -> Next {
        self.decide(fault, actions)
    }

    fn page_gone(&mut self, page: Page) {
        self.pages.remove(page);
    }
}
