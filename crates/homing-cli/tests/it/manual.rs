//! Manual pages and shell completions: every subcommand that `--help` lists has its page and is completed.

use std::process::Command;

fn homing(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_homing")).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The subcommands that the help text lists, group by group.
fn groups() -> Vec<(String, Vec<String>)> {
    let help = homing(&["--help"]);
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for line in help.lines().skip_while(|line| !line.starts_with("Usage:")).skip(1) {
        match (line.strip_suffix(':'), line.strip_prefix("  ")) {
            (Some("Options"), _) => break,
            (Some(heading), _) => groups.push((heading.to_owned(), Vec::new())),
            (None, Some(listed)) => {
                let name = listed.split(' ').next().unwrap_or_default().to_owned();
                groups.last_mut().expect("a heading comes first").1.push(name);
            }
            (None, None) => {}
        }
    }
    groups
}

/// All of them.
fn subcommands() -> Vec<String> {
    groups().into_iter().flat_map(|(_, names)| names).collect()
}

#[test]
fn help_lists_each_subcommand_once_in_its_group() {
    let groups = groups();
    let of = |heading: &str| {
        let found = groups.iter().find(|(group, _)| group == heading);
        found.map(|(_, names)| names.join(" ")).unwrap_or_else(|| panic!("no {heading}: {groups:?}"))
    };
    assert_eq!(of("Find out why"), "demo record why diff try");
    assert_eq!(of("Compare"), "compare optimal simulate study sched reproduce");
    assert_eq!(of("Live"), "run attach top daemon evacuate restore rset replay bench doctor");
    assert_eq!(of("Lab"), "lab refine");
    assert_eq!(of("Look into"), "trace list machines policies monitors");
    // Each has a line of its own, and each that can be called is listed: clap's own list is in the script for fish.
    let script = homing(&["completions", "fish"]);
    let called = script.lines().filter(|line| line.contains("__fish_homing_needs_command\" -f -a"));
    let mut called: Vec<String> =
        called.filter_map(|line| line.split('"').nth(3)).map(str::to_owned).collect();
    let mut listed = subcommands();
    called.retain(|name| name != "help");
    called.sort();
    listed.sort();
    assert_eq!(called, listed);
    let help = homing(&["--help"]);
    for about in ["Run a program and record every data reference", "Exit codes: 0 done", "-V, --version"] {
        assert!(help.contains(about), "{help}");
    }
}

#[test]
fn every_subcommand_has_a_manual_page() {
    let directory = tempfile::tempdir().unwrap();
    homing(&["man", "--output", directory.path().to_str().unwrap()]);
    let names = subcommands();
    assert!(names.contains(&"record".to_owned()), "{names:?}");
    for name in names {
        let page = std::fs::read_to_string(directory.path().join(format!("homing-{name}.1"))).unwrap();
        assert!(
            page.contains(".SH SYNOPSIS") && page.contains(&format!("HOMING-{}", name.to_uppercase())),
            "{name}"
        );
        assert!(homing(&["man", &name]).contains(".SH SYNOPSIS"));
    }
    assert!(
        directory.path().join("homing.1").exists() && directory.path().join("homing-trace-merge.1").exists()
    );
}

#[test]
fn shells_complete_every_subcommand() {
    for shell in ["bash", "zsh", "fish"] {
        let script = homing(&["completions", shell]);
        for name in subcommands() {
            assert!(script.contains(&name), "{shell} does not complete {name}");
        }
    }
}
