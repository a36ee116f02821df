//! `homing record --grain page` beside a full recording of the same run, with each recorder: bounds and policies are
//! the same to the last digit, and what needs addresses within pages is refused or left out.

use crate::tsan::build;
use crate::tsan::build::Compiler;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn homing(arguments: &[&str]) -> Output {
    build::homing().args(arguments).output().unwrap()
}

fn error(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(arguments: &[&str]) -> Value {
    let output = homing(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", error(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Records a program whose runs are all alike, without random addresses, from `main` on.
fn record(recorder: &str, program: &Path, grain: &str, name: &str) -> PathBuf {
    let out = build::directory().join(format!("{name}-{recorder}-{grain}-{}.trace", std::process::id()));
    let arguments =
        ["record", "--merge", "-q", "--recorder", recorder, "--grain", grain, "--exclude-startup", "-o"];
    let mut homing = build::homing();
    homing.args(arguments).arg(&out).args(["--", "setarch", "-R"]).arg(program);
    let recorded = homing.output().unwrap();
    assert!(recorded.status.success() && recorded.stderr.is_empty(), "{}", error(&recorded));
    out
}

/// Drops what differs between two runs of homing, or says how the trace was recorded, and the diagnosis, which looks at
/// lines.
fn numbers(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            for field in ["digest", "name", "notes", "seconds", "why"] {
                fields.remove(field);
            }
            fields.values_mut().for_each(|value| *value = numbers(value.take()));
        }
        Value::Array(values) => values.iter_mut().for_each(|value| *value = numbers(value.take())),
        _ => {}
    }
    value
}

/// Holds a trace of pages against the full one.
fn compare(full: &Path, pages: &Path) {
    let [full, pages] = [full, pages].map(|path| path.to_str().unwrap());
    let info = |trace: &str| json(&["trace", "info", trace, "--json"]);
    let (of_full, of_pages) = (info(full), info(pages));
    assert_eq!((&of_full["grain"], &of_pages["grain"]), (&Value::from(1), &Value::from(4096)));
    for field in ["references", "reads", "writes", "bytes_accessed", "pages", "per_thread", "events"] {
        assert_eq!(of_full[field], of_pages[field], "{field}");
    }
    assert!(of_full["references"].as_u64().unwrap() > 300_000 && of_full["threads"] == 17, "{of_full}");
    let bytes = |info: &Value| info["bytes"].as_u64().unwrap();
    assert!(bytes(&of_pages) * 4 < bytes(&of_full) * 3, "{} of {}", bytes(&of_pages), bytes(&of_full));
    for machine in ["two-socket", "butterfly", "eight-node"] {
        for size in ["4K", "64K"] {
            let options =
                ["--machine", machine, "--page-size", size, "--threads-on", "round-robin", "--json"];
            let of = |command: &[&str], trace| numbers(json(&[command, &[trace], &options].concat()));
            for command in [&["optimal"][..], &["compare", "--every-reference"]] {
                assert_eq!(of(command, full), of(command, pages), "{command:?} {machine} {size}");
            }
        }
    }
}

#[test]
fn recompiled_programs_give_the_same_bounds_and_policies() {
    for (recorder, compiler) in [("tsan", Compiler::Gcc), ("clang", Compiler::ClangPass)] {
        if compiler.there() {
            let program = build::program(compiler, "turns.c", true);
            let [full, pages] = ["byte", "page"].map(|grain| record(recorder, &program, grain, "grain"));
            compare(&full, &pages);
        }
    }
}

#[test]
fn programs_as_they_are_give_the_same_bounds_and_policies() {
    let recorder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recorders/valgrind");
    let out = format!("OUT={}", build::directory().join("valgrind").display());
    if !Command::new("make").arg("-s").arg("-C").arg(recorder).arg(out).status().is_ok_and(|s| s.success()) {
        return eprintln!("SKIPPED: 1 test: Valgrind's tool headers are not installed");
    }
    let program = build::program(Compiler::Gcc, "turns.c", false);
    let [full, pages] = ["byte", "page"].map(|grain| record("valgrind", &program, grain, "grain"));
    compare(&full, &pages);
}

#[test]
fn what_needs_addresses_within_pages_is_refused_or_left_out() {
    let program = build::program(Compiler::Gcc, "turns.c", true);
    let trace = record("tsan", &program, "page", "refused");
    let trace = trace.to_str().unwrap();
    for (arguments, needs, advice) in [
        (
            &["optimal", trace, "--machine", "two-socket", "--page-size", "1K"][..],
            "pages of 1024 bytes need",
            "--page-size 4K or more",
        ),
        (&["optimal", trace, "--machine", "two-socket", "--misses"], "caches need", "without --misses"),
        (&["compare", trace, "--machine", "two-socket", "--misses"], "caches need", "without --misses"),
        (
            &["simulate", trace, "--machine", "two-socket", "--policy", "homing", "--monitor", "perfect"],
            "caches need",
            "--monitor",
        ),
        (&["sched", "model", trace], "caches need", "--grain byte"),
        (&["trace", "export", trace], "an export needs", "--grain byte"),
        (&["trace", "refine", trace], "lines of 64 bytes need", "--line 4096"),
    ] {
        let refused = homing(arguments);
        let message = error(&refused);
        assert!(!refused.status.success(), "{arguments:?}");
        assert!(message.contains("(it was recorded with --grain page)"), "{arguments:?}: {message}");
        assert!(message.contains(needs) && message.contains(advice), "{arguments:?}: {message}");
        assert!(message.contains(trace), "{arguments:?}: {message}");
    }
    assert!(homing(&["trace", "refine", trace, "--line", "4096"]).status.success());
    let note = "caches and cache lines are left out";
    let why = json(&["why", trace, "--json"]);
    assert!(why["notes"].to_string().contains(note) && why["behind_caches"] == false, "{why}");
    let has_lines = |why: &Value| why.to_string().contains("\"worst\"");
    assert!(!has_lines(&why), "{why}");
    let compared = json(&["compare", trace, "--machine", "two-socket", "--json"]);
    assert!(compared["notes"].to_string().contains("every reference counts, no caches"), "{compared}");
    let table = homing(&["trace", "info", trace]);
    assert!(
        String::from_utf8_lossy(&table.stdout).contains("page: each reference has the address of its page")
    );
    // Beside a full trace both are counted alike.
    let full = record("tsan", &program, "byte", "refused");
    let diff = homing(&["diff", full.to_str().unwrap(), trace]);
    let text = String::from_utf8_lossy(&diff.stdout).into_owned();
    assert!(diff.status.success() && !text.contains("Not the same in both"), "{text}");
    let said = text.matches("every reference, no caches").count();
    assert_eq!(said, 2, "{text}");
}
