//! The machine `host`: what the kernel and the firmware say about the machine that the program runs on.

use crate::error::{PipelineError, Result};
use homing_core::machine::{Machine, MachineError};
use homing_linux::caches::{self, Cache};
use homing_linux::topology::Topology;
use std::path::Path;

/// Latency in nanoseconds that a SLIT distance of 10 (local) stands for: a typical figure, not a measurement.
const LOCAL_NS: f64 = 80.0;

/// The machine model of this machine.
pub fn machine() -> Result<Machine> {
    let sys = Path::new("/sys");
    let topology = Topology::read(sys).map_err(|e| PipelineError::Unsupported(e.to_string()))?;
    model(&topology, &caches(sys, &topology)).map_err(|e| PipelineError::Failed(e.to_string()))
}

/// The caches of the first CPU.
fn caches(sys: &Path, topology: &Topology) -> Vec<Cache> {
    let first = topology.nodes.iter().find_map(|node| node.cpus.first());
    first.map_or(Vec::new(), |&cpu| caches::of_cpu(sys, cpu))
}

/// The sections `[hierarchy]` and `[time]` of this machine's file: caches as the kernel shows them, all else typical
/// figures. `busy_ns`: how long a memory and a link are busy with a line, where that was measured.
pub fn hierarchy(busy_ns: Option<[f64; 2]>) -> String {
    let sys = Path::new("/sys");
    let caches = Topology::read(sys).map_or(Vec::new(), |topology| caches(sys, &topology));
    sections(&caches, busy_ns)
}

/// A level of cache where the kernel does not show it: bytes, ways, nanoseconds of a hit, CPUs that share it.
const TYPICAL: [(u64, u32, f64, u32); 3] =
    [(32 << 10, 8, 1.5, 1), (1 << 20, 16, 5.0, 1), (32 << 20, 16, 20.0, 16)];
/// Nanoseconds that a memory and a link are busy with a line: 128 and 50 GB/s.
const BUSY_NS: [f64; 2] = [0.5, 1.3];

fn sections(caches: &[Cache], busy_ns: Option<[f64; 2]>) -> String {
    let [memory, link] = busy_ns.unwrap_or(BUSY_NS);
    let known = |level: usize| caches.iter().find(|cache| cache.level as usize == level + 1);
    let mut text = "[hierarchy]\n".to_owned();
    for (level, (bytes, ways, ns, cpus)) in TYPICAL.into_iter().enumerate() {
        let typical = Cache { level: level as u32 + 1, bytes, ways, line: 64, cpus };
        // A machine that shows two levels has no third.
        let Some(cache) =
            known(level).copied().or_else(|| (level < 2 || caches.is_empty()).then_some(typical))
        else {
            continue;
        };
        let shared = if level == 2 { format!(", cpus = {}", cache.cpus.max(1)) } else { String::new() };
        let (size, ways) = shape(&cache);
        text += &format!(
            "l{} = {{ size = \"{size}K\", ways = {ways}, line = {}, ns = {ns}{shared} }}\n",
            level + 1,
            cache.line
        );
    }
    text + &format!(
        "tlb = [{{ entries = 64, ways = 4 }}, {{ entries = 2048, ways = 16 }}]\n\
         [time]\ncompute_ns = 0.5\nexposed = 0.4\nmemory_busy_ns = {memory:.3}\nlink_busy_ns = {link:.3}\n\
         tlb_miss_ns = 10.0\nshootdown_ns = 2000.0\n"
    )
}

/// KiB and ways of a cache, as the model has them: with a power of two of sets, as near as ways allow.
fn shape(cache: &Cache) -> (u64, u32) {
    let ways = if cache.ways == 0 { 16 } else { cache.ways };
    let sets = (cache.bytes / (u64::from(ways) * cache.line)).max(1);
    let sets = 1 << sets.ilog2();
    let ways = (cache.bytes / (sets * cache.line)).max(1);
    ((sets * ways * cache.line) >> 10, ways as u32)
}

