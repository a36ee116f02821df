//! `homing why` of a command and of a process that runs, from outside.

use crate::support::lab::{stderr, Lab};
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// Prints a line, fills an array, and waits for ever if it has an argument.
const FILL: &str = "#include <stdio.h>\n#include <unistd.h>\nlong table[100000];\n\
    int main(int n, char** v) { puts(\"hello\"); fflush(stdout);\n\
    for (int k = 0; k < 5; k++) for (int i = 0; i < 100000; i++) table[i] += k;\n\
    while (n > 1) pause();\n    return 3; }\n";

/// `homing why` with the recorder that the tests build, and a directory for its traces.
fn why(lab: &Lab, arguments: &[&str]) -> Output {
    let recorder = lab.homing(&[], &[]);
    let library = recorder.get_envs().find(|(name, _)| *name == "HOMING_LIB").unwrap().1.unwrap();
    let traces = lab.path("traces");
    std::fs::create_dir_all(&traces).unwrap();
    let mut homing = Command::new(env!("CARGO_BIN_EXE_homing"));
    homing.env("HOMING_LIB", library).env("TMPDIR", traces).arg("why").args(arguments);
    homing.stdin(Stdio::null()).output().unwrap()
}

fn left_in(folder: &Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", stderr(output)))
}

fn notes(report: &Value) -> String {
    report["notes"].to_string()
}

/// A process that is killed when the test is over.
struct Running(Child);

