//! The machine that a file was recorded on: its nodes and CPUs, and what its memories cost.

use super::gather::{is_arm, Gathered};
use crate::error::{PipelineError, Result};
use crate::model::load_machine;
use homing_core::ids::{Cpu, Node};
use homing_core::machine::Machine;
use homing_linux::perf::data_src::Served;
use std::collections::HashMap;

/// Samples of either memory, local and remote, from which on their latencies are believed.
const ENOUGH: usize = 50;
/// What a remote access costs where nothing was measured: that of the model `two-socket`.
const TYPICAL: f64 = 140.0 / 80.0;
/// The latency in nanoseconds that stands for a local access; only ratios count.
const LOCAL_NS: f64 = 80.0;

/// Nodes with dense numbers.
#[derive(Clone, Debug)]
pub struct Nodes {
    /// The kernel's numbers.
    pub ids: Vec<u32>,
    of_cpu: HashMap<u32, usize>,
    /// Nodes without CPUs.
    pub far: Vec<usize>,
}

/// Median latencies in cycles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latencies {
    /// Of local memory.
    pub local: f64,
    /// Of other nodes' memory.
    pub remote: f64,
}

impl Nodes {
    /// Those that the file names; else those of the machine that the user names.
    pub fn of(gathered: &Gathered, machine: Option<&Machine>) -> Result<Nodes> {
        let nodes = &gathered.contents.facts.nodes;
        match (nodes.is_empty(), machine) {
            (true, None) => Err(PipelineError::Usage(
                "the file does not say which node each CPU belongs to: expected --machine with a model of where it \
                 was recorded (`homing machines`, or a TOML file)"
                    .into(),
            )),
            (true, Some(machine)) => {
                let cpus = 0..machine.cpus().min(1 << 16);
                let node = |cpu: u32| Some((cpu, machine.node_of(Cpu(cpu as u16))?.index()));
                let ids: Vec<u32> = (0..machine.nodes().into()).collect();
                Ok(Nodes::new(ids, cpus.filter_map(node).collect()))
            }
            (false, Some(machine)) if usize::from(machine.nodes()) < nodes.len() => {
                Err(PipelineError::Usage(format!(
                    "--machine: {} has {} nodes, and the file is of a machine with {}",
                    machine.name(),
                    machine.nodes(),
                    nodes.len()
                )))
            }
            (false, _) => {
                let cpus = nodes.iter().enumerate();
                let cpus = cpus.flat_map(|(node, facts)| facts.cpus.iter().map(move |&cpu| (cpu, node)));
                Ok(Nodes::new(nodes.iter().map(|node| node.number).collect(), cpus.collect()))
            }
        }
    }

    fn new(ids: Vec<u32>, of_cpu: HashMap<u32, usize>) -> Nodes {
        let far = (0..ids.len()).filter(|node| of_cpu.values().all(|other| other != node)).collect();
        Nodes { ids, of_cpu, far }
    }

    /// The node of a CPU.
    pub fn of_cpu(&self, cpu: u32) -> Option<usize> {
        self.of_cpu.get(&cpu).copied()
    }

    /// The node with the kernel's number.
    pub fn numbered(&self, id: u32) -> Option<usize> {
        self.ids.iter().position(|&known| known == id)
    }

    /// The machine with what its memories cost: as they were measured, else as is typical.
    pub fn machine(&self, gathered: &Gathered, latencies: Option<Latencies>) -> Result<Machine> {
        let ratio = latencies.map_or(TYPICAL, |found| found.remote / found.local);
        let mut cpus = vec![0u32; self.ids.len()];
        self.of_cpu.values().for_each(|&node| cpus[node] += 1);
        let how = match latencies {
            Some(_) => "local and remote latency as sampled",
            None => "typical latencies, not measured",
        };
        let processor = gathered.contents.facts.processor.as_deref().unwrap_or("unknown processor");
        let text = format!(
            "name = \"recorded\"\nsummary = {}\nnodes = {}\ncpus_per_node = {cpus:?}\n[latency]\n\
             local = {LOCAL_NS:.1}\nremote = {:.1}\npage_move = {{ per_byte = 0.25, overhead = 1000.0 }}\n",
            toml::Value::from(format!("where perf recorded: {processor}; {how}")),
            self.ids.len(),
            LOCAL_NS * ratio,
        );
        Machine::from_toml(&text, "recorded").map_err(|error| PipelineError::Failed(error.to_string()))
    }
}

/// The machine that the user names.
pub fn named(machine: Option<&str>) -> Result<Option<Machine>> {
    machine.map(load_machine).transpose()
}

/// How long local and remote memory took, if enough samples say it and remote took longer.
pub fn latencies(gathered: &Gathered) -> Option<Latencies> {
    let arm = is_arm(&gathered.contents);
    let (mut local, mut remote) = (Vec::new(), Vec::new());
    for access in &gathered.accesses {
        let Some(latency) = access.sample.latency.filter(|&latency| latency > 0) else { continue };
        match access.source.served {
            Served::LocalMemory => local.push(latency),
            Served::RemoteMemory => remote.push(latency),
            Served::Beyond if arm => local.push(latency),
            Served::RemoteCache if arm && !access.source.modified => remote.push(latency),
            _ => {}
        }
    }
    if local.len().min(remote.len()) < ENOUGH {
        return None;
    }
    let median = |all: &mut Vec<u64>| {
        let middle = all.len() / 2;
        *all.select_nth_unstable(middle).1 as f64
    };
    let found = Latencies { local: median(&mut local), remote: median(&mut remote) };
    (found.remote > found.local).then_some(found)
}

/// A node's number among those of the core.
pub fn node(node: usize) -> Node {
    Node(node as u16)
}
