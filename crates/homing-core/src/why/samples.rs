//! Facts of the pages of a process that runs, from samples of who refers to them. What samples do not tell: who made a
//! page (taken to be the node where it is), and whether it is written (pages of several nodes count as written).
//!
//! A page has few samples, often one. Its best node, chosen by these samples, would look better than it is: a page that
//! all nodes use seems to belong to the one that was seen. So each sample is charged at the node that the page's other
//! samples choose, or those of its area where it has no other (leave-one-out). Where one node for all of an area does
//! better than that, as where threads wander, the samples of single pages tell nothing, and that node counts.

use super::facts::{cost_at, PageFacts, Placed, Use};
use crate::ids::Node;
use crate::machine::Costs;
use crate::sharing::{SharingClass, Tally};
use std::collections::BTreeMap;

/// A page with who was seen to refer to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampled {
    /// Its address.
    pub address: u64,
    /// Its size.
    pub bytes: u64,
    /// Where it is.
    pub at: Node,
    /// Samples by node; nodes behind the last have none.
    pub seen: Vec<u32>,
    /// References that these samples stand for, by node; empty if each stands for one.
    pub weights: Vec<u64>,
    /// A number for the name of the data in it; -1 if nothing is known.
    pub area: i32,
    /// It cannot move.
    pub held: bool,
    /// Pages that it stands for, where only a part of them was followed.
    pub stands_for: u64,
}

impl Sampled {
    /// Samples by node, a number for each of `nodes`.
    fn counts(&self, nodes: usize) -> Vec<u64> {
        self.seen.iter().copied().map(u64::from).chain(std::iter::repeat(0)).take(nodes).collect()
    }

    /// References by node that the samples stand for.
    fn references(&self, nodes: usize) -> Vec<u64> {
        match self.weights.is_empty() {
            true => self.counts(nodes),
            false => self.weights.iter().copied().chain(std::iter::repeat(0)).take(nodes).collect(),
        }
    }
}

/// The facts of sampled pages, in their order.
pub fn facts(pages: &[Sampled], costs: &Costs) -> Vec<PageFacts> {
    let nodes = usize::from(costs.memories() - u16::from(costs.global_node().is_some()));
    let mut of_area: BTreeMap<i32, Vec<u64>> = BTreeMap::new();
    for page in pages {
        let sums = of_area.entry(page.area).or_insert_with(|| vec![0; nodes]);
        sums.iter_mut().zip(page.references(nodes)).for_each(|(sum, count)| *sum += count);
    }
    let best_of_area: BTreeMap<i32, Node> =
        of_area.into_iter().map(|(area, by_node)| (area, best(costs, &by_node))).collect();
    let mut facts: Vec<PageFacts> =
        pages.iter().map(|page| page_facts(page, best_of_area[&page.area], nodes, costs)).collect();
    let mut gained: BTreeMap<i32, f64> = BTreeMap::new();
    for (page, facts) in pages.iter().zip(&facts) {
        let together = facts.cost_at(costs, best_of_area[&page.area]);
        *gained.entry(page.area).or_default() += facts.costs.at_best - together;
    }
    for (page, facts) in pages.iter().zip(&mut facts).filter(|(page, _)| gained[&page.area] > 0.0) {
        facts.best = best_of_area[&page.area];
        let cost = facts.cost_at(costs, facts.best);
        let Placed { at_best, made_at_best, replicated, bound, .. } = &mut facts.costs;
        [at_best, made_at_best, replicated, bound].into_iter().for_each(|known| *known = cost);
    }
    facts
}

fn page_facts(page: &Sampled, best_of_area: Node, nodes: usize, costs: &Costs) -> PageFacts {
    let (counts, by_node) = (page.counts(nodes), page.references(nodes));
    let alone = counts.iter().sum::<u64>() <= 1;
    let spread = Node(((page.address / page.bytes.max(1)) % nodes as u64) as u16);
    let at_best = left_out(&counts, &by_node, best_of_area, costs);
    let own = |by: usize| costs.access(Node(by as u16), Node(by as u16));
    PageFacts {
        address: page.address,
        bytes: page.bytes,
        stands_for: page.stands_for,
        writes: 0,
        class: class(&by_node),
        made_by: page.at,
        making: 0,
        migrated: None,
        home: page.at,
        best: if alone { best_of_area } else { best(costs, &by_node) },
        spread,
        costs: Placed {
            here: cost_at(costs, &by_node, page.at),
            at_best,
            made_at_best: at_best,
            at_spread: cost_at(costs, &by_node, spread),
            replicated: at_best,
            bound: at_best,
            local: by_node.iter().enumerate().map(|(by, &count)| count as f64 * own(by)).sum(),
        },
        uses: uses(&by_node),
        by_node,
        lines: None,
        small: Vec::new(),
    }
}

