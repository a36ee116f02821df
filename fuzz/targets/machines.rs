//! Targets of `homing-core`: machine files, resource sets.

use homing_core::machine::Machine;
use homing_core::rset::{Expr, Global, Sets};
use homing_core::sched::jobs;
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
