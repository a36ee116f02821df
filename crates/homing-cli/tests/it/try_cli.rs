//! `homing try` from outside, on whatever machine this is: programs whose difference is known.

use crate::support::executable;
use serde_json::Value;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

fn homing(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_homing")).args(args).output().expect("homing runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What it prints as JSON, and its exit status.
fn json(args: &[&str]) -> (Value, Option<i32>) {
    let output = homing(&[&["try", "--json"], args].concat());
    let value = serde_json::from_slice(&output.stdout);
    (value.unwrap_or_else(|_| panic!("JSON: {}", text(&output.stderr))), output.status.code())
}

fn way<'a>(answer: &'a Value, name: &str) -> &'a Value {
    let ways = answer["ways"].as_array().expect("ways");
    ways.iter().find(|way| way["name"] == name).unwrap_or_else(|| panic!("{name} in {answer}"))
}

fn verdict<'a>(answer: &'a Value, name: &str) -> &'a str {
    way(answer, name)["difference"]["verdict"].as_str().expect("a verdict")
}

/// A script that prints a time with a spread of some percent, from run to run another one.
fn program(folder: &Path, name: &str, base: u32) -> String {
    let (script, count) = (folder.join(name), folder.join(format!("{name}.count")));
    let words = format!(
        "#!/bin/sh\nn=$(cat {0} 2>/dev/null || echo 0)\necho $((n + 1)) > {0}\n\
         echo \"step $n\"\necho \"time: $(({base} * (1000 + (n * n * 7919 + n * 104729) % 61))) us\"\n",
        count.display()
    );
    executable::write(&script, &words);
    script.to_str().unwrap().to_owned()
}

#[test]
fn a_fifth_more_of_wall_time_is_clear() {
    let ways = ["--ways", "none", "--budget", "4m", "--confidence", "95"];
    let tail = ["--against", "sleep 0.24", "--", "sleep", "0.2"];
    let (answer, status) = json(&[&ways[..], &tail].concat());
    assert_eq!((verdict(&answer, "against"), status), ("slower", Some(0)), "{answer}");
    let ratio = way(&answer, "against")["difference"]["ratio"].as_f64().unwrap();
    assert!((1.1..1.3).contains(&ratio), "{ratio}");
    assert!(way(&answer, "as it is")["times"]["cold"].as_f64().unwrap() >= 0.2);
}

#[test]
fn what_the_program_prints_is_compared_and_no_difference_is_never_a_clear_one() {
    let folder = tempfile::tempdir().unwrap();
    let one = program(folder.path(), "one", 1);
    let pattern = "time: ([0-9]+) us";
    // The same program on both sides; its numbers do not depend on this machine.
    let (answer, status) =
        json(&["--ways=again", "--against", &one, "--rounds", "40", "--time-from", pattern, &one]);
    assert_eq!(status, Some(0));
    for name in ["again", "against"] {
        assert!(["not-clear", "same"].contains(&verdict(&answer, name)), "{answer}");
        let interval = &way(&answer, name)["difference"]["interval"];
        assert!(interval["low"].as_f64().unwrap() <= 1.0 && interval["high"].as_f64().unwrap() >= 1.0);
    }
    assert_eq!((&answer["faster"], &answer["unit"]), (&serde_json::json!([]), &"printed-time".into()));
    let printed = homing(&["try", "--ways=again", "--rounds", "3", "--time-from", pattern, &one]);
    assert!(text(&printed.stderr).contains("3 rounds can tell nothing"), "{}", text(&printed.stderr));
    let printed = text(&printed.stdout);
    assert!(
        printed.contains("Not clear: whether again differs from as it is. At least 10 rounds"),
        "{printed}"
    );
}

#[test]
fn a_fifth_less_is_found_as_time_and_as_rate() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (program(folder.path(), "one", 100), program(folder.path(), "other", 80));
    let pattern = "time: ([0-9]+) us";
    let arguments = ["--ways=again", "--against", &other, "--rounds", "30"];
    let (answer, _) = json(&[&arguments[..], &["--time-from", pattern, "--", &one]].concat());
    assert_eq!(verdict(&answer, "against"), "faster", "{answer}");
    assert_eq!(answer["faster"], serde_json::json!(["against"]));
    let interval = &way(&answer, "against")["difference"]["interval"];
    assert!(
        interval["low"].as_f64().unwrap() <= 0.8 && interval["high"].as_f64().unwrap() >= 0.8,
        "{interval}"
    );
    let output = homing(&[&["try"], &arguments[..], &["--rate-from", pattern, "--", &one]].concat());
    let printed = text(&output.stdout);
    assert!(printed.contains("Slower: against does") && printed.contains("less than as it is"), "{printed}");
    let output = homing(&[&["try"], &arguments[..], &["--time-from", pattern, "--", &one]].concat());
    let printed = text(&output.stdout);
    let first = printed.lines().find(|line| line.starts_with("Faster: against takes")).unwrap_or_default();
    assert!(first.contains("less time than as it is (-") && first.contains("99 % sure)"), "{printed}");
    assert!(printed.contains(&format!("Run it so: {other}")), "{printed}");
}

