//! One cell of a study: its row, its costs by sharing class, and the columns under which they are written.

use super::Laid;
use homing_core::compare::Floor;
use homing_core::report::Row;
use homing_core::sharing::SharingClass;
use homing_core::simulate::Simulation;
use serde::{Deserialize, Serialize};

/// One cell.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cell {
    /// Digest of everything that the cell depends on.
    pub key: String,
    /// Name of the trace.
    pub trace: String,
    /// Where pages begin; `own` for policies that say so themselves.
    pub start: String,
    /// What was counted and what it costs.
    #[serde(flatten)]
    pub row: Row,
    /// Costs on the pages of each sharing class.
    pub classes: Vec<ClassCost>,
}

/// Costs on the pages of one sharing class.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClassCost {
    /// The class.
    pub class: String,
    /// Its pages.
    pub pages: u64,
    /// References to them.
    pub references: u64,
    /// What the policy pays on them.
    pub cost: f64,
    /// What the optimum pays on them.
    pub optimal_cost: f64,
}

/// The costs by class.
pub(super) fn classes(laid: &Laid<'_>, floor: &Floor, result: &Simulation) -> Vec<ClassCost> {
    let row = |class: SharingClass| {
        let pages = || laid.uses.iter().zip(&result.page_costs).filter(|(page, _)| page.class == class);
        ClassCost {
            class: class.name().into(),
            pages: pages().count() as u64,
            references: pages().map(|(page, _)| page.references).sum(),
            cost: pages().map(|(_, cost)| cost).sum(),
            optimal_cost: floor.class_costs[class as usize],
        }
    };
    SharingClass::ALL.into_iter().map(row).collect()
}

/// A digest that fits in a name.
pub(super) fn digest(bytes: &[u8]) -> String {
    format!("{:032x}", xxhash_rust::xxh3::xxh3_128(bytes))
}

/// A value of a column.
pub enum Value {
    /// A name.
    Text(String),
    /// A count.
    Count(u64),
    /// A number, if there is one.
    Number(Option<f64>),
}

/// A column: its name and where its values are.
pub type Column = (&'static str, fn(&Cell) -> Value);

/// The columns of a study's CSV and Parquet files. Costs by class stand behind them.
pub const COLUMNS: &[Column] = &[
    ("trace", |cell| Value::Text(cell.trace.clone())),
    ("machine", |cell| Value::Text(cell.row.machine.clone())),
    ("start", |cell| Value::Text(cell.start.clone())),
    ("information", |cell| Value::Text(cell.row.information.clone())),
    ("policy", |cell| Value::Text(cell.row.policy.clone())),
    ("references", |cell| Value::Count(cell.row.references)),
    ("pages", |cell| Value::Count(cell.row.pages)),
    ("cost", |cell| Value::Number(Some(cell.row.cost))),
    ("optimal_cost", |cell| Value::Number(Some(cell.row.optimal_cost))),
    ("mcpr", |cell| Value::Number(Some(cell.row.mcpr))),
    ("gap_percent", |cell| Value::Number(Some(cell.row.gap_percent))),
    ("recovered_percent", |cell| Value::Number(cell.row.recovered_percent)),
    ("nonlocal_percent", |cell| Value::Number(Some(cell.row.nonlocal_percent))),
    ("local", |cell| Value::Count(cell.row.local)),
    ("remote", |cell| Value::Count(cell.row.remote)),
    ("global", |cell| Value::Count(cell.row.global)),
    ("moves", |cell| Value::Count(cell.row.moves)),
    ("replications", |cell| Value::Count(cell.row.replications)),
    ("copy_cost", |cell| Value::Number(Some(cell.row.copy_cost))),
    ("seconds", |cell| Value::Number(Some(cell.row.seconds))),
    ("modelled_ms", |cell| Value::Number(cell.row.modelled_ms)),
    ("own_mover_ms", |cell| Value::Number(cell.row.own_mover_ms)),
    ("private_excess", |cell| excess(cell, SharingClass::Private)),
    ("read_shared_excess", |cell| excess(cell, SharingClass::ReadShared)),
    ("migratory_excess", |cell| excess(cell, SharingClass::Migratory)),
    ("producer_consumer_excess", |cell| excess(cell, SharingClass::ProducerConsumer)),
    ("write_shared_excess", |cell| excess(cell, SharingClass::WriteShared)),
    ("key", |cell| Value::Text(cell.key.clone())),
];

/// What the policy pays more than the optimum on pages of a class.
fn excess(cell: &Cell, class: SharingClass) -> Value {
    // Adding 0 makes 0 of -0, which sums over no pages are.
    Value::Number(cell.classes.get(class as usize).map(|class| class.cost - class.optimal_cost + 0.0))
}
