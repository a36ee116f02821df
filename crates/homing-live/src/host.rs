//! The machine's nodes with dense numbers. The kernel's node numbers may have holes; policies count from 0.

use homing_core::ids::Node;
use homing_linux::topology::{Topology, TopologyError};
use std::fs;
use std::path::{Path, PathBuf};

/// Share of a node's memory that stays free: moves beyond it are refused (the pressure filter of Nikolopoulos 2000,
/// section 2.2).
const RESERVE: f64 = 0.02;

/// Nodes and CPUs of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    sys: PathBuf,
    /// The kernel's number of each node.
    ids: Vec<u32>,
    /// CPUs of each node.
    cpus: Vec<Vec<u32>>,
    /// Node of each CPU.
    node_of_cpu: Vec<Option<Node>>,
    /// Of each node, the firmware's distances.
    distances: Vec<Vec<u32>>,
    has_remote_memory: bool,
}

impl Host {
    /// Reads the topology below `sys`.
    ///
    /// # Errors
    /// As for [`Topology::read`].
    pub fn read(sys: &Path) -> Result<Host, TopologyError> {
        let topology = Topology::read(sys)?;
        let has_remote_memory = topology.has_remote_memory();
        let mut node_of_cpu: Vec<Option<Node>> = Vec::new();
        for (index, node) in topology.nodes.iter().enumerate() {
            for &cpu in &node.cpus {
                let cpu = cpu as usize;
                node_of_cpu.resize(node_of_cpu.len().max(cpu + 1), None);
                // Emulated nodes (`numa=fake`) list the CPUs of their memory each; a CPU is of the first.
                node_of_cpu[cpu].get_or_insert(Node(index as u16));
            }
        }
        let ids = topology.nodes.iter().map(|node| node.id).collect();
        let (cpus, distances) = topology.nodes.into_iter().map(|node| (node.cpus, node.distances)).unzip();
        Ok(Host { sys: sys.to_owned(), ids, cpus, node_of_cpu, distances, has_remote_memory })
    }

    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.ids.len()
    }

    /// The kernel's number of a node.
    pub fn kernel_id(&self, node: Node) -> u32 {
        self.ids[node.index()]
    }

    /// The node with the kernel's number.
    pub fn node(&self, kernel_id: u32) -> Option<Node> {
        self.ids.iter().position(|&id| id == kernel_id).map(|index| Node(index as u16))
    }

    /// The node of a CPU.
    pub fn node_of_cpu(&self, cpu: u32) -> Option<Node> {
        self.node_of_cpu.get(cpu as usize).copied().flatten()
    }

    /// CPUs of a node.
    pub fn cpus_of(&self, node: Node) -> &[u32] {
        &self.cpus[node.index()]
    }

    /// All CPUs, node by node, each once.
    pub fn cpus(&self) -> Vec<u32> {
        let of = |node: usize| {
            let node = Node(node as u16);
            self.cpus_of(node).iter().copied().filter(move |&cpu| self.node_of_cpu(cpu) == Some(node))
        };
        (0..self.nodes()).flat_map(of).collect()
    }

    /// True if it matters which node a page is on: [`Topology::has_remote_memory`].
    pub fn has_remote_memory(&self) -> bool {
        self.has_remote_memory
    }

    /// The firmware's relative distances (ACPI SLIT, 10 is local) from a node to each.
    pub fn distances_from(&self, node: Node) -> &[u32] {
        &self.distances[node.index()]
    }

    /// Bytes that a node can still take: a reserve stays free. `None` if the kernel does not say.
    pub fn room(&self, node: Node) -> Option<u64> {
        let (free, total) = self.memory(node)?;
        Some(free.saturating_sub((total as f64 * RESERVE) as u64))
    }

    /// Free and total bytes of a node; `None` if the kernel does not say. A machine of one node has all memory there.
    pub fn memory(&self, node: Node) -> Option<(u64, u64)> {
        let path = self.sys.join(format!("devices/system/node/node{}/meminfo", self.kernel_id(node)));
        let of_all = |_| if self.nodes() == 1 { fs::read_to_string("/proc/meminfo").ok() } else { None };
        let text = fs::read_to_string(path).map_or_else(of_all, Some)?;
        let field = |name: &str| {
            let line = text.lines().find(|line| line.contains(name))?;
            Some(line.split_whitespace().rev().nth(1)?.parse::<u64>().ok()? * 1024)
        };
        Some((field("MemFree:")?, field("MemTotal:")?))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A snapshot of /sys with two CPUs a node, nodes numbered 0, 2, 4, ...
    pub(crate) fn snapshot(nodes: u32) -> (tempfile::TempDir, Host) {
        let sys = tempfile::tempdir().unwrap();
        let folder = sys.path().join("devices/system/node");
        for node in 0..nodes {
            let path = folder.join(format!("node{}", 2 * node));
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join("cpulist"), format!("{}-{}\n", 2 * node, 2 * node + 1)).unwrap();
            let distances: Vec<_> =
                (0..nodes).map(|to| if to == node { "10" } else { "20" }.to_owned()).collect();
            fs::write(path.join("distance"), distances.join(" ")).unwrap();
            let id = 2 * node;
            let text = format!("Node {id} MemTotal: 4096 kB\nNode {id} MemFree:  1024 kB\n");
            fs::write(path.join("meminfo"), text).unwrap();
        }
        let online: Vec<_> = (0..nodes).map(|node| (2 * node).to_string()).collect();
        fs::write(folder.join("online"), online.join(",")).unwrap();
        let host = Host::read(sys.path()).unwrap();
        (sys, host)
    }

    #[test]
    fn emulated_nodes_share_cpus_and_no_memory_is_remote() {
        let sys = tempfile::tempdir().unwrap();
        for node in ["node0", "node1"] {
            let path = sys.path().join("devices/system/node").join(node);
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join("cpulist"), "0-3\n").unwrap();
            fs::write(path.join("distance"), "10 10\n").unwrap();
        }
        fs::write(sys.path().join("devices/system/node/online"), "0-1\n").unwrap();
        let host = Host::read(sys.path()).unwrap();
        assert_eq!((host.nodes(), host.cpus(), host.has_remote_memory()), (2, vec![0, 1, 2, 3], false));
        assert_eq!((host.node_of_cpu(3), host.memory(Node(1))), (Some(Node(0)), None));
        assert!(snapshot(2).1.has_remote_memory());
    }

    #[test]
    fn a_kernel_without_numa_has_one_node_with_all_memory() {
        let host = Host::read(tempfile::tempdir().unwrap().path()).unwrap();
        assert_eq!((host.nodes(), host.kernel_id(Node(0)), host.has_remote_memory()), (1, 0, false));
        let (free, total) = host.memory(Node(0)).unwrap();
        assert!(free <= total && total > 0 && !host.cpus().is_empty());
    }

    #[test]
    fn node_numbers_are_dense_inside_and_the_kernels_outside() {
        let (_sys, host) = snapshot(3);
        assert_eq!((host.nodes(), host.kernel_id(Node(2)), host.node(4)), (3, 4, Some(Node(2))));
        assert_eq!((host.node(3), host.node_of_cpu(5), host.node_of_cpu(6)), (None, Some(Node(2)), None));
        assert_eq!((host.cpus_of(Node(1)), host.cpus().len()), (&[2, 3][..], 6));
        assert_eq!(host.memory(Node(1)), Some((1 << 20, 4 << 20)));
    }
}
