//! Placement of some data of a program by name, without a change of its source (docs/place.md): what can be asked for,
//! the plan as libhoming-place.so reads it (`words.rs`), and what it counts (`counts.rs`). Names are looked up in the
//! program's files by `homing_record::sites`.

mod counts;
mod words;

pub use counts::{Counted, Counts, BYTES as COUNTS_BYTES};
pub use words::{words, Code, MOST_NAMES};

use homing_linux::topology::parse_list;
use homing_rset::ranges;
use std::fmt;
use std::str::FromStr;

/// The library that places data from inside of the program, below the directory of the recorders.
pub const LIBRARY: &str = "preload/libhoming-place.so";
/// What tells the library the directory with its plan and its counts.
pub const PLACE_ENV: &str = "HOMING_PLACE";
/// The plan in that directory.
pub const PLAN: &str = "plan";
/// The counts in that directory.
pub const COUNTS: &str = "counts";
/// Allocations of fewer bytes are not looked at: finding the caller takes some microseconds.
pub const LEAST: u64 = 16 << 10;

/// Where data are to be. Nodes have the kernel's numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Pages on these nodes in turn; on all nodes if none is named.
    Interleave(Vec<u32>),
    /// On this node, elsewhere once it is full.
    Node(u32),
    /// Parts on these nodes in turn, as large as the weights.
    Weighted(Vec<(u32, u16)>),
    /// Equal consecutive parts, one for each node, in order of nodes.
    Blocks,
}

/// What placements are written like.
pub const EXPECTED: &str = "interleave, interleave:0-1, node:0, weighted:0=3,1=1 or blocks";

impl FromStr for Placement {
    type Err = String;

    fn from_str(text: &str) -> Result<Placement, String> {
        let wrong = || format!("placement `{text}`: expected {EXPECTED}");
        let (how, nodes) = match text.split_once(':') {
            Some((how, nodes)) => (how, Some(nodes)),
            None => (text, None),
        };
        let placement = match (how, nodes) {
            ("interleave", None) => Placement::Interleave(Vec::new()),
            ("blocks", None) => Placement::Blocks,
            ("interleave", Some(nodes)) => {
                let nodes = parse_list(nodes).filter(|nodes| !nodes.is_empty());
                Placement::Interleave(nodes.ok_or_else(wrong)?)
            }
            ("node", Some(node)) => Placement::Node(node.parse().map_err(|_| wrong())?),
            ("weighted", Some(weights)) => {
                let weight = |part: &str| {
                    let (node, weight) = part.split_once('=')?;
                    let weight: u16 =
                        weight.parse().ok().filter(|weight| (1..=MOST_WEIGHT).contains(weight))?;
                    Some((node.parse().ok()?, weight))
                };
                let weights: Option<Vec<(u32, u16)>> = weights.split(',').map(weight).collect();
                let weights = weights.ok_or_else(wrong)?;
                let twice = |at: usize| weights[..at].iter().any(|(node, _)| *node == weights[at].0);
                if let Some(at) = (0..weights.len()).find(|&at| twice(at)) {
                    return Err(format!("placement `{text}`: node {} has two weights", weights[at].0));
                }
                Placement::Weighted(weights)
            }
            _ => return Err(wrong()),
        };
        Ok(placement)
    }
}

/// Weights beyond this are taken for a mistake: a part is a page at least.
const MOST_WEIGHT: u16 = 1000;

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Placement::Interleave(nodes) if nodes.is_empty() => f.write_str("interleave"),
            Placement::Interleave(nodes) => {
                write!(f, "interleave:{}", ranges(nodes.iter().map(|&node| node as u16)))
            }
            Placement::Node(node) => write!(f, "node:{node}"),
            Placement::Weighted(weights) => {
                let weights: Vec<_> =
                    weights.iter().map(|(node, weight)| format!("{node}={weight}")).collect();
                write!(f, "weighted:{}", weights.join(","))
            }
            Placement::Blocks => f.write_str("blocks"),
        }
    }
}

impl Placement {
    /// The same with nodes that are there. `memories`: nodes whose memory this process may use. `spread`: those that
    /// `interleave` alone means.
    ///
    /// # Errors
    /// Names a node that is not among them, and those that are.
    pub fn on(&self, memories: &[u32], spread: &[u32]) -> Result<Placement, String> {
        let named: Vec<u32> = match self {
            Placement::Interleave(nodes) => nodes.clone(),
            Placement::Node(node) => vec![*node],
            Placement::Weighted(weights) => weights.iter().map(|(node, _)| *node).collect(),
            Placement::Blocks => Vec::new(),
        };
        if let Some(node) = named.iter().find(|node| !memories.contains(node)) {
            let there = ranges(memories.iter().map(|&node| node as u16));
            return Err(format!(
                "placement `{self}`: there is no node {node} with memory that this process may use; expected nodes \
                 of {there}"
            ));
        }
        Ok(match self {
            Placement::Interleave(nodes) if nodes.is_empty() => Placement::Interleave(spread.to_vec()),
            same => same.clone(),
        })
    }
}