/// All in one interval: samples have no order.
fn uses(by_node: &[u64]) -> Vec<Use> {
    let used = by_node.iter().zip(0..).filter(|(&count, _)| count > 0);
    used.map(|(&count, node)| Use { interval: 0, node, count: count.min(u32::MAX.into()) as u32 }).collect()
}

/// What the references cost that samples stand for, each sample at the node that the others choose.
fn left_out(counts: &[u64], by_node: &[u64], best_of_area: Node, costs: &Costs) -> f64 {
    let mut others = by_node.to_vec();
    let mut cost = 0.0;
    for (by, &count) in counts.iter().enumerate().filter(|(_, &count)| count > 0) {
        // Those of a node stand for the same on average.
        let one = by_node[by] / count;
        others[by] -= one;
        let at = if others.iter().all(|&count| count == 0) { best_of_area } else { best(costs, &others) };
        cost += by_node[by] as f64 * costs.access(Node(by as u16), at);
        others[by] += one;
    }
    cost
}

/// The node where references cost least.
fn best(costs: &Costs, by_node: &[u64]) -> Node {
    let at = |node: &Node| cost_at(costs, by_node, *node);
    let nodes = (0..by_node.len() as u16).map(Node);
    nodes.min_by(|a, b| at(a).total_cmp(&at(b))).unwrap_or(Node(0))
}

/// How nodes share a page, as far as samples tell.
fn class(by_node: &[u64]) -> SharingClass {
    let mut tally = Tally::default();
    let used = by_node.iter().enumerate().filter(|(_, &count)| count > 0);
    used.for_each(|(by, &count)| tally.add(Node(by as u16), count, 0));
    match tally.finish().class {
        SharingClass::Private => SharingClass::Private,
        // That nobody writes is not known.
        _ => SharingClass::WriteShared,
    }
}

