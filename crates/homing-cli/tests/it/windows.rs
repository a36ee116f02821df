//! Traces of windows (`homing record --windows`) from the outside: the estimated bound of the whole program, and what
//! other commands say of such a trace.

use crate::support;
use homing_core::ids::Thread;
use homing_core::trace::{Event, Header, Kind, Summary, TraceWriter};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Words that each thread would have sent before a window, and those that it sends in it.
const UNSEEN: u64 = 900;
const SEEN: u64 = 100;

/// What is unusual about a trace.
#[derive(Clone, Copy, Default)]
struct Odd {
    /// References before the first window.
    before: u64,
    /// Thread 1 does not end the last window.
    killed: bool,
    /// Thread 0 uses the second page of thread 1 in every other window.
    sharing: bool,
    /// The first window opened where the threads do not meet.
    apart: bool,
}

fn header() -> Header {
    let mut header = Header::new("test", "1");
    header.more.insert("windows".into(), "50ms/1s, seed 7".into());
    header
}

type Writer = TraceWriter<Vec<u8>>;

fn save(writer: Writer, folder: &Path) -> PathBuf {
    let (bytes, _) = writer.finish(Summary::default()).unwrap();
    let path = folder.join("w.trace");
    std::fs::write(&path, bytes).unwrap();
    path
}

fn writes(writer: &mut Writer, thread: u32, page: u64, count: u64) {
    (0..count).for_each(|i| {
        writer.reference(Thread(thread), 0, (page << 12) + (i % 512) * 8, Kind::write(8)).unwrap();
    });
    writer.turn(Thread(thread), count).unwrap();
}

/// Two threads with two pages each, in this number of windows.
fn trace(folder: &Path, windows: u32, odd: Odd) -> PathBuf {
    let mut writer = TraceWriter::new(Vec::new(), &header()).unwrap();
    if odd.before > 0 {
        writes(&mut writer, 0, 99, odd.before);
    }
    for number in 1..=windows {
        for thread in [0, 1] {
            let apart = odd.apart && number == 1;
            let begins = Event::Window { number, begins: true, words: UNSEEN, apart };
            writer.event(Thread(thread), &begins).unwrap();
        }
        for thread in [0, 1] {
            writes(&mut writer, thread, 16 + 2 * u64::from(thread), 50);
            let user = if odd.sharing && number % 2 == 0 { 0 } else { thread };
            writes(&mut writer, user, 17 + 2 * u64::from(thread), 50);
        }
        for thread in [0, 1] {
            if !(odd.killed && thread == 1 && number == windows) {
                let ends = Event::Window { number, begins: false, words: SEEN, apart: false };
                writer.event(Thread(thread), &ends).unwrap();
            }
        }
    }
    save(writer, folder)
}

fn stdout(args: &[&str]) -> String {
    String::from_utf8(support::succeeds(1, args).stdout).unwrap()
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&stdout(args)).unwrap()
}

fn optimal<'a>(trace: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
    [&["optimal", trace.to_str().unwrap(), "-m", "butterfly", "--threads-on", "one-per-node"], more].concat()
}

fn notes(value: &Value) -> String {
    value["notes"].as_array().unwrap().iter().map(|note| format!("{}\n", note.as_str().unwrap())).collect()
}

const OF_WINDOWS: &str = "the trace is of windows of the program (--windows 50ms/1s, seed 7)";

#[test]
fn the_bound_of_the_program_is_estimated() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path(), 12, Odd::default());
    let text = stdout(&optimal(&trace, &[]));
    let first = "MCPR 1.0000 (1.0000 to 1.0000) estimated from 12 windows that hold 10.00 % of the program\n\
                 The program: about 24000 references, optimal cost 24000 (24000 to 24000)\n";
    assert!(text.starts_with(first), "{text}");
    assert!(text.contains("The windows, as though they were the whole program:"), "{text}");
    assert!(text.contains("MCPR 1.0000 (1 is all local)"), "{text}");
    let row = json(&optimal(&trace, &["--json"]));
    let estimate = &row["estimate"];
    assert_eq!((row["references"].as_u64(), estimate["references_seen"].as_u64()), (Some(2400), Some(2400)));
    assert_eq!((estimate["windows"].as_u64(), estimate["references"].as_f64()), (Some(12), Some(24000.0)));
    assert_eq!((estimate["share"].as_f64(), estimate["references_outside"].as_u64()), (Some(0.1), Some(0)));
    assert_eq!(estimate["chosen"], "50ms/1s, seed 7");
    assert_eq!((estimate["mcpr"]["low"].as_f64(), estimate["mcpr"]["high"].as_f64()), (Some(1.0), Some(1.0)));
    assert!(notes(&row).contains(OF_WINDOWS) && !notes(&row).contains("left out"), "{}", notes(&row));
}

