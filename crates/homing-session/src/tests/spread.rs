//! What all nodes use alike is spread where one node has it all, once, and after that stays.

use super::world::{policy, World};

/// Pages of the table, on node 0.
const PAGES: u64 = 1200;

/// Each quarter of the table is used by another node than in the round before; then a scan is over. Returns how many
/// moves were ordered by then.
fn round(world: &mut World<'_>, round: u64) -> usize {
    let quarter = PAGES / 4;
    for part in 0..4 {
        let (thread, first) = ((part + round) % 4, part * quarter + 1);
        world.say(&format!("sweep t{thread} {first} {}", first + quarter - 1));
    }
    world.say("scanned");
    let said = world.say("end");
    land(world, said)
}

/// Moves land, batch by batch. Returns how many there were.
fn land(world: &mut World<'_>, mut said: String) -> usize {
    let mut moves = 0;
    for _ in 0..PAGES {
        moves += said.matches(" pending").count();
        let landed = world.say("land");
        said = world.say("idle");
        if landed.is_empty() && said.is_empty() {
            break;
        }
    }
    moves
}

#[test]
fn a_table_that_all_use_alike_is_spread_once() {
    let mut policy = policy();
    let mut world = World::new("scans", policy.as_mut());
    let moves: Vec<usize> = (0..12).map(|number| round(&mut world, number)).collect();
    let account = world.session.account();
    let most = *world.pages_on(1..=PAGES).iter().max().unwrap();
    assert!(most < PAGES as usize * 3 / 8, "{:?}", world.pages_on(1..=PAGES));
    assert!(0 < account.spread && account.spread <= PAGES, "{moves:?}");
    assert!(moves[6..].iter().all(|&moves| moves == 0), "{moves:?}");
}

#[test]
fn nothing_is_spread_where_pages_have_users_of_their_own_or_it_is_not_wanted() {
    let mut first = policy();
    let mut world = World::new("scans no-spread", first.as_mut());
    for number in 0..12 {
        round(&mut world, number);
    }
    assert_eq!(world.session.account().spread, 0);
    // Each quarter has one user: the policy moves three of them, and that is all.
    let mut second = policy();
    let mut world = World::new("scans", second.as_mut());
    for _ in 0..12 {
        round(&mut world, 0);
    }
    let account = world.session.account();
    assert_eq!((account.spread, account.total.moved, account.pauses), (0, 900, 0));
    assert_eq!(world.pages_on(1..=PAGES), [300; 4]);
}
