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
//!
//! A page move takes a CPU the time of copying and of the fixed part ([`Mover`] says whose), and each CPU that had the
//! page mapped a shoot-down. What its lines and translations cost that are missed again is among the misses.

use crate::cache::Counts;
use crate::ids::{Node, PageSize};
use crate::machine::{HitTimes, Machine, TimeParameters};
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

#[cfg(test)]
mod tests;

/// A machine's times, in nanoseconds.
#[derive(Clone, Debug)]
pub struct Times {
    hits: HitTimes,
    parameters: TimeParameters,
    /// `latency[i * nodes + m]`: from a CPU of node i to memory m.
    latency: Vec<f64>,
    /// `moves[from * nodes + to]`: a page move on the CPU that does it.
    moves: Vec<f64>,
    /// A local access.
    local: f64,
    nodes: usize,
}

/// Whose time page moves take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mover {
    /// The CPUs in use of the node that gets the page, evenly; all in use if that node has none. So Linux does it: the
    /// thread that faults moves the page. A mover on a machine without a free processor takes as much.
    #[default]
    Program,
    /// A processor that the program does not use (Tikir & Hollingsworth 2008, section 5.3).
    Own,
    /// That of all threads, which stand still meanwhile.
    Stopped,
}

impl Mover {
    /// All of them.
    pub const ALL: [Mover; 3] = [Mover::Program, Mover::Own, Mover::Stopped];
}

impl fmt::Display for Mover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mover::Program => "program",
            Mover::Own => "own",
            Mover::Stopped => "stopped",
        })
    }
}

impl FromStr for Mover {
    type Err = String;

    fn from_str(text: &str) -> Result<Mover, String> {
        let named = Mover::ALL.into_iter().find(|mover| mover.to_string() == text);
        named.ok_or_else(|| format!("mover `{text}`: expected program, own or stopped"))
    }
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
    pub fn new(machine: &Machine, page_size: PageSize) -> Result<Times, NoTimes> {
        let missing = || NoTimes(machine.name().into());
        let parameters = machine.time().ok().flatten().ok_or_else(missing)?;
        let hits = machine.hit_times().ok_or_else(missing)?;
        let local = machine.local_ns().ok_or_else(missing)?;
        let costs = machine.costs(page_size).map_err(|_| missing())?;
        let nodes = usize::from(costs.memories());
        let all = || (0..nodes).flat_map(|i| (0..nodes).map(move |m| (Node(i as u16), Node(m as u16))));
        let latency = all().map(|(i, m)| costs.access(i, m) * local).collect();
        let copy = |(from, to)| match parameters.move_ns {
            Some(ns) if from != to => ns,
            _ => costs.copy(from, to) * local,
        };
        Ok(Times { hits, parameters, latency, moves: all().map(copy).collect(), local, nodes })
    }
}

impl Times {
    /// The same, but moves and shoot-downs take nothing: for a caller that charges them itself.
    #[must_use]
    pub fn without_moves(&self) -> Times {
        let mut times = self.clone();
        times.moves.fill(0.0);
        times.parameters.shootdown_ns = 0.0;
        times
    }

    /// Memories.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// A page move on the CPU that does it, in nanoseconds: the mean over pairs of nodes.
    pub fn page_move_ns(&self) -> f64 {
        let pairs = self.nodes * (self.nodes - 1);
        self.moves.iter().sum::<f64>() / (pairs as f64).max(1.0)
    }

    /// A page move between two nodes on the CPU that does it, in nanoseconds.
    pub fn move_ns(&self, from: Node, to: Node) -> f64 {
        self.moves[from.index() * self.nodes + to.index()]
    }

    /// What a thread waits for a local miss at rest, in nanoseconds: the unit of prices in time.
    pub fn unit_ns(&self) -> f64 {
        self.local * self.parameters.exposed
    }

    /// From a CPU of a node to a memory, at rest, in nanoseconds.
    pub fn latency_ns(&self, from: Node, to: Node) -> f64 {
        self.latency[from.index() * self.nodes + to.index()]
    }

    /// What the model takes besides latencies.
    pub fn parameters(&self) -> &TimeParameters {
        &self.parameters
    }

    /// What a CPU's work takes besides waiting for misses, in nanoseconds, whatever `demand` says.
    pub fn besides_misses_ns(&self, work: &CpuWork) -> f64 {
        let p = &self.parameters;
        work.references as f64 * (p.compute_ns + self.hits.l1)
            + work.l1_misses as f64 * self.hits.l2
            + work.l3_hits as f64 * self.hits.l3
            + work.tlb_misses as f64 * p.tlb_miss_ns
            + work.shootdowns as f64 * p.shootdown_ns
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
    /// Pages moved, by (from, to): `[from * nodes + to]`.
    pub moves: Vec<u64>,
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

impl CpuWork {
    /// What the caches of a CPU on a node counted, besides what went to which home and shoot-downs.
    pub fn of(node: Node, counts: &Counts) -> CpuWork {
        CpuWork {
            node,
            references: counts.references,
            l1_misses: counts.l1_misses,
            l3_hits: counts.l3_hits,
            tlb_misses: counts.tlb_misses,
            ..CpuWork::default()
        }
    }
}

/// Modelled times of one interval, or summed over several, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Elapsed {
    /// The slowest thread's time, and the moves if the threads are stopped for them.
    pub total_ns: f64,
    /// The same if a processor of its own had made the moves.
    pub own_mover_ns: f64,
    /// Of which beyond what the same misses take without contention.
    pub contention_ns: f64,
    /// Of which page moves, shoot-downs, scans for which the threads stood still, and what else a live session took: on
    /// the CPU with most of that.
    pub moving_ns: f64,
    /// What the moves took whoever made them, besides shoot-downs.
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
        self.own_mover_ns += ns;
        self.moving_ns += ns;
        self.cpus_ns.iter_mut().for_each(|cpu| *cpu += ns);
        self
    }

