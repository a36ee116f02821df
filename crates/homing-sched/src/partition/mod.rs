//! Partitions of a machine (Brock et al. 2001, section 5): nodes with jobs and a CPU manager of their own.
//!
//! Jobs run on the nodes of their partition only, and their pages are placed there. *Static* partitions keep their
//! nodes. *Dynamic* ones have goals, and the global resource manager ([`resources`]) moves nodes between them: the
//! jobs give up the node's CPUs, then their pages leave it, and then the other partition gets it. Meanwhile the node
//! is idle, which is what a transfer costs.
//!
//! [`Partitioned`] is a CPU manager that asks those of the partitions, each about its own part of the machine. So
//! partitions work wherever managers do: in the simulation and on real processes.

pub mod file;
pub mod resources;
#[cfg(test)]
mod tests;

use super::layout::Layout;
use super::manager::table::{self, Settings};
use super::manager::{shares, Allocation, Decision, JobView, Manager, Measures, Scene, Vacate, Why};
use super::JobId;
use file::Partition;
use homing_core::ids::{Cpu, Node};
use resources::{Load, Resources, Want};
use serde::Serialize;

/// Number of a partition, in the order of the file.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, serde::Deserialize,
)]
#[serde(transparent)]
pub struct PartitionId(pub u32);

impl PartitionId {
    /// The number as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// How a partition fared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OfPartition {
    /// Its name.
    pub partition: String,
    /// The nodes that it has in the end.
    pub nodes: Vec<u16>,
    /// Mean number of nodes.
    pub mean_nodes: f64,
    /// Mean number of processors that its jobs asked for, whether they ran or waited.
    pub mean_demand: f64,
    /// Processor time that jobs had, in per cent of what the partition had.
    pub utilisation_percent: f64,
    /// Jobs that ended.
    pub jobs: u64,
    /// Their mean seconds from arrival to end.
    pub turnaround_s: f64,
}

/// A node that went to another partition.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Transfer {
    /// Seconds since the begin at which its CPUs were taken.
    pub at_s: f64,
    /// Seconds until it was given: the time in which pages left it.
    pub seconds: f64,
    /// The node.
    pub node: u16,
    /// Who had it; nobody where there is none.
    pub from: Option<String>,
    /// Who got it.
    pub to: String,
    /// Pages that left it.
    pub pages_moved: u64,
    /// Pages that stayed on it.
    pub pages_left: u64,
    /// Processor seconds for which its CPUs stood idle.
    pub idle_cpu_s: f64,
}

/// How a divided machine fared.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Division {
    /// By partition.
    pub partitions: Vec<OfPartition>,
    /// By time.
    pub transfers: Vec<Transfer>,
}

impl Division {
    /// Takes the jobs that ended: their partitions, and their seconds from arrival to end.
    pub fn with_jobs(mut self, ended: &[(PartitionId, f64)]) -> Division {
        for (index, partition) in self.partitions.iter_mut().enumerate() {
            let mine = || ended.iter().filter(|(of, _)| of.index() == index);
            partition.jobs = mine().count() as u64;
            partition.turnaround_s =
                mine().map(|(_, seconds)| seconds).sum::<f64>() / (partition.jobs as f64).max(1.0);
        }
        self
    }
}

/// Sums over time of one partition.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    nodes: f64,
    cpus: f64,
    demand: f64,
    busy: f64,
}

/// A job, whether it runs, and whether its number of threads follows its processors. A change of these is told to its
/// manager.
type Known = (JobId, bool, bool);

/// One partition with its manager.
struct Part {
    spec: Partition,
    manager: Box<dyn Manager>,
    /// What it decided last, in the machine's CPUs.
    allocations: Vec<(JobId, Allocation)>,
    wake_s: Option<f64>,
    known: Vec<Known>,
    /// Its nodes changed since its manager was asked.
    changed: bool,
    sums: Sums,
    load: Load,
}

/// A node on its way.
#[derive(Clone, Copy, Debug)]
struct Transit {
    node: Node,
    from: Option<usize>,
    to: usize,
    since_s: f64,
}

