//! `run`, `attach`, `doctor` and `replay` from outside, on whatever machine this is: with one node nothing can move,
//! but everything else must work.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

fn homing(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_homing")).args(args).output().expect("homing runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The first page-fault source that works here; nothing works where perf_event_open is forbidden.
fn source() -> &'static str {
    let output = homing(&["doctor", "--json"]);
    let doctor: Value = serde_json::from_slice(&output.stdout).expect("JSON from doctor");
    let works = |name: &str| {
        let checks = doctor["checks"].as_array().expect("checks");
        checks.iter().any(|check| check["what"] == name && check["works"] == true)
    };
    if works("page-faults") {
        "page-faults"
    } else {
        "none"
    }
}

#[test]
fn run_passes_the_status_through_and_sums_up() {
    let source = source();
    let directory = tempfile::tempdir().unwrap();
    let summary = directory.path().join("summary.json");
    let summary_text = summary.to_str().unwrap();
    let script = "dd if=/dev/zero of=/dev/null bs=1M count=20 2>/dev/null; exit 7";
    let output = homing(&["run", "--source", source, "--summary", summary_text, "--", "sh", "-c", script]);
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("pages moved"), "{}", text(&output.stderr));
    let summary: Value = serde_json::from_str(&std::fs::read_to_string(summary).unwrap()).unwrap();
    // Page faults are sightings without a count.
    let policy = if source == "none" { "homing" } else { "work-function" };
    assert_eq!((&summary["source"], &summary["policy"]), (&Value::from(source), &Value::from(policy)));
    assert_eq!(summary["denied"], 0);
    let killed = homing(&["run", "--source", "none", "--quiet", "--", "sh", "-c", "kill -9 $$"]);
    assert_eq!((killed.status.code(), text(&killed.stderr).as_str()), (Some(128 + 9), ""));
}

#[test]
fn a_teed_run_makes_the_same_decisions_again() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let log = log.to_str().unwrap();
    let command = ["sh", "-c", "for i in 1 2 3; do sort /proc/self/maps >/dev/null; done"];
    let mut args = vec!["run", "--source", source(), "--dry-run", "--interval", "5ms", "--tee", log, "--"];
    args.extend(command);
    assert!(homing(&args).status.success());
    let output = homing(&["replay", "--check", "--json", log]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let checked: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&checked["actions"], &checked["first_difference"]), (&checked["same"], &Value::Null));
    let many = |field: &str| checked[field].as_u64().unwrap() > 0;
    assert!(many("observations") && many("actions"), "{checked}");
    let log_text = std::fs::read_to_string(log).unwrap();
    let look = r#"{"is":"output","output":"look"}"#;
    assert!(log_text.contains(look), "{log_text}");
    std::fs::write(log, log_text.replacen(look, r#"{"is":"output","output":"scan"}"#, 1)).unwrap();
    let changed = homing(&["replay", "--check", log]);
    assert_eq!(changed.status.code(), Some(1), "{}", text(&changed.stdout));
    assert!(text(&changed.stdout).contains("first difference"), "{}", text(&changed.stdout));
}

#[test]
fn attach_watches_a_process_that_ends() {
    let mut child =
        Command::new("sh").args(["-c", "read line"]).stdin(Stdio::piped()).spawn().expect("sh runs");
    let pid = child.id().to_string();
    let mut attach = Command::new(env!("CARGO_BIN_EXE_homing"))
        .args(["attach", "--source", source(), "--json", "--pid", &pid])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(300));
    drop(child.stdin.take());
    child.wait().unwrap();
    assert!(attach.wait().unwrap().success(), "ends with the process");
    let limited =
        homing(&["attach", "--source", "none", "--for", "50ms", "--pid", &std::process::id().to_string()]);
    assert!(limited.status.success(), "{}", text(&limited.stderr));
}

#[test]
fn a_program_is_started_without_an_engine_that_could_bring_nothing_home() {
    let doctor: Value =
        serde_json::from_slice(&homing(&["doctor", "--json"]).stdout).expect("JSON from doctor");
    if doctor["source"] != "none" {
        println!("SKIPPED 1 check: a source works here that brings pages home");
        return;
    }
    let output = homing(&["run", "--json", "--", "sh", "-c", "exit 7"]);
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&summary["source"], &summary["samples"]), (&Value::from("none"), &Value::from(0)));
    let told = text(&output.stderr);
    assert!(told.contains("nothing can move here") || told.contains("homing run --source protect"), "{told}");
    let attached = homing(&["attach", "--for", "1m", "--pid", &std::process::id().to_string()]);
    assert_eq!(attached.status.code(), Some(3), "{}", text(&attached.stderr));
    assert!(text(&attached.stderr).contains("the engine does not run"), "{}", text(&attached.stderr));
}

