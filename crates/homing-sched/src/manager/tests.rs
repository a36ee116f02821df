use super::table::{find, Settings, MANAGERS};
use super::*;
use homing_core::ids::Node;
use std::collections::BTreeSet;

fn layout() -> Layout {
    let node_of = (0..16).map(|cpu| Node(cpu / 4)).collect();
    let distance = (0..16).map(|at| if at / 4 == at % 4 { 1.0 } else { 2.0 }).collect();
    Layout::new(node_of, 4, distance)
}

fn waits(id: u32, request: u32) -> JobView {
    JobView::waiting(JobId(id), request, true)
}

/// A job that runs, with seconds of an iteration by processors.
fn runs(id: u32, request: u32, cpus: std::ops::Range<u16>, measured: &[(u32, f64)]) -> JobView {
    let mut job =
        JobView { running: true, age_s: 100.0, cpus: cpus.map(Cpu).collect(), ..waits(id, request) };
    measured.iter().for_each(|&(processors, seconds)| job.measured.measured(processors, seconds));
    job
}

/// Processors of each job.
fn counts(manager: &mut dyn Manager, why: Why, jobs: &[JobView]) -> Vec<(u32, usize)> {
    let layout = layout();
    let decision = manager.decide(&Scene { now_s: 5.0, why, layout: &layout, jobs });
    let count = |allocation: &Allocation| match allocation {
        Allocation::Cpus(cpus) => cpus.len(),
        Allocation::Shared(threads) => *threads as usize,
    };
    decision.allocations.iter().map(|(job, allocation)| (job.0, count(allocation))).collect()
}

fn manager(name: &str) -> Box<dyn Manager> {
    (find(name).unwrap().build)(Settings { level: 3, ..Settings::default() })
}

#[test]
fn the_table_is_sound() {
    let names: BTreeSet<_> = MANAGERS.iter().map(|entry| entry.name).collect();
    assert_eq!(names.len(), MANAGERS.len());
    assert!(MANAGERS.iter().all(|entry| !entry.source.is_empty() && !entry.summary.is_empty()));
}

#[test]
fn equal_shares_end_at_requests_and_at_the_level() {
    for name in ["equipartition", "irix"] {
        let jobs = [waits(0, 16), waits(1, 2), waits(2, 16), waits(3, 1)];
        assert_eq!(counts(&mut *manager(name), Why::Arrival, &jobs), [(0, 7), (1, 2), (2, 7)]);
    }
}

#[test]
fn batch_keeps_the_order_of_arrival() {
    let jobs = [runs(0, 10, 0..10, &[]), waits(1, 8), waits(2, 2)];
    assert_eq!(counts(&mut *manager("batch"), Why::Arrival, &jobs), [(0, 10)], "the third may not overtake");
}

#[test]
fn pdpa_grows_goes_back_shrinks_and_settles() {
    let mut pdpa = manager("pdpa");
    assert_eq!(counts(&mut *pdpa, Why::Arrival, &[waits(0, 16)]), [(0, 16)]);
    // Efficiency 4 x 10 / 5 / 16 = 0.5, less than 0.7: down in steps of four until it is reached.
    let job = |cpus, measured: &[(u32, f64)]| [runs(0, 16, 0..cpus, measured)];
    let report = Why::Report(JobId(0));
    assert_eq!(counts(&mut *pdpa, report, &job(16, &[(4, 10.0), (16, 5.0)])), [(0, 12)]);
    assert_eq!(counts(&mut *pdpa, report, &job(12, &[(4, 10.0), (12, 5.0)])), [(0, 8)], "0.67");
    assert_eq!(
        counts(&mut *pdpa, report, &job(8, &[(4, 10.0), (8, 5.5)])),
        [(0, 8)],
        "0.91: stable after shrinking"
    );
    assert_eq!(counts(&mut *pdpa, report, &job(8, &[(4, 10.0), (8, 5.2)])), [(0, 12)], "0.96: grows");
    assert_eq!(counts(&mut *pdpa, report, &job(12, &[(4, 10.0), (12, 5.0)])), [(0, 8)], "0.67: goes back");
}

#[test]
fn pdpa_begins_a_job_beyond_the_level_only_when_the_others_have_settled() {
    let mut pdpa = (find("pdpa").unwrap().build)(Settings { level: 1, ..Settings::default() });
    counts(&mut *pdpa, Why::Arrival, &[waits(0, 8)]);
    let new = |measured: &[(u32, f64)]| [runs(0, 8, 0..8, measured), waits(1, 4)];
    assert_eq!(counts(&mut *pdpa, Why::Arrival, &new(&[])), [(0, 8)], "not measured yet");
    let settled = new(&[(4, 10.0), (8, 6.0)]);
    counts(&mut *pdpa, Why::Report(JobId(0)), &settled);
    assert_eq!(counts(&mut *pdpa, Why::Due, &settled), [(0, 8), (1, 4)]);
}

#[test]
fn gang_rows_take_turns() {
    let mut gang = manager("gang");
    let layout = layout();
    let jobs = [waits(0, 10), waits(1, 10), waits(2, 6)];
    let row = |gang: &mut dyn Manager, now_s| -> Vec<u32> {
        let decision = gang.decide(&Scene { now_s, why: Why::Due, layout: &layout, jobs: &jobs });
        decision.allocations.iter().map(|(job, _)| job.0).collect()
    };
    let rows: Vec<Vec<u32>> = (0..4).map(|turn| row(&mut *gang, f64::from(turn) * 2.0)).collect();
    assert!(rows.contains(&vec![0, 2]) && rows.contains(&vec![1]), "{rows:?}");
    assert_ne!(rows[0], rows[1]);
}

#[test]
fn homing_gives_processors_to_who_uses_them() {
    // The first is as fast on 4 as on 8, the second scales.
    let flat = runs(0, 16, 0..8, &[(4, 10.0), (8, 10.0)]);
    let scales = runs(1, 16, 8..16, &[(4, 10.0), (8, 5.0)]);
    let both = counts(&mut *manager("homing"), Why::Report(JobId(1)), &[flat, scales]);
    assert_eq!(both, [(0, 4), (1, 12)]);
}

#[test]
fn homing_leaves_jobs_alone_whose_pages_cost_more_than_processors_bring() {
    let one = |move_s| {
        let mut job = runs(0, 16, 0..12, &[(4, 10.0), (12, 4.0)]);
        job.pages = vec![1000.0; 4];
        job.move_s = move_s;
        counts(&mut *manager("homing"), Why::Completion, &[job])[0].1
    };
    assert_eq!((one(1e-6), one(10.0)), (16, 12));
}