impl Running {
    fn start() -> Running {
        Running(Command::new("sleep").arg("600").spawn().unwrap())
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn a_command_is_recorded_and_judged_and_leaves_nothing() {
    let lab = Lab::new();
    let program = lab.compile(FILL, &[]);
    let program = program.to_str().unwrap();
    for arguments in [&["--", program][..], &[program]] {
        let output = why(&lab, arguments);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "whatever the program's status: {}", stderr(&output));
        assert!(text.starts_with("hello\nNot NUMA: "), "the verdict comes after what it prints: {text}");
        assert!(text.contains("note: the program ended with status 3"), "{text}");
        assert_eq!(left_in(&lab.path("traces")), 0);
    }
}

#[test]
fn with_json_stdout_is_the_report_alone() {
    let lab = Lab::new();
    let program = lab.compile(FILL, &[]);
    let output = why(&lab, &["--json", "--", program.to_str().unwrap()]);
    let report = json(&output);
    assert!(stderr(&output).contains("hello"));
    assert_eq!((&report["verdict"], &report["process"]), (&"not-numa".into(), &Value::Null));
    assert!(report["areas"].to_string().contains("table"));
}

#[test]
fn a_budget_of_references_is_kept_and_said() {
    let lab = Lab::new();
    let program = lab.compile(FILL, &[]);
    let output =
        why(&lab, &["--json", "--machine", "butterfly", "--budget", "300K", "--", program.to_str().unwrap()]);
    let report = json(&output);
    assert_eq!(report["trace"]["references"], 300_000);
    assert!(notes(&report).contains("ended after its first 300000 references: start-up"), "{report}");
}

#[test]
fn a_part_of_a_command_is_judged_with_the_first_touches_of_all() {
    let lab = Lab::new();
    let source = "#include <string.h>\nstatic char table[64 * 4096];\n\
        __attribute__((noinline)) void begin(void) { __asm__ volatile(\"\"); }\n\
        int main(void) { memset(table, 1, sizeof table); begin(); \
        for (int i = 0; i < 64; i++) ((volatile char*)table)[i * 4096]++; }";
    let program = lab.compile(source, &["-O1"]);
    let program = program.to_str().unwrap();
    let part = json(&why(&lab, &["--json", "--from", "begin", "--", program]));
    let all = json(&why(&lab, &["--json", "--", program]));
    let references = |report: &Value| report["trace"]["references"].as_u64().unwrap();
    assert!(references(&part) < references(&all) / 2, "{part}");
    assert!(part["areas"].to_string().contains("table"), "{part}");
    let never = why(&lab, &["--json", "--from", "begun", "--", program]);
    assert_eq!(never.status.code(), Some(1));
    assert!(
        stderr(&never).contains("nothing to judge: --from begun: no such function ran"),
        "{}",
        stderr(&never)
    );
    assert!(stderr(&never).contains("`begin`"), "{}", stderr(&never));
}

#[test]
fn a_program_is_ended_when_its_time_is_over() {
    let lab = Lab::new();
    let program = lab.compile(FILL, &[]);
    let output = why(&lab, &["--json", "--budget", "5s", "--", program.to_str().unwrap(), "wait"]);
    let report = json(&output);
    assert_eq!(
        (output.status.code(), &report["doubt"]["reason"]),
        (Some(5), &"one-thread".into()),
        "{report}"
    );
    let said = "the program was ended after 5 s of recording: start-up may weigh too much";
    assert!(notes(&report).contains(said), "{report}");
    assert!(!notes(&report).contains("status"), "it did not end so by itself: {report}");
}

#[test]
fn a_trace_that_is_kept_gives_the_same_verdict() {
    let lab = Lab::new();
    let program = lab.compile(FILL, &[]);
    let trace = lab.path("kept.homing");
    let trace = trace.to_str().unwrap();
    let recorded = json(&why(&lab, &["--json", "--keep", trace, "--", program.to_str().unwrap()]));
    let judged = json(&why(&lab, &["--json", trace]));
    assert_eq!(recorded["cost"], judged["cost"]);
    assert_eq!(recorded["trace"]["references"], judged["trace"]["references"]);
}

#[test]
fn programs_that_cannot_be_started_are_errors_as_in_record() {
    let lab = Lab::new();
    let recorded = lab.record(&[], &["/absent/program"]);
    let output = why(&lab, &["--", "/absent/program"]);
    assert_eq!(output.status.code(), recorded.status.code());
    assert!(!output.status.success() && output.stdout.is_empty());
    assert_eq!(stderr(&output), stderr(&recorded));
    assert_eq!(left_in(&lab.path("traces")), 0);
}

#[test]
fn a_machine_of_one_node_says_so_at_once() {
    let nodes = std::fs::read_to_string("/sys/devices/system/node/online").unwrap_or("0".into());
    if nodes.trim() != "0" {
        eprintln!("SKIPPED: this machine has the nodes {nodes}");
        return;
    }
    let (lab, running) = (Lab::new(), Running::start());
    let output = why(&lab, &["--pid", &running.pid(), "--seconds", "600"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(text.starts_with("Not NUMA: this machine has one memory node: nothing can move here;"), "{text}");
    assert!(text.contains("homing lab run --topology 2x2"), "{text}");
    let report = json(&why(&lab, &["--json", "--pid", &running.pid()]));
    assert_eq!((&report["verdict"], &report["at_most"]), (&"not-numa".into(), &0.0.into()));
}

/// Waits until a process has ended; it stays there until its test waits for it.
fn ended_but_there(process: &Running) -> String {
    let status = || std::fs::read_to_string(format!("/proc/{}/stat", process.pid())).unwrap();
    while !status().contains(") Z ") {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    process.pid()
}

#[test]
fn processes_that_are_not_there_are_errors() {
    let lab = Lab::new();
    let process = Running(Command::new("true").spawn().unwrap());
    let ended = ended_but_there(&process);
    for (arguments, said) in [
        (&["--pid", &ended][..], "has no memory of its own: it is a kernel thread, or it has ended"),
        (&["--pid", "2147483647"], "process 2147483647 does not exist"),
        (&["--cgroup", "/absent"], "/absent is no cgroup: expected a directory"),
    ] {
        let output = why(&lab, arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(stderr(&output).contains(said), "{}", stderr(&output));
    }
}

#[test]
fn what_does_not_go_together_is_refused() {
    let lab = Lab::new();
    let program = lab.compile(FILL, &[]);
    let program = program.to_str().unwrap();
    for arguments in [
        &[][..],
        &["--pid", "1", "--", program],
        &["--pid", "1", program],
        &["--pid", "1", "--cgroup", "/sys/fs/cgroup"],
        &["--pid", "1", "--budget", "5s"],
        &["--pid", "1", "--from", "main"],
        &["--pid", "1", "--threads-on", "fill"],
        &["--children", "--", program],
        &["--seconds", "5", "--", program],
        &["--source", "pmu", "a.homing"],
        &["--source", "none", "--pid", "1"],
        &["--keep", "b.homing", "a.homing"],
        &["a.homing", "b.homing"],
        &["a.homing", "--", program],
        &["--budget", "0", "--", program],
        &["--budget", "many", "--", program],
    ] {
        let output = why(&lab, arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn a_cgroup_in_which_nothing_runs_is_refused() {
    let group = tempfile::tempdir().unwrap();
    std::fs::write(group.path().join("cgroup.procs"), "").unwrap();
    let mut homing = Command::new(env!("CARGO_BIN_EXE_homing"));
    let output = homing.args(["why", "--cgroup"]).arg(group.path()).output().unwrap();
    let message = stderr(&output);
    assert!(message.contains("is empty: expected processes in it"), "{message}");
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
}
