//! `homing record` from outside: real programs under the Valgrind recorder.

use crate::support::lab;
use crate::support::lab::{interrupt, stderr, Lab};
use homing_core::trace::{Event, Step, Trace};
use std::io::Write;
use std::process::Command;
use std::time::Duration;

fn events(trace: &Trace<'_>) -> Vec<Event> {
    let steps = trace.threads().flat_map(|(thread, _)| trace.thread_steps(thread));
    steps.filter_map(|step| if let Step::Event(event) = step { Some(event) } else { None }).collect()
}

const FILL: &str = "#include <stdlib.h>\nlong table[1000];\n\
    int main(int n, char** v) { long rounds = atol(v[1]); volatile long* a = malloc(8000);\n\
    for (long k = 0; k < rounds; k++) for (int i = 0; i < 1000; i++) { a[i] += k; table[i] = a[i]; }\n\
    return 3; }\n";

fn cachegrind_references(program: &str, rounds: &str) -> u64 {
    let output = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null", program, rounds])
        .output()
        .unwrap();
    let text = stderr(&output);
    let line = text.lines().find(|l| l.contains("D ") && l.contains("refs:")).unwrap();
    let number = line.split_once("refs:").unwrap().1.split('(').next().unwrap();
    number.replace(',', "").trim().parse().unwrap()
}

#[test]
fn the_number_of_references_agrees_with_cachegrind() {
    let lab = Lab::new();
    let program = lab.compile(FILL, &[]);
    let program = program.to_str().unwrap();
    let recorded = ["100", "600"].map(|rounds| {
        assert_eq!(lab.record(&[], &[program, rounds]).status.code(), Some(3));
        lab.trace(|trace| trace.references())
    });
    let counted = ["100", "600"].map(|rounds| cachegrind_references(program, rounds));
    // The start differs a little (environment, preloaded library); 500 rounds of the loop must not.
    let (ours, theirs) = ((recorded[1] - recorded[0]) as f64, (counted[1] - counted[0]) as f64);
    assert!((ours / theirs - 1.0).abs() < 1e-3, "recorded {ours}, cachegrind counts {theirs}");
}

#[test]
fn allocations_symbols_and_pages_are_known() {
    let lab = Lab::new();
    let program = lab.compile(FILL, &[]);
    let output = lab.record(&[], &[program.to_str().unwrap(), "5"]);
    assert!(stderr(&output).contains("bytes a reference"), "{}", stderr(&output));
    lab.trace(|trace| {
        let table = trace.symbols().iter().find(|s| trace.names().get(s.name) == "table").unwrap();
        assert_eq!(table.size, 8000);
        let site = events(trace).into_iter().find_map(|event| match event {
            Event::Alloc { size: 8000, site, .. } => Some(site),
            _ => None,
        });
        assert!(trace.names().get(site.unwrap()).starts_with("main (program.c:3)"));
        assert_eq!(trace.header().command[1], "5");
    });
}

/// Valgrind passes over sections that it does not know. Most of Go's variables are in such a one.
#[test]
fn variables_have_names_in_whatever_section_they_are() {
    let lab = Lab::new();
    let source = "__attribute__((section(\".noptrbss,\\\"aw\\\",@nobits#\"))) static long table[4096];\n\
        static volatile long plain[4096];\n\
        int main(void) { for (int i = 0; i < 4096; i++) ((volatile long*)table)[i] = plain[i]; return 0; }\n";
    let program = lab.compile(source, &[]);
    assert_eq!(lab.record(&[], &[program.to_str().unwrap()]).status.code(), Some(0));
    lab.trace(|trace| {
        for name in ["table", "plain"] {
            let sizes = trace.symbols().iter().filter(|s| trace.names().get(s.name) == name).map(|s| s.size);
            assert_eq!(sizes.collect::<Vec<_>>(), [32768], "{name}");
        }
    });
}

#[test]
fn threads_are_told_apart_and_joined() {
    let lab = Lab::new();
    let source = "#include <pthread.h>\nstatic long data[3][5000];\n\
        static void* work(void* p) { volatile long* d = p; for (int i = 0; i < 5000; i++) d[i] = i; return 0; }\n\
        int main(void) { pthread_t t[3]; for (int i = 0; i < 3; i++) pthread_create(&t[i], 0, work, data[i]);\n\
        for (int i = 0; i < 3; i++) pthread_join(t[i], 0); return 0; }\n";
    let program = lab.compile(source, &["-pthread"]);
    assert_eq!(lab.record(&[], &[program.to_str().unwrap()]).status.code(), Some(0));
    lab.trace(|trace| {
        let threads: Vec<u64> = trace.threads().map(|(_, references)| references).collect();
        assert_eq!(threads.len(), 4);
        assert!(threads[1..].iter().all(|&n| (5000..7000).contains(&n)), "{threads:?}");
        let events = events(trace);
        let count = |wanted: fn(&Event) -> bool| events.iter().filter(|e| wanted(e)).count();
        assert_eq!(count(|e| matches!(e, Event::ThreadStart { .. })), 3);
        assert_eq!(count(|e| matches!(e, Event::ThreadJoin { .. })), 3);
        assert!(count(|e| matches!(e, Event::Sync { .. })) >= 3);
    });
}

