//! How long things take: the memory-system model of the design (cost model 2), always labelled *modelled*.
//!
//! In an interval each thread computes, hits caches, misses TLBs, and waits for its misses at the home of each page for
//! the latency between the two nodes, raised by queueing. A memory or link that is busy for b of each line and serves n
//! of them in a time T has the utilisation u = n b / T; a request waits b u / (2 (1 - u)) (M/D/1). T is the time of the
//! slowest thread, which depends on the waits: it is the one solution of T = slowest(T), found by bisection, and it is
//! never below n b. So contention raises latencies, and never lowers them.
//!
//! The program's time is the sum over intervals, as if threads met at the end of each: the trace's virtual time lets
//! all threads go on at one pace.

use crate::ids::Node;
use crate::machine::{HitTimes, Machine, TimeParameters};
use serde::Serialize;

#[cfg(test)]
mod tests;

/// A machine's times, in nanoseconds.
#[derive(Clone, Debug)]
pub struct Times {
    hits: HitTimes,
    parameters: TimeParameters,
    /// `latency[i * nodes + m]`: from a CPU of node i to memory m.
    latency: Vec<f64>,
    /// A page move on the CPU that does it.
    page_move: f64,
    /// A local access.
    local: f64,
    nodes: usize,
}

/// A machine whose times are not known.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error(
    "machine `{0}` has no section [time]: times are modelled for machines with [latency], [hierarchy] and [time] \
     (docs/memory-system.md)"
)]
pub struct NoTimes(String);

impl Times {
    /// Those of a machine at a page size.
    pub fn new(machine: &Machine, costs: &crate::machine::Costs) -> Result<Times, NoTimes> {
        let missing = || NoTimes(machine.name().into());
        let parameters = machine.time().ok().flatten().ok_or_else(missing)?;
        let hits = machine.hit_times().ok_or_else(missing)?;
        let local = machine.local_ns().ok_or_else(missing)?;
        let nodes = usize::from(costs.memories());
        let all = || (0..nodes).flat_map(|i| (0..nodes).map(move |m| (Node(i as u16), Node(m as u16))));
        let latency = all().map(|(i, m)| costs.access(i, m) * local).collect();
        let copies: Vec<f64> = all().filter(|(i, m)| i != m).map(|(i, m)| costs.copy(i, m) * local).collect();
        let mean = copies.iter().sum::<f64>() / (copies.len() as f64).max(1.0);
        let page_move = parameters.move_ns.unwrap_or(mean);
        Ok(Times { hits, parameters, latency, page_move, local, nodes })
    }
}

impl Times {
    /// A page move on the CPU that does it, in nanoseconds.
    pub fn page_move_ns(&self) -> f64 {
        self.page_move
    }

    /// From a CPU of a node to a memory, at rest, in nanoseconds.
    pub fn latency_ns(&self, from: Node, to: Node) -> f64 {
        self.latency[from.index() * self.nodes + to.index()]
    }

    /// What the model takes besides latencies.
    pub fn parameters(&self) -> &TimeParameters {
        &self.parameters
    }

    /// A reference that hits the first level, in nanoseconds.
    pub fn hit_ns(&self) -> f64 {
        self.parameters.compute_ns + self.hits.l1
    }
}

/// What happened in one interval.
#[derive(Clone, Debug, Default)]
pub struct Work {
    /// By CPU in use.
    pub cpus: Vec<CpuWork>,
    /// Write-backs to each memory, by (requester's node, home): `[i * nodes + m]`.
    pub write_backs: Vec<u64>,
    /// Pages moved.
    pub moves: u64,
}

/// What one CPU did.
#[derive(Clone, Debug, Default)]
pub struct CpuWork {
    /// Its node.
    pub node: Node,
    /// References.
    pub references: u64,
    /// First-level misses.
    pub l1_misses: u64,
    /// Third-level hits.
    pub l3_hits: u64,
    /// TLB misses.
    pub tlb_misses: u64,
    /// Translations shot down.
    pub shootdowns: u64,
    /// Demand transactions to each home.
    pub demand: Vec<u64>,
}

/// Modelled times of one interval, or summed over several, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Elapsed {
    /// The slowest thread's time, and the moves if the threads are stopped for them.
    pub total_ns: f64,
    /// Of which beyond what the same misses take without contention.
    pub contention_ns: f64,
    /// Of which page moves, shoot-downs, and scans for which the threads stood still.
    pub moving_ns: f64,
    /// The mover's time, on a CPU of its own unless the threads are stopped.
    pub mover_ns: f64,
    /// Time of each CPU in use, without waiting for the slowest.
    pub cpus_ns: Vec<f64>,
    /// Highest utilisation of a memory (in a sum: of any interval).
    pub memory_utilisation: f64,
    /// Highest utilisation of a link (the same).
    pub link_utilisation: f64,
}

impl Elapsed {
    /// The same, with a time in which all threads stood still.
    #[must_use]
    pub fn standing_still(mut self, ns: f64) -> Elapsed {
        self.total_ns += ns;
        self.moving_ns += ns;
        self.cpus_ns.iter_mut().for_each(|cpu| *cpu += ns);
        self
    }

    /// Adds another interval.
    pub fn add(&mut self, other: &Elapsed) {
        self.total_ns += other.total_ns;
        self.contention_ns += other.contention_ns;
        self.moving_ns += other.moving_ns;
        self.mover_ns += other.mover_ns;
        self.cpus_ns.resize(self.cpus_ns.len().max(other.cpus_ns.len()), 0.0);
        self.cpus_ns.iter_mut().zip(&other.cpus_ns).for_each(|(sum, ns)| *sum += ns);
        self.memory_utilisation = self.memory_utilisation.max(other.memory_utilisation);
        self.link_utilisation = self.link_utilisation.max(other.link_utilisation);
    }
}

