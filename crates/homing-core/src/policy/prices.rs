//! What accesses and page moves cost, in the form that on-line policies keep with their state.

use crate::ids::Node;
use crate::machine::Costs;
use serde::{Deserialize, Serialize};

/// Prices in local word references.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Prices {
    /// All processor memories alike.
    Uniform {
        memories: u16,
        remote: f64,
        page_move: f64,
        /// Node, access and page move of global memory.
        global: Option<(Node, f64, f64)>,
    },
    /// Matrices; `copy` is closed under going by way of other nodes, `alike` if it is the same between any two.
    General { nodes: u16, access: Vec<f64>, copy: Vec<f64>, alike: bool },
}

impl Prices {
    pub(super) fn new(costs: &Costs) -> Prices {
        match costs {
            Costs::Uniform(u) => Prices::Uniform {
                memories: costs.memories(),
                remote: u.remote,
                page_move: u.page_move,
                global: u.global.map(|g| (Node(u.nodes), g.access, g.page_move)),
            },
            Costs::General(g) => {
                let mut copy = g.copy.clone();
                close(&mut copy, usize::from(g.nodes));
                Prices::general(g.nodes, g.access.clone(), copy)
            }
        }
    }

    fn general(nodes: u16, access: Vec<f64>, copy: Vec<f64>) -> Prices {
        let others = copy.iter().enumerate().filter(|(at, _)| at % (usize::from(nodes) + 1) != 0);
        let alike = others.clone().all(|(_, price)| *price == copy[1]);
        Prices::General { nodes, access, copy, alike }
    }

    /// The same with the price of page moves times `scale`.
    pub(super) fn with_moves_at(mut self, scale: f64) -> Prices {
        match &mut self {
            Prices::Uniform { page_move, global, .. } => {
                *page_move *= scale;
                global.iter_mut().for_each(|(.., copy)| *copy *= scale);
            }
            Prices::General { copy, .. } => copy.iter_mut().for_each(|copy| *copy *= scale),
        }
        self
    }

    /// The same as matrices.
    pub(super) fn into_general(self) -> Prices {
        let nodes = self.memories();
        let pairs = || (0..nodes).flat_map(|i| (0..nodes).map(move |m| (Node(i), Node(m))));
        let access = pairs().map(|(by, at)| self.access(by, at)).collect();
        let copy = pairs().map(|(from, to)| self.copy(from, to)).collect();
        Prices::general(nodes, access, copy)
    }

    /// References from other nodes cost so much more at each memory, if prices are [matrices](Prices::into_general).
    pub(super) fn raise(&mut self, by_memory: &[f64]) {
        let Prices::General { nodes, access, .. } = self else { return };
        for (index, price) in access.iter_mut().enumerate() {
            let (by, at) = (index / usize::from(*nodes), index % usize::from(*nodes));
            *price += if by == at { 0.0 } else { by_memory[at] };
        }
    }

    pub(super) fn memories(&self) -> u16 {
        match self {
            Prices::Uniform { memories, .. } => *memories,
            Prices::General { nodes, .. } => *nodes,
        }
    }

    #[inline]
    pub(super) fn access(&self, by: Node, at: Node) -> f64 {
        match self {
            Prices::Uniform { .. } if by == at => 1.0,
            Prices::Uniform { global: Some((global, access, _)), .. } if at == *global => *access,
            Prices::Uniform { remote, .. } => *remote,
            Prices::General { nodes, access, .. } => access[by.index() * usize::from(*nodes) + at.index()],
        }
    }

    /// What a reference from `by` costs at each memory, if prices are [matrices](Prices::into_general); else nothing.
    #[inline]
    pub(super) fn accesses(&self, by: Node) -> &[f64] {
        match self {
            Prices::Uniform { .. } => &[],
            Prices::General { nodes, access, .. } => {
                &access[by.index() * usize::from(*nodes)..][..usize::from(*nodes)]
            }
        }
    }

    #[inline]
    pub(super) fn copy(&self, from: Node, to: Node) -> f64 {
        match self {
            _ if from == to => 0.0,
            Prices::Uniform { global: Some((global, _, copy)), .. } if from == *global || to == *global => {
                *copy
            }
            Prices::Uniform { page_move, .. } => *page_move,
            Prices::General { nodes, copy, .. } => copy[from.index() * usize::from(*nodes) + to.index()],
        }
    }

    /// The cheapest page move of the machine.
    pub(super) fn least_copy(&self) -> f64 {
        match self {
            Prices::Uniform { page_move, global, .. } => {
                global.map_or(*page_move, |(.., copy)| copy.min(*page_move))
            }
            Prices::General { nodes, copy, .. } => {
                let between = |index: &usize| index / usize::from(*nodes) != index % usize::from(*nodes);
                (0..copy.len()).filter(between).map(|index| copy[index]).fold(f64::INFINITY, f64::min)
            }
        }
    }

    /// The most that a reference from `by` can cost beyond a local one.
    pub(super) fn highest_loss(&self, by: Node) -> f64 {
        match self {
            Prices::Uniform { remote, .. } => remote - 1.0,
            Prices::General { nodes, .. } => {
                let highest = (0..*nodes).map(|at| self.access(by, Node(at))).fold(0.0, f64::max);
                highest - self.access(by, by)
            }
        }
    }

    /// What a reference from `by` costs beyond a local one at the nearest memory where it costs more; 0 if none is.
    pub(super) fn lowest_loss(&self, by: Node) -> f64 {
        match self {
            Prices::Uniform { remote, .. } => remote - 1.0,
            Prices::General { nodes, .. } => {
                let losses = (0..*nodes).map(|at| self.access(by, Node(at)) - self.access(by, by));
                let lowest = losses.filter(|&loss| loss > 0.0).fold(f64::INFINITY, f64::min);
                if lowest.is_finite() {
                    lowest
                } else {
                    0.0
                }
            }
        }
    }

    /// Nodes other than the requester that can be worth a move: none but global memory where all processor memories are
    /// alike (Bolosky & Scott 1991, section 3.1), any where they are not.
    pub(super) fn havens(&self) -> std::ops::Range<u16> {
        match self {
            Prices::Uniform { global: Some((global, ..)), .. } => global.0..global.0 + 1,
            Prices::Uniform { global: None, .. } => 0..0,
            Prices::General { nodes, .. } => 0..*nodes,
        }
    }
}

/// All-pairs cheapest ways (Floyd & Warshall).
fn close(copy: &mut [f64], nodes: usize) {
    for by in 0..nodes {
        for from in 0..nodes {
            for to in (0..nodes).filter(|&to| to != from) {
                let way = copy[from * nodes + by] + copy[by * nodes + to];
                if by != from && by != to && way < copy[from * nodes + to] {
                    copy[from * nodes + to] = way;
                }
            }
        }
    }
}
