//! `homing doctor` from outside. What each finding is made of is tested on trees of files in homing-live.

use serde_json::Value;
use std::process::{Command, Output};

fn doctor(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_homing")).arg("doctor").args(args).output().expect("homing runs")
}

fn findings(output: &Output) -> Vec<Value> {
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    json["findings"].as_array().expect("findings").clone()
}

#[test]
fn findings_of_machine_and_process_say_what_to_do() {
    let child = &mut Command::new("sleep").arg("60").spawn().unwrap();
    let pid = child.id().to_string();
    for args in [&["--json"][..], &["--json", "--pid", &pid]] {
        let output = doctor(args);
        assert!(matches!(output.status.code(), Some(0 | 3)), "{output:?}");
        for finding in findings(&output) {
            for field in ["name", "what", "evidence", "advice", "sure"] {
                assert!(finding[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {finding}");
            }
        }
    }
    let output = doctor(&["--pid", &pid]);
    assert_eq!(output.status.code(), Some(0));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("to do:") || said.contains("nothing is wrong"), "{said}");
    child.kill().unwrap();
    child.wait().unwrap();
    let output = doctor(&["--pid", &pid]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("process {pid}")), "{said}");
}

/// Nothing in the bundle says whose machine it is.
#[test]
fn a_bundle_to_send_has_no_names_and_no_paths() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("bundle.json");
    let name = path.to_str().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_homing"))
        .args(["doctor", "--contribute", name])
        .env("USER", "somebody")
        .env("HOME", "/home/somebody")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    for part in ["nodes: ", "PMUs: ", "samples: ", "settings of the kernel: "] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let text = std::fs::read_to_string(&path).unwrap();
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["schema"], 1);
    assert!(value["nodes"].as_array().is_some_and(|nodes| !nodes.is_empty()), "{text}");
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '-' && c != '.');
    let secret = [host.trim(), "somebody"];
    assert!(words.into_iter().all(|word| !secret.contains(&word)), "{text}");
    assert!(!text.contains("/home") && !text.contains(name), "{text}");
    assert!(
        !text.as_bytes().windows(2).any(|two| two[0] == b'/' && two[1].is_ascii_alphanumeric()),
        "{text}"
    );
    // What is there already stays.
    let again = doctor(&["--contribute", name]);
    assert_eq!(again.status.code(), Some(2));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn wrong_words_are_refused() {
    for args in
        [&["--pid", "0"][..], &["--pid", "x"], &["--pid", "1", "--restore"], &["--contribute", "x", "--json"]]
    {
        assert_eq!(doctor(args).status.code(), Some(2), "{args:?}");
    }
}
