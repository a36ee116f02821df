//! Two diagnoses beside each other.

use super::super::why::{TrafficReport, WhyCost, WhyTime, WhyTimes, WhyTraffic, SCHEMA as WHY};
use super::*;
use crate::why::Gain;

fn area(name: &str, now: f64) -> AreaReport {
    let mut area: AreaReport = serde_json::from_str(
        r#"{"pages":1,"bytes":4096,"references":10,"writes":1,"references_by_node":[5,5],"pages_made_by_node":[1,0],
            "pages_on_node":[1,0],"pages_best_on_node":[0,1],"class":"private","sharing":[],"avoidable_percent":50,
            "falsely_shared_percent":0,"cost":{"now":0,"best_static":1,"spread":1,"bound":1,"least":1}}"#,
    )
    .unwrap();
    area.name = (!name.is_empty()).then(|| name.into());
    area.cost.now = now;
    area
}

fn report(verdict: Cause, areas: Vec<AreaReport>) -> WhyReport {
    let traffic = || TrafficReport { by_node: vec![vec![1, 1]; 2], nonlocal_percent: 50.0, imbalance: 1.0 };
    let now: f64 = areas.iter().map(|area| area.cost.now).sum();
    WhyReport {
        schema: WHY,
        generator: "test".into(),
        verdict,
        words: verdict.words().into(),
        sentence: "A sentence.".into(),
        basis: "A basis.".into(),
        gain: Gain { low: 0.1, high: 0.2 },
        at_most: 0.3,
        gain_is_of: "modelled cost of memory references".into(),
        behind_caches: false,
        replication: false,
        threads_on: "busy".into(),
        busy: None,
        doubt: None,
        nodes_in_use: 2,
        machine: MachineInfo { name: "m".into(), page_size: 4096, ..MachineInfo::default() },
        trace: TraceInfo { threads: 4, ..TraceInfo::default() },
        parameters: vec![],
        cost: WhyCost { now, with_remedies: now, bound: areas.len() as f64 },
        elapsed: None,
        traffic: WhyTraffic { now: traffic(), with_remedies: traffic() },
        one_remedy_for_all: vec![],
        areas,
        areas_untried: 0,
        timelines: None,
        shares: None,
        sampled: None,
        process: vec![],
        program: None,
        notes: vec![],
    }
}

fn diff(before: &[(&str, f64)], after: &[(&str, f64)]) -> WhyDiff {
    let of = |areas: &[(&str, f64)]| {
        report(Cause::NotNuma, areas.iter().map(|&(name, now)| area(name, now)).collect())
    };
    WhyDiff::new(&of(before), &of(after), "test")
}

#[test]
fn equal_names_are_joined_first_then_equal_functions_and_files() {
    let found = diff(
        &[("f (a.c:10)", 100.0), ("f (a.c:20)", 50.0), ("g (a.c:5)", 7.0), ("x", 3.0), ("", 2.0)],
        &[("f (a.c:10)", 90.0), ("f (a.c:23)", 10.0), ("h (a.c:5)", 8.0), ("x", 3.0), ("", 4.0)],
    );
    assert_eq!(found.joined, Joined { by_name: 3, by_function: 1, only_before: 1, only_after: 1 });
    let moved = &found.areas[0];
    assert_eq!(
        (moved.name.as_deref(), moved.name_before.as_deref()),
        (Some("f (a.c:23)"), Some("f (a.c:20)"))
    );
    let changes: Vec<f64> = found.areas.iter().map(|area| area.change).collect();
    assert_eq!(changes, [-40.0, -10.0, 8.0, -7.0, 2.0, 0.0]);
    let (new, gone) = (&found.areas[2], &found.areas[3]);
    assert!(new.before.is_none() && new.name.as_deref() == Some("h (a.c:5)"), "{new:?}");
    assert!(gone.after.is_none() && gone.name.as_deref() == Some("g (a.c:5)"), "{gone:?}");
}

