//! How threads and memory are laid over a set (Brock et al. 2001, section 4, "Memory-allocation policies").

use super::{Global, ResourceSet};
use homing_core::history::ThreadsOn;
use homing_core::ids::{parse_bytes, Cpu, Node};
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// Strides are multiples of this: the smallest page that Linux has.
pub const STRIDE_UNIT: u64 = 4096;

/// An enum whose values have names, which are read and shown.
macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $value:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$of])* $value),+ }

        impl $name {
            /// All names.
            pub const NAMES: &'static [&'static str] = &[$($text),+];
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<$name, String> {
                match text {
                    $($text => Ok($name::$value),)+
                    _ => Err(format!("`{text}`: expected one of {}", $name::NAMES.join(", "))),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $($name::$value => $text),+ })
            }
        }
    };
}

named! {
    /// Which memories of a set are used.
    Memory {
        /// Any of the set: the kernel takes near ones first, and its balancing may move pages within the set.
        Float = "float",
        /// That of the node on which the allocating thread runs.
        Local = "local",
        /// Any of the set but that of the node on which the allocating thread runs.
        Remote = "remote",
        /// One after the other, a stride each.
        Striped = "striped",
    }
}

named! {
    /// Which CPU of a set each thread gets.
    Threads {
        /// As many threads on a node as it has CPUs in the set, then the next node.
        Fill = "fill",
        /// The nodes in turn.
        RoundRobin = "round-robin",
        /// The nodes in turn, always on the same CPU of each.
        OnePerNode = "one-per-node",
    }
}

impl Threads {
    /// The CPU of each thread; behind the last one they begin again.
    pub fn layout(self, set: &ResourceSet, global: &Global) -> Vec<Cpu> {
        let mut places: Vec<(Node, Cpu)> =
            set.cpus.iter().filter_map(|&cpu| Some((global.node_of(cpu)?, cpu))).collect();
        places.sort();
        let nodes: Vec<Node> = places.iter().map(|(node, _)| *node).collect();
        let how = match self {
            Threads::Fill => ThreadsOn::Fill,
            Threads::RoundRobin => ThreadsOn::RoundRobin,
            Threads::OnePerNode => ThreadsOn::OnePerNode,
        };
        // A rule that is no list fails on no CPUs alone.
        let binding = how.bind(&nodes).ok();
        binding.iter().flat_map(|binding| binding.cpus()).map(|cpu| places[cpu.index()].1).collect()
    }
}

/// The policies of a set; what is not said is left to whoever uses it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policies {
    /// Which memories.
    pub memory: Option<Memory>,
    /// Bytes of a stripe.
    pub stride: Option<u64>,
    /// Bytes of the huge pages to ask for.
    pub huge: Option<u64>,
    /// Which CPU each thread gets.
    pub threads: Option<Threads>,
}

impl Policies {
    /// These, and those of `other` where these say nothing. A stride belongs to the memory policy beside it.
    pub fn over(self, other: Policies) -> Policies {
        let inherits = self.memory.is_none_or(|memory| Some(memory) == other.memory);
        Policies {
            memory: self.memory.or(other.memory),
            stride: self.stride.or(other.stride.filter(|_| inherits)),
            huge: self.huge.or(other.huge),
            threads: self.threads.or(other.threads),
        }
    }

    /// Fails if they do not go together.
    pub fn check(&self) -> Result<(), String> {
        match self.stride {
            Some(_) if self.memory != Some(Memory::Striped) => {
                return Err("a stride is given: expected memory to be striped".to_owned());
            }
            Some(stride) if stride == 0 || stride % STRIDE_UNIT != 0 => {
                return Err(format!("a stride of {stride} bytes: expected a multiple of 4K"));
            }
            _ => {}
        }
        match (self.huge, self.stride) {
            (Some(huge), _) if !huge.is_power_of_two() || huge <= STRIDE_UNIT => {
                Err(format!("huge pages of {huge} bytes: expected a power of two above 4K, such as 2M"))
            }
            (Some(huge), Some(stride)) if stride % huge != 0 => Err(format!(
                "a stride of {stride} bytes with huge pages of {huge}: expected a multiple of these, since a huge \
                 page is on one node"
            )),
            _ => Ok(()),
        }
    }

