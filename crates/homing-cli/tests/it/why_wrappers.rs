//! `homing why` of commands that start the program: shells, `env`, `timeout`, `make`, shims. The program is judged.

use crate::support::lab::{stderr, Lab};
use serde_json::Value;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The main thread makes a table of 256 pages, which two threads then use a half each. With the argument `wait` it then
/// waits for ever.
const PROGRAM: &str = "#include <pthread.h>\n#include <string.h>\n#include <unistd.h>\n#define N 131072\n\
    static double table[N];\n\
    static void *part(void *p) { long t = (long)p; for (int k = 0; k < 10; k++)\n\
    for (long i = t * N / 2; i < (t + 1) * N / 2; i++) table[i] += k; return 0; }\n\
    int main(int n, char **v) { pthread_t t[2]; for (int i = 0; i < N; i++) table[i] = i;\n\
    for (long i = 0; i < 2; i++) pthread_create(&t[i], 0, part, (void *)i);\n\
    for (int i = 0; i < 2; i++) pthread_join(t[i], 0);\n\
    while (n > 1 && !strcmp(v[1], \"wait\")) pause();\n    return 0; }\n";

/// `homing why --json` of a command in the lab's directory.
fn why(lab: &Lab, options: &[&str], command: &[&str]) -> Value {
    let recorder = lab.homing(&[], &[]);
    let library = recorder.get_envs().find(|(name, _)| *name == "HOMING_LIB").unwrap().1.unwrap();
    let mut homing = Command::new(env!("CARGO_BIN_EXE_homing"));
    homing.env("HOMING_LIB", library).env("TMPDIR", lab.path("")).current_dir(lab.path(""));
    homing.args(["why", "--json", "--machine", "butterfly"]).args(options).arg("--").args(command);
    let output = homing.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", stderr(&output)))
}

fn is_of_the_program(report: &Value, command: &[&str]) {
    assert_eq!(report["verdict"], "initialised-by-one-thread", "{command:?}: {report}");
    assert_eq!(report["areas"][0]["name"], "table", "{command:?}");
    assert_eq!(report["trace"]["threads"], 3, "{command:?}");
}

#[test]
fn whoever_starts_the_program_the_program_is_judged() {
    let lab = Lab::new();
    lab.compile(PROGRAM, &["-pthread"]);
    lab.script("shim", "#!/usr/bin/env bash\nset -e\nname=\"${0##*/}\"\nexec ./program \"$@\"\n");
    lab.script("run.sh", "#!/bin/sh\nls > /dev/null\n./program 1\necho done\n");
    std::fs::write(lab.path("Makefile"), "run: list\n\t@./program 1\nlist:\n\t@ls > /dev/null\n").unwrap();
    let in_its_place: [&[&str]; 5] = [
        &["env", "VAR=x", "./program"],
        &["bash", "-c", "cd . && ./program 1"],
        &["nice", "./program"],
        &["./shim", "1"],
        &["sh", "-c", "exec ./program"],
    ];
    for command in in_its_place {
        let report = why(&lab, &[], command);
        is_of_the_program(&report, command);
        assert!(!report["notes"].to_string().contains("processes were recorded"), "{command:?}");
    }
    let as_children: [&[&str]; 5] = [
        &["sh", "-c", "./program 1; true"],
        &["dash", "-c", "./program args"],
        &["timeout", "60", "./program"],
        &["./run.sh"],
        &["make", "-j2", "run"],
    ];
    for command in as_children {
        let report = why(&lab, &[], command);
        is_of_the_program(&report, command);
        let notes = report["notes"].to_string();
        assert!(notes.contains("processes were recorded: judged is `./program"), "{command:?}: {notes}");
    }
}

#[test]
fn the_trace_that_is_kept_is_the_programs() {
    let lab = Lab::new();
    lab.compile(PROGRAM, &["-pthread"]);
    let judged = why(&lab, &["--keep", "kept.homing"], &["sh", "-c", "./program 1; true"]);
    let again = Command::new(env!("CARGO_BIN_EXE_homing"))
        .args(["why", "--json", "--machine", "butterfly"])
        .arg(lab.path("kept.homing"))
        .output()
        .unwrap();
    let again: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(judged["trace"]["references"], again["trace"]["references"]);
    let traces = std::fs::read_dir(lab.path("")).unwrap().map(|entry| entry.unwrap().path());
    assert_eq!(traces.filter(|path| path.extension().is_some_and(|e| e == "homing")).count(), 1);
}

#[test]
fn time_that_is_over_ends_the_program_behind_a_shell() {
    let lab = Lab::new();
    lab.compile(PROGRAM, &["-pthread"]);
    let begun = Instant::now();
    let report = why(&lab, &["--budget", "8s"], &["sh", "-c", "./program wait; true"]);
    // Without an end it would wait for ever.
    assert!(begun.elapsed() < Duration::from_secs(120));
    is_of_the_program(&report, &["sh"]);
    assert!(report["notes"].to_string().contains("the program was ended after 8 s"), "{report}");
}
