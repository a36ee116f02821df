//! Call sites of programs whose debug information is not where Valgrind looks for it, or of a kind that it cannot read.

use crate::support::lab::{stderr, Lab};
use serde_json::Value;
use std::process::Command;

/// The main thread makes an array of 100 pages, which two threads then use a half each.
const PROGRAM: &str = "#include <pthread.h>\n#include <stdlib.h>\n#define N 51200\nstatic double *grid;\n\
    __attribute__((noinline)) static double *allocate(void) {\ndouble *made = malloc(N * sizeof *made);\n\
    return made; }\nstatic void *part(void *p) { long t = (long)p; for (int k = 0; k < 5; k++)\n\
    for (long i = t * N / 2; i < (t + 1) * N / 2; i++) grid[i] += k; return 0; }\n\
    int main(void) { pthread_t t[2]; grid = allocate(); for (int i = 0; i < N; i++) grid[i] = i;\n\
    for (long i = 0; i < 2; i++) pthread_create(&t[i], 0, part, (void *)i);\n\
    for (int i = 0; i < 2; i++) pthread_join(t[i], 0);\n    return 0; }\n";

/// The first area of a program that a shell command has made of `whole` in the lab, and the report's notes.
fn first_area(lab: &Lab, made: &str) -> (String, String) {
    let is_made =
        Command::new("sh").args(["-ec", made]).current_dir(lab.path("")).status().unwrap().success();
    assert!(is_made, "{made}");
    let program = lab.path("program");
    let output = lab.record(&[], &[program.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{made}: {}", stderr(&output));
    let mut why = Command::new(env!("CARGO_BIN_EXE_homing"));
    let why =
        why.args(["why", "--json", "--machine", "butterfly"]).arg(lab.path("out.trace")).output().unwrap();
    let report: Value =
        serde_json::from_slice(&why.stdout).unwrap_or_else(|e| panic!("{e}: {}", stderr(&why)));
    (report["areas"][0]["name"].as_str().unwrap().to_owned(), report["notes"].to_string())
}

#[test]
fn lines_are_known_wherever_the_debug_information_is() {
    let lab = Lab::new();
    lab.compile(PROGRAM, &["-pthread"]);
    for made in [
        "gcc -g -gsplit-dwarf -O1 -pthread program.c -o program",
        "gcc -g -gz=zlib -O1 -pthread program.c -o program",
        "gcc -g -O1 -pthread program.c -o program && objcopy --only-keep-debug program program.debug && \
         strip program && objcopy --add-gnu-debuglink=program.debug program",
    ] {
        let (name, notes) = first_area(&lab, made);
        assert_eq!(name, "allocate (program.c:6)", "{made}");
        assert!(!notes.contains("without lines"), "{notes}");
    }
}

#[test]
fn where_lines_are_missing_the_report_says_of_which_file() {
    let lab = Lab::new();
    lab.compile(PROGRAM, &["-pthread"]);
    let (name, notes) = first_area(&lab, "gcc -O1 -pthread program.c -o program");
    assert_eq!(name, "allocate (program)");
    assert!(notes.contains(&format!("no debug information was found of `{}`", lab.path("program").display())));
    let (name, notes) = first_area(&lab, "strip program");
    assert!(name.starts_with("program+0x"), "{name}");
    assert!(notes.contains("compile with -g, or install its debug symbols"), "{notes}");
}

/// The main goroutine makes a slice of 256 pages and four others use a quarter each.
const GO: &str = "package main\n\nimport \"sync\"\n\n//go:noinline\nfunc newGrid(n int) []float64 {\n\
    return make([]float64, n)\n}\n\nfunc main() {\nn := 1 << 17\ng := newGrid(n)\n\
    for i := range g {\ng[i] = float64(i)\n}\nvar wait sync.WaitGroup\nfor t := 0; t < 4; t++ {\nwait.Add(1)\n\
    go func(t int) {\ndefer wait.Done()\nfor k := 0; k < 10; k++ {\n\
    for i := t * n / 4; i < (t+1)*n/4; i++ {\ng[i] += float64(k)\n}\n}\n}(t)\n}\nwait.Wait()\n}\n";

#[test]
fn what_go_allocates_is_named_by_the_line_outside_of_its_runtime() {
    let lab = Lab::new();
    std::fs::write(lab.path("main.go"), GO).unwrap();
    let built = Command::new("go")
        .args(["build", "-o", "program", "main.go"])
        .env("GOTOOLCHAIN", "local")
        .env("GOFLAGS", "-mod=mod")
        .env("GO111MODULE", "off")
        .env("GOCACHE", lab.path("cache"))
        .current_dir(lab.path(""))
        .status();
    if !built.is_ok_and(|status| status.success()) {
        eprintln!("skipped 1 test: no Go compiler (Debian, Ubuntu: apt install golang-go)");
        return;
    }
    let (name, _) = first_area(&lab, "true");
    assert_eq!(name, "main.newGrid (main.go:7)");
}