#[test]
fn what_windows_cannot_tell_widens_the_interval() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path(), 12, Odd { sharing: true, ..Odd::default() });
    let row = json(&optimal(&trace, &["--json"]));
    let mcpr = |name: &str| row["estimate"]["mcpr"][name].as_f64().unwrap();
    // The shared page is 50 of 200 references; from the wrong home, that of the other half of windows, each costs 15.
    assert_eq!((mcpr("lower_bound"), mcpr("low")), (1.0, 1.0));
    assert!((mcpr("upper_bound") - (1.0 + 0.25 * 14.0)).abs() < 1e-9, "{row}");
    assert!(mcpr("high") >= mcpr("upper_bound") && mcpr("value") == 1.0 + 0.125 * 14.0, "{row}");
    let text = stdout(&optimal(&trace, &[]));
    assert!(
        text.contains("by an estimate no placement is below 1.0000, one is at 4.5000: 100 % of the interval"),
        "{text}"
    );
}

#[test]
fn what_is_left_out_is_counted_and_said() {
    let folder = tempfile::tempdir().unwrap();
    let odd = Odd { before: 30, killed: true, ..Odd::default() };
    let trace = trace(folder.path(), 5, odd);
    let row = json(&optimal(&trace, &["--json"]));
    let estimate = &row["estimate"];
    assert_eq!((row["references"].as_u64(), estimate["references_seen"].as_u64()), (Some(1030), Some(1000)));
    assert_eq!((estimate["references_outside"].as_u64(), &estimate["mcpr"]["low"]), (Some(30), &Value::Null));
    let notes = notes(&row);
    for said in [
        "left out of the estimate: references between windows, the first to their pages: 30",
        "left out of the estimate: lengths of windows of threads that did not end them: 1",
        "5 windows are too few to say how much they differ",
    ] {
        assert!(notes.contains(said), "{said}: {notes}");
    }
    let text = stdout(&optimal(&trace, &[]));
    assert!(text.starts_with("MCPR 1.0000 (no interval) estimated from 5 windows"), "{text}");
}

#[test]
fn what_cannot_be_estimated_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path(), 9, Odd::default());
    let row = json(&["optimal", trace.to_str().unwrap(), "-m", "two-socket", "--misses", "--json"]);
    assert!(row["estimate"].is_null() && row["cost"].is_number(), "{row}");
    assert!(notes(&row).contains("is not estimated behind caches (--misses)"), "{}", notes(&row));
    let touched = json(&optimal(&trace, &["--json", "--start", "first-touch"]));
    assert!(notes(&touched).contains("does not use who touched pages first"), "{}", notes(&touched));
    // Each of four pages may have to be moved once: R = 3272.
    let cost = |name: &str| touched["estimate"]["cost"][name].as_f64().unwrap();
    assert_eq!(cost("upper_bound") - cost("lower_bound"), 4.0 * 3272.0);
}

#[test]
fn nothing_is_estimated_from_windows_that_opened_where_threads_do_not_meet() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path(), 12, Odd { apart: true, ..Odd::default() });
    let path = trace.to_str().unwrap();
    let said =
        "the whole program is not estimated: 1 of 12 windows opened or closed where its threads do not meet";
    let row = json(&optimal(&trace, &["--json"]));
    assert!(row["estimate"].is_null() && row["cost"].is_number(), "{row}");
    assert_eq!(notes(&row).matches(said).count(), 1, "{row}");
    let compared = json(&["compare", path, "-m", "butterfly", "--policies", "first-touch", "--json"]);
    assert!(compared["traces"][0]["rows"][0]["program"].is_null(), "{compared}");
    assert_eq!(notes(&compared).matches(said).count(), 1, "{compared}");
    for machine in ["butterfly", "two-socket"] {
        let why = json(&["why", path, "-m", machine, "--json"]);
        assert!(why["program"].is_null(), "{why}");
        assert_eq!(notes(&why).matches(said).count(), 1, "{why}");
    }
}

#[test]
fn a_trace_that_should_have_windows_and_has_none_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = TraceWriter::new(Vec::new(), &header()).unwrap();
    writes(&mut writer, 0, 16, 100);
    let trace = save(writer, folder.path());
    let output = support::homing(1, &optimal(&trace, &[]));
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message
        .contains("w.trace: the trace says that it is of windows (50ms/1s, seed 7), and no window begins"));
}

