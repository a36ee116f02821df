//! The global set: all resources of a machine, how far they are from each other, and which the caller may use.

use super::list::{ranges, List};
use super::ResourceSet;
use homing_core::ids::{Cpu, Node};
use homing_core::machine::{Costs, Machine};
use std::collections::BTreeSet;

/// A node of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GlobalNode {
    /// The kernel's number of it.
    pub id: Node,
    /// Its CPUs; none for a memory-only node.
    pub cpus: Vec<Cpu>,
    /// Whether it has memory.
    pub memory: bool,
    /// Distance to each node, in their order; 10 is local (ACPI SLIT).
    pub distances: Vec<u32>,
}

/// All resources of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Global {
    nodes: Vec<GlobalNode>,
    usable: ResourceSet,
    here: Option<Node>,
}

impl Global {
    /// A machine, all of which may be used. The caller runs nowhere in particular.
    pub fn new(nodes: Vec<GlobalNode>) -> Global {
        let mut global = Global { nodes, usable: ResourceSet::default(), here: None };
        global.usable = global.machine();
        global
    }

    /// A machine model: CPUs are numbered node by node, a distance is ten times the cost of an access.
    pub fn of_model(machine: &Machine, costs: &Costs) -> Global {
        let all = || (0..machine.nodes()).map(Node);
        let cpus = |node| {
            (0..machine.cpus())
                .map(|cpu| Cpu(cpu as u16))
                .filter(move |&cpu| machine.node_of(cpu) == Some(node))
        };
        let distance = |from, to| (10.0 * costs.access(from, to)).round() as u32;
        let node = |id| GlobalNode {
            id,
            cpus: cpus(id).collect(),
            memory: true,
            distances: all().map(|to| distance(id, to)).collect(),
        };
        Global::new(all().map(node).collect())
    }

    /// The machine of an XML file of hwloc.
    ///
    /// # Errors
    /// If it is no such file.
    pub fn from_hwloc(text: &str) -> Result<Global, String> {
        super::hwloc::global(text)
    }

    /// The same machine for a caller that may use `usable` of it only, and runs on the node `here`.
    pub fn confined(mut self, usable: &ResourceSet, here: Option<Node>) -> Global {
        self.usable = &self.machine() & usable;
        self.here = here.filter(|&id| self.node(id).is_some());
        self
    }

    /// The nodes.
    pub fn nodes(&self) -> &[GlobalNode] {
        &self.nodes
    }

    /// The node with that number.
    pub fn node(&self, id: Node) -> Option<&GlobalNode> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// The node of a CPU.
    pub fn node_of(&self, cpu: Cpu) -> Option<Node> {
        self.nodes.iter().find(|node| node.cpus.contains(&cpu)).map(|node| node.id)
    }

    /// The global set: what the caller may use.
    pub fn all(&self) -> &ResourceSet {
        &self.usable
    }

    /// The node on which the caller runs.
    pub fn here(&self) -> Option<Node> {
        self.here
    }

    /// All of the machine, whether the caller may use it or not.
    pub fn machine(&self) -> ResourceSet {
        self.of_nodes(self.nodes.iter())
    }

    /// CPUs and memories of nodes.
    pub fn of_nodes<'a>(&self, nodes: impl IntoIterator<Item = &'a GlobalNode>) -> ResourceSet {
        let mut set = ResourceSet::default();
        for node in nodes {
            set.cpus.extend(&node.cpus);
            set.memories.extend(node.memory.then_some(node.id));
        }
        set
    }

    /// Nodes that a set has CPUs of.
    pub fn nodes_of_cpus(&self, set: &ResourceSet) -> BTreeSet<Node> {
        let has = |node: &&GlobalNode| node.cpus.iter().any(|cpu| set.cpus.contains(cpu));
        self.nodes.iter().filter(has).map(|node| node.id).collect()
    }

    /// The nodes that are at most this far from a node.
    pub fn within(&self, distance: u32, from: &GlobalNode) -> ResourceSet {
        let near = self.nodes.iter().zip(&from.distances).filter(|(_, &far)| far <= distance);
        self.of_nodes(near.map(|(node, _)| node))
    }

    /// Fails if a set is empty, or goes beyond what the caller may use.
    pub fn refuse_outside(&self, set: &ResourceSet) -> Result<(), String> {
        if set.is_empty() {
            return Err("the set is empty: expected CPUs, memory, or both".to_owned());
        }
        let beyond = set - &self.usable;
        if beyond.is_empty() {
            return Ok(());
        }
        let left = set & &self.usable;
        let advice = match left.is_empty() {
            true => format!("what may be used is {}", self.words(&self.usable)),
            false => format!("what is left is {}: `(SET) & all` takes that alone", self.words(&left)),
        };
        let beyond = self.words(&beyond);
        Err(format!("this process may not use {beyond} of the set (its cpuset or affinity); {advice}"))
    }

    /// The nodes of a list.
    pub(super) fn nodes_in(&self, list: &List) -> Result<Vec<&GlobalNode>, String> {
        let known: BTreeSet<u16> = self.nodes.iter().map(|node| node.id.0).collect();
        let usable: BTreeSet<u16> =
            self.usable.memories.iter().chain(&self.nodes_of_cpus(&self.usable)).map(|node| node.0).collect();
        let wanted = checked(list, "node", &known, &usable)?;
        Ok(self.nodes.iter().filter(|node| wanted.contains(&node.id.0)).collect())
    }

    /// The CPUs of a list.
    pub(super) fn cpus_in(&self, list: &List) -> Result<BTreeSet<Cpu>, String> {
        let known = self.nodes.iter().flat_map(|node| &node.cpus).map(|cpu| cpu.0).collect();
        let usable = self.usable.cpus.iter().map(|cpu| cpu.0).collect();
        Ok(checked(list, "CPU", &known, &usable)?.into_iter().map(Cpu).collect())
    }

    /// A set in the words of expressions: whole nodes, then what is in no whole node.
    pub fn words(&self, set: &ResourceSet) -> String {
        let has_all = |node: &&GlobalNode| {
            self.of_nodes([*node]).is_inside(set) && node.memory && !node.cpus.is_empty()
        };
        let whole: Vec<&GlobalNode> = self.nodes.iter().filter(has_all).collect();
        let rest = set - &self.of_nodes(whole.iter().copied());
        let mut words = Vec::new();
        let mut add = |kind: &str, numbers: Vec<u16>| {
            if !numbers.is_empty() {
                words.push(format!("{kind}:{}", ranges(numbers)));
            }
        };
        add("node", whole.iter().map(|node| node.id.0).collect());
        add("cpu", rest.cpus.iter().map(|cpu| cpu.0).collect());
        add("mem", rest.memories.iter().map(|node| node.0).collect());
        if words.is_empty() {
            return "nothing".to_owned();
        }
        words.join(" | ")
    }
}

/// The numbers of a list, all of which the machine has.
fn checked(
    list: &List,
    noun: &str,
    known: &BTreeSet<u16>,
    usable: &BTreeSet<u16>,
) -> Result<BTreeSet<u16>, String> {
    let wanted = list.numbers(usable)?;
    let absent = &wanted - known;
    if absent.is_empty() {
        return Ok(wanted);
    }
    let has = ranges(known.iter().copied());
    Err(format!("there is no {noun} {}: expected some of {has}, which this machine has", ranges(absent)))
}