/// A CPU manager made of those of partitions.
pub struct Partitioned {
    layout: Layout,
    parts: Vec<Part>,
    /// The partition of each node.
    owner: Vec<Option<usize>>,
    resources: Resources,
    /// Seconds that a page's move takes.
    move_s: f64,
    transit: Option<Transit>,
    transfers: Vec<Transfer>,
    /// When loads were last counted, and when first.
    now_s: f64,
    begin_s: Option<f64>,
}

impl Partitioned {
    /// Of partitions that were checked ([`file::check`]). Those that name no manager have `manager`.
    pub fn of(
        layout: &Layout,
        partitions: Vec<Partition>,
        manager: &table::Entry,
        settings: Settings,
        window_s: f64,
        move_s: f64,
    ) -> Partitioned {
        let with = |partition: Partition| {
            let own = partition.manager.as_deref().and_then(table::find);
            let built = (own.unwrap_or(manager).build)(settings);
            (partition, built)
        };
        Partitioned::new(layout, partitions.into_iter().map(with).collect(), window_s, move_s)
    }

    /// Of partitions that were checked, each with its manager.
    pub fn new(
        layout: &Layout,
        partitions: Vec<(Partition, Box<dyn Manager>)>,
        window_s: f64,
        move_s: f64,
    ) -> Partitioned {
        let mut owner = vec![None; layout.nodes()];
        for (index, (partition, _)) in partitions.iter().enumerate() {
            partition.nodes.iter().for_each(|&node| owner[usize::from(node)] = Some(index));
        }
        let goals = partitions.iter().map(|(partition, _)| partition.goal()).collect();
        let part = |(spec, manager)| Part {
            spec,
            manager,
            allocations: Vec::new(),
            wake_s: None,
            known: Vec::new(),
            changed: true,
            sums: Sums::default(),
            load: Load::default(),
        };
        Partitioned {
            layout: layout.clone(),
            parts: partitions.into_iter().map(part).collect(),
            owner,
            resources: Resources::new(goals, window_s),
            move_s,
            transit: None,
            transfers: Vec::new(),
            now_s: 0.0,
            begin_s: None,
        }
    }

