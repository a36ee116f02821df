//! The executor on processes that are not there, and on memory of this one.

use super::*;
use crate::host::tests::snapshot;
use homing_linux::proc::maps::Class;

fn action(page: Page, to: u16) -> Action {
    Action { page, kind: Kind::Move { to: Node(to) }, reason: "test" }
}

fn kernel(dry_run: bool) -> (tempfile::TempDir, Kernel, Page) {
    let (sys, host) = snapshot(2);
    let mut kernel = Kernel::new(host, Mover::default(), dry_run);
    let page = kernel.pages.number(Pid(i32::MAX), 0x1000, 4096, Class::Heap);
    kernel.pages.entry_mut(page).at = Some(Node(0));
    (sys, kernel, page)
}

/// Has everything moved that waits.
fn moved(kernel: &mut Kernel) -> Vec<Settled> {
    kernel.send(u64::MAX, None);
    kernel.rest();
    kernel.settled()
}

#[test]
fn orders_wait_count_as_moved_and_settle() {
    let (_sys, mut kernel, page) = kernel(false);
    assert_eq!(kernel.execute(&action(page, 0)), Outcome::Already);
    assert_eq!(kernel.execute(&action(page, 1)), Outcome::Pending);
    assert_eq!(kernel.at(page).home(), Node(1));
    kernel.send(100, None);
    assert_eq!((kernel.waiting(), kernel.hungry()), (1, true), "no room within the rate limit");
    let failed = Settled {
        action: action(page, 1),
        from: Some(Node(0)),
        to: Node(1),
        bytes: 4096,
        outcome: Outcome::Failed(3), // there is no such process
        gone: false,
    };
    assert_eq!(moved(&mut kernel), [failed]);
    assert_eq!((kernel.at(page).home(), kernel.waiting()), (Node(0), 0));
    for _ in 0..2 {
        kernel.execute(&action(page, 1));
        moved(&mut kernel);
    }
    assert!(matches!(kernel.execute(&action(page, 1)), Outcome::Refused(_)), "learnt to be unmovable");
}

#[test]
fn what_must_not_move_is_refused() {
    let (_sys, mut kernel, page) = kernel(false);
    assert!(matches!(kernel.execute(&action(page, 2)), Outcome::Refused("no such node")));
    let cached = kernel.pages.number(Pid(1), 0x2000, 4096, Class::PageCache);
    assert!(matches!(kernel.execute(&action(cached, 1)), Outcome::Refused(_)));
    let huge = kernel.pages.number(Pid(1), 0x200000, 2 << 20, Class::Heap);
    assert!(matches!(kernel.execute(&action(huge, 1)), Outcome::Refused("the target node is full")));
    let replicate = Action { kind: Kind::Replicate { to: Node(1) }, ..action(page, 1) };
    assert!(matches!(kernel.execute(&replicate), Outcome::Refused(_)));
    kernel.forget(page);
    assert!(matches!(kernel.execute(&action(page, 1)), Outcome::Refused("the page is gone")));
}

#[test]
fn a_move_that_a_cpuset_forbids_is_made_when_it_may_be() {
    let (_sys, mut kernel, page) = kernel(false);
    let pid = Pid(i32::MAX);
    kernel.allow(pid, vec![Node(0)]);
    assert!(matches!(kernel.execute(&action(page, 1)), Outcome::Refused(why) if why.contains("cpuset")));
    assert_eq!((kernel.at(page).home(), kernel.waiting(), kernel.confined().len()), (Node(0), 0, 1));
    kernel.allow(pid, vec![Node(0), Node(1)]);
    assert!(kernel.confined().is_empty());
    assert_eq!((kernel.at(page).home(), kernel.waiting(), kernel.take_asked().len()), (Node(1), 1, 2));
    kernel.allow(pid, vec![Node(0)]);
    kernel.execute(&action(page, 0));
    kernel.execute(&action(page, 1));
    kernel.forget(page);
    kernel.allow(pid, Vec::new());
    assert_eq!(kernel.barred.len(), 0, "what is gone is not moved");
}

