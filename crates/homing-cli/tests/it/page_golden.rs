//! The reports that the tests of the page read (`ui/tests/golden*.json`) are what the program writes.

use crate::support::{import, succeeds};
use serde_json::Value;
use std::path::Path;

/// Three threads on forty pages: the first fills them, each uses its own eight afterwards, and now and then another's.
fn references() -> String {
    let line = |step: u64| {
        let page = step * 7 % 40;
        let thread = match step {
            0..800 => 0,
            _ if !step.is_multiple_of(5) => page / 8 % 3,
            _ => step % 3,
        };
        let kind = if step.is_multiple_of(3) && page < 30 { 'w' } else { 'r' };
        format!("{thread},{},8,{kind}\n", 0x10000 + page * 4096 + step * 64 % 4096)
    };
    (0..6000).map(line).collect()
}

/// Replaces what differs from run to run, or with each change of the trace's encoding.
fn settle(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(settle),
        Value::Object(fields) => {
            for (name, field) in fields {
                match name.as_str() {
                    "seconds" => *field = 0.001.into(),
                    "digest" => *field = "0123456789abcdef".into(),
                    _ => settle(field),
                }
            }
        }
        _ => {}
    }
}

fn check(file: &str, options: &str) {
    let dir = tempfile::tempdir().unwrap();
    let trace = import(dir.path(), "a.trace", &references());
    let options = format!("--threads-on one-per-node --json --page-size 4K,64K {options}");
    let arguments: Vec<&str> =
        ["compare", trace.to_str().unwrap()].into_iter().chain(options.split(' ')).collect();
    let mut report: Value = serde_json::from_slice(&succeeds(2, &arguments).stdout).unwrap();
    settle(&mut report);
    let made = format!("{report}\n");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ui/tests").join(file);
    if std::env::var_os("HOMING_UPDATE").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap();
    assert!(
        made == committed,
        "{} is not what `compare` writes: run `make ui-data` and commit it",
        path.display()
    );
}

#[test]
fn the_report_with_sweeps_is_up_to_date() {
    let sweeps = "--sweep page-move=100..4000 --sweep page-size=1K,4K --perturb local,gaps --seeds 1";
    check(
        "golden.json",
        &format!("--machine ace --policies first-touch,ace,homing --info perfect,every:64 {sweeps}"),
    );
}

#[test]
fn the_report_with_caches_is_up_to_date() {
    check("golden-misses.json", "--machine two-socket --policies first-touch,homing --misses");
}
