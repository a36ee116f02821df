//! Where output cannot go: a closed pipe, a full disk, a file of another kind.

use std::fs::File;
use std::io::Read;
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
const PRINTING: [&[&str]; 10] = [
    &["--help"],
    &["--version"],
    &["trace", "recover", "--help"],
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
fn a_closed_standard_output_is_an_error() {
    for arguments in PRINTING {
        let closed = homing(arguments);
        let mut shell = Command::new("sh");
        shell.args(["-c", "exec \"$@\" >&-", "sh"]).arg(closed.get_program()).args(closed.get_args());
        let output = shell.output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.starts_with("homing: cannot write to standard output: Bad file descriptor"), "{said}");
    }
    // What is thrown away has been written.
    let null = File::options().read(true).write(true).open("/dev/null").unwrap();
    assert!(homing(&["machines"]).stdout(null).status().unwrap().success());
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
    refused(&["trace", "import", &csv, "-o", &csv], "of <INPUT>, which is read");
    refused(&["trace", "import", &csv, "-o", env!("CARGO_BIN_EXE_homing")], "only a trace may be replaced");
    for _ in 0..2 {
        assert!(homing(&["trace", "import", &csv, "-o", &trace]).output().unwrap().status.success());
    }
    let other = path("other.trace");
    std::fs::copy(&trace, &other).unwrap();
    let before = std::fs::read(&trace).unwrap();
    for command in ["export", "merge", "perturb", "recover"] {
        refused(&["trace", command, &trace, "-o", &trace], "of <TRACE>, which is read: choose another name");
    }
    for (name, said) in [(&trace, "of <TRACE>, which is read"), (&other, "exists and is a trace: only")] {
        for option in ["--actions", "--placement-out"] {
            refused(&["simulate", &trace, "--machine", "ace", "--policy", "delay", option, name], said);
        }
        refused(&["optimal", &trace, "--machine", "ace", "--placement", name], said);
    }
    refused(&["compare", &trace, "--machine", "ace", "--csv", &trace], "of <TRACES>, which is read");
    assert!(std::fs::read(&trace).unwrap() == before && std::fs::read(&other).unwrap() == before);
    assert!(std::fs::read(&csv).unwrap().starts_with(b"0,0x1000"));
}

#[test]
fn a_trace_that_is_cut_while_it_is_read_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (csv, trace) = (path("in.csv"), path("a.trace"));
    let row = |i: u64| format!("{},{:#x},8,r\n", i % 3, 0x10000 + i * i % 1_000_003 * 8);
    std::fs::write(&csv, (0..600_000).map(row).collect::<String>()).unwrap();
    assert!(homing(&["trace", "import", &csv, "-o", &trace]).output().unwrap().status.success());
    // It waits for its reader after the first 64 KiB of some 10 MB, and has read no more than it prints and some blocks
    // ahead.
    let mut export = homing(&["trace", "export", &trace]);
    let mut export = export.env("RAYON_NUM_THREADS", "1").stdout(Stdio::piped()).spawn().unwrap();
    let mut out = export.stdout.take().unwrap();
    out.read_exact(&mut [0; 1000]).unwrap();
    File::options().write(true).open(&trace).unwrap().set_len(100).unwrap();
    out.read_to_end(&mut Vec::new()).unwrap();
    let output = export.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{:?}: {}", output.status, stderr(&output));
    assert!(stderr(&output).contains("a.trace was changed while it was read"), "{}", stderr(&output));
}

