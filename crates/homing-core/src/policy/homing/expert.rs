//! The experts: rules that differ in how much a node must have lost before it gets a copy.

use super::super::work_function::Rule;
use crate::ids::Node;
use serde::{Deserialize, Serialize};

/// Their number.
pub(super) const EXPERTS: usize = 6;

/// The ladder of eagernesses, in page copies. Infinity stands for never.
const LADDER: [f64; EXPERTS] = [f64::NEG_INFINITY, -1.0, -0.5, 0.0, 0.5, 1.0];

/// The expert that leads before anything is known: the work function algorithm.
pub(super) const FIRST_LEADER: usize = 1;

/// What one expert would have done with a page. Where its copies are stands in the page's seats.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Expert {
    /// The copy that serves the others and stays at a write.
    pub(super) home: Node,
    /// Copies besides.
    pub(super) replicas: u8,
    /// What it would have paid beyond local references.
    pub(super) paid: f64,
}

/// The rule of an expert; `None` never copies.
#[inline]
pub(super) fn rule(expert: usize) -> Option<Rule> {
    LADDER[expert].is_finite().then_some(Rule { eagerness: LADDER[expert] })
}
