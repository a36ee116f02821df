//! Traces: the ordered data references of all threads of a program, with events, on disk (`docs/trace-format.md`).

pub mod merge;
pub mod perturb;
