//! Machine files, resource sets, jobs, diagnoses.

use homing_core::machine::Machine;
use homing_core::report::diff::WhyDiff;
use homing_core::report::why::WhyReport;
use homing_rset::{Expr, Global, Sets};
use homing_sched::partition::file as partition;
use homing_sched::{jobs, layout, swf};
use std::sync::LazyLock;

/// A machine file.
pub fn machine(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(machine) = Machine::from_toml(text, "fuzz") {
        let _ = machine.costs(machine.page_size());
    }
}

static GLOBAL: LazyLock<Global> = LazyLock::new(|| {
    let machine = Machine::builtin("four-socket").expect("it is built in");
    Global::of_model(&machine, &machine.costs(machine.page_size()).expect("it is tested"))
});

/// A topology of hwloc: what it has can be used, in words and by number.
pub fn hwloc(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(global) = Global::from_hwloc(text) else { return };
    let all = Expr::parse("all").and_then(|all| Sets::default().on(&all, &global));
    assert!(all.is_ok_and(|all| all.is_inside(&global.machine())));
    assert!(global.nodes().iter().all(|node| node.distances.len() == global.nodes().len()));
}

/// A file of jobs: they come by arrival, and an error names a line that is there.
pub fn jobs(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match jobs::read(text, "fuzz") {
        Ok(read) => assert!(read.jobs.windows(2).all(|two| two[0].arrival <= two[1].arrival)),
        Err(bad) => assert!(bad.line.is_none_or(|line| line <= text.split('\n').count())),
    }
}

/// An expression, and a file of sets. A set in words is read as the same set; an error points into the text.
pub fn rset(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(sets) = Sets::from_toml(text, "fuzz") {
        assert_eq!(sets.all_on(&GLOBAL).len(), sets.names().count());
    }
    let set = Expr::parse(text).and_then(|expr| Sets::default().on(&expr, &GLOBAL));
    match set {
        Ok(set) if set.is_empty() => {}
        Ok(set) => {
            let words = Expr::parse(&GLOBAL.words(&set)).expect("words are an expression");
            assert_eq!(Sets::default().on(&words, &GLOBAL), Ok(set));
        }
        Err(error) => assert!((1..=text.chars().count() + 1).contains(&error.column), "{error}"),
    }
}

/// A log of jobs in the Standard Workload Format.
pub fn swf(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match swf::read(text, "fuzz") {
        Ok(log) => {
            assert!(log.jobs.len() as u64 + log.skipped.total() <= text.lines().count() as u64);
            assert!(log.jobs.windows(2).all(|two| two[0].submit_s <= two[1].submit_s));
        }
        Err(bad) => assert!(bad.line.is_none_or(|line| line <= text.lines().count())),
    }
}

/// A file of partitions, on a machine that is there.
pub fn partitions(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(partitions) = partition::read(text) else { return };
    let machine = Machine::builtin("four-socket").expect("it is built in");
    if let Ok(hardware) = layout::Hardware::new(&machine) {
        if partition::check(&partitions, &hardware.layout).is_ok() {
            assert!(partitions.iter().map(|one| one.nodes.len()).sum::<usize>() <= hardware.layout.nodes());
        }
    }
    assert!(partition::find(&partitions, Some(&partitions[0].name)).is_ok());
}

/// The diagnosis that `homing diff` reads: laid beside itself nothing has changed.
pub fn diagnosis(data: &[u8]) {
    let Ok(report) = serde_json::from_slice::<WhyReport>(data) else { return };
    let diff = WhyDiff::new(&report, &report, "fuzz");
    assert!(serde_json::to_string(&diff).is_ok());
}