    fn nodes_of(&self, part: usize) -> impl Iterator<Item = Node> + '_ {
        let mine = move |(_, owner): &(usize, &Option<usize>)| **owner == Some(part);
        self.owner.iter().enumerate().filter(mine).map(|(node, _)| Node(node as u16))
    }

    /// Nodes with CPUs that no partition has.
    fn spare(&self) -> Vec<Node> {
        let leaves = self.transit.map(|transit| transit.node);
        let nobodys = |node: &Node| {
            self.owner[node.index()].is_none() && Some(*node) != leaves && self.layout.cpus_of(*node) > 0
        };
        (0..self.owner.len()).map(|node| Node(node as u16)).filter(nobodys).collect()
    }

    /// Takes what partitions had since the last time.
    fn account(&mut self, now_s: f64) {
        if self.begin_s.is_none() {
            (self.begin_s, self.now_s) = (Some(now_s), now_s);
        }
        let seconds = now_s - self.now_s;
        for part in 0..self.parts.len() {
            let nodes: Vec<Node> = self.nodes_of(part).collect();
            let cpus: usize = nodes.iter().map(|&node| self.layout.cpus_of(node)).sum();
            let Part { sums, load, .. } = &mut self.parts[part];
            sums.nodes += seconds * nodes.len() as f64;
            sums.cpus += seconds * cpus as f64;
            sums.demand += seconds * load.demand;
            sums.busy += seconds * load.busy;
        }
        let loads: Vec<Load> = self.parts.iter().map(|part| part.load).collect();
        self.resources.note(seconds, &loads);
        self.now_s = now_s;
    }

    /// A node has been left: the other partition gets it.
    fn arrive(&mut self, now_s: f64, moved: u64, left: u64) {
        let Some(Transit { node, from, to, since_s }) = self.transit.take() else { return };
        self.owner[node.index()] = Some(to);
        self.parts[to].changed = true;
        let name = |part: usize| self.parts[part].spec.name.clone();
        self.transfers.push(Transfer {
            at_s: since_s,
            seconds: now_s - since_s,
            node: node.0,
            from: from.map(name),
            to: name(to),
            pages_moved: moved,
            pages_left: left,
            idle_cpu_s: (now_s - since_s) * self.layout.cpus_of(node) as f64,
        });
        self.resources.begin_anew();
    }

    /// Begins a transfer, if goals ask for one and it is worth what it costs.
    fn consider(&mut self, scene: &Scene) -> Option<Vacate> {
        if !self.resources.is_due() || self.transit.is_some() {
            return None;
        }
        let with_cpus = |node: &Node| self.layout.cpus_of(*node) > 0;
        let has: Vec<usize> =
            (0..self.parts.len()).map(|part| self.nodes_of(part).filter(with_cpus).count()).collect();
        let nodes = (0..self.owner.len()).filter(|&node| with_cpus(&Node(node as u16))).count();
        let each = self.layout.cpus() as f64 / nodes as f64;
        let wants = self.resources.wants(&has, self.spare().len(), each);
        for Want { to, from, short, lasting_s } in wants {
            let Some((node, pages)) = self.cheapest(scene, from, to) else { continue };
            let idle_s = pages * self.move_s;
            // There, and back once it is not wanted any more.
            let cost = 2.0 * idle_s * self.layout.cpus_of(node) as f64;
            if short.min(self.layout.cpus_of(node) as f64) * lasting_s > cost {
                return Some(self.begin(scene, node, from, to));
            }
        }
        None
    }

    /// The node that is given up with least ado, and the pages on it: fewest pages, then nearest to the other
    /// partition. None if jobs whose threads do not follow would have no room.
    fn cheapest(&self, scene: &Scene, from: Option<usize>, to: usize) -> Option<(Node, f64)> {
        let Some(from) = from else { return self.spare().first().map(|&node| (node, 0.0)) };
        let cpus: usize = self.nodes_of(from).map(|node| self.layout.cpus_of(node)).sum();
        let mine = || scene.running().filter(|job| job.partition.index() == from);
        let least: usize = mine().filter(|job| !job.malleable).map(shares::least_of).sum();
        let pages = |node: Node| -> f64 { mine().filter_map(|job| job.pages.get(node.index())).sum() };
        let far =
            |node: Node| -> f64 { self.nodes_of(to).map(|other| self.layout.distance(other, node)).sum() };
        let fits = |node: &Node| {
            let leaves = self.layout.cpus_of(*node);
            leaves > 0 && cpus - leaves >= least.max(1)
        };
        let nodes = self.nodes_of(from).filter(fits).map(|node| (node, pages(node)));
        nodes.min_by(|a, b| a.1.total_cmp(&b.1).then(far(a.0).total_cmp(&far(b.0))).then(b.0.cmp(&a.0)))
    }

    fn begin(&mut self, scene: &Scene, node: Node, from: Option<usize>, to: usize) -> Vacate {
        self.owner[node.index()] = None;
        self.transit = Some(Transit { node, from, to, since_s: scene.now_s });
        let Some(from) = from else { return Vacate { node, ..Vacate::default() } };
        self.parts[from].changed = true;
        let mine = scene.running().filter(|job| job.partition.index() == from);
        Vacate { node, jobs: mine.map(|job| job.id).collect(), to: self.nodes_of(from).collect() }
    }

    /// Asks the manager of a partition, if something that concerns it has happened.
    fn ask(&mut self, part: usize, scene: &Scene) {
        let jobs = || scene.jobs.iter().filter(|job| job.partition.index() == part);
        let known: Vec<Known> = jobs().map(|job| (job.id, job.running, job.malleable)).collect();
        let others = known != self.parts[part].known;
        let due = self.parts[part].wake_s.is_some_and(|wake| wake <= scene.now_s);
        let changed = std::mem::take(&mut self.parts[part].changed);
        let why = match scene.why {
            Why::Report(id) if known.iter().any(|(mine, ..)| *mine == id) => scene.why,
            Why::Arrival | Why::Completion if others => scene.why,
            _ if others || changed => Why::Arrival,
            _ if due => Why::Due,
            _ => return,
        };
        let (layout, cpus) = self.layout.part(|node| self.owner[node.index()] == Some(part));
        let inside = |job: &JobView| {
            let own: Vec<Cpu> = job.cpus.iter().filter_map(|cpu| local(&cpus, *cpu)).collect();
            // One whose CPUs all went with a node waits for others, as if it came anew.
            let running = job.running && !own.is_empty();
            JobView { request: job.request.min(cpus.len() as u32), cpus: own, running, ..job.clone() }
        };
        let jobs: Vec<JobView> = jobs().map(inside).collect();
        let demand: f64 = scene
            .jobs
            .iter()
            .filter(|job| job.partition.index() == part)
            .map(|job| f64::from(job.request))
            .sum();
        let Part { manager, allocations, wake_s, known: was, load, .. } = &mut self.parts[part];
        let decision = manager.decide(&Scene { now_s: scene.now_s, why, layout: &layout, jobs: &jobs });
        let outside = |(id, allocation)| match allocation {
            Allocation::Cpus(list) => {
                let list: Vec<Cpu> = list.into_iter().map(|cpu: Cpu| cpus[cpu.index()]).collect();
                (id, Allocation::Cpus(list))
            }
            shared => (id, shared),
        };
        *allocations = decision.allocations.into_iter().map(outside).collect();
        *wake_s = decision.wake_s;
        // Who begins runs from now on.
        let runs = |id: &JobId, running: bool| running || allocations.iter().any(|(other, _)| other == id);
        *was =
            known.into_iter().map(|(id, running, malleable)| (id, runs(&id, running), malleable)).collect();
        let given = |(_, allocation): &(JobId, Allocation)| match allocation {
            Allocation::Cpus(list) => list.len(),
            Allocation::Shared(threads) => *threads as usize,
        };
        *load = Load { demand, busy: allocations.iter().map(given).sum::<usize>() as f64 };
    }
}

