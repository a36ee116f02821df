//! Spreading. What all nodes use alike has no home: wherever a page of it is, most of its uses come from elsewhere, and
//! moving it after its users gains nothing (`gain.rs`). But it has a place. Where most of what a process uses lies on
//! one node, the memory of that node answers for all others, and waits grow with its load. So such pages are spread
//! over the nodes that use them, page by page, as `numactl --interleave` does for all memory from the start: uses of
//! other nodes stay as many, and each memory answers its share.
//!
//! A page is spread once. It goes to a node that uses it as soon as one uses it more than others, as any page does.

use super::{Session, PAGE};
use crate::action::{Action, Kind};
use crate::engine::Executor;
use crate::ids::{Node, Page};
use crate::process::ProcessId;

/// The reason of moves that no policy asked for.
pub const SPREAD: &str = "no node is the page's home: it is spread over the nodes that use it";

/// Uses without which there is no verdict.
const EVIDENCE: u64 = 300;

/// A node is loaded when it answers this many times the mean of the nodes that use the memory.
const LOADED: f64 = 1.5;

/// A node counts as a user from this part of the mean of all nodes on.
const USER: f64 = 0.5;

/// Uses since a page was first seen without which nobody knows whose it is. Where nothing is to be gained scans are
/// rare, so two must do.
const SEEN: u32 = 2;

/// A page has no home if no node has more than this part of its uses.
const NO_HOME: f64 = 0.5;

/// Verdicts in a row after which pages are spread: one alone may be of a phase.
const ROUNDS: u32 = 2;

/// When a process is judged, and how often in a row a node was loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Load {
    /// Uses since the last verdict.
    uses: u64,
    /// Verdicts in a row by which a node is loaded.
    rounds: u32,
}

/// Pages that are to leave a node: how many uses of each hundred of its own, and which nodes take them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Excess {
    from: Node,
    /// The share of the node's uses that the others are to answer.
    part: f64,
    /// The nodes that take pages, with the share of each in what leaves.
    to: Vec<(Node, f64)>,
}

impl Load {
    /// A use was seen.
    #[inline]
    pub fn used(&mut self) {
        self.uses += 1;
    }

    /// True if enough was seen since the last verdict for another.
    fn due(&mut self) -> bool {
        let due = self.uses >= EVIDENCE;
        if due {
            self.uses = 0;
        }
        due
    }

    /// A verdict; returned if a node is loaded, and has been for long enough.
    fn judged(&mut self, excess: Option<Excess>) -> Option<Excess> {
        self.rounds = if excess.is_some() { self.rounds + 1 } else { 0 };
        excess.filter(|_| self.rounds >= ROUNDS)
    }
}

/// What the most loaded node has above its share: uses of the memory of each node, and by its CPUs.
fn excess(of: &[u64], by: &[u64]) -> Option<Excess> {
    let (nodes, uses) = (by.len(), by.iter().sum::<u64>());
    let share = |counts: &[u64], node: usize| counts[node] as f64 / uses as f64;
    let users: Vec<usize> = (0..nodes).filter(|&node| share(by, node) >= USER / nodes as f64).collect();
    let mean = 1.0 / users.len().max(1) as f64;
    let from = (0..nodes).max_by(|&a, &b| share(of, a).total_cmp(&share(of, b)))?;
    if users.len() < 2 || share(of, from) < LOADED * mean {
        return None;
    }
    let lacks = |node: usize| (mean - share(of, node)).max(0.0);
    let lack: f64 = users.iter().map(|&node| lacks(node)).sum();
    let own = if users.contains(&from) { mean } else { 0.0 };
    let to = users.iter().filter(|&&node| node != from && lacks(node) > 0.0);
    let to = to.map(|&node| (Node(node as u16), lacks(node) / lack)).collect();
    Some(Excess { from: Node(from as u16), part: (share(of, from) - own) / share(of, from), to })
}

