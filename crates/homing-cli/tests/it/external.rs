//! External policies: the Python example takes the actions of the built-in policy; what goes wrong ends with a message.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn homing(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_homing")).args(args).output().expect("homing runs")
}

/// Two threads that take turns on sixteen pages, some of them evenly.
fn trace(dir: &Path) -> PathBuf {
    let mut csv = String::from("thread,addr,size,kind\n");
    for step in 0..20_000u64 {
        let page = step % 16;
        let thread = (step / (300 * (page % 5 + 1))) % 2;
        let kind = if step % 3 == 0 { 'w' } else { 'r' };
        csv += &format!("{thread},{},8,{kind}\n", 0x10000 + page * 4096 + step % 512 * 8);
    }
    let (input, output) = (dir.join("turns.csv"), dir.join("turns.trace"));
    fs::write(&input, csv).unwrap();
    let done = homing(&["trace", "import", input.to_str().unwrap(), "-o", output.to_str().unwrap()]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    output
}

fn python() -> bool {
    let there = Command::new("python3").arg("-c").arg("").status().is_ok_and(|status| status.success());
    if !there {
        eprintln!("SKIPPED 1 test: there is no python3");
    }
    there
}

fn simulate(trace: &Path, policy: &str, more: &[&str]) -> Output {
    let trace = trace.to_str().unwrap();
    let common = ["simulate", trace, "-m", "two-socket", "--threads-on", "one-per-node", "--policy", policy];
    homing(&[&common, more].concat())
}

#[test]
fn the_python_example_takes_the_same_actions() {
    if !python() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let trace = trace(dir.path());
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/interval_majority.py");
    let external = format!("external:python3 {}", example.display());
    for level in ["perfect", "interval:500", "every:4+intervals:30"] {
        let actions = |policy: &str, name: &str| {
            let file = dir.path().join(name);
            let output = simulate(&trace, policy, &["--info", level, "--actions", file.to_str().unwrap()]);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let mut reader = csv::Reader::from_path(file).unwrap();
            let rows: Vec<(u64, u32, String, u16)> = reader
                .records()
                .map(|row| {
                    let row = row.unwrap();
                    (row[0].parse().unwrap(), row[1].parse().unwrap(), row[3].into(), row[4].parse().unwrap())
                })
                .collect();
            rows
        };
        let ours = actions("interval-majority", "ours.csv");
        assert!(ours.len() > 10, "{level}: {}", ours.len());
        assert_eq!(actions(&external, "theirs.csv"), ours, "{level}");
    }
}

#[test]
fn what_goes_wrong_is_said_and_nothing_waits_for_ever() {
    if !python() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let trace = trace(dir.path());
    let fails = |name: &str, program: &str| {
        let file = dir.path().join(format!("{name}.py"));
        fs::write(&file, program).unwrap();
        let begin = Instant::now();
        let policy = format!("external:python3 {}", file.display());
        let output = simulate(&trace, &policy, &["--external-timeout", "3"]);
        assert_eq!(output.status.code(), Some(1), "{name}");
        assert!(begin.elapsed() < Duration::from_secs(60), "{name}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let answer = |then: &str| {
        format!("import sys\nsys.stdin.readline()\nprint('{{}}', flush=True)\nsys.stdin.readline()\n{then}\n")
    };
    assert!(fails("dies", "import sys\nsys.exit(7)\n").contains("ended before it answered (exit status: 7)"));
    assert!(fails("dies-later", &answer("")).contains("ended before it answered"));
    assert!(fails("babbles", "print('hello', flush=True)\nwhile input(): pass\n").contains("answered `hello"));
    let stranger = answer(r#"print('{"actions":[{"page":999,"move":0}]}', flush=True)"#);
    assert!(fails("stranger", &stranger).contains("page 999, which was not reported to it"));
    let both = answer(r#"print('{"actions":[{"page":0,"move":0,"replicate":1}]}', flush=True)"#);
    assert!(fails("both", &both).contains("expected one of move, replicate, collapse"));
    let endless = answer("while True: sys.stdout.write('x' * 65536)");
    let said = fails("endless", &endless);
    // 16 pages of 128 bytes each.
    assert!(said.contains("longer than 67584 bytes, the most that is read"), "{said}");
    assert!(!said.contains("was killed"), "{said}");
    let ahead = "import sys\nprint('{}', flush=True)\nprint('{}', flush=True)\nfor line in sys.stdin: pass\n";
    let said = fails("ahead", ahead);
    assert!(said.contains("expected one line for each question, after it was read"), "{said}");
    assert!(fails("hangs", "import time\ntime.sleep(600)\n").contains("no answer within 3 s"));
    let output = simulate(&trace, "external:/no/such/program", &[]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot start `/no/such/program`"));
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_policy_without_a_command_or_where_there_is_none_is_wrong_usage() {
    let dir = tempfile::tempdir().unwrap();
    let trace = trace(dir.path());
    let fails = |output: Output, said: &str| {
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(said), "{error}");
    };
    for policy in ["external:", "external:  "] {
        fails(simulate(&trace, policy, &[]), "expected external:COMMAND");
    }
    fails(simulate(&trace, "external:cat", &["--monitor", "perfect"]), "`homing simulate` without --monitor");
    let trace = trace.to_str().unwrap();
    fails(
        homing(&["compare", trace, "-m", "ace", "--policies", "external:cat"]),
        "`homing simulate` without",
    );
}

/// A policy that leaves its process id in a file, does nothing for N questions, and then sleeps whatever it is
/// told.
fn sleeper(dir: &Path, questions: u32) -> (String, PathBuf) {
    let (script, id) = (dir.join("sleeper.sh"), dir.join("id"));
    let text = format!(
        "echo $$ >{id}.new; mv {id}.new {id}; asked=0\n\
         while [ $asked -lt {questions} ] && read -r question; do echo '{{}}'; asked=$((asked + 1)); done\n\
         exec sleep 600\n",
        id = id.display()
    );
    fs::write(&script, text).unwrap();
    (format!("external:sh {}", script.display()), id)
}

/// Whether a process runs: one that nobody has reaped yet does not.
fn runs(id: &str) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", id.trim())).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
}

/// Waits until something holds, for a minute at most.
fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_process_that_ignores_the_end_of_its_input_is_killed_and_that_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let trace = trace(dir.path());
    let (policy, id) = sleeper(dir.path(), u32::MAX >> 1);
    let output = simulate(&trace, &policy, &["--info", "intervals:10"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(
        said.contains("sleeper.sh`: did not end within 1 s of the end of its input; it was killed"),
        "{said}"
    );
    assert!(!runs(&fs::read_to_string(id).unwrap()));
}

#[test]
fn the_process_dies_with_homing() {
    let dir = tempfile::tempdir().unwrap();
    let trace = trace(dir.path());
    let (policy, id) = sleeper(dir.path(), 1);
    let mut homing = Command::new(env!("CARGO_BIN_EXE_homing"))
        .args(["simulate", trace.to_str().unwrap(), "-m", "two-socket", "--info", "intervals:10"])
        .args(["--policy", &policy, "--external-timeout", "600"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the policy begins", || id.exists());
    let id = fs::read_to_string(id).unwrap();
    assert!(runs(&id));
    homing.kill().unwrap();
    homing.wait().unwrap();
    wait_until("the policy ends", || !runs(&id));
}
