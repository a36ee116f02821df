use super::*;
use crate::cache::Kind;
use crate::ids::{Node, Time};
use crate::monitor::card::{Card, Direction, Region};
use crate::monitor::Seen;
use proptest::prelude::*;
use std::collections::BTreeMap;

const CARD: Limits = Limits { filters: 32, counters: 512 << 10, line: 64 };

/// Counts references for a plan.
fn count(filters: &Filters, references: &[u64]) -> Vec<u64> {
    let mut counts = vec![0; filters.counters() as usize];
    references
        .iter()
        .filter_map(|&address| filters.counter(address))
        .for_each(|counter| counts[counter] += 1);
    counts
}

fn pages_of(references: &[u64]) -> Vec<u64> {
    references.iter().map(|address| address & !4095).collect()
}

/// Refines until nothing is open; gives what was found, and the runs with the limits that were announced before each.
fn refine(references: &[u64], limits: Limits, top: usize) -> (Vec<Line>, Vec<Option<usize>>) {
    let mut search = Refinement::new(&pages_of(references), limits, top);
    let mut announced = Vec::new();
    while let Some(filters) = search.plan() {
        assert!(filters.ranges().len() <= limits.filters && filters.counters() <= limits.counters);
        announced.push(search.runs_left());
        search.take(&filters, &count(&filters, references));
        assert!(announced.len() < 10_000, "it ends");
    }
    assert!(search.is_done());
    assert_eq!(search.open(), Coarse::default());
    (search.hottest(), announced)
}

/// All lines, counted one by one.
fn obvious(references: &[u64], line: u64, top: usize) -> Vec<u64> {
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    references.iter().for_each(|address| *counts.entry(address & !(line - 1)).or_default() += 1);
    let mut counts: Vec<u64> = counts.into_values().collect();
    counts.sort_unstable_by_key(|&count| std::cmp::Reverse(count));
    counts.truncate(top);
    counts
}

/// References to some places, near and far, some of them hot.
fn references() -> impl Strategy<Value = Vec<u64>> {
    let place = (0u64..6, 0u64..3, 0u64..64, 0u64..4096, 1usize..40);
    proptest::collection::vec(place, 1..120).prop_map(|places| {
        let address = |(far, block, page, offset)| (far << 32) + (block << 21) + (page << 12) + offset;
        let repeated = places.into_iter().map(|(far, block, page, offset, times)| {
            std::iter::repeat_n(address((far, block, page, offset)), times)
        });
        repeated.flatten().collect()
    })
}

proptest! {
    #[test]
    fn the_hottest_lines_are_those_of_counting_all(
        references in references(),
        filters in 1usize..40,
        counters in 15u32..20,
        top in 1usize..30,
    ) {
        let limits = Limits { filters, counters: 1 << counters, line: 64 };
        // The span may need more counters than there are at the coarsest.
        prop_assume!(Refinement::new(&pages_of(&references), limits, top).plan().is_some());
        let (found, announced) = refine(&references, limits, top);
        let counts: Vec<u64> = found.iter().map(|line| line.count).collect();
        prop_assert_eq!(counts, obvious(&references, 64, top));
        // Each time no more runs were needed than had been announced.
        for (before, left) in announced.iter().enumerate() {
            prop_assert!(left.is_none_or(|left| announced.len() - before <= left));
        }
    }

    #[test]
    fn few_counters_take_more_steps_and_find_the_same(references in references(), counters in 1u64..5) {
        let near: Vec<u64> = references.iter().map(|address| address & 0xff_ffff).collect();
        let limits = Limits { filters: 4, counters: 4 << counters, line: 32 };
        let (found, _) = refine(&near, limits, 5);
        let counts: Vec<u64> = found.iter().map(|line| line.count).collect();
        prop_assert_eq!(counts, obvious(&near, 32, 5));
    }

    #[test]
    fn filters_count_as_those_of_a_card(references in references(), fine in any::<bool>()) {
        let granularity = if fine { 4096 } else { COARSEST };
        let Some(filters) = Filters::over(&pages_of(&references), 4096, granularity, CARD) else { return Ok(()) };
        let region = |range: &Range| Region {
            start: range.start,
            size: range.bytes,
            granularity,
            kinds: 1,
            base: range.base as u32,
        };
        let regions = filters.ranges().iter().map(region).collect();
        let mut card = Card::new(Node(0), Direction::Outbound, regions, Vec::new(), 0).unwrap();
        for &address in &references {
            let (node, home, kind) = (Node(0), Node(1), Kind::ALL[0]);
            card.see(&Seen { cpu: 0, node, home, page: 0, address, kind, latency: 2.0, time: Time(0) });
        }
        let counts = count(&filters, &references);
        let ours = counts.iter().enumerate().filter(|(_, &count)| count > 0);
        let ours: BTreeMap<u32, u64> = ours.map(|(counter, &count)| (counter as u32, count)).collect();
        prop_assert_eq!(&ours, card.counters());
    }
}

#[test]
fn a_hot_line_in_much_memory_takes_two_runs_of_a_card() {
    // 1 GiB with a reference a page, and two hot lines.
    let mut references: Vec<u64> = (0..1 << 18).map(|page: u64| page << 12).collect();
    references.extend([0x123_4567; 5000]);
    references.extend([0x3000_0040; 4000]);
    let (found, announced) = refine(&references, CARD, 2);
    let found: Vec<(u64, u64)> = found.iter().map(|line| (line.address, line.count)).collect();
    assert_eq!(found, [(0x123_4540, 5000), (0x3000_0040, 4000)]);
    // The first run tells that all the rest has at most 512 references a region.
    assert_eq!(announced.len(), 2);
}

#[test]
fn nothing_is_planned_for_no_memory_and_for_more_than_the_counters_span() {
    assert_eq!(Refinement::new(&[], CARD, 3).plan(), None);
    let far: Vec<u64> = (0..100).map(|place: u64| place << 40).collect();
    assert_eq!(Refinement::new(&far, CARD, 3).plan(), None, "32 filters, 512 Ki counters of 2 MiB");
}
