//! What meets a new user: programs without `--`, mistyped names, completion in a real shell, units, one node.

use crate::support::{homing, succeeds};
use std::path::Path;
use std::process::{Command, Output};

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn what_follows_the_program_is_its_own() {
    let words = ["-q", "--json", "--help", "-o", "FILE", "--", "--version"];
    let run = ["run", "--source", "none", "--quiet", "/bin/echo"];
    let output = succeeds(1, &[&run[..], &words].concat());
    assert_eq!(stdout(&output).trim(), words.join(" "));
    let separated = succeeds(1, &[&run[..4], &["--", "/bin/echo"], &words].concat());
    assert_eq!(stdout(&separated), stdout(&output));
}

#[test]
fn an_unknown_option_before_the_program_is_no_program() {
    for command in [&["run"][..], &["record"], &["lab", "run"]] {
        let output = homing(1, &[command, &["--no-such-option", "/bin/echo"]].concat());
        assert_eq!(output.status.code(), Some(2), "{command:?}");
        assert!(stderr(&output).contains("unexpected argument '--no-such-option'"), "{}", stderr(&output));
    }
}

#[test]
fn mistyped_names_are_answered_with_the_one_that_was_meant() {
    for (words, meant) in [
        (&["compare", "T", "--machine", "two-soket"][..], "did you mean `two-socket`?"),
        (&["why", "T", "--machine", "four-sockets"], "did you mean `four-socket`?"),
        (&["machines", "buttrfly"], "did you mean `butterfly`?"),
        (&["study", "T", "-o", "D", "-m", "ace,buterfly"], "did you mean `butterfly`?"),
        (&["compare", "T", "-m", "ace", "--policies", "ace,hmoing"], "did you mean `homing`?"),
        (&["simulate", "T", "-m", "ace", "--policy", "first-toch"], "did you mean `first-touch`?"),
        (&["policies", "competetive"], "did you mean `competitive`?"),
        (&["compare", "T", "-m", "ace", "--monitor", "cache-mises:period=4"], "did you mean `cache-misses`?"),
        (&["lab", "run", "--topology", "hypercub", "true"], "did you mean `hypercube`?"),
        (&["record", "--recorder", "valgrnd", "true"], "a similar value exists: 'valgrind'"),
        (&["run", "--policy", "work-functio", "true"], "a similar value exists: 'work-function'"),
    ] {
        let output = homing(1, words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(stderr(&output).contains(meant), "{words:?}: {}", stderr(&output));
    }
    let strange = homing(1, &["machines", "none"]);
    assert!(stderr(&strange).contains("no machine `none`: expected a TOML file"), "{}", stderr(&strange));
}

/// What bash offers for the last of these words.
fn completed(script: &Path, words: &[&str]) -> String {
    const ASK: &str = "source \"$1\"; shift; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); \
                       _homing homing \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD-1]}\"; \
                       echo \"${COMPREPLY[*]}\"";
    let mut bash = Command::new("bash");
    bash.args(["-c", ASK, "bash"]).arg(script).arg("homing").args(words);
    stdout(&bash.output().expect("bash runs")).trim().to_owned()
}

#[test]
fn a_shell_completes_names_and_leaves_traces_to_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("homing.bash");
    std::fs::write(&script, succeeds(1, &["completions", "bash"]).stdout).unwrap();
    for (words, offered) in [
        (&["compare", "T", "--machine", "two"][..], "two-socket two-socket-cxl"),
        (&["why", "T", "--machine", "four"], "four-socket"),
        (&["machines", "butter"], "butterfly"),
        (&["compare", "T", "--policies", "work"], "work-function"),
        (&["simulate", "T", "--policy", "first"], "first-touch"),
        (&["policies", "compet"], "competitive"),
        (&["run", "--policy", "work"], "work-function"),
        (&["lab", "run", "--topology", "hyper"], "hypercube"),
        // Nothing of ours: bash goes on with the names of files.
        (&["why", "some"], ""),
        (&["compare", "some"], ""),
    ] {
        assert_eq!(completed(&script, words), offered, "{words:?}");
    }
    let script = std::fs::read_to_string(&script).unwrap();
    assert!(
        script.contains("complete -F _homing -o nosort -o bashdefault -o default homing"),
        "files come last"
    );
    let zsh = stdout(&succeeds(1, &["completions", "zsh"]));
    for argument in ["::words -- A trace, made by", "*::traces -- The traces"] {
        let lines: Vec<&str> = zsh.lines().filter(|line| line.contains(argument)).collect();
        assert!(
            !lines.is_empty() && lines.iter().all(|line| line.contains(":_files")),
            "{argument}: {lines:?}"
        );
    }
}