/// Lines that went through each memory and each node's link.
struct Load {
    memories: Vec<f64>,
    links: Vec<f64>,
}

impl Times {
    /// The time of an interval. `stopped`: the threads stand still while pages move; otherwise a CPU of its own moves
    /// them.
    pub fn elapsed(&self, work: &Work, stopped: bool) -> Elapsed {
        let load = self.load(work);
        let p = &self.parameters;
        let busiest = |lines: &[f64], busy: f64| lines.iter().fold(0.0f64, |most, n| most.max(n * busy));
        let floor = busiest(&load.memories, p.memory_busy_ns).max(busiest(&load.links, p.link_busy_ns));
        let quiet = self.slowest(work, None);
        // slowest(T) falls and T rises: they cross once, above the time that the busiest part needs.
        let (mut low, mut high) = (quiet.max(floor), 2.0 * (quiet + floor) + 1.0);
        while self.slowest(work, Some((&load, high))) > high {
            high *= 2.0;
        }
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            if self.slowest(work, Some((&load, middle))) > middle {
                low = middle;
            } else {
                high = middle;
            }
        }
        let busy = if quiet > 0.0 { high } else { 0.0 };
        let mover_ns = work.moves as f64 * self.page_move;
        let stop_ns = if stopped { mover_ns } else { 0.0 };
        let shoot = |cpu: &CpuWork| cpu.shootdowns as f64 * p.shootdown_ns;
        let at = Some((&load, high)).filter(|_| quiet > 0.0);
        Elapsed {
            total_ns: busy + stop_ns,
            contention_ns: busy - quiet,
            moving_ns: stop_ns + work.cpus.iter().map(shoot).fold(0.0, f64::max),
            mover_ns,
            cpus_ns: work.cpus.iter().map(|cpu| self.cpu(cpu, at) + stop_ns).collect(),
            memory_utilisation: if busy > 0.0 {
                busiest(&load.memories, p.memory_busy_ns) / busy
            } else {
                0.0
            },
            link_utilisation: if busy > 0.0 { busiest(&load.links, p.link_busy_ns) / busy } else { 0.0 },
        }
    }

    /// Time that a thread waits for references of that cost (in local accesses), without contention.
    pub fn exposed_ns(&self, cost: f64) -> f64 {
        cost * self.local * self.parameters.exposed
    }

    /// What a request from another node waited at each memory and its link beyond the latency, in local accesses, if
    /// the work was spread over a time.
    pub fn waits(&self, work: &Work, over_ns: f64) -> Vec<f64> {
        let (load, p) = (self.load(work), &self.parameters);
        let at = |home: usize| {
            wait(load.memories[home], p.memory_busy_ns, over_ns)
                + wait(load.links[home], p.link_busy_ns, over_ns)
        };
        (0..self.nodes).map(|home| at(home) / self.local).collect()
    }

    fn load(&self, work: &Work) -> Load {
        let mut load = Load { memories: vec![0.0; self.nodes], links: vec![0.0; self.nodes] };
        let mut add = |from: usize, to: usize, lines: u64| {
            load.memories[to] += lines as f64;
            if from != to {
                load.links[from] += lines as f64;
                load.links[to] += lines as f64;
            }
        };
        for cpu in &work.cpus {
            cpu.demand.iter().enumerate().for_each(|(home, &lines)| add(cpu.node.index(), home, lines));
        }
        let pairs = work.write_backs.iter().enumerate();
        pairs.for_each(|(i, &lines)| add(i / self.nodes, i % self.nodes, lines));
        load
    }

    /// The slowest CPU's time, without queueing or with that of a load spread over a time.
    fn slowest(&self, work: &Work, queue: Option<(&Load, f64)>) -> f64 {
        work.cpus.iter().map(|cpu| self.cpu(cpu, queue)).fold(0.0, f64::max)
    }

    fn cpu(&self, cpu: &CpuWork, queue: Option<(&Load, f64)>) -> f64 {
        let p = &self.parameters;
        let mut time = cpu.references as f64 * (p.compute_ns + self.hits.l1)
            + cpu.l1_misses as f64 * self.hits.l2
            + cpu.l3_hits as f64 * self.hits.l3
            + cpu.tlb_misses as f64 * p.tlb_miss_ns
            + cpu.shootdowns as f64 * p.shootdown_ns;
        for (home, &lines) in cpu.demand.iter().enumerate().filter(|(_, &lines)| lines > 0) {
            let from = cpu.node.index();
            let mut each = self.latency[from * self.nodes + home];
            if let Some((load, over)) = queue {
                each += wait(load.memories[home], p.memory_busy_ns, over);
                if from != home {
                    each += wait(load.links[from], p.link_busy_ns, over);
                    each += wait(load.links[home], p.link_busy_ns, over);
                }
            }
            time += lines as f64 * each * p.exposed;
        }
        time
    }
}

/// The mean wait at a part that is busy for `busy` with each line and serves `lines` of them in a time (M/D/1).
fn wait(lines: f64, busy: f64, over: f64) -> f64 {
    let used = lines * busy / over;
    if lines == 0.0 {
        0.0
    } else if used < 1.0 {
        busy * used / (2.0 * (1.0 - used))
    } else {
        f64::INFINITY
    }
}
