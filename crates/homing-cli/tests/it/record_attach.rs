//! `homing record --pid`: a program that was started without a recorder is recorded while it runs, again and again,
//! without a gap in any thread and in the order of its barriers, and does not notice.

use crate::tsan::build;
use crate::tsan::build::Compiler;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// The program of `tsan/attach.c`, at work.
struct Server {
    child: Child,
    /// Where its table begins, and how long a row is.
    table: u64,
    row: u64,
    printed: BufReader<std::process::ChildStdout>,
}

impl Server {
    fn start(compiler: Compiler, environment: &[(&str, &str)]) -> Server {
        let mut command = Command::new(build::program(compiler, "attach.c", true));
        command.envs(environment.iter().copied()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut printed = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        printed.read_line(&mut line).unwrap();
        let mut numbers = line.split_whitespace().map(|number| number.parse().unwrap());
        Server { child, table: numbers.next().unwrap(), row: numbers.next().unwrap(), printed }
    }

    fn record(&self, trace: &Path, options: &[&str]) -> Command {
        let mut record = build::homing();
        record.args(["record", "--merge", "--quiet", "--pid", &self.child.id().to_string()]).args(options);
        record.arg("-o").arg(trace);
        record
    }

    /// Tells it to end, and checks that it has done what it does.
    fn end(mut self) {
        drop(self.child.stdin.take());
        let mut said = String::new();
        self.printed.read_to_string(&mut said).unwrap();
        assert!(self.child.wait().unwrap().success(), "{said}");
        let rounds: Vec<u64> = said.split_whitespace().map(|number| number.parse().unwrap()).collect();
        assert!(rounds.len() == 2 && rounds[0] == rounds[1] && rounds[0] > 10, "{said}");
    }

    /// The references to the table: by which thread, and what they are of what that thread does in a round: the i-th
    /// write of its row is i, the i-th read of the other's row is `row + i`. The thread's own row comes with it.
    fn references(&self, trace: &Path) -> Vec<(u32, u64, u64)> {
        let table = trace.with_extension("csv");
        succeeds(build::homing().args(["trace", "export"]).arg(trace).arg("-o").arg(&table));
        let text = std::fs::read_to_string(&table).unwrap();
        let of_table = |line: &str| {
            let fields: Vec<&str> = line.split(',').collect();
            let address = u64::from_str_radix(fields[1].trim_start_matches("0x"), 16).unwrap();
            let at = address.checked_sub(self.table)? / 8;
            let (row, i) = (at / self.row, at % self.row);
            let write = fields[3] == "w";
            let step = if write { i } else { self.row + i };
            (row < 2).then(|| (fields[0].parse().unwrap(), step, if write { row } else { 1 - row }))
        };
        text.lines().skip(1).filter_map(of_table).collect()
    }

    /// Each thread's references follow one another without a gap; and in the order of all, each element of the table
    /// is written and read in turn, from when both threads have come until the first of them has no more.
    fn check(&self, trace: &Path) {
        let references = self.references(trace);
        let mut last: [Option<(u32, u64)>; 2] = [None; 2];
        for (n, &(thread, step, row)) in references.iter().enumerate() {
            let before = last[row as usize].replace((thread, step));
            let expected =
                before.map_or((thread, step), |(thread, step)| (thread, (step + 1) % (2 * self.row)));
            assert_eq!((thread, step), expected, "reference {n}, by the thread of row {row}");
        }
        let [Some((first, _)), Some((second, _))] = last else { panic!("one thread was not recorded") };
        assert_ne!(first, second);
        // A round after the later one has come, to a round before one has no more: the limit cuts them apart.
        let comes = |row: u64| references.iter().position(|reference| reference.2 == row).unwrap();
        let goes = |row: u64| references.iter().rposition(|reference| reference.2 == row).unwrap();
        let round = 4 * self.row as usize;
        let (from, to) = (comes(0).max(comes(1)) + round, goes(0).min(goes(1)) - round);
        assert!(to > from + 4 * round, "from {from} to {to}");
        let mut written = vec![None; 2 * self.row as usize];
        for (n, &(_, step, row)) in references.iter().enumerate().take(to).skip(from) {
            let write = step < self.row;
            let element = if write { row * self.row + step } else { (1 - row) * self.row + step - self.row };
            let before = written[element as usize].replace(write);
            assert_ne!(
                before,
                Some(write),
                "reference {n} to element {element}: the barrier is not in the order"
            );
        }
    }
}

fn succeeds(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// What a command that fails says.
fn fails(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

fn records_again_and_again(compiler: Compiler) {
    if !compiler.there() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(compiler, &[]);
    for turn in 0..3 {
        let trace = directory.path().join(format!("{turn}.trace"));
        let output = succeeds(&mut server.record(&trace, &["--for", "150ms"]));
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        server.check(&trace);
    }
    server.end();
}

#[test]
fn a_program_of_clangs_pass_is_recorded_again_and_again() {
    records_again_and_again(Compiler::ClangPass);
}

#[test]
fn a_program_of_gcc_is_recorded_again_and_again() {
    records_again_and_again(Compiler::Gcc);
}

#[test]
fn a_killed_homing_takes_nothing_with_it() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(Compiler::Gcc, &[]);
    let trace = directory.path().join("a.trace");
    let mut recorder = server.record(&trace, &[]).spawn().unwrap();
    let part = directory.path().join("a.trace.part");
    let begin = Instant::now();
    while std::fs::metadata(&part).map_or(0, |facts| facts.len()) < 10_000 {
        assert!(begin.elapsed() < PATIENCE, "nothing was recorded");
        std::thread::sleep(Duration::from_millis(20));
    }
    recorder.kill().unwrap();
    recorder.wait().unwrap();
    // What was written can be recovered, and the next recording begins as usual.
    let recovered = directory.path().join("recovered.trace");
    let recovered =
        build::homing().args(["trace", "recover"]).arg(&part).arg("-o").arg(&recovered).output().unwrap();
    assert_eq!(recovered.status.code(), Some(5), "what the recorder had not yet written is lost");
    let next = directory.path().join("b.trace");
    succeeds(&mut server.record(&next, &["--for", "150ms"]));
    server.check(&next);
    server.end();
}

#[test]
fn the_end_of_the_process_ends_its_recording() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(Compiler::Gcc, &[]);
    let trace = directory.path().join("a.trace");
    let mut recorder = server.record(&trace, &[]).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(1));
    server.end();
    assert!(recorder.wait().unwrap().success());
    let says = |command: &[&str], what: &str| {
        let output = succeeds(build::homing().args(command).arg(&trace));
        let said =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(said.contains(what), "{command:?}: {said}");
    };
    says(&["trace", "info"], "while the program ran (--pid)");
    says(&["why"], "who touched pages first before that is not known");
}