/// The share of all avoidable cost that pages have which cannot move; 0 if that is next to nothing of all cost.
pub fn held_share(pages: &[Sampled], facts: &[PageFacts]) -> f64 {
    let avoidable = |page: &PageFacts| page.costs.here - page.costs.at_best;
    let all: f64 = facts.iter().map(avoidable).sum();
    let cost: f64 = facts.iter().map(|page| page.costs.here).sum();
    let held = pages.iter().zip(facts).filter(|(page, _)| page.held);
    let held: f64 = held.map(|(_, facts)| avoidable(facts)).sum();
    match all > super::NOTHING * cost {
        true => (held / all).clamp(0.0, 1.0),
        false => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::areas::Areas;
    use crate::machine::Machine;
    use crate::why::verdict::Cause;
    use crate::why::{diagnose, Diagnosis, Setup};

    fn costs() -> Costs {
        let machine = Machine::builtin("two-socket").unwrap();
        machine.costs(machine.page_size()).unwrap()
    }

    fn page(number: u64, at: u16, seen: &[u32]) -> Sampled {
        let (address, seen) = (number * 4096, seen.to_vec());
        let weights = Vec::new();
        Sampled { address, bytes: 4096, at: Node(at), seen, weights, area: 0, held: false, stands_for: 1 }
    }

    fn judge(pages: &[Sampled]) -> Diagnosis {
        let (facts, costs) = (facts(pages, &costs()), costs());
        let of_page = pages.iter().map(|page| page.area).collect();
        let areas = Areas { names: vec!["a".into()], of_page, ..Areas::default() };
        let setup = Setup {
            facts: &facts,
            costs: &costs,
            areas: &areas,
            cpus: &[],
            times: None,
            small_pages: None,
            behind_caches: false,
        };
        diagnose(&setup)
    }

    #[test]
    fn an_array_on_one_node_that_another_uses_is_all_avoidable() {
        let pages: Vec<Sampled> = (0..64).map(|number| page(number, 0, &[0, 3])).collect();
        let found = judge(&pages);
        assert_eq!(found.cause, Cause::InitialisedByOneThread);
        assert_eq!((found.findings[0].area.bytes, found.before.nonlocal_percent()), (64 * 4096, 100.0));
        assert!((found.costs[2] - 64.0 * 3.0).abs() < 1e-9, "all local at best: {:?}", found.costs);
    }

    #[test]
    fn single_samples_of_pages_that_all_use_promise_nothing() {
        // Each page was seen once, by either node: chosen page by page, every sample would be local.
        let pages: Vec<Sampled> = (0..64)
            .map(|number| page(number, (number / 2 % 2) as u16, if number % 2 == 0 { &[1] } else { &[0, 1] }))
            .collect();
        let found = judge(&pages);
        assert_eq!((found.cause, found.at_most), (Cause::NotNuma, 0.0));
    }

    #[test]
    fn bands_that_each_node_uses_alone_are_seen_by_their_samples() {
        let pages: Vec<Sampled> =
            (0..64).map(|number| page(number, 0, if number < 32 { &[4, 0] } else { &[0, 4] })).collect();
        let facts = facts(&pages, &costs());
        assert_eq!((facts[0].best, facts[40].best), (Node(0), Node(1)));
        assert!(facts.iter().all(|page| (page.costs.at_best - 4.0).abs() < 1e-9));
        assert!(facts.iter().all(|page| page.class == SharingClass::Private && page.made_by == Node(0)));
        assert_eq!(class(&[3, 2]), SharingClass::WriteShared);
    }

    #[test]
    fn one_node_for_an_area_is_best_where_its_pages_tell_nothing() {
        let pages: Vec<Sampled> = (0..64).map(|number| page(number, 0, &[1, 2])).collect();
        let (facts, costs) = (facts(&pages, &costs()), costs());
        let cost = costs.access(Node(0), Node(1)) + 2.0;
        assert!(facts.iter().all(|page| page.best == Node(1) && (page.costs.at_best - cost).abs() < 1e-9));
        let found = judge(&pages);
        assert!(found.costs[2] <= found.costs[1], "no remedy beats the bound: {:?}", found.costs);
    }

    #[test]
    fn samples_that_stand_for_more_weigh_more_and_are_no_more_samples() {
        let weighed = |weights: &[u64]| Sampled { weights: weights.to_vec(), ..page(0, 0, &[1, 1]) };
        let (equal, costs) = (facts(&[weighed(&[1, 1])], &costs()), costs());
        assert_eq!(facts(&[page(0, 0, &[1, 1])], &costs), equal, "each stands for one");
        let heavy = &facts(&[weighed(&[10, 4000])], &costs)[0];
        assert_eq!((heavy.best, heavy.references()), (Node(1), 4010));
        // A heavy sample is one sample: a page with no other is charged at its area's node.
        let alone = Sampled { seen: vec![0, 1], weights: vec![0, 5000], ..page(1, 0, &[]) };
        let other = Sampled { seen: vec![9], weights: vec![9000], ..page(2, 0, &[]) };
        let found = facts(&[alone, other], &costs);
        assert_eq!(found[0].best, Node(0));
    }

    #[test]
    fn huge_pages_count_with_their_bytes() {
        let huge = Sampled { bytes: 2 << 20, area: -1, ..page(512, 1, &[9]) };
        let found = judge(&[huge]);
        assert_eq!((found.findings[0].area.bytes, found.findings[0].area.name.clone()), (2 << 20, None));
        assert!(judge(&[]).findings.is_empty());
    }

    #[test]
    fn pages_that_cannot_move_have_their_share_of_what_is_avoidable() {
        let mut pages: Vec<Sampled> = (0..4).map(|number| page(number, 0, &[0, 4])).collect();
        pages[..3].iter_mut().for_each(|page| page.held = true);
        let share = held_share(&pages, &facts(&pages, &costs()));
        assert!((share - 0.75).abs() < 1e-9, "{share}");
        let home = [Sampled { held: true, ..page(0, 0, &[4]) }];
        assert_eq!(held_share(&home, &facts(&home, &costs())), 0.0);
    }
}
