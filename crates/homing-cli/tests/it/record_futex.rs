//! OpenMP threads that wait at barriers, all of one futex, recorded under Valgrind: what they do between two barriers
//! has no order, so they take turns in the merged one.

use homing_core::ids::Thread;
use homing_core::trace::{Trace, Turn, Visitor};
use std::path::Path;
use std::process::Command;

/// A turn of more references than this is no turn among equals.
const LONG: u64 = 2000;

/// References since a second thread came, and those of them in long stretches of one thread.
#[derive(Default)]
struct Turns {
    thread: Option<Thread>,
    stretch: u64,
    shared: bool,
    all: u64,
    long: u64,
}

impl Turns {
    fn end(&mut self) {
        if self.shared {
            self.all += self.stretch;
            self.long += if self.stretch > LONG { self.stretch } else { 0 };
        }
        self.stretch = 0;
    }
}

impl Visitor for Turns {
    fn turn(&mut self, turn: Turn<'_>) {
        if self.thread.is_some_and(|thread| thread != turn.thread) {
            self.end();
            self.shared = true;
        }
        self.thread = Some(turn.thread);
        self.stretch += turn.addresses.len() as u64;
    }
}

#[test]
fn openmp_threads_take_turns_between_barriers() {
    let directory = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads/cg.c");
    let [program, trace] = ["cg", "cg.trace"].map(|name| directory.path().join(name));
    let mut gcc = Command::new("gcc");
    let built = gcc.args(["-O2", "-fopenmp", "-o"]).arg(&program).arg(&source).arg("-lm").output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let mut homing = Command::new(env!("CARGO_BIN_EXE_homing"));
    homing.env("OMP_WAIT_POLICY", "passive");
    homing
        .args(["record", "--merge", "--quiet", "--only-program", "--exclude-startup", "-o"])
        .arg(&trace)
        .arg("--");
    let output = homing.arg(program).args(["-n", "2000", "-i", "10", "-t", "4"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let bytes = std::fs::read(&trace).unwrap();
    let mut turns = Turns::default();
    Trace::open(&bytes).unwrap().visit_all(&mut turns).unwrap();
    turns.end();
    assert!(turns.all > 1_000_000, "{} references are shared out", turns.all);
    // The first thread alone makes 7 % between teams. With an order among waiters at a futex it is 50 to 74 %.
    let share = turns.long as f64 / turns.all as f64;
    assert!(share < 0.15, "{:.1} % of the references are in stretches of one thread", 100.0 * share);
}
