//! Names from tables, for shells to complete and for manual pages: options that take one of them, or something else
//! such as a file.

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::error::Error;
use clap::{Arg, Command};
use homing_core::machine::Machine;
use homing_core::monitor::table::MONITORS;
use homing_core::policy::table::POLICIES;
use homing_lab::topology::Topology;
use std::ffi::OsStr;

/// Names and what they mean.
type Names = Vec<(&'static str, String)>;

/// Takes any text, and knows names that it may be.
#[derive(Clone, Copy)]
pub struct OneOf(fn() -> Names);

impl TypedValueParser for OneOf {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        option: Option<&Arg>,
        value: &OsStr,
    ) -> std::result::Result<String, Error> {
        StringValueParser::new().parse_ref(command, option, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let value = |(name, summary): (&'static str, String)| PossibleValue::new(name).help(summary);
        Some(Box::new((self.0)().into_iter().map(value)))
    }
}

fn named(name: &'static str, summary: &str) -> (&'static str, String) {
    (name, summary.to_owned())
}

/// Machine models.
pub const MACHINE: OneOf = OneOf(|| {
    let machine = |name| Machine::builtin(name).map(|machine| named(name, machine.summary()));
    let host = named("host", "this machine");
    Machine::builtin_names().filter_map(machine).chain([host]).collect()
});

/// Policies.
pub const POLICY: OneOf = OneOf(|| POLICIES.iter().map(|entry| named(entry.name, entry.summary)).collect());

/// Monitors.
pub const MONITOR: OneOf = OneOf(|| MONITORS.iter().map(|entry| named(entry.name, entry.summary)).collect());

/// Topologies of the lab.
pub const TOPOLOGY: OneOf = OneOf(|| Topology::built_in_names().map(|name| (name, String::new())).collect());
