//! `homing record --recorder tsan` of a region of interest: the same functions and the same first touches as with the
//! Valgrind recorder.

use crate::tsan::build;
use homing_core::trace::{Event, Step, Summary, Trace};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Each pass of each thread reads and writes its part of the table once.
const TABLE: u64 = 32768;
/// 64 pages of the table, of 4 KiB.
const PAGES: u64 = TABLE * 8 / 4096;
const PASSES: u64 = 10;

/// The main thread makes a table, two threads use a half each, the main thread sums up.
const PROGRAM: &str = "#include <pthread.h>\n#include <stdlib.h>\n#include <dlfcn.h>\n#include <string>\n\
    #define N 32768\nstatic double *table;\n\
    namespace flow {\n\
    __attribute__((noinline)) void make(double *t) { for (int i = 0; i < N; i++) t[i] = i; }\n\
    static void *part(void *p) { long t = (long)p; double *own = table;\n\
    for (int k = 0; k < 10; k++) for (long i = t * N / 2; i < (t + 1) * N / 2; i++) own[i] += k;\n return 0; }\n\
    __attribute__((noinline)) void solve(int threads) { pthread_t t[2];\n\
    for (long i = 0; i < threads; i++) pthread_create(&t[i], 0, part, (void *)i);\n\
    for (int i = 0; i < threads; i++) pthread_join(t[i], 0); }\n\
    template <class T> __attribute__((noinline)) T sum(const T *t) {\n\
    T s = 0; for (int i = 0; i < N; i++) s += t[i]; return s; }\n}\n\
    int main(int argc, char **argv) { table = (double *)malloc(N * sizeof *table); flow::make(table);\n\
    flow::solve(2); if (argc > 1) { void *l = dlopen(argv[1], RTLD_NOW);\n\
    ((void (*)(double *))dlsym(l, \"late_sweep\"))(table); }\n\
    return flow::sum(table) < 0; }\n";

/// mmap(2): in place of what was there.
const MAP_FIXED: u16 = 0x10;

/// A library that is loaded later.
const LIBRARY: &str =
    "void late_sweep(double *t) { for (int k = 0; k < 2; k++) for (int i = 0; i < 32768; i++) t[i] += 1; }\n";

struct Lab(tempfile::TempDir);

