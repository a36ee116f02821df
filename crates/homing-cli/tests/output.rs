//! Where output cannot go: a closed pipe, a full disk, a file of another kind.

use std::fs::File;
use std::process::{Command, Output, Stdio};

fn homing(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_homing"));
    command.args(arguments).stderr(Stdio::piped());
    command
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Commands that print in several ways.
const PRINTING: [&[&str]; 7] = [
    &["machines"],
    &["machines", "ace"],
    &["policies", "homing"],
    &["monitors"],
    &["machines", "--json"],
    &["man", "trace", "info"],
    &["completions", "bash"],
];

#[test]
fn a_closed_pipe_ends_a_command_quietly() {
    for arguments in PRINTING {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = homing(arguments).stdout(writer).spawn().unwrap().wait_with_output().unwrap();
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""), "{arguments:?}");
    }
}

#[test]
fn a_full_disk_is_an_error() {
    for arguments in PRINTING {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = homing(arguments).stdout(full).spawn().unwrap().wait_with_output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.starts_with("homing: cannot write to standard output: No space left"), "{said}");
    }
}

#[test]
fn only_traces_are_overwritten_by_traces_and_no_trace_by_its_export() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (csv, trace) = (path("in.csv"), path("out.trace"));
    std::fs::write(&csv, "0,0x1000,8,r\n1,0x1000,8,w\n").unwrap();
    let refused = |arguments: &[&str], said: &str| {
        let output = homing(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(said), "{arguments:?}: {}", stderr(&output));
    };
    refused(&["trace", "import", &csv, "-o", &csv], "not a trace");
    for _ in 0..2 {
        assert!(homing(&["trace", "import", &csv, "-o", &trace]).output().unwrap().status.success());
    }
    refused(&["trace", "export", &trace, "-o", &trace], "the trace itself");
    for option in ["--actions", "--placement-out"] {
        let simulate = ["simulate", &trace, "--machine", "ace", "--policy", "delay", option, &trace];
        refused(&simulate, "is a trace: choose another name");
    }
    refused(&["compare", &trace, "--machine", "ace", "--csv", &trace], "is a trace: choose another name");
    refused(&["trace", "import", &trace, "-o", &path("again.trace")], "a trace already");
    std::fs::write(path("packed.gz"), b"\x1f\x8b\x08\x00").unwrap();
    refused(&["trace", "import", &path("packed.gz"), "-o", &path("again.trace")], "zcat");
    assert!(
        std::fs::read(&csv).unwrap().starts_with(b"0,0x1000")
            && !directory.path().join("again.trace").exists()
    );
}

#[test]
fn each_table_has_its_manifest_and_wrong_arguments_their_code() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (csv, trace, events) = (path("in.csv"), path("in.trace"), path("events.csv"));
    std::fs::write(&csv, "0,0x1000,8,r\n1,0x1000,8,w\n").unwrap();
    std::fs::write(&events, "").unwrap();
    assert!(homing(&["trace", "import", &csv, "-o", &trace]).output().unwrap().status.success());
    let simulate = ["simulate", &trace, "--machine", "two-socket", "--policy", "homing"];
    let (actions, intervals) = (path("actions.csv"), path("intervals.csv"));
    let monitored = ["--monitor", "perfect", "--actions", &actions, "--intervals", &intervals];
    let output = homing(&[&simulate[..], &monitored].concat()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    for table in [actions, intervals] {
        let manifest = std::fs::read_to_string(format!("{table}.manifest.json")).unwrap();
        assert!(manifest.contains("\"monitor\""), "{manifest}");
    }
    for (arguments, said) in [
        ([&simulate[..], &["--events", &events]].concat(), "no events in it"),
        ([&simulate[..], &["--threads-on", "!0-63"]].concat(), "--threads-on"),
        (vec!["man", "nosuch"], "no subcommand `nosuch`"),
    ] {
        let output = homing(&arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(said), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn nobody_to_tell_changes_no_exit_code() {
    for (arguments, code) in
        [(&["machines", "nosuch"][..], 2), (&["trace", "info", "nosuch"], 1), (&["machines"], 0)]
    {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let status = homing(arguments).stdout(Stdio::null()).stderr(full).status().unwrap();
        assert_eq!(status.code(), Some(code), "{arguments:?}");
    }
}
