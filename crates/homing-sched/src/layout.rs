//! What a scheduler knows of a machine: its CPUs, their nodes, and how far nodes are from each other.

use homing_core::ids::{Cpu, Node, PageSize};
use homing_core::machine::{Costs, Machine};
use homing_core::time::{NoTimes, Times};

/// CPUs and distances.
#[derive(Clone, Debug)]
pub struct Layout {
    node_of: Vec<Node>,
    nodes: usize,
    /// `distance[i * nodes + m]`, in any unit: only their order counts.
    distance: Vec<f64>,
}

impl Layout {
    /// CPUs with their nodes, and a square of distances.
    pub fn new(node_of: Vec<Node>, nodes: usize, distance: Vec<f64>) -> Layout {
        assert_eq!(distance.len(), nodes * nodes);
        assert!(node_of.iter().all(|node| node.index() < nodes));
        Layout { node_of, nodes, distance }
    }

    /// Number of CPUs.
    pub fn cpus(&self) -> usize {
        self.node_of.len()
    }

    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// The node of a CPU.
    pub fn node(&self, cpu: Cpu) -> Node {
        self.node_of[cpu.index()]
    }

    /// How far two nodes are from each other.
    pub fn distance(&self, from: Node, to: Node) -> f64 {
        self.distance[from.index() * self.nodes + to.index()]
    }

    /// Number of CPUs of a node.
    pub fn cpus_of(&self, node: Node) -> usize {
        self.node_of.iter().filter(|&&other| other == node).count()
    }

    /// The part of the machine that consists of some nodes' CPUs, numbered anew, and those CPUs' numbers here. Nodes
    /// keep their numbers.
    pub fn part(&self, has: impl Fn(Node) -> bool) -> (Layout, Vec<Cpu>) {
        let cpus: Vec<Cpu> = self.all().filter(|&cpu| has(self.node(cpu))).collect();
        let node_of = cpus.iter().map(|&cpu| self.node(cpu)).collect();
        (Layout { node_of, ..self.clone() }, cpus)
    }

    /// All CPUs.
    pub fn all(&self) -> impl Iterator<Item = Cpu> + '_ {
        (0..self.node_of.len()).map(|cpu| Cpu(cpu as u16))
    }
}

/// A machine with all that the simulation of jobs needs of it.
#[derive(Clone, Debug)]
pub struct Hardware {
    /// CPUs and distances.
    pub layout: Layout,
    /// What accesses and moves cost, for policies.
    pub costs: Costs,
    /// Seconds of a miss from each node to each memory, `[i * nodes + m]`, as far as the thread waits for it.
    pub wait_s: Vec<f64>,
    /// Seconds that a memory is busy with a line.
    pub memory_busy_s: f64,
    /// Share of a miss that a thread waits for.
    pub exposed: f64,
    /// Seconds of a page's move, and of the interrupt on each CPU that used it.
    pub move_s: f64,
    /// Seconds that a move takes of each CPU of the job.
    pub shootdown_s: f64,
    /// Bytes of a page.
    pub page_bytes: u64,
}

impl Hardware {
    /// That of a machine at its own page size.
    pub fn new(machine: &Machine) -> Result<Hardware, NoTimes> {
        let page_size = machine.page_size();
        let costs =
            machine.costs(page_size).expect("a machine is priced at its own page size when it is read");
        let times = Times::new(machine, page_size)?;
        let nodes = usize::from(machine.nodes());
        let each = |of: fn(&Times, Node, Node) -> f64| -> Vec<f64> {
            let all = (0..nodes).flat_map(|i| (0..nodes).map(move |m| (Node(i as u16), Node(m as u16))));
            all.map(|(i, m)| of(&times, i, m)).collect()
        };
        let node_of = (0..machine.nodes())
            .flat_map(|node| std::iter::repeat_n(Node(node), usize::from(machine.cpus_of(Node(node)))));
        let parameters = times.parameters();
        Ok(Hardware {
            layout: Layout::new(node_of.collect(), nodes, each(Times::latency_ns)),
            wait_s: each(|times, i, m| times.latency_ns(i, m) * times.parameters().exposed * 1e-9),
            memory_busy_s: parameters.memory_busy_ns * 1e-9,
            exposed: parameters.exposed,
            move_s: times.page_move_ns() * 1e-9,
            shootdown_s: parameters.shootdown_ns * 1e-9,
            page_bytes: PageSize::bytes(page_size),
            costs,
        })
    }

    /// Seconds of a miss, of which a thread waits for all, at a memory at rest.
    pub fn wait(&self, from: Node, to: Node) -> f64 {
        self.wait_s[from.index() * self.layout.nodes() + to.index()]
    }
}
