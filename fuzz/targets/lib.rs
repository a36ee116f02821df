//! What the fuzz targets do with their input: every parser of foreign bytes, and what follows it. None may panic, hang,
//! or take memory without bound, whatever the bytes are. One file for each crate.
//!
//! The crates' `tests/fuzz_smoke.rs` run the same functions on the corpus and on random mutations of it.

pub mod machines;
pub mod parsers;
pub mod system;
pub mod trace;
