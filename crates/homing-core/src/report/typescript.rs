//! The types of the report page are made from those of the report.

use super::*;
use std::collections::BTreeMap;
use ts_rs::{Config, TypeVisitor, TS};

const HEAD: &str = "\
// The shape of the data that the page shows: what `homing compare --json` prints and `--html` embeds.
// Made from crates/homing-core/src/report.rs, report/why.rs and report/diff.rs by `make ui-data`; not to be edited.\n";

/// The declarations of the types that a type names, by name: the derive macro has no order of its own.
struct Declarations {
    config: Config,
    by_name: BTreeMap<String, String>,
}

impl TypeVisitor for Declarations {
    fn visit<T: TS + 'static + ?Sized>(&mut self) {
        let name = T::ident(&self.config);
        if T::output_path().is_none() || self.by_name.contains_key(&name) {
            return;
        }
        let declaration = format!("{}export {}", T::docs().unwrap_or_default(), T::decl(&self.config));
        self.by_name.insert(name, format!("\n{}\n", tidy(&declaration)));
        T::visit_dependencies(self);
    }
}

/// A declaration as one would write it: a field a line, indented. What may be absent is left out and never null.
fn tidy(declaration: &str) -> String {
    let text = declaration.replace("/**\n * ", "/** ").replace("\n */\n", " */\n").replace(", };", ",\n};");
    let (mut lines, mut inside) = (Vec::new(), false);
    for line in text.lines().map(str::trim_end) {
        let indent = if inside && line != "};" { "  " } else { "" };
        let line = if line.contains("?: ") { line.replace(" | null", "") } else { line.to_owned() };
        inside |= line.ends_with('{');
        // A union of many words: one a line.
        let wide = line.len() > 120 && line.starts_with("export type");
        let line = if wide { line.replace(" | ", "\n  | ").replacen(" = ", " =\n  | ", 1) } else { line };
        lines.push(format!("{indent}{line}"));
    }
    lines.join("\n")
}

fn declarations() -> String {
    let config = Config::new().with_large_int("number");
    let mut all = Declarations { config, by_name: BTreeMap::new() };
    all.visit::<Report>();
    all.visit::<diff::WhyDiff>();
    HEAD.to_owned() + &all.by_name.into_values().collect::<String>()
}

#[test]
fn the_types_of_the_page_are_those_of_the_report() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../ui/src/report-types.ts");
    let made = declarations();
    if std::env::var_os("HOMING_UPDATE").is_some() {
        std::fs::write(path, &made).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap();
    assert!(made == committed, "{path} is not what report.rs says: run `make ui-data` and commit it");
}
