//! What machine the lab is: nodes, their CPUs and memory, distances. A topology is a TOML file (`lab/topologies/`, the
//! format is in
//! `docs/lab.md`) or made from options.

use crate::LabError;
use serde::Deserialize;
use std::path::Path;

mod shape;
#[cfg(test)]
mod tests;

pub use shape::Shape;

/// Latency in nanoseconds that a distance of 10 (local) stands for, unless the topology says otherwise.
const LOCAL_NS: f64 = 80.0;
/// Linux can do with more; the observer's tables and the trace's words cannot.
pub const MOST_NODES: usize = 32;
/// See [`MOST_NODES`].
pub const MOST_CPUS: usize = 64;
/// Node ids are below this: QEMU knows 128 nodes, those that fill gaps included.
const MOST_IDS: u32 = 64;
const MIB: u64 = 1 << 20;
/// Below this the kernel does not boot with its per-node tables.
const LEAST_MEMORY: u64 = 64 * MIB;

/// The built-in topologies: name and text.
const BUILT_IN: [(&str, &str); 10] = [
    ("2x2", include_str!("../../../lab/topologies/2x2.toml")),
    ("4x2", include_str!("../../../lab/topologies/4x2.toml")),
    ("8x1", include_str!("../../../lab/topologies/8x1.toml")),
    ("six-boards", include_str!("../../../lab/topologies/six-boards.toml")),
    ("hypercube", include_str!("../../../lab/topologies/hypercube.toml")),
    ("unequal", include_str!("../../../lab/topologies/unequal.toml")),
    ("sparse", include_str!("../../../lab/topologies/sparse.toml")),
    ("cxl", include_str!("../../../lab/topologies/cxl.toml")),
    ("hmat", include_str!("../../../lab/topologies/hmat.toml")),
    ("far", include_str!("../../../lab/topologies/far.toml")),
];

/// A machine of the lab.
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    /// Its name.
    pub name: String,
    /// One line on what it is like.
    pub summary: String,
    /// The nodes, by rising id.
    pub nodes: Vec<Node>,
    /// Distances of the firmware's table (ACPI SLIT; 10 is local), from each node to each, in the order of `nodes`.
    pub distances: Vec<Vec<u8>>,
    /// Latency in nanoseconds from each node to each.
    pub latency: Vec<Vec<f64>>,
    /// Bandwidth in MB/s from each node to each, where the machine describes its memory by an ACPI HMAT.
    pub hmat: Option<Vec<Vec<u32>>>,
}

/// A node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// The number that the kernel shall know it by. Numbers need not be dense.
    pub id: u32,
    /// How many CPUs; 0 for a memory-only node.
    pub cpus: u32,
    /// Bytes of memory.
    pub memory: u64,
}

/// A topology file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Spec {
    name: String,
    summary: String,
    nodes: Vec<NodeSpec>,
    shape: Option<String>,
    distances: Option<Vec<Vec<u8>>>,
    local_ns: Option<f64>,
    latency_ns: Option<Vec<Vec<f64>>>,
    bandwidth_mb: Option<Vec<Vec<u32>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeSpec {
    id: Option<u32>,
    cpus: u32,
    memory: String,
    /// Nodes of this kind.
    count: Option<u32>,
}

/// What a user says of a machine of like nodes.
#[derive(Clone, Debug, Default)]
pub struct Size {
    /// Number of nodes.
    pub nodes: Option<u32>,
    /// CPUs of the whole machine, dealt out evenly.
    pub cpus: Option<u32>,
    /// Bytes of memory of the whole machine, dealt out evenly.
    pub memory: Option<u64>,
    /// Distances between nodes: the name of a [`Shape`], or a file with a matrix.
    pub distances: Option<String>,
}

impl Size {
    /// Nodes and distances by a file. `expected`: what names there are instead.
    fn read_distances(&self, file: &str, expected: &str) -> Result<(u32, Vec<Vec<u8>>), LabError> {
        let wrong = |what: String| LabError::Usage(format!("--distances {file}: {what}"));
        let text = std::fs::read_to_string(file)
            .map_err(|error| wrong(format!("{expected}, or a file: {error}")))?;
        let matrix = distances_from_text(&text, file)?;
        let (rows, nodes) = (matrix.len(), self.nodes.unwrap_or(matrix.len() as u32));
        if rows != nodes as usize || rows == 0 || matrix.iter().any(|row| row.len() != rows) {
            let columns = matrix.iter().map(Vec::len).max().unwrap_or(0);
            let found = format!("{rows} rows of up to {columns} numbers");
            let wanted = self.nodes.map_or("as many of each".into(), |n| format!("{n} of each, as --nodes"));
            return Err(wrong(format!("{found}: expected {wanted}")));
        }
        Ok((nodes, matrix))
    }
}

impl Topology {
    /// The built-in topologies, in the order in which they are listed.
    pub fn built_in() -> Vec<Topology> {
        BUILT_IN.iter().map(|(name, text)| Topology::from_toml(text, name).expect("tested")).collect()
    }