#[test]
fn there_and_back_before_it_happened_moves_nothing() {
    let (_sys, mut kernel, page) = kernel(false);
    kernel.execute(&action(page, 1));
    assert_eq!(kernel.execute(&action(page, 0)), Outcome::Done);
    assert!(moved(&mut kernel).is_empty() && kernel.at(page).home() == Node(0));
}

/// A page of this process that is being moved to node 0, where it is, as if it were on node 1.
fn on_its_way(memory: &[u8]) -> (tempfile::TempDir, Kernel, Page) {
    let (sys, mut kernel, _) = kernel(false);
    let address = (memory.as_ptr() as u64 + 4095) & !4095;
    let page = kernel.pages.number(Pid(std::process::id() as i32), address, 4096, Class::Heap);
    kernel.pages.entry_mut(page).at = Some(Node(1));
    kernel.execute(&action(page, 0));
    kernel.send(4096, None);
    (sys, kernel, page)
}

#[test]
fn what_is_ordered_while_a_page_moves_waits_for_the_end_of_that() {
    let memory = vec![1u8; 8192];
    let (_sys, mut kernel, page) = on_its_way(&memory);
    assert_eq!(kernel.execute(&action(page, 0)), Outcome::Already);
    assert_eq!(kernel.execute(&action(page, 1)), Outcome::Pending, "it will have to come back");
    kernel.send(4096, None);
    assert_eq!((kernel.waiting(), kernel.at(page).home()), (1, Node(1)), "one move at a time");
    kernel.rest();
    let done: Vec<Outcome> = kernel.settled().iter().map(|settled| settled.outcome).collect();
    assert_eq!((done, kernel.waiting()), (vec![Outcome::Done], 1));
    assert_eq!(kernel.execute(&action(page, 0)), Outcome::Done, "taken back");
    assert!(moved(&mut kernel).is_empty());
    assert_eq!((kernel.at(page).home(), kernel.pages.entry(page).moves), (Node(0), 1));
}

#[test]
fn a_page_that_is_forgotten_while_it_moves_is_counted_and_no_other_is_taken_for_it() {
    let memory = vec![1u8; 8192];
    let (_sys, mut kernel, page) = on_its_way(&memory);
    kernel.forget(page);
    let other = kernel.pages.number(Pid(i32::MAX), 0x9000, 4096, Class::Heap);
    assert_eq!(other, page, "its number is used again");
    kernel.pages.entry_mut(other).at = Some(Node(1));
    kernel.execute(&action(other, 0));
    kernel.rest();
    let settled = kernel.settled();
    assert_eq!(settled.len(), 1);
    assert!(settled[0].gone && settled[0].outcome == Outcome::Done, "{settled:?}");
    let entry = kernel.pages.entry(other);
    assert_eq!((entry.at, entry.moves, kernel.waiting()), (Some(Node(1)), 0, 1));
}

#[test]
fn what_has_not_begun_in_its_time_waits_and_is_taken_back_at_the_end() {
    let (_sys, mut kernel, page) = kernel(false);
    kernel.execute(&action(page, 1));
    kernel.send(4096, Some(Instant::now()));
    assert_eq!((kernel.waiting(), kernel.hungry()), (0, false));
    kernel.stop();
    assert!(kernel.settled().is_empty());
    assert_eq!((kernel.waiting(), kernel.at(page).home()), (1, Node(1)));
}

#[test]
fn a_dry_run_counts_pages_as_moved_and_asks_nobody() {
    let (_sys, mut kernel, page) = kernel(true);
    assert_eq!(kernel.execute(&action(page, 1)), Outcome::Done);
    assert_eq!((kernel.at(page).home(), kernel.waiting()), (Node(1), 0));
    assert_eq!(kernel.pages.entry(page).at, Some(Node(0)));
}
