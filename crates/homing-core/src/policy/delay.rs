//! Delay: Bolosky & Scott 1991, section 4.4.1. ACE with a counter in each TLB entry: "When first accessed from a new
//! location, a page would be mapped remotely, and its counter initialized to c. A page placement decision would be made
//! only in the case of a subsequent zero-counter fault." c = 100.
//!
//! Left open by the paper, chosen here:
//! * The counter lives as long as the mapping: until the page's locations change. Visits of other nodes in between do
//!   not reset it.
//! * A node that writes while several copies exist and holds one is decided about at once, as under ACE; if it holds
//!   none, the replicas are dropped (which counts as an invalidation) and its counter begins anew. The page is frozen
//!   where ACE would freeze it: at the invalidation that would be one more than permitted.

use super::ace::Ace;
use super::{Cause, Fault, Next, Policy};
use crate::action::{Actions, Kind};
use crate::ids::{Node, Page};
use serde::{Deserialize, Serialize};

/// The policy.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Delay {
    ace: Ace,
    count: u64,
}

impl Delay {
    /// With counters that begin at `count`, and this many invalidations permitted a page.
    pub fn new(global: Option<Node>, replicates: bool, limit: u64, count: u64) -> Delay {
        Delay { ace: Ace::new(global, replicates, limit), count }
    }
}

impl Policy for Delay {
    fn fault(&mut self, fault: &Fault, actions: &mut Actions) -> Next {
        let frozen = self.ace.quota(fault.page).frozen;
        let drops = fault.write && fault.at.copies() > 1;
        let spent = drops && self.ace.is_spent(fault.page);
        if fault.cause == Cause::Due || fault.at.holds(fault.node) || frozen || spent {
            return self.ace.decide(fault, actions);
        }
        if drops {
            let keep = self.ace.protocol().global.filter(|&global| fault.at.holds(global));
            let keep = keep.unwrap_or(fault.at.home());
            self.ace.quota(fault.page).invalidations += 1;
            actions.push(fault.page, Kind::Collapse { keep }, "write while several copies exist");
        }
        Next::After(self.count)
    }

    fn page_gone(&mut self, page: Page) {
        self.ace.page_gone(page);
    }
}