/// The model: distances from the firmware, caches from the kernel, page moves as on a typical server.
fn model(topology: &Topology, caches: &[Cache]) -> std::result::Result<Machine, MachineError> {
    let cpus: Vec<usize> = topology.nodes.iter().map(|node| node.cpus.len()).collect();
    let ids: Vec<u32> = topology.nodes.iter().map(|node| node.id).collect();
    let latency = |&distance: &u32| format!("{:.1}", f64::from(distance) * LOCAL_NS / 10.0);
    let row =
        |distances: &Vec<u32>| format!("[{}]", distances.iter().map(latency).collect::<Vec<_>>().join(", "));
    let matrix: Vec<String> = topology.nodes.iter().map(|node| row(&node.distances)).collect();
    let of_caches = if caches.is_empty() { "typical caches" } else { "caches as the kernel shows them" };
    let text = |sections: &str| {
        format!(
            "name = \"host\"\n\
             summary = \"this machine: the firmware's SLIT distances with 10 as {LOCAL_NS} ns, {of_caches}, typical \
             times; not measured\"\n\
             nodes = {}\nnode_ids = {ids:?}\ncpus_per_node = {cpus:?}\n\
             [latency]\nmatrix = [{}]\npage_move = {{ per_byte = 0.25, overhead = 1000.0 }}\n{sections}",
            topology.nodes.len(),
            matrix.join(", ")
        )
    };
    let machine = Machine::from_toml(&text(&sections(caches, None)), "host")?;
    match machine.hierarchy(machine.page_size()) {
        Ok(_) => Ok(machine),
        // Caches that the model does not take, such as those of an emulator.
        Err(_) => Machine::from_toml(&text(&sections(&[], None)), "host"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use homing_core::ids::{Node, PageSize};
    use homing_linux::topology::TopologyNode;

    #[test]
    fn distances_become_latencies() {
        let node = |id, cpus: &[u32], distances: &[u32]| TopologyNode {
            id,
            cpus: cpus.to_vec(),
            distances: distances.to_vec(),
        };
        let nodes = vec![
            node(0, &[0, 1], &[10, 21, 17]),
            node(1, &[2, 3], &[21, 10, 28]),
            node(4, &[], &[17, 28, 10]),
        ];
        let machine = model(&Topology { nodes }, &[]).unwrap();
        let costs = machine.costs(PageSize::KIB4).unwrap();
        assert_eq!((machine.cpus(), machine.cpus_of(Node(2))), (4, 0));
        assert!((costs.access(Node(0), Node(1)) - 2.1).abs() < 1e-12);
        assert!(machine.summary().contains("not measured"));
        let one = model(&Topology { nodes: vec![node(0, &[0], &[10])] }, &[]).unwrap();
        assert_eq!(one.nodes(), 1, "a machine of one node is a machine");
        let same = vec![node(0, &[0], &[10, 10]), node(1, &[1], &[10, 10])];
        let costs = model(&Topology { nodes: same }, &[]).unwrap().costs(PageSize::KIB4).unwrap();
        assert_eq!(costs.access(Node(0), Node(1)), 1.0, "so is one without remote memory");
    }
    #[test]
    fn caches_are_those_of_the_machine_and_typical_where_it_shows_none() {
        let nodes = [10, 20].map(|far| vec![far, 30 - far]).into_iter().zip(4..);
        let nodes = nodes.map(|(distances, id)| TopologyNode { id, cpus: vec![id], distances }).collect();
        let topology = Topology { nodes };
        let cache = |level, bytes, ways, cpus| Cache { level, bytes, ways, line: 64, cpus };
        let shown = [cache(1, 48 << 10, 12, 1), cache(2, 2 << 20, 16, 1), cache(3, 36 << 20, 12, 32)];
        let shape = |caches: &[Cache]| {
            let machine = model(&topology, caches).unwrap();
            assert_eq!((machine.node_id(Node(0)), machine.node_id(Node(1))), (4, 5));
            assert!(machine.time().unwrap().is_some());
            machine.hierarchy(machine.page_size()).unwrap().unwrap()
        };
        let (l3, cpus) = shape(&shown).l3.unwrap();
        // A power of two of sets.
        assert_eq!((l3.bytes(), l3.sets, l3.ways, cpus), (36 << 20, 1 << 15, 18, 32));
        assert_eq!((shape(&shown).l1.bytes(), shape(&shown[..2]).l3), (48 << 10, None));
        assert_eq!(shape(&[]).l3.unwrap().0.bytes(), 32 << 20);
    }
}
