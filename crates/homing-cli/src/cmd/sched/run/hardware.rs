//! The machine that jobs share, as managers see it: CPUs counted from 0, node by node.

use crate::exit::{self, Code};
use homing_core::ids::{Cpu, Node};
use homing_core::machine::Machine;
use homing_live::host::Host;
use homing_sched::layout::{Hardware as Model, Layout};
use std::collections::HashMap;
use std::path::Path;

/// CPUs and nodes.
pub struct Hardware {
    /// For managers.
    pub layout: Layout,
    /// The kernel's number of each CPU.
    numbers: Vec<u32>,
    host: Host,
}

impl Hardware {
    /// Of these CPUs of this machine.
    pub fn of(cpus: &[u32]) -> anyhow::Result<Hardware> {
        let host =
            Host::read(Path::new("/sys")).map_err(|e| exit::error(Code::UNSUPPORTED, e.to_string()))?;
        let numbers: Vec<u32> = host.cpus().into_iter().filter(|cpu| cpus.contains(cpu)).collect();
        let nodes = host.nodes();
        let node_of = numbers.iter().map(|&cpu| host.node_of_cpu(cpu).unwrap_or(Node(0))).collect();
        let distance = (0..nodes).flat_map(|node| {
            let from = host.distances_from(Node(node as u16));
            (0..nodes).map(move |to| f64::from(from.get(to).copied().unwrap_or(10)))
        });
        let layout = Layout::new(node_of, nodes, distance.collect());
        Ok(Hardware { layout, numbers, host })
    }

    /// The kernel's numbers of CPUs.
    pub fn numbers(&self, cpus: &[Cpu]) -> Vec<u32> {
        cpus.iter().map(|cpu| self.numbers[cpu.index()]).collect()
    }

    /// The kernel's numbers of nodes.
    pub fn node_numbers(&self, nodes: &[Node]) -> Vec<u32> {
        nodes.iter().map(|&node| self.host.kernel_id(node)).collect()
    }

    /// What is known of this machine.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Pages at each node, from those at the kernel's nodes.
    pub fn pages(&self, by_kernel: &HashMap<u32, u64>) -> Vec<f64> {
        let mut pages = vec![0.0; self.layout.nodes()];
        for (&node, &count) in by_kernel {
            if let Some(node) = self.host.node(node) {
                pages[node.index()] += count as f64;
            }
        }
        pages
    }
}

/// The machine whose page moves are taken for this one's, as the model `host` does (docs/machines.md).
pub const MOVES_OF: &str = "two-socket";

/// Seconds that a page's move takes of a job, on [`MOVES_OF`]: the move and the interrupt.
pub fn move_s() -> f64 {
    let machine = Machine::builtin(MOVES_OF).expect("a machine that is built in");
    let model = Model::new(&machine).expect("it has times");
    model.move_s + model.shootdown_s
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_move_takes_some_microseconds() {
        // 1 us and 4096 bytes at 4 GB/s, and 2 us for the interrupt.
        assert!((move_s() - 4.024e-6).abs() < 1e-12, "{}", move_s());
    }
}
