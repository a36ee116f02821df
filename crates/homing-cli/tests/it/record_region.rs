//! `homing record` of a region of interest, and of programs that a wrapper starts.

use crate::support::lab::{stderr, Lab};
use homing_core::trace::{Event, Step, Summary, Trace};
use std::path::PathBuf;
use std::process::Command;

/// The main thread makes a table of 64 pages, two threads then use a half each 10 times, and the main thread sums up.
const PROGRAM: &str = "#include <pthread.h>\n#include <stdlib.h>\n#define N 32768\nstatic double *table;\n\
    __attribute__((noinline)) void make(void) { for (int i = 0; i < N; i++) table[i] = i; }\n\
    static void *part(void *p) { long t = (long)p; for (int k = 0; k < 10; k++)\n\
    for (long i = t * N / 2; i < (t + 1) * N / 2; i++) table[i] += k; return 0; }\n\
    __attribute__((noinline)) void solve(void) { pthread_t t[2];\n\
    for (long i = 0; i < 2; i++) pthread_create(&t[i], 0, part, (void *)i);\n\
    for (int i = 0; i < 2; i++) pthread_join(t[i], 0); }\n\
    __attribute__((noinline)) int sum(void) { double s = 0; for (int i = 0; i < N; i++) s += table[i];\n\
    return s < 0; }\n\
    int main(void) { table = malloc(N * sizeof *table); make(); solve(); return sum(); }\n";
const TABLE: u64 = 32768;
/// Each pass reads and writes it.
const SOLVE: u64 = 10 * 2 * TABLE;

fn program(lab: &Lab) -> PathBuf {
    lab.compile(PROGRAM, &["-pthread"])
}

fn summary(lab: &Lab) -> Summary {
    lab.trace(|trace| trace.summary())
}

fn why(lab: &Lab) -> serde_json::Value {
    let mut homing = Command::new(env!("CARGO_BIN_EXE_homing"));
    homing.args(["why", "--json", "--machine", "butterfly"]).arg(lab.path("out.trace"));
    serde_json::from_slice(&homing.output().unwrap().stdout).unwrap()
}

/// The traces of children.
fn children(lab: &Lab) -> Vec<Vec<u8>> {
    let files = std::fs::read_dir(lab.path("")).unwrap().map(|entry| entry.unwrap().path());
    let is_child =
        |path: &PathBuf| path.extension().is_some_and(|e| e == "trace") && !path.ends_with("out.trace");
    files.filter(is_child).map(|path| std::fs::read(path).unwrap()).collect()
}

#[test]
fn a_region_has_its_references_and_who_made_the_pages() {
    let lab = Lab::new();
    let program = program(&lab);
    let program = program.to_str().unwrap();
    assert_eq!(lab.record(&[], &[program]).status.code(), Some(0));
    let whole = summary(&lab);
    let output = lab.record(&["--from", "solve", "--to", "sum"], &[program]);
    assert!(!stderr(&output).contains("warning"), "{}", stderr(&output));
    let region = summary(&lab);
    let counted = region.references - region.first_touches;
    // What creating and joining threads refers to comes on top.
    assert!((SOLVE..SOLVE + TABLE / 2).contains(&counted), "{region:?}");
    assert!((64..whole.frames.into()).contains(&region.first_touches), "{region:?}");
    assert!(
        region.outside >= TABLE && region.outside + region.references <= whole.references + 1000,
        "{region:?}"
    );
    lab.trace(|trace| {
        let more = |key: &str| trace.header().more[key].as_str().unwrap().to_owned();
        assert_eq!((more("from"), more("to")), ("solve".into(), "sum".into()));
        // The events before are there: threads and the table's name are right.
        let steps = trace.threads().flat_map(|(thread, _)| trace.thread_steps(thread));
        let table =
            steps.filter(|step| matches!(step, Step::Event(Event::Alloc { size: 262_144, .. }))).count();
        assert_eq!((table, trace.threads().count()), (1, 3));
    });
    let why = why(&lab);
    assert_eq!(why["verdict"], "initialised-by-one-thread");
    assert!(why["areas"][0]["name"].as_str().unwrap().starts_with("main (program.c"), "{}", why["areas"][0]);
    assert_eq!(why["areas"][0]["cause"], "initialised-by-one-thread");
    let note = why["notes"][0].as_str().unwrap();
    assert!(note.starts_with("the trace is of a region (--from solve --to sum): "), "{note}");
}

