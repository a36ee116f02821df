//! Spreading. What all nodes use alike has no home: wherever a page of it is, most of its uses come from elsewhere, and
//! moving it after its users gains nothing (`gain.rs`). But it has a place. Where most of what a process uses lies on
//! one node, the memory of that node answers for all others, and waits grow with its load. So such pages are spread
//! over the nodes that use them, page by page, as `numactl --interleave` does for all memory from the start: uses of
//! other nodes stay as many, and each memory answers its share.
//!
//! A page is spread once. It goes to a node that uses it as soon as one uses it more than others, as any page does.

use super::{Session, PAGE};
use homing_core::action::{Action, Kind};
use homing_core::engine::Executor;
use homing_core::ids::{Node, Page};
use homing_core::process::ProcessId;

/// The reason of moves that no policy asked for.
pub const SPREAD: &str = "no node is the page's home: it is spread over the nodes that use it";

/// Uses since the last verdict without which there is no other ...
const EVIDENCE: u64 = 300;

/// ... and one use for each four pages, since a verdict goes through all of them.
const PAGES: u64 = 4;

/// A node is loaded when it answers this many times the mean of the nodes that use the memory.
const LOADED: f64 = 1.5;

/// A node counts as a user from this part of the mean of all nodes on, and if a thread stays there that was seen to use
/// pages. Of few scans the shares say little: whose threads run first after one takes most of its faults.
const USER: f64 = 0.5;

/// Uses since a page was first seen without which nobody knows whose it is: until then it goes to nobody but its user.
/// Where nothing is to be gained scans are rare, so two must do.
const SEEN: u32 = 2;

/// A page may leave a node that has no more than this part of its uses.
const AT_HOME: f64 = 0.5;

/// When a process is judged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Load {
    /// Uses since the last verdict.
    uses: u64,
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

    /// True if enough was seen since the last verdict for another, with that many pages.
    fn due(&mut self, pages: usize) -> bool {
        let due = self.uses >= EVIDENCE.max(pages as u64 / PAGES);
        if due {
            self.uses = 0;
        }
        due
    }
}

