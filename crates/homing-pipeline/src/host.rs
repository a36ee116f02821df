//! The machine `host`: what the kernel and the firmware say about the machine that the program runs on.

use crate::error::{PipelineError, Result};
use homing_core::machine::Machine;
use homing_linux::topology::Topology;
use std::path::Path;

/// Latency in nanoseconds that a SLIT distance of 10 (local) stands for: a typical figure, not a measurement.
const LOCAL_NS: f64 = 80.0;

/// The machine model of this machine.
pub fn machine() -> Result<Machine> {
    let topology =
        Topology::read(Path::new("/sys")).map_err(|e| PipelineError::Unsupported(e.to_string()))?;
    model(&topology).map_err(|e| PipelineError::Failed(e.to_string()))
}

/// The model: distances from the firmware, page moves as on a typical server.
fn model(topology: &Topology) -> std::result::Result<Machine, homing_core::machine::MachineError> {
    let cpus: Vec<usize> = topology.nodes.iter().map(|node| node.cpus.len()).collect();
    let latency = |&distance: &u32| format!("{:.1}", f64::from(distance) * LOCAL_NS / 10.0);
    let row =
        |distances: &Vec<u32>| format!("[{}]", distances.iter().map(latency).collect::<Vec<_>>().join(", "));
    let matrix: Vec<String> = topology.nodes.iter().map(|node| row(&node.distances)).collect();
    let text = format!(
        "name = \"host\"\n\
         summary = \"this machine: the firmware's SLIT distances with 10 as {LOCAL_NS} ns, not measured\"\n\
         nodes = {}\ncpus_per_node = {cpus:?}\n\
         [latency]\nmatrix = [{}]\npage_move = {{ per_byte = 0.25, overhead = 1000.0 }}\n",
        topology.nodes.len(),
        matrix.join(", ")
    );
    Machine::from_toml(&text, "host")
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
        let machine = model(&Topology { nodes }).unwrap();
        let costs = machine.costs(PageSize::KIB4).unwrap();
        assert_eq!((machine.cpus(), machine.cpus_of(Node(2))), (4, 0));
        assert!((costs.access(Node(0), Node(1)) - 2.1).abs() < 1e-12);
        assert!(machine.summary().contains("not measured"));
        let one = model(&Topology { nodes: vec![node(0, &[0], &[10])] }).unwrap();
        assert_eq!(one.nodes(), 1, "a machine of one node is a machine");
        let same = vec![node(0, &[0], &[10, 10]), node(1, &[1], &[10, 10])];
        let costs = model(&Topology { nodes: same }).unwrap().costs(PageSize::KIB4).unwrap();
        assert_eq!(costs.access(Node(0), Node(1)), 1.0, "so is one without remote memory");
    }
}
