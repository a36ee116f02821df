//! The nodes of this machine as the kernel shows them under `/sys/devices/system/node`. Where it shows none (a kernel
//! without NUMA, a /sys that a container masks) the machine is one node. The root of /sys is an argument, so tests run
//! on snapshots.

use crate::policy::affinity;
use crate::proc::Tid;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The firmware's distance of a node to its own memory.
const LOCAL: u32 = 10;

/// One memory node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologyNode {
    /// The kernel's number of it; numbers need not be dense.
    pub id: u32,
    /// Its online CPUs; none for a memory-only node.
    pub cpus: Vec<u32>,
    /// The firmware's relative distance (ACPI SLIT, 10 is local) to each node of [`Topology::nodes`], in their order.
    pub distances: Vec<u32>,
}

/// The nodes that are online, by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// The nodes.
    pub nodes: Vec<TopologyNode>,
}

/// A topology that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TopologyError {
    /// A file that cannot be read.
    #[error("cannot read {path}: {source}; is /sys mounted?")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file that says something else than expected.
    #[error("{path} says `{found}`: expected {expected}")]
    Content {
        /// The file.
        path: PathBuf,
        /// Its content.
        found: String,
        /// What it should be.
        expected: &'static str,
    },
}

impl Topology {
    /// Reads the topology below `sys`, which is `/sys` on a live machine. Where the kernel shows no nodes it is node 0
    /// with all CPUs.
    ///
    /// # Errors
    /// If a node's file is missing or has not the kernel's form.
    pub fn read(sys: &Path) -> Result<Topology, TopologyError> {
        let folder = sys.join("devices/system/node");
        let ids = match read_list(&folder.join("online")) {
            Err(TopologyError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Ok(Topology::of_one_node(sys));
            }
            ids => ids?,
        };
        let mut nodes = Vec::new();
        for &id in &ids {
            let node = folder.join(format!("node{id}"));
            let cpus = read_list(&node.join("cpulist"))?;
            let path = node.join("distance");
            let text = read(&path)?;
            let distances: Option<Vec<u32>> = text.split_whitespace().map(|d| d.parse().ok()).collect();
            let distances = distances.filter(|d| d.len() == ids.len()).ok_or(TopologyError::Content {
                path,
                found: text,
                expected: "one distance for each online node",
            })?;
            nodes.push(TopologyNode { id, cpus, distances });
        }
        Ok(Topology { nodes })
    }

    /// Node 0 with all CPUs that are online, or that this process may use where /sys does not say which those are.
    fn of_one_node(sys: &Path) -> Topology {
        let cpus = read_list(&sys.join("devices/system/cpu/online")).ok().filter(|cpus| !cpus.is_empty());
        let cpus = cpus.or_else(|| affinity(Tid(0)).ok()).unwrap_or_else(|| vec![0]);
        Topology { nodes: vec![TopologyNode { id: 0, cpus, distances: vec![LOCAL] }] }
    }

    /// True if the memory of some node is farther from another node than from its own. False on a machine of one node,
    /// and where the firmware gives all memory the same distance: then it does not matter where pages are.
    pub fn has_remote_memory(&self) -> bool {
        let mut nodes = self.nodes.iter().enumerate();
        nodes.any(|(own, node)| node.distances.iter().any(|distance| *distance > node.distances[own]))
    }
}

fn read(path: &Path) -> Result<String, TopologyError> {
    let text =
        fs::read_to_string(path).map_err(|source| TopologyError::Read { path: path.into(), source })?;
    Ok(text.trim().to_owned())
}

/// A file with a list such as `0-3,5`; empty for none.
fn read_list(path: &Path) -> Result<Vec<u32>, TopologyError> {
    let text = read(path)?;
    parse_list(&text).ok_or_else(|| TopologyError::Content {
        path: path.into(),
        found: text,
        expected: "a list such as 0-3,5",
    })
}

/// No kernel has CPUs or nodes of this number.
const MOST: u32 = 1 << 16;

