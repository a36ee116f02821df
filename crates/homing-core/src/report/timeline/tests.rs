use super::*;
use crate::history::History;
use crate::machine::Machine;
use crate::policy::placement::Placement;
use crate::why::facts::facts;

/// The timeline of all pages that some references (node, page, write) are to.
fn of(references: &[(u16, u64, bool)]) -> AreaTimeline {
    let machine = Machine::builtin("two-socket").unwrap();
    let costs = machine.costs(machine.page_size()).unwrap();
    let history = History::from_references(references, costs.read_gap());
    let facts = facts(&history, &costs, &Placement::FirstTouch).unwrap();
    timeline(&(0..facts.len()).collect::<Vec<_>>(), &facts, INTERVALS)
}

/// Cells of a row.
fn cells(row: &str) -> usize {
    row.split(' ').map(|word| word.split_once('x').map_or(1, |(_, times)| times.parse().unwrap())).sum()
}

#[test]
fn each_interval_has_who_uses_each_page_most_and_whether_alone() {
    // First node 0 has both pages to itself, then node 1 uses the second most and node 0 a little.
    let first = [(0, 0, true), (0, 1, true)].repeat(320);
    let second = [(1, 1, false), (1, 1, false), (0, 1, false)].repeat(213);
    let timeline = of(&[first, second].concat());
    assert_eq!((timeline.cells.len(), timeline.pages_per_cell, timeline.pages_folded), (2, 1, 0));
    assert_eq!(timeline.users.len(), INTERVALS);
    assert_eq!((timeline.users[0].as_str(), timeline.users[31].as_str()), ("0x2", ". 1+"));
}

#[test]
fn pages_beyond_the_cells_share_them_and_are_counted() {
    let pages = 2 * CELLS as u64 + 1;
    let references: Vec<_> = (0..pages).map(|page| (u16::from(page >= 3), page, true)).collect();
    let timeline = of(&references);
    assert_eq!(timeline.pages_per_cell, 3);
    assert_eq!(timeline.cells.len() as u64, pages.div_ceil(3));
    assert_eq!(timeline.pages_folded, pages - pages.div_ceil(3));
    assert!(timeline.users.iter().all(|row| cells(row) == timeline.cells.len()), "{:?}", timeline.users);
    assert!(timeline.users[0].starts_with("0 1x"), "{}", timeline.users[0]);
}