/// The number of a CPU in its partition.
fn local(cpus: &[Cpu], cpu: Cpu) -> Option<Cpu> {
    cpus.iter().position(|&other| other == cpu).map(|at| Cpu(at as u16))
}

impl Manager for Partitioned {
    fn decide(&mut self, scene: &Scene) -> Decision {
        self.account(scene.now_s);
        if let Why::Vacated { moved, left, .. } = scene.why {
            self.arrive(scene.now_s, moved, left);
        }
        let vacate = self.consider(scene);
        (0..self.parts.len()).for_each(|part| self.ask(part, scene));
        let allocations: Vec<_> = self.parts.iter().flat_map(|part| part.allocations.clone()).collect();
        let memories = scene.jobs.iter().map(|job| (job.id, self.nodes_of(job.partition.index()).collect()));
        // Where nothing runs no goal is missed.
        let quiet = self.parts.iter().all(|part| part.load.busy == 0.0) || self.transit.is_some();
        let window = self.resources.due_s(scene.now_s).filter(|_| !quiet);
        let wake_s = self.parts.iter().filter_map(|part| part.wake_s).chain(window).min_by(f64::total_cmp);
        Decision { memories: memories.collect(), allocations, wake_s, vacate }
    }

    fn measures(&self, partition: PartitionId) -> Measures {
        self.parts[partition.index()].manager.measures(PartitionId::default())
    }

    fn division(&self, now_s: f64) -> Option<Division> {
        let begin_s = self.begin_s.unwrap_or(now_s);
        let rest = now_s - self.now_s;
        let of = |(index, part): (usize, &Part)| {
            let nodes: Vec<u16> = self.nodes_of(index).map(|node| node.0).collect();
            let cpus: usize = nodes.iter().map(|&node| self.layout.cpus_of(Node(node))).sum();
            let Sums { nodes: node_s, cpus: cpu_s, demand, busy } = part.sums;
            let seconds = (now_s - begin_s).max(f64::MIN_POSITIVE);
            let had = cpu_s + rest * cpus as f64;
            OfPartition {
                partition: part.spec.name.clone(),
                mean_nodes: (node_s + rest * nodes.len() as f64) / seconds,
                mean_demand: (demand + rest * part.load.demand) / seconds,
                utilisation_percent: 100.0 * (busy + rest * part.load.busy) / had.max(f64::MIN_POSITIVE),
                jobs: 0,
                turnaround_s: 0.0,
                nodes,
            }
        };
        let partitions = self.parts.iter().enumerate().map(of).collect();
        Some(Division { partitions, transfers: self.transfers.clone() })
    }
}
