//! Pages that are on several nodes when they are first seen wait until it is known whether they have users.

use super::world::{policy, World};

/// Pages of the program: a quarter on each node.
const PAGES: u64 = 800;
const QUARTER: u64 = PAGES / 4;

/// The first page of a quarter.
fn first(quarter: u64) -> u64 {
    quarter * QUARTER + 1
}

/// A program whose pages are on these nodes, by quarters.
fn program<'p>(policy: &'p mut dyn homing_core::policy::Policy, nodes: [u16; 4]) -> World<'p> {
    let mut world = World::new("scans", policy);
    for (quarter, node) in nodes.iter().enumerate() {
        let first = first(quarter as u64);
        (first..first + QUARTER).for_each(|page| drop(world.say(&format!("others h{page} {node}"))));
    }
    world
}

/// After a scan each quarter is used by one node. Returns how many pages have moved by the end of the interval.
fn uses(world: &mut World<'_>, by: [u16; 4]) -> u64 {
    world.say("scanned");
    for (quarter, thread) in by.iter().enumerate() {
        let first = first(quarter as u64);
        world.say(&format!("sweep t{thread} {first} {}", first + QUARTER - 1));
    }
    let before = world.session.account().total.moved;
    world.say("end");
    while !world.say("land").is_empty() {
        world.say("end");
    }
    world.session.account().total.moved - before
}

#[test]
fn pages_on_several_nodes_move_once_their_users_are_seen_again() {
    let mut policy = policy();
    let mut world = program(policy.as_mut(), [0, 1, 2, 3]);
    let sent: Vec<u64> = (0..2).map(|_| uses(&mut world, [1, 2, 3, 0])).collect();
    assert_eq!(sent, [0, PAGES]);
    assert_eq!(world.pages_on(1..=PAGES), [QUARTER as usize; 4]);
}

#[test]
fn pages_on_one_node_move_at_once() {
    let mut policy = policy();
    let mut world = program(policy.as_mut(), [0; 4]);
    // All but the first few of each part of the memory, of which nothing was known.
    let moved = uses(&mut world, [0, 1, 2, 3]);
    assert!(moved > PAGES / 2, "{moved}");
}

#[test]
fn pages_on_several_nodes_stay_if_others_use_them_the_next_time() {
    let mut policy = policy();
    let mut world = program(policy.as_mut(), [0, 1, 2, 3]);
    // The nodes have their own pages to themselves in one sweep; those of the other sweep are anybody's.
    for by in [[1, 2, 3, 0], [2, 0, 1, 1], [0, 1, 2, 3], [3, 2, 0, 1], [0, 1, 2, 3]] {
        assert_eq!(uses(&mut world, by), 0);
    }
    assert_eq!(world.session.account().total.moved, 0);
}

#[test]
fn two_scans_tell_that_all_pages_are_at_home_and_no_more_are_made_soon() {
    let mut policy = policy();
    let mut world = program(policy.as_mut(), [0, 1, 2, 3]);
    assert!(world.say("wait 1000").contains("scan"));
    uses(&mut world, [0, 1, 2, 3]);
    assert!(world.say("wait 1000").contains("scan"));
    uses(&mut world, [0, 1, 2, 3]);
    let said: Vec<String> = (0..15).map(|_| world.say("wait 100")).collect();
    assert!(!said.concat().contains("scan"), "{said:?}");
}

#[test]
fn moves_that_made_it_worse_are_taken_back() {
    let mut policy = policy();
    let mut world = program(policy.as_mut(), [0, 1, 2, 3]);
    // Node 3 is the first to pass over all data three times in a row, then each node is seen with its own.
    let moved: u64 = (0..3).map(|_| uses(&mut world, [3; 4])).sum();
    assert_eq!((moved, world.pages_on(1..=PAGES)), (PAGES - QUARTER, [0, 0, 0, PAGES as usize]));
    for by in [[0, 1, 2, 3], [1, 2, 0, 3], [0, 1, 2, 3], [2, 0, 1, 3], [0, 1, 2, 3]] {
        uses(&mut world, by);
    }
    assert_eq!(world.session.account().undone, PAGES - QUARTER);
    assert_eq!(world.pages_on(1..=PAGES), [QUARTER as usize; 4]);
}
