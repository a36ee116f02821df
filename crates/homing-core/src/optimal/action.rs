//! The placement itself: where each page starts and what is done to it when.

use crate::ids::{Node, Page, Time};

/// What is done to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The page has a copy at `to` from the start; `from` is the same node. Several of them: it starts replicated.
    Place,
    /// The page is copied to `to` and all other copies are dropped.
    Move,
    /// The page is copied to `to`; the others stay.
    Replicate,
    /// All copies but the one at `to` are dropped.
    Collapse,
}

impl Kind {
    /// The word for it in files.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Place => "place",
            Kind::Move => "move",
            Kind::Replicate => "replicate",
            Kind::Collapse => "collapse",
        }
    }
}

/// One step of a placement. It takes effect right before the page's reference number `reference`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageAction {
    /// The page.
    pub page: Page,
    /// Index among the references to this page alone, from 0: exact.
    pub reference: u64,
    /// Time of the first reference of the page run in which it happens. It is that of `reference` unless the action
    /// falls within a run: page runs do not keep the Times of their inner references.
    pub time: Time,
    /// What is done.
    pub kind: Kind,
    /// The copy that is the source.
    pub from: Node,
    /// The node that gets or keeps the page.
    pub to: Node,
}

/// Takes the actions of a placement, for each page in order of `reference`.
pub trait Sink {
    /// Takes one action.
    fn action(&mut self, action: &PageAction);
}

/// For those who want only the cost.
impl Sink for () {
    #[inline]
    fn action(&mut self, _: &PageAction) {}
}

impl Sink for Vec<PageAction> {
    fn action(&mut self, action: &PageAction) {
        self.push(*action);
    }
}