#[test]
fn machines_says_what_its_letters_are_and_lists_fields_with_units() {
    let list = stdout(&succeeds(1, &["machines"]));
    assert!(list.contains("r: cost of a remote reference, R: cost of moving a page"), "{list}");
    assert!(list.contains("all in local word references"), "{list}");
    let fields = stdout(&succeeds(1, &["machines", "--fields"]));
    let row = |name: &str| {
        let found = fields.lines().find(|line| line.split_whitespace().next() == Some(name));
        found.unwrap_or_else(|| panic!("no {name}: {fields}")).to_owned()
    };
    assert!(row("reference.remote").contains("local references  r: "), "{fields}");
    assert!(row("latency.remote").contains(" ns "), "{fields}");
    assert!(row("page_size").contains(" bytes "), "{fields}");
    let json: serde_json::Value =
        serde_json::from_slice(&succeeds(1, &["machines", "--fields", "--json"]).stdout).unwrap();
    assert_eq!(json["fields"][0]["path"], "name");
    assert!(stdout(&succeeds(1, &["compare", "--help"])).contains("homing machines --fields"));
}

#[test]
fn a_machine_of_one_node_is_told_so() {
    let nodes = std::fs::read_dir("/sys/devices/system/node").map_or(0, |entries| {
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.filter(|name| name.strip_prefix("node").is_some_and(|id| id.parse::<u32>().is_ok())).count()
    });
    let output = succeeds(1, &["run", "--source", "none", "/bin/echo", "a", "b"]);
    let said = "this machine has one memory node: nothing can move here; try `homing lab run --topology 2x2 -- homing \
                run /bin/echo a b`";
    assert_eq!(stderr(&output).contains(said), nodes <= 1, "{nodes} nodes: {}", stderr(&output));
    assert_eq!(stdout(&output), "a b\n");
    let quiet = succeeds(1, &["run", "--source", "none", "--quiet", "/bin/echo"]);
    assert_eq!(stderr(&quiet), "");
    let own = std::process::id().to_string();
    let top = stdout(&succeeds(1, &["top", "--once", "--interval", "10ms", "--pid", &own]));
    assert_eq!(top.contains("this machine has one memory node"), nodes <= 1, "{top}");
}

#[test]
fn the_demo_explains_a_trace_that_can_be_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (page, kept) = (folder.path().join("page.html"), folder.path().join("kept"));
    let words = ["demo", "--html", page.to_str().unwrap(), "--keep", kept.to_str().unwrap()];
    let text = stdout(&succeeds(1, &words));
    assert!(text.contains("One thread filled the memory that `new_grid` allocates (heat.c:18,"), "{text}");
    assert!(text.ends_with("Next, with your own program: homing why -- ./app\n"), "{text}");
    assert!(std::fs::read_to_string(page).unwrap().contains("<html"));
    let (trace, machine) = (kept.join("heat.trace"), kept.join("small.toml"));
    let again = succeeds(1, &["why", trace.to_str().unwrap(), "--machine", machine.to_str().unwrap()]);
    assert!(text.contains(stdout(&again).trim_end()), "what it says that it runs gives the same: {text}");
    assert!(
        !text.contains("note: ") && text.contains("(3 notes on how this was modelled: --verbose)"),
        "{text}"
    );
    let words = ["why", trace.to_str().unwrap(), "--machine", machine.to_str().unwrap(), "--verbose"];
    assert_eq!(stdout(&succeeds(1, &words)).matches("note: ").count(), 3);
    let refused = homing(1, &["demo", "--keep", kept.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(1), "{}", stderr(&refused));
    assert!(
        stderr(&refused).contains("expected a directory that does not exist yet"),
        "{}",
        stderr(&refused)
    );
}
