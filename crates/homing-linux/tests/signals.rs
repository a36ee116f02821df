//! Programs under signals of every kind are held and made to call, and end as if nothing had been: `tests/signals/` has
//! the programs, which check themselves.
#![cfg(target_arch = "x86_64")]

use homing_linux::hint_faults::scanner::Scanner;
use homing_linux::hint_faults::{switch_policy, Switched};
use homing_linux::policy;
use homing_linux::proc::{Pid, Proc, Tid};
use homing_linux::ptrace;
use homing_linux::ptrace::call::Caller;
use homing_linux::ptrace::standstill::Standstill;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// How many holds a test makes: as many as `HOMING_HOLDS` says, where that is set.
fn holds() -> usize {
    std::env::var("HOMING_HOLDS").map_or(500, |text| text.parse().expect("HOMING_HOLDS: a number"))
}

/// A program that says `ready`, runs until its input ends, and checks itself.
struct Program {
    child: Child,
    out: BufReader<ChildStdout>,
    /// What it said after that.
    word: String,
}

impl Program {
    fn start(command: &mut Command) -> Program {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let word =
            line.trim().strip_prefix("ready").expect("a line that begins with ready").trim().to_owned();
        Program { child, out, word }
    }

    fn pid(&self) -> Pid {
        Pid(self.child.id() as i32)
    }

    fn poke(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
    }

    /// It must end with 0. Gives what it printed.
    fn end(mut self) -> String {
        drop(self.child.stdin.take());
        let mut text = String::new();
        self.out.read_to_string(&mut text).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}: {text}");
        text
    }
}

/// Holds all threads again and again, and makes calls in the name of each, until threads were held as often as
/// [`holds`] says. With `stops` the process is also stopped and continued by signals.
fn disturb(program: &mut Program, stops: bool) {
    let (proc, pid) = (Proc::default(), program.pid());
    let (mut held, mut refused, mut round) = (0, 0, 0);
    while held < holds() {
        held += Standstill::of(&proc, &[pid]).unwrap().count().held;
        // What a thread traces is let go when that ends, as the processes that the engine uses for it.
        let made =
            std::thread::scope(|scope| scope.spawn(|| call_in_each(&proc, pid, round)).join().unwrap());
        held += made.0;
        refused += made.1;
        program.poke();
        if round.is_multiple_of(64) {
            change_policies(&proc, pid);
            if stops {
                stop_and_continue(pid);
            }
        }
        round += 1;
    }
    assert!(refused * 10 < held, "{refused} threads could not be held");
}

/// True if a thread is left alone, since it does not run outside of the kernel.
fn is_left_alone(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Makes calls in the name of each thread that runs. Returns how many made them, and how many could not be held.
fn call_in_each(proc: &Proc, pid: Pid, round: usize) -> (usize, usize) {
    let memory = ptrace::memory(pid).unwrap();
    let (mut held, mut refused) = (0, 0);
    for tid in proc.tasks(pid).unwrap() {
        let deadline = Instant::now() + Duration::from_millis(100);
        let mut caller = match Caller::of(proc, pid, tid, &memory, deadline) {
            Ok(caller) => caller,
            Err(error) => {
                // Some threads live for a moment only.
                refused += usize::from(!is_left_alone(&error));
                continue;
            }
        };
        held += 1;
        match caller.call(libc::SYS_getpid, &[]) {
            Ok(answer) => assert_eq!(answer, pid.0 as u64),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ESRCH), "{error}"),
        }
        if round.is_multiple_of(16) {
            let anonymous = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
            let address = caller.call(libc::SYS_mmap, &[0, 4096, 3, anonymous, u64::MAX, 0]).unwrap();
            caller.call(libc::SYS_munmap, &[address, 4096]).unwrap();
        }
    }
    (held, refused)
}

/// A stop that comes and goes while the process is held: it must run afterwards.
fn stop_and_continue(pid: Pid) {
    let send = |signal| {
        // SAFETY: a signal to a child of ours that has not been waited for.
        assert_eq!(unsafe { libc::kill(pid.0, signal) }, 0);
    };
    send(libc::SIGSTOP);
    let held = Standstill::of(&Proc::default(), &[pid]).unwrap();
    send(libc::SIGCONT);
    drop(held);
}

