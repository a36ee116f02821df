//! `homing record` with either recorder, from outside: the traces of one program agree, and a program built for one
//! recorder is refused by the other.

use crate::tsan::build;
use crate::tsan::build::Compiler;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

fn homing(arguments: &[&str], program: &[&str]) -> Output {
    let mut homing = build::homing();
    homing.args(arguments);
    if !program.is_empty() {
        homing.arg("--").args(program);
    }
    homing.env("OMP_NUM_THREADS", "2").output().unwrap()
}

fn trace(name: &str) -> PathBuf {
    build::directory().join(format!("{name}-{}.trace", std::process::id()))
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn info(trace: &Path) -> Value {
    json(&homing(&["trace", "info", trace.to_str().unwrap(), "--json"], &[]))
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("no number `{key}` in {value}"))
}

#[test]
fn a_recording_is_a_whole_trace() {
    let program = build::program(Compiler::Gcc, "constructs.c", true);
    let out = trace("whole");
    let arguments = ["record", "--merge", "--recorder", "tsan", "-o", out.to_str().unwrap()];
    let recorded = homing(&arguments, &[program.to_str().unwrap(), "tasks"]);
    assert!(recorded.status.success(), "{}", String::from_utf8_lossy(&recorded.stderr));
    assert_eq!(recorded.stdout, b"499\n");
    let info = info(&out);
    assert_eq!((info["recorder"].as_str(), info["complete"].as_bool()), (Some("tsan"), Some(true)));
    assert_eq!(number(&info, "threads"), 2.0);
    assert!(number(&info, "references") > 100.0);
}

#[test]
fn each_recorder_refuses_the_other_ones_program() {
    let plain = build::program(Compiler::Gcc, "behaviours.c", false);
    let instrumented = build::program(Compiler::Gcc, "behaviours.c", true);
    let out = trace("refused");
    let out = out.to_str().unwrap();
    let refused =
        homing(&["record", "--merge", "--recorder", "tsan", "-o", out], &[plain.to_str().unwrap(), "ends"]);
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && message.contains("homing cflags"), "{message}");
    let refused = homing(
        &["record", "--merge", "--recorder", "valgrind", "-o", out],
        &[instrumented.to_str().unwrap(), "ends"],
    );
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(3), "{message}");
    assert!(message.contains("--recorder tsan"), "{message}");
}

/// Builds the Valgrind recorder, once; says so when a test has to go without.
fn valgrind_is_there() -> bool {
    static BUILT: OnceLock<bool> = OnceLock::new();
    let build = || {
        let recorder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recorders/valgrind");
        let out = format!("OUT={}", build::directory().join("valgrind").display());
        Command::new("make").arg("-s").arg("-C").arg(recorder).arg(out).status().is_ok_and(|s| s.success())
    };
    let there = *BUILT.get_or_init(build);
    if !there {
        eprintln!("SKIPPED: 1 test: Valgrind's tool headers are not installed");
    }
    there
}

/// The program's marks reach the trace and the policies; without a recorder they do nothing.
#[test]
fn iterations_and_phases_are_marked() {
    let plain = build::program(Compiler::Gcc, "marks.c", false);
    assert!(Command::new(&plain).status().unwrap().success());
    let mut recorders = vec![("tsan", build::program(Compiler::Gcc, "marks.c", true))];
    if valgrind_is_there() {
        recorders.push(("valgrind", plain));
    }
    for (recorder, program) in recorders {
        let out = trace(&format!("marks-{recorder}"));
        let on = out.to_str().unwrap();
        let recorded =
            homing(&["record", "--merge", "--recorder", recorder, "-o", on], &[program.to_str().unwrap()]);
        assert!(recorded.status.success(), "{}", String::from_utf8_lossy(&recorded.stderr));
        assert_eq!(info(&out)["events"]["mark"], 15, "{recorder}");
        let machine =
            ["--machine", "butterfly", "--threads-on", "one-per-node", "--set", "page_move=40", "--json"];
        let simulate = [&["simulate", on, "--policy", "record-replay"], &machine[..]].concat();
        let moves = |more: &[&str]| number(&json(&homing(&[&simulate, more].concat(), &[])), "moves");
        // All of the first array changes hands at each phase, and the policy knows it from the first iteration.
        assert!(moves(&[]) >= 8.0, "{recorder}: {}", moves(&[]));
    }
}

