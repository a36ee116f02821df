//! A placement that could have been carried out on the whole program, as far as windows can tell what it costs.
//!
//! The program is cut into stretches as long as a window. Each begins with the page at its home, and brings it back
//! there in the end; in between the page moves as is best, or stays. So stretches do not depend on each other, and a
//! window tells what one of those costs that it stands for. The home in a window is chosen from other windows alone:
//! one that was chosen from the window itself would be too good for the stretches that it stands for.
//!
//! There are several such placements, and each page has the one that is cheapest for it over all windows:
//!
//! * it follows its users: its home is the node that uses it most in the windows before and behind;
//! * it stays: its home is the memory that is best for it in all other windows;
//! * where pages may be replicated: it stays, and there are copies at all nodes that use it in any other window; or it
//!   follows, and there are copies at all that use it in the windows before and behind, if these do not write. What a
//!   write drops of them is made again in the end of the stretch.
//!
//! Where one window alone has the page, others tell of its [`neighbours`].

use super::super::{OptimalError, Options, Solver, Start};
use crate::history::History;
use crate::ids::{Node, Page};
use crate::machine::Costs;
use rayon::prelude::*;

/// A page in a window.
pub(super) struct Seen<'a> {
    pub window: usize,
    pub history: &'a History,
    pub page: Page,
}

/// A page by its address, and who uses it most.
type Place = (u64, Node);

