//! `homing record` of programs that are more than one process, or end in unusual ways.

use crate::support::executable;
use crate::support::lab::{interrupt, stderr, Lab};
use homing_core::trace::Trace;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The traces of the children, by name: the program and the number of its references.
fn children(lab: &Lab) -> Vec<(String, u64)> {
    let entries = std::fs::read_dir(lab.path("")).unwrap().map(|entry| entry.unwrap().path());
    let mut traces: Vec<PathBuf> = entries
        .filter(|path| path.extension().is_some_and(|e| e == "trace") && !path.ends_with("out.trace"))
        .collect();
    traces.sort();
    traces
        .iter()
        .map(|path| {
            let bytes = std::fs::read(path).unwrap();
            let trace = Trace::open(&bytes).unwrap();
            assert!(trace.complete() && trace.ordered() && trace.damage().is_empty(), "{}", path.display());
            assert_eq!(
                (trace.summary().malformed, trace.summary().lost_segments),
                (0, 0),
                "{}",
                path.display()
            );
            (trace.header().command.join(" "), trace.references())
        })
        .collect()
}

#[test]
fn programs_of_a_shell_script_are_recorded_each_by_itself() {
    let lab = Lab::new();
    let text = "#!/bin/sh\nprintf 'b\\na\\n' | sort | tail -n 1\n/bin/echo done\nexit 6\n";
    let script = lab.script("script.sh", text);
    let output = lab.record(&["--follow"], &[script.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(6), "{}", stderr(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "b\ndone\n");
    lab.trace(|trace| assert!(trace.references() > 10_000));
    let found = children(&lab);
    for program in ["sort", "tail -n 1", "echo done"] {
        let named = found.iter().find(|(command, _)| command.ends_with(program));
        let (_, references) = named.unwrap_or_else(|| panic!("no {program} in {found:?}"));
        assert!(*references > 10_000, "{found:?}");
    }
    assert!(stderr(&output).contains("homing: 4 child processes:"), "{}", stderr(&output));
    assert!(!stderr(&output).contains("not recorded"), "{}", stderr(&output));
}

#[test]
fn a_child_that_runs_on_before_it_executes_a_program_is_named_after_that() {
    let lab = Lab::new();
    let program = lab.compile(
        "#include <sys/wait.h>\n#include <unistd.h>\nstatic volatile long a[60000];\n\
        int main(void) { if (fork() == 0) { for (int i = 0; i < 60000; i++) a[i] = i;\n\
        execl(\"/bin/echo\", \"echo\", \"late\", (char*)0); } int s; wait(&s); return 0; }\n",
        &[],
    );
    let output = lab.record(&["--follow"], &[program.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let found = children(&lab);
    let (command, references) = &found[0];
    assert!(command.ends_with("echo late") && *references > 60_000, "{found:?}");
}

#[test]
fn a_killed_recorder_ends_the_processes_and_leaves_a_readable_prefix() {
    let lab = Lab::new();
    let program = lab.compile(
        "#include <signal.h>\n#include <unistd.h>\nstatic volatile long a[100];\n\
        int main(void) { signal(SIGPIPE, SIG_IGN); fork(); for (long i = 0;; i++) a[i % 100] = i; }\n",
        &[],
    );
    let mut homing = lab.homing(&["--follow"], &[program.to_str().unwrap()]);
    let mut child = homing.stderr(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let part = lab.path("out.trace.part");
    let written = || {
        std::fs::read(&part).is_ok_and(|b| Trace::open(&b).is_ok_and(|trace| trace.references() > 100_000))
    };
    // Two minutes are for a machine with much else to do.
    for _ in 0..1200 {
        if written() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    child.kill().unwrap();
    // Both processes hold the pipe: it ends when they have ended.
    child.stdout.take().unwrap().read_to_end(&mut Vec::new()).unwrap();
    assert!(!child.wait().unwrap().success());
    // The next recording leaves it alone and says where it is.
    let before = std::fs::read(&part).unwrap();
    let next = lab.record(&[], &["true"]);
    assert!(stderr(&next).contains("out.trace.part: `homing trace recover"), "{}", stderr(&next));
    assert!(lab.path("out.trace").exists() && std::fs::read(&part).unwrap() == before);
    let mut recover = Command::new(env!("CARGO_BIN_EXE_homing"));
    let output =
        recover.args(["trace", "recover"]).arg(&part).arg("-o").arg(lab.path("out.trace")).output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
    let bytes = std::fs::read(lab.path("out.trace")).unwrap();
    assert!(Trace::open(&bytes).unwrap().references() > 100_000);
}

#[test]
fn no_child_of_a_followed_process_outlives_a_killed_recorder() {
    let lab = Lab::new();
    // The child waits until homing and with it the first process are killed, and then makes another.
    let program = lab.compile(
        "#include <stdio.h>\n#include <sys/wait.h>\n#include <unistd.h>\nstatic volatile long a[100];\n\
        int main(void) { int first = getpid();\n\
        if (fork() == 0) { write(1, \"up\\n\", 3); while (getppid() == first) usleep(1000);\n\
        if (fork() == 0) { write(1, \"unrecorded\\n\", 11); _exit(0); } wait(0); _exit(0); }\n\
        for (long i = 0;; i++) a[i % 100] = i; }\n",
        &[],
    );
    let mut homing = lab.homing(&["--follow"], &[program.to_str().unwrap()]);
    let mut homing = homing.stderr(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = homing.stdout.take().unwrap();
    let mut up = [0; 3];
    out.read_exact(&mut up).unwrap();
    homing.kill().unwrap();
    homing.wait().unwrap();
    // All processes hold the pipe: it ends when they have ended.
    let mut said = String::new();
    out.read_to_string(&mut said).unwrap();
    assert_eq!(said, "");
}

#[test]
fn a_file_without_a_path_is_executed_and_runs_unrecorded() {
    let lab = Lab::new();
    let program = lab.compile(
        "#define _GNU_SOURCE\n#include <fcntl.h>\n#include <sys/mman.h>\n#include <sys/syscall.h>\n\
        #include <sys/wait.h>\n#include <unistd.h>\nextern char** environ; static char b[1 << 16];\n\
        int main(void) { int fd = memfd_create(\"x\", MFD_CLOEXEC), in = open(\"/bin/echo\", O_RDONLY); long n;\n\
        while ((n = read(in, b, sizeof b)) > 0) if (write(fd, b, n) != n) return 1;\n\
        char* words[] = { \"echo\", \"of no path\", 0 };\n\
        if (fork() == 0) { syscall(SYS_execveat, fd, \"\", words, environ, AT_EMPTY_PATH); _exit(9); }\n\
        int s; wait(&s); return WEXITSTATUS(s); }\n",
        &[],
    );
    for options in [&[][..], &["--follow"]] {
        let output = lab.record(options, &[program.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "of no path\n");
        assert!(stderr(&output).contains("execveat): it runs unrecorded"), "{}", stderr(&output));
        lab.trace(|trace| assert!(trace.references() > 10_000));
    }
}

#[test]
fn a_program_that_closes_all_descriptors_before_it_executes_another_is_followed_in_silence() {
    let lab = Lab::new();
    let source = "#include <sys/wait.h>\n#include <unistd.h>\nint main(void) { if (fork() == 0) {\n\
        for (int fd = 3; fd < 2000; fd++) close(fd); execl(\"/bin/echo\", \"echo\", \"x\", (char*)0); }\n\
        int s; wait(&s); return 0; }\n";
    let program = lab.compile(source, &[]);
    let output = lab.record(&["--follow", "--quiet"], &[program.to_str().unwrap()]);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    assert_eq!(children(&lab).len(), 1);
}

const FORKS: &str =
    "#include <stdlib.h>\n#include <sys/wait.h>\n#include <unistd.h>\nstatic volatile long a[3000];\n\
    int main(int n, char** v) { for (int c = 0; c < atoi(v[1]); c++) if (fork() == 0) {\n\
    for (int i = 0; i < 3000; i++) a[i] = i; _exit(0); } while (wait(0) > 0); return 9; }\n";

#[test]
fn many_short_children_are_recorded() {
    let lab = Lab::new();
    let program = lab.compile(FORKS, &[]);
    let output = lab.record(&["--follow"], &[program.to_str().unwrap(), "40"]);
    assert_eq!(output.status.code(), Some(9), "{}", stderr(&output));
    let found = children(&lab);
    assert_eq!(found.len(), 40, "{}", stderr(&output));
    let counts: Vec<u64> = found.iter().map(|(_, references)| *references).collect();
    assert!(counts.iter().all(|n| (3000..4000).contains(n)), "{counts:?}");
}

#[test]
fn a_child_that_outlives_the_program_is_recorded_to_its_end() {
    let lab = Lab::new();
    let source = "#include <unistd.h>\nstatic volatile long a[50000];\n\
        int main(void) { if (fork() != 0) return 4; setsid(); for (int fd = 0; fd < 2000; fd++) close(fd);\n\
        for (int k = 0; k < 10; k++) for (int i = 0; i < 50000; i++) a[i] = i; return 0; }\n";
    let program = lab.compile(source, &[]);
    let output = lab.record(&["--follow"], &[program.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    let found = children(&lab);
    assert!(found.len() == 1 && found[0].1 > 500_000, "{found:?}");
}

#[test]
fn what_valgrind_cannot_execute_runs_unrecorded() {
    let lab = Lab::new();
    let privileged = lab.path("privileged");
    executable::copy(&std::fs::read("/bin/true").unwrap(), &privileged, 0o4755);
    let script = format!("{0} && /bin/echo alive && exec {0}", privileged.display());
    for options in [&["--follow"][..], &[]] {
        let output = lab.record(options, &["sh", "-c", &script]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "alive\n");
        assert!(stderr(&output).contains("privileged: set-user-id"), "{}", stderr(&output));
    }
}

#[test]
fn avx512_code_is_named_as_the_cause() {
    let lab = Lab::new();
    // vaddps %zmm0, %zmm0, %zmm0, as bytes: the assembler need not know it, nor the processor.
    let source = "int main(void) { __asm__ volatile(\".byte 0x62,0xf1,0x7c,0x48,0x58,0xc0\"); return 0; }\n";
    let program = lab.compile(source, &[]);
    let output = lab.record(&[], &[program.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(128 + 4), "{}", stderr(&output));
    assert!(stderr(&output).contains("uses AVX-512 instructions"), "{}", stderr(&output));
    assert!(lab.trace(|trace| trace.references()) > 1000);
}

#[test]
fn a_second_interrupt_ends_at_once() {
    let lab = Lab::new();
    let source = "#include <signal.h>\n#include <stdio.h>\nstatic volatile long a[1000];\n\
        int main(void) { signal(SIGINT, SIG_IGN); puts(\"running\"); fflush(stdout);\n\
        for (long i = 0;; i++) a[i % 1000] = i; }\n";
    let program = lab.compile(source, &[]);
    let mut child = lab.start(&["--limit", "1000000"], &[program.to_str().unwrap()]);
    interrupt(&child);
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert!(child.try_wait().unwrap().is_none(), "the program ignores the first one");
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(!lab.path("out.trace").exists());
    let (part, mended) = (lab.path("out.trace.part"), lab.path("mended.trace"));
    let recover = Command::new(env!("CARGO_BIN_EXE_homing"))
        .args(["trace", "recover"])
        .arg(&part)
        .arg("-o")
        .arg(&mended)
        .output()
        .unwrap();
    assert_eq!(recover.status.code(), Some(5), "{}", stderr(&recover));
    let bytes = std::fs::read(&mended).unwrap();
    assert!(Trace::open(&bytes).unwrap().complete());
}

/// A recorder as it was before the wire had versions: it attaches, posts one segment and ends.
const OLD_RECORDER: &str =
    "#include <stdio.h>\n#include <stdlib.h>\n#include <sys/mman.h>\n#include <sys/stat.h>\n\
    #include <unistd.h>\nint main(void) { int memory, credit, full; unsigned segment; struct stat s;\n\
    sscanf(getenv(\"HOMING_WIRE\"), \"%d,%d,%d\", &memory, &credit, &full); fstat(memory, &s);\n\
    unsigned* header = mmap(0, s.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);\n\
    header[5] = 2; read(credit, &segment, 4); unsigned post[4] = {segment, 1, 0, 0}; write(full, post, 16);\n\
    puts(\"done\"); return 0; }\n";

#[test]
fn a_recorder_of_another_version_is_refused() {
    let lab = Lab::new();
    let program = lab.compile(OLD_RECORDER, &[]);
    let output = lab.record(&["--recorder", "tsan"], &[program.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "done\n");
    assert!(stderr(&output).contains("speaks version 0 of the wire"), "{}", stderr(&output));
    assert!(!lab.path("out.trace").exists());
}