/// What the most loaded node has above its share: uses of the memory of each node, and by its CPUs, and whether a
/// thread that uses pages `stays` there.
fn excess(of: &[u64], by: &[u64], stays: impl Fn(Node) -> bool) -> Option<Excess> {
    let (nodes, uses) = (by.len(), by.iter().sum::<u64>());
    let share = |counts: &[u64], node: usize| counts[node] as f64 / uses as f64;
    let is_user = |node: &usize| share(by, *node) >= USER / nodes as f64 || stays(Node(*node as u16));
    let users: Vec<usize> = (0..nodes).filter(is_user).collect();
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
    /// Spreads what has no home where one node answers for all. Only of processes whose pages stay otherwise, since
    /// moves after their users would gain nothing or did not pay.
    pub(super) fn spread(&mut self) {
        if !self.settings.spread {
            return;
        }
        let pages = self.orders().pages().len();
        let left = self.loads.keys().filter(|&&process| self.orders().leaves(process));
        for process in left.copied().collect::<Vec<ProcessId>>() {
            let due = self.loads.get_mut(&process).is_some_and(|load| load.due(pages));
            if let Some(excess) = due.then(|| self.excess(process)).flatten() {
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
        excess(&of, &by, |node| self.processes.is_used_from(process, node))
    }

    fn spread_pages(&mut self, process: ProcessId, excess: &Excess) {
        let pages = self.orders().pages().iter();
        let pages: Vec<Page> = pages
            .filter(|(page, entry)| {
                entry.process == process
                    && entry.seen_at() == Some(excess.from)
                    && !entry.spread
                    && !at_home(&entry.seen, excess.from)
                    && self.orders().stays(*page).is_none()
                    && self.may_move(process, entry.address)
            })
            .map(|(page, _)| page)
            .collect();
        // Each page goes to a node that is behind its share: of these to the one that used it most often, and of
        // several to the one that is furthest behind, so that pages that lie side by side go to different ones.
        let mut given = vec![0.0; excess.to.len()];
        let (mut kept, mut left) = (0.0, 0.0);
        for page in pages {
            let seen = &self.orders().pages().entry(page).seen;
            let uses = |i: usize| seen.get(excess.to[i].0.index()).copied().unwrap_or(0);
            let behind = |i: usize| excess.to[i].1 * (left + 1.0) - given[i];
            let known = seen.iter().sum::<u32>() >= SEEN;
            let takers = (0..given.len()).filter(|&i| behind(i) > 0.0 && (known || uses(i) > 0));
            let taker = takers.max_by(|&a, &b| uses(a).cmp(&uses(b)).then(behind(a).total_cmp(&behind(b))));
            let Some(to) = taker.filter(|_| left <= excess.part * (kept + left)) else {
                kept += 1.0;
                continue;
            };
            left += 1.0;
            given[to] += 1.0;
            self.engine.executor_mut().pages_mut().entry_mut(page).spread = true;
            let kind = Kind::Move { to: excess.to[to].0 };
            self.engine.executor_mut().execute(&Action { page, kind, reason: SPREAD });
            self.account.spread += 1;
        }
    }
}

/// True if a page should not leave a node: the node uses it more than all others together, or nobody has been seen.
fn at_home(seen: &[u32], node: Node) -> bool {
    let all: u32 = seen.iter().sum();
    let own = seen.get(node.index()).copied().unwrap_or(0);
    all == 0 || f64::from(own) > AT_HOME * f64::from(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_uses(of: &[u64], by: &[u64]) -> Option<Excess> {
        excess(of, by, |_| false)
    }

    fn nodes(excess: &Excess) -> Vec<(u16, f64)> {
        excess.to.iter().map(|(node, share)| (node.0, (share * 1000.0).round() / 1000.0)).collect()
    }

    #[test]
    fn a_node_that_answers_for_all_has_an_excess() {
        let all = of_uses(&[1000, 0, 0, 0], &[250; 4]).unwrap();
        assert_eq!(
            (all.from, all.part, nodes(&all)),
            (Node(0), 0.75, vec![(1, 0.333), (2, 0.333), (3, 0.333)])
        );
        // Two nodes use it, and it is on a third.
        let apart = of_uses(&[0, 0, 1000, 0], &[500, 500, 0, 0]).unwrap();
        assert_eq!((apart.part, nodes(&apart)), (1.0, vec![(0, 0.5), (1, 0.5)]));
        // The others get what they lack.
        let some = of_uses(&[600, 200, 200], &[333, 333, 334]).unwrap();
        assert_eq!(nodes(&some), [(1, 0.5), (2, 0.5)]);
        assert!((some.part - 4.0 / 9.0).abs() < 1e-9);
        assert_eq!(of_uses(&[300, 250, 250, 200], &[250; 4]), None, "each has its share");
        assert_eq!(of_uses(&[1000, 0, 0, 0], &[1000, 0, 0, 0]), None, "its only user has it");
        assert_eq!(of_uses(&[1000, 0], &[990, 10]), None, "the other node hardly uses it");
        let seldom = excess(&[450, 550, 0], &[500, 490, 10], |node| node == Node(2)).unwrap();
        assert_eq!((seldom.from, nodes(&seldom)), (Node(1), vec![(2, 1.0)]), "its threads came late");
    }

    #[test]
    fn a_verdict_comes_when_enough_is_seen() {
        let mut load = Load::default();
        let mut due = |uses: u64| {
            (0..uses).for_each(|_| load.used());
            load.due(1000)
        };
        assert!(due(EVIDENCE) && !due(0));
        // Too little for a verdict is kept for the next.
        assert!(!due(EVIDENCE - 1) && due(1));
        (0..EVIDENCE).for_each(|_| load.used());
        assert!(!load.due(10_000) && load.due(1000), "many pages take many uses");
    }

    #[test]
    fn pages_that_the_node_itself_uses_most_stay() {
        let leaves = |seen: &[u32]| !at_home(seen, Node(0));
        assert!(leaves(&[1, 1]) && leaves(&[0, 2]) && leaves(&[1, 2, 1]));
        assert!(!leaves(&[3, 1]) && !leaves(&[2]) && !leaves(&[1]) && !leaves(&[]));
    }
}
