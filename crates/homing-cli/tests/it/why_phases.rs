//! `homing why` of phases that a program marks, from a recording to the table.

use crate::support::lab::{stderr, Lab};
use serde_json::Value;
use std::process::{Command, Output};

/// Thread 0 makes a table of 64 pages and adds it up in the phase `sum`, twice; in `solve` another thread uses it.
const PROGRAM: &str = "#include <pthread.h>\n#include <stdlib.h>\n#include \"homing.h\"\n#define N 32768\n\
    static double *table;\nstatic void *use(void *p) { for (int k = 0; k < 8; k++)\n\
    for (int i = 0; i < N; i++) table[i] += k; return p; }\n\
    static double sum(void) { homing_phase(\"sum\"); double s = 0;\n\
    for (int i = 0; i < N; i++) s += table[i]; return s; }\n\
    int main(void) { table = malloc(N * sizeof *table); for (int i = 0; i < N; i++) table[i] = i;\n\
    pthread_t t; double s = sum(); homing_phase(\"solve\"); pthread_create(&t, 0, use, 0); pthread_join(t, 0);\n\
    homing_iteration(); s += sum(); return s < 0; }\n";
const TABLE: u64 = 32768;

fn homing(command: &str, lab: &Lab, options: &[&str]) -> Output {
    let mut homing = Command::new(env!("CARGO_BIN_EXE_homing"));
    let machine = ["--machine", "butterfly", "--threads-on", "round-robin"];
    homing.arg(command).arg(lab.path("out.trace")).args(machine).args(options).output().unwrap()
}

fn why(lab: &Lab, options: &[&str]) -> Value {
    let output = homing("why", lab, &[options, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn phases_have_their_references_and_their_shares() {
    let lab = Lab::new();
    let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../../include");
    let program = lab.compile(PROGRAM, &["-pthread", include]);
    let output = lab.record(&["--exclude-startup"], &[program.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let all = why(&lab, &["--by", "phase"]);
    assert_eq!(all["verdict"], "initialised-by-one-thread");
    let phases = all["shares"]["by_phase"].as_array().unwrap();
    let names: Vec<&str> = phases.iter().map(|phase| phase["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["(before the first phase)", "sum", "solve"]);
    let about = |value: &Value, expected: u64| {
        let found = value.as_u64().unwrap();
        assert!((expected..expected + TABLE / 2).contains(&found), "{found}, not {expected}");
    };
    // The table is read once each time in one phase, read and written 8 times in the other.
    for (phase, expected) in phases.iter().zip([TABLE, 2 * TABLE, 2 * 8 * TABLE]) {
        about(&phase["references"], expected);
    }
    let percent = |number: usize, what: &str| phases[number][what].as_f64().unwrap();
    assert!(percent(1, "nonlocal_percent") < 1.0 && percent(2, "nonlocal_percent") > 95.0);
    assert!(percent(1, "avoidable_percent") < 1.0 && percent(2, "avoidable_percent") > 95.0);
    // By itself the phase of the maker has nothing to avoid, that of the user all.
    let sum = why(&lab, &["--phase", "sum"]);
    assert_eq!(sum["verdict"], "not-numa");
    // It has no references while the other phase runs, though the same pages are used before and after.
    let is_table = |area: &&Value| area["name"].as_str().is_some_and(|name| name.starts_with("main"));
    let table = sum["areas"].as_array().unwrap().iter().find(is_table).unwrap();
    let users = |interval: usize| table["timeline"]["users"][interval].as_str().unwrap().to_owned();
    assert!(users(10).starts_with(".x") && !users(10).contains(' '), "{}", users(10));
    assert!(users(31).contains("0x"), "{}", users(31));
    let solve = why(&lab, &["--phase", "solve"]);
    assert_eq!(solve["verdict"], "initialised-by-one-thread");
    let references: u64 =
        solve["areas"].as_array().unwrap().iter().map(|a| a["references"].as_u64().unwrap()).sum();
    about(&references.into(), 2 * 8 * TABLE);
    let compared = homing("compare", &lab, &["--policies", "first-touch", "--phase", "sum", "--json"]);
    let compared: Value = serde_json::from_slice(&compared.stdout).unwrap();
    about(&compared["traces"][0]["rows"][0]["references"], 2 * TABLE);
    // "iteration" ends one and begins no phase.
    for unknown in ["iteration", "sums"] {
        let output = homing("why", &lab, &["--phase", unknown]);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("no such phase; the trace has solve, sum"), "{}", stderr(&output));
    }
}
