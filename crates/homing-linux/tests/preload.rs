//! Programs with the preloaded library (`preload/scan.c`) have a scanning helper without anything being injected, and
//! are else as they were; others get one injected.
#![cfg(target_arch = "x86_64")]

use homing_linux::hint_faults::preload;
use homing_linux::hint_faults::scanner::{Adoption, Origin, Scanner};
use homing_linux::proc::{Pid, Proc, Tid};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::{mpsc, OnceLock};
use std::time::{Duration, Instant};

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The directory with the library and the test programs, built once a test run.
fn built() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("preload-tests");
        // A run of one of these tests by another one finds it built, and in use.
        if std::env::var_os("HOMING_FAIL").is_some() {
            return directory;
        }
        std::fs::create_dir_all(&directory).unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let out = format!("OUT={}", directory.join("preload").display());
        run(Command::new("make").arg("-s").arg("-C").arg(root.join("preload")).arg(out));
        let source = root.join("tests/preload/plain.c");
        for (name, option) in [("plain", "-pthread"), ("static", "-static")] {
            run(Command::new("cc")
                .args(["-O1", "-pthread", option, "-o"])
                .arg(directory.join(name))
                .arg(&source));
        }
        directory
    })
}

/// The command with the environment that `homing run` gives it.
fn preloaded(mut command: Command) -> Command {
    let library = built().join(preload::LIBRARY);
    command.envs(preload::environment(&library, |_| None).unwrap());
    command
}

fn plain(name: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(built().join(name));
    command.args(arguments);
    command
}

/// A program that runs until its input ends.
struct Program(Child, Option<BufReader<ChildStdout>>);

impl Program {
    fn start(mut command: Command) -> Program {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Program(child, Some(out))
    }

    fn pid(&self) -> Pid {
        Pid(self.0.id() as i32)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.1.as_mut().unwrap().read_line(&mut line).unwrap();
        line
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Looks until it is known whether the process has a helper of its own.
fn adopt(pid: Pid) -> Adoption {
    let mut found = Adoption::Expected;
    until("the library has decided", || {
        found = Scanner::adopt(&Proc::default(), pid).unwrap();
        !matches!(found, Adoption::Expected)
    });
    found
}

fn adopted(pid: Pid) -> Scanner {
    match adopt(pid) {
        Adoption::Adopted(scanner) => scanner,
        other => panic!("no helper: {other:?}"),
    }
}

/// A helper in a program that runs, which a busy machine may not give a CPU at once.
fn started(pid: Pid) -> Scanner {
    let mut scanner = None;
    until("a thread of the program runs", || {
        match Scanner::start(&Proc::default(), pid) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            result => scanner = Some(result.unwrap()),
        }
        scanner.is_some()
    });
    scanner.unwrap()
}

fn has_ended(process: Pid) -> bool {
    Proc::default().stat(process, Tid(process.0)).map_or(true, |stat| matches!(stat.state, 'Z' | 'X'))
}

fn pass(scanner: &mut Scanner) {
    scanner.begin_pass(&Proc::default()).unwrap();
    until("ready", || scanner.ready().unwrap());
    scanner.go().unwrap();
    until("passed", || scanner.passed().unwrap().is_some());
}

#[test]
fn a_preloaded_helper_scans_and_ends() {
    let program = Program::start(preloaded(Command::new("cat")));
    let mut scanner = adopted(program.pid());
    assert_eq!(scanner.origin(), Origin::Preloaded);
    assert_eq!(Proc::default().children(program.pid()), [], "it is nobody's child to wait for");
    let helper = scanner.helper();
    for number in 1..=2 {
        pass(&mut scanner);
        assert!(!has_ended(helper), "after pass {number}");
    }
    scanner.end(&Proc::default()).unwrap();
    assert!(has_ended(helper));
    assert!(matches!(adopt(program.pid()), Adoption::None), "it is not taken for one that is there");
}

/// Runs another test of this file in a process where every use of ptrace fails.
fn without_ptrace(test: &str) -> Output {
    built();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test]).env("HOMING_FAIL", "ptrace=EPERM/1").output().unwrap()
}

