use super::*;
use crate::action::{Actions, Kind};
use crate::ids::{Page, Thread, Time};
use crate::machine::Uniform;
use crate::policy::{Fault, Next, Sample, ThreadMoved};
use crate::timeline::{Mark, Timeline, NO_MARKS};
use crate::windows::NO_WINDOWS;

/// Freezes all pages at the Time of the first fault on any: state across pages.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
struct FirstFaultOnly {
    moved: bool,
    times: Vec<Time>,
}

impl Policy for FirstFaultOnly {
    fn fault(&mut self, fault: &Fault, actions: &mut Actions) -> Next {
        assert!(self.times.last().is_none_or(|&last| last <= fault.time), "runs come in Time order");
        self.times.push(fault.time);
        if !std::mem::replace(&mut self.moved, true) {
            actions.push(fault.page, Kind::Move { to: fault.node }, "the first");
        }
        Next::Never
    }

    fn independent(&self) -> bool {
        false
    }
}

#[test]
fn policies_with_state_across_pages_see_runs_in_time_order() {
    let references = [(0, 1, true), (0, 2, true), (1, 2, true), (1, 1, true), (1, 2, true)];
    let history = History::from_references(&references, 0);
    let costs = Costs::Uniform(Uniform { nodes: 2, remote: 5.0, page_move: 20.0, global: None });
    let setup = Setup {
        history: &history,
        costs: &costs,
        placement: &Placement::FirstTouch,
        replication: true,
        information: Information::PERFECT,
        timeline: &NO_MARKS,
        windows: &NO_WINDOWS,
        log: true,
    };
    let result = simulate(&setup, &FirstFaultOnly { moved: false, times: Vec::new() }).unwrap();
    assert_eq!((result.account.local, result.account.remote, result.account.moves), (4, 1, 1));
    assert_eq!(result.last_homes, [Node(0), Node(1)]);
    assert_eq!((result.log[0].time, result.log[0].action.page), (Time(2), Page(1)));
}

/// Moves pages to whoever is seen; state across pages.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
struct MovesAtSamples;

impl Policy for MovesAtSamples {
    fn fault(&mut self, _fault: &Fault, _actions: &mut Actions) -> Next {
        Next::Never
    }

    fn wants_samples(&self) -> bool {
        true
    }

    fn wants_marks(&self) -> bool {
        true
    }

    fn sample(&mut self, sample: &Sample, actions: &mut Actions) {
        actions.push(sample.page, Kind::Move { to: sample.node }, "somebody is there");
    }

    fn independent(&self) -> bool {
        false
    }
}

#[test]
fn what_was_counted_before_a_mark_is_told_at_the_end_of_the_interval() {
    let references: Vec<_> = (0..10).map(|time| (u16::from(time > 0), 0, false)).collect();
    let history = History::from_references(&references, 0);
    let costs = Costs::Uniform(Uniform { nodes: 2, remote: 5.0, page_move: 20.0, global: None });
    let mut timeline = Timeline::default();
    let moved = ThreadMoved { thread: Thread(0), from: Node(0), to: Node(1), time: Time(4) };
    timeline.add([(Time(4), Mark::ThreadMoved(moved))]);
    let setup = Setup {
        history: &history,
        costs: &costs,
        placement: &Placement::FirstTouch,
        replication: false,
        information: "interval:8".parse().unwrap(),
        timeline: &timeline,
        windows: &NO_WINDOWS,
        log: true,
    };
    let log = simulate(&setup, &MovesAtSamples).unwrap().log;
    assert!(!log.is_empty() && log.iter().all(|entry| entry.time >= Time(8)), "{log:?}");
}

#[test]
fn what_cannot_be_is_refused() {
    let history = History::from_references(&[(0, 1, true)], 0);
    let costs = Costs::Uniform(Uniform { nodes: 200, remote: 5.0, page_move: 20.0, global: None });
    let setup = Setup {
        history: &history,
        costs: &costs,
        placement: &Placement::FirstTouch,
        replication: true,
        information: Information::PERFECT,
        timeline: &NO_MARKS,
        windows: &NO_WINDOWS,
        log: true,
    };
    let error = simulate(&setup, &crate::policy::stay::Stay).unwrap_err();
    assert!(error.to_string().contains("200 memories"));
}
