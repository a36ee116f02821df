//! Which node each thread of a trace runs on: `--threads-on`, changed by scheduling events.

use crate::ids::{Cpu, Node, Thread, Time};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// How trace threads are bound to the CPUs of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ThreadsOn {
    /// Thread i on CPU i modulo the number of CPUs; CPUs are numbered node by node, so nodes fill up one by one.
    #[default]
    Fill,
    /// Thread i on node i modulo the nodes that have CPUs, on that node's next CPU.
    RoundRobin,
    /// Threads that work at the same time on the nodes that have CPUs in turn, whatever their numbers
    /// ([`Busy::in_turn`](super::Busy::in_turn)). Without a trace: [`ThreadsOn::RoundRobin`].
    Busy,
    /// Thread i on the first CPU of node i modulo the nodes that have CPUs.
    OnePerNode,
    /// Thread i on the i-th CPU of the list, which is repeated as often as needed.
    List(Vec<Cpu>),
    /// Thread i on the i-th CPU that is not in the list.
    Except(Vec<Cpu>),
}

impl FromStr for ThreadsOn {
    type Err = String;

    /// Parses `busy`, `fill`, `round-robin`, `one-per-node` or a CPU list as `numactl` has them: `0-3,5`, `all`, `!2`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "fill" | "all" => Ok(ThreadsOn::Fill),
            "busy" => Ok(ThreadsOn::Busy),
            "round-robin" => Ok(ThreadsOn::RoundRobin),
            "one-per-node" => Ok(ThreadsOn::OnePerNode),
            list => match list.strip_prefix('!') {
                Some(others) => parse_list(others).map(ThreadsOn::Except),
                None => parse_list(list).map(ThreadsOn::List),
            }
            .ok_or_else(|| {
                format!(
                    "`{text}`: expected busy, fill, round-robin, one-per-node or a list of CPUs such as 0-3,5 or !2"
                )
            }),
        }
    }
}

impl fmt::Display for ThreadsOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ThreadsOn::Fill => f.write_str("fill"),
            ThreadsOn::Busy => f.write_str("busy"),
            ThreadsOn::RoundRobin => f.write_str("round-robin"),
            ThreadsOn::OnePerNode => f.write_str("one-per-node"),
            ThreadsOn::List(cpus) => f.write_str(&listed(cpus)),
            ThreadsOn::Except(cpus) => write!(f, "!{}", listed(cpus)),
        }
    }
}

impl ThreadsOn {
    /// The binding on a machine whose CPU i belongs to `cpu_nodes[i]`.
    pub fn bind(&self, cpu_nodes: &[Node]) -> Result<Binding, String> {
        let all = (0..).map(Cpu).zip(cpu_nodes.iter().copied());
        let pattern = match self {
            ThreadsOn::Fill => all.collect(),
            ThreadsOn::Busy | ThreadsOn::RoundRobin => in_turn(all),
            ThreadsOn::OnePerNode => {
                let nodes = cpu_nodes.iter().collect::<BTreeSet<_>>().len();
                in_turn(all).into_iter().take(nodes).collect()
            }
            ThreadsOn::List(cpus) => places(cpus, cpu_nodes)?,
            ThreadsOn::Except(cpus) => {
                let left_out = places(cpus, cpu_nodes)?;
                all.filter(|place| !left_out.contains(place)).collect()
            }
        };
        if pattern.is_empty() {
            return Err(format!(
                "--threads-on {self} leaves no CPU: the machine has 0 to {}",
                cpu_nodes.len().saturating_sub(1)
            ));
        }
        Ok(Binding { pattern, changes: HashMap::new() })
    }
}

/// The CPUs of a list with their nodes.
fn places(cpus: &[Cpu], cpu_nodes: &[Node]) -> Result<Vec<Place>, String> {
    let place = |&cpu: &Cpu| {
        cpu_nodes.get(cpu.index()).map(|&node| (cpu, node)).ok_or_else(|| {
            format!("--threads-on names CPU {cpu}, but the machine has CPUs 0 to {}", cpu_nodes.len() - 1)
        })
    };
    cpus.iter().map(place).collect()
}

fn listed(cpus: &[Cpu]) -> String {
    cpus.iter().map(Cpu::to_string).collect::<Vec<_>>().join(",")
}

/// The CPUs node by node in turn: the first of each node, then the second of each, until the nodes with most CPUs are
/// through; smaller ones begin again.
pub(super) fn in_turn(all: impl Iterator<Item = (Cpu, Node)>) -> Vec<(Cpu, Node)> {
    let mut nodes: BTreeMap<Node, Vec<Cpu>> = BTreeMap::new();
    all.for_each(|(cpu, node)| nodes.entry(node).or_default().push(cpu));
    let rounds = nodes.values().map(Vec::len).max().unwrap_or(0);
    let round =
        |i: usize| nodes.iter().map(move |(&node, cpus)| (cpus[i % cpus.len()], node)).collect::<Vec<_>>();
    (0..rounds).flat_map(round).collect()
}

/// A CPU and its node.
type Place = (Cpu, Node);

