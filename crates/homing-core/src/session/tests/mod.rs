//! Tests of the whole session: a table of scenarios, and properties of any inputs.

mod properties;
mod scenarios;
mod watching;
mod world;
