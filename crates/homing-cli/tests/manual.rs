//! Manual pages and shell completions: every subcommand that `--help` lists has its page and is completed.

use std::process::Command;

fn homing(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_homing")).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The subcommands that the help text lists.
fn subcommands() -> Vec<String> {
    let help = homing(&["--help"]);
    let listed = help.lines().skip_while(|line| !line.starts_with("Commands:")).skip(1);
    let names = listed.take_while(|line| !line.is_empty()).filter_map(|line| line.strip_prefix("  "));
    names
        .filter_map(|line| line.split(' ').next())
        .filter(|n| !n.is_empty() && *n != "help")
        .map(String::from)
        .collect()
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