/// CPU time of a process in clock ticks.
fn ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let after = stat.rsplit_once(')').unwrap().1;
    after.split_whitespace().skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum()
}

#[test]
fn a_session_that_sees_nothing_says_so_first_and_ends_with_5() {
    if source() == "none" {
        println!("SKIPPED 1 check: this needs page faults");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    // It works, and touches no page that it has not got.
    let mut child = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
    let mut attach = Command::new(env!("CARGO_BIN_EXE_homing"))
        .args(["attach", "--source", "page-faults", "--journal", log.to_str().unwrap()])
        .args(["--pid", &child.id().to_string()])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while !directory.path().join("log.part").exists() && attach.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(20));
    }
    // Process scans are two seconds apart at most, and see that it has run.
    let begin = ticks(child.id());
    while ticks(child.id()) < begin + 400 && attach.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(Command::new("kill").args(["-TERM", &attach.id().to_string()]).status().unwrap().success());
    let output = attach.wait_with_output().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{told}");
    let mut summary = told.lines().skip_while(|line| line.contains("nothing can move here"));
    assert!(summary.next().unwrap().contains("too little was seen to decide anything"), "{told}");
    assert!(told.lines().last().unwrap().contains("nothing was moved"), "{told}");
}

#[test]
fn what_cannot_be_done_has_its_exit_code() {
    let usage = [
        &["run", "--policy", "magic", "--", "true"][..],
        &["run", "--policy", "best-static", "--", "true"],
        &["run", "--source", "magic", "--", "true"],
        &["run", "--interval", "0ms", "--", "true"],
        &["attach"],
    ];
    for args in usage {
        let output = homing(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", text(&output.stderr));
    }
    assert_eq!(homing(&["attach", "--pid", "2147483647"]).status.code(), Some(1));
    // One that has ended is still there until it is waited for, and has no memory, as kernel threads have none.
    let mut ended = Command::new("true").spawn().unwrap();
    let (pid, status) = (ended.id().to_string(), format!("/proc/{}/stat", ended.id()));
    while !std::fs::read_to_string(&status).unwrap().contains(") Z ") {
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = homing(&["attach", "--pid", &pid]);
    ended.wait().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("has no memory of its own: it is a kernel thread, or it has ended"), "{said}");
    assert_eq!(homing(&["run", "--", "/absent/program"]).status.code(), Some(127), "as in a shell");
    // Process 1 is another user's for everybody but root, who may trace it.
    let root = Path::new("/proc/1/environ").exists() && std::fs::read("/proc/1/environ").is_ok();
    if !root {
        assert_eq!(homing(&["attach", "--pid", "1"]).status.code(), Some(4));
    }
}

#[test]
fn configuration_files_refuse_unknown_fields() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("homing.toml");
    std::fs::write(&file, "source = \"none\"\npolicy = \"work-function\"\n").unwrap();
    let path = file.to_str().unwrap();
    let output = homing(&["run", "--config", path, "--json", "--", "true"]);
    let summary: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(
        (&summary["source"], &summary["policy"]),
        (&Value::from("none"), &Value::from("work-function"))
    );
    std::fs::write(&file, "polcy = \"homing\"\n").unwrap();
    let output = homing(&["run", "--config", path, "--", "true"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("polcy"), "{}", text(&output.stderr));
}

#[test]
fn the_program_survives_failing_system_calls_and_the_engine_says_so() {
    for failing in [
        "query_pages=EIO/2",
        "query_pages=ESRCH/1",
        "perf_open=EMFILE/2",
        "perf_map=EPERM/2",
        "proc=ESRCH/7",
        "proc=EIO/3",
        "move_pages=ENOMEM/1",
        "ptrace=EPERM/1",
        "tunable=EACCES/1",
        "affinity=EPERM/1",
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_homing"))
            .args([
                "run",
                "--source",
                source(),
                "--interval",
                "5ms",
                "--bind",
                "fill",
                "--",
                "sh",
                "-c",
                "sort /proc/self/maps | wc -l; exit 3",
            ])
            .env("HOMING_FAIL", failing)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(3), "{failing}: {}", text(&output.stderr));
        let started = text(&output.stdout).trim().parse::<u32>().is_ok();
        assert!(started || text(&output.stderr).contains("does not work here"), "{failing}");
        assert!(!text(&output.stderr).contains("panicked"), "{failing}: {}", text(&output.stderr));
    }
}

