//! What `compare` models where nobody says it: machines of today, and machines of papers.

use crate::support::{homing, import, succeeds};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Four threads; the first fills 64 pages, each uses sixteen.
fn trace(dir: &Path) -> PathBuf {
    let mut csv = String::new();
    for page in 0..64u64 {
        csv += &format!("0,{},8,w\n", (page + 1) * 4096);
    }
    for step in 0..4000u64 {
        let page = step % 64;
        csv += &format!(
            "{},{},8,{}\n",
            page / 16,
            (page + 1) * 4096 + step * 64 % 4096,
            if step % 3 == 0 { 'w' } else { 'r' }
        );
    }
    import(dir, "a.trace", &csv)
}

/// The words of the model, and its parameters: where threads run, caches first, copies.
fn model(trace: &Path, options: &[&str]) -> (String, [String; 3]) {
    let words =
        [&["compare", trace.to_str().unwrap(), "--policies", "homing,first-touch", "--json"], options]
            .concat();
    let report: Value = serde_json::from_slice(&succeeds(2, &words).stdout).unwrap();
    let parameter = |name: &str| {
        let all = report["parameters"].as_array().unwrap();
        all.iter().find(|each| each["name"] == name).unwrap()["value"].as_str().unwrap().to_owned()
    };
    let words = report["notes"][0].as_str().unwrap().to_owned();
    (words, ["threads-on", "misses", "replication"].map(parameter))
}

const SPREAD: &str = "threads that work are spread over the nodes (busy)";
const FILLED: &str = "threads fill the nodes one by one (fill)";
const CACHES: &str = "the machine's caches come first";
const EVERY: &str = "every reference counts, no caches";
const ONE: &str = "pages have one copy";
const COPIES: &str = "pages may have copies";

#[test]
fn machines_of_today_have_spread_threads_caches_and_one_copy() {
    let dir = tempfile::tempdir().unwrap();
    let trace = trace(dir.path());
    for machine in ["two-socket", "four-socket", "eight-node", "two-socket-cxl"] {
        let (words, parameters) = model(&trace, &["-m", machine]);
        assert_eq!(words, format!("{SPREAD}; {CACHES}; {ONE}"), "{machine}");
        assert_eq!(parameters, ["busy", "true", "false"], "{machine}");
    }
}

#[test]
fn machines_of_papers_stay_as_the_papers_have_them() {
    let dir = tempfile::tempdir().unwrap();
    let trace = trace(dir.path());
    for machine in ["ace", "butterfly", "high-latency", "sunfire-6800"] {
        let (words, parameters) = model(&trace, &["-m", machine]);
        assert_eq!(words, format!("{FILLED}; {EVERY}; {COPIES}"), "{machine}");
        assert_eq!(parameters, ["fill", "false", "true"], "{machine}");
    }
    // Distances are unequal: no bound with replication is known.
    assert_eq!(model(&trace, &["-m", "origin2000-64"]).0, format!("{FILLED}; {EVERY}; {ONE}"));
}

#[test]
fn what_is_asked_for_is_what_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let trace = trace(dir.path());
    for (options, words) in [
        (&["-m", "two-socket", "--threads-on", "fill"][..], [FILLED, CACHES, ONE]),
        (&["-m", "two-socket", "--threads-on", "0-3"], ["threads run on CPUs 0,1,2,3", CACHES, ONE]),
        (&["-m", "two-socket", "--every-reference"], [SPREAD, EVERY, ONE]),
        (&["-m", "two-socket", "--replication"], [SPREAD, EVERY, COPIES]),
        (&["-m", "two-socket", "--misses", "--no-replication"], [SPREAD, CACHES, ONE]),
        (&["-m", "two-socket", "--perturb", "local", "--seeds", "1"], [SPREAD, EVERY, ONE]),
        (&["-m", "sunfire-6800", "--misses"], [FILLED, CACHES, ONE]),
        (&["-m", "ace", "--no-replication"], [FILLED, EVERY, ONE]),
    ] {
        assert_eq!(model(&trace, options).0, words.join("; "), "{options:?}");
    }
    let path = trace.to_str().unwrap();
    for wrong in [
        &["--misses", "--every-reference"][..],
        &["--replication", "--no-replication"],
        &["--misses", "--replication"],
        &["--every-reference", "--monitor", "perfect"],
    ] {
        let output = homing(1, &[&["compare", path, "-m", "two-socket"], wrong].concat());
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }
    let bare = homing(1, &["compare", path, "-m", "ace", "--monitor", "perfect"]);
    assert!(String::from_utf8_lossy(&bare.stderr).contains("add --misses"));
}

#[test]
fn the_headline_and_the_page_say_it_too() {
    let dir = tempfile::tempdir().unwrap();
    let (trace, page) = (trace(dir.path()), dir.path().join("page.html"));
    let words = ["compare", trace.to_str().unwrap(), "-m", "two-socket", "--html", page.to_str().unwrap()];
    let text = String::from_utf8(succeeds(2, &words).stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("a on two-socket: "), "{text}");
    assert_eq!(lines[1], format!("{SPREAD}; {CACHES}; {ONE}"));
    assert_eq!(text.matches(SPREAD).count(), 1, "it is not said twice:\n{text}");
    assert!(std::fs::read_to_string(page).unwrap().contains(lines[1]));
}

#[test]
fn more_cpus_than_caches_are_simulated_for_are_refused_with_the_way_out() {
    let dir = tempfile::tempdir().unwrap();
    let csv: String = (0..80u64).map(|thread| format!("{thread},{},8,w\n", (thread + 1) * 4096)).collect();
    let trace = import(dir.path(), "wide.trace", &csv);
    let words = [
        "compare",
        trace.to_str().unwrap(),
        "-m",
        "two-socket",
        "--set",
        "cpus_per_node=64",
        "--threads-on",
        "round-robin",
    ];
    let refused = homing(1, &words);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("`homing compare --every-reference`"));
    succeeds(1, &[&words[..], &["--every-reference"]].concat());
}
