//! The experts: work function algorithms that differ in what they take a page move to cost.
//!
//! The work function algorithm waits until what the others lost here is worth a move forth and, if the page was long
//! where it is, one back. One that takes a move to cost a fraction of its price follows a visit after that fraction of
//! the wait, and still stays where it is as long as visits shorter than that alternate. The last one weighs what it
//! foresees instead of what was ([`super::replay`]).

use crate::ids::Node;
use serde::{Deserialize, Serialize};

/// What a page move costs for the experts that weigh it, in page moves.
pub(super) const SCALES: [f64; 4] = [1.0, 0.35, 0.12, 0.04];

/// How many experts there are.
pub(super) const EXPERTS: usize = SCALES.len() + 3;

/// The expert that never moves.
pub(super) const NEVER: usize = 0;

/// The expert that moves at once.
const AT_ONCE: usize = SCALES.len() + 1;

/// The expert that leads before anything is known: the work function algorithm itself.
pub(super) const FIRST_LEADER: usize = 1;

/// The scale for what is not foreseen.
pub(super) const UNFORESEEN: usize = 1;

/// What an expert does when a node without a copy refers to the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// Nothing, ever.
    Never,
    /// What the work function algorithm does where a move costs `SCALES[_]`.
    Weighs(usize),
    /// Goes there.
    AtOnce,
    /// What was best the last time; where nothing is foreseen, as one that weighs.
    Replays,
}

/// The rule of an expert.
#[inline]
pub(super) fn rule(expert: usize) -> Rule {
    match expert {
        NEVER => Rule::Never,
        _ if expert <= SCALES.len() => Rule::Weighs(expert - 1),
        AT_ONCE => Rule::AtOnce,
        _ => Rule::Replays,
    }
}

/// The scale of the rule that an expert follows by what it knows of the past.
#[inline]
pub(super) fn scale(rule: Rule) -> Option<usize> {
    match rule {
        Rule::Weighs(scale) => Some(scale),
        Rule::Replays => Some(UNFORESEEN),
        Rule::Never | Rule::AtOnce => None,
    }
}

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