/// The numbers of a list such as `0-3,5`; `None` also for numbers that no CPU and no node has, and for more of them.
pub fn parse_list(text: &str) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let (low, high): (u32, u32) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
        all.extend(low..=Some(high).filter(|&high| high < MOST)?);
        if all.len() > MOST as usize {
            return None;
        }
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_bounded() {
        assert_eq!(parse_list("0-2,8,"), Some(vec![0, 1, 2, 8]));
        assert_eq!(parse_list("0-65535").map(|all| all.len()), Some(1 << 16));
        for wild in ["0-4294967295", "65536", "0-65535,0", "1-x"] {
            assert_eq!(parse_list(wild), None, "{wild}");
        }
    }

    fn snapshot(online: &str, nodes: &[(u32, &str, &str)]) -> tempfile::TempDir {
        let sys = tempfile::tempdir().unwrap();
        let folder = sys.path().join("devices/system/node");
        for (id, cpus, distances) in nodes {
            let node = folder.join(format!("node{id}"));
            fs::create_dir_all(&node).unwrap();
            fs::write(node.join("cpulist"), format!("{cpus}\n")).unwrap();
            fs::write(node.join("distance"), format!("{distances}\n")).unwrap();
        }
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("online"), format!("{online}\n")).unwrap();
        sys
    }

    #[test]
    fn nodes_need_not_be_dense_nor_have_cpus() {
        let sys =
            snapshot("0,2-3", &[(0, "0-1,4", "10 21 28"), (2, "2-3,5", "21 10 28"), (3, "", "28 28 10")]);
        let topology = Topology::read(sys.path()).unwrap();
        let ids: Vec<_> = topology.nodes.iter().map(|n| n.id).collect();
        assert_eq!(ids, [0, 2, 3]);
        assert_eq!(topology.nodes[1].cpus, [2, 3, 5]);
        assert_eq!(topology.nodes[2].cpus, []);
        assert_eq!(topology.nodes[2].distances, [28, 28, 10]);
    }

    #[test]
    fn a_kernel_that_shows_no_nodes_has_one_with_all_cpus() {
        let sys = tempfile::tempdir().unwrap();
        let nodes = |sys: &Path| Topology::read(sys).unwrap().nodes;
        let all = |cpus: Vec<u32>| vec![TopologyNode { id: 0, cpus, distances: vec![10] }];
        assert_eq!(nodes(sys.path()), all(affinity(Tid(0)).unwrap()), "no /sys at all");
        fs::create_dir_all(sys.path().join("devices/system/node")).unwrap();
        fs::create_dir_all(sys.path().join("devices/system/cpu")).unwrap();
        fs::write(sys.path().join("devices/system/cpu/online"), "0-2,7\n").unwrap();
        assert_eq!(nodes(sys.path()), all(vec![0, 1, 2, 7]), "an empty directory");
        assert!(!Topology::read(sys.path()).unwrap().has_remote_memory());
    }

    #[test]
    fn memory_is_remote_where_some_distance_is_longer_than_the_local_one() {
        let remote = |first: &str, second: &str| {
            let sys = snapshot("0-1", &[(0, "0", first), (1, "1", second)]);
            Topology::read(sys.path()).unwrap().has_remote_memory()
        };
        assert!(!remote("10 10", "10 10"));
        assert!(remote("10 11", "10 10") && remote("10 10", "20 10") && remote("10 21", "21 10"));
    }

    #[test]
    fn errors_name_the_file_and_what_it_says() {
        let sys = snapshot("0-1", &[(0, "0", "10 21"), (1, "1", "10")]);
        let error = Topology::read(sys.path()).unwrap_err().to_string();
        assert!(error.contains("node1/distance says `10`: expected one distance"), "{error}");
        let sys = snapshot("zero", &[]);
        assert!(Topology::read(sys.path()).unwrap_err().to_string().contains("a list such as 0-3,5"));
        let sys = snapshot("0", &[]);
        assert!(Topology::read(sys.path()).unwrap_err().to_string().contains("cpulist"));
    }
}
