//! Files of perf from outside: judged, imported, refused. The files are those of the tests of homing-trace.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn file(name: &str) -> PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../homing-trace/tests/perf_data");
    Path::new(folder).join(name).with_extension("data")
}

fn homing(args: &[&str], path: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_homing")).args(args).arg(path).output().expect("homing runs")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn samples_of_each_vendor_give_the_same_verdict() {
    for name in ["pebs", "ibs", "spe"] {
        let output = homing(&["why", "--json"], &file(name));
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["verdict"], "initialised-by-one-thread", "{name}");
        assert_eq!(report["areas"][0]["name"], "anonymous#0", "{name}");
        let recorded = report["sampled"]["recorded"].as_str().unwrap();
        assert!(recorded.starts_with(name) && recorded.contains("(built)"), "{recorded}");
        let text = String::from_utf8(homing(&["why"], &file(name)).stdout).unwrap();
        assert!(
            text.contains("Sampled by perf for 0.4 s") && text.contains("a ring being full: 7"),
            "{text}"
        );
    }
}

#[test]
fn what_cannot_be_judged_says_why_and_what_to_do() {
    let raw = homing(&["why"], &file("spe-raw"));
    assert_eq!(raw.status.code(), Some(1));
    assert!(stderr(&raw).contains("perf inject --itrace=M"), "{}", stderr(&raw));
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str, bytes: &[u8]| {
        let path = directory.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let whole = std::fs::read(file("pebs")).unwrap();
    let cut = homing(&["why"], &at("cut", &whole[..whole.len() * 3 / 4]));
    assert_eq!(cut.status.code(), Some(2), "its nodes stood at its end: {}", stderr(&cut));
    assert!(stderr(&cut).contains("expected --machine"), "{}", stderr(&cut));
    let cut = homing(&["why", "--machine", "two-socket"], &at("cut", &whole[..whole.len() * 3 / 4]));
    assert_eq!(cut.status.code(), Some(5), "{}", stderr(&cut));
    assert!(String::from_utf8_lossy(&cut.stdout).contains("the file is cut"));
    let swapped = homing(&["why"], &at("swapped", &[b"2ELIFREP", &whole[8..]].concat()));
    assert_eq!(swapped.status.code(), Some(1));
    assert!(stderr(&swapped).contains("other byte order"), "{}", stderr(&swapped));
    std::fs::write(directory.path().join("data"), &whole).unwrap();
    let several = homing(&["why"], directory.path());
    assert_eq!(several.status.code(), Some(1));
    assert!(stderr(&several).contains("perf record --threads"), "{}", stderr(&several));
    for (args, words) in [
        (&["why", "--by", "thread"][..], "--by is for traces"),
        (&["why", "--process", "nobody"], "solver (4242)"),
        (&["why", "--symfs", "/absent"], "expected a directory"),
        (&["why", "--budget", "1s"], "for a command"),
    ] {
        let output = homing(args, &file("pebs"));
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains(words), "{args:?}: {}", stderr(&output));
    }
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../homing-trace/tests/fixtures/threads.trace");
    assert_eq!(homing(&["why", "--process", "7"], &trace).status.code(), Some(2));
}

#[test]
fn samples_can_be_imported_and_refined() {
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("samples.trace");
    for name in ["ibs", "real/packed", "real/piped"] {
        let output = homing(&["trace", "import", "-o", trace.to_str().unwrap()], &file(name));
        assert_eq!(output.status.code(), Some(0), "{name}: {}", stderr(&output));
        let output = homing(&["trace", "refine", "--json", "--top", "1"], &trace);
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(found["exact"], true, "{name}");
        if name == "ibs" {
            // The line that two nodes write.
            assert_eq!(
                (&found["lines"][0]["address"], &found["lines"][0]["references"]),
                (&0x60_4000.into(), &40.into())
            );
        }
    }
}
