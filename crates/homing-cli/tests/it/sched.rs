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
    assert_eq!(
        (&json["lines_with_more_fields"], &json["jobs_wider_than_the_machine"]),
        (&0.into(), &0.into())
    );
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

const PARTITIONS: &str = "[[partition]]\nname = \"a\"\nnodes = [0, 1]\nqueues = [1]\nshare = 0.5\n\
                          [[partition]]\nname = \"b\"\nnodes = [2, 3]\nqueues = [2]\nshare = 0.5\n";

/// Two queues of a log on two partitions of a machine with four nodes: the second has more to do.
#[test]
fn partitions_of_a_machine_have_jobs_of_their_own_and_nodes_go_where_they_are_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("parts.toml"), PARTITIONS).unwrap();
    let job = |number: u32, processors: u32, queue: u32| {
        format!("{number} 0 -1 100 {processors} -1 -1 {processors} -1 -1 1 1 1 7 {queue} 1 -1 -1\n")
    };
    let log = [job(1, 1, 1), job(2, 4, 2), job(3, 4, 2), job(4, 4, 2), job(5, 4, 2)].concat();
    let args = [
        "simulate",
        "/dev/stdin",
        "--machine",
        "four-socket",
        "--set",
        "cpus_per_node=4",
        "--managers",
        "batch",
    ];
    let args = [&args[..], &["--policies", "none", "--partitions"]].concat();
    let output = homing(&[&args[..], &[&path("parts.toml"), "--json"]].concat(), &log);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let run = &json["runs"][0];
    assert_eq!((&run["partitions"][0]["jobs"], &run["partitions"][1]["jobs"]), (&1.into(), &4.into()));
    let transfers = run["transfers"].as_array().unwrap();
    assert_eq!(transfers.len(), 1, "{transfers:?}");
    assert_eq!((&transfers[0]["from"], &transfers[0]["to"]), (&"a".into(), &"b".into()));
    let output = homing(&[&args[..], &[&path("parts.toml"), "--html", &path("page.html")]].concat(), &log);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("1 came, 0 went") && text.contains("idle CPU s"), "{text}");
    assert!(std::fs::read_to_string(path("page.html")).unwrap().contains("1 node moved between partitions"));
    // What is wrong with them is said.
    for (what, instead, says) in [
        ("[2, 3]", "[1, 2]", "`b`: node 1 is in a partition already"),
        ("[2, 3]", "[4]", "node 4 is not there: this machine has nodes 0 to 3"),
        ("queues = [2]", "queues = [9]", "queue 9: expected"),
        ("queues = [2]", "apps = [\"swim\"]", "no application `swim`"),
        ("nodes", "node", "unknown field `node`"),
    ] {
        std::fs::write(path("wrong.toml"), PARTITIONS.replacen(what, instead, 1)).unwrap();
        refused(&[&args[..], &[&path("wrong.toml")]].concat(), &log, says);
    }
    refused(&[&args[..], &["/dev/null"]].concat(), &log, "expected a table [[partition]]");
    let irix = ["simulate", "--managers", "irix", "--partitions", &path("parts.toml")];
    refused(&irix, "", "cannot have a partition");
}

#[test]
fn what_is_wrong_is_named() {
    refused(&["simulate", "/dev/stdin"], "1 2 3\n", "line 1: 3 fields: expected 18 numbers");
    refused(&["simulate", "--mix", "w9"], "", "there are w1, w2, w3, w4");
    refused(&["simulate", "--managers", "fifo"], "", "there are irix, equipartition");
    refused(&["simulate", "--load", "0"], "", "above 0");
    refused(&["simulate", "--machine", "butterfly"], "", "has no section [time]");
    refused(&["simulate", "/dev/stdin", "--like", "7=nobody"], LOG, "there are swim, bt, hydro2d, apsi");
    refused(
        &["simulate", "/dev/stdin", "--like", "9=swim"],
        LOG,
        "no job of the log has executable 9 (field 14",
    );
}