#[test]
fn openmp_programs_record() {
    let lab = Lab::new();
    let source = "static double a[20000];\nint main(void) { double s = 0; for (int k = 0; k < 3; k++) {\n\
        _Pragma(\"omp parallel for reduction(+:s)\") for (int i = 0; i < 20000; i++) { a[i] += i; s += a[i]; } }\n\
        return s > 0 ? 0 : 1; }\n";
    let program = lab.compile(source, &["-fopenmp"]);
    assert_eq!(lab.record(&["--slice", "100"], &[program.to_str().unwrap()]).status.code(), Some(0));
    let threads: Vec<u64> = lab.trace(|trace| trace.threads().map(|(_, n)| n).collect());
    assert!(threads.len() == 2 && threads[1] > 3 * 2 * 10_000, "{threads:?}");
}

#[test]
fn a_program_that_dies_leaves_a_complete_trace() {
    for (death, code) in [("raise(SIGKILL);", 137), ("*(volatile int*)0 = 1;", 139), ("raise(SIGTERM);", 143)]
    {
        let lab = Lab::new();
        let source = format!(
            "#include <signal.h>\nstatic volatile long a[100000];\n\
             int main(void) {{ for (int i = 0; i < 100000; i++) a[i] = i; {death} return 0; }}\n"
        );
        let program = lab.compile(&source, &[]);
        let output = lab.record(&[], &[program.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(code), "{death} {}", stderr(&output));
        assert!(lab.trace(|trace| trace.references()) > 100_000, "{death}");
    }
}

#[test]
fn exec_is_followed_and_children_are_counted() {
    let lab = Lab::new();
    let source = "#include <unistd.h>\n#include <sys/wait.h>\nstatic volatile long a[50000];\n\
        int main(int n, char** v) { if (n == 2) { execl(\"/absent\", \"absent\", (char*)0);\n\
        execl(v[0], v[0], (char*)0); }\n\
        if (fork() == 0) execlp(\"true\", \"true\", (char*)0); wait(0);\n\
        for (int i = 0; i < 50000; i++) a[i] = i; return 5; }\n";
    let program = lab.compile(source, &[]);
    let output = lab.record(&[], &[program.to_str().unwrap(), "again"]);
    assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
    assert!(stderr(&output).contains("1 child process"), "{}", stderr(&output));
    assert!(stderr(&output).contains("program again`, which then executed another"), "{}", stderr(&output));
    lab.trace(|trace| {
        let threads: Vec<u64> = trace.threads().map(|(_, n)| n).collect();
        assert!(threads.len() == 1 && threads[0] > 50_000, "{threads:?}");
        assert_eq!(trace.header().command.len(), 1);
        assert!(events(trace).iter().any(|e| matches!(e, Event::Fork { .. })));
    });
}

#[test]
fn skip_and_limit_choose_references() {
    let lab = Lab::new();
    let program = lab.compile(FILL, &[]);
    let output = lab.record(&["--skip", "50K", "--limit", "70000"], &[program.to_str().unwrap(), "200"]);
    assert_eq!(output.status.code(), Some(3));
    lab.trace(|trace| {
        let summary = trace.summary();
        assert_eq!(summary.references - summary.first_touches, 70_000);
        assert_eq!(summary.skipped + summary.first_touches, 50_000);
    });
}

#[test]
fn a_signal_ends_the_program_and_completes_the_trace() {
    let lab = Lab::new();
    let source = "#include <stdio.h>\nstatic volatile long a[1000];\n\
        int main(void) { puts(\"running\"); fflush(stdout); for (long i = 0;; i++) a[i % 1000] = i; }\n";
    let program = lab.compile(source, &[]);
    let mut child = lab.start(&["--limit", "1000000"], &[program.to_str().unwrap()]);
    std::thread::sleep(Duration::from_millis(200));
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(lab.trace(|trace| trace.references()) > 1000);
}

#[test]
fn a_full_disk_lets_the_program_go_on() {
    let lab = Lab::new();
    let source = "#include <stdio.h>\n#include <stdlib.h>\nstatic volatile long a[1 << 20];\n\
        int main(int n, char** v) { unsigned s = 1; puts(\"running\"); fflush(stdout); getchar();\n\
        for (int i = 0; i < atoi(v[1]); i++) { s = s * 1103515245 + 12345; a[s >> 12] = i; } puts(\"done\"); return 0; \
        }\n";
    let program = lab.compile(source, &[]);
    // The trace of the second is only written when it has ended.
    for (rounds, said) in [("4000000", "goes on without being recorded"), ("10", "cannot write the trace")] {
        let mut child = lab.start(&[], &[program.to_str().unwrap(), rounds]);
        // The disk is full, for files that homing has open already, too.
        let pid = child.id().to_string();
        let status = Command::new("prlimit").args(["--pid", &pid, "--fsize=1000"]).status().unwrap();
        assert!(status.success());
        child.stdin.take().unwrap().write_all(b"\n").unwrap();
        let output = child.wait_with_output().unwrap();
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "unning\ndone\n");
        assert!(text.contains("File too large") && text.contains(said), "{text}");
        assert!(text.contains("homing trace recover"), "{text}");
        assert!(!lab.path("out.trace").exists());
    }
}

