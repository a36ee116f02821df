//! `homing lab topologies`: lists the built-in topologies.

use crate::exit::{Code, Result};
use homing_lab::topology::Topology;

/// Arguments of `homing lab topologies`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// Lists.
pub fn run(args: Args) -> Result {
    let all = Topology::built_in();
    if args.json {
        let entry = |t: &Topology| {
            let nodes: Vec<_> = t
                .nodes
                .iter()
                .map(|n| serde_json::json!({"id": n.id, "cpus": n.cpus, "memory": n.memory}))
                .collect();
            serde_json::json!({
                "name": t.name, "summary": t.summary, "nodes": nodes, "distances": t.distances, "latency_ns": t.latency
            })
        };
        let topologies: Vec<_> = all.iter().map(entry).collect();
        crate::stdout::json(serde_json::json!({ "topologies": topologies }))?;
        return Ok(Code::OK);
    }
    for topology in &all {
        let (nodes, cpus, memory) = (topology.nodes.len(), topology.cpus(), topology.memory() >> 20);
        outln!("{:<12}{nodes:>2} nodes {cpus:>3} CPUs {memory:>6} MiB  {}", topology.name, topology.summary);
    }
    Ok(Code::OK)
}
