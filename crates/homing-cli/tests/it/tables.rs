//! What stands in a table is known to shells and said in docs/.

use homing_core::machine::Machine;
use homing_core::monitor::table::MONITORS;
use homing_core::policy::table::POLICIES;
use homing_lab::topology::Topology;
use homing_live::source::SOURCES;
use homing_record::RECORDERS;
use homing_trace::import::IMPORTERS;
use std::process::Command;

/// A table: an option that takes its names, with its subcommand, the page that has them (topologies are listed by
/// `homing lab topologies` only), and the names.
struct Table {
    subcommand: &'static str,
    option: &'static str,
    page: Option<&'static str>,
    names: Vec<&'static str>,
}

fn tables() -> Vec<Table> {
    let table = |subcommand, option, page, names| Table { subcommand, option, page, names };
    let policies = POLICIES.iter().map(|entry| entry.name).collect();
    let monitors = MONITORS.iter().map(|entry| entry.name).collect();
    let sources = SOURCES.iter().map(|entry| entry.name).collect();
    let recorders = RECORDERS.iter().map(|recorder| recorder.name).collect();
    let importers = IMPORTERS.iter().map(|importer| importer.name).collect();
    vec![
        table("compare", "--machine", Some("machines.md"), Machine::builtin_names().collect()),
        table("compare", "--policies", Some("policies.md"), policies),
        table("compare", "--monitor", Some("monitors.md"), monitors),
        table("run", "--source", Some("live.md"), sources),
        table("record", "--recorder", Some("recording.md"), recorders),
        table("trace import", "--format", Some("recording.md"), importers),
        table("lab run", "--topology", None, Topology::built_in_names().collect()),
    ]
}

#[test]
fn docs_name_every_line_of_every_table() {
    for (page, names) in tables().into_iter().filter_map(|table| Some((table.page?, table.names))) {
        let path = format!("{}/../../docs/{page}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).unwrap();
        for name in names {
            let said = text.split(|c: char| " `,;:()\n".contains(c)).any(|word| word == name);
            assert!(said, "docs/{page} does not name `{name}`");
        }
    }
}

#[test]
fn shells_complete_the_names_of_every_table() {
    let output = Command::new(env!("CARGO_BIN_EXE_homing")).args(["completions", "fish"]).output().unwrap();
    let script = String::from_utf8(output.stdout).unwrap();
    for Table { subcommand, option, names, .. } in tables() {
        let inner = subcommand.split(' ').next_back().unwrap();
        let long = format!("-l {} ", &option[2..]);
        // Names stand between the line of the option and that of the next one.
        let values: String =
            script.split("\ncomplete ").filter(|line| line.contains(inner) && line.contains(&long)).collect();
        for name in names {
            let has = values.lines().any(|line| line.split(['\\', '"']).any(|word| word == name));
            assert!(has, "{subcommand} {option} does not complete {name}: {values}");
        }
    }
}
