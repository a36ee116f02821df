//! `homing top` from outside: once, as JSON, without a terminal, and on a terminal.

use rustix::process::{kill_process, Pid, Signal};
use rustix::pty::{grantpt, openpt, ptsname, unlockpt, OpenptFlags};
use rustix::termios::{tcgetattr, tcsetwinsize, Winsize};
use serde_json::Value;
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

fn homing(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_homing")).args(args).stdin(Stdio::null()).output().expect("homing runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Static data that `top` finds by name.
static WORDS: [AtomicU64; 4096] = [const { AtomicU64::new(0) }; 4096];

#[test]
fn one_look_as_table_and_json() {
    std::hint::black_box(&WORDS).iter().for_each(|word| word.store(1, Ordering::Relaxed));
    let me = std::process::id().to_string();
    let output = homing(&["top", "--once", "--interval", "50ms"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("RESID%"), "{}", text(&output.stdout));
    let output = homing(&["top", "--json", "--interval", "50ms", "--pid", &me]);
    let look: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(look["schema"], 1);
    assert!(look["seconds"].as_f64().unwrap() >= 0.05);
    assert!(look["nodes"].as_array().is_some_and(|nodes| !nodes.is_empty()));
    let process = &look["processes"][0];
    assert_eq!(process["pid"].to_string(), me);
    assert!(process["threads"].as_u64().unwrap() > 0 && process["resident_bytes"].as_u64().unwrap() > 0);
    if process["pages"].is_null() {
        println!("SKIPPED 1 check: this machine has no numa_maps, or hides them");
        return;
    }
    let pages = &process["pages"];
    assert!(pages["tasks"].as_array().is_some_and(|tasks| !tasks.is_empty()));
    let percent = pages["residency_percent"].as_f64().unwrap();
    assert!((0.0..=100.0).contains(&percent));
    let found =
        pages["symbols"].as_array().unwrap().iter().find(|row| row["name"].to_string().contains("WORDS"));
    match found {
        Some(row) => {
            assert_eq!(row["size"], 4096 * 8);
            let bytes = row["bytes"].as_array().unwrap().iter().map(|on| on["count"].as_u64().unwrap());
            assert_eq!(bytes.sum::<u64>(), 4096 * 8, "all has been written to: {row}");
        }
        None => println!("SKIPPED 1 check: this machine does not tell where pages are"),
    }
    let details = text(&homing(&["top", "--once", "--interval", "50ms", "--pid", &me]).stdout);
    assert!(details.contains("largest regions") && details.contains("residency"), "{details}");
    let filtered = homing(&["top", "--json", "--interval", "50ms", "--filter", "no such program"]);
    let look: Value = serde_json::from_slice(&filtered.stdout).expect("JSON");
    let rows = look["processes"].as_array().expect("processes");
    assert!(rows.iter().all(|row| row["command"].as_str().is_some_and(|c| c.contains("no such program"))));
}

#[test]
fn what_cannot_be_done_is_said() {
    let output = homing(&["top"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--once"), "{}", text(&output.stderr));
    assert_eq!(homing(&["top", "--once", "--pid", "2147483647"]).status.code(), Some(1));
    assert_eq!(homing(&["top", "--once", "--interval", "1us"]).status.code(), Some(2));
    assert_eq!(homing(&["top", "--once", "--budget", "0"]).status.code(), Some(2));
}

const ENTER_PAGE: &str = "\x1b[?1049h";
const LEAVE_PAGE: &str = "\x1b[?1049l";

/// Both ends of a new terminal: what a person has, and what programs have.
fn terminal() -> (File, File) {
    let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("openpt");
    grantpt(&person).and_then(|()| unlockpt(&person)).expect("a terminal");
    let name = ptsname(&person, Vec::new()).expect("ptsname");
    let program = File::options().read(true).write(true).open(name.to_str().unwrap()).expect("the other end");
    let size = Winsize { ws_row: 30, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&person, size).expect("size");
    (File::from(person), program)
}

/// A page, killed when the test ends early.
struct Page(Child);

impl Page {
    /// A page on a terminal; `before` are words that stand before the program's.
    fn on(program: &File, before: &[&str]) -> Page {
        let words = [before, &[env!("CARGO_BIN_EXE_homing"), "top", "--interval", "50ms"][..]].concat();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).env("TERM", "xterm");
        let other = || Stdio::from(program.try_clone().unwrap());
        Page(command.stdin(other()).stdout(other()).stderr(other()).spawn().unwrap())
    }

    /// Its exit status, with a time-out that no sound machine meets.
    fn end(&mut self) -> Option<i32> {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status.code();
            }
            assert!(begin.elapsed() < Duration::from_secs(60), "the page goes on");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Reads until `done`, with a time-out that no sound machine meets.
fn read_until(person: &mut File, seen: &mut Vec<u8>, done: impl Fn(&str) -> bool) {
    let begin = Instant::now();
    let mut buffer = [0; 4096];
    while !done(&text(seen)) {
        let last = text(&seen[seen.len().saturating_sub(2000)..]);
        assert!(begin.elapsed() < Duration::from_secs(60), "{last}");
        match person.read(&mut buffer).expect("read") {
            0 => panic!("ended: {last}"),
            count => seen.extend(&buffer[..count]),
        }
    }
}

#[test]
fn the_page_answers_keys_and_leaves_the_terminal_as_it_was() {
    for end in [&b"q"[..], b"\x03"] {
        let (mut person, program) = terminal();
        let state = || format!("{:?}", tcgetattr(&program).expect("state"));
        let before = state();
        let mut page = Page::on(&program, &[]);
        let mut seen = Vec::new();
        read_until(&mut person, &mut seen, |text| text.contains(ENTER_PAGE) && text.contains("COMMAND"));
        assert_ne!(state(), before, "keys come one by one");
        person.write_all(b"h").unwrap();
        // One word: what did not change between two is jumped over.
        read_until(&mut person, &mut seen, |text| text.contains("PageDown"));
        person.write_all(b"x").unwrap();
        person.write_all(end).unwrap();
        read_until(&mut person, &mut seen, |text| text.contains(LEAVE_PAGE));
        assert_eq!(page.0.wait().unwrap().code(), Some(0));
        assert_eq!(state(), before, "the terminal is as it was");
    }
}

/// Not the terminal that controls the process: no signal says that it went away, as where SIGHUP is ignored.
#[test]
fn the_page_ends_when_its_terminal_goes_away() {
    let (mut person, program) = terminal();
    let mut page = Page::on(&program, &[]);
    drop(program);
    read_until(&mut person, &mut Vec::new(), |text| text.contains(ENTER_PAGE) && text.contains("COMMAND"));
    drop(person);
    assert_eq!(page.end(), Some(0));
}

#[test]
fn the_page_ends_by_any_signal_that_asks_for_it() {
    for signal in [Signal::Hup, Signal::Term, Signal::Int] {
        let (mut person, program) = terminal();
        let mut page = Page::on(&program, &["env", "--default-signal"]);
        let mut seen = Vec::new();
        read_until(&mut person, &mut seen, |text| text.contains(ENTER_PAGE) && text.contains("COMMAND"));
        // The first byte of a sequence whose rest never comes.
        person.write_all(b"\xe2").unwrap();
        kill_process(Pid::from_child(&page.0), signal).unwrap();
        read_until(&mut person, &mut seen, |text| text.contains(LEAVE_PAGE));
        assert_eq!(page.end(), Some(0), "{signal:?}");
    }
}
