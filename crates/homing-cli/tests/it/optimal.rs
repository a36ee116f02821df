//! `homing optimal` and `homing machines` from the outside, on a small trace with a known optimum.

use homing_core::ids::Thread;
use homing_core::trace::{Header, Kind, Summary, TraceWriter};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Page A: 1000 writes by thread 0, then 1000 by thread 1. Page B: a write by thread 0, then 500 reads by thread 1.
fn trace(folder: &Path) -> PathBuf {
    let mut writer = TraceWriter::new(Vec::new(), &Header::new("test", "1")).unwrap();
    for (thread, page, write, count) in
        [(0, 0x1000, true, 1000), (1, 0x1000, true, 1000), (0, 0x5000, true, 1), (1, 0x5000, false, 500)]
    {
        let kind = if write { Kind::write(8) } else { Kind::read(8) };
        for i in 0..count {
            writer.reference(Thread(thread), 0, page + i % 512 * 8, kind).unwrap();
        }
        writer.turn(Thread(thread), count).unwrap();
    }
    let (bytes, _) = writer.finish(Summary::default()).unwrap();
    let path = folder.join("a.trace");
    std::fs::write(&path, bytes).unwrap();
    path
}

fn homing(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_homing")).args(args).output().unwrap()
}

fn stdout(args: &[&str]) -> String {
    let output = homing(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&stdout(args)).unwrap()
}

/// Exit code and message of a command that fails.
fn failure(args: &[&str]) -> (i32, String) {
    let output = homing(args);
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn the_row_is_the_known_optimum() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path());
    let trace = trace.to_str().unwrap();
    let row = json(&["optimal", trace, "--machine", "butterfly", "--json"]);
    // A moves once (R = 3272); B starts at its reader, so its one write is remote (r = 15).
    let cost = 2000.0 + 3272.0 + 15.0 + 500.0;
    assert_eq!(row["cost"], cost);
    assert_eq!(row["optimal_cost"], cost);
    assert!((row["mcpr"].as_f64().unwrap() - cost / 2501.0).abs() < 1e-12);
    let fields =
        ["references", "local", "remote", "global", "moves", "replications", "pages", "lost_references"];
    let counts: Vec<u64> = fields.iter().map(|&field| row[field].as_u64().unwrap()).collect();
    assert_eq!(counts, [2501, 2500, 1, 0, 1, 0, 2, 0]);
    assert_eq!((row["policy"].as_str(), row["machine"].as_str()), (Some("optimal"), Some("butterfly")));
    assert_eq!((row["gap_percent"].as_f64(), row["replication"].as_bool()), (Some(0.0), Some(true)));
    assert!(row["seconds"].is_number() && row["nonlocal_percent"].is_number());

    let touched = json(&["optimal", trace, "-m", "butterfly", "--json", "--start", "first-touch"]);
    // B starts at its writer and is copied to its reader.
    assert_eq!(touched["cost"], 2501.0 + 2.0 * 3272.0);
    let together = json(&["optimal", trace, "-m", "butterfly", "--json", "--threads-on", "0"]);
    assert_eq!(together["mcpr"], 1.0);
    let table = stdout(&["optimal", trace, "-m", "butterfly"]);
    assert!(table.contains("5787") && table.contains("page moves"), "{table}");
}

#[test]
fn the_curve_is_exact() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path());
    let trace = trace.to_str().unwrap();
    let out = json(&["optimal", trace, "-m", "butterfly", "--curve", "R=100..20000", "--json"]);
    let segments = out["curve"]["segments"].as_array().unwrap();
    // A stops moving where R = 1000 (r - 1); B starts at its reader throughout.
    let shape: Vec<_> =
        segments.iter().map(|s| (s["from"].as_f64().unwrap(), s["slope"].as_u64().unwrap())).collect();
    assert_eq!(shape, [(100.0, 1), (14000.0, 0)]);
    let csv = stdout(&["optimal", trace, "-m", "butterfly", "--curve", "R=100..20000", "--csv"]);
    assert_eq!(csv.lines().count(), 3);
    assert!(csv.starts_with("from,to,slope,intercept"), "{csv}");
    let (code, message) = failure(&["optimal", trace, "-m", "butterfly", "--curve", "g=1..2"]);
    assert_eq!(code, 2);
    assert!(message.contains("no global memory"), "{message}");
    for (wrong, says) in [
        (["--curve", "R=5..2"], "expected the smaller number first, R=2..5"),
        (["--set", "homing.cap=2"], "the optimum has no policy"),
    ] {
        let (code, message) = failure(&[&["optimal", trace, "-m", "butterfly"][..], &wrong].concat());
        assert_eq!(code, 2);
        assert!(message.contains(says), "{message}");
    }
    let (code, message) = failure(&["compare", trace, "-m", "ace", "--policies", "ace,first-touch,ace"]);
    assert_eq!(code, 2);
    assert!(message.contains("`ace` is named twice"), "{message}");
}

