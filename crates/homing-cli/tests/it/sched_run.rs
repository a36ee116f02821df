//! `homing sched run` with jobs that die, hang, fork, and with a scheduler that is killed. What libhoming does inside
//! of jobs is in tests/sched.sh.

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Most that anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

fn homing(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_homing"));
    command.args(args).current_dir(folder).env("XDG_RUNTIME_DIR", folder).stdin(Stdio::null());
    command
}

/// A folder with a file of jobs: name, command for a shell, and more lines.
fn jobs(all: &[(&str, &str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let job = |(name, command, more): &(&str, &str, &str)| {
        format!("[[job]]\nname = {name:?}\ncommand = [\"sh\", \"-c\", {command:?}]\nrequest = 1\n{more}\n")
    };
    fs::write(folder.path().join("jobs.toml"), all.iter().map(job).collect::<String>()).unwrap();
    folder
}

fn run(folder: &TempDir, args: &[&str]) -> Output {
    let all = [&["sched", "run", "jobs.toml", "--pages", "off", "--json"][..], args].concat();
    homing(folder.path(), &all).output().unwrap()
}

fn json(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}

fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(begin.elapsed() < PATIENCE, "{what} did not come");
        sleep(Duration::from_millis(20));
    }
}

/// A machine of one node has one partition at most; jobs of others are refused.
#[test]
fn a_partition_of_this_machine_runs_its_jobs() {
    let folder = jobs(&[("a", "true", "partition = \"all\""), ("b", "sleep 0.3", "")]);
    let file = folder.path().join("jobs.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{text}[[partition]]\nname = \"all\"\nnodes = [0]\nshare = 1.0\n")).unwrap();
    let output = run(&folder, &["--manager", "batch"]);
    let json = json(&output);
    assert!(output.status.success(), "{json}");
    assert_eq!(
        (&json["partitions"][0]["jobs"], json["transfers"].as_array().map(Vec::len)),
        (&2.into(), Some(0))
    );
    assert!(json["jobs"][1]["bursts"].as_u64() > Some(0), "{json}");
    for (partition, manager, says) in [
        ("name = \"other\"\nnodes = [0]", "batch", "partition = \"all\": there are other"),
        ("name = \"all\"\nnodes = [999]", "batch", "node 999 is not there"),
        ("name = \"all\"\nnodes = [0]", "irix", "cannot have a partition"),
    ] {
        fs::write(&file, format!("{text}[[partition]]\n{partition}\n")).unwrap();
        let output = run(&folder, &["--manager", manager]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(says), "{said}");
    }
}

#[test]
fn wrong_files_and_options_are_refused_before_anything_runs() {
    let folder = jobs(&[("a", "true", ""), ("b", "touch ran", "limit = -1")]);
    let refused = |args: &[&str], says: &str| {
        let output = run(&folder, args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(says), "{said}");
    };
    refused(&[], "jobs.toml, line 6: job `b`: limit = -1");
    refused(&["--manager", "none"], "no manager `none`: there are");
    refused(&["--level", "0"], "--level");
    let text = "[[job]]\nname = \"a\"\ncommand = [\"./absent\"]\nrequest = 1\n";
    fs::write(folder.path().join("jobs.toml"), text).unwrap();
    refused(&[], "job `a`: ./absent: no such program");
    assert!(!folder.path().join("ran").exists());
}

#[test]
fn jobs_that_die_hang_or_fork_are_told_and_the_others_go_on() {
    let folder = jobs(&[
        ("dies", "kill -SEGV $$", ""),
        ("hangs", "sleep 1000", "limit = 0.2"),
        ("forks", "(sleep 0.6; touch late) & exit 3", ""),
        ("well", "test \"$WORD\" = said && echo written", "env = { WORD = \"said\" }\noutput = \"well.out\""),
    ]);
    let output = run(&folder, &["--manager", "batch", "--log", "log.jsonl", "--html", "page.html"]);
    assert_eq!(output.status.code(), Some(5), "not all ended well");
    let result = json(&output);
    let job = |name: &str| result["jobs"].as_array().unwrap().iter().find(|job| job["name"] == name).unwrap();
    assert_eq!(job("dies")["signal"], 11);
    assert_eq!((&job("hangs")["signal"], &job("hangs")["over_limit"]), (&15.into(), &true.into()));
    assert_eq!(job("forks")["status"], 3);
    assert!(folder.path().join("late").exists(), "a job ends with the last of its processes");
    assert!(job("forks")["turnaround_s"].as_f64().unwrap() >= 0.6);
    assert_eq!((&job("well")["status"], &job("well")["threads"]), (&0.into(), &"no regions".into()));
    assert_eq!(fs::read_to_string(folder.path().join("well.out")).unwrap(), "written\n");
    let log = fs::read_to_string(folder.path().join("log.jsonl")).unwrap();
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    assert_eq!(lines.filter(|line| !line["input"]["ended"].is_null()).count(), 4);
    assert!(fs::read_to_string(folder.path().join("page.html")).unwrap().contains("<svg"));
}

