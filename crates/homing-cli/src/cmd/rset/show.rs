//! `homing rset show`: one set.

use super::source::{FromFile, OnMachine, Source};
use crate::exit::{Code, Result};
use crate::tables::{plain, things};
use homing_rset::{ranges, GlobalNode, Named, Policies, ResourceSet};
use indicatif::HumanBytes;
use serde_json::{json, Value};

/// Arguments of `homing rset show`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The set: an expression such as `node:0-1 & !cpu:3`, or a name
    #[arg(value_name = "SET")]
    set: String,
    #[command(flatten)]
    file: FromFile,
    #[command(flatten)]
    machine: OnMachine,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
}

/// Shows.
pub fn run(args: Args) -> Result {
    let expr = Source::expression(&args.set)?;
    let source = Source::of(&args.machine, &args.file)?;
    let set = source.set(&expr)?;
    let policies = source.sets.policies(&expr);
    let all = source.sets.all_on(&source.global);
    let around = around(&source, &all, &set);
    if args.json {
        let mut value = resources(&source, &set);
        value["expr"] = json!(expr.text());
        value["inside"] = json!(around);
        value["policies"] = self::policies(&policies);
        value["per_node"] = nodes(&source, &set).map(|node| node_json(&source, &set, node)).collect();
        crate::stdout::json(value)?;
        return Ok(Code::OK);
    }
    outln!("{} is {}", expr.text(), source.global.words(&set));
    outln!("  CPUs    {}", list(set.cpus.len(), "CPU", ranges(set.cpus.iter().map(|cpu| cpu.0))));
    outln!("  memory  {}", list(set.memories.len(), "node", ranges(set.memories.iter().map(|node| node.0))));
    if let Some((free, total)) = source.memory_of(&set).filter(|_| !set.memories.is_empty()) {
        outln!("          {} free of {}", size(free), size(total));
    }
    outln!("  inside  {}", if around.is_empty() { "no other set".to_owned() } else { around.join(", ") });
    if let Err(why) = source.global.refuse_outside(&set) {
        outln!("  note    {why}");
    }
    policy_lines(&policies)?;
    per_node(&source, &set)?;
    Ok(Code::OK)
}

/// `0-3 (4 CPUs)`.
fn list(count: usize, noun: &str, ranges: String) -> String {
    if count == 0 {
        return ranges;
    }
    format!("{ranges} ({})", things(count as u64, noun))
}

/// Bytes for people.
pub fn size(bytes: u64) -> String {
    HumanBytes(bytes).to_string()
}

/// Names of the sets that have all of a set, and more; the global set is `all`.
fn around(source: &Source, all: &[Named], set: &ResourceSet) -> Vec<String> {
    let has = |other: &ResourceSet| set.is_inside(other) && other != set;
    let named = all.iter().filter(|named| named.set.as_ref().is_ok_and(has)).map(|named| named.name.clone());
    let global = has(source.global.all()).then(|| "all".to_owned());
    named.chain(global).collect()
}

/// The nodes that a set has something of.
fn nodes<'a>(source: &'a Source, set: &'a ResourceSet) -> impl Iterator<Item = &'a GlobalNode> {
    let has = |node: &&GlobalNode| set.memories.contains(&node.id) || !cpus(set, node).is_empty();
    source.global.nodes().iter().filter(has)
}

/// The CPUs of a set on a node.
fn cpus(set: &ResourceSet, node: &GlobalNode) -> Vec<u16> {
    node.cpus.iter().filter(|cpu| set.cpus.contains(cpu)).map(|cpu| cpu.0).collect()
}

fn per_node(source: &Source, set: &ResourceSet) -> anyhow::Result<()> {
    let header = ["node", "CPUs", "in the set", "memory", "free"].map(str::to_owned).into_iter();
    let to = source.global.nodes().iter().map(|node| format!("to {}", node.id));
    let mut rows = plain(&header.chain(to).collect::<Vec<_>>());
    for node in nodes(source, set) {
        let memory = source.memory(node.id);
        let shown = |bytes: Option<u64>| bytes.map_or("-".to_owned(), size);
        let taken = if set.memories.contains(&node.id) { "memory" } else { "CPUs alone" };
        let cells = [
            node.id.to_string(),
            ranges(cpus(set, node)),
            taken.to_owned(),
            shown(memory.map(|(_, total)| total)),
            shown(memory.map(|(free, _)| free)),
        ];
        rows.add_row(cells.into_iter().chain(node.distances.iter().map(u32::to_string)));
    }
    outln!("\n{rows}\ndistances {}: 10 is local", source.distances);
    Ok(())
}

fn policy_lines(policies: &Policies) -> anyhow::Result<()> {
    if let Some(memory) = policies.memory {
        let stride =
            policies.stride.map_or(String::new(), |stride| format!(", a stride of {}", size(stride)));
        outln!("  policy  memory {memory}{stride}");
    }
    if let Some(huge) = policies.huge {
        outln!("  policy  huge pages of {}", size(huge));
    }
    if let Some(threads) = policies.threads {
        outln!("  policy  threads {threads}");
    }
    Ok(())
}

/// A set as JSON.
pub fn resources(source: &Source, set: &ResourceSet) -> Value {
    let memory = source.memory_of(set);
    json!({
        "cpus": set.cpus,
        "memories": set.memories,
        "bytes": memory.map(|(_, total)| total),
        "free_bytes": memory.map(|(free, _)| free),
    })
}

/// Policies as JSON.
pub fn policies(policies: &Policies) -> Value {
    json!({
        "memory": policies.memory.map(|memory| memory.to_string()),
        "stride": policies.stride,
        "huge": policies.huge,
        "threads": policies.threads.map(|threads| threads.to_string()),
    })
}

fn node_json(source: &Source, set: &ResourceSet, node: &GlobalNode) -> Value {
    let memory = source.memory(node.id);
    json!({
        "node": node.id,
        "cpus": cpus(set, node),
        "memory": set.memories.contains(&node.id),
        "bytes": memory.map(|(_, total)| total),
        "free_bytes": memory.map(|(free, _)| free),
        "distances": node.distances,
    })
}
