//! `homing run --place`, `homing try --place` and `homing why --plan` on whatever machine this is: node 0 is there.
//! Programs ask the kernel which memory policy each of their blocks has. What nodes the pages are on is checked in the
//! lab (tests/place.sh).

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

const BLOCKS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/place/blocks.c");
const NEWS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/place/news.cpp");

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The directory with the library and the test programs, built once a test run.
fn built() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("place-tests");
        std::fs::create_dir_all(&directory).unwrap();
        let preload = concat!(env!("CARGO_MANIFEST_DIR"), "/../../preload");
        run(Command::new("make")
            .args(["-s", "-C", preload])
            .arg(format!("OUT={}/preload", directory.display())));
        for (compiler, source, name, options) in [
            // Functions with equal code would become one.
            ("gcc", BLOCKS, "pie", &["-O2", "-g", "-fno-ipa-icf", "-pie"][..]),
            ("gcc", BLOCKS, "no-pie", &["-O2", "-g", "-fno-ipa-icf", "-no-pie"]),
            ("gcc", BLOCKS, "stripped", &["-O1", "-fno-ipa-icf", "-rdynamic"]),
            ("gcc", BLOCKS, "static", &["-O1", "-g", "-static"]),
            ("g++", NEWS, "news", &["-O2", "-g"]),
        ] {
            run(Command::new(compiler).args(options).arg("-o").arg(directory.join(name)).arg(source));
        }
        std::fs::write(directory.join("data.bin"), vec![1; 1 << 20]).unwrap();
        directory
    })
}

