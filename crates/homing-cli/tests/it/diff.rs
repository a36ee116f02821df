//! `homing diff` from the outside: traces and diagnoses in, what changed out.

use crate::support;
use serde_json::Value;
use std::path::{Path, PathBuf};

const PAGES: u64 = 64;

/// `maker` says which of some threads first writes a page; then each uses its part of them.
fn trace(folder: &Path, name: &str, threads: u64, maker: impl Fn(u64) -> u64) -> String {
    let mut csv = String::new();
    let mut turn = |thread: u64, page: u64| {
        for word in 0..64 {
            csv += &format!("{thread},{},8,w\n", (page + 1) * 4096 + word * 8);
        }
    };
    (0..PAGES).for_each(|page| turn(maker(page), page));
    for _ in 0..30 {
        (0..PAGES).for_each(|page| turn(page * threads / PAGES, page));
    }
    support::import(folder, name, &csv).to_str().unwrap().to_owned()
}

fn stdout(args: &[&str]) -> String {
    String::from_utf8(support::succeeds(1, args).stdout).unwrap()
}

fn json_of(folder: &Path, trace: &str, name: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, stdout(&["why", trace, "--machine", "butterfly", "--json"])).unwrap();
    path
}

#[test]
fn a_mended_program_shows_what_went_away() {
    let folder = tempfile::tempdir().unwrap();
    let before = trace(folder.path(), "before.trace", 4, |_| 0);
    let after = trace(folder.path(), "after.trace", 4, |page| page * 4 / PAGES);
    let text = stdout(&["diff", &before, &after, "--machine", "butterfly"]);
    assert!(text.starts_with("Initialised by one thread before, not NUMA now; the modelled cost"), "{text}");
    for shown in ["less.", "non-local %", "1 area joined by name", "initialised by one thread"] {
        assert!(text.contains(shown), "{shown}\n{text}");
    }
    assert!(!text.contains("Not the same in both"), "{text}");
    let (one, two) = (json_of(folder.path(), &before, "a.json"), json_of(folder.path(), &after, "b.json"));
    let (one, two) = (one.to_str().unwrap(), two.to_str().unwrap());
    assert_eq!(stdout(&["diff", one, two]), text, "what `why --json` printed says the same as its trace");
    let json: Value =
        serde_json::from_str(&stdout(&["diff", one, &after, "--machine", "butterfly", "--json"])).unwrap();
    assert_eq!((&json["schema"], &json["after"]["verdict"]), (&1.into(), &"not-numa".into()));
    // Three quarters of 30 uses were remote at 15 each; now all are local.
    assert!(json["cost"]["before"].as_f64().unwrap() > 8.0 * json["cost"]["after"].as_f64().unwrap());
    let (page, markdown) = (folder.path().join("d.html"), folder.path().join("d.md"));
    stdout(&["diff", one, two, "--html", page.to_str().unwrap(), "--markdown", markdown.to_str().unwrap()]);
    let page = std::fs::read_to_string(page).unwrap();
    assert!(
        page.contains(r#"id="homing-report">{"schema":1"#) && page.contains("not NUMA now"),
        "the page is filled"
    );
    assert!(std::fs::read_to_string(markdown).unwrap().starts_with("**Initialised by one thread before"));
}

#[test]
fn what_else_differs_stands_beside_the_headline() {
    let folder = tempfile::tempdir().unwrap();
    let four = trace(folder.path(), "four.trace", 4, |_| 0);
    let two = trace(folder.path(), "two.trace", 2, |_| 0);
    let json = json_of(folder.path(), &four, "four.json");
    let text = stdout(&["diff", json.to_str().unwrap(), &two]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[1], "Not the same in both: machine: butterfly before, two-socket after.");
    assert!(lines.contains(&"Not the same in both: threads: 4 before, 2 after."), "{text}");
}

#[test]
fn wrong_input_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path(), "a.trace", 4, |_| 0);
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let compare = stdout(&["compare", &trace, "--machine", "butterfly", "--policies", "homing", "--json"]);
    let good = stdout(&["why", &trace, "--machine", "butterfly", "--json"]);
    for (path, said) in [
        ("/absent.json".to_owned(), "cannot read /absent.json"),
        (file("empty.json", ""), "is empty: expected a trace"),
        (file("damaged.json", &good[..good.len() / 2]), "is damaged JSON"),
        (file("compare.json", &compare), "no diagnosis: it has no `verdict`"),
        (file("later.json", &good.replacen("\"schema\": 1", "\"schema\": 99", 1)), "schema 99"),
        (file("part.json", r#"{"verdict": "not-numa", "schema": 1}"#), "is no whole diagnosis"),
        (file("text.txt", "neither"), "cannot read trace"),
        (folder.path().to_str().unwrap().to_owned(), "not a regular file"),
    ] {
        for inputs in [[&trace, &path], [&path, &trace]] {
            let output = support::homing(1, &["diff", inputs[0], inputs[1]]);
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(1), "{path}: {error}");
            assert!(error.contains(said), "{said}\n{error}");
        }
    }
    for wrong in [["--areas", "0"], ["--machine", "none"]] {
        let output = support::homing(1, &["diff", &trace, &trace, wrong[0], wrong[1]]);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
