//! Traces: the ordered data references of all threads of a program, with events, on disk (`docs/trace-format.md`).
//!
//! [`Ingest`] takes what a recorder writes ([`wire`]) and feeds a [`TraceWriter`]; [`Trace`] reads a file back. The
//! parts between are one noun a file: [`Kind`] and [`Event`] are what a trace consists of, [`frames`] makes addresses
//! dense, [`code`] holds code blocks, `encode` and `decode` turn executions of code blocks into references blocks
//! and back, `order` does the same for the total order, [`steps`] reads threads without decoding addresses.
//!
//! It does no I/O of its own beyond the readers, writers and byte slices that it is handed.
#![deny(unsafe_code)] // but for one call in `wide`

mod by_thread;
pub mod code;
mod columns;
mod decode;
mod defined;
mod encode;
mod error;
mod event;
pub mod export;
mod filter;
mod format;
pub mod frames;
mod grain;
pub mod ids;
pub mod import;
pub mod info;
mod ingest;
pub mod inspect;
mod kind;
mod mask;
pub mod merge;
mod names;
mod order;
mod order_writer;
pub mod perf_data;
pub mod perturb;
mod reader;
pub mod recover;
mod region;
mod rounds;
mod runs;
mod selection;
pub mod steps;
mod summary;
mod varint;
mod visit;
mod wide;
pub mod wire;
mod writer;

pub use by_thread::ByThread;
pub use code::{Access, AddressSource, BlockDef, CodeBlockId};
pub use error::{Damage, TraceError};
pub use event::{AllocFunction, Event, SyncOp};
pub use format::{Header, FRAME_BYTES, FRAME_SHIFT, VERSION};
pub use grain::Grain;
pub use ingest::{CodeMapping, GiveUp, Ingest, NameKind, Reword};
pub use kind::Kind;
pub use names::{NameId, Names, Symbol};
pub use order::OrderBlock;
pub use order_writer::OrderWriter;
pub use reader::Trace;
pub use region::Place;
pub use selection::IngestOptions;
pub use steps::{Step, Steps};
pub use summary::{Ending, Summary};
pub use visit::{Turn, VisitStats, Visitor};
pub use writer::TraceWriter;

#[cfg(test)]
mod tests;