#[test]
fn of_two_recordings_of_one_name_the_second_runs_its_program_without() {
    let lab = Lab::new();
    let (wanted, homing) = (lab.path("out.trace"), env!("CARGO_BIN_EXE_homing"));
    let script = format!("{homing} record -o {} -- sh -c 'echo begun; exit 6'; echo $?", wanted.display());
    let output = lab.record(&[], &["sh", "-c", &script]);
    assert_eq!((output.status.code(), &*output.stdout), (Some(0), &b"begun\n6\n"[..]), "{}", stderr(&output));
    let said = "another run is writing";
    assert!(
        stderr(&output).contains(said) && stderr(&output).contains("out.trace.part"),
        "{}",
        stderr(&output)
    );
    lab.trace(|trace| assert!(trace.references() > 10_000));
}

#[test]
fn each_process_of_a_job_has_a_trace_of_its_own() {
    let lab = Lab::new();
    let job = |options: &[&str]| {
        let begin = |rank: i32| {
            let mut homing = Command::new(env!("CARGO_BIN_EXE_homing"));
            homing.env("HOMING_LIB", lab::recorder()).env("OMPI_COMM_WORLD_RANK", rank.to_string());
            homing.current_dir(lab.path("")).args(["record", "--quiet"]).args(options);
            homing.args(["--", "sh", "-c", &format!("exit {rank}")]).spawn().unwrap()
        };
        let all: Vec<_> = (0..3).map(begin).collect();
        for (rank, mut homing) in (0..).zip(all) {
            assert_eq!(homing.wait().unwrap().code(), Some(rank));
        }
    };
    job(&[]);
    job(&["-o", "out.trace"]);
    job(&["-o", "%r%%.%q{OMPI_COMM_WORLD_RANK}.trace"]);
    for name in ["homing.0", "homing.1", "homing.2", "out", "out.1", "out.2", "0%.0", "1%.1", "2%.2"] {
        let bytes =
            std::fs::read(lab.path(&format!("{name}.trace"))).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(Trace::open(&bytes).unwrap().references() > 1000, "{name}");
    }
    assert_eq!(std::fs::read_dir(lab.path("")).unwrap().count(), 9);
    // Where it cannot be recorded, it runs all the same; without a job that is an error.
    for (rank, status, said) in
        [(Some("1"), 7, "the program runs without being recorded"), (None, 3, "make recorders")]
    {
        let mut without = lab.homing(&[], &["sh", "-c", "exit 7"]);
        without.env("HOMING_LIB", "/absent");
        without.envs(rank.map(|rank| ("PMI_RANK", rank)));
        let output = without.output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{}", stderr(&output));
        assert!(stderr(&output).contains(said), "{}", stderr(&output));
    }
    let mut homing = Command::new(env!("CARGO_BIN_EXE_homing"));
    let output = homing.args(["record", "-o", "%q{HOMING_NO_SUCH_VARIABLE}", "--", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("HOMING_NO_SUCH_VARIABLE is not set"), "{}", stderr(&output));
}

#[test]
fn children_of_children_are_counted() {
    let lab = Lab::new();
    let source = "#include <sys/wait.h>\n#include <unistd.h>\nint main(void) { if (fork() == 0) {\n\
        for (int c = 0; c < 2; c++) if (fork() == 0) _exit(0); while (wait(0) > 0); _exit(0); }\n\
        wait(0); return 0; }\n";
    let program = lab.compile(source, &[]);
    let output = lab.record(&[], &[program.to_str().unwrap()]);
    assert!(stderr(&output).contains("3 child processes were not recorded"), "{}", stderr(&output));
    let output = lab.record(&["--follow"], &[program.to_str().unwrap()]);
    assert!(stderr(&output).contains("homing: 3 child processes:"), "{}", stderr(&output));
    assert!(!stderr(&output).contains("not recorded"), "{}", stderr(&output));
}

#[test]
fn what_cannot_be_recorded_is_refused_first() {
    let lab = Lab::new();
    assert_eq!(lab.record(&[], &["no-such-program"]).status.code(), Some(127));
    assert_eq!(lab.record(&[], &["/etc/passwd"]).status.code(), Some(126));
    let mut without = lab.homing(&[], &["true"]);
    without.env("HOMING_LIB", "/absent");
    let output = without.output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("make recorders"));
    std::fs::write(lab.path("out.trace"), "precious").unwrap();
    let output = lab.record(&[], &["true"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(std::fs::read(lab.path("out.trace")).unwrap(), b"precious");
}
