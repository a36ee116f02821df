//! Counts per node of one page: what a counter-driven policy keeps. Memory: 16 bytes for each node that was seen.

use crate::ids::Node;
use serde::{Deserialize, Serialize};

/// References by node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Counters(Vec<(Node, f64)>);

impl Counters {
    /// Adds to a node's count, and returns it.
    #[inline]
    pub(super) fn add(&mut self, node: Node, count: f64) -> f64 {
        match self.0.iter_mut().find(|(of, _)| *of == node) {
            Some((_, sum)) => {
                *sum += count;
                *sum
            }
            None => {
                self.0.push((node, count));
                count
            }
        }
    }

    #[inline]
    pub(super) fn get(&self, node: Node) -> f64 {
        self.0.iter().find(|(of, _)| *of == node).map_or(0.0, |&(_, count)| count)
    }

    pub(super) fn set(&mut self, node: Node, count: f64) {
        let old = self.get(node);
        self.add(node, count - old);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Multiplies all counts.
    pub(super) fn scale(&mut self, factor: f64) {
        self.0.iter_mut().for_each(|(_, count)| *count *= factor);
    }

    /// The nodes that were seen, with their counts.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Node, f64)> + '_ {
        self.0.iter().copied()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn total(&self) -> f64 {
        self.0.iter().map(|&(_, count)| count).sum()
    }

    /// The node with the highest count; of equal ones `home`, else the lowest number.
    pub(super) fn most(&self, home: Node) -> Node {
        let better = |a: (Node, f64), b: (Node, f64)| {
            b.1 > a.1 || (b.1 == a.1 && (b.0 == home || (a.0 != home && b.0 < a.0)))
        };
        self.0.iter().copied().reduce(|a, b| if better(a, b) { b } else { a }).map_or(home, |(node, _)| node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_favour_the_home_and_low_numbers() {
        let mut counters = Counters::default();
        assert_eq!(counters.most(Node(7)), Node(7));
        for (node, count) in [(2, 5.0), (1, 5.0), (0, 4.0), (2, 1.0), (1, 1.0)] {
            counters.add(Node(node), count);
        }
        assert_eq!(counters.total(), 16.0);
        assert_eq!(counters.most(Node(0)), Node(1));
        assert_eq!(counters.most(Node(2)), Node(2));
    }
}