#[test]
fn shifted_lines_of_one_function_find_their_nearest() {
    // Line 10 went away; 20 is now 22.
    let found = diff(
        &[("f (a.c:10) < main (b.c:3)", 1.0), ("f (a.c:20) < main (b.c:3)", 2.0)],
        &[("f (a.c:22) < main (b.c:4)", 2.0)],
    );
    assert_eq!(found.joined, Joined { by_function: 1, only_before: 1, ..Joined::default() });
    let moved = found.areas.iter().find(|area| area.after.is_some()).unwrap();
    assert_eq!(moved.name_before.as_deref(), Some("f (a.c:20) < main (b.c:3)"));
    // Other callers are other areas.
    assert_eq!(
        diff(&[("f (a.c:1) < g (b.c:3)", 1.0)], &[("f (a.c:1) < h (b.c:3)", 1.0)]).joined.by_function,
        0
    );
    // Digits that are no line stay part of the name.
    assert_eq!(diff(&[("shm:12", 1.0)], &[("shm:13", 1.0)]).joined.by_function, 0);
}

#[test]
fn areas_of_one_name_are_joined_one_by_one() {
    let found = diff(&[("x", 1.0), ("x", 2.0)], &[("x", 1.0)]);
    assert_eq!(found.joined, Joined { by_name: 1, only_before: 1, ..Joined::default() });
    assert_eq!(found.areas.len(), 2);
}

#[test]
fn every_area_is_joined_once_however_many_share_a_function() {
    let names = |count: usize, shift: usize| -> Vec<(String, f64)> {
        (0..count).map(|at| (format!("f (a.c:{})", 7 * at + shift), at as f64)).collect()
    };
    let (before, after) = (names(300, 0), names(1000, 3));
    let as_str = |list: &[(String, f64)]| -> Vec<(&'static str, f64)> {
        list.iter().map(|(name, cost)| (&*Box::leak(name.clone().into_boxed_str()), *cost)).collect()
    };
    let found = diff(&as_str(&before), &as_str(&after));
    assert_eq!(found.joined, Joined { by_function: 300, only_after: 700, ..Joined::default() });
    let sum: f64 = found.areas.iter().map(|area| area.change).sum();
    assert!((sum - (found.cost.after - found.cost.before)).abs() < 1e-6);
}

#[test]
fn the_sentence_says_verdicts_and_time_and_what_else_differs() {
    let mut before = report(Cause::SharedByAll, vec![area("x", 200.0)]);
    let mut after = report(Cause::NotNuma, vec![area("x", 100.0)]);
    let found = WhyDiff::new(&before, &after, "test");
    assert_eq!(
        found.sentence,
        "Shared by all: spread it before, not NUMA now; the modelled cost of memory references is 50 % less."
    );
    assert!(found.differs.is_empty() && found.seconds.is_none());
    let time = |seconds| {
        let time = WhyTime { seconds, contention_seconds: 0.5 };
        Some(WhyTimes { now: time, with_remedies: time })
    };
    (before.elapsed, after.elapsed) = (time(4.0), time(5.0));
    after.trace.threads = 8;
    after.machine.remote = Some(3.0);
    let found = WhyDiff::new(&before, &after, "test");
    assert!(found.sentence.ends_with("the modelled time is 25 % more."), "{}", found.sentence);
    assert_eq!(found.differs, ["machine: m with other costs or memories", "threads: 4 before, 8 after"]);
    after.machine.name = "n".into();
    assert_eq!(WhyDiff::new(&before, &after, "test").differs[0], "machine: m before, n after");
    let same = WhyDiff::new(&before, &before, "test").sentence;
    assert_eq!(same, "Still shared by all: spread it; the modelled time is the same.");
}

#[test]
fn a_share_of_nothing_is_none() {
    let share = |before, after| Change { before, after }.share();
    assert_eq!((share(0.0, 0.0), share(0.0, 1.0), share(4.0, 3.0)), (Some(0.0), None, Some(-0.25)));
}