#[test]
fn what_a_killed_command_left_in_the_temporary_directory_goes_with_the_next() {
    let directory = tempfile::tempdir().unwrap();
    let left = directory.path().join("homing-why-left");
    std::fs::create_dir(&left).unwrap();
    std::fs::write(left.join("why.homing.part"), "a trace of some size").unwrap();
    let output = homing(&["why", "--", "/no/such/program"]).env("TMPDIR", directory.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(127), "{}", stderr(&output));
    assert_eq!(directory.path().read_dir().unwrap().count(), 0);
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
    let replayed = homing(&["replay", &actions, "--", "true"]).output().unwrap();
    assert_eq!(replayed.status.code(), Some(2));
    assert!(stderr(&replayed).contains("holds the actions of a simulation"), "{}", stderr(&replayed));
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

#[test]
fn page_histories_that_cannot_be_spilled_name_the_directory() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (csv, trace) = (path("in.csv"), path("in.trace"));
    let line = |i: u64| format!("{},{},8,w\n", i % 2, 0x10000 + i / 2 % 8 * 4096);
    std::fs::write(&csv, (0..20_000).map(line).collect::<String>()).unwrap();
    assert!(homing(&["trace", "import", &csv, "-o", &trace]).output().unwrap().status.success());
    let run = |memory: &str, temporary: &str, limit: &str| {
        let script = format!("trap '' XFSZ; ulimit -f {limit}; exec \"$@\"");
        Command::new("bash")
            .args([
                "-c",
                &script,
                "bash",
                env!("CARGO_BIN_EXE_homing"),
                "optimal",
                &trace,
                "--machine",
                "ace",
            ])
            .args(["--threads-on", "one-per-node", "--memory", memory])
            .env("TMPDIR", temporary)
            .output()
            .unwrap()
    };
    // What fits into memory needs no directory.
    assert_eq!(run("1G", &path("missing"), "unlimited").status.code(), Some(0));
    for (temporary, limit, reason) in
        [(path("missing"), "unlimited", "No such file"), (path(""), "1", "File too large")]
    {
        let output = run("1K", &temporary, limit);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        for part in [&*format!("in {temporary}:"), reason, "TMPDIR", "--memory"] {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert_eq!(said.matches(reason).count(), 1, "{said}");
    }
}

#[test]
fn two_outputs_have_two_names() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (csv, trace) = (path("in.csv"), path("in.trace"));
    std::fs::write(&csv, "0,0x1000,8,r\n1,0x1000,8,w\n").unwrap();
    assert!(homing(&["trace", "import", &csv, "-o", &trace]).output().unwrap().status.success());
    let (one, same, existing) = (path("one"), path("./one"), path("existing"));
    std::fs::write(&existing, "as it was").unwrap();
    std::os::unix::fs::symlink(&existing, path("link")).unwrap();
    let link = path("link");
    let simulate = ["simulate", &trace, "--machine", "two-socket", "--policy", "homing"];
    for options in [["--observe", "--placement-out"], ["--observe", "--trace"]] {
        let output = homing(&["lab", "run", "--pages", options[0], &one, options[1], &one, "--", "true"])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{options:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(&format!("{} and {} both name", options[0], options[1])));
    }
    for (command, first, second) in [
        (&simulate[..], "--actions", "--placement-out"),
        (&["compare", &trace, "--machine", "ace"], "--csv", "--html"),
        (&["run", "--source", "none", "--quiet"], "--journal", "--summary"),
    ] {
        let run = |a: &str, b: &str| {
            let program: &[&str] = if command[0] == "run" { &["--", "true"] } else { &[] };
            homing(&[command, &[first, a, second, b], program].concat()).output().unwrap()
        };
        for (a, b) in [(&one, &one), (&one, &same), (&existing, &link)] {
            let output = run(a, b);
            assert_eq!(output.status.code(), Some(2), "{first} {a} {second} {b}: {}", stderr(&output));
            assert!(
                stderr(&output).contains(&format!("{first} and {second} both name")),
                "{}",
                stderr(&output)
            );
        }
        assert_eq!(run("/dev/null", "/dev/null").status.code(), Some(0), "{command:?}");
    }
    assert!(!std::path::Path::new(&one).exists());
    assert_eq!(std::fs::read(&existing).unwrap(), b"as it was");
}

#[test]
fn no_output_replaces_an_input() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (csv, trace, machine, events) =
        (path("in.csv"), path("in.trace"), path("my.toml"), path("events.csv"));
    std::fs::write(&csv, "0,0x1000,8,r\n1,0x1000,8,w\n").unwrap();
    std::fs::write(&events, "time,thread,cpu\n1,0,1\n").unwrap();
    assert!(homing(&["trace", "import", &csv, "-o", &trace]).output().unwrap().status.success());
    std::fs::write(&machine, homing(&["machines", "ace"]).output().unwrap().stdout).unwrap();
    std::os::unix::fs::symlink(&machine, path("link.toml")).unwrap();
    let (link, placement) = (path("link.toml"), format!("file:{csv}"));
    let simulate = ["simulate", &trace, "--policy", "homing"];
    for arguments in [
        vec!["optimal", &trace, "--machine", &machine, "--placement", &machine],
        vec!["optimal", &trace, "--machine", &machine, "--placement", &link],
        [&simulate[..], &["-m", "ace", "--events", &events, "--actions", &events]].concat(),
        [&simulate[..], &["-m", "ace", "--placement", &placement, "--actions", &csv]].concat(),
        vec!["run", "--config", &csv, "--journal", &csv, "--", "true"],
    ] {
        let before = [&csv, &machine, &events].map(|path| std::fs::read(path).unwrap());
        let output = homing(&arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("which is read: choose another name"), "{}", stderr(&output));
        assert_eq!([&csv, &machine, &events].map(|path| std::fs::read(path).unwrap()), before);
    }
}

