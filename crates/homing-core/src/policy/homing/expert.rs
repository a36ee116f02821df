//! The experts: never to move, the work function algorithm, and the rule that goes by how long the present visit will
//! last ([`super::visits`]) and, where nothing is foreseen, by the work function too.

use crate::ids::Node;
use serde::{Deserialize, Serialize};

/// What a page move costs, in page moves: for the rules, and for what tells visits apart.
pub(super) const SCALES: [f64; 2] = [1.0, 1.0 / 64.0];

/// The scale that tells visits apart.
pub(super) const VISITS: usize = 1;

/// How many experts there are.
pub(super) const EXPERTS: usize = 3;

/// The expert that never moves.
pub(super) const NEVER: usize = 0;

/// The expert that goes by the present visit.
pub(super) const FORESEES: usize = 2;

/// What one expert would have done with a page. Where its copies are stands in the page's seats.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Expert {
    /// The copy that serves the others.
    pub(super) home: Node,
    /// Copies besides.
    pub(super) replicas: u8,
    /// What it would have paid beyond local references.
    pub(super) paid: f64,
}

/// A copy that a rule wants.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Wish {
    /// Beside the others.
    Replica(Node),
    /// Instead of them.
    Home(Node),
}

impl Wish {
    /// A copy at `to`: a replica if it is the reader's, `by`, and may stand beside others.
    pub(super) fn new(to: Node, by: Node, beside: bool) -> Wish {
        if beside && to == by {
            Wish::Replica(by)
        } else {
            Wish::Home(to)
        }
    }
}