impl Session<'_> {
    /// A scan is over: spreads what has no home where one node answers for all. Only of processes whose pages stay
    /// otherwise, since moves after their users would gain nothing or did not pay.
    pub(super) fn spread(&mut self) {
        if !self.settings.spread {
            return;
        }
        let due = self.loads.iter_mut().filter_map(|(&process, load)| load.due().then_some(process));
        for process in due.collect::<Vec<ProcessId>>() {
            let loaded = if self.orders().leaves(process) { self.excess(process) } else { None };
            let Some(load) = self.loads.get_mut(&process) else { continue };
            if let Some(excess) = load.judged(loaded) {
                self.spread_pages(process, &excess);
            }
        }
        self.record_actions();
    }

    /// What the most loaded node has above its share of what a process uses, with all pages where they are now.
    fn excess(&self, process: ProcessId) -> Option<Excess> {
        let nodes = usize::from(self.settings.nodes);
        let (mut of, mut by) = (vec![0; nodes], vec![0; nodes]);
        for (_, entry) in self.orders().pages().iter().filter(|(_, entry)| entry.process == process) {
            let Some(at) = entry.seen_at() else { continue };
            let pages = entry.bytes / PAGE;
            for (user, &count) in entry.seen.iter().enumerate() {
                by[user] += u64::from(count) * pages;
                of[at.index()] += u64::from(count) * pages;
            }
        }
        excess(&of, &by)
    }

    fn spread_pages(&mut self, process: ProcessId, excess: &Excess) {
        let pages = self.orders().pages().iter();
        let pages: Vec<Page> = pages
            .filter(|(page, entry)| {
                entry.process == process
                    && entry.seen_at() == Some(excess.from)
                    && !entry.spread
                    && has_no_home(&entry.seen)
                    && self.orders().stays(*page).is_none()
                    && self.may_move(process, entry.address)
            })
            .map(|(page, _)| page)
            .collect();
        // Each page is given to the node that is furthest behind its share, so that pages that lie side by side, whose
        // uses are alike, go to different nodes.
        let mut given = vec![0.0; excess.to.len()];
        let (mut kept, mut left) = (0.0, 0.0);
        for page in pages {
            let seen = kept + left;
            if left > excess.part * seen {
                kept += 1.0;
                continue;
            }
            left += 1.0;
            let behind = |i: &usize| excess.to[*i].1 * left - given[*i];
            let furthest = (0..given.len()).max_by(|a, b| behind(a).total_cmp(&behind(b)));
            let Some(to) = furthest else { return };
            given[to] += 1.0;
            self.engine.executor_mut().pages_mut().entry_mut(page).spread = true;
            let kind = Kind::Move { to: excess.to[to].0 };
            self.engine.executor_mut().execute(&Action { page, kind, reason: SPREAD });
            self.account.spread += 1;
        }
    }
}

/// True if no node uses a page more than all others together.
fn has_no_home(seen: &[u32]) -> bool {
    let all: u32 = seen.iter().sum();
    let most = seen.iter().copied().max().unwrap_or(0);
    all >= SEEN && f64::from(most) <= NO_HOME * f64::from(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(excess: &Excess) -> Vec<(u16, f64)> {
        excess.to.iter().map(|(node, share)| (node.0, (share * 1000.0).round() / 1000.0)).collect()
    }

    #[test]
    fn a_node_that_answers_for_all_has_an_excess() {
        let all = excess(&[1000, 0, 0, 0], &[250; 4]).unwrap();
        assert_eq!(
            (all.from, all.part, nodes(&all)),
            (Node(0), 0.75, vec![(1, 0.333), (2, 0.333), (3, 0.333)])
        );
        // Two nodes use it, and it is on a third.
        let apart = excess(&[0, 0, 1000, 0], &[500, 500, 0, 0]).unwrap();
        assert_eq!((apart.part, nodes(&apart)), (1.0, vec![(0, 0.5), (1, 0.5)]));
        // The others get what they lack.
        let some = excess(&[600, 200, 200], &[333, 333, 334]).unwrap();
        assert_eq!(nodes(&some), [(1, 0.5), (2, 0.5)]);
        assert!((some.part - 4.0 / 9.0).abs() < 1e-9);
        assert_eq!(excess(&[300, 250, 250, 200], &[250; 4]), None, "each has its share");
        assert_eq!(excess(&[1000, 0, 0, 0], &[1000, 0, 0, 0]), None, "its only user has it");
        assert_eq!(excess(&[1000, 0], &[990, 10]), None, "the other node hardly uses it");
    }

    #[test]
    fn a_load_counts_when_it_lasts_and_enough_is_seen() {
        let loaded = excess(&[1000, 0], &[500; 2]);
        let mut load = Load::default();
        let see = |load: &mut Load, uses: u64, excess: &Option<Excess>| {
            (0..uses).for_each(|_| load.used());
            load.due() && load.judged(excess.clone()).is_some()
        };
        assert!(!see(&mut load, EVIDENCE, &loaded) && see(&mut load, EVIDENCE, &loaded));
        // Too little for a verdict is kept for the next.
        assert!(!see(&mut load, EVIDENCE - 1, &loaded) && see(&mut load, 1, &loaded));
        assert!(!see(&mut load, EVIDENCE, &None) && !see(&mut load, EVIDENCE, &loaded), "in a row");
    }

    #[test]
    fn pages_of_one_node_have_a_home() {
        assert!(has_no_home(&[1, 1]) && has_no_home(&[2, 2]) && has_no_home(&[1, 2, 1]));
        assert!(!has_no_home(&[3, 1]) && !has_no_home(&[1]) && !has_no_home(&[0, 4]) && !has_no_home(&[]));
    }
}
