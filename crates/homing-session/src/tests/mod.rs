//! Tests of the whole session: a table of scenarios, and properties of any inputs.

mod first_uses;
mod properties;
mod scenarios;
mod spread;
mod watching;
mod words;
mod world;