    /// Their names.
    pub fn built_in_names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// A built-in topology by name, or one from a file.
    pub fn load(name: &str) -> Result<Topology, LabError> {
        if let Some((name, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) {
            return Topology::from_toml(text, name);
        }
        let names: Vec<&str> = BUILT_IN.iter().map(|(name, _)| *name).collect();
        let text = std::fs::read_to_string(Path::new(name)).map_err(|error| LabError::Topology {
            name: name.to_owned(),
            reason: format!("{error}: expected a TOML file or one of {}", names.join(", ")),
        })?;
        Topology::from_toml(&text, name)
    }

    /// A topology from the text of a file called `name`.
    pub fn from_toml(text: &str, name: &str) -> Result<Topology, LabError> {
        let wrong = |reason: String| LabError::Topology { name: name.to_owned(), reason };
        let spec: Spec = toml::from_str(text).map_err(|e| wrong(e.to_string().trim_end().to_owned()))?;
        let mut nodes: Vec<Node> = Vec::new();
        for node in &spec.nodes {
            // One more than can be is enough to be refused.
            for _ in 0..node.count.unwrap_or(1).min(MOST_NODES as u32 + 1) {
                let id = node.id.unwrap_or(nodes.last().map_or(0, |last| last.id.saturating_add(1)));
                let memory = memory(&node.memory).map_err(&wrong)?;
                nodes.push(Node { id, cpus: node.cpus, memory });
            }
        }
        let distances = match (spec.shape, spec.distances) {
            (Some(_), Some(_)) => return Err(wrong("has both `shape` and `distances`: expected one".into())),
            (_, Some(matrix)) => matrix,
            (shape, None) => {
                let shape: Shape = shape.as_deref().unwrap_or("full").parse().map_err(&wrong)?;
                shape.distances(nodes.len()).map_err(&wrong)?
            }
        };
        let local = spec.local_ns.unwrap_or(LOCAL_NS);
        let latency = spec.latency_ns.unwrap_or_else(|| latencies(&distances, local));
        let topology = Topology {
            name: spec.name,
            summary: spec.summary,
            nodes,
            distances,
            latency,
            hmat: spec.bandwidth_mb,
        };
        topology.check().map_err(wrong)?;
        Ok(topology)
    }

    /// A machine of like nodes whose distances have a shape or stand in a file. What is not said: four nodes, or as
    /// many as the file has; eight CPUs, but one for each node; 4 GiB; all nodes as far from each other.
    pub fn of_size(size: &Size) -> Result<Topology, LabError> {
        let how = size.distances.as_deref().unwrap_or("full");
        let (nodes, distances) = match how.parse::<Shape>() {
            Ok(shape) => {
                let nodes = size.nodes.unwrap_or(4);
                (nodes, shape.distances(nodes as usize).map_err(LabError::Usage)?)
            }
            Err(expected) => size.read_distances(how, &expected)?,
        };
        let cpus = size.cpus.unwrap_or(8.max(nodes));
        Topology::uniform(nodes, cpus, size.memory.unwrap_or(4 << 30), distances)
    }

    /// A machine of like nodes: CPUs and memory are dealt out evenly, the first nodes take what is left over.
    pub fn uniform(
        nodes: u32,
        cpus: u32,
        memory: u64,
        distances: Vec<Vec<u8>>,
    ) -> Result<Topology, LabError> {
        let name = format!("{nodes} nodes, {cpus} CPUs");
        let wrong = |reason: &str| LabError::Topology { name: name.clone(), reason: reason.into() };
        if nodes == 0 || cpus < nodes {
            return Err(wrong(
                "expected at least one node and one CPU for each (memory-only nodes need a topology file)",
            ));
        }
        let share = memory / u64::from(nodes) / (2 * MIB) * (2 * MIB);
        let node = |id: u32| Node { id, cpus: cpus / nodes + u32::from(id < cpus % nodes), memory: share };
        let topology = Topology {
            summary: "made from options".into(),
            nodes: (0..nodes).map(node).collect(),
            latency: latencies(&distances, LOCAL_NS),
            distances,
            hmat: None,
            name: name.clone(),
        };
        topology.check().map_err(|reason| wrong(&reason))?;
        Ok(topology)
    }

    fn check(&self) -> Result<(), String> {
        let count = self.nodes.len();
        let matrix = |lengths: Vec<usize>, what: &str| {
            let all = lengths.len() == count && lengths.iter().all(|&length| length == count);
            all.then_some(())
                .ok_or(format!("`{what}` is not a matrix of {count} by {count}, the number of nodes"))
        };
        let cpus: u64 = self.nodes.iter().map(|node| u64::from(node.cpus)).sum();
        if !(1..=MOST_NODES).contains(&count) || !(1..=MOST_CPUS as u64).contains(&cpus) {
            let found = if count > MOST_NODES { "too many".into() } else { count.to_string() };
            return Err(format!(
                "has {found} nodes and {cpus} CPUs: expected 1 to {MOST_NODES} and 1 to {MOST_CPUS}"
            ));
        }
        let rising = self.nodes.windows(2).all(|pair| pair[0].id < pair[1].id);
        if self.nodes[0].cpus == 0 || self.nodes[0].id != 0 || !rising || self.nodes[count - 1].id >= MOST_IDS
        {
            let ids: Vec<u32> = self.nodes.iter().map(|node| node.id).collect();
            return Err(format!(
                "node ids {ids:?}: expected them to rise from 0 and to be below {MOST_IDS}, and CPUs in the first node"
            ));
        }
        if let Some(small) =
            self.nodes.iter().find(|node| node.memory < LEAST_MEMORY || !node.memory.is_multiple_of(2 * MIB))
        {
            let found = format!("node {} has {} bytes of memory", small.id, small.memory);
            return Err(format!("{found}: expected a multiple of 2M, at least 64M"));
        }
        matrix(self.distances.iter().map(Vec::len).collect(), "distances")?;
        matrix(self.latency.iter().map(Vec::len).collect(), "latency_ns")?;
        if let Some(hmat) = &self.hmat {
            matrix(hmat.iter().map(Vec::len).collect(), "bandwidth_mb")?;
        }
        for (i, row) in self.distances.iter().enumerate() {
            if row[i] != 10 || row.iter().enumerate().any(|(j, &d)| i != j && !(11..=254).contains(&d)) {
                return Err(format!(
                    "row {i} of `distances` is {row:?}: expected 10 for the node itself, 11 to 254 for \
                others"
                ));
            }
        }
        let negative = self.latency.iter().flatten().any(|ns| !(ns.is_finite() && *ns > 0.0));
        (!negative).then_some(()).ok_or("`latency_ns` and `local_ns` must be positive".into())
    }

    /// CPUs of the whole machine.
    pub fn cpus(&self) -> u32 {
        self.nodes.iter().map(|node| node.cpus).sum()
    }

    /// Bytes of memory of the whole machine.
    pub fn memory(&self) -> u64 {
        self.nodes.iter().map(|node| node.memory).sum()
    }

    /// The index in [`Topology::nodes`] of each CPU's node. CPUs are numbered through the nodes in turn.
    pub fn node_of_cpu(&self) -> Vec<usize> {
        let of_node = |(index, node): (usize, &Node)| std::iter::repeat_n(index, node.cpus as usize);
        self.nodes.iter().enumerate().flat_map(of_node).collect()
    }

    /// QEMU's CPU slots in order: the index of the node, or `None` for the empty slot that stands for a gap between
    /// node ids.
    pub fn cpu_slots(&self) -> Vec<Option<usize>> {
        let mut slots = Vec::new();
        let mut next = 0;
        for (index, node) in self.nodes.iter().enumerate() {
            slots.extend((next..node.id).map(|_| None));
            slots.extend(std::iter::repeat_n(Some(index), node.cpus as usize));
            next = node.id + 1;
        }
        slots
    }

    /// The physical addresses of each node's memory as QEMU's q35 machine lays it out: from 0 up to a hole below 4 GiB,
    /// then from 4 GiB on. (Start, end, index of the node.)
    pub fn memory_map(&self) -> Vec<(u64, u64, usize)> {
        const HOLE_END: u64 = 4 << 30;
        // hw/i386/pc_q35.c: less lies below the hole when not all fits there.
        let hole_start = if self.memory() >= 0xb000_0000 { 0x8000_0000 } else { 0xb000_0000 };
        let mut map = Vec::new();
        let mut offset = 0;
        for (index, node) in self.nodes.iter().enumerate() {
            let end = offset + node.memory;
            if offset < hole_start {
                map.push((offset, end.min(hole_start), index));
            }
            if end > hole_start {
                map.push((
                    offset.max(hole_start) - hole_start + HOLE_END,
                    end - hole_start + HOLE_END,
                    index,
                ));
            }
            offset = end;
        }
        map
    }
}

/// Latencies in proportion to distances.
fn latencies(distances: &[Vec<u8>], local: f64) -> Vec<Vec<f64>> {
    distances.iter().map(|row| row.iter().map(|&d| f64::from(d) * local / 10.0).collect()).collect()
}

/// A distance matrix from a file: rows of numbers, separated by blanks or commas; `#` begins a comment.
pub fn distances_from_text(text: &str, name: &str) -> Result<Vec<Vec<u8>>, LabError> {
    let rows = text.lines().map(|line| line.split('#').next().unwrap_or("")).filter(|l| !l.trim().is_empty());
    let row = |line: &str| {
        let numbers = line.split([' ', '\t', ',']).filter(|word| !word.is_empty());
        numbers.map(str::parse).collect::<Result<Vec<u8>, _>>().map_err(|error| LabError::Topology {
            name: name.to_owned(),
            reason: format!("`{line}`: {error}: expected distances from 10 to 254"),
        })
    };
    rows.map(row).collect()
}

/// A size such as `512M` or `1G`. A bare number is refused: QEMU would take it for MiB, others
/// for bytes.
pub fn memory(text: &str) -> Result<u64, String> {
    let expected = || format!("`{text}` is no size of memory: expected one such as 512M or 4G");
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let unit = match unit.to_ascii_uppercase().as_str() {
        "M" | "MIB" => MIB,
        "G" | "GIB" => MIB << 10,
        _ => return Err(expected()),
    };
    digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit)).ok_or_else(expected)
}