#[test]
fn failures_are_counted_and_shown() {
    let dies = ["--against", "ls /nonexistent/file", "--rounds", "5", "--ways=again", "--", "true"];
    let (answer, status) = json(&dies);
    assert_eq!(status, Some(5), "{answer}");
    let against = way(&answer, "against");
    assert_eq!((&against["times"]["failed"], &against["given_up"]), (&3.into(), &true.into()));
    assert!(answer["answer"].as_str().unwrap().contains("whether again differs"), "{answer}");
    let said = against["last_failure"].as_str().unwrap();
    assert!(said.contains("exit status 2; it said") && said.contains("/nonexistent/file"), "{said}");
    let output = homing(&["try", "--ways=again", "--", "sh", "-c", "echo broken >&2; exit 7"]);
    let printed = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1));
    assert!(printed.contains("The program fails as it is") && printed.contains("broken"), "{printed}");
    let printed = homing(&["try", "--ways=again", "--rounds=2", "--time-from=never", "--", "true"]);
    assert!(text(&printed.stdout).contains("no line that it printed has a number"), "{printed:?}");
}

#[test]
fn a_signal_ends_it_with_what_was_measured() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_homing"));
    command.args(["try", "--ways=again", "--json", "--", "sh", "-c", "echo x; exec sleep 0.1"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    // Not SIGINT: where tests run in the background of a shell that is ignored.
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    let mut printed = String::new();
    child.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(5));
    let answer: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(answer["ended"], "interrupted");
    assert!(way(&answer, "as it is")["times"]["cold"].as_f64().unwrap() >= 0.1, "{answer}");
}

#[test]
fn wrong_words_are_refused_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("ran");
    let mark = mark.to_str().unwrap();
    for (arguments, says) in [
        (&["--time-from", "("][..], "regex"),
        (&["--confidence", "100"], "from 50 to 99.9"),
        (&["--margin", "x"], "number of percent"),
        (&["--rounds", "0"], "1..=900"),
        (&["--ways", "nonsense"], "interleave"),
        (&["--budget", "5"], "a duration"),
        (&["--against", "/nonexistent/program"], "no such program"),
        (&["--time-from", "a", "--rate-from", "b"], "cannot be used with"),
    ] {
        let output = homing(&[&["try"], arguments, &["--", "touch", mark]].concat());
        let said = text(&output.stderr);
        assert!(said.contains(says), "{arguments:?}: {said}");
        assert!(matches!(output.status.code(), Some(2 | 127)), "{arguments:?}: {:?}", output.status);
        assert!(!Path::new(mark).exists(), "{arguments:?}");
    }
    let nothing = homing(&["try", "--ways", "none", "--", "touch", mark]);
    assert_eq!(nothing.status.code(), Some(3));
    assert!(text(&nothing.stderr).contains("nothing to compare") && !Path::new(mark).exists());
    assert_eq!(homing(&["try"]).status.code(), Some(2));
    assert_eq!(homing(&["try", "--", "/nonexistent/program"]).status.code(), Some(127));
}

#[test]
fn the_summary_is_written_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let summary = folder.path().join("summary.json");
    let path = summary.to_str().unwrap();
    let run = ["--ways=again", "--rounds=1", "--", "true"];
    let output = homing(&[&["try", "--summary", path], &run[..]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let answer: Value = serde_json::from_str(&std::fs::read_to_string(&summary).unwrap()).unwrap();
    assert_eq!(
        (&answer["ended"], &answer["rounds"], &answer["command"]),
        (&"rounds".into(), &1.into(), &"true".into())
    );
    assert!(answer["schema"].is_u64());
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_homing"));
    let status =
        command.args([&["try", "--json"], &run[..]].concat()).stdout(full).stderr(Stdio::null()).status();
    assert_eq!(status.unwrap().code(), Some(1));
    let absent = folder.path().join("absent/summary.json");
    let output = homing(&[&["try", "--summary", absent.to_str().unwrap()], &run[..]].concat());
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("absent"), "{}", text(&output.stderr));
}
