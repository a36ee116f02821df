//! The result of a comparison as data: what `--json` prints, what the report page reads. Its schema is stable and
//! versioned (`docs/report-schema.md`).

use serde::{Deserialize, Serialize};

/// Version of the JSON schema below; raised when a field changes meaning or goes away.
pub const SCHEMA: u32 = 1;

/// One row: one policy (or the optimum) on one trace and machine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Name of the policy; `optimal` for the bound.
    pub policy: String,
    /// Name of the machine.
    pub machine: String,
    /// Data references charged.
    pub references: u64,
    /// Total cost in local word references.
    pub cost: f64,
    /// Mean cost per reference; 1 is all-local.
    pub mcpr: f64,
    /// References served by the requester's own node.
    pub local: u64,
    /// References served by another processor's node.
    pub remote: u64,
    /// References served by global memory.
    pub global: u64,
    /// Pages copied to a new home (the old copy dropped).
    pub moves: u64,
    /// Pages copied beside the old copy.
    pub replications: u64,
    /// 100 * (remote + global) / references.
    pub nonlocal_percent: f64,
    /// Cost of the off-line optimum for the same trace, machine and page size.
    pub optimal_cost: f64,
    /// 100 * (cost - optimal_cost) / optimal_cost.
    pub gap_percent: f64,
    /// 100 * (first touch - cost) / (first touch - optimum): the share of what can be gained; absent where first touch
    /// is already optimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovered_percent: Option<f64>,
    /// Distinct pages referenced.
    pub pages: u64,
    /// Wall-clock seconds that computing this row took (measured).
    pub seconds: f64,
    /// The part of the cost that is page copies.
    pub copy_cost: f64,
    /// (moves + replications) / pages.
    pub moves_per_page: f64,
}