    /// How long the slowest CPU of each node took, as a share of the slowest of all; 0 where none is in use.
    pub fn paces(&self, work: &Work, nodes: usize) -> Vec<f64> {
        let most = self.cpus_ns.iter().copied().fold(0.0, f64::max);
        let mut paces = vec![0.0f64; nodes];
        for (cpu, ns) in work.cpus.iter().zip(&self.cpus_ns).filter(|_| most > 0.0) {
            let pace = &mut paces[cpu.node.index()];
            *pace = pace.max(ns / most);
        }
        paces
    }

    /// Adds another interval.
    pub fn add(&mut self, other: &Elapsed) {
        self.total_ns += other.total_ns;
        self.own_mover_ns += other.own_mover_ns;
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
    /// The time of an interval.
    pub fn elapsed(&self, work: &Work, mover: Mover) -> Elapsed {
        let own = self.elapsed_beside(work, &vec![0.0; work.cpus.len()]);
        let mover_ns = self.mover_ns(work);
        let own = Elapsed { own_mover_ns: own.total_ns, mover_ns, ..own };
        match mover {
            _ if mover_ns == 0.0 => own,
            Mover::Own => own,
            Mover::Stopped => {
                let stopped = own.standing_still(mover_ns);
                Elapsed { own_mover_ns: stopped.own_mover_ns - mover_ns, ..stopped }
            }
            Mover::Program => {
                let own_mover_ns = own.own_mover_ns;
                Elapsed { own_mover_ns, mover_ns, ..self.elapsed_beside(work, &self.taken(work)) }
            }
        }
    }

    /// What the moves of an interval take of each CPU if the program's make them.
    fn taken(&self, work: &Work) -> Vec<f64> {
        let mut taken = vec![0.0; work.cpus.len()];
        for (pair, &moves) in work.moves.iter().enumerate().filter(|(_, &moves)| moves > 0) {
            let to = Node((pair % self.nodes) as u16);
            let there = work.cpus.iter().filter(|cpu| cpu.node == to).count();
            let helps = |cpu: &CpuWork| cpu.node == to || there == 0;
            let each =
                moves as f64 * self.moves[pair] / if there > 0 { there } else { work.cpus.len() } as f64;
            taken.iter_mut().zip(&work.cpus).filter(|(_, cpu)| helps(cpu)).for_each(|(ns, _)| *ns += each);
        }
        taken
    }

    /// What the moves of an interval take whoever makes them.
    fn mover_ns(&self, work: &Work) -> f64 {
        work.moves.iter().zip(&self.moves).map(|(&moves, ns)| moves as f64 * ns).sum()
    }

    /// The time of an interval in which each CPU in use also did something else for a time, in nanoseconds; moves take
    /// no mover's time.
    pub fn elapsed_beside(&self, work: &Work, beside: &[f64]) -> Elapsed {
        let load = self.load(work);
        let p = &self.parameters;
        let slowest = |queue: Option<(&Load, f64)>| {
            let all = work.cpus.iter().zip(beside).map(|(cpu, beside)| self.cpu(cpu, queue) + beside);
            all.fold(0.0, f64::max)
        };
        let busiest = |lines: &[f64], busy: f64| lines.iter().fold(0.0f64, |most, n| most.max(n * busy));
        let floor = busiest(&load.memories, p.memory_busy_ns).max(busiest(&load.links, p.link_busy_ns));
        let quiet = slowest(None);
        // slowest(T) falls and T rises: they cross once, above the time that the busiest part needs.
        let (mut low, mut high) = (quiet.max(floor), 2.0 * (quiet + floor) + 1.0);
        while slowest(Some((&load, high))) > high {
            high *= 2.0;
        }
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            if slowest(Some((&load, middle))) > middle {
                low = middle;
            } else {
                high = middle;
            }
        }
        let busy = if quiet > 0.0 { high } else { 0.0 };
        let at = Some((&load, high)).filter(|_| quiet > 0.0);
        let moving = |(cpu, beside): (&CpuWork, &f64)| cpu.shootdowns as f64 * p.shootdown_ns + beside;
        Elapsed {
            total_ns: busy,
            contention_ns: busy - quiet,
            moving_ns: work.cpus.iter().zip(beside).map(moving).fold(0.0, f64::max),
            cpus_ns: work.cpus.iter().zip(beside).map(|(cpu, beside)| self.cpu(cpu, at) + beside).collect(),
            memory_utilisation: if busy > 0.0 {
                busiest(&load.memories, p.memory_busy_ns) / busy
            } else {
                0.0
            },
            link_utilisation: if busy > 0.0 { busiest(&load.links, p.link_busy_ns) / busy } else { 0.0 },
            ..Elapsed::default()
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

    fn cpu(&self, cpu: &CpuWork, queue: Option<(&Load, f64)>) -> f64 {
        let p = &self.parameters;
        let mut time = self.besides_misses_ns(cpu);
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
