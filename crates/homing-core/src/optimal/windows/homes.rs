//! A placement that could have been carried out on the whole program, as far as windows can tell what it costs.
//!
//! The program is cut into stretches as long as a window. Each begins with the page at its home, and brings it back
//! there in the end; in between the page moves as is best, or stays. So stretches do not depend on each other, and a
//! window tells what one of those costs that it stands for. The home in a window is chosen from other windows alone:
//! one that was chosen from the window itself would be too good for the stretches that it stands for.
//!
//! There are three such placements, and each page has the one that is cheapest for it over all windows:
//!
//! * it follows its users: its home is the node that uses it most in the windows before and behind;
//! * it stays: its home is the memory that is best for it in all other windows;
//! * where pages may be replicated: it stays, and there are copies at all nodes that use it in any other window. What a
//!   write drops of them is made again in the end of the stretch.

use super::super::{OptimalError, Options, Solver, Start};
use crate::history::History;
use crate::ids::{Node, Page};
use crate::machine::Costs;

/// A page in a window.
pub(super) struct Seen<'a> {
    pub window: usize,
    pub history: &'a History,
    pub page: Page,
}

/// Prices pages, one after the other.
pub(super) struct PageCost<'a> {
    costs: &'a Costs,
    options: Options,
    weights: &'a [f64],
    solver: Solver,
    /// Memories, and those that CPUs can be at: all but global memory.
    memories: u16,
    nodes: u16,
}

/// Who uses a page in a window.
struct Uses {
    /// References by node, of nodes that have any.
    by: Vec<(Node, u64)>,
    writes: bool,
    weight: f64,
}

impl Uses {
    fn of(seen: &Seen<'_>, weights: &[f64]) -> Result<Uses, OptimalError> {
        let (mut by, mut writes) = (Vec::new(), false);
        for run in seen.history.runs(seen.page)? {
            add(&mut by, run.node, run.references());
            writes |= run.writes > 0;
        }
        Ok(Uses { by, writes, weight: weights[seen.window] })
    }

    fn has(&self, node: Node) -> bool {
        self.by.iter().any(|&(by, _)| by == node)
    }
}

fn add(by: &mut Vec<(Node, u64)>, node: Node, references: u64) {
    match by.iter_mut().find(|(known, _)| *known == node) {
        Some((_, count)) => *count += references,
        None => by.push((node, references)),
    }
}

