//! Programs whose recorder writes what no recorder would: numbers that nobody counted, words in no order. The program
//! ends as it does without one; what makes no sense is counted.

use crate::support::lab::{stderr, Lab};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A recorder that takes one segment, writes it as `words` says, and posts it.
const HEAD: &str = r#"
#include "homing_wire.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
typedef unsigned long long word;
int main(void)
{
   int memory, credit, full;
   unsigned segment;
   struct stat facts;
   sscanf(getenv("HOMING_WIRE"), "%d,%d,%d", &memory, &credit, &full);
   fstat(memory, &facts);
   homing_wire_header *header = mmap(0, facts.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
   header->version = HOMING_WIRE_VERSION;
   header->flavour = HOMING_FLAVOUR_PARALLEL;
   if (read(credit, &segment, sizeof segment) != sizeof segment)
      return 1;
   word *w = (word *)((char *)header + header->header_bytes + (word)segment * header->segment_words * sizeof(word));
   homing_wire_full post = { segment, 0, 0, 0 };
   unsigned n = 0;
"#;

/// A code block of one access whose address has a step.
const DEFINE: &str = "w[n++] = HOMING_WORD(HOMING_DEFINE, 1); w[n++] = 1ull << 32 | 1; w[n++] = 0x401000;\n\
    w[n++] = 8ull << HOMING_ACCESS_SIZE_AT | 1ull << HOMING_ACCESS_STEPS_BIT;\n";

const POST: &str = "post.words = n; if (write(full, &post, sizeof post) != sizeof post) return 1;\n";

fn begin(lab: &Lab, words: &str, end: &str) -> Child {
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recorders/include");
    let source = format!("{HEAD}{words}{end}}}\n");
    let program = lab.compile(&source, &["-I", include.to_str().unwrap()]);
    let mut homing = Command::new(env!("CARGO_BIN_EXE_homing"));
    homing.args(["record", "--recorder", "clang", "-o"]).arg(lab.path("out.trace")).arg("--").arg(program);
    homing.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits until it has ended, for minutes at most.
fn end(mut homing: Child) -> Output {
    let begin = Instant::now();
    while homing.try_wait().unwrap().is_none() {
        if begin.elapsed() > Duration::from_secs(120) {
            homing.kill().unwrap();
            panic!("it does not end");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    homing.wait_with_output().unwrap()
}

fn run(words: &str) -> Output {
    end(begin(&Lab::new(), words, "return 7;"))
}

#[test]
fn numbers_that_no_recorder_counts_are_left_out() {
    let wraps =
        "w[n++] = HOMING_WORD(HOMING_LOOP, 1); w[n++] = 1ull << 38; w[n++] = 0x1000; w[n++] = 1ull << 61;\n";
    let long = "w[n++] = HOMING_WORD(HOMING_LOOP, 1); w[n++] = 1ull << 62; w[n++] = 0x1000; w[n++] = 0;\n";
    let stream = "w[n++] = 0x1000 | 3ull << 59; post.stream = 3000000000u;\n";
    for words in
        [format!("{DEFINE}{wraps}{POST}"), format!("{DEFINE}{long}{POST}"), format!("{stream}{POST}")]
    {
        let output = run(&words);
        assert_eq!(output.status.code(), Some(7), "{words}: {}", stderr(&output));
        assert!(
            stderr(&output).contains("words of the recorder made no sense"),
            "{words}: {}",
            stderr(&output)
        );
    }
}

#[test]
fn a_signal_ends_a_loop_that_no_end_is_in_sight_of() {
    let lab = Lab::new();
    // Each execution is at the same address, so that only their number makes it long.
    let words = "w[n++] = HOMING_WORD(HOMING_LOOP, 1); w[n++] = 1ull << 40; w[n++] = 0x1000; w[n++] = 0;\n";
    let mut homing =
        begin(&lab, &format!("{DEFINE}{words}{POST}"), "puts(\"posted\"); fflush(stdout); pause();");
    let mut said = [0; 6];
    std::io::Read::read_exact(homing.stdout.as_mut().unwrap(), &mut said).unwrap();
    assert!(Command::new("kill").arg(homing.id().to_string()).status().unwrap().success());
    let output = end(homing);
    assert_eq!(output.status.code(), Some(128 + 15), "{}", stderr(&output));
    assert!(stderr(&output).contains("references were lost by the recorder"), "{}", stderr(&output));
    let bytes = std::fs::read(lab.path("out.trace")).unwrap();
    let trace = homing_core::trace::Trace::open(&bytes).unwrap();
    assert!(trace.complete() || trace.awaits_order(), "{}", stderr(&output));
    assert_eq!(trace.references() + trace.summary().lost, 1 << 40);
}

#[test]
fn a_recorder_that_breaks_the_contract_costs_the_recording_and_not_the_program() {
    let words = "post.segment = 1000000; if (write(full, &post, sizeof post) != sizeof post) return 1;\n\
        while (!*(volatile unsigned *)&header->stop) usleep(1000);\n\
        puts(\"goes on\");\n";
    let output = run(words);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "goes on\n", "{}", stderr(&output));
    assert!(stderr(&output).contains("broke the wire contract"), "{}", stderr(&output));
    assert!(stderr(&output).contains("goes on without being recorded"), "{}", stderr(&output));
}