#[test]
fn tables_go_to_a_file_or_to_standard_output_in_both_commands_and_a_device_gets_no_manifest() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (csv, trace) = (path("in.csv"), path("in.trace"));
    std::fs::write(&csv, "0,0x1000,8,r\n1,0x1000,8,w\n").unwrap();
    assert!(homing(&["trace", "import", &csv, "-o", &trace]).output().unwrap().status.success());
    let succeeds = |arguments: &[&str]| {
        let output = homing(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    for (command, first) in [("optimal", "policy,machine,"), ("compare", "trace,policy,")] {
        let table = path(command);
        // The flag before the trace, as in older scripts; `=` for a file.
        let printed = match command {
            "optimal" => succeeds(&["optimal", "--csv", &trace, "-m", "ace"]),
            _ => succeeds(&["compare", &trace, "-m", "ace", "--csv"]),
        };
        assert!(printed.starts_with(first), "{printed}");
        let shown = succeeds(&[command, &trace, "-m", "ace", &format!("--csv={table}")]);
        assert!(!shown.starts_with(first), "{shown}");
        let lines = |text: &str| text.lines().count();
        let written = std::fs::read_to_string(&table).unwrap();
        assert!(written.starts_with(first) && lines(&written) == lines(&printed), "{written}");
        assert!(std::fs::read_to_string(format!("{table}.manifest.json")).unwrap().contains("\"ace\""));
        let both = homing(&[command, &trace, "-m", "ace", "--json", "--csv"]).output().unwrap();
        assert_eq!(both.status.code(), Some(2), "{}", stderr(&both));
        let redirected = File::create(path("redirected")).unwrap();
        let mut both = homing(&[command, &trace, "-m", "ace", "--csv=/dev/stdout"]);
        assert!(both.stdout(redirected).status().unwrap().success());
        let both = std::fs::read_to_string(path("redirected")).unwrap();
        assert!(both.contains(first) && lines(&both) > lines(&written), "{both}");
        let pipe = path(&format!("{command}.pipe"));
        std::os::unix::fs::symlink("/dev/null", &pipe).unwrap();
        succeeds(&[command, &trace, "-m", "ace", &format!("--csv={pipe}")]);
        assert!(!std::path::Path::new(&format!("{pipe}.manifest.json")).exists());
    }
    let page =
        homing(&["compare", &trace, "-m", "ace", "--html", "-"]).current_dir(&directory).output().unwrap();
    assert_eq!(page.status.code(), Some(2), "{}", stderr(&page));
    assert!(!directory.path().join("-").exists());
}

#[test]
fn what_is_no_text_or_no_name_is_wrong_usage() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (csv, trace, binary) = (path("in.csv"), path("in.trace"), path("binary"));
    std::fs::write(&csv, "0,0x1000,8,r\n1,0x1000,8,w\n").unwrap();
    std::fs::write(&binary, b"\xff\xfe").unwrap();
    assert!(homing(&["trace", "import", &csv, "-o", &trace]).output().unwrap().status.success());
    let placement = format!("file:{binary}");
    let simulate = ["simulate", &trace, "--machine", "two-socket", "--policy", "homing"];
    for (arguments, said) in [
        (vec!["machines", &binary], "expected a machine file"),
        ([&simulate[..], &["--events", &binary]].concat(), "expected a file of scheduling events"),
        ([&simulate[..], &["--placement", &placement]].concat(), "expected a placement file"),
        (
            [&simulate[..], &["--placement", "file:"]].concat(),
            "placement `file:`: expected the name of a file",
        ),
        (vec!["study", "--plan", &binary, "--out", &path("out")], "expected a plan"),
        (vec!["run", "--config", &binary, "--", "true"], "expected a configuration"),
        (vec!["run", "--policy", "file", "--", "true"], "policy file needs a placement file"),
        (vec!["run", "--regions", ",", "--", "true"], "--regions"),
    ] {
        let output = homing(&arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(said), "{arguments:?}: {}", stderr(&output));
    }
    let output = homing(&["run", "--", ""]).output().unwrap();
    assert_eq!(output.status.code(), Some(127), "{}", stderr(&output));
    assert!(stderr(&output).contains("the command is empty"), "{}", stderr(&output));
}
