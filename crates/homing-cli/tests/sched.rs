//! `homing sched`, run as users run it.

use std::io::Write;
use std::process::{Command, Output, Stdio};

fn homing(args: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_homing"))
        .args(["sched"].iter().chain(args))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn refused(args: &[&str], input: &str, what: &str) {
    let output = homing(args, input);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
    assert!(said.contains(what), "{args:?}: {said}");
}

const LOG: &str = "; MaxProcs: 64\n1 0 -1 100 16 -1 -1 16 -1 -1 1 1 1 7 1 1 -1 -1\n\
                   2 10 -1 50 64 -1 -1 64 -1 -1 1 1 1 8 1 1 -1 -1\n3 20 -1 -1 4 -1 -1 4 -1 -1 5 1 1 8 1 1 -1 -1\n";

#[test]
fn a_log_is_played_and_what_is_left_out_is_counted() {
    let output =
        homing(&["simulate", "/dev/stdin", "--managers", "batch", "--policies", "none", "--json"], LOG);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["skipped"]["never_ran"], 1);
    let run = &json["runs"][0];
    assert_eq!(run["jobs"], 2);
    // The second waits for the first, whose processors it needs.
    assert_eq!(run["makespan_s"].as_f64().unwrap().round(), 150.0);
    assert_eq!(run["cpu_s"].as_f64().unwrap().round(), 100.0 * 16.0 + 50.0 * 64.0);
}

#[test]
fn an_executable_of_a_log_behaves_as_an_application() {
    let args =
        ["simulate", "/dev/stdin", "--like", "7=swim", "--managers", "equipartition", "--policies", "irix"];
    let output = homing(&args, LOG);
    assert!(String::from_utf8_lossy(&output.stdout).contains("swim"));
}

#[test]
fn a_mix_gives_tables_and_a_page() {
    let page = tempfile::NamedTempFile::new().unwrap();
    let path = page.path().to_str().unwrap();
    let output =
        homing(&["simulate", "--mix", "w4", "--jobs", "3", "--managers", "irix,homing", "--html", path], "");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("process migrations") && text.contains("modelled"), "{text}");
    let page = std::fs::read_to_string(path).unwrap();
    assert_eq!(page.matches("<svg").count(), 8, "two pictures for each of two managers and policies");
    assert!(!page.contains("NaN") && !page.contains("inf"));
}

#[test]
fn what_is_wrong_is_named() {
    refused(&["simulate", "/dev/stdin"], "1 2 3\n", "line 1: 3 fields: expected 18 numbers");
    refused(&["simulate", "--mix", "w9"], "", "there are w1, w2, w3, w4");
    refused(&["simulate", "--managers", "fifo"], "", "there are irix, equipartition");
    refused(&["simulate", "--load", "0"], "", "above 0");
    refused(&["simulate", "--machine", "butterfly"], "", "has no section [time]");
    refused(&["simulate", "/dev/stdin", "--like", "7=nobody"], LOG, "there are swim, bt, hydro2d, apsi");
}
