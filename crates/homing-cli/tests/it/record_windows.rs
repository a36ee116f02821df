//! `homing record --windows`: a program is recorded in windows, each thread without a gap within them and in the order
//! of its barriers; what is no reference is never left out; what was not recorded is known in words.

use crate::tsan::build;
use crate::tsan::build::Compiler;
use homing_core::ids::{Thread, Time};
use homing_core::trace::{Event, Trace, Turn, Visitor};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};

/// What the program of `tsan/windows.c` allocates between rounds.
const BLOCK: u64 = 12344;
/// The pages of each of its arrays.
const PAGES: u64 = 200;

fn succeeds(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// A window of one thread.
#[derive(Clone, Debug, Default)]
struct Window {
    number: u32,
    unseen: u64,
    words: u64,
    ended: bool,
    references: u64,
}

/// What a trace of windows holds.
#[derive(Default)]
struct Seen {
    frames: Vec<u64>,
    /// The program's table, and the bytes of a row.
    table: u64,
    row: u64,
    threads: BTreeMap<u32, Vec<Window>>,
    /// References outside of any window, and after another thread has begun a later one.
    outside: u64,
    late: u64,
    newest: u32,
    allocated: u64,
    freed: u64,
    maps: u64,
    unmaps: u64,
    /// The last reference of each thread to the table, in this window: which row, and which element.
    last: BTreeMap<u32, (u64, u64)>,
    /// References to the table by thread and window, in the order of all: row, element, whether it is the thread's own.
    of_table: BTreeMap<u32, Vec<(u32, u64, u64)>>,
    /// Who makes the first reference to each page.
    first: BTreeMap<u64, u32>,
    /// Windows that opened or closed where threads do not meet.
    apart: BTreeSet<u32>,
}

impl Seen {
    fn of(path: &Path, table: u64, row: u64) -> Seen {
        let bytes = std::fs::read(path).unwrap();
        let trace = Trace::open(&bytes).unwrap();
        assert!(trace.complete() && trace.damage().is_empty());
        let mut seen = Seen { frames: trace.frames().to_vec(), table, row: row * 8, ..Seen::default() };
        trace.visit(0..trace.order_blocks().len(), &mut seen).unwrap();
        seen
    }
}

impl Seen {
    /// The windows with references of several threads, and those that opened or closed away from a barrier: how many.
    fn of_several(&self) -> (usize, usize) {
        let mut threads: BTreeMap<u32, usize> = BTreeMap::new();
        for window in self.threads.values().flatten().filter(|window| window.ended && window.words > 0) {
            *threads.entry(window.number).or_default() += 1;
        }
        let several = || threads.iter().filter(|(_, threads)| **threads > 1);
        (several().count(), several().filter(|(number, _)| self.apart.contains(number)).count())
    }
}

impl Visitor for Seen {
    fn turn(&mut self, turn: Turn<'_>) {
        for &dense in turn.addresses {
            self.first.entry(self.frames[(dense >> 12) as usize]).or_insert(turn.thread.0);
        }
        let Some(window) =
            self.threads.get_mut(&turn.thread.0).and_then(|all| all.last_mut()).filter(|w| !w.ended)
        else {
            self.outside += turn.addresses.len() as u64;
            return;
        };
        window.references += turn.addresses.len() as u64;
        if window.number < self.newest {
            self.late += turn.addresses.len() as u64;
        }
        for &dense in turn.addresses {
            let address = (self.frames[(dense >> 12) as usize] << 12) + dense % 4096;
            let Some(at) = address.checked_sub(self.table).filter(|&at| at < 2 * self.row) else { continue };
            let (row, element) = (at / self.row, at % self.row / 8);
            // Elements of a row follow one another; then comes the other row.
            let expected = match self.last.get(&turn.thread.0) {
                None => (row, element),
                Some(&(row, element)) if (element + 1) * 8 < self.row => (row, element + 1),
                Some(&(row, _)) => (1 - row, 0),
            };
            assert_eq!((row, element), expected, "thread {} in window {}", turn.thread.0, window.number);
            self.last.insert(turn.thread.0, (row, element));
            self.of_table.entry(window.number).or_default().push((turn.thread.0, row, element));
        }
    }

    fn event(&mut self, thread: Thread, _time: Time, event: &Event) {
        if let Event::Window { number, apart: true, .. } = *event {
            self.apart.insert(number);
        }
        match *event {
            Event::Window { number, begins: true, words, .. } => {
                let windows = self.threads.entry(thread.0).or_default();
                assert!(windows.last().is_none_or(|last| last.ended && last.number < number));
                windows.push(Window { number, unseen: words, ..Window::default() });
                self.newest = self.newest.max(number);
                self.last.remove(&thread.0);
            }
            Event::Window { number, words, .. } => {
                let window = self.threads.get_mut(&thread.0).unwrap().last_mut().unwrap();
                assert!(window.number == number && !window.ended);
                (window.words, window.ended) = (words, true);
            }
            Event::Alloc { size: BLOCK, .. } => self.allocated += 1,
            Event::Free { .. } => self.freed += 1,
            Event::Mmap { length: 4096, name, .. } if name.0 == 0 => self.maps += 1,
            Event::Munmap { length: 4096, .. } => self.unmaps += 1,
            _ => {}
        }
    }
}

/// In the order of all, a thread begins the other's row when the other has written all of it. Returns how often that
/// was seen.
fn turns_are_taken(references: &[(u32, u64, u64)], row: u64) -> u64 {
    // The thread of each row, and how many elements of its own row each has written since it began with it.
    let mut written: BTreeMap<u32, u64> = BTreeMap::new();
    let (mut own, mut seen) = (BTreeMap::new(), 0);
    let threads: Vec<u32> = {
        let mut all: Vec<u32> = references.iter().map(|r| r.0).collect();
        all.sort_unstable();
        all.dedup();
        all
    };
    if threads.len() < 2 {
        return 0;
    }
    // Threads are numbered as they were made: the first writes row 0.
    for (index, &thread) in threads.iter().enumerate() {
        own.insert(thread, index as u64);
    }
    for &(thread, at, element) in references {
        let other = threads[usize::from(threads[0] == thread)];
        if own[&thread] == at {
            if element == 0 {
                written.insert(thread, 0);
            }
            written.entry(thread).and_modify(|count| *count += 1);
        } else if element == 0 {
            if let Some(&count) = written.get(&other) {
                assert_eq!(count, row, "thread {thread} reads what thread {other} has not written yet");
                seen += 1;
            }
        }
    }
    seen
}

/// Records `windows.c`, which works for so many milliseconds. Returns what homing said, the program's numbers, and what
/// the trace holds.
fn recorded(
    compiler: Compiler,
    recorder: &str,
    windows: &str,
    milliseconds: &str,
) -> (String, [u64; 6], Seen) {
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("a.trace");
    let mut record = build::homing();
    record.args(["record", "--merge", "--recorder", recorder, "--windows", windows, "-o"]).arg(&trace);
    record.arg("--").arg(build::program(compiler, "windows.c", true)).arg(milliseconds);
    let output = succeeds(&mut record);
    let printed = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<u64> = printed.split_whitespace().map(|number| number.parse().unwrap()).collect();
    let numbers: [u64; 6] = numbers.try_into().unwrap_or_else(|_| panic!("{printed}"));
    let seen = Seen::of(&trace, numbers[0], numbers[1]);
    (String::from_utf8_lossy(&output.stderr).into_owned(), numbers, seen)
}

fn records_in_windows(compiler: Compiler, recorder: &str) {
    if !compiler.there() {
        return;
    }
    let (said, numbers, seen) = recorded(compiler, recorder, "20ms/100ms", "3000");
    assert!(said.contains(" windows hold ") && said.contains("homing optimal"), "{said}");
    let [_, row, rounds, made, filled, two_pages] = numbers;
    // What is no reference is all there.
    assert_eq!(seen.allocated, rounds);
    // Between windows, the first to a page.
    assert!(seen.outside <= seen.first.len() as u64, "{} of {} pages", seen.outside, seen.first.len());
    for array in [made, filled] {
        let pages: Vec<Option<&u32>> =
            (0..PAGES).map(|page| seen.first.get(&(array / 4096 + page))).collect();
        let by_main = pages.iter().filter(|thread| **thread == Some(&0)).count() as u64;
        assert!(by_main * 20 >= PAGES * 19, "the main thread touched them all first: {pages:?}");
    }
    assert!(seen.freed >= rounds && seen.maps >= rounds && seen.unmaps >= rounds);
    let across = [0, 1].map(|page| seen.first.get(&(two_pages / 4096 + page)));
    assert_eq!(across, [Some(&0); 2], "a loop touches the page that it ends in");
    let working: Vec<&Vec<Window>> = seen.threads.values().filter(|all| all.len() > 5).collect();
    assert_eq!(working.len(), 2, "{:?}", seen.threads);
    let all: u64 = seen.threads.values().flatten().map(|window| window.references).sum();
    assert!(seen.late * 20 < all, "{} of {all} references are behind the next window's begin", seen.late);
    let turns: u64 = seen.of_table.values().map(|references| turns_are_taken(references, row)).sum();
    assert!(turns > 20, "{turns} turns in {} windows", seen.of_table.len());
    // Words stand for references: what windows do not hold is known from them, but for what comes behind the last one.
    let ended = || working.iter().flat_map(|all| all.iter()).filter(|window| window.ended);
    let (words, references, unseen) = ended().fold((0, 0, 0), |(words, references, unseen), window| {
        (words + window.words, references + window.references, unseen + window.unseen)
    });
    let estimated = references as f64 * (words + unseen) as f64 / words as f64;
    // Each round is 4,000 references to the table, 40 to the arrays, and a few.
    let real = ((4 * row + 40) * rounds) as f64;
    assert!((0.8..1.05).contains(&(estimated / real)), "{estimated} of {real}: {:?}", seen.threads);
    assert!((references as f64) < 0.6 * real, "nearly all was recorded");
    let (several, apart) = seen.of_several();
    assert!(several > 5 && apart == 0, "of {several} windows {apart} opened where the threads do not meet");
}

#[test]
fn windows_of_threads_that_never_meet_say_so_and_tell_nothing_of_the_whole() {
    let mut tried = 0;
    for (compiler, recorder) in [(Compiler::ClangPass, "clang"), (Compiler::Gcc, "tsan")] {
        if !compiler.there() {
            continue;
        }
        tried += 1;
        let directory = tempfile::tempdir().unwrap();
        let trace = directory.path().join("a.trace");
        let mut record = build::homing();
        record
            .args(["record", "--merge", "--recorder", recorder, "--windows", "20ms/100ms", "-o"])
            .arg(&trace);
        succeeds(record.arg("--").arg(build::program(compiler, "apart.c", true)).arg("2000"));
        let (several, apart) = Seen::of(&trace, 0, 0).of_several();
        assert!(several > 3 && apart == several, "of {several} windows {apart} say so");
        let mut optimal = build::homing();
        optimal.args(["optimal", "--json", "-m", "butterfly"]).arg(&trace);
        let said = String::from_utf8(succeeds(&mut optimal).stdout).unwrap();
        assert!(said.contains("windows opened or closed where its threads do not meet"), "{said}");
    }
    assert!(tried > 0, "there is always gcc");
}

#[test]
fn a_program_of_clangs_pass_is_recorded_in_windows() {
    records_in_windows(Compiler::ClangPass, "clang");
}

#[test]
fn a_program_of_gcc_is_recorded_in_windows() {
    records_in_windows(Compiler::Gcc, "tsan");
}

/// A window of each fifth mark holds one round of both threads: it opens and closes at the first barrier after a mark.
fn records_from_mark_to_mark(compiler: Compiler, recorder: &str) {
    if !compiler.there() {
        return;
    }
    let (_, [_, row, rounds, ..], seen) = recorded(compiler, recorder, "mark:round/5", "1500");
    // Rounds are short: some stretches are over before anybody has looked.
    let windows = u64::from(seen.newest);
    assert!(windows > 20 && windows <= rounds / 5 + 1, "{windows} windows of {rounds} rounds");
    for (thread, all) in seen.threads.iter().filter(|(_, all)| all.len() > 5) {
        let ended: Vec<&Window> = all.iter().filter(|window| window.ended).collect();
        let whole =
            ended.iter().filter(|window| (2 * row..2 * row + 100).contains(&window.references)).count();
        let mut parts = BTreeMap::new();
        ended.iter().for_each(|window| *parts.entry(window.references / row).or_insert(0) += 1);
        assert!(
            whole * 10 >= ended.len() * 9,
            "thread {thread}: {whole} of {}, rows: {parts:?}",
            ended.len()
        );
    }
    assert_eq!(seen.threads.values().filter(|all| all.len() > 5).count(), 2);
}

#[test]
fn a_window_of_clangs_pass_goes_from_one_mark_to_the_next() {
    records_from_mark_to_mark(Compiler::ClangPass, "clang");
}

#[test]
fn a_window_of_gcc_goes_from_one_mark_to_the_next() {
    records_from_mark_to_mark(Compiler::Gcc, "tsan");
}

/// Programs that do unusual things end as they do without a recorder, and leave a whole trace.
fn odd_programs_end_as_ever(compiler: Compiler, recorder: &str) {
    if !compiler.there() {
        return;
    }
    let plain = build::program(Compiler::Gcc, "odd.c", false);
    let names = String::from_utf8(succeeds(&mut Command::new(&plain)).stdout).unwrap();
    assert!(names.lines().count() > 10);
    let program = build::program(compiler, "odd.c", true);
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("a.trace");
    for name in names.lines() {
        let status = Command::new(&plain).arg(name).status().unwrap();
        let expected = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        let mut record = build::homing();
        record
            .args(["record", "--merge", "--quiet", "--recorder", recorder, "--windows", "300us/1ms", "-o"])
            .arg(&trace);
        let output = record.arg("--").arg(&program).arg(name).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(expected), "{name}: {said}");
        assert!(!said.contains("panicked"), "{name}: {said}");
        let bytes = std::fs::read(&trace).unwrap_or_else(|e| panic!("{name}: {e}: {said}"));
        let read = Trace::open(&bytes).unwrap();
        let summary = read.summary();
        // Some end before a window opens.
        assert!(read.complete() && (read.ordered() || summary.references == 0), "{name}");
        assert!(read.damage().is_empty(), "{name}");
        assert_eq!((summary.malformed, summary.lost_segments, summary.lost), (0, 0, 0), "{name}");
        std::fs::remove_file(&trace).unwrap();
    }
}