/// A program that a shell started ends with homing as well: nobody takes its references any more.
#[test]
fn a_program_of_a_shell_ends_with_a_killed_homing() {
    let program = build::program(Compiler::Gcc, "endless.c", true);
    let mut homing = build::homing();
    homing
        .args(["record", "--merge", "--recorder", "tsan", "-o"])
        .arg(trace("endless"))
        .args(["--", "sh", "-c"]);
    let script = format!("{}; true", program.display());
    let mut homing = homing.arg(script).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut id = String::new();
    BufReader::new(homing.stdout.take().unwrap()).read_line(&mut id).unwrap();
    let id = id.trim().to_owned();
    let runs = || {
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
    };
    assert!(runs(), "process {id}");
    homing.kill().unwrap();
    homing.wait().unwrap();
    let begin = std::time::Instant::now();
    while runs() && begin.elapsed() < std::time::Duration::from_secs(60) {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let outlived = runs();
    if outlived {
        Command::new("kill").args(["-9", &id]).status().unwrap();
    }
    assert!(!outlived, "it ran on unrecorded");
}

const LIBRARY: &str = "#define OWN __attribute__((aligned(4096)))\n\
    OWN long small[40]; static OWN long hidden[30]; OWN long large[2048];\n\
    void touch(int i) { small[i % 40]++; hidden[i % 30]++; large[i % 2048]++; }\n";
const OTHER_LIBRARY: &str = "__attribute__((aligned(4096))) static long state[NUMBER * 50];\n\
    void touch_other(int i) { state[i % (NUMBER * 50)]++; }\n";
const USER: &str = "#include <dlfcn.h>\nvoid touch(int); __attribute__((aligned(4096))) long own[20];\n\
    int main(int n, char** names) { for (int i = 0; i < 50000; i++) { touch(i); own[i % 20]++; }\n\
    for (int i = 0; i < 20; i++) { void* h = dlopen(names[1 + i % 2], RTLD_NOW); if (!h) return 1;\n\
    void (*f)(int) = (void (*)(int))dlsym(h, \"touch_other\"); for (int k = 0; k < 500; k++) f(k); dlclose(h); }\n\
    return 0; }\n";

/// A program with a library and two more that it loads and unloads in turn, built for a recorder.
fn with_libraries(directory: &Path, recorder: &str) -> Vec<String> {
    let flags = |which: &str| -> Vec<String> {
        match recorder {
            "tsan" => json(&homing(&[which, "--json"], &[]))
                .as_array()
                .unwrap()
                .iter()
                .map(|flag| flag.as_str().unwrap().to_owned())
                .collect(),
            _ => Vec::new(),
        }
    };
    let path = |name: &str| directory.join(name).to_str().unwrap().to_owned();
    let gcc = |arguments: &[&str], more: &[String]| {
        let output = Command::new("gcc").args(arguments).args(more).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let sources = [
        ("libsmall", LIBRARY, "-DNUMBER=0"),
        ("libone", OTHER_LIBRARY, "-DNUMBER=1"),
        ("libtwo", OTHER_LIBRARY, "-DNUMBER=2"),
        ("user", USER, "-DNUMBER=0"),
    ];
    for (name, source, number) in sources {
        let (file, object) = (path(&format!("{name}.c")), path(&format!("{name}.o")));
        std::fs::write(&file, source).unwrap();
        gcc(&["-O1", "-fPIC", number, "-c", &file, "-o", &object], &flags("cflags"));
        if name != "user" {
            gcc(&["-shared", &object, "-o", &path(&format!("{name}.so"))], &[]);
        }
    }
    let (object, program, library) = (path("user.o"), path("user"), path("libsmall.so"));
    gcc(&[&object, &library, "-o", &program, "-ldl"], &flags("ldflags"));
    vec![program, path("libone.so"), path("libtwo.so")]
}

/// Variables of libraries have the library's name with theirs, small ones as well, and so have those of a library that
/// lies where another one was.
#[test]
fn variables_of_libraries_are_named() {
    let mut recorders = vec!["tsan"];
    if valgrind_is_there() {
        recorders.push("valgrind");
    }
    for recorder in recorders {
        let directory = tempfile::tempdir().unwrap();
        let command = with_libraries(directory.path(), recorder);
        let out = directory.path().join("out.trace");
        let out = out.to_str().unwrap();
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let recorded = homing(&["record", "--merge", "--recorder", recorder, "-o", out], &words);
        assert!(recorded.status.success(), "{}", String::from_utf8_lossy(&recorded.stderr));
        let bytes = std::fs::read(out).unwrap();
        let trace = homing_core::trace::Trace::open(&bytes).unwrap();
        let mut pages: Vec<u64> = trace.frames().iter().map(|page| page << 12).collect();
        pages.sort_unstable();
        let areas = homing_core::areas::name_pages(&trace, &pages, 4096);
        let names = ["small (libsmall.so)", "hidden (libsmall.so)", "large (libsmall.so)", "own"];
        let missing: Vec<&str> =
            names.into_iter().filter(|&name| !areas.names.iter().any(|area| area == name)).collect();
        assert!(missing.is_empty(), "{recorder}: {missing:?} not in {:?}", areas.names);
        let sizes = |library: &str| -> Vec<u64> {
            let of = |s: &&homing_core::trace::Symbol| {
                trace.names().get(s.object).ends_with(library) && trace.names().get(s.name) == "state"
            };
            trace.symbols().iter().filter(of).map(|s| s.size).collect()
        };
        assert_eq!((sizes("/libone.so"), sizes("/libtwo.so")), (vec![400], vec![800]), "{recorder}");
    }
}

/// A second run, at other addresses, begins where the first one says (Tikir & Hollingsworth's two-phase run).
#[test]
fn a_profile_places_the_pages_of_the_next_run() {
    let program = build::program(Compiler::Gcc, "marks.c", true);
    let record = |name: &str| {
        let out = trace(name);
        let arguments = ["record", "--merge", "--recorder", "tsan", "-o", out.to_str().unwrap()];
        assert!(homing(&arguments, &[program.to_str().unwrap()]).status.success());
        out
    };
    let (first, second) = (record("first-run"), record("second-run"));
    let file = first.with_extension("placement");
    let on = ["--machine", "butterfly", "--threads-on", "one-per-node", "--no-replication", "--json"];
    let simulate = |trace: &Path, more: &[&str]| {
        json(&homing(&[&["simulate", trace.to_str().unwrap()], more, &on[..]].concat(), &[]))
    };
    simulate(&first, &["--policy", "best-static", "--placement-out", file.to_str().unwrap()]);
    let begins = |rule: &str| simulate(&second, &["--policy", "file", "--placement", rule]);
    let by_area = number(&begins(&format!("areas:{}", file.display())), "cost");
    let best = number(&simulate(&second, &["--policy", "best-static"]), "cost");
    let worst = number(&simulate(&second, &["--policy", "worst-static"]), "cost");
    assert!(best <= by_area && by_area < best + 0.1 * (worst - best), "{best} {by_area} {worst}");
    let rule = format!("areas:{}", file.display());
    let compare = ["compare", second.to_str().unwrap(), "--policies", "file", "--placement", &rule];
    let compared = json(&homing(&[&compare[..], &on[..]].concat(), &[]));
    assert_eq!(number(&compared["traces"][0]["rows"][1], "cost"), by_area, "compare begins there too");
}

/// Where the compiler's code is the same, the recorders agree: Valgrind also sees the libraries and what registers
/// could not hold, a few per cent here.
#[test]
fn the_recorders_agree() {
    if !valgrind_is_there() {
        return;
    }
    let plain = build::program(Compiler::Gcc, "agree.c", false);
    let built = build::program(Compiler::Gcc, "agree.c", true);
    let (by_valgrind, by_tsan) = (trace("valgrind"), trace("tsan"));
    let both = [("valgrind", &by_valgrind, &plain), ("tsan", &by_tsan, &built)];
    let results = both.map(|(recorder, out, program)| {
        let arguments = ["record", "--merge", "--recorder", recorder, "-o", out.to_str().unwrap()];
        let recorded = homing(&arguments, &[program.to_str().unwrap()]);
        assert!(recorded.status.success(), "{}", String::from_utf8_lossy(&recorded.stderr));
        let on = [out.to_str().unwrap(), "--machine", "butterfly", "--json"];
        let simulate = [&["simulate", "--policy", "first-touch"], &on[..]].concat();
        let optimal = [&["optimal"], &on[..]].concat();
        (recorded.stdout, info(out), json(&homing(&simulate, &[])), json(&homing(&optimal, &[])))
    });
    let [(valgrind_says, valgrind, placed, best), (tsan_says, tsan, placed_too, best_too)] = &results;
    assert_eq!(valgrind_says, tsan_says);
    for (key, tolerance) in [("references", 0.05), ("reads", 0.05), ("writes", 0.05)] {
        let (a, b) = (number(valgrind, key), number(tsan, key));
        assert!((a - b).abs() <= tolerance * a, "{key}: {a} by Valgrind, {b} by tsan");
    }
    // The pages' story is the same: who uses them, and what the best placement does about it.
    for (key, tolerance) in [("nonlocal_percent", 0.2), ("gap_percent", 1.0)] {
        let (a, b) = (number(placed, key), number(placed_too, key));
        assert!((a - b).abs() <= tolerance, "{key} of first touch: {a} by Valgrind, {b} by tsan");
    }
    let (a, b) = (number(best, "moves"), number(best_too, "moves"));
    assert!((a - b).abs() <= 0.1 * a, "moves of the optimum: {a} by Valgrind, {b} by tsan");
}