#[test]
fn a_refused_event_for_threads_that_move_is_told() {
    let output = Command::new(env!("CARGO_BIN_EXE_homing"))
        .args(["run", "--source", "none", "--", "sleep", "0.1"])
        .env("HOMING_FAIL", "perf_open=EACCES/1")
        .output()
        .unwrap();
    let told = text(&output.stderr);
    assert!(told.contains("noticed late") && told.contains("Permission denied"), "{told}");
}

#[test]
fn a_journal_replaces_no_trace() {
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("app.trace");
    std::fs::write(&trace, b"HOMINGTR and all references").unwrap();
    for option in ["--journal", "--tee", "--summary"] {
        let name = trace.to_str().unwrap();
        let output = homing(&["run", "--source", "none", "--quiet", option, name, "--", "true"]);
        assert_eq!(output.status.code(), Some(2), "{option}: {}", text(&output.stderr));
        assert_eq!(std::fs::read(&trace).unwrap(), b"HOMINGTR and all references", "{option}");
    }
}

#[test]
fn no_time_is_refused() {
    for arguments in [&["bench", "--time", "0s"][..], &["run", "--time-budget", "0s", "--", "true"]] {
        let output = homing(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output.stdout));
    }
}

#[test]
fn a_replay_writes_nothing_over_the_log_that_it_replays() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let log = path("log");
    let words = ["run", "--source", "none", "--quiet", "--journal", &log, "--", "true"];
    assert!(homing(&words).status.success());
    let before = std::fs::read(&log).unwrap();
    std::os::unix::fs::symlink(&log, path("symbolic")).unwrap();
    std::fs::hard_link(&log, path("hard")).unwrap();
    for option in ["--journal", "--tee", "--summary"] {
        for name in [log.clone(), path("symbolic"), path("hard"), path("./log")] {
            let ran = path("ran");
            let output = homing(&["replay", &log, "--quiet", option, &name, "--", "touch", &ran]);
            assert_eq!(output.status.code(), Some(2), "{option} {name}: {}", text(&output.stderr));
            assert!(text(&output.stderr).contains("of <LOG>, which is read"), "{}", text(&output.stderr));
            assert_eq!(std::fs::read(&log).unwrap(), before, "{option} {name}");
            assert!(!Path::new(&ran).exists(), "nothing was begun");
        }
    }
    let other = path("other");
    let checked = homing(&["replay", &log, "--check", "--journal", &other]);
    assert_eq!(checked.status.code(), Some(2), "a check writes no journal: {}", text(&checked.stderr));
    assert!(homing(&["replay", &log, "--quiet", "--journal", &other, "--", "true"]).status.success());
}

#[test]
fn two_sessions_write_no_log_at_once_and_a_session_that_cannot_begin_leaves_the_old_one() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let name = log.to_str().unwrap();
    let words = |option| ["run", "--source", "none", "--quiet", option, name, "--"];
    let program = env!("CARGO_BIN_EXE_homing");
    let inner = format!("{program} {} true; echo $?; cat {name} >&2", words("--tee").join(" "));
    let output = homing(&[&words("--journal")[..], &["sh", "-c", &inner]].concat());
    assert_eq!((output.status.code(), &*text(&output.stdout)), (Some(0), "1\n"), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("another run is writing"), "{}", text(&output.stderr));
    let before = std::fs::read(&log).unwrap();
    assert!(before.starts_with(b"{\"homing_journal\":2"));
    let refused = homing(&["run", "--source", "nosuch", "--journal", name, "--", "true"]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
    assert_eq!(std::fs::read(&log).unwrap(), before);
    assert_eq!(directory.path().read_dir().unwrap().count(), 1);
    // A session that is killed leaves its log to the next one.
    let killed = homing(&[&words("--journal")[..], &["sh", "-c", "kill -9 $PPID"]].concat());
    assert_eq!(killed.status.code(), None);
    let left = std::fs::read(directory.path().join("log.part")).unwrap();
    assert!(left.starts_with(b"{\"homing_journal\":2") && std::fs::read(&log).unwrap() == left);
    let next = homing(&[&words("--tee")[..], &["true"]].concat());
    assert!(text(&next.stderr).contains("log.part: `homing replay` reads it"), "{}", text(&next.stderr));
    assert_eq!(std::fs::read(directory.path().join("log.part")).unwrap(), left);
    assert!(std::fs::read(&log).unwrap() != left);
}
