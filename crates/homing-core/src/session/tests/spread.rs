//! What all nodes use alike is spread where one node has it all, once, and after that stays.

use super::world::{policy, World};

/// Pages of the table, on node 0.
const PAGES: u64 = 1200;

/// Each quarter of the table is used by another node than in the round before; then a scan is over. Returns how many
/// pages were ordered to each node at the scan.
fn round(world: &mut World<'_>, round: u64) -> [usize; 4] {
    let quarter = PAGES / 4;
    for part in 0..4 {
        let (thread, first) = ((part + round) % 4, part * quarter + 1);
        world.say(&format!("sweep t{thread} {first} {}", first + quarter - 1));
    }
    let said = world.say("scanned");
    let orders = [0, 1, 2, 3].map(|node| said.matches(&format!("0>{node} pending")).count());
    world.say("end");
    world.say("land");
    orders
}

#[test]
fn a_table_that_all_use_alike_is_spread_once() {
    let mut policy = policy();
    let mut world = World::new("scans", policy.as_mut());
    let orders: Vec<[usize; 4]> = (0..10).map(|number| round(&mut world, number)).collect();
    let spread: Vec<&[usize; 4]> = orders.iter().filter(|nodes| nodes.iter().sum::<usize>() > 0).collect();
    assert_eq!(spread, [&[0, 300, 300, 300]], "{orders:?}");
    let account = world.session.account();
    assert_eq!((account.spread, account.total.moved), (900, 900));
}

#[test]
fn nothing_is_spread_where_pages_have_users_of_their_own_or_it_is_not_wanted() {
    let mut first = policy();
    let mut world = World::new("scans no-spread", first.as_mut());
    assert!((0..10).all(|number| round(&mut world, number) == [0; 4]));
    // Each quarter has one user: the policy moves three of them, and that is all.
    let mut second = policy();
    let mut world = World::new("scans", second.as_mut());
    (0..10).for_each(|_| drop(round(&mut world, 0)));
    let account = world.session.account();
    assert_eq!((account.spread, account.total.moved, account.pauses), (0, 900, 0));
}