#[test]
fn what_is_skipped_leaves_who_made_the_pages() {
    let lab = Lab::new();
    let program = program(&lab);
    let program = program.to_str().unwrap();
    assert_eq!(lab.record(&["--to", "solve"], &[program]).status.code(), Some(0));
    // All up to the threads' creation, and some more.
    let skip = summary(&lab).references + 10_000;
    let output = lab.record(&["--skip", &skip.to_string()], &[program]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let skipped = summary(&lab);
    assert_eq!(skipped.skipped + skipped.first_touches, skip);
    // The table's pages at least; how far the threads have come by then is chance.
    assert!((64..=skipped.frames.into()).contains(&skipped.first_touches), "{skipped:?}");
    let why = why(&lab);
    assert_eq!(why["verdict"], "initialised-by-one-thread");
    assert!(why["areas"][0]["name"].as_str().unwrap().starts_with("main (program.c"), "{}", why["areas"][0]);
    let note = why["notes"][0].as_str().unwrap();
    assert!(note.starts_with(&format!("the trace is of a region (--skip {skip}): ")), "{note}");
    // `compare` and `optimal` lay the pages out as `why` does: first touch pays for what one thread made.
    for command in ["compare", "optimal"] {
        let mut homing = Command::new(env!("CARGO_BIN_EXE_homing"));
        homing.args([command, "--machine", "butterfly"]).arg(lab.path("out.trace"));
        let output = homing.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &stderr(&output);
        assert!(said.contains(&format!("--skip {skip}")), "{command}: {said}");
    }
    // Where nothing is left, there is no verdict.
    assert_eq!(lab.record(&["--skip", "1000000000"], &[program]).status.code(), Some(0));
    let mut homing = Command::new(env!("CARGO_BIN_EXE_homing"));
    let output = homing.args(["why"]).arg(lab.path("out.trace")).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("record it with a smaller --skip"), "{}", stderr(&output));
}