#[test]
fn other_commands_say_that_the_trace_is_of_windows() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path(), 9, Odd::default());
    let path = trace.to_str().unwrap();
    let compared = json(&["compare", path, "-m", "butterfly", "--policies", "first-touch", "--json"]);
    assert!(notes(&compared).contains(OF_WINDOWS), "{}", notes(&compared));
    let why = json(&["why", path, "-m", "butterfly", "--json"]);
    assert!(notes(&why).contains(OF_WINDOWS), "{}", notes(&why));
    let simulated = json(&["simulate", path, "-m", "butterfly", "--policy", "homing", "--json"]);
    assert!(notes(&simulated).contains(OF_WINDOWS), "{}", notes(&simulated));
    let out = folder.path().join("study");
    let study = ["study", path, "-m", "butterfly", "--policies", "homing", "--out", out.to_str().unwrap()];
    let said = support::succeeds(1, &study);
    let said = [said.stdout, said.stderr].concat();
    assert!(String::from_utf8_lossy(&said).contains("w.trace: the trace is of windows"));
    let diff = support::succeeds(1, &["diff", path, path, "-m", "butterfly"]);
    assert_eq!(String::from_utf8_lossy(&diff.stderr).matches("w.trace: the trace is of windows").count(), 2);
    let info = stdout(&["trace", "info", path]);
    assert!(info.contains("50ms/1s, seed 7"), "{info}");
}

/// Thread 0, on node 0, uses the second page of thread 1 in every other window: 50 of 200 references there.
#[test]
fn policies_are_estimated_for_the_whole_program() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path(), 12, Odd { sharing: true, ..Odd::default() });
    let path = trace.to_str().unwrap();
    let compare = ["compare", path, "-m", "butterfly", "--threads-on", "one-per-node", "--no-replication"];
    let policies = ["--policies", "first-touch,best-static,homing,worst-static"];
    let report = json(&[&compare[..], &policies, &["--json"]].concat());
    let rows = report["traces"][0]["rows"].as_array().unwrap();
    let program = |policy: &str| &rows.iter().find(|row| row["policy"] == policy).unwrap()["program"];
    let figure = |policy: &str, of: &str, end: &str| program(policy)[of][end].as_f64().unwrap();
    for policy in ["optimal", "first-touch", "best-static", "homing"] {
        let of = program(policy);
        assert_eq!(
            (of["windows"].as_u64(), of["references"].as_f64()),
            (Some(12), Some(24000.0)),
            "{policy}"
        );
    }
    assert!(program("worst-static").is_null(), "chosen by the windows to suit them least");
    assert_eq!(figure("first-touch", "nonlocal_percent", "value"), 12.5);
    let mcpr = |policy, end| figure(policy, "mcpr", end);
    assert_eq!(mcpr("first-touch", "value"), 1.0 + 0.125 * 14.0);
    assert!(mcpr("first-touch", "low") < 2.75 && mcpr("first-touch", "high") > 2.75);
    // From the home that the other half of windows chooses, all references to that page are non-local.
    assert_eq!((mcpr("best-static", "lower_bound"), mcpr("best-static", "upper_bound")), (2.75, 4.5));
    assert_eq!(mcpr("optimal", "upper_bound"), 4.5);
    let text = stdout(&[&compare[..], &policies].concat());
    assert!(
        text.contains(
            "The whole program, about 24000 references, estimated from 12 windows of it. Intervals held"
        ),
        "{text}"
    );
    assert!(text.contains("The windows alone, one after the other:"), "{text}");
    let csv = stdout(&[&compare[..], &policies, &["--csv"]].concat());
    let head = csv.lines().next().unwrap();
    assert!(head
        .ends_with(",program_nonlocal_percent,program_nonlocal_percent_low,program_nonlocal_percent_high"));
    assert!(csv.lines().any(|line| line.contains(",first-touch,") && line.contains(",2.75,")), "{csv}");
}

#[test]
fn a_diagnosis_is_estimated_for_the_whole_program() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path(), 12, Odd { sharing: true, ..Odd::default() });
    let why = ["why", trace.to_str().unwrap(), "-m", "butterfly"];
    let report = json(&[&why[..], &["--json"]].concat());
    let program = &report["program"];
    assert_eq!((program["windows"].as_u64(), program["share"].as_f64()), (Some(12), Some(0.1)));
    assert_eq!(program["nonlocal_percent"]["value"].as_f64(), Some(12.5), "{program}");
    assert!(program["avoidable_percent"]["high"].is_number(), "{program}");
    let basis = report["basis"].as_str().unwrap();
    let said = " Of the whole program, every reference, without caches, estimated from 12 windows that hold 10.00 % \
                of it: 12.50 (";
    assert!(basis.contains(said), "{basis}");
    assert!(stdout(&why).contains(said));
    // Behind caches what they let through is not estimated, and every reference is all the same.
    let modern = ["-m", "two-socket", "--json"];
    let report = json(&[&["why", trace.to_str().unwrap()][..], &modern].concat());
    assert!(report["behind_caches"].as_bool().unwrap());
    assert_eq!(report["program"]["nonlocal_percent"]["value"].as_f64(), Some(12.5), "{report}");
    let compare = ["compare", trace.to_str().unwrap(), "--policies", "first-touch"];
    let of = |more: &[&str]| {
        json(&[&compare[..], &modern, more].concat())["traces"][0]["rows"][1]["program"].clone()
    };
    assert!(of(&[]).is_null() && of(&["--every-reference"])["mcpr"]["low"].is_number());
}
