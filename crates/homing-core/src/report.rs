//! The result of a comparison as data: what `--json` prints, what the report page reads. Its schema is stable and
//! versioned (`docs/report-schema.md`).

pub mod advice;
pub mod diff;
pub mod process;
pub mod timeline;
pub mod why;

use crate::windows::Estimate;
use serde::{Deserialize, Serialize};

/// Version of the JSON schema below; raised when a field changes meaning or goes away.
pub const SCHEMA: u32 = 1;

/// One row: one policy (or the optimum) on one trace and machine.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Row {
    /// Name of the policy; `optimal` for the bound.
    pub policy: String,
    /// Name of the machine.
    pub machine: String,
    /// What the policy saw: `perfect`, `every:64`, ...; empty for the bound.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub information: String,
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
    /// What that is for the whole program, estimated, where the trace is of windows of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<Estimate>,
    /// Modelled time of the program in milliseconds, with the time of moves taken from whoever made them; absent where
    /// no run with caches was timed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modelled_ms: Option<f64>,
    /// The same if a processor of its own had made the moves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_mover_ms: Option<f64>,
}

/// A whole comparison: what `homing compare --json` prints and the report page reads.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Report {
    /// Version of this schema ([`SCHEMA`]).
    pub schema: u32,
    /// Program and version that wrote it, such as `homing 0.1.0`.
    pub generator: String,
    /// The machine that was modelled.
    pub machine: MachineInfo,
    /// Every parameter of the run, with defaults, as name and value: the manifest.
    pub parameters: Vec<Parameter>,
    /// One block for each trace.
    pub traces: Vec<TraceReport>,
    /// Geometric means over the traces, one for each policy; empty for a single trace.
    pub means: Vec<MeanRow>,
    /// What the reader must know: which numbers are modelled, what was left out and why.
    pub notes: Vec<String>,
}

/// A named setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Parameter {
    /// Name, such as `placement` or `platinum.t1`.
    pub name: String,
    /// Value as text.
    pub value: String,
}

/// The machine as the report shows it. Costs are in local word references.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct MachineInfo {
    /// Name of the machine.
    pub name: String,
    /// One line about it.
    pub description: String,
    /// Memories, global memory included.
    pub memories: u16,
    /// The kernel's numbers of the nodes, where they are not 0, 1, and so on. Columns by node are in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub node_ids: Vec<u32>,
    /// Number of the global memory, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global_node: Option<u16>,
    /// Page size in bytes.
    pub page_size: u64,
    /// r, on uniform machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<f64>,
    /// R, on uniform machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_move: Option<f64>,
    /// g, where there is global memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global: Option<f64>,
    /// G, where there is global memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global_page_move: Option<f64>,
    /// Access costs `access[i][m]` of unequal machines: row, the node that refers; column, the node that holds the
    /// page.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub access: Vec<Vec<f64>>,
    /// Copy costs `copy[from][to]` of unequal machines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub copy: Vec<Vec<f64>>,
}

impl MachineInfo {
    /// The kernel's number of a node.
    pub fn node_id(&self, node: usize) -> u32 {
        self.node_ids.get(node).copied().unwrap_or(node as u32)
    }
}

/// What the report says about one trace.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct TraceReport {
    /// The trace.
    pub trace: TraceInfo,
    /// The result in a sentence for a person.
    pub summary: String,
    /// One row for each policy; the first is `optimal`.
    pub rows: Vec<Row>,
    /// Rows of the policies at further information levels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub further_levels: Vec<Row>,
    /// One row for each sharing class, in the order of `sharing::SharingClass::ALL`.
    pub sharing: Vec<ClassRow>,
    /// Where pages begin, end and belong.
    pub page_map: PageMap,
    /// What is wrong with where the pages are, and what to do about it; absent where nobody asked, and in reports of
    /// earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<why::WhyReport>,
    /// Cost curves and sweeps.
    pub curves: Vec<Curve>,
    /// How much the optimum changes when the order of references is disturbed (Bolosky & Scott 1991, table II).
    pub perturbation: Vec<PerturbationRow>,
    /// Bound and policies at each page size, where several were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub page_sizes: Vec<SizeRow>,
    /// Pages of the largest size that cost least in pages of the smallest, most gain first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub split: Vec<crate::page_sizes::Region>,
}

/// A row at one of several page sizes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct SizeRow {
    /// Bytes of a page.
    pub page_size: u64,
    /// The row.
    #[serde(flatten)]
    pub row: Row,
    /// TLB misses at that size, with `--misses`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tlb_misses: Option<u64>,
}