impl Lab {
    fn new() -> Lab {
        Lab(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Compiles a source with the flags that homing gives.
    fn build(&self, compiler: &str, name: &str, source: &str, link: &str) -> PathBuf {
        let (file, out) = (self.path(name), self.path(name).with_extension("out"));
        std::fs::write(&file, source).unwrap();
        let script = format!(
            "\"$HOMING\" cflags >/dev/null && {compiler} -O2 $(\"$HOMING\" cflags) -fPIC -c -o '{0}.o' '{1}' && \
             {compiler} '{0}.o' -o '{0}' {link}",
            out.display(),
            file.display()
        );
        let mut shell = Command::new("sh");
        shell.args(["-ec", &script]).env("HOMING", env!("CARGO_BIN_EXE_homing"));
        let output = shell.env("HOMING_LIB", build::directory()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        out
    }

    fn program(&self) -> PathBuf {
        self.build("g++", "program.cpp", PROGRAM, "$(\"$HOMING\" ldflags --shared) -pthread -ldl")
    }

    fn record(&self, options: &[&str], command: &[&Path]) -> (Output, Summary) {
        let out = self.path("out.trace");
        let mut homing = build::homing();
        homing
            .args(["record", "--merge", "--recorder", "tsan", "-o"])
            .arg(&out)
            .args(options)
            .arg("--")
            .args(command);
        let output = homing.output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let bytes = std::fs::read(&out).unwrap();
        let trace = Trace::open(&bytes).unwrap();
        assert!(trace.complete() && trace.ordered());
        let summary = trace.summary();
        assert_eq!((summary.malformed, summary.lost_segments, summary.lost), (0, 0, 0));
        (output, summary)
    }

    /// References of the region, where nothing was to be warned of.
    fn counted(&self, options: &[&str], command: &[&Path]) -> u64 {
        let (output, summary) = self.record(options, command);
        assert!(!stderr(&output).contains("warning"), "{}", stderr(&output));
        summary.references - summary.first_touches
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn is_about(counted: u64, expected: u64) {
    // What creating and joining threads refers to comes on top.
    assert!((expected..expected + 1000).contains(&counted), "{counted}, expected {expected} and few more");
}

#[test]
fn a_region_has_its_references_and_who_made_the_pages() {
    let lab = Lab::new();
    let program = lab.program();
    let (output, region) = lab.record(&["--from", "flow::solve", "--to", "flow::sum"], &[&program]);
    assert!(!stderr(&output).contains("warning"), "{}", stderr(&output));
    is_about(region.references - region.first_touches, 2 * PASSES * TABLE);
    // The table's pages, made by the main thread before, and a few more.
    assert!((PAGES..PAGES + 100).contains(&region.first_touches), "{region:?}");
    assert!(region.outside >= TABLE - PAGES, "{region:?}");
    assert_eq!(region.threads, 3);
    let mut why = build::homing();
    why.args(["why", "--json", "--machine", "butterfly"]).arg(lab.path("out.trace"));
    let why: serde_json::Value = serde_json::from_slice(&why.output().unwrap().stdout).unwrap();
    assert_eq!(why["verdict"], "initialised-by-one-thread");
}

#[test]
fn functions_are_called_as_the_linker_knows_them_or_as_they_are_written() {
    let lab = Lab::new();
    let program = lab.program();
    let solve = 2 * PASSES * TABLE;
    is_about(lab.counted(&["--exclude-startup"], &[&program]), TABLE + solve + TABLE);
    is_about(lab.counted(&["--from", "_ZN4flow5solveEi", "--to", "flow::sum<double>"], &[&program]), solve);
    is_about(lab.counted(&["--from", "flow::solve(int)"], &[&program]), solve + TABLE);
    is_about(lab.counted(&["--to", "flow::solve"], &[&program]), TABLE);
    // A wrapper that is not recorded itself.
    is_about(lab.counted(&["--from", "flow::sum"], &[Path::new("env"), &program]), TABLE);
}

#[test]
fn a_region_may_begin_in_a_library_that_is_loaded_later() {
    let lab = Lab::new();
    let program = lab.program();
    let library = lab.build("gcc", "late.c", LIBRARY, "-shared $(\"$HOMING\" ldflags --shared)");
    is_about(lab.counted(&["--from", "late_sweep", "--to", "flow::sum"], &[&program, &library]), 4 * TABLE);
    let bytes = std::fs::read(lab.path("out.trace")).unwrap();
    let trace = Trace::open(&bytes).unwrap();
    let steps = trace.threads().flat_map(|(thread, _)| trace.thread_steps(thread));
    let mapped = steps.filter_map(|step| match step {
        Step::Event(Event::Mmap { flags, name, .. }) if flags & MAP_FIXED != 0 => {
            Some(trace.names().get(name).to_owned())
        }
        _ => None,
    });
    let mapped: BTreeSet<String> = mapped.collect();
    // The library comes, and nothing else: no page of the dynamic linker is new.
    let library = library.canonicalize().unwrap().to_str().unwrap().to_owned();
    assert_eq!(mapped, [library].into());
}

#[test]
fn a_function_that_never_ran_is_named_with_similar_ones() {
    let lab = Lab::new();
    let program = lab.program();
    let (output, summary) = lab.record(&["--from", "_ZN4flow5slove"], &[&program]);
    let said = stderr(&output);
    assert!(said.contains("--from _ZN4flow5slove: no such function ran, so no reference counts"), "{said}");
    assert!(said.contains("`_ZN4flow5solveEi`"), "{said}");
    assert_eq!(summary.references, summary.first_touches);
    let (output, _) = lab.record(&["--from", "main", "--to", "nothing_like_it"], &[&program]);
    assert!(stderr(&output).contains("--to nothing_like_it: no such function ran"), "{}", stderr(&output));
}

#[test]
fn a_region_begins_and_ends_at_marks() {
    const MARKED: &str = "#include \"homing.h\"\n#include <pthread.h>\n#define N 32768\n\
        static volatile double table[2][N];\nstatic pthread_barrier_t barrier;\n\
        static void *work(void *p) { long t = (long)p; for (int k = 0; k < 5; k++) {\n\
        for (int i = 0; i < N; i++) table[t][i] += k;\n pthread_barrier_wait(&barrier);\n\
        if (t == 0) { homing_iteration(); if (k == 2) homing_phase(\"late\"); }\n\
        pthread_barrier_wait(&barrier); } return p; }\n\
        int main() { pthread_t t; pthread_barrier_init(&barrier, 0, 2); pthread_create(&t, 0, work, (void *)1);\n\
        work(0); pthread_join(t, 0); return 0; }\n";
    let lab = Lab::new();
    let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../../include");
    let program =
        lab.build(&format!("g++ {include}"), "marked.cpp", MARKED, "$(\"$HOMING\" ldflags) -pthread");
    let regions: [(&[&str], u64); 3] = [
        (&["--from", "mark:iteration", "--to", "mark:iteration"], 1),
        (&["--from", "main", "--to", "mark:late"], 3),
        (&["--from", "mark:late"], 2),
    ];
    for (options, passes) in regions {
        is_about(lab.counted(options, &[&program]), passes * 2 * 2 * TABLE);
    }
    let (output, _) = lab.record(&["--from", "mark:none"], &[&program]);
    assert!(
        stderr(&output).contains("--from mark:none: the program made no such mark"),
        "{}",
        stderr(&output)
    );
}