#[test]
fn a_preloaded_helper_needs_no_ptrace() {
    let output = without_ptrace("a_preloaded_helper_scans_and_ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let output = without_ptrace("programs_without_the_library_get_one_injected");
    assert!(!output.status.success(), "ptrace did not fail, or the injection went without");
}

#[test]
fn programs_without_the_library_get_one_injected() {
    let dead = {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        child.id().to_string()
    };
    let mut no_engine = preloaded(plain("plain", &["busy"]));
    no_engine.env("HOMING_SCAN", dead);
    for (what, command) in [
        ("static", preloaded(plain("static", &["busy"]))),
        ("not launched", plain("plain", &["busy"])),
        ("no engine", no_engine),
    ] {
        let mut program = Program::start(command);
        program.line();
        assert!(matches!(adopt(program.pid()), Adoption::None), "{what}");
        let mut scanner = started(program.pid());
        assert_eq!(scanner.origin(), Origin::Injected, "{what}");
        pass(&mut scanner);
        scanner.end(&Proc::default()).unwrap();
    }
}

#[test]
fn a_forked_child_is_not_taken_for_its_parent() {
    let mut program = Program::start(preloaded(plain("plain", &["fork"])));
    let child = (0..3).map(|_| program.line()).last().unwrap();
    let child = Pid(child.trim().parse().unwrap());
    assert!(matches!(adopt(child), Adoption::None));
    adopted(program.pid()).end(&Proc::default()).unwrap();
}

#[test]
fn a_program_is_the_same_with_the_library() {
    let end = |mut command: Command| command.stdin(Stdio::null()).output().unwrap();
    let (without, with) = (end(plain("plain", &[])), end(preloaded(plain("plain", &[]))));
    assert_eq!(without.status.code(), Some(7));
    let text = |output: &Output| {
        String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
    };
    assert_eq!((text(&with), with.status), (text(&without), without.status));
}

#[test]
fn a_library_of_the_programs_own_is_kept() {
    let mut shell = Command::new("sh");
    shell.args(["-c", "echo $LD_PRELOAD; exec cat"]);
    let library = built().join(preload::LIBRARY);
    let own = |name: &str| (name == "LD_PRELOAD").then(|| OsString::from("libm.so.6"));
    shell.envs(preload::environment(&library, own).unwrap());
    let mut program = Program::start(shell);
    assert_eq!(program.line(), format!("libm.so.6:{}\n", library.display()));
    until("executed", || Proc::default().command(program.pid()).unwrap() == "cat");
    drop(adopted(program.pid()));
    let maps = Proc::default().maps(program.pid()).unwrap();
    assert!(maps.iter().any(|mapping| mapping.name.contains("libm.so.6")));
}

#[test]
fn a_helper_ends_when_its_program_executes_another() {
    let mut shell = Command::new("sh");
    shell.args(["-c", "read line; exec cat"]);
    let mut program = Program::start(preloaded(shell));
    let mut before = adopted(program.pid());
    writeln!(program.0.stdin.as_mut().unwrap(), "go").unwrap();
    until("the helper has ended, though the engine is there", || {
        let _ = before.beat();
        has_ended(before.helper())
    });
    let after = adopted(program.pid());
    assert_ne!(after.helper(), before.helper());
}

#[test]
fn pipes_end_with_the_program_and_not_with_the_helper() {
    let busy = || plain("plain", &["busy"]);
    for (command, origin) in [(busy(), Origin::Injected), (preloaded(busy()), Origin::Preloaded)] {
        let mut program = Program::start(command);
        program.line();
        let mut scanner = started(program.pid());
        assert_eq!(scanner.origin(), origin);
        let open = Proc::default().path(scanner.helper(), "fd").read_dir().unwrap();
        let of =
            |entry: std::io::Result<std::fs::DirEntry>| std::fs::read_link(entry.unwrap().path()).unwrap();
        let its_own = |file: &PathBuf| {
            ["anon_inode:[pidfd]", "anon_inode:[signalfd]"].map(PathBuf::from).contains(file)
        };
        let others: Vec<PathBuf> = open.map(of).filter(|file| !its_own(file)).collect();
        assert_eq!(others, Vec::<PathBuf>::new(), "{origin:?}");
        drop(program.0.stdin.take());
        let mut out = program.1.take().unwrap();
        let (ended, ends) = mpsc::channel();
        std::thread::spawn(move || ended.send(out.read_to_end(&mut Vec::new()).is_ok()));
        // Not waited for yet: a shell that takes the output of a command reads to its end first.
        until("the output has ended", || {
            let _ = scanner.beat();
            ends.try_recv() == Ok(true)
        });
        until("the helper has ended", || has_ended(scanner.helper()));
    }
}