#[test]
fn what_cannot_be_attached_to_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("a.trace");
    let attach = |pid: u32| {
        let mut record = build::homing();
        record.args(["record", "--merge", "--pid", &pid.to_string(), "-o"]).arg(&trace);
        record
    };
    let mut sleep = Command::new("sleep").arg("100").spawn().unwrap();
    let said = fails(&mut attach(sleep.id()));
    assert!(said.contains("holds no recording runtime") && said.contains("homing cc"), "{said}");
    sleep.kill().unwrap();
    sleep.wait().unwrap();
    let said = fails(&mut attach(sleep.id()));
    assert!(said.contains("there is no process"), "{said}");
    let said = fails(attach(1).arg("./program"));
    assert!(said.contains("cannot be used with"), "{said}");
    // One that is told not to look is waited for, until the user has had enough.
    let server = Server::start(Compiler::Gcc, &[("HOMING_ATTACH", "0")]);
    let mut interrupted = Command::new("timeout");
    interrupted.args(["--signal=INT", "1"]).arg(env!("CARGO_BIN_EXE_homing"));
    interrupted.args(["record", "--merge", "--pid", &server.child.id().to_string(), "-o"]).arg(&trace);
    let said = fails(&mut interrupted);
    assert!(said.contains("nothing was recorded") && said.contains("HOMING_ATTACH=0"), "{said}");
    assert!(!directory.path().join("a.trace.part").exists());
    server.end();
}
