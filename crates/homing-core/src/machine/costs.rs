//! What an access and a page move cost (Bolosky & Scott 1991, section 2.1): the only part of a machine that the cost
//! function, the optimum and the policies see.

use crate::ids::Node;

/// What accesses and page moves cost at one page size, in units of one local word reference.
#[derive(Clone, Debug, PartialEq)]
pub enum Costs {
    /// All remote memories are equally far: r, R, and optionally global memory with g, G.
    Uniform(Uniform),
    /// Unequal distances: matrices over nodes.
    General(General),
}

/// The model of section 2.1: every remote access costs `remote`, every page copy `page_move`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Uniform {
    /// Number of processor memories, global memory not counted.
    pub nodes: u16,
    /// r: a word reference to another node's memory. r > 1.
    pub remote: f64,
    /// R: copying a page from another node's memory. R > 2r.
    pub page_move: f64,
    /// Global memory, if the machine has it; it is node number `nodes`.
    pub global: Option<Global>,
}

/// Memory that is equally far from all processors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Global {
    /// g: a word reference to global memory. g > 1, r >= g.
    pub access: f64,
    /// G: copying a page from or to global memory. G > 2g, G <= R <= 2G.
    pub page_move: f64,
}

/// Unequal distances. Row: the node that refers; column: the node that holds the page.
#[derive(Clone, Debug, PartialEq)]
pub struct General {
    /// Number of memories (memory-only nodes included).
    pub nodes: u16,
    /// `access[i * nodes + m]`: a word reference by a CPU of node i to memory m.
    pub access: Vec<f64>,
    /// `copy[from * nodes + to]`: moving a page.
    pub copy: Vec<f64>,
}

impl Costs {
    /// Number of memories, global memory included.
    pub fn memories(&self) -> u16 {
        match self {
            Costs::Uniform(u) => u.nodes + u16::from(u.global.is_some()),
            Costs::General(g) => g.nodes,
        }
    }

    /// The node number of global memory, if there is one.
    pub fn global_node(&self) -> Option<Node> {
        match self {
            Costs::Uniform(u) => u.global.map(|_| Node(u.nodes)),
            Costs::General(_) => None,
        }
    }

    /// Cost of one reference by a CPU of `by` to a page at `at`.
    pub fn access(&self, by: Node, at: Node) -> f64 {
        match self {
            Costs::Uniform(_) if by == at => 1.0,
            Costs::Uniform(u) => match u.global {
                Some(global) if at.0 == u.nodes => global.access,
                _ => u.remote,
            },
            Costs::General(g) => g.access[by.index() * usize::from(g.nodes) + at.index()],
        }
    }

    /// Cost of copying a page from `from` to `to` (0 when they are the same).
    pub fn copy(&self, from: Node, to: Node) -> f64 {
        match self {
            _ if from == to => 0.0,
            Costs::Uniform(u) => match u.global {
                Some(global) if from.0 == u.nodes || to.0 == u.nodes => global.page_move,
                _ => u.page_move,
            },
            Costs::General(g) => g.copy[from.index() * usize::from(g.nodes) + to.index()],
        }
    }

    /// The longest stretch of reads by a node, between two of its writes and with no other node in between, in which no
    /// replica can pay: a replica at the reader saves `reads * (r - 1)` for R, with global memory also
    /// `reads * (g - 1)` for G from there, and global memory saves `reads * (r - g)` for G. Histories end a page run at
    /// longer stretches ([`crate::history::PageRun`]). General machines are bounded without replication: no limit.
    pub fn read_gap(&self) -> u32 {
        let Costs::Uniform(u) = self else { return u32::MAX };
        let mut gap = u.page_move / (u.remote - 1.0);
        if let Some(global) = u.global {
            gap = gap.min(global.page_move / (global.access - 1.0));
            gap = gap.min(global.page_move / (u.remote - global.access));
        }
        gap as u32 // rounds down; a division by zero is no limit and saturates
    }
}