#[test]
fn either_end_of_a_region_may_be_left_out() {
    let lab = Lab::new();
    let program = program(&lab);
    let program = program.to_str().unwrap();
    let counted = |options: &[&str]| {
        let output = lab.record(options, &[program]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(!stderr(&output).contains("warning"), "{}", stderr(&output));
        let summary = summary(&lab);
        (summary.references - summary.first_touches, summary.first_touches)
    };
    let (from_main, _) = counted(&["--exclude-startup"]);
    // Two runs differ by a few references of the threads' creation.
    assert!(counted(&["--from", "main"]).0.abs_diff(from_main) < 1000);
    let made = TABLE + SOLVE + TABLE;
    assert!((made..made + TABLE / 2).contains(&from_main), "{from_main}");
    let (to_solve, first_touches) = counted(&["--to", "solve"]);
    // Start-up takes some 100 000.
    assert!((TABLE..TABLE + 300_000).contains(&to_solve) && first_touches == 0, "{to_solve}");
    let (from_sum, _) = counted(&["--from", "sum"]);
    assert!((TABLE..TABLE + 20_000).contains(&from_sum), "{from_sum}");
    // A function of a library.
    let (from_exit, _) = counted(&["--from", "exit"]);
    assert!((1..20_000).contains(&from_exit), "{from_exit}");
}

#[test]
fn one_round_is_from_a_function_to_its_next_entry() {
    let lab = Lab::new();
    let source = "static volatile long a[4096];\n\
        __attribute__((noinline)) void step(int k) { for (int i = 0; i < 1000 * k; i++) a[i] = k; }\n\
        int main(void) { for (int k = 1; k <= 4; k++) step(k); return 0; }\n";
    let program = lab.compile(source, &[]);
    let output = lab.record(&["--from", "step", "--to", "step"], &[program.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let summary = summary(&lab);
    assert!((1000..1100).contains(&(summary.references - summary.first_touches)), "{summary:?}");
}

#[test]
fn functions_of_cxx_are_found_by_all_their_names() {
    let lab = Lab::new();
    let source = "extern \"C\" int rand(void);\nnamespace flow { static volatile long a[4096];\n\
        template <class T> __attribute__((noinline)) T turn(T n) { for (T i = 0; i < n; i++) a[i] = i; return n; }\n\
        __attribute__((noinline)) void solve(int n, const long*) { for (int i = 0; i < n; i++) a[i] = i; } }\n\
        int main() { flow::turn<int>(2000); flow::solve(3000, nullptr); return 0; }\n";
    let (file, program) = (lab.path("p.cpp"), lab.path("p"));
    std::fs::write(&file, source).unwrap();
    assert!(Command::new("g++").args(["-O1", "-o"]).args([&program, &file]).status().unwrap().success());
    let names = [
        "flow::solve",
        "flow::solve(int, long const*)",
        "_ZN4flow5solveEiPKl",
        "flow::turn<int>",
        "flow::turn",
    ];
    for (name, expected) in names.into_iter().zip([3000, 3000, 3000, 5000, 5000]) {
        let output = lab.record(&["--from", name, "--to", "exit"], &[program.to_str().unwrap()]);
        assert!(!stderr(&output).contains("warning"), "{name}: {}", stderr(&output));
        let summary = summary(&lab);
        let counted = summary.references - summary.first_touches;
        assert!((expected..expected + 500).contains(&counted), "{name}: {summary:?}");
    }
}

#[test]
fn a_function_that_never_ran_is_named_with_similar_ones() {
    let lab = Lab::new();
    let program = program(&lab);
    let program = program.to_str().unwrap();
    let output = lab.record(&["--quiet", "--from", "slove"], &[program]);
    let said = stderr(&output);
    assert!(said.contains("--from slove: no such function ran, so no reference counts"), "{said}");
    assert!(said.contains("similar functions of the program: `solve`"), "{said}");
    let never = summary(&lab);
    assert!(never.references == never.first_touches && never.references < 1000, "{never:?}");
    let mut homing = Command::new(env!("CARGO_BIN_EXE_homing"));
    let output = homing.arg("why").arg(lab.path("out.trace")).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("what was to begin it (--from slove) never came"), "{output:?}");
    let output = lab.record(&["--from", "solve", "--to", "nothing_like_it"], &[program]);
    let said = stderr(&output);
    assert!(said.contains("--to nothing_like_it: no such function ran, so the region goes on"), "{said}");
    assert!(summary(&lab).references > SOLVE);
    // A limit stops the recorder, so that nobody knows.
    let output = lab.record(&["--from", "solve", "--to", "nothing_like_it", "--limit", "1000"], &[program]);
    assert!(!stderr(&output).contains("warning"), "{}", stderr(&output));
    let limited = summary(&lab);
    assert_eq!(limited.references - limited.first_touches, 1000);
}

#[test]
fn a_region_begins_and_ends_at_marks() {
    const MARKED: &str = "#include \"homing.h\"\n#define N 32768\nstatic volatile double table[N];\n\
        int main(void) { for (int k = 0; k < 5; k++) { homing_phase(k < 3 ? \"low\" : \"high\");\n\
        for (int i = 0; i < N; i++) table[i] += k;\n homing_iteration(); } return 0; }\n";
    let lab = Lab::new();
    let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../../include");
    let program = lab.compile(MARKED, &[include]);
    let program = program.to_str().unwrap();
    // One iteration, those before a phase, those from it on.
    let regions: [(&[&str], u64); 3] = [
        (&["--from", "mark:iteration", "--to", "mark:iteration"], 1),
        (&["--from", "main", "--to", "mark:high"], 3),
        (&["--from", "mark:high"], 2),
    ];
    for (options, passes) in regions {
        let output = lab.record(options, &[program]);
        assert!(!stderr(&output).contains("warning"), "{}", stderr(&output));
        let region = summary(&lab);
        let counted = region.references - region.first_touches;
        let expected = passes * 2 * TABLE;
        assert!((expected - 100..expected + TABLE / 2).contains(&counted), "{options:?}: {region:?}");
    }
    let said = stderr(&lab.record(&["--from", "mark:none"], &[program]));
    assert!(
        said.contains("--from mark:none: the program made no such mark") && said.contains("homing_phase"),
        "{said}"
    );
}

#[test]
fn a_region_begins_in_one_place() {
    let output = Lab::new().record(&["--from", "main", "--exclude-startup"], &["true"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn the_program_that_a_wrapper_executes_is_what_is_recorded() {
    let lab = Lab::new();
    let program = program(&lab);
    let program = program.to_str().unwrap();
    let text = format!("#!/bin/sh\nA=1\nexec sh -c 'exec env B=1 {program} \"$0\"' \"$@\"\n");
    let script = lab.script("shim.sh", &text);
    assert_eq!(lab.record(&[], &[program, "x"]).status.code(), Some(0));
    let direct = summary(&lab);
    let exec = format!("exec {program} x");
    let wrappers: [(&[&str], usize); 3] = [
        (&["sh", "-c", &exec], 1),
        (&["env", "X=1", program, "x"], 1),
        (&[script.to_str().unwrap(), "x"], 3),
    ];
    for (command, wrappers) in wrappers {
        let output = lab.record(&[], command);
        let said = stderr(&output);
        assert_eq!(
            (output.status.code(), said.matches("homing: left out:").count()),
            (Some(0), wrappers),
            "{said}"
        );
        lab.trace(|trace| {
            let summary = trace.summary();
            // The environment differs, and so does what the loader reads of it.
            assert!(
                summary.references.abs_diff(direct.references) < 5000,
                "{command:?}: {summary:?} {direct:?}"
            );
            let threads: Vec<u32> = trace.threads().map(|(thread, _)| thread.0).collect();
            assert_eq!((threads, summary.frames.abs_diff(direct.frames) < 10), (vec![0, 1, 2], true));
            assert_eq!(trace.header().command, [program, "x"]);
            assert_eq!(trace.header().more["replaced"].as_array().unwrap().len(), wrappers);
        });
    }
    // The region is that of the last program, whatever the wrapper is made of.
    lab.record(&["--from", "solve", "--to", "sum"], &["sh", "-c", &exec]);
    let region = summary(&lab);
    assert!((SOLVE..SOLVE + TABLE / 2).contains(&(region.references - region.first_touches)), "{region:?}");
}

#[test]
fn a_limit_that_a_wrapper_reaches_does_not_end_the_recording_of_its_program() {
    let lab = Lab::new();
    let program = program(&lab);
    // The shell makes more references than that, and more than fit into the recorder's first segment.
    let script = format!("i=0; while [ $i -lt 300 ]; do i=$((i + 1)); done; exec {}", program.display());
    let output = lab.record(&["--limit", "60000"], &["sh", "-c", &script]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("left out: 60000 references of `sh -c"), "{}", stderr(&output));
    lab.trace(|trace| {
        assert_eq!(
            (trace.references(), &trace.header().command),
            (60_000, &vec![program.display().to_string()])
        );
    });
}

#[test]
fn a_region_that_has_ended_is_not_lost_with_the_program() {
    let lab = Lab::new();
    let source = "#include <unistd.h>\nstatic volatile long a[4096];\n\
        __attribute__((noinline)) void step(void) { for (int i = 0; i < 4000; i++) a[i] = i; }\n\
        __attribute__((noinline)) void end(void) { a[0] = 0; }\n\
        int main(void) { step(); end(); execl(\"/bin/echo\", \"echo\", \"end\", (char*)0); return 1; }\n";
    let program = lab.compile(source, &[]);
    let output = lab.record(&["--from", "step", "--to", "end"], &[program.to_str().unwrap()]);
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stdout).as_ref()), (Some(0), "end\n"));
    let summary = summary(&lab);
    assert!((4000..4100).contains(&(summary.references - summary.first_touches)), "{summary:?}");
}

#[test]
fn a_child_that_is_forked_in_the_region_begins_in_it() {
    let lab = Lab::new();
    let source = "#include <sys/wait.h>\n#include <unistd.h>\nstatic volatile long a[8192];\n\
        static void fill(int n) { for (int i = 0; i < n; i++) a[i] = i; }\n\
        __attribute__((noinline)) void step(void) { if (fork() == 0) { fill(6000); _exit(0); } wait(0); }\n\
        int main(void) { if (fork() == 0) { fill(5000); _exit(0); } wait(0); step(); return 0; }\n";
    let program = lab.compile(source, &[]);
    let output = lab.record(&["--follow", "--from", "step"], &[program.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let mut counted: Vec<u64> = children(&lab)
        .iter()
        .map(|bytes| Trace::open(bytes).unwrap().summary())
        .map(|summary| summary.references - summary.first_touches)
        .collect();
    counted.sort_unstable();
    assert!(counted.len() == 2 && counted[0] == 0 && (6000..6500).contains(&counted[1]), "{counted:?}");
}

#[test]
fn children_that_are_not_recorded_are_told_and_followed_ones_have_regions_of_their_own() {
    let lab = Lab::new();
    let program = program(&lab);
    let script = lab.path("run.sh");
    std::fs::write(&script, format!("{}\necho done\n", program.display())).unwrap();
    let command = ["bash", script.to_str().unwrap()];
    let output = lab.record(&[], &command);
    let said = stderr(&output);
    assert!(said.contains("1 child process was not recorded (--follow records them, too"), "{said}");
    let output = lab.record(&["--follow", "--from", "solve", "--to", "sum"], &command);
    let said = stderr(&output);
    assert!(said.contains("1 child process") && !said.contains("not recorded"), "{said}");
    let [bytes] = &children(&lab)[..] else { panic!("{said}") };
    let trace = Trace::open(bytes).unwrap();
    let summary = trace.summary();
    assert!(
        (SOLVE..SOLVE + TABLE / 2).contains(&(summary.references - summary.first_touches)),
        "{summary:?}"
    );
    assert_eq!(trace.header().command, [program.display().to_string()]);
}