impl<'a> PageCost<'a> {
    pub fn new(costs: &'a Costs, options: Options, weights: &'a [f64], solver: Solver) -> PageCost<'a> {
        let memories = costs.memories();
        let nodes = memories - u16::from(costs.global_node().is_some());
        PageCost { costs, options, weights, solver, memories, nodes }
    }

    /// What a page costs in each of the windows that have it, with the windows' weights, and with what it pays once.
    pub fn of(&mut self, page: &[Seen<'_>]) -> Result<Vec<f64>, OptimalError> {
        let uses: Vec<Uses> =
            page.iter().map(|seen| Uses::of(seen, self.weights)).collect::<Result<_, _>>()?;
        if let ([seen], [uses]) = (page, &uses[..]) {
            return Ok(vec![uses.weight * self.anywhere(seen, uses)? + self.to_first_home(None)]);
        }
        let stays = self.best_of_others(&uses);
        let mut costs = self.with_homes(page, &uses, &stays)?;
        costs[0] += self.to_first_home(Some(stays[0]));
        let mut consider = |other: Vec<f64>| {
            if other.iter().sum::<f64>() < costs.iter().sum() {
                costs = other;
            }
        };
        let follows = users_beside(&uses);
        if follows != stays {
            let mut costs = self.with_homes(page, &uses, &follows)?;
            for (cost, homes) in costs[1..].iter_mut().zip(follows.windows(2)) {
                *cost += self.costs.copy(homes[0], homes[1]);
            }
            costs[0] += self.to_first_home(Some(follows[0]));
            consider(costs);
        }
        if let Some(copies) = self.with_copies(page, &uses, &stays)? {
            consider(copies);
        }
        Ok(costs)
    }

    /// What it costs to bring a page to its first home from where it is first touched, which windows do not tell, if
    /// that is where it begins.
    fn to_first_home(&self, home: Option<Node>) -> f64 {
        if self.options.start != Start::FirstTouch {
            return 0.0;
        }
        let nodes = || (0..self.nodes).map(Node);
        let to = |home: Node| nodes().map(|from| self.costs.copy(from, home)).fold(0.0, f64::max);
        match home {
            Some(home) => to(home),
            None => nodes().map(to).fold(0.0, f64::max),
        }
    }

    /// References from a home that the page does not leave.
    fn at(&self, uses: &Uses, home: Node) -> f64 {
        uses.by.iter().map(|&(by, count)| count as f64 * self.costs.access(by, home)).sum()
    }

    /// A window that begins and ends with the page at `home`.
    fn from(&mut self, seen: &Seen<'_>, uses: &Uses, home: Node) -> Result<f64, OptimalError> {
        let stays = self.at(uses, home);
        if home.0 >= self.nodes {
            return Ok(stays);
        }
        let runs = seen.history.runs(seen.page)?;
        let best = self.solver.page_from(seen.page, Some(home), runs, &mut ())?;
        Ok(stays.min(best.cost + self.costs.copy(best.last_home, home)))
    }

    /// A window whose page no other window has: the mean over all homes.
    fn anywhere(&mut self, seen: &Seen<'_>, uses: &Uses) -> Result<f64, OptimalError> {
        let (mut sum, mut unused) = (0.0, None);
        for node in (0..self.nodes).map(Node) {
            // On uniform machines one node that does not use the page is as good as another.
            let alike = matches!(self.costs, Costs::Uniform(_)) && !uses.has(node);
            sum += match unused.filter(|_| alike) {
                Some(cost) => cost,
                None => {
                    let cost = self.from(seen, uses, node)?;
                    unused = if alike { Some(cost) } else { unused };
                    cost
                }
            };
        }
        Ok(sum / f64::from(self.nodes))
    }

    /// For each window the memory from which all other windows together would be cheapest without moves.
    fn best_of_others(&self, uses: &[Uses]) -> Vec<Node> {
        let weighted = |uses: &Uses, memory: u16| uses.weight * self.at(uses, Node(memory));
        let all: Vec<f64> =
            (0..self.memories).map(|memory| uses.iter().map(|uses| weighted(uses, memory)).sum()).collect();
        let best = |own: &Uses| {
            let (mut best, mut least) = (0, f64::INFINITY);
            for memory in 0..self.memories {
                let others = all[usize::from(memory)] - weighted(own, memory);
                if others < least {
                    (best, least) = (memory, others);
                }
            }
            Node(best)
        };
        uses.iter().map(best).collect()
    }

    fn with_homes(
        &mut self,
        page: &[Seen<'_>],
        uses: &[Uses],
        homes: &[Node],
    ) -> Result<Vec<f64>, OptimalError> {
        let windows = page.iter().zip(uses).zip(homes);
        windows.map(|((seen, uses), &home)| Ok(uses.weight * self.from(seen, uses, home)?)).collect()
    }

    /// With copies at the nodes that use the page in any other window. None where they are not allowed, or a write in
    /// every window drops them.
    fn with_copies(
        &mut self,
        page: &[Seen<'_>],
        uses: &[Uses],
        homes: &[Node],
    ) -> Result<Option<Vec<f64>>, OptimalError> {
        let Costs::Uniform(machine) = *self.costs else { return Ok(None) };
        if !self.options.replication || uses.iter().all(|uses| uses.writes) {
            return Ok(None);
        }
        // By node: in how many windows.
        let mut users = Vec::new();
        uses.iter().flat_map(|uses| &uses.by).for_each(|&(node, _)| add(&mut users, node, 1));
        let mut costs = Vec::with_capacity(uses.len());
        for ((seen, uses), &home) in page.iter().zip(uses).zip(homes) {
            let elsewhere = |&(node, windows): &(Node, u64)| windows > u64::from(uses.has(node));
            let has_copy =
                |node: Node| node == home || users.iter().any(|user| user.0 == node && elsewhere(user));
            let others = users.iter().filter(|user| user.0 != home && elsewhere(user)).count();
            let cost = if uses.writes {
                self.from(seen, uses, home)? + others as f64 * machine.page_move
            } else {
                let from = |&(by, count): &(Node, u64)| match count as f64 {
                    count if has_copy(by) => count,
                    count => (count * machine.remote).min(count + machine.page_move),
                };
                uses.by.iter().map(from).sum()
            };
            costs.push(uses.weight * cost);
        }
        let first = users.iter().filter(|user| user.0 != homes[0]).count() as f64 * machine.page_move;
        costs[0] += first + self.to_first_home(Some(homes[0]));
        Ok(Some(costs))
    }
}

/// For each window the node that uses the page most in the windows before and behind that have it; where several do,
/// the home before, if it is one of them.
fn users_beside(uses: &[Uses]) -> Vec<Node> {
    let mut homes: Vec<Node> = Vec::with_capacity(uses.len());
    for window in 0..uses.len() {
        let mut by = Vec::new();
        let beside = [window.checked_sub(1), Some(window + 1)].into_iter().flatten();
        for uses in beside.filter_map(|beside| uses.get(beside)) {
            uses.by.iter().for_each(|&(node, count)| add(&mut by, node, count));
        }
        let before = homes.last().copied();
        let most =
            by.into_iter().max_by_key(|&(node, count)| (count, Some(node) == before, u16::MAX - node.0));
        homes.push(most.map_or(Node(0), |(node, _)| node));
    }
    homes
}
