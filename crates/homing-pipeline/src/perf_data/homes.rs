//! Where pages are, from what samples say: the physical address, else whether memory was local or remote to the CPU.

use std::collections::BTreeMap;

/// What is known of where a page is: a score for each node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Votes {
    /// The node of the physical address that was seen last.
    pub physical: Option<usize>,
    score: Vec<f64>,
}

/// How it is known where a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// By a physical address, or there is one node only.
    Surely,
    /// By what was local and what was remote.
    BySource,
    /// As its area's other pages.
    AsNeighbours,
}

impl Votes {
    /// A CPU of a node found the page in its own memory, or (`local` false) in another's, of which each may be meant.
    pub fn vote(&mut self, nodes: usize, node: usize, local: bool) {
        self.score.resize(nodes, 0.0);
        if local {
            self.score[node] += 1.0;
        } else {
            let share = 1.0 / (nodes - 1).max(1) as f64;
            let others = self.score.iter_mut().enumerate().filter(|(other, _)| *other != node);
            others.for_each(|(_, score)| *score += share);
        }
    }

    /// A page was found in memory that no CPU has as its own: on one of these nodes.
    pub fn far(&mut self, nodes: usize, far: &[usize]) {
        self.score.resize(nodes, 0.0);
        far.iter().for_each(|&node| self.score[node] += 1.0 / far.len() as f64);
    }

    /// The nodes with the highest score, and whether there is any.
    fn best(&self) -> Vec<usize> {
        let most = self.score.iter().copied().fold(0.0, f64::max);
        let within = |(_, score): &(usize, &f64)| most > 0.0 && **score >= most - 1e-9;
        self.score.iter().enumerate().filter(within).map(|(node, _)| node).collect()
    }
}

/// Where pages are; `None` if nothing says it. Each is given with a number for its area.
pub fn place(nodes: usize, pages: &[(u64, Votes)]) -> Vec<Option<(usize, Known)>> {
    if nodes == 1 {
        return vec![Some((0, Known::Surely)); pages.len()];
    }
    let alone = |votes: &Votes| match (votes.physical, &votes.best()[..]) {
        (Some(node), _) => Some((node, Known::Surely)),
        (None, &[node]) => Some((node, Known::BySource)),
        _ => None,
    };
    let mut of_area: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let found: Vec<_> = pages.iter().map(|(_, votes)| alone(votes)).collect();
    for ((area, _), (node, _)) in
        pages.iter().zip(&found).filter_map(|(page, found)| Some((page, found.as_ref()?)))
    {
        of_area.entry(*area).or_insert_with(|| vec![0; nodes])[*node] += 1;
    }
    let with_area = |((area, votes), found): (&(u64, Votes), Option<(usize, Known)>)| {
        found.or_else(|| {
            let counts = of_area.get(area)?;
            let best = votes.best();
            let may = |node: &usize| counts[*node] > 0 && (best.is_empty() || best.contains(node));
            let node = (0..nodes).filter(may).max_by_key(|&node| (counts[node], std::cmp::Reverse(node)))?;
            Some((node, Known::AsNeighbours))
        })
    };
    pages.iter().zip(found).map(with_area).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_memory_is_the_other_of_two_nodes_and_a_guess_of_more() {
        let remote = |nodes: usize| {
            let mut votes = Votes::default();
            votes.vote(nodes, 0, false);
            votes
        };
        assert_eq!(place(2, &[(0, remote(2))]), [Some((1, Known::BySource))]);
        assert_eq!(place(4, &[(0, remote(4))]), [None]);
        let mut twice = remote(4);
        twice.vote(4, 1, false);
        twice.vote(4, 2, true);
        assert_eq!(place(4, &[(0, twice)]), [Some((2, Known::BySource))]);
        // As the area's other pages, but not where it was seen not to be.
        let at = |node| (0, Votes { physical: Some(node), ..Votes::default() });
        let placed = place(4, &[at(0), at(0), at(3), (0, remote(4)), (1, remote(4)), (0, Votes::default())]);
        assert_eq!(placed[3..], [Some((3, Known::AsNeighbours)), None, Some((0, Known::AsNeighbours))]);
        assert_eq!(place(1, &[(0, Votes::default())]), [Some((0, Known::Surely))]);
    }
}