/// Starts a scheduler, and waits until the file `begun` is there.
/// What a job may do to the page that its scheduler writes.
#[test]
fn a_job_that_cuts_or_takes_away_its_page_harms_nobody() {
    let folder = jobs(&[
        ("cuts", "truncate -s 0 \"$HOMING_ALLOCATION\"; sleep 0.5", ""),
        ("removes", "rm \"$HOMING_ALLOCATION\"", ""),
        ("exchanges", "rm \"$HOMING_ALLOCATION\"; mkdir \"$HOMING_ALLOCATION\"", ""),
        ("links", "ln -sf /etc/passwd \"$HOMING_ALLOCATION\"", ""),
        ("well", "sleep 0.7", "arrival = 0.1"),
    ]);
    let output = run(&folder, &["--manager", "equipartition"]);
    let all = json(&output);
    assert_eq!(output.status.code(), Some(0), "{all}");
    assert!(all["jobs"].as_array().unwrap().iter().all(|job| job["status"] == 0), "{all}");
}

/// The number of the user `nobody`.
const NOBODY: u32 = 65534;

/// As a user without `XDG_RUNTIME_DIR`, where a killed scheduler left broken files.
#[test]
fn nobody_runs_jobs_below_the_temporary_directory_whatever_was_left_there() {
    let folder = jobs(&[("well", "true", "")]);
    let (homing, program) =
        (folder.path().join(format!("homing-{NOBODY}")), folder.path().join("homing-program"));
    fs::create_dir(&homing).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_homing"), &program).unwrap();
    fs::write(homing.join("jobs-1.state"), "cpus 0\npage jobs-1-0.page\n").unwrap();
    fs::write(homing.join("jobs-1-0.page"), "").unwrap();
    fs::write(homing.join("jobs-2.state"), "what?\n").unwrap();
    let own = |path: &Path| std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY));
    let files = fs::read_dir(&homing).unwrap().map(|entry| entry.unwrap().path());
    let all = files.chain([folder.path().to_owned(), homing.clone()]);
    if all.map(|path| own(&path)).any(|owned| owned.is_err()) {
        println!("SKIPPED 1 test: only root can be nobody");
        return;
    }
    let as_nobody = |words: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program).args(words);
        command.current_dir(folder.path()).env_remove("XDG_RUNTIME_DIR").env("TMPDIR", folder.path());
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (status, said) = as_nobody(&["sched", "run", "jobs.toml", "--pages", "off"]);
    assert!(status == Some(0) && said.contains("jobs-2.state.broken-1"), "{said}");
    let left: Vec<_> = fs::read_dir(&homing).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["jobs-2.state.broken-1"]);
    fs::write(homing.join("jobs-3.state"), "what?\n").unwrap();
    own(&homing.join("jobs-3.state")).unwrap();
    let (status, said) = as_nobody(&["doctor", "--restore"]);
    assert!(status == Some(5) && said.contains("not put back: "), "{said}");
    let (_, said) = as_nobody(&["doctor", "--restore"]);
    assert!(!said.contains("not put back: "), "{said}");
}

fn start(folder: &TempDir, args: &[&str]) -> Child {
    let all = [&["sched", "run", "jobs.toml", "--pages", "off", "--json"][..], args].concat();
    let child = homing(folder.path(), &all).stdout(Stdio::piped()).spawn().unwrap();
    until("the first job", || folder.path().join("begun").exists().then_some(()));
    child
}

