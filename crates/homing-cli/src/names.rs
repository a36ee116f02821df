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
use std::path::Path;

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
        let names = *self;
        let known = move |text: String| match names.mistyped(&text) {
            Some(name) => Err(format!("did you mean `{name}`?")),
            None => Ok(text),
        };
        StringValueParser::new().try_map(known).parse_ref(command, option, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let value = |(name, summary): (&'static str, String)| PossibleValue::new(name).help(summary);
        Some(Box::new((self.0)().into_iter().map(value)))
    }
}

impl OneOf {
    /// The name that a text is almost. What is a name, with parameters or not, or may be a file, is none mistyped.
    fn mistyped(self, text: &str) -> Option<&'static str> {
        let (name, _) = text.split_once(':').unwrap_or((text, ""));
        let names = (self.0)();
        let known = names.iter().any(|(known, _)| *known == name);
        if known || name.contains(['/', '.']) || Path::new(text).exists() {
            return None;
        }
        closest(name, names.into_iter().map(|(name, _)| name))
    }
}

/// How alike two words are at least for one to be taken for the other mistyped: 1 is the same.
const ALIKE: f64 = 0.85;

/// The name most like a word, if one is like it.
fn closest<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let likeness = |name: &'a str| (strsim::jaro_winkler(word, name), name);
    let best = names.map(likeness).max_by(|a, b| a.0.total_cmp(&b.0));
    best.filter(|(likeness, _)| *likeness >= ALIKE).map(|(_, name)| name)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_name_finds_the_one_that_was_meant() {
        for (names, typed, meant) in [
            (MACHINE, "two-soket", "two-socket"),
            (MACHINE, "orgin2000-64", "origin2000-64"),
            (POLICY, "hmoing", "homing"),
            (POLICY, "firsttouch", "first-touch"),
            (MONITOR, "cache-mises:period=4", "cache-misses"),
            (TOPOLOGY, "hypercub", "hypercube"),
        ] {
            assert_eq!(names.mistyped(typed).map(|name| name.starts_with(meant)), Some(true), "{typed}");
        }
    }

    #[test]
    fn names_files_and_other_words_are_not_mistyped() {
        for (names, typed) in [
            (MACHINE, "two-socket"),
            (MACHINE, "./two-soket"),
            (MACHINE, "two-soket.toml"),
            (MACHINE, "none"),
            (POLICY, "external:homin --fast"),
            (POLICY, "nobody"),
            (MONITOR, "card:inbound=1"),
            (TOPOLOGY, "4x2"),
        ] {
            assert_eq!(names.mistyped(typed), None, "{typed}");
        }
    }

    #[test]
    fn no_name_is_taken_for_another_one() {
        for OneOf(names) in [MACHINE, POLICY, MONITOR, TOPOLOGY] {
            for (name, _) in names() {
                assert_eq!(OneOf(names).mistyped(name), None);
            }
        }
    }
}
