use super::*;
use crate::history::History;
use crate::ids::Node;
use crate::machine::Uniform;
use crate::policy::placement::Placement;
use crate::policy::{Fault, Next, Policy};
use crate::simulate::{simulate, Setup, Simulation};
use crate::timeline::NO_MARKS;

fn costs() -> Costs {
    Costs::Uniform(Uniform { nodes: 2, remote: 5.0, page_move: 20.0, global: None })
}

/// `count` windows of `length` references, `between` references before each.
fn windows(count: u64, length: u64, between: u64, weight: f64) -> Windows {
    let begin = |number: u64| number * (length + between) + between;
    let spans = (0..count).map(|number| (Time(begin(number))..Time(begin(number) + length), length as f64));
    Windows::new(spans, weight)
}

#[derive(Clone, serde::Serialize, serde::Deserialize)]
struct Stay;

impl Policy for Stay {
    fn fault(&mut self, _: &Fault, _: &mut crate::action::Actions) -> Next {
        Next::Never
    }
}

/// Moves a page at each remote fault.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
struct Follow;

impl Policy for Follow {
    fn fault(&mut self, fault: &Fault, actions: &mut crate::action::Actions) -> Next {
        actions.push(fault.page, crate::action::Kind::Move { to: fault.node }, "follow");
        Next::Never
    }
}

fn simulated(references: &[(u16, u64, bool)], windows: &Windows, policy: &dyn Policy) -> Simulation {
    let history = History::from_references(references, 2);
    let setup = Setup {
        history: &history,
        costs: &costs(),
        placement: &Placement::FirstTouch,
        replication: false,
        information: crate::information::Information::PERFECT,
        timeline: &NO_MARKS,
        windows,
        log: false,
    };
    simulate(&setup, policy).unwrap()
}

#[test]
fn times_are_in_windows_or_between() {
    let windows = windows(2, 10, 5, 3.0);
    let at = |time| windows.at(Time(time));
    assert_eq!(
        [0, 4, 5, 14, 15, 19, 20, 29, 30].map(at).map(|window| window.map_or(9, |w| w)),
        [9, 9, 0, 0, 9, 9, 1, 1, 9]
    );
    let next = |time| windows.next_cut(Time(time)).map(|cut| cut.0);
    assert_eq!([0, 5, 14, 15, 29, 30].map(next), [Some(5), Some(15), Some(15), Some(20), Some(30), None]);
    assert!(NO_WINDOWS.is_empty() && NO_WINDOWS.at(Time(0)).is_none());
}

/// One run spans a window, what lies between, and the next one.
#[test]
fn runs_are_charged_to_the_windows_that_they_are_in() {
    let windows = windows(2, 10, 5, 4.0);
    let references: Vec<_> = (0..30).map(|time| (u16::from(time >= 12), 0, true)).collect();
    let result = simulated(&references, &windows, &Stay);
    let all: Vec<(u64, u64)> = result.windows.iter().map(|t| (t.all.local, t.all.remote)).collect();
    assert_eq!(all, [(7, 3), (0, 10)]);
    assert_eq!((result.account.local, result.account.remote), (12, 18));
    let found = windows.estimate(&result.windows, &costs()).unwrap();
    assert_eq!((found.windows, found.references), (2, 80.0));
    assert_eq!(found.cost.lower_bound, 4.0 * (7.0 + 13.0 * 5.0));
    assert_eq!(found.cost.upper_bound, found.cost.lower_bound);
    assert_eq!(found.nonlocal_percent.unwrap().value, 65.0);
    assert_eq!((found.cost.low, found.cost.high), (None, None), "two windows are too few");
}

/// What leads to the first move in a window may have happened once, or in each stretch.
#[test]
fn settling_is_counted_once_or_always() {
    let windows = windows(2, 10, 0, 4.0);
    // The page has another user in the second window, and two visits in it.
    let node = |time| u16::from((10..15).contains(&time));
    let references: Vec<_> = (0..20).map(|time| (node(time), 0, true)).collect();
    let result = simulated(&references, &windows, &Follow);
    assert_eq!(result.account.moves, 2);
    let [first, second] = result.windows[..] else { panic!("{:?}", result.windows) };
    assert_eq!((first.all.local, first.all.moves, first.settling), (10, 0, Account::default()));
    assert_eq!((second.all.local, second.all.moves), (10, 2));
    assert_eq!((second.settling.references(), second.settling.moves), (0, 1));
    let cost = windows.estimate(&result.windows, &costs()).unwrap().cost;
    assert_eq!(cost.upper_bound, 4.0 * (20.0 + 2.0 * 20.0));
    assert_eq!(cost.lower_bound, 4.0 * (20.0 + 20.0) + 20.0);
}

#[test]
fn pages_that_stay_save_what_other_windows_say() {
    let windows = windows(8, 10, 0, 2.0);
    // Page 0 has node 1 as its user in all windows, page 1 in every second one.
    let reference = |time: u64| match (time % 10 < 5, time / 10 % 2) {
        (true, _) => (1, 0, true),
        (false, odd) => (odd as u16, 1, true),
    };
    let references: Vec<_> = (0..80).map(reference).collect();
    let history = History::from_references(&references, 2);
    let found = still(&history, &windows, &costs(), &[Node(0), Node(0)]).unwrap().unwrap();
    assert_eq!((found.windows, found.share), (8, 0.5));
    assert_eq!(found.nonlocal_percent.value, 75.0);
    // Now 60 * 5 + 20. Page 0 at node 1 saves 160, page 1 nothing from all windows; from the other half it would go
    // to the wrong node, which costs 80 more in even windows and nothing in odd ones, where it is on the wrong one now.
    let avoidable = found.avoidable_percent;
    assert_eq!((avoidable.lower_bound, avoidable.upper_bound), (100.0 * 80.0 / 320.0, 50.0));
    assert!(avoidable.low.unwrap() <= 25.0 && avoidable.high.unwrap() >= 50.0);
    assert_eq!(still(&history, &NO_WINDOWS, &costs(), &[Node(0), Node(0)]).unwrap(), None);
}