#[test]
fn what_is_lost_to_sampling_is_told_from_what_is_lost_to_the_policy() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path());
    let asked = ["optimal", trace.to_str().unwrap(), "-m", "butterfly", "--from-samples", "1,64"];
    let out = json(&[&asked[..], &["--json"]].concat());
    let curve = &out["from_samples"];
    // Both pages stay with thread 0 until their user is known: A pays a move, B one for its reads.
    assert_eq!(curve["optimal_cost"], 2501.0 + 2.0 * 3272.0);
    assert_eq!(curve["policy"], "homing");
    let points = curve["points"].as_array().unwrap();
    assert_eq!((points[0]["period"].as_u64(), points[0]["samples"].as_u64()), (Some(1), Some(2501)));
    // Behind the first reference by another node at the latest, which costs r once on each page; before it where that
    // node always comes next.
    let oracle = points[0]["oracle_cost"].as_f64().unwrap();
    assert!((9045.0..=9045.0 + 2.0 * 14.0).contains(&oracle), "{oracle}");
    for point in points {
        let cost = |name: &str| point[name].as_f64().unwrap();
        let gap = 100.0 * (cost("oracle_cost") / 9045.0 - 1.0);
        assert!((gap - cost("oracle_gap_percent")).abs() < 1e-9, "{point}");
        assert!(cost("oracle_cost") <= cost("policy_cost"), "{point}");
    }
    let table = stdout(&asked);
    assert!(table.contains("lost to sampling") && table.contains("lost to homing"), "{table}");
    let csv = stdout(&[&asked[..], &["--csv"]].concat());
    assert!(csv.starts_with("period,samples,oracle_cost") && csv.lines().count() == 3, "{csv}");
    assert_eq!(failure(&["optimal", asked[1], "-m", "butterfly", "--from-samples", "0"]).0, 2);
}

#[test]
fn the_placement_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path());
    let trace = trace.to_str().unwrap();
    let csv = folder.path().join("p.csv");
    stdout(&["optimal", trace, "-m", "butterfly", "--placement", csv.to_str().unwrap()]);
    let lines = std::fs::read_to_string(&csv).unwrap();
    let expected = "page,address,reference,time,action,from,to\n\
                    0,0x1000,0,0,place,0,0\n\
                    0,0x1000,1000,1000,move,0,1\n\
                    1,0x5000,0,0,place,1,1\n";
    assert_eq!(lines, expected);
    let lines = folder.path().join("p.jsonl");
    stdout(&["optimal", trace, "-m", "butterfly", "--placement", lines.to_str().unwrap()]);
    let text = std::fs::read_to_string(&lines).unwrap();
    let second: Value = serde_json::from_str(text.lines().nth(1).unwrap()).unwrap();
    assert_eq!((second["action"].as_str(), second["to"].as_u64()), (Some("move"), Some(1)));
}

#[test]
fn machines_with_unequal_distances_are_bounded_without_replication_and_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path());
    let row = json(&["optimal", trace.to_str().unwrap(), "-m", "two-socket-cxl", "--json"]);
    assert_eq!(row["replication"], false);
    assert!(row["notes"][0].as_str().unwrap().contains("unequal distances"));
}

#[test]
fn machines_are_listed_and_shown() {
    let list = stdout(&["machines"]);
    for name in
        ["ace", "butterfly", "high-latency", "two-socket", "four-socket", "eight-node", "two-socket-cxl"]
    {
        assert!(list.lines().any(|line| line.trim_start().starts_with(name)), "{name} in {list}");
    }
    let all = json(&["machines", "--json"]);
    let butterfly = all["machines"].as_array().unwrap().iter().find(|m| m["name"] == "butterfly").unwrap();
    assert_eq!(
        (&butterfly["costs"]["page_move"], &butterfly["cpus"]),
        (&Value::from(3272.0), &Value::from(7))
    );
    let shown = stdout(&["machines", "ace", "--set", "remote=6"]);
    assert!(shown.contains("remote = 6") && shown.contains("r = 6, R = 4496"), "{shown}");
    let (code, message) = failure(&["machines", "ace", "--set", "page_move=9"]);
    assert_eq!(code, 2);
    assert!(message.contains("`reference.page_move` is 9"), "{message}");
    let (code, message) = failure(&["machines", "no-such-machine"]);
    assert_eq!(code, 2);
    assert!(message.contains("expected a TOML file, `host`, or one of ace"), "{message}");
}