/// The CPU and the node of every thread: a pattern that repeats, and changes over Time (see [`super::Schedule`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    pattern: Vec<Place>,
    /// For each thread that ever runs elsewhere, by Time: since when it runs where.
    changes: HashMap<Thread, Vec<(Time, Place)>>,
}

impl Binding {
    /// The stretches of `references` from `first` on, by number, in each of which `thread` stays on a node.
    #[inline]
    pub fn stretches(
        &self,
        thread: Thread,
        first: Time,
        references: usize,
    ) -> impl Iterator<Item = (Node, Range<usize>)> + '_ {
        let mut done = 0;
        std::iter::from_fn(move || {
            let (rest, begin) = (references - done, done);
            let time = Time(first.0 + begin as u64);
            let (node, until) = (rest > 0).then(|| self.node_at(thread, time))?;
            done += until.map_or(rest, |until| rest.min((until.0 - time.0) as usize));
            Some((node, begin..done))
        })
    }

    /// The node on which `thread` begins.
    pub fn node(&self, thread: Thread) -> Node {
        self.pattern[thread.index() % self.pattern.len()].1
    }

    /// The CPU on which `thread` begins.
    pub fn cpu(&self, thread: Thread) -> Cpu {
        self.pattern[thread.index() % self.pattern.len()].0
    }

    /// The CPUs on which threads begin, in their order; behind the last one they begin again.
    pub fn cpus(&self) -> impl Iterator<Item = Cpu> + '_ {
        self.pattern.iter().map(|&(cpu, _)| cpu)
    }

    /// Every CPU on which `thread` ever runs, and its node.
    pub fn places(&self, thread: Thread) -> impl Iterator<Item = (Cpu, Node)> + '_ {
        let later = self.changes.get(&thread).into_iter().flatten().map(|&(_, place)| place);
        std::iter::once((self.cpu(thread), self.node(thread))).chain(later)
    }

    /// The node on which `thread` runs at `time`, and until when (exclusive) it does.
    #[inline]
    pub fn node_at(&self, thread: Thread, time: Time) -> (Node, Option<Time>) {
        let ((_, node), until) = self.place_at(thread, time);
        (node, until)
    }

    /// The CPU on which `thread` runs at `time` and its node, and until when (exclusive) it does.
    #[inline]
    pub fn place_at(&self, thread: Thread, time: Time) -> ((Cpu, Node), Option<Time>) {
        let first = || (self.cpu(thread), self.node(thread));
        match self.changes.get(&thread) {
            None => (first(), None),
            Some(changes) => {
                let after = changes.partition_point(|&(since, _)| since <= time);
                let place = match after {
                    0 => first(),
                    after => changes[after - 1].1,
                };
                (place, changes.get(after).map(|&(since, _)| since))
            }
        }
    }

    /// Lets `thread` run elsewhere from `time` on. Changes of a thread come by rising Time; a later one at the same
    /// Time replaces the earlier.
    pub(super) fn change(&mut self, thread: Thread, time: Time, place: (Cpu, Node)) {
        let changes = self.changes.entry(thread).or_default();
        changes.retain(|&(since, _)| since < time);
        changes.push((time, place));
    }
}

/// Parses a list as numactl writes it: numbers and ranges, separated by commas.
fn parse_list(text: &str) -> Option<Vec<Cpu>> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let (low, high): (u16, u16) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
        if low > high {
            return None;
        }
        cpus.extend((low..=high).map(Cpu));
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_bound_as_asked() {
        let cpus = [0, 0, 1, 1, 3].map(Node);
        let nodes = |text: &str| -> Vec<u16> {
            let binding = text.parse::<ThreadsOn>().unwrap().bind(&cpus).unwrap();
            (0..6).map(|t| binding.node(Thread(t)).0).collect()
        };
        assert_eq!(nodes("fill"), [0, 0, 1, 1, 3, 0]);
        assert_eq!(nodes("all"), nodes("fill"));
        assert_eq!(nodes("!0,2-3"), [0, 3, 0, 3, 0, 3]);
        assert_eq!("!0,2-3".parse::<ThreadsOn>().unwrap().to_string(), "!0,2,3");
        assert_eq!(nodes("round-robin"), [0, 1, 3, 0, 1, 3]);
        assert_eq!(nodes("4,0-1"), [3, 0, 0, 3, 0, 0]);
        let on = |text: &str| -> Vec<u16> {
            let binding = text.parse::<ThreadsOn>().unwrap().bind(&cpus).unwrap();
            (0..7).map(|t| binding.cpu(Thread(t)).0).collect()
        };
        assert_eq!(on("round-robin"), [0, 2, 4, 1, 3, 4, 0], "a node with one CPU gives it again");
        assert_eq!(on("one-per-node"), [0, 2, 4, 0, 2, 4, 0]);
        for text in ["busy", "fill", "round-robin", "one-per-node", "4,0,1"] {
            assert_eq!(text.parse::<ThreadsOn>().unwrap().to_string(), text);
        }
        for bad in ["", "3-1", "x", "1,,2"] {
            assert!(bad.parse::<ThreadsOn>().is_err(), "{bad}");
        }
        assert!("5".parse::<ThreadsOn>().unwrap().bind(&cpus).unwrap_err().contains("CPU 5"));
    }
}