#[test]
fn odd_programs_of_clangs_pass_end_as_ever() {
    odd_programs_end_as_ever(Compiler::ClangPass, "clang");
}

#[test]
fn odd_programs_of_gcc_end_as_ever() {
    odd_programs_end_as_ever(Compiler::Gcc, "tsan");
}

#[test]
fn a_running_process_is_recorded_in_windows() {
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("a.trace");
    let program = build::program(Compiler::Gcc, "windows.c", true);
    let mut child = Command::new(program).arg("8000").stdout(std::process::Stdio::null()).spawn().unwrap();
    let mut record = build::homing();
    record.args([
        "record",
        "--merge",
        "--pid",
        &child.id().to_string(),
        "--for",
        "2s",
        "--windows",
        "10ms/50ms",
        "-o",
    ]);
    succeeds(record.arg(&trace));
    assert!(child.wait().unwrap().success(), "the program is as it was");
    let seen = Seen::of(&trace, 0, 1);
    assert!(seen.outside <= seen.first.len() as u64);
    assert!(seen.newest > 5, "{} windows", seen.newest);
}

#[test]
fn what_cannot_be_recorded_in_windows_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let record = |options: &[&str]| {
        let mut record = build::homing();
        record.args(["record", "--merge"]).args(options).arg("-o").arg(directory.path().join("a.trace"));
        let output = record.args(["--", "true"]).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let said = record(&["--windows", "5ms/50ms"]);
    assert!(said.contains("only --recorder tsan or clang records in windows"), "{said}");
    for (windows, reason) in [
        ("5ms", "expected LENGTH/PERIOD"),
        ("mark:round", "expected mark:NAME/N"),
        ("mark:/5", "expected mark:NAME/N"),
        ("mark:round/1", "N above 1"),
        ("1s/1s", "shorter than its period"),
        ("0ms/1s", "longer than 0"),
        ("x/1s", "duration"),
        ("1M/10ms", "two times or two numbers of references"),
        ("5M/1M", "shorter than its period"),
        ("5G/99999999999999G", "two times or two numbers of references"),
    ] {
        let said = record(&["--recorder", "tsan", "--windows", windows]);
        assert!(said.contains(reason), "{windows}: {said}");
    }
    let said = record(&["--recorder", "tsan", "--windows", "5ms/1s", "--from", "main"]);
    assert!(said.contains("cannot be used with"), "{said}");
}

#[test]
fn a_program_that_ends_before_its_first_window_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("a.trace");
    let program = build::program(Compiler::Gcc, "windows.c", true);
    let mut record = build::homing();
    record
        .args(["record", "--merge", "--recorder", "tsan", "--windows", "1ms/100s", "-o"])
        .arg(&trace)
        .arg("--");
    let output = succeeds(record.arg(program).arg("10"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("no window opened before the program ended: take shorter"), "{said}");
    let mut record = build::homing();
    record.args(["record", "--recorder", "tsan", "--windows", "mark:nosuch/5", "-o"]).arg(&trace).arg("--");
    let output = succeeds(record.arg(build::program(Compiler::Gcc, "windows.c", true)).arg("10"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("fewer than 5 marks `nosuch`"), "{said}");
}
