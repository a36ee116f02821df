//! `homing rset` on a machine model, and beside hwloc's own calculator; `exec` on whatever machine this is. What it
//! does to memory and threads is checked in the lab (tests/rset.sh).

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// With a home that has no file of sets.
fn homing(arguments: &[&str]) -> Output {
    let mut homing = Command::new(env!("CARGO_BIN_EXE_homing"));
    homing.env("HOME", "/nonexistent").env_remove("XDG_CONFIG_HOME");
    homing.arg("rset").args(arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat()
}

fn json(arguments: &[&str]) -> Value {
    let output = homing(&[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{}", said(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

const MODEL: [&str; 2] = ["--machine", "four-socket"];

fn file(text: &str) -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sets.toml");
    std::fs::write(&path, text).unwrap();
    (directory, path.to_str().unwrap().to_owned())
}

#[test]
fn a_set_of_a_model_is_shown() {
    let value = json(&[&["show", "node:1 & !cpu:17-31"], &MODEL[..]].concat());
    assert_eq!((&value["cpus"], &value["memories"]), (&serde_json::json!([16]), &serde_json::json!([1])));
    assert_eq!((&value["inside"], &value["bytes"]), (&serde_json::json!(["all"]), &Value::Null));
    assert_eq!(value["per_node"][0]["distances"][1], 10);
    let text = said(&homing(&[&["show", "node:1 | cpu:0"], &MODEL[..]].concat()));
    assert!(
        text.contains("node:1 | cpu:0") && text.contains("(17 CPUs)") && text.contains("CPUs alone"),
        "{text}"
    );
}

#[test]
fn named_sets_are_a_tree() {
    let (_directory, path) = file(
        "[set.left]\nexpr = \"node:0-1\"\nmemory = \"striped\"\nstride = \"64K\"\n\
         [set.front]\nexpr = \"left & node:0\"\n[set.gone]\nexpr = \"node:9\"\n",
    );
    let output = homing(&[&["list", "--file", &path], &MODEL[..]].concat());
    let text = said(&output);
    let at = |words: &str| text.find(words).unwrap_or_else(|| panic!("{words}: {text}"));
    assert!(at(" all ") < at("   left ") && at("   left ") < at("     front "), "{text}");
    assert!(text.contains("note: set `gone`") && text.contains("sets.toml:7): there is no node 9"), "{text}");
    let value = json(&[&["list", "--file", &path], &MODEL[..]].concat());
    let sets = value["sets"].as_array().unwrap();
    let front = sets.iter().find(|set| set["name"] == "front").unwrap();
    assert_eq!((&front["parent"], &front["cpus"][15]), (&Value::from("left"), &Value::from(15)));
    let left = sets.iter().find(|set| set["name"] == "left").unwrap();
    assert_eq!(
        (&left["policies"]["memory"], &left["policies"]["stride"]),
        (&"striped".into(), &65536.into())
    );
    let text = said(&homing(&[&["show", "left", "--file", &path], &MODEL[..]].concat()));
    assert!(text.contains("memory striped, a stride of 64.00 KiB"), "{text}");
}

#[test]
fn what_is_wrong_is_pointed_at() {
    let (_directory, path) = file("[set.left]\nexpr = \"node:0-1\"\n\n[set.b]\nexpr = \"node:\"\n");
    let (_other, right) = file("[set.left]\nexpr = \"node:0-1\"\n");
    for (arguments, words) in [
        (&["show", "node:0 & cpu:x"][..], "  node:0 & cpu:x\n               ^"),
        (&["show", "lfet", "--file", &right], "did you mean `left`?"),
        (&["show", "left", "--file", &path], "sets.toml:5: set `b`: a number is missing"),
        (&["show", "left", "--file", "/nonexistent/x"], "/nonexistent/x"),
        (&["show", "left"], "there is no file of sets"),
        (&["exec", "all - all", "true"], "the set is empty"),
        (&["exec", "all", "--stride", "64K", "true"], "expected memory to be striped"),
        (&["exec", "all", "--huge", "64M", "true"], "of transparent huge pages this kernel has"),
        (&["exec", "all", "--memory", "local", "--least", "1K", "true"], "expected at least a page"),
        (&["exec", "all", "--memory", "near", "true"], "possible values: float, local, remote, striped"),
    ] {
        let output = homing(arguments);
        assert!(said(&output).contains(words), "{arguments:?}: {}", said(&output));
        assert!(matches!(output.status.code(), Some(1..=3)), "{arguments:?}");
    }
}

/// Whether the kernel says which nodes there are.
fn has_nodes() -> bool {
    let has = Path::new("/sys/devices/system/node/online").exists();
    if !has {
        eprintln!("SKIPPED a test of `rset exec`: this kernel has no memory nodes in /sys");
    }
    has
}

#[test]
fn a_program_keeps_its_status_and_its_name() {
    if !has_nodes() {
        return;
    }
    // CPUs alone: containers may forbid memory policies.
    let output = homing(&["exec", "cpu:+0", "sh", "-c", "grep Cpus_allowed_list /proc/self/status; exit 7"]);
    let allowed = said(&output);
    assert_eq!(output.status.code(), Some(7), "{allowed}");
    assert!(allowed.trim().split('\t').nth(1).is_some_and(|cpu| cpu.parse::<u16>().is_ok()), "{allowed}");
    assert_eq!(homing(&["exec", "cpu:+0", "/nonexistent/program"]).status.code(), Some(127));
}

#[test]
fn a_machine_that_hwloc_wrote_down_is_read() {
    let (directory, path) = file("");
    let path = path.replace("sets.toml", "machine.xml");
    let mut lstopo = Command::new("lstopo-no-graphics");
    let Ok(output) = lstopo.args(["-i", "pack:4 [numa] pu:16", "--of", "xml", &path]).output() else {
        eprintln!("SKIPPED the test of hwloc's files: no lstopo-no-graphics here (package hwloc-nox)");
        return;
    };
    assert!(output.status.success(), "{}", said(&output));
    let shown = |place: [&str; 2]| {
        json(&["show", "node:1 | cpu:63 | within:19@2", place[0], place[1]])["cpus"].clone()
    };
    assert_eq!(shown(["--hwloc", &path]), json(&["show", "node:1-2 | cpu:63", MODEL[0], MODEL[1]])["cpus"]);
    std::fs::write(&path, "<topology/>").unwrap();
    let text = said(&homing(&["show", "all", "--hwloc", &path]));
    assert!(text.contains("machine.xml: expected the topology of hwloc 2"), "{text}");
    drop(directory);
}

/// Runs of hwloc-calc that are compared.
const RUNS: usize = 40;

/// Ranges of nodes and CPUs, joined by operators that hwloc's calculator has, as both read them.
fn expression(random: &mut Xoshiro256PlusPlus) -> (String, Vec<String>) {
    let (mut ours, mut theirs) = (String::new(), Vec::new());
    for step in 0..random.gen_range(1..6) {
        let (kind, object, most) = if random.gen() { ("node", "numa", 4) } else { ("cpu", "pu", 64) };
        let low = random.gen_range(0..most);
        let range = format!("{low}-{}", random.gen_range(low..most));
        let (sign, prefix) = match random.gen_range(0..3) {
            _ if step == 0 => ("", ""),
            0 => ("|", ""),
            1 => ("-", "~"),
            _ => ("&", "x"),
        };
        ours = if step == 0 { format!("{kind}:{range}") } else { format!("({ours}) {sign} {kind}:{range}") };
        theirs.push(format!("{prefix}{object}:{range}"));
    }
    (ours, theirs)
}

#[test]
fn cpus_are_those_of_hwlocs_calculator() {
    let calculate = |words: &[String]| {
        let topology = ["-i", "pack:4 [numa] pu:16", "-I", "pu"];
        Command::new("hwloc-calc").args(topology).args(words).output()
    };
    if calculate(&["pu:0".to_owned()]).is_err() {
        eprintln!("SKIPPED the test against hwloc: no hwloc-calc here (package hwloc-nox)");
        return;
    }
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    for _ in 0..RUNS {
        let (ours, theirs) = expression(&mut random);
        let output = calculate(&theirs).unwrap();
        assert!(output.status.success(), "{theirs:?}: {}", said(&output));
        let text = String::from_utf8_lossy(&output.stdout);
        let wanted: Vec<u64> = text.trim().split(',').filter_map(|cpu| cpu.parse().ok()).collect();
        let value = json(&[&["show", &ours], &MODEL[..]].concat());
        let found: Vec<u64> = value["cpus"].as_array().unwrap().iter().filter_map(Value::as_u64).collect();
        assert_eq!(found, wanted, "{ours} {theirs:?}");
    }
}
