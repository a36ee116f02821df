use super::super::gain::NOTHING;
use super::*;
use crate::pages::Key;
use homing_core::process::Class;

const PROCESS: ProcessId = ProcessId(7);

fn action(page: Page, to: u16) -> Action {
    Action { page, kind: Kind::Move { to: Node(to) }, reason: "test" }
}

fn number(orders: &mut Orders, address: u64, bytes: u64, class: Class) -> Page {
    orders.pages.number(Key::Own(PROCESS, address), (PROCESS, address), bytes, class)
}

/// Orders with one page, on node 0 of two.
fn orders(dry_run: bool) -> (Orders, Page) {
    let mut orders = Orders::new(2, dry_run);
    let page = number(&mut orders, 0x1000, 4096, Class::Heap);
    orders.pages.entry_mut(page).at = Some(Node(0));
    (orders, page)
}

/// Hands out everything, and has it land like that.
fn land(orders: &mut Orders, landed: Landed) -> Vec<Settled> {
    let sent = orders.send(u64::MAX, usize::MAX);
    sent.into_iter().filter_map(|order| orders.settle(order.tag, landed)).collect()
}

#[test]
fn orders_wait_count_as_moved_and_settle() {
    let (mut orders, page) = orders(false);
    assert_eq!(orders.execute(&action(page, 0)), Outcome::Already);
    assert_eq!(orders.execute(&action(page, 1)), Outcome::Pending);
    assert_eq!(orders.at(page).home(), Node(1));
    assert!(orders.send(100, usize::MAX).is_empty(), "no room within the rate limit");
    let failed = Settled {
        action: action(page, 1),
        from: Some(Node(0)),
        to: Node(1),
        bytes: 4096,
        outcome: Outcome::Failed(3),
        gone: false,
    };
    assert_eq!(land(&mut orders, Landed::Not(3)), [failed]);
    assert_eq!((orders.at(page).home(), orders.waiting()), (Node(0), 0));
    for _ in 0..2 {
        orders.execute(&action(page, 1));
        land(&mut orders, Landed::Not(3));
    }
    assert!(matches!(orders.execute(&action(page, 1)), Outcome::Refused(_)), "learnt to be unmovable");
}

#[test]
fn what_must_not_move_is_refused() {
    let (mut orders, page) = orders(false);
    orders.set_room(&[Some(1 << 20)]);
    orders.set_room(&[None, Some(1 << 20)]);
    assert!(matches!(orders.execute(&action(page, 2)), Outcome::Refused("no such node")));
    let cached = number(&mut orders, 0x2000, 4096, Class::PageCache);
    assert!(matches!(orders.execute(&action(cached, 1)), Outcome::Refused(_)));
    let huge = number(&mut orders, 0x200000, 2 << 20, Class::Heap);
    assert!(matches!(orders.execute(&action(huge, 1)), Outcome::Refused("the target node is full")));
    let replicate = Action { kind: Kind::Replicate { to: Node(1) }, ..action(page, 1) };
    assert!(matches!(orders.execute(&replicate), Outcome::Refused(_)));
    orders.forget(page);
    assert!(matches!(orders.execute(&action(page, 1)), Outcome::Refused("the page is gone")));
}

#[test]
fn a_move_that_a_cpuset_forbids_is_made_when_it_may_be() {
    let (mut orders, page) = orders(false);
    orders.allow(PROCESS, vec![Node(0)]);
    assert!(matches!(orders.execute(&action(page, 1)), Outcome::Refused(why) if why.contains("cpuset")));
    assert_eq!((orders.at(page).home(), orders.waiting(), orders.confined().len()), (Node(0), 0, 1));
    orders.allow(PROCESS, vec![Node(0), Node(1)]);
    assert!(orders.confined().is_empty());
    assert_eq!((orders.at(page).home(), orders.waiting(), orders.take_asked().len()), (Node(1), 1, 2));
    orders.allow(PROCESS, vec![Node(0)]);
    orders.execute(&action(page, 0));
    orders.execute(&action(page, 1));
    orders.forget(page);
    orders.allow(PROCESS, Vec::new());
    assert_eq!(orders.barred.len(), 0, "what is gone is not moved");
}

#[test]
fn there_and_back_before_it_happened_moves_nothing() {
    let (mut orders, page) = orders(false);
    orders.execute(&action(page, 1));
    assert_eq!(orders.execute(&action(page, 0)), Outcome::Done);
    assert!(orders.send(u64::MAX, usize::MAX).is_empty() && orders.at(page).home() == Node(0));
}

#[test]
fn what_is_ordered_while_a_page_moves_waits_for_the_end_of_that() {
    let (mut orders, page) = orders(false);
    orders.execute(&action(page, 1));
    let tag = orders.send(4096, usize::MAX)[0].tag;
    assert_eq!(orders.execute(&action(page, 1)), Outcome::Already);
    assert_eq!(orders.execute(&action(page, 0)), Outcome::Pending, "it will have to come back");
    assert!(orders.send(4096, usize::MAX).is_empty(), "one move at a time");
    assert_eq!((orders.waiting(), orders.under_way(), orders.at(page).home()), (1, 1, Node(0)));
    assert_eq!(orders.settle(tag, Landed::There).unwrap().outcome, Outcome::Done);
    assert_eq!(orders.settle(tag, Landed::There), None, "an order lands once");
    assert_eq!(orders.execute(&action(page, 1)), Outcome::Done, "taken back");
    assert!(orders.send(u64::MAX, usize::MAX).is_empty());
    assert_eq!((orders.at(page).home(), orders.pages.entry(page).moves), (Node(1), 1));
}

