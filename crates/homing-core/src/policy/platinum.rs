//! PLATINUM: Cox & Fowler 1989, as Bolosky & Scott 1991, section 4.4.1, simulate it.
//!
//! It "replicates and moves pages as the ACE algorithm does" and "freezes a page at its current location when it has
//! been invalidated by one processor and then referenced by another within a certain amount of time t1. Once every t2
//! units of time, a daemon defrosts all previously frozen pages." On the Butterfly t1 = 10 ms and t2 = 1 s; in
//! simulation both are counts of references at the program's mean reference rate. On a machine with global memory
//! frozen pages are held there, as in the paper.
//!
//! Left open by the paper, chosen here:
//! * Traces carry no wall-clock time, so the rate is a parameter. Its default is 7 million references a second: seven
//!   processors at one million data references each, about what the 16 MHz machines of the study did.
//! * The daemon runs at multiples of t2, for all pages at once; a page is looked at again at its next reference after.
//! * Pages begin at their first touch.

use super::ace::Protocol;
use super::pages::Pages;
use super::{Fault, Next, Policy};
use crate::action::{Actions, Kind};
use crate::ids::{Node, Page, Time};
use serde::{Deserialize, Serialize};

/// What is known of one page.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct State {
    /// The last invalidation: when, and which node caused it.
    invalidated: Option<(Time, Node)>,
    /// When the daemon will defrost the page.
    frozen_until: Option<Time>,
}

/// The policy.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Platinum {
    protocol: Protocol,
    t1: u64,
    t2: u64,
    pages: Pages<State>,
}

impl Platinum {
    /// With t1 and t2 in references.
    pub fn new(global: Option<Node>, replicates: bool, t1: u64, t2: u64) -> Platinum {
        Platinum { protocol: Protocol { global, replicates }, t1, t2: t2.max(1), pages: Pages::default() }
    }
}

impl Policy for Platinum {
    fn fault(&mut self, fault: &Fault, actions: &mut Actions) -> Next {
        let (t1, t2, protocol) = (self.t1, self.t2, self.protocol);
        let state = self.pages.entry(fault.page, State::default);
        if let Some(until) = state.frozen_until {
            if fault.time < until {
                return Next::At(until);
            }
            *state = State::default();
            actions.push(fault.page, Kind::Defrost, "the daemon's period is over");
        }
        let recent = |&(then, by): &(Time, Node)| by != fault.node && fault.time.0 - then.0 < t1;
        if state.invalidated.as_ref().is_some_and(recent) && !fault.at.holds(fault.node) {
            let until = Time((fault.time.0 / t2 + 1) * t2);
            state.frozen_until = Some(until);
            protocol.freeze(fault.page, fault.at.home(), "referenced soon after an invalidation", actions);
            return Next::At(until);
        }
        if protocol.invalidates(fault) {
            state.invalidated = Some((fault.time, fault.node));
        }
        protocol.serve_locally(fault, actions);
        Next::Never
    }

    fn page_gone(&mut self, page: Page) {
        self.pages.remove(page);
    }
}