fn signal(pid: u32, name: &str) {
    assert!(Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().unwrap().success());
}

#[test]
fn a_scheduler_that_is_asked_to_end_starts_no_more_jobs_and_asks_those_that_run() {
    let folder = jobs(&[
        ("runs", "touch begun; exec sleep 1000", ""),
        ("waits", "touch second", "arrival = 0.1"),
        ("comes", "touch third", "arrival = 900.0"),
    ]);
    let child = start(&folder, &["--manager", "equipartition", "--level", "1"]);
    signal(child.id(), "TERM");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(5));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let ends: Vec<&str> =
        result["jobs"].as_array().unwrap().iter().map(|job| job["end"].as_str().unwrap()).collect();
    assert_eq!(ends, ["signal 15", "not started", "not started"]);
    assert!(!folder.path().join("second").exists() && !folder.path().join("third").exists());
}

/// Two jobs under a manager by which one of them always stands still, on one CPU.
fn taking_turns() -> TempDir {
    // They end with the folder: a test that fails leaves nothing running.
    let job =
        |file: &str| format!("echo $$ > {file}.pid; touch begun; while touch {file}; do sleep 0.05; done");
    jobs(&[("a", &job("a"), ""), ("b", &job("b"), "")])
}

/// The CPUs that a process may use.
fn cpus(pid: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim().to_owned()
}

/// Starts a scheduler whose two jobs take turns on the same CPU; gives it with their processes.
fn scheduler_of_two() -> (TempDir, Child, [String; 2]) {
    let folder = taking_turns();
    let text = fs::read_to_string(folder.path().join("jobs.toml")).unwrap();
    // All CPUs for each: they cannot run at the same time.
    let all = std::thread::available_parallelism().unwrap().get();
    fs::write(folder.path().join("jobs.toml"), text.replace("request = 1", &format!("request = {all}")))
        .unwrap();
    let child = start(&folder, &["--manager", "gang"]);
    let pid = |name: &str| {
        let path = folder.path().join(format!("{name}.pid"));
        until("both jobs", || fs::read_to_string(&path).ok().filter(|text| text.ends_with('\n')))
    };
    let pids = [pid("a"), pid("b")].map(|pid| pid.trim().to_owned());
    (folder, child, pids)
}

/// Both jobs run at the same time, on all CPUs, and nothing of the scheduler is left. Ends them.
fn both_go_on(folder: &TempDir, pids: &[String; 2]) {
    for name in ["a", "b"] {
        fs::remove_file(folder.path().join(name)).unwrap_or_default();
    }
    until("both jobs going on", || {
        ["a", "b"].iter().all(|name| folder.path().join(name).exists()).then_some(())
    });
    let mine = cpus("self");
    for pid in pids {
        assert_eq!(cpus(pid), mine);
        signal(pid.parse().unwrap(), "KILL");
    }
}

#[test]
fn jobs_of_a_scheduler_that_is_killed_go_on_at_once() {
    let (folder, mut child, pids) = scheduler_of_two();
    child.kill().unwrap();
    child.wait().unwrap();
    both_go_on(&folder, &pids);
}

#[test]
fn jobs_of_a_scheduler_that_is_killed_with_its_guard_go_on_when_the_user_says_so() {
    let (folder, mut child, pids) = scheduler_of_two();
    let of_parent = format!("PPid:\t{}\n", child.id());
    let is_guard = |entry: &fs::DirEntry| {
        let read = |file: &str| fs::read_to_string(entry.path().join(file)).unwrap_or_default();
        read("status").contains(&of_parent) && read("cmdline").contains("guard\0")
    };
    let guard = fs::read_dir("/proc").unwrap().flatten().find(is_guard).unwrap().file_name();
    signal(guard.to_str().unwrap().parse().unwrap(), "KILL");
    child.kill().unwrap();
    child.wait().unwrap();
    // Its status says whether the live engine works here.
    let restored = homing(folder.path(), &["doctor", "--restore"]).output().unwrap();
    let said = String::from_utf8_lossy(&restored.stderr);
    assert!(said.contains("killed schedulers go on"), "{said}");
    both_go_on(&folder, &pids);
}