#[test]
fn a_page_that_is_forgotten_while_it_moves_is_counted_and_no_other_is_taken_for_it() {
    let (mut orders, page) = orders(false);
    orders.execute(&action(page, 1));
    let tag = orders.send(4096, usize::MAX)[0].tag;
    orders.forget(page);
    let other = number(&mut orders, 0x9000, 4096, Class::Heap);
    assert_eq!(other, page, "its number is used again");
    orders.pages.entry_mut(other).at = Some(Node(0));
    orders.execute(&action(other, 1));
    let settled = orders.settle(tag, Landed::There).unwrap();
    assert!(settled.gone && settled.outcome == Outcome::Done, "{settled:?}");
    let entry = orders.pages.entry(other);
    assert_eq!((entry.at, entry.moves, orders.waiting()), (Some(Node(0)), 0, 1));
}

#[test]
fn what_has_not_begun_in_its_time_waits_again() {
    let (mut orders, page) = orders(false);
    orders.execute(&action(page, 1));
    assert!(land(&mut orders, Landed::Later).is_empty());
    assert_eq!((orders.waiting(), orders.at(page).home()), (1, Node(1)));
}

#[test]
fn a_dry_run_counts_pages_as_moved_and_hands_nothing_out() {
    let (mut orders, page) = orders(true);
    assert_eq!(orders.execute(&action(page, 1)), Outcome::Done);
    assert!(orders.send(u64::MAX, usize::MAX).is_empty() && orders.at(page).home() == Node(1));
    assert_eq!(orders.pages.entry(page).at, Some(Node(0)));
}

#[test]
fn what_waits_for_a_process_whose_pages_are_to_stay_is_taken_back() {
    let (mut orders, page) = orders(false);
    let process = orders.pages.entry(page).process;
    assert_eq!(orders.execute(&action(page, 1)), Outcome::Pending);
    assert_eq!(orders.leave(BTreeMap::from([(process, NOTHING)])), [(action(page, 1), NOTHING)]);
    assert!(orders.send(u64::MAX, usize::MAX).is_empty() && orders.at(page).home() == Node(0));
    assert_eq!(orders.execute(&action(page, 1)), Outcome::Refused(NOTHING));
    let with_its_thread = Action { reason: FORWARDED, ..action(page, 1) };
    assert_eq!(orders.execute(&with_its_thread), Outcome::Pending);
    assert_eq!(orders.leave(BTreeMap::new()), [], "what goes with its thread is not taken back");
    assert_eq!(orders.waiting(), 1);
    land(&mut orders, Landed::There);
    assert_eq!(orders.execute(&action(page, 0)), Outcome::Pending);
}

#[test]
fn a_page_that_moves_back_and_forth_rests_and_says_so_once() {
    let (mut orders, page) = orders(false);
    for (ms, to) in [(0, 1), (100, 0), (200, 1)] {
        orders.set_now(Micros::from_millis(ms));
        assert_eq!(orders.execute(&action(page, to)), Outcome::Pending, "after {ms} ms");
        land(&mut orders, Landed::There);
    }
    orders.take_asked();
    for _ in 0..3 {
        assert_eq!(orders.execute(&action(page, 0)), Outcome::Refused(RESTS));
    }
    let again: Vec<bool> = orders.take_asked().iter().map(|asked| asked.again).collect();
    assert_eq!(again, [false, true, true]);
    let with_its_thread = Action { reason: FORWARDED, ..action(page, 0) };
    assert_eq!(orders.execute(&with_its_thread), Outcome::Pending, "threads take their pages along");
    land(&mut orders, Landed::Not(3));
    orders.set_now(Micros::from_millis(4200));
    assert_eq!(orders.execute(&action(page, 0)), Outcome::Pending, "it has rested");
}

#[test]
fn what_is_put_off_is_handed_out_later_and_what_the_session_itself_wants_at_once() {
    let (mut orders, page) = orders(false);
    let other = number(&mut orders, 0x9000, 4096, Class::Heap);
    orders.pages.entry_mut(other).at = Some(Node(1));
    let of = orders.pages.entry(page).process;
    orders.execute(&action(page, 1));
    orders.execute(&Action { reason: FORWARDED, ..action(other, 0) });
    orders.put_off([of].into());
    let sent = |orders: &mut Orders| orders.send(u64::MAX, usize::MAX).iter().map(|order| order.to).collect();
    let at_once: Vec<Node> = sent(&mut orders);
    assert_eq!((at_once, orders.waiting(), orders.at(page).home()), (vec![Node(0)], 0, Node(1)));
    orders.put_off(BTreeSet::new());
    assert_eq!(orders.waiting(), 1);
    let later: Vec<Node> = sent(&mut orders);
    assert_eq!(later, [Node(1)]);
}

#[test]
fn orders_that_went_by_where_threads_were_are_void_once_those_are_elsewhere() {
    let (mut orders, page) = orders(false);
    let other = number(&mut orders, 0x9000, 4096, Class::Heap);
    orders.pages.entry_mut(other).at = Some(Node(1));
    orders.execute(&action(page, 1));
    orders.allow(PROCESS, vec![Node(1)]);
    orders.execute(&action(other, 0));
    let void: Vec<Page> = orders.void(PROCESS).iter().map(|(action, _)| action.page).collect();
    assert_eq!((void, orders.confined().len()), (vec![page], 0));
    orders.allow(PROCESS, vec![Node(0), Node(1)]);
    assert!(orders.send(u64::MAX, usize::MAX).is_empty(), "what was refused is not ordered now");
    assert_eq!((orders.at(page).home(), orders.at(other).home()), (Node(0), Node(1)));
}