/// For each page that one window has alone, in order of address: the node that uses the nearest page most that another
/// window has, if there is one.
pub(super) fn neighbours(pages: &[Vec<Seen<'_>>]) -> Result<Vec<Option<Node>>, OptimalError> {
    let users: Vec<User> =
        pages.par_iter().map(|page| User::of(page)).collect::<Result<_, OptimalError>>()?;
    let below = last_of_others(users.iter());
    let mut above = last_of_others(users.iter().rev());
    above.reverse();
    let nearest = |(user, (below, above)): (&User, (Option<Place>, Option<Place>))| {
        let far =
            |place: Option<Place>| place.map_or(u64::MAX, |(address, _)| address.abs_diff(user.address));
        if far(above) < far(below) { above } else { below }.map(|(_, node)| node)
    };
    Ok(users.iter().zip(below.into_iter().zip(above)).map(nearest).collect())
}

/// Who uses a page most, in the first and in the last window that has it.
struct User {
    address: u64,
    first: (usize, Node),
    last: (usize, Node),
}

impl User {
    fn of(page: &[Seen<'_>]) -> Result<User, OptimalError> {
        let most = |seen: &Seen<'_>| {
            let mut by = Vec::new();
            seen.history.runs(seen.page)?.for_each(|run| add(&mut by, run.node, run.references()));
            let most = by.into_iter().max_by_key(|&(node, count)| (count, u16::MAX - node.0));
            Ok::<_, OptimalError>((seen.window, most.map_or(Node(0), |(node, _)| node)))
        };
        let (first, last) = (&page[0], &page[page.len() - 1]);
        Ok(User { address: first.history.address(first.page), first: most(first)?, last: most(last)? })
    }

    fn is_lone(&self) -> bool {
        self.first.0 == self.last.0
    }

    /// Its user in a window that is not `window`.
    fn but_in(&self, window: usize) -> Option<Node> {
        [self.first, self.last].into_iter().find(|&(of, _)| of != window).map(|(_, node)| node)
    }
}

/// For each page that is alone in its window the last page before it that another window has.
fn last_of_others<'u>(users: impl Iterator<Item = &'u User>) -> Vec<Option<(u64, Node)>> {
    // The last page, and the last one with another window than that one's only.
    let (mut last, mut other): (Option<&User>, Option<&User>) = (None, None);
    let mut found = Vec::new();
    for user in users {
        let window = user.first.0;
        let from = |page: &User| page.but_in(window).map(|node| (page.address, node));
        found.push(last.and_then(from).or_else(|| other.and_then(from)));
        if last.is_some_and(|last| !(last.is_lone() && user.is_lone() && last.first.0 == window)) {
            other = last;
        }
        last = Some(user);
    }
    found
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

    /// What a page costs that one window has alone: from any home, in the mean, and from `home`.
    pub fn of_lone(&mut self, seen: &Seen<'_>, home: Option<Node>) -> Result<(f64, f64), OptimalError> {
        let uses = Uses::of(seen, self.weights)?;
        let anywhere = uses.weight * self.anywhere(seen, &uses)? + self.to_first_home(None);
        let Some(home) = home else { return Ok((anywhere, anywhere)) };
        Ok((anywhere, uses.weight * self.from(seen, &uses, home)? + self.to_first_home(Some(home))))
    }

    /// What a page costs in each of the windows that have it, with the windows' weights, and with what it pays once.
    pub fn of(&mut self, page: &[Seen<'_>]) -> Result<Vec<f64>, OptimalError> {
        let uses: Vec<Uses> =
            page.iter().map(|seen| Uses::of(seen, self.weights)).collect::<Result<_, _>>()?;
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
        for (homes, copies) in
            [(&stays, users_of_others(&uses, &stays)), (&follows, readers_beside(&uses, &follows))]
        {
            self.with_copies(page, &uses, homes, &copies)?.into_iter().for_each(&mut consider);
        }
        Ok(costs)
    }

    /// What it costs to bring a page to its first home from where it is first touched, which is not used here, if
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

    /// With copies beside the home. What comes to a node that had none in the window before pays for it once. None
    /// where copies are not allowed, or all windows write.
    fn with_copies(
        &mut self,
        page: &[Seen<'_>],
        uses: &[Uses],
        homes: &[Node],
        copies: &[Vec<Node>],
    ) -> Result<Option<Vec<f64>>, OptimalError> {
        let Costs::Uniform(machine) = *self.costs else { return Ok(None) };
        if !self.options.replication || uses.iter().all(|uses| uses.writes) {
            return Ok(None);
        }
        let mut costs = Vec::with_capacity(uses.len());
        for (window, ((seen, uses), &home)) in page.iter().zip(uses).zip(homes).enumerate() {
            let others = &copies[window];
            let from = |&(by, count): &(Node, u64)| match count as f64 {
                count if by == home || others.contains(&by) => count,
                count => (count * machine.remote).min(count + machine.page_move),
            };
            let cost = match (uses.writes, &others[..]) {
                (_, []) => self.from(seen, uses, home)?,
                (true, others) => self.from(seen, uses, home)? + others.len() as f64 * machine.page_move,
                (false, _) => uses.by.iter().map(from).sum(),
            };
            let had = |node: &&Node| match window.checked_sub(1) {
                Some(before) => homes[before] == **node || copies[before].contains(node),
                None => window == 0 && home == **node,
            };
            let new = others.iter().chain([&home]).filter(|node| !had(node)).count();
            costs.push(uses.weight * cost + new as f64 * machine.page_move);
        }
        costs[0] += self.to_first_home(Some(homes[0]));
        Ok(Some(costs))
    }
}

/// For each window the nodes beside its home that use the page in any other window.
fn users_of_others(uses: &[Uses], homes: &[Node]) -> Vec<Vec<Node>> {
    // By node: in how many windows.
    let mut users = Vec::new();
    uses.iter().flat_map(|uses| &uses.by).for_each(|&(node, _)| add(&mut users, node, 1));
    let of = |(own, home): (&Uses, &Node)| {
        let others = users.iter().filter(|(node, windows)| *windows > u64::from(own.has(*node)));
        others.map(|&(node, _)| node).filter(|node| node != home).collect()
    };
    uses.iter().zip(homes).map(of).collect()
}

/// For each window the nodes beside its home that use the page in the windows before and behind; none if it is written
/// there.
fn readers_beside(uses: &[Uses], homes: &[Node]) -> Vec<Vec<Node>> {
    let of = |(window, home): (usize, &Node)| {
        if beside(uses, window).any(|uses| uses.writes) {
            return Vec::new();
        }
        let mut users = Vec::new();
        beside(uses, window).flat_map(|uses| &uses.by).for_each(|&(node, _)| add(&mut users, node, 1));
        users.into_iter().map(|(node, _)| node).filter(|node| node != home).collect()
    };
    homes.iter().enumerate().map(of).collect()
}

/// The windows before and behind.
fn beside(uses: &[Uses], window: usize) -> impl Iterator<Item = &Uses> {
    [window.checked_sub(1), Some(window + 1)].into_iter().flatten().filter_map(|beside| uses.get(beside))
}

/// For each window the node that uses the page most in the windows before and behind that have it; where several do,
/// the home before, if it is one of them.
fn users_beside(uses: &[Uses]) -> Vec<Node> {
    let mut homes: Vec<Node> = Vec::with_capacity(uses.len());
    for window in 0..uses.len() {
        let mut by = Vec::new();
        for uses in beside(uses, window) {
            uses.by.iter().for_each(|&(node, count)| add(&mut by, node, count));
        }
        let before = homes.last().copied();
        let most =
            by.into_iter().max_by_key(|&(node, count)| (count, Some(node) == before, u16::MAX - node.0));
        homes.push(most.map_or(Node(0), |(node, _)| node));
    }
    homes
}
