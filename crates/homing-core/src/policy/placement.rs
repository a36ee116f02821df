//! Initial placements: where pages are before their first reference.

mod file;

pub use file::{PlacementError, PlacementFile};

use crate::history::{History, SpillError};
use crate::ids::{Node, Page};
use crate::machine::Costs;
use std::str::FromStr;

/// A rule for the initial placement.
#[derive(Clone, Debug, PartialEq)]
pub enum Placement {
    /// The node of the first reference, or of the thread that the kernel placed the page for before
    /// ([`History::first_touch`]).
    FirstTouch,
    /// Nodes in turn, in order of first reference; global memory takes no part.
    RoundRobin,
    /// All pages at one node.
    SingleNode(Node),
    /// Nodes in turn by virtual address, this many pages in a row each (Brock 2001, section 4: "striped").
    Striped(u64),
    /// Global memory. The page is made by its first reference: a move at that reference is its initial placement and
    /// free (equation (2) of Bolosky & Scott 1991 starts at t = 1); a replica beside global memory is a copy and is
    /// not.
    Global,
    /// The single node with the least cost for each page: the best static placement, known only off-line.
    Best,
    /// The single node with the highest cost for each page.
    Worst,
    /// As a placement file says, first touch where it says nothing.
    File(PlacementFile),
}

/// Where a page begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// The node.
    pub node: Node,
    /// True if a policy may choose another node at the first reference without charge.
    pub free: bool,
    /// False if the page is not in the placement file.
    pub found: bool,
}

impl FromStr for Placement {
    type Err = String;

    /// Parses `first-touch`, `round-robin`, `single-node[:N]`, `striped[:PAGES]`, `global`. Files are read by the
    /// caller.
    fn from_str(text: &str) -> Result<Placement, String> {
        let (name, argument) = text.split_once(':').map_or((text, None), |(n, a)| (n, Some(a)));
        let number = |default: u64| match argument {
            None => Ok(default),
            Some(digits) => digits
                .parse::<u64>()
                .map_err(|_| format!("placement `{text}`: expected a number behind the colon")),
        };
        match name {
            "first-touch" if argument.is_none() => Ok(Placement::FirstTouch),
            "round-robin" if argument.is_none() => Ok(Placement::RoundRobin),
            "global" if argument.is_none() => Ok(Placement::Global),
            "single-node" => match u16::try_from(number(0)?) {
                Ok(node) => Ok(Placement::SingleNode(Node(node))),
                Err(_) => Err(format!("placement `{text}`: expected a node number")),
            },
            "striped" => match number(1)? {
                0 => Err(format!("placement `{text}`: expected at least 1 page a stripe")),
                pages => Ok(Placement::Striped(pages)),
            },
            _ => Err(format!(
                "placement `{text}`: expected first-touch, round-robin, single-node[:NODE], striped[:PAGES], global, \
                 file:FILE or areas:FILE"
            )),
        }
    }
}