/// Some data and where they are to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The data as `homing why` names them.
    pub name: String,
    /// Where.
    pub placement: Placement,
}

impl FromStr for Entry {
    type Err = String;

    /// `NAME=PLACEMENT`. Names may have equals signs, as do weights.
    fn from_str(text: &str) -> Result<Entry, String> {
        let starts = |at: &usize| {
            let placement = &text[at + 1..];
            let word = placement.split(':').next().unwrap_or_default();
            ["interleave", "node", "weighted", "blocks"].contains(&word)
        };
        let at = text.match_indices('=').map(|(at, _)| at).rfind(starts);
        let at = at.ok_or_else(|| format!("`{text}`: expected NAME=PLACEMENT, with {EXPECTED}"))?;
        let name = text[..at].trim();
        if name.is_empty() {
            return Err(format!("`{text}`: a name is missing before `=`"));
        }
        Ok(Entry { name: name.to_owned(), placement: text[at + 1..].trim().parse()? })
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.placement)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placements_are_read_as_they_are_written() {
        for (text, placement) in [
            ("interleave", Placement::Interleave(vec![])),
            ("interleave:0-1,3", Placement::Interleave(vec![0, 1, 3])),
            ("node:7", Placement::Node(7)),
            ("weighted:0=3,1=1", Placement::Weighted(vec![(0, 3), (1, 1)])),
            ("blocks", Placement::Blocks),
        ] {
            assert_eq!(text.parse(), Ok(placement.clone()));
            assert_eq!(placement.to_string(), text);
        }
        for wrong in [
            "",
            "spread",
            "interleave:",
            "interleave:x",
            "node",
            "node:",
            "node:-1",
            "node:0-1",
            "blocks:0",
            "weighted:",
            "weighted:0",
            "weighted:0=0",
            "weighted:0=1001",
            "weighted:0=1,",
            "weighted",
        ] {
            let error = wrong.parse::<Placement>().unwrap_err();
            assert!(error.contains(EXPECTED), "{wrong}: {error}");
        }
        assert!("weighted:0=1,0=2".parse::<Placement>().unwrap_err().contains("node 0 has two weights"));
    }

    #[test]
    fn names_may_have_equals_signs_and_so_have_weights() {
        let entry = |text: &str| text.parse::<Entry>().unwrap();
        assert_eq!(entry("heat.c:18=interleave").name, "heat.c:18");
        let odd = entry("app::operator== (a.cpp:3) < main (a.cpp:9)=weighted:0=3,1=1");
        assert_eq!(odd.name, "app::operator== (a.cpp:3) < main (a.cpp:9)");
        assert_eq!(odd.to_string(), "app::operator== (a.cpp:3) < main (a.cpp:9)=weighted:0=3,1=1");
        for (wrong, says) in [
            ("heat.c:18", "expected NAME=PLACEMENT"),
            ("heat.c:18=spread", "expected NAME=PLACEMENT"),
            ("=interleave", "a name is missing"),
            ("x=node:", "placement `node:`: expected"),
        ] {
            let error = wrong.parse::<Entry>().unwrap_err();
            assert!(error.contains(says), "{wrong}: {error}");
        }
    }

    #[test]
    fn nodes_that_are_not_there_are_named_with_those_that_are() {
        let on = |text: &str| text.parse::<Placement>().unwrap().on(&[0, 2, 3], &[0, 2]);
        assert_eq!(on("interleave"), Ok(Placement::Interleave(vec![0, 2])));
        assert_eq!(on("interleave:0,2-3"), Ok(Placement::Interleave(vec![0, 2, 3])));
        assert_eq!(on("interleave:2"), Ok(Placement::Interleave(vec![2])));
        assert_eq!(on("blocks"), Ok(Placement::Blocks));
        for wrong in ["node:1", "interleave:0-3", "weighted:0=1,1=1"] {
            let error = on(wrong).unwrap_err();
            assert!(error.contains("no node 1 with memory") && error.contains("nodes of 0,2-3"), "{error}");
        }
    }
}
