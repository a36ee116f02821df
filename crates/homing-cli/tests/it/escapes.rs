//! What others chose (names of files, commands, call sites, answers) is shown, and commands no terminal.

use homing_core::ids::Thread;
use homing_core::trace::{AllocFunction, Event, Header, Kind, Summary, TraceWriter};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Sets the title of a terminal, clears it by a character of two bytes, turns text around.
const HOSTILE: &str = "a\x1b]0;x\x07b\u{9b}2Jc\u{202e}d";
/// The same as it is shown.
const SHOWN: &str = "a\\u001b]0;x\\u0007b\\u009b2Jc\\u202ed";

fn homing(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_homing")).args(arguments).output().expect("homing runs")
}

/// What was printed, all of it; fails if a terminal would obey any of it.
fn harmless(output: &Output) -> String {
    let printed = [&output.stdout[..], &output.stderr].concat();
    let printed = String::from_utf8(printed).expect("text");
    let acts = |letter: char| letter.is_control() && letter != '\n' || letter == '\u{202e}';
    assert!(!printed.contains(acts), "{printed:?}");
    printed
}

/// A trace of a program with a hostile command line, that allocated at a call site of such a name.
fn trace(dir: &Path) -> PathBuf {
    let mut header = Header::new("test", "1");
    header.command = vec![HOSTILE.into(), "second\nline".into()];
    let mut writer = TraceWriter::new(Vec::new(), &header).unwrap();
    let site = writer.name(&format!("site {HOSTILE}"));
    writer
        .event(
            Thread(0),
            &Event::Alloc { function: AllocFunction::Malloc, address: 0x1000, size: 4096, site },
        )
        .unwrap();
    for i in 0..1000 {
        writer.reference(Thread(0), 0, 0x1000 + 8 * (i % 512), Kind::write(8)).unwrap();
    }
    writer.turn(Thread(0), 1000).unwrap();
    let path = dir.join(format!("{HOSTILE}.trace"));
    fs::write(&path, writer.finish(Summary::default()).unwrap().0).unwrap();
    path
}

#[test]
fn traces() {
    let dir = tempfile::tempdir().unwrap();
    let trace = trace(dir.path());
    let trace = trace.to_str().unwrap();
    let info = homing(&["trace", "info", trace]);
    assert!(info.status.success());
    let printed = harmless(&info);
    assert!(printed.contains(&format!("{SHOWN} second\\u000aline")), "{printed}");
    assert!(printed.contains(&format!("site {SHOWN}")), "{printed}");
    let compare = homing(&["compare", trace, "--machine", "ace", "--policies", "homing"]);
    assert!(harmless(&compare).starts_with(&format!("{SHOWN} on ace: 1000 references")));
    // JSON on a terminal is as harmless, and exact.
    let json = homing(&["trace", "info", "--json", trace]);
    harmless(&json);
    let facts: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(facts["command"][0], HOSTILE);
    for json in [&["compare", trace, "--machine", "ace"][..], &["optimal", trace, "--machine", "ace"]] {
        let json = homing(&[json, &["--json"]].concat());
        harmless(&json);
        assert!(json.stdout.windows(6).any(|six| six == b"\\u009b"));
        assert!(serde_json::from_slice::<serde_json::Value>(&json.stdout)
            .unwrap()
            .to_string()
            .contains('\u{9b}'));
    }
}

#[test]
fn errors_that_quote_what_they_were_given() {
    for arguments in [
        &["trace", "info", HOSTILE][..],
        &["machines", HOSTILE],
        &["machines", "--no-such-option", HOSTILE],
        &["compare", "a.trace", "--machine", "ace", "--memory", HOSTILE],
        &["top", "--sort", HOSTILE],
        &[HOSTILE],
        &["run", "--policy", HOSTILE, "--", "true"],
        &["record", "--", HOSTILE],
    ] {
        let output = homing(arguments);
        assert!(!output.status.success());
        let said = harmless(&output);
        assert!(arguments.contains(&"--no-such-option") || said.contains(SHOWN), "{arguments:?}: {said}");
    }
}

#[test]
fn lines_that_an_error_quotes_do_not_look_like_messages() {
    let output = homing(&["trace", "info", "x\nhoming: all is well"]);
    assert!(harmless(&output).contains("x\n  homing: all is well"));
}

#[test]
fn answers_of_an_external_policy() {
    let dir = tempfile::tempdir().unwrap();
    let trace = trace(dir.path());
    let answer = dir.path().join("answer");
    fs::write(&answer, format!("{HOSTILE}\n")).unwrap();
    let script = dir.path().join("policy.sh");
    fs::write(&script, format!("read -r question; exec cat {}\n", answer.display())).unwrap();
    let policy = format!("external:sh {}", script.display());
    let output = homing(&["simulate", trace.to_str().unwrap(), "-m", "ace", "--policy", &policy]);
    assert_eq!(output.status.code(), Some(1));
    let said = harmless(&output);
    assert!(said.contains(&format!("answered `{SHOWN}")), "{said}");
}