/// Where a trace comes from and how large it is.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct TraceInfo {
    /// Short name: the file's stem, or as much of its path as tells it from the other traces.
    pub name: String,
    /// Digest of the trace file (xxh3-64, hexadecimal).
    pub digest: String,
    /// Command line of the recorded program.
    pub command: Vec<String>,
    /// What recorded it.
    pub recorder: String,
    /// Data references; with `--misses` those that reached memory.
    pub references: u64,
    /// Reads among them.
    pub reads: u64,
    /// Writes among them.
    pub writes: u64,
    /// Threads of the program.
    pub threads: u64,
    /// Distinct pages at the report's page size.
    pub pages: u64,
    /// False when the recording was cut or parts of it were damaged.
    pub complete: bool,
    /// What the caches counted, with `--misses`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caches: Option<crate::cache::Counts>,
}

/// Pages and references of one sharing class (docs/policies.md has the definitions).
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct ClassRow {
    /// `private`, `read-shared`, `migratory`, `producer-consumer` or `write-shared`.
    pub class: String,
    /// Pages of the class.
    pub pages: u64,
    /// References to them.
    pub references: u64,
    /// Reads among those.
    pub reads: u64,
    /// Writes among those.
    pub writes: u64,
    /// 100 * references of the class / all references.
    pub references_percent: f64,
    /// Cost of the optimum on these pages.
    pub optimal_cost: f64,
    /// Cost of first touch on these pages.
    pub first_touch_cost: f64,
    /// Cost of the policy `homing` on these pages, if it was compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub homing_cost: Option<f64>,
}

/// One entry a page, column by column, in order of virtual address. All columns have the same length.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct PageMap {
    /// Pages of the trace; more than the columns hold if the map was cut (`shown` < `pages`).
    pub pages: u64,
    /// Length of the columns: the pages with most references.
    pub shown: u64,
    /// Virtual address of the page as `0x...`; a page that was unmapped and mapped again appears again.
    pub vaddr: Vec<String>,
    /// References to the page.
    pub references: Vec<u64>,
    /// Sharing class, an index into [`TraceReport::sharing`].
    pub class: Vec<u8>,
    /// Node where first touch places it.
    pub initial: Vec<u16>,
    /// Node that refers to it most.
    pub most_frequent: Vec<u16>,
    /// Home at the end under the policy that `policy` names.
    pub last: Vec<u16>,
    /// The policy of the column `last`: `homing`, or else the last one compared.
    pub policy: String,
    /// Home at the end in the optimal placement.
    pub optimal: Vec<u16>,
    /// References by node, `by_node[page][node]`; nodes after the last one that refers to the page are left out.
    pub by_node: Vec<Vec<u64>>,
    /// Names of the data areas that the pages belong to: variables, call sites of allocations, stacks, files.
    pub areas: Vec<String>,
    /// The area of each page, an index into `areas`; -1: not known.
    pub area: Vec<i32>,
}

/// Cost against a parameter: exact for the optimum, sampled for policies.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Curve {
    /// `page-move` or `page-size`.
    pub parameter: String,
    /// Unit of x: `local references` or `bytes`.
    pub unit: String,
    /// The value of the machine itself, on the x axis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub here: Option<f64>,
    /// One line each.
    pub series: Vec<Series>,
}

/// One line of a [`Curve`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Series {
    /// Policy; `optimal` for the bound.
    pub policy: String,
    /// True if the points are all break-points of a piecewise linear curve, so that straight lines between them are
    /// exact; false if they are samples.
    pub exact: bool,
    /// The points, by rising x.
    pub points: Vec<CurvePoint>,
}

/// A point of a [`Series`]: the mean cost per reference and its parts, which add up to it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct CurvePoint {
    /// Value of the parameter.
    pub x: f64,
    /// Mean cost per reference.
    pub mcpr: f64,
    /// Part of local references.
    pub local: f64,
    /// Part of references to other nodes.
    pub remote: f64,
    /// Part of references to global memory.
    pub global: f64,
    /// Part of page copies.
    pub copies: f64,
    /// (moves + replications) / pages.
    pub moves_per_page: f64,
}

/// The optimum of a disturbed order against that of the recorded one.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct PerturbationRow {
    /// `local` or `gaps`.
    pub filter: String,
    /// Seed of the filter.
    pub seed: u64,
    /// Optimal cost of the disturbed trace.
    pub optimal_cost: f64,
    /// 100 * (disturbed - recorded) / recorded, with its sign.
    pub change_percent: f64,
}

/// A policy over several traces.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct MeanRow {
    /// Policy; `optimal` for the bound.
    pub policy: String,
    /// Geometric mean of MCPR.
    pub mcpr: f64,
    /// Geometric mean of cost / optimal cost, as a gap in per cent.
    pub gap_percent: f64,
    /// The largest gap, in per cent.
    pub worst_gap_percent: f64,
    /// The trace with the largest gap.
    pub worst_trace: String,
}

#[cfg(test)]
mod typescript;