impl Placement {
    /// Fails if the machine has no such node.
    pub fn check(&self, costs: &Costs) -> Result<(), String> {
        let memories = costs.memories();
        match self {
            Placement::SingleNode(node) if node.0 >= memories => {
                Err(format!("placement single-node:{node}: the machine has nodes 0 to {}", memories - 1))
            }
            Placement::Global if costs.global_node().is_none() => {
                Err("placement global: the machine has no global memory; choose another placement".into())
            }
            Placement::File(file) => match file.homes().find(|(_, node)| node.0 >= memories) {
                Some((address, node)) => Err(format!(
                    "placement file: address {address:#x} is placed at node {node}, the machine has nodes 0 to {}",
                    memories - 1
                )),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Where `page` begins.
    pub fn start(&self, history: &History, page: Page, costs: &Costs) -> Result<Start, SpillError> {
        let nodes = costs.memories() - u16::from(costs.global_node().is_some());
        let address = history.address(page);
        let number = address >> history.page_size().log2();
        if let Some(node) = self.by_rule(u64::from(page.0), number, nodes) {
            return Ok(Start { node, free: false, found: true });
        }
        let node = match self {
            Placement::Global => costs.global_node().unwrap_or(first_touch(history, page)?),
            Placement::Best => static_costs(history, page, costs)?.best,
            Placement::Worst => static_costs(history, page, costs)?.worst,
            Placement::File(file) => match file.node(address) {
                Some(node) => node,
                None => return Ok(Start { node: first_touch(history, page)?, free: false, found: false }),
            },
            _ => first_touch(history, page)?,
        };
        Ok(Start { node, free: *self == Placement::Global, found: true })
    }
}

impl Placement {
    /// The node that a rule gives without knowing who refers to the page: `order` is the page's place in order of first
    /// reference, `number` its virtual address in pages.
    pub fn by_rule(&self, order: u64, number: u64, nodes: u16) -> Option<Node> {
        let stripe = |number: u64| Node((number % u64::from(nodes)) as u16);
        match self {
            Placement::RoundRobin => Some(stripe(order)),
            Placement::SingleNode(node) => Some(*node),
            Placement::Striped(pages) => Some(stripe(number / pages)),
            _ => None,
        }
    }

    /// The node that a placement file gives an address.
    pub fn in_file(&self, address: u64) -> Option<Node> {
        match self {
            Placement::File(file) => file.node(address),
            _ => None,
        }
    }
}

fn first_touch(history: &History, page: Page) -> Result<Node, SpillError> {
    Ok(history.first_touch(page)?.unwrap_or(Node(0)))
}

struct Extremes {
    best: Node,
    worst: Node,
}

/// The best and the worst single node of a page; the lower number where they cost the same.
fn static_costs(history: &History, page: Page, costs: &Costs) -> Result<Extremes, SpillError> {
    let counts = references_by_node(history, page, costs)?;
    let cost = |at: Node| -> f64 {
        let served = |(by, &count): (usize, &u64)| count as f64 * costs.access(Node(by as u16), at);
        counts.iter().enumerate().filter(|(_, &count)| count > 0).map(served).sum()
    };
    let mut extremes = Extremes { best: Node(0), worst: Node(0) };
    let (mut least, mut most) = (cost(Node(0)), cost(Node(0)));
    for node in (1..costs.memories()).map(Node) {
        let cost = cost(node);
        if cost < least {
            (least, extremes.best) = (cost, node);
        }
        if cost > most {
            (most, extremes.worst) = (cost, node);
        }
    }
    Ok(extremes)
}

/// How often each node refers to a page.
pub fn references_by_node(history: &History, page: Page, costs: &Costs) -> Result<Vec<u64>, SpillError> {
    let mut counts = vec![0; usize::from(costs.memories())];
    for run in history.runs(page)? {
        counts[run.node.index()] += run.references();
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Uniform;

    fn costs() -> Costs {
        Costs::Uniform(Uniform { nodes: 3, remote: 5.0, page_move: 100.0, global: None })
    }

    fn starts(placement: &str, references: &[(u16, u64, bool)]) -> Vec<u16> {
        let history = History::from_references(references, 0);
        let placement: Placement = placement.parse().unwrap();
        placement.check(&costs()).unwrap();
        let start = |page| placement.start(&history, Page(page), &costs()).unwrap().node.0;
        (0..history.pages()).map(start).collect()
    }

    #[test]
    fn rules_place_pages() {
        let references = [(2, 9, true), (0, 4, true), (1, 5, true), (1, 9, true), (1, 9, false)];
        assert_eq!(starts("first-touch", &references), [2, 0, 1]);
        assert_eq!(starts("round-robin", &references), [0, 1, 2]);
        assert_eq!(starts("single-node:1", &references), [1, 1, 1]);
        assert_eq!(starts("striped", &references), [9 % 3, 4 % 3, 5 % 3]);
        assert_eq!(starts("striped:2", &references), [4 % 3, 2, 2]);
        let history = History::from_references(&references, 0);
        let node = |rule: Placement| rule.start(&history, Page(0), &costs()).unwrap().node.0;
        assert_eq!((node(Placement::Best), node(Placement::Worst)), (1, 0));
    }

    #[test]
    fn bad_placements_are_named() {
        for bad in ["nowhere", "single-node:x", "striped:0", "first-touch:2", "single-node:99999"] {
            assert!(bad.parse::<Placement>().unwrap_err().contains(bad));
        }
        assert!(Placement::SingleNode(Node(3)).check(&costs()).unwrap_err().contains("nodes 0 to 2"));
        assert!(Placement::Global.check(&costs()).unwrap_err().contains("no global memory"));
    }
}
