//! `homing rset list`: the global set and the named sets, as a tree.

use super::show;
use super::source::{FromFile, OnMachine, Source};
use crate::exit::{Code, Result};
use crate::tables::table;
use homing_rset::{ranges, Named, ResourceSet};
use serde_json::json;

/// Arguments of `homing rset list`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    file: FromFile,
    #[command(flatten)]
    machine: OnMachine,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// Lists.
pub fn run(args: Args) -> Result {
    let source = Source::of(&args.machine, &args.file)?;
    let all = source.sets.all_on(&source.global);
    match args.json {
        true => as_json(&source, &all)?,
        false => as_table(&source, &all)?,
    }
    Ok(Code::OK)
}

fn as_table(source: &Source, all: &[Named]) -> anyhow::Result<()> {
    let mut rows = table(&["set", "CPUs", "nodes", "memory", "free", "is"]);
    rows.column_iter_mut().skip(1).for_each(|column| {
        column.set_cell_alignment(comfy_table::CellAlignment::Left);
    });
    rows.add_row(row(
        source,
        "all".to_owned(),
        source.global.all(),
        source.global.words(source.global.all()),
    ));
    let mut notes = Vec::new();
    for (depth, named) in tree(all) {
        let name = format!("{}{}", "  ".repeat(depth + 1), named.name);
        match &named.set {
            Ok(set) => rows.add_row(row(source, name, set, named.expr.clone())),
            Err(why) => {
                notes.push(why.clone());
                rows.add_row([name, "-".into(), "-".into(), "-".into(), "-".into(), named.expr.clone()])
            }
        };
    }
    outln!("{rows}");
    crate::tables::print_notes(&notes)
}

fn row(source: &Source, name: String, set: &ResourceSet, is: String) -> [String; 6] {
    let memory = source.memory_of(set);
    let size = |bytes: Option<u64>| bytes.map_or("-".to_owned(), show::size);
    let nodes = ranges(set.memories.iter().map(|node| node.0));
    let cpus = ranges(set.cpus.iter().map(|cpu| cpu.0));
    [name, cpus, nodes, size(memory.map(|(_, total)| total)), size(memory.map(|(free, _)| free)), is]
}

/// The sets with their depths, each behind its parent.
fn tree(all: &[Named]) -> Vec<(usize, &Named)> {
    fn below<'a>(all: &'a [Named], parent: Option<usize>, depth: usize, found: &mut Vec<(usize, &'a Named)>) {
        for (index, named) in all.iter().enumerate().filter(|(_, named)| named.parent == parent) {
            found.push((depth, named));
            below(all, Some(index), depth + 1, found);
        }
    }
    let mut found = Vec::new();
    below(all, None, 0, &mut found);
    found
}

fn as_json(source: &Source, all: &[Named]) -> anyhow::Result<()> {
    let named = |named: &Named| match &named.set {
        Ok(set) => {
            let mut value = show::resources(source, set);
            value["name"] = json!(named.name);
            value["expr"] = json!(named.expr);
            value["parent"] = json!(named.parent.map(|at| &all[at].name));
            value["policies"] = show::policies(&named.policies);
            value
        }
        Err(why) => json!({ "name": named.name, "expr": named.expr, "error": why }),
    };
    crate::stdout::json(json!({
        "all": show::resources(source, source.global.all()),
        "sets": all.iter().map(named).collect::<Vec<_>>(),
    }))
}