/// What the source of hint faults does to a process at its beginning and end.
fn change_policies(proc: &Proc, pid: Pid) {
    let begin = Instant::now();
    let scanner = loop {
        match Scanner::start(proc, pid) {
            Err(error) if is_left_alone(&error) => assert!(begin.elapsed().as_secs() < 60, "{error}"),
            result => break result.unwrap(),
        }
    };
    let switch = |from, to| switch_policy(proc, pid, from, to, scanner.scratch()).unwrap();
    assert_ne!(switch(policy::DEFAULT, policy::LOCAL), Switched::default());
    // If all slept, nothing was changed. Threads that sleep now keep the policy, and may start others with it.
    let back = switch(policy::LOCAL, policy::DEFAULT);
    let local = |tid: &Tid| {
        let text = proc.thread_policy(pid, *tid);
        text.is_some_and(|text| policy::mode(&text) == Some(policy::LOCAL))
    };
    assert!(back.asleep > 0 || !proc.tasks(pid).unwrap().iter().any(local), "{back:?}");
    scanner.end(proc).unwrap();
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/signals").join(name)
}

fn compile(directory: &Path, name: &str) -> PathBuf {
    let path = directory.join(name);
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-Wall", "-Werror", "-pthread", "-o"]).arg(&path).arg(source(&format!("{name}.c")));
    cc.arg("-lutil");
    assert!(cc.status().expect("a C compiler").success());
    path
}

#[test]
fn programs_that_execute_others_while_they_are_held_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let path = compile(directory.path(), "execs");
    let mut program = Program::start(Command::new(&path).args(["40", "40"]));
    let (proc, pid) = (Proc::default(), program.pid());
    program.poke();
    let mut held = 0;
    while program.child.try_wait().unwrap().is_none() {
        held += Standstill::of(&proc, &[pid]).unwrap().count().held;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // It may have gone on to the next program, or be between two.
                let Ok(memory) = ptrace::memory(pid) else { return };
                let Ok(mut caller) = Caller::of_any(&proc, pid, &memory) else { return };
                if let Ok(answer) = caller.call(libc::SYS_getpid, &[]) {
                    assert_eq!(answer, pid.0 as u64);
                }
            });
        });
    }
    assert!(held > 0, "no thread was held");
    assert_eq!(program.end(), "executed 40 times\n");
}

#[test]
fn calls_of_every_kind_end_as_without_holds() {
    let directory = tempfile::tempdir().unwrap();
    let program = Program::start(&mut Command::new(compile(directory.path(), "calls")));
    let (proc, pid) = (Proc::default(), program.pid());
    let traced = Pid(program.word.parse().unwrap());
    let mut held = 0;
    while held < holds() {
        let count = Standstill::of(&proc, &[pid, traced]).unwrap().count();
        held += count.held;
        assert_eq!(count.refused, 1, "a process that somebody else traces");
        held += std::thread::scope(|scope| scope.spawn(|| call_in_each(&proc, pid, 0)).join().unwrap()).0;
    }
    eprintln!("{held} holds\n{}", program.end().trim());
}

#[test]
fn programs_under_timers_are_not_harmed_by_holds() {
    let directory = tempfile::tempdir().unwrap();
    let path = compile(directory.path(), "signals");
    for microseconds in ["200", "1000", "4000", "10000"] {
        let mut program = Program::start(Command::new(&path).arg(microseconds));
        disturb(&mut program, false);
        eprintln!("timers of {microseconds} us: {}", program.end().trim());
    }
    let mut program = Program::start(Command::new(&path).args(["1000", "stopped"]));
    disturb(&mut program, true);
    eprintln!("stopped and continued: {}", program.end().trim());
}

/// True if a command is there; if not, says which test is skipped.
fn there(command: &str, test: &str) -> bool {
    let asked = Command::new(command).arg("version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if asked.is_err() {
        eprintln!("SKIPPED 1 test, {test}: `{command}` is not installed (scripts/setup.sh test)");
    }
    asked.is_ok()
}

#[test]
fn a_go_program_that_preempts_itself_is_not_harmed() {
    if !there("go", "a Go program under the tracer") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("preempted");
    let mut go = Command::new("go");
    go.args(["build", "-o"]).arg(&path).arg(source("preempted.go"));
    go.env("GO111MODULE", "off").env("GOCACHE", directory.path().join("cache"));
    assert!(go.status().unwrap().success());
    let mut program = Program::start(&mut Command::new(path));
    disturb(&mut program, true);
    eprintln!("{}", program.end().trim());
}

#[test]
fn a_java_program_with_safepoints_is_not_harmed() {
    if !there("java", "a Java program under the tracer") {
        return;
    }
    let mut java = Command::new("java");
    java.args(["-Xmx256m", "-XX:-UsePerfData"]).arg(source("Safepoints.java"));
    let mut program = Program::start(&mut java);
    disturb(&mut program, true);
    eprintln!("{}", program.end().trim());
}