fn homing(arguments: &[&str]) -> Output {
    let mut homing = Command::new(env!("CARGO_BIN_EXE_homing"));
    homing.current_dir(built()).env("HOMING_LIB", built());
    homing.args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The number of the line with a mark.
fn line(source: &str, mark: &str) -> usize {
    let text = std::fs::read_to_string(source).unwrap();
    1 + text.lines().position(|line| line.contains(&format!("/* {mark} */"))).unwrap()
}

/// Policies by what the program says, in its order; nothing where the kernel has no policies.
fn policies(places: &[String], command: &[&str]) -> Option<(Vec<(String, String)>, String)> {
    if !Path::new("/proc/self/numa_maps").exists() {
        eprintln!("SKIPPED a test of --place: this kernel has no memory policies");
        return None;
    }
    let options: Vec<&str> = places.iter().flat_map(|place| ["--place", place]).collect();
    let output = homing(&[&["run"], &options[..], &["--"], command].concat());
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    if said.contains("mbind failed, the last: Operation not permitted") {
        eprintln!("SKIPPED a test of --place: mbind is forbidden here");
        return None;
    }
    let pair = |line: &str| line.split_once(' ').map(|(what, policy)| (what.to_owned(), policy.to_owned()));
    Some((text(&output.stdout).lines().filter_map(pair).collect(), said))
}

fn expect(found: &[(String, String)], expected: &[(&str, &str)]) {
    let found: Vec<(&str, &str)> =
        found.iter().filter(|(what, _)| what != "reused").map(|(a, b)| (a.as_str(), b.as_str())).collect();
    assert_eq!(found, expected);
}

#[test]
fn blocks_of_a_line_alone_are_placed_until_they_are_freed() {
    let places = [format!("blocks.c:{}=interleave", line(BLOCKS, "grid"))];
    for program in ["./pie", "./no-pie"] {
        let Some((found, said)) = policies(&places, &[program]) else { return };
        // In the order in which the program shows them.
        expect(
            &found,
            &[
                ("table", "default"),
                ("beside", "default"),
                ("placed", "interleave:0"),
                ("other", "default"),
                ("placed", "interleave:0"),
                ("other", "default"),
                ("before", "interleave:0"),
                ("grown", "interleave:0"),
                ("alone", "default"),
                ("zeroed", "default"),
                ("aligned", "default"),
                ("mapped", "default"),
                ("outer", "default"),
                ("child", "interleave:0"),
                ("table", "default"),
            ],
        );
        assert!(found.contains(&("reused".into(), "yes".into())), "no address was used again: {found:?}");
        assert!(said.contains(&format!("{}: 5 blocks, ", places[0].replace("=interleave", ""))), "{said}");
    }
}

#[test]
fn each_way_to_get_memory_has_a_name() {
    let at = |mark: &str| format!("blocks.c:{}", line(BLOCKS, mark));
    let places = [
        format!("zeroed ({})=node:0", at("zeroed")),
        "aligned=blocks".into(),
        format!("{}=weighted:0=3", at("mapped")),
        format!("inner ({}) < outer ({})=interleave:0", at("inner"), at("outer")),
        format!("grown ({})=interleave", at("grown")),
        "table=interleave:0".into(),
        "data.bin=node:0".into(),
    ];
    for program in ["./pie", "./no-pie"] {
        let Some((found, said)) = policies(&places, &[program, "data.bin"]) else { return };
        expect(
            &found,
            &[
                ("table", "interleave:0"),
                ("beside", "default"),
                ("placed", "default"),
                ("other", "default"),
                ("placed", "default"),
                ("other", "default"),
                ("before", "default"),
                ("grown", "interleave:0"),
                ("alone", "interleave:0"),
                ("zeroed", "prefer:0"),
                ("aligned", "prefer:0"),
                ("mapped", "prefer:0"),
                ("outer", "interleave:0"),
                ("file", "prefer:0"),
                ("child", "default"),
                ("table", "interleave:0"),
            ],
        );
        for place in &places[..6] {
            let name = place.split("=").next().unwrap();
            assert!(said
                .lines()
                .any(|line| line.contains(&format!("{name}: ")) && line.contains("MiB placed")));
        }
    }
}

#[test]
fn functions_are_found_without_debug_information_and_lines_are_not() {
    let Some((found, _)) = policies(&["grid=interleave".into()], &["./stripped"]) else { return };
    assert_eq!(found[2], ("placed".into(), "interleave:0".into()));
    let output = homing(&["run", "--place", "blocks.c:7=interleave", "--", "./stripped"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no code at blocks.c:7") && output.stdout.is_empty());
}

#[test]
fn containers_of_cpp_are_called_after_the_line_that_makes_them() {
    let at = |mark: &str| format!("news.cpp:{}", line(NEWS, mark));
    let places = [
        format!("main ({})=interleave", at("named")),
        format!("{}=node:0", at("made")),
        "app::table=interleave".into(),
    ];
    let Some((found, _)) = policies(&places, &["./news"]) else { return };
    let expected =
        [("named", "interleave:0"), ("other", "default"), ("made", "prefer:0"), ("table", "interleave:0")];
    expect(&found, &expected);
}

#[test]
fn a_program_below_a_shell_is_placed_and_counted_though_it_is_killed() {
    let place = format!("blocks.c:{}=interleave", line(BLOCKS, "grid"));
    let command = ["--", "sh", "-c", "./pie data.bin killed"];
    let output = homing(
        &[&["run", "--json", "--place", &place, "--place", "absent_name=blocks"], &command[..]].concat(),
    );
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(137), "{said}");
    assert!(said.contains("absent_name: nothing of this name was allocated"), "{said}");
    let printed = text(&output.stdout);
    let summary: Value = serde_json::from_str(&printed[printed.find('{').unwrap()..]).unwrap();
    assert_eq!(summary["names"][0]["blocks"], 5, "{summary}");
    assert_eq!(summary["programs"], 2, "the shell and the program: {summary}");
}

#[test]
fn what_cannot_work_is_refused_before_the_start() {
    let plan = built().join("wrong.toml");
    std::fs::write(&plan, "[[place]]\nname = \"table\"\nplacement = \"spread\"\n").unwrap();
    for (arguments, status, says) in [
        (&["--place", "table=spread", "--", "./pie"][..], 2, "expected NAME=PLACEMENT"),
        (&["--place", "table=node:77", "--", "./pie"], 2, "there is no node 77 with memory"),
        (&["--place", "table=interleave:0-77", "--", "./pie"], 2, "expected nodes of 0"),
        (&["--place", "blocks.c:9999=interleave", "--", "./pie"], 2, "no code at blocks.c:9999 in ./pie"),
        (&["--place", "heap#0=interleave", "--", "./pie"], 2, "no data structure"),
        (&["--place", "a.py:3 in f=interleave", "--", "./pie"], 2, "a line of Python"),
        (&["--place", "/absent/plan.toml", "--", "./pie"], 1, "/absent/plan.toml"),
        (&["--place", "wrong.toml", "--", "./pie"], 2, "wrong.toml: table: placement `spread`"),
        (&["--place", "table=interleave", "--", "./static"], 3, "is linked statically"),
        (&["--place", "table=interleave", "--", "/absent/program"], 127, "no such program"),
        (
            &["--place", "table=interleave", "--policy", "homing", "--", "./pie"],
            2,
            "--policy does not go with --place",
        ),
        (&["--place", "table=interleave", "--runtime", "--", "./pie"], 2, "cannot be used with"),
    ] {
        let output = homing(&[&["run"], arguments].concat());
        let said = text(&output.stderr);
        assert!(said.contains(says), "{arguments:?}: {said}");
        assert_eq!((output.status.code(), output.stdout.len()), (Some(status), 0), "{arguments:?}: {said}");
    }
}

#[test]
fn a_plan_in_a_file_is_tried_against_the_program_as_it_is() {
    let plan = built().join("plan.toml");
    let place = format!("blocks.c:{}", line(BLOCKS, "grid"));
    std::fs::write(
        &plan,
        format!("# of a diagnosis\n[[place]]\nname = \"{place}\"\nplacement = \"interleave\"\n"),
    )
    .unwrap();
    let output = homing(&["try", "--json", "--rounds", "2", "--place", "plan.toml", "--", "./pie"]);
    let answer: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
    assert!(output.status.success(), "{answer}");
    let names: Vec<&str> =
        answer["ways"].as_array().unwrap().iter().map(|way| way["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["as it is", "placement"]);
    assert_eq!(answer["ways"][1]["how"], "homing run --place plan.toml -- PROGRAM");
    // The cold round and two more.
    let placed = answer["placed"][0].as_str().unwrap();
    assert!(placed.starts_with(&format!("{place}: 15 blocks, ")), "{placed}");
    let output = homing(&["try", "--place", "nothing_has_it=node:0", "--rounds", "1", "--", "./pie"]);
    assert!(text(&output.stdout).contains("nothing_has_it: nothing of this name was allocated"));
}

#[test]
fn a_diagnosis_becomes_a_plan_and_a_command() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join("demo").join(name).to_str().unwrap().to_owned();
    assert!(homing(&["demo", "--keep", folder.path().join("demo").to_str().unwrap()]).status.success());
    let plan = path("plan.toml");
    let output = homing(&["why", &path("heat.trace"), "--machine", &path("small.toml"), "--plan", &plan]);
    let said = text(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let command = "homing run --place 'new_grid (heat.c:18)=blocks' -- PROGRAM";
    assert!(said.contains(command), "{said}");
    let written = std::fs::read_to_string(&plan).unwrap();
    for line in ["[[place]]", "name = \"new_grid (heat.c:18)\"", "placement = \"blocks\""] {
        assert!(written.lines().any(|written| written == line), "{line}: {written}");
    }
    assert!(written.contains(" of the run time (modelled), if each thread's part is as large"), "{written}");
    // A program in which nothing has the name is not started with a plan that does nothing.
    let output = homing(&["run", "--place", &plan, "--", "./pie"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no code of new_grid at heat.c:18"), "{}", text(&output.stderr));
}
