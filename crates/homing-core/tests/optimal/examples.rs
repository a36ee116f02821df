//! Traces whose optimum is known by hand.

use crate::exhaustive::Reference;
use crate::properties::optimum;
use homing_core::account::Charges;
use homing_core::ids::Node;
use homing_core::machine::{Costs, Global, Uniform};
use homing_core::optimal::{Kind, Options, Start};

const READ: bool = false;
const WRITE: bool = true;

fn machine() -> Costs {
    Costs::Uniform(Uniform { nodes: 4, remote: 5.0, page_move: 100.0, global: None })
}

fn machine_with_global() -> Costs {
    let global = Some(Global { access: 2.0, page_move: 60.0 });
    Costs::Uniform(Uniform { nodes: 4, remote: 5.0, page_move: 100.0, global })
}

fn stretches(stretches: &[(u16, bool, usize)]) -> Vec<Reference> {
    stretches.iter().flat_map(|&(node, write, n)| std::iter::repeat_n((node, write), n)).collect()
}

fn counts(trace: &[Reference], costs: &Costs) -> Charges {
    optimum(trace, costs, Options::default()).0.counts
}

/// The two traces of the proof in section 2.5 that no optimal policy is on-line: equal up to Time 10R.
#[test]
fn the_papers_two_traces() {
    let n = 10 * 100;
    let back = stretches(&[(0, WRITE, n), (1, WRITE, 1), (0, WRITE, n)]);
    let (optimal, actions) = optimum(&back, &machine(), Options::default());
    assert_eq!(optimal.cost, 2.0 * n as f64 + 5.0);
    assert_eq!(actions.len(), 1, "it stays where it is placed: {actions:?}");
    let forth = stretches(&[(0, WRITE, n), (1, WRITE, n)]);
    let (optimal, actions) = optimum(&forth, &machine(), Options::default());
    assert_eq!(optimal.cost, 2.0 * n as f64 + 100.0);
    assert_eq!(optimal.counts, Charges { local: 2 * n as u64, copies: 1, moves: 1, ..Charges::default() });
    assert_eq!((actions[1].kind, actions[1].reference, actions[1].to), (Kind::Move, n as u64, Node(1)));
}

#[test]
fn a_move_must_be_earned() {
    // R / (r - 1) = 25 references pay for a move; on a tie the page stays.
    let moved = |n| counts(&stretches(&[(0, WRITE, 1000), (1, WRITE, n)]), &machine()).moves;
    assert_eq!((moved(25), moved(26)), (0, 1));
}

#[test]
fn a_page_written_once_and_read_by_all_is_replicated() {
    let trace = stretches(&[(0, WRITE, 1), (0, READ, 500), (1, READ, 500), (2, READ, 500), (3, READ, 3)]);
    let (optimal, actions) = optimum(&trace, &machine(), Options::default());
    let expected = Charges { local: 1501, remote: 3, copies: 2, replications: 2, ..Charges::default() };
    assert_eq!(optimal.counts, expected);
    let made: Vec<_> = actions.iter().map(|a| (a.kind, a.reference, a.to.0)).collect();
    assert_eq!(made, [(Kind::Place, 0, 0), (Kind::Replicate, 501, 1), (Kind::Replicate, 1001, 2)]);
    let alone = optimum(&trace, &machine(), Options { replication: false, ..Options::default() }).0;
    assert_eq!(alone.counts.moves, 2, "without replication it moves along");
}

#[test]
fn a_page_that_is_only_read_starts_with_one_copy_or_with_many() {
    let trace = stretches(&[(0, READ, 500), (1, READ, 500)]);
    let cost = |start| optimum(&trace, &machine(), Options { start, ..Options::default() }).0.cost;
    assert_eq!(cost(Start::OneCopy), 1100.0);
    assert_eq!(cost(Start::AnySet), 1000.0);
}

#[test]
fn a_page_written_in_turns_goes_to_global_memory() {
    let turns: Vec<_> = (0..400).map(|i| (i % 4, WRITE)).collect();
    let expected = Charges { global: 400, ..Charges::default() };
    assert_eq!(counts(&turns, &machine_with_global()), expected);
    let expected = Charges { local: 100, remote: 300, ..Charges::default() };
    assert_eq!(counts(&turns, &machine()), expected);
}

#[test]
fn copies_are_cheaper_through_global_memory() {
    // One processor initialises, three read: G for global memory and G for each copy is less than R for each copy.
    let trace =
        stretches(&[(0, WRITE, 200), (1, READ, 500), (2, READ, 500), (3, READ, 500), (0, WRITE, 500)]);
    let expected = Charges { local: 2200, global_copies: 4, replications: 4, ..Charges::default() };
    assert_eq!(counts(&trace, &machine_with_global()), expected);
}

#[test]
fn an_empty_trace_costs_nothing() {
    let (optimal, actions) = optimum(&[], &machine(), Options::default());
    assert_eq!((optimal.cost, optimal.mcpr(), optimal.pages, actions.len()), (0.0, 1.0, 0, 0));
}
