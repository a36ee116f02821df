//! Who pays for a placement: references and non-local % by the node that asks.

use crate::history::{History, SpillError};
use crate::ids::{Node, Page};
use crate::simulate::Simulation;
use serde::Serialize;

/// References by the CPUs of one node.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Requester {
    /// The node that asks.
    pub node: Node,
    /// Its references.
    pub references: u64,
    /// Those to pages of another node, of 100.
    pub nonlocal_percent: f64,
}

/// By node that asks; `None` if pages moved or had replicas, so that the homes at the end are not those of all
/// references.
pub fn requesters(history: &History, result: &Simulation) -> Result<Option<Vec<Requester>>, SpillError> {
    if result.account.moves + result.account.replications > 0 {
        return Ok(None);
    }
    let mut counts: Vec<(u64, u64)> = Vec::new();
    for (page, home) in (0..history.pages()).map(Page).zip(&result.last_homes) {
        for run in history.runs(page)? {
            let node = run.node.index();
            counts.resize(counts.len().max(node + 1), (0, 0));
            counts[node].0 += run.references();
            counts[node].1 += if run.node == *home { 0 } else { run.references() };
        }
    }
    let row = |(node, (references, nonlocal)): (usize, (u64, u64))| Requester {
        node: Node(node as u16),
        references,
        nonlocal_percent: 100.0 * nonlocal as f64 / references.max(1) as f64,
    };
    Ok(Some(counts.into_iter().enumerate().map(row).collect()))
}
