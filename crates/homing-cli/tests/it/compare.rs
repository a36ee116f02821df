//! `policies`, `simulate` and `compare` from outside, on traces imported from CSV.

use crate::support::{homing, import, succeeds};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Threads on nodes of their own.
const ON: [&str; 2] = ["--threads-on", "one-per-node"];

fn json(args: &[&str]) -> Value {
    serde_json::from_slice(&succeeds(2, args).stdout).expect("JSON on stdout")
}

/// Two threads on eight pages: half of them filled by thread 0 and used by thread 1.
fn trace(dir: &Path, name: &str) -> PathBuf {
    let mut csv = String::new();
    for step in 0..6000u64 {
        let (page, filling) = (step % 8, step < 800);
        let thread = u64::from(!filling && page >= 4);
        let kind = if step % 3 == 0 { 'w' } else { 'r' };
        csv += &format!("{thread},{},8,{kind}\n", 0x10000 + page * 4096 + step % 512 * 8);
    }
    import(dir, &format!("{name}.trace"), &csv)
}

#[test]
fn rows_have_the_promised_fields_and_stay_above_the_bound() {
    let fields =
        "policy machine references cost mcpr local remote global moves replications nonlocal_percent \
                  optimal_cost gap_percent pages seconds";
    let dir = tempfile::tempdir().unwrap();
    let trace = trace(dir.path(), "halves");
    let trace = trace.to_str().unwrap();
    for machine in ["butterfly", "ace", "eight-node"] {
        let on = [&["--machine", machine, "--json"], &ON[..]].concat();
        let report = json(&[&["compare", trace, "--every-reference"], &on[..]].concat());
        let rows = report["traces"][0]["rows"].as_array().unwrap();
        assert_eq!(rows[0]["policy"], "optimal");
        for row in rows {
            for field in fields.split_whitespace() {
                assert!(!row[field].is_null(), "{machine}: {field} of {row}");
            }
            assert!(row["gap_percent"].as_f64().unwrap() > -1e-9, "{row}");
            assert_eq!(row["references"], 6000);
        }
        let alone = json(&[&["simulate", trace, "--policy", "homing"], &on[..]].concat());
        let row = rows.iter().find(|row| row["policy"] == "homing").unwrap();
        assert_eq!((&alone["cost"], &alone["optimal_cost"]), (&row["cost"], &row["optimal_cost"]));
    }
}

#[test]
fn a_machine_too_large_to_simulate_is_wrong_usage() {
    let dir = tempfile::tempdir().unwrap();
    let trace = trace(dir.path(), "halves");
    let (trace, large) = (trace.to_str().unwrap(), dir.path().join("large.toml"));
    let ace = String::from_utf8(succeeds(1, &["machines", "two-socket"]).stdout).unwrap();
    let model: Vec<String> = ace
        .lines()
        .map(|line| if line.starts_with("nodes") { "nodes = 129".to_owned() } else { line.to_owned() })
        .collect();
    assert!(model.contains(&"nodes = 129".to_owned()), "{ace}");
    std::fs::write(&large, model.join("\n")).unwrap();
    let (large, out) = (large.to_str().unwrap(), dir.path().join("out"));
    for command in [
        &["compare", trace, "--machine", large][..],
        &["simulate", trace, "--machine", large, "--policy", "homing"],
        &["study", trace, "--machines", large, "--out", out.to_str().unwrap()],
    ] {
        let output = homing(1, command);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{command:?}: {said}");
        assert!(said.contains("129 memories") && said.contains("at most 128"), "{command:?}: {said}");
    }
    assert_eq!(homing(1, &["optimal", trace, "--machine", large]).status.code(), Some(0));
}

#[test]
fn the_report_is_the_same_at_any_number_of_workers() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (trace(dir.path(), "a"), trace(dir.path(), "b"));
    let (a, b) = (a.to_str().unwrap(), b.to_str().unwrap());
    let sweeps = ["--sweep", "page-move=200..4000", "--sweep", "page-size=1K,4K"];
    let disturb = ["--perturb", "local,gaps", "--seeds", "2"];
    let args =
        [&["compare", a, b, "--machine", "butterfly", "--json"], &sweeps[..], &disturb[..], &ON[..]].concat();
    let report = |workers| {
        let output = homing(workers, &args);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().filter(|line| !line.contains("\"seconds\"")).collect::<Vec<_>>().join("\n")
    };
    let text = report(1);
    assert_eq!(text, report(4));
    assert!(
        text.contains("\"worst_trace\"")
            && text.contains("\"change_percent\"")
            && text.contains("\"exact\": true")
    );
}