    /// Whether `memory` can be had of a set: fails if it has none, or `remote` leaves none.
    pub fn check_on(&self, set: &ResourceSet, global: &Global) -> Result<(), String> {
        let Some(memory) = self.memory else { return Ok(()) };
        if set.memories.is_empty() && memory != Memory::Float {
            return Err(format!(
                "the set has no memory to be {memory}: add nodes to it, as in `SET | mem:0`, or leave out --memory"
            ));
        }
        let alone = |node: &Node| (&set.memories - &BTreeSet::from([*node])).is_empty();
        match global.nodes_of_cpus(set).into_iter().find(alone) {
            Some(node) if memory == Memory::Remote => Err(format!(
                "memory of a thread on node {node} cannot be remote: the set has no memory on another node; add \
                 some, as in `SET | mem:N`"
            )),
            _ => Ok(()),
        }
    }
}

/// Where the pages of a piece of an allocation come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Anywhere in the set.
    Within(Vec<Node>),
    /// This node, others where it is full.
    On(Node),
    /// These nodes in turn, page by page.
    InTurn(Vec<Node>),
}

/// Most stripes of an allocation: each is a mapping, of which a process has 65530.
pub const MOST_STRIPES: usize = 4096;

impl Policies {
    /// The pieces of an allocation by a thread on the node `here`, from its begin to its end. A set without memory
    /// leaves it as it is.
    ///
    /// # Errors
    /// If the set has no memory for the policy, or there were too many stripes.
    pub fn pieces(
        &self,
        set: &ResourceSet,
        bytes: usize,
        page: usize,
        here: Node,
    ) -> Result<Vec<(Range<usize>, Pages)>, String> {
        let nodes: Vec<Node> = set.memories.iter().copied().collect();
        let memory = self.memory.unwrap_or(Memory::Float);
        let whole = |pages| Ok(vec![(0..bytes, pages)]);
        match memory {
            _ if nodes.is_empty() && memory == Memory::Float => Ok(Vec::new()),
            _ if nodes.is_empty() => Err(format!("the set has no memory to be {memory}")),
            Memory::Float => whole(Pages::Within(nodes)),
            Memory::Local if nodes.contains(&here) => whole(Pages::On(here)),
            Memory::Local => whole(Pages::Within(nodes)),
            Memory::Remote => {
                let others: Vec<Node> = nodes.into_iter().filter(|&node| node != here).collect();
                match others.is_empty() {
                    true => Err(format!("the set has no memory that is remote from node {here}")),
                    false => whole(Pages::Within(others)),
                }
            }
            Memory::Striped => {
                stripes(nodes, bytes, self.stride.map_or(page, |stride| stride as usize), page)
            }
        }
    }
}

fn stripes(
    nodes: Vec<Node>,
    bytes: usize,
    stride: usize,
    page: usize,
) -> Result<Vec<(Range<usize>, Pages)>, String> {
    if stride == 0 || !stride.is_multiple_of(page) {
        return Err(format!("a stride of {stride} bytes: expected a multiple of the page size, {page}"));
    }
    if stride == page {
        return Ok(vec![(0..bytes, Pages::InTurn(nodes))]);
    }
    let count = bytes.div_ceil(stride);
    if count > MOST_STRIPES {
        return Err(format!("{count} stripes: expected at most {MOST_STRIPES}, so a larger stride"));
    }
    let piece = |at: usize| (at * stride..((at + 1) * stride).min(bytes), Pages::On(nodes[at % nodes.len()]));
    Ok((0..count).map(piece).collect())
}

/// A size in bytes.
pub(super) fn size(text: &str) -> Result<u64, String> {
    parse_bytes(text).ok_or_else(|| format!("`{text}`: expected a size such as 64K or 2M"))
}
