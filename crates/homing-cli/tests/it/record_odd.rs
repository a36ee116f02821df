//! Programs that do unusual things with threads, stacks, processes and mappings, under both recorders: they end as they
//! do without one, and leave a whole trace.

use crate::support::lab::Lab;
use crate::tsan::build;
use crate::tsan::build::Compiler;
use homing_core::trace::Trace;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Output};

/// As `homing record` passes a status through.
fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// What the program does by itself, and how it ends.
fn programs() -> Vec<(String, i32)> {
    let plain = build::program(Compiler::Gcc, "odd.c", false);
    let names = Command::new(&plain).output().unwrap().stdout;
    let names: Vec<String> = String::from_utf8(names).unwrap().lines().map(str::to_owned).collect();
    assert!(names.len() > 10);
    let status = |name: &String| code(Command::new(&plain).arg(name).status().unwrap());
    names.iter().map(|name| (name.clone(), status(name))).collect()
}

fn check(what: &str, expected: i32, output: &Output, trace: &Path) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(code(output.status), expected, "{what}: {errors}");
    assert!(!errors.contains("warning") && !errors.contains("panicked"), "{what}: {errors}");
    let bytes = std::fs::read(trace).unwrap_or_else(|e| panic!("{what}: {e}: {errors}"));
    let trace = Trace::open(&bytes).unwrap();
    assert!(trace.complete() && trace.ordered() && trace.damage().is_empty(), "{what}");
    let summary = trace.summary();
    assert_eq!((summary.malformed, summary.lost_segments, summary.lost), (0, 0, 0), "{what}");
    assert!(summary.references > 100, "{what}: {} references", summary.references);
}

#[test]
fn programs_built_for_it_end_as_ever_and_leave_a_whole_trace() {
    let program = build::program(Compiler::Gcc, "odd.c", true);
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out.trace");
    for (name, expected) in programs() {
        let mut homing = build::homing();
        homing.args(["record", "--merge", "--quiet", "--recorder", "tsan", "-o"]).arg(&out).arg("--");
        let output = homing.arg(&program).arg(&name).output().unwrap();
        check(&name, expected, &output, &out);
        std::fs::remove_file(&out).unwrap();
    }
}

#[test]
fn programs_under_valgrind_end_as_ever_and_leave_a_whole_trace() {
    let program = build::program(Compiler::Gcc, "odd.c", false);
    for (name, expected) in programs() {
        for options in [&["--quiet"][..], &["--quiet", "--follow"]] {
            let lab = Lab::new();
            let output = lab.record(options, &[program.to_str().unwrap(), &name]);
            for file in std::fs::read_dir(lab.path("")).unwrap() {
                let file = file.unwrap().path();
                assert_eq!(file.extension().and_then(|e| e.to_str()), Some("trace"), "{name}: {file:?}");
                let bytes = std::fs::read(&file).unwrap();
                assert!(Trace::open(&bytes).unwrap().complete(), "{name}: {file:?}");
            }
            check(&name, expected, &output, &lab.path("out.trace"));
        }
    }
}

/// Programs that Valgrind does not carry, each with what homing says of it.
const BEYOND: [(&str, &str, &str); 4] = [
    (
        "mappings",
        "for (int i = 0; i < 40000; i++) mmap(0, 4096, 1 + i % 2, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
         return 0;",
        "30000 mappings",
    ),
    (
        "a reservation",
        "return mmap(0, 16UL << 40, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) == MAP_FAILED;",
        "17592186044416 bytes of addresses",
    ),
    ("userfaultfd", "return syscall(SYS_userfaultfd, 0) < 0;", "system call 323 (userfaultfd)"),
    (
        "filters",
        "static struct sock_filter all[] = {{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_KILL_PROCESS}};
         struct sock_fprog filter = {1, all};
         prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
         return getpid() < 0;",
        "filter of system calls (seccomp)",
    ),
];

#[test]
fn what_valgrind_does_not_carry_is_said_in_one_line_with_what_to_do() {
    for (what, body, said) in BEYOND {
        let lab = Lab::new();
        let source = format!(
            "#define _GNU_SOURCE 1
             #include <linux/filter.h>
             #include <linux/seccomp.h>
             #include <sys/mman.h>
             #include <sys/prctl.h>
             #include <sys/syscall.h>
             #include <unistd.h>
             int main(void) {{ {body} }}"
        );
        let program = lab.compile(&source, &[]);
        let output = lab.record(&["--quiet"], &[program.to_str().unwrap()]);
        let errors = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<&str> = errors.lines().filter(|line| line.contains(said)).collect();
        assert_eq!(lines.len(), 1, "{what}: {errors}");
        assert!(lines[0].starts_with("homing: ") && lines[0].contains("homing cc"), "{what}: {errors}");
        assert!(!errors.contains("valgrind.org"), "{what}: {errors}");
    }
}