#[test]
fn a_placement_from_one_run_serves_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let trace = trace(dir.path(), "profile");
    let placed = dir.path().join("best.placement");
    let on = [&["simulate", trace.to_str().unwrap(), "--machine", "butterfly", "--json"], &ON[..]].concat();
    let cost = |args: &[&str]| json(&[&on[..], args].concat())["cost"].as_f64().unwrap();
    let first = cost(&["--policy", "best-static", "--placement-out", placed.to_str().unwrap()]);
    let file = format!("file:{}", placed.display());
    assert_eq!(cost(&["--policy", "file", "--placement", &file]), first);
    assert!(first < cost(&["--policy", "first-touch"]));
}

#[test]
fn files_are_written_and_mistakes_are_usage_errors() {
    let dir = tempfile::tempdir().unwrap();
    let trace = trace(dir.path(), "files");
    let trace = trace.to_str().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (csv, html, actions) = (path("rows.csv"), path("page.html"), path("actions.csv"));
    let on = [&["--machine", "ace"], &ON[..]].concat();
    let done = homing(2, &[&["compare", trace, "--csv", &csv, "--html", &html], &on[..]].concat());
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let text = String::from_utf8(done.stdout).unwrap();
    assert!(
        text.contains("% of references are non-local under first-touch")
            && text.contains("producer-consumer")
    );
    assert!(std::fs::read_to_string(&csv).unwrap().lines().count() > 10);
    let manifest = std::fs::read(format!("{csv}.manifest.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    let digest = manifest["traces"][0]["digest"].as_str().unwrap();
    assert_eq!(json(&[&["optimal", trace, "--json"], &on[..]].concat())["trace"]["digest"], digest);
    assert!(manifest["generator"].as_str().unwrap().starts_with("homing "));
    assert!(manifest["parameters"].as_array().unwrap().iter().any(|p| p["name"] == "threads-on"));
    assert!(std::fs::read_to_string(html).unwrap().contains("\"policy\":\"homing\""));
    let ace = homing(2, &[&["simulate", trace, "--policy", "ace", "--actions", &actions], &on[..]].concat());
    assert!(ace.status.success());
    assert!(std::fs::read_to_string(actions)
        .unwrap()
        .starts_with("time,page,address,action,node,reason,outcome\n"));
    for bad in [
        &["simulate", trace, "--policy", "nobody"][..],
        &["simulate", trace, "--policy", "ace", "--placement", "nowhere"],
        &["simulate", trace, "--policy", "ace", "--placement", "single-node:99"],
        &["simulate", trace, "--policy", "ace", "--set", "ace.limit=3"],
        &["compare", trace, "--sweep", "speed=1..2"],
        &["compare", trace, "--policies", "ace,nobody"],
        &["compare", trace, "--policies", "file"],
        &["compare", trace, "--sweep", "page-move=1..2"],
    ] {
        let output = homing(1, &[bad, &on[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{bad:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn policies_are_listed() {
    let all = json(&["policies", "--json"]);
    assert_eq!(all["schema"], 1);
    assert!(all["policies"].as_array().unwrap().len() >= 12);
    let text = homing(1, &["policies", "delay"]);
    assert!(String::from_utf8_lossy(&text.stdout).contains("--set delay.count=100 references"));
    assert_eq!(homing(1, &["policies", "nobody"]).status.code(), Some(2));
}

#[test]
fn traces_of_one_file_name_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    for folder in ["a", "b"] {
        std::fs::create_dir(dir.path().join(folder)).unwrap();
        trace(&dir.path().join(folder), "run");
    }
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (a, b, table) = (path("a/run.trace"), path("b/run.trace"), path("rows.csv"));
    let policies = ["--machine", "ace", "--policies", "delay"];
    let report = json(&[&["compare", &a, &b, "--json", "--csv", &table], &policies[..]].concat());
    let names: Vec<_> = (0..2).map(|i| report["traces"][i]["trace"]["name"].clone()).collect();
    assert_eq!(names, ["a/run.trace", "b/run.trace"]);
    let rows = std::fs::read_to_string(table).unwrap();
    assert!(rows.contains("\na/run.trace,delay,") && rows.contains("\nb/run.trace,delay,"), "{rows}");
    let output = homing(1, &[&["compare", &a, &a], &policies[..]].concat());
    assert_eq!(output.status.code(), Some(2));
}
