//! Threads that wait at barriers of one futex, recorded under Valgrind: what they do between two barriers has no order,
//! and what lies on both sides of a barrier has.

#[allow(dead_code)]
#[path = "tsan/build.rs"]
mod build;

use homing_core::ids::{Thread, Time};
use homing_core::trace::{Trace, Turn, Visitor};
use std::collections::BTreeMap;
use std::process::Command;

/// Two threads that write rows of a table, one a little and one much in each phase, by turns; their first write of a
/// phase is to element 0.
const PROGRAM: &str = "\
#include <omp.h>
#include <stdio.h>
static volatile long table[2][512] __attribute__((aligned(4096)));
int main(void)
{
   printf(\"%p\\n\", (void *)table);
   fflush(stdout);
#pragma omp parallel num_threads(2)
   for (int phase = 0, me = omp_get_thread_num(); phase < 300; phase++) {
      table[me][0] = phase;
      for (long i = 0; i < ((phase + me) % 2 ? 3000 : 300); i++)
         table[me][1 + i % 511] = i;
#pragma omp barrier
   }
   return 0;
}
";

/// When each thread's first and last write to its row was, by phase.
#[derive(Default)]
struct Phases {
    frames: Vec<u64>,
    table: u64,
    of: BTreeMap<Thread, Vec<(Time, Time)>>,
}

impl Visitor for Phases {
    fn turn(&mut self, turn: Turn<'_>) {
        for (n, (&dense, kind)) in turn.addresses.iter().zip(turn.kinds).enumerate() {
            let address = (self.frames[(dense >> 12) as usize] << 12) + dense % 4096;
            let Some(at) = address.checked_sub(self.table).filter(|&at| at < 8192 && kind.is_write()) else {
                continue;
            };
            let (phases, now) = (self.of.entry(turn.thread).or_default(), Time(turn.first.0 + n as u64));
            match phases.last_mut().filter(|_| at % 4096 != 0) {
                Some(phase) => phase.1 = now,
                None => phases.push((now, now)),
            }
        }
    }
}

#[test]
fn threads_between_barriers_have_no_order() {
    let directory = tempfile::tempdir().unwrap();
    let [source, program, trace] =
        ["phases.c", "phases", "phases.trace"].map(|name| directory.path().join(name));
    std::fs::write(&source, PROGRAM).unwrap();
    let built =
        Command::new("gcc").args(["-O1", "-fopenmp", "-o"]).arg(&program).arg(&source).status().unwrap();
    assert!(built.success());
    let mut homing = build::homing();
    homing
        .env("OMP_WAIT_POLICY", "passive")
        .args(["record", "--quiet", "-o"])
        .arg(&trace)
        .arg("--")
        .arg(program);
    let output = homing.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).unwrap();
    let table = u64::from_str_radix(printed.trim().trim_start_matches("0x"), 16).unwrap();
    let bytes = std::fs::read(&trace).unwrap();
    let trace = Trace::open(&bytes).unwrap();
    let mut phases = Phases { frames: trace.frames().to_vec(), table, of: BTreeMap::new() };
    trace.visit_all(&mut phases).unwrap();
    let [one, other] = &phases.of.values().collect::<Vec<_>>()[..] else { panic!("two threads") };
    assert_eq!((one.len(), other.len()), (300, 300));
    let mut beside = 0;
    for (n, (one, other)) in one.iter().zip(other.iter()).enumerate() {
        beside += usize::from(one.0 < other.1 && other.0 < one.1);
        let next = phases.of.values().filter_map(|phases| phases.get(n + 1)).map(|phase| phase.0).min();
        assert!(next.is_none_or(|next| one.1 < next && other.1 < next), "barrier {n} is not in the order");
    }
    // The second thread may begin late.
    assert!(beside >= 298, "{beside} of 300 phases have both threads beside each other");
}
