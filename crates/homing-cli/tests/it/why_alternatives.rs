//! "Not NUMA" must hold in every reading of a trace that the trace gives a reason for.

use super::why_believe::why;
use crate::support::lab::{stderr, Lab};

/// Main computes on memory of its own, then threads use the two halves of what main has filled, again and again.
/// Arguments: rounds of main, rounds of the threads.
const START_UP: &str = r#"
#include <pthread.h>
#include <stdlib.h>
enum { BYTES = 4 << 20, OWN = 1 << 20 };
static char *data;
static long rounds;
static void *half(void *p) {
  long id = (long)p;
  for (long round = 0; round < rounds; round++)
    for (long i = id * (BYTES / 2); i < (id + 1) * (BYTES / 2); i += 64) data[i]++;
  return 0;
}
int main(int n, char **v) {
  char *own = calloc(OWN, 1);
  data = malloc(BYTES);
  for (long i = 0; i < BYTES; i += 64) data[i] = 1;
  for (long round = 0; round < atol(v[1]); round++)
    for (long i = 0; i < OWN; i += 64) own[i]++;
  rounds = atol(v[2]);
  pthread_t threads[2];
  for (long i = 0; i < 2; i++) pthread_create(threads + i, 0, half, (void *)i);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
  return own[0] == data[0];
}
"#;

#[test]
fn what_comes_after_start_up_decides_where_the_recording_ended_early() {
    let lab = Lab::new();
    let program = lab.compile(START_UP, &["-pthread"]);
    let record = |options: &[&str], rounds: &str| {
        let output = lab.record(options, &[program.to_str().unwrap(), "450", rounds]);
        assert!(output.status.success(), "{}", stderr(&output));
        why(&lab, &[])
    };
    // Main makes 15 million references, the threads 131,072 in each of their rounds.
    let (ended, _) = record(&["--limit", "16000000"], "60");
    let sentence = ended["sentence"].as_str().unwrap();
    assert_eq!(ended["verdict"], "initialised-by-one-thread", "{sentence}");
    assert!(
        sentence.contains("This is of the last quarter of the recording, which ended before"),
        "{sentence}"
    );
    // The same run to its end is what it is.
    let (whole, code) = record(&[], "7");
    let sentence = whole["sentence"].as_str().unwrap();
    assert_eq!((&whole["verdict"], code), (&"not-numa".into(), 0), "{sentence}");
    assert!(!sentence.contains("quarter"), "{sentence}");
}

/// Two threads use new memory of their own all the time.
const GROWTH: &str = r#"
#include <pthread.h>
#include <stdlib.h>
enum { BYTES = 64 << 20, PAGE = 4096 };
static void *grow(void *p) {
  char *own = malloc(BYTES);
  for (long page = 0; page < BYTES; page += PAGE)
    for (int i = 0; i < 512; i++) own[page + i * 8 % PAGE]++;
  return own;
}
int main(void) {
  pthread_t threads[2];
  for (long i = 0; i < 2; i++) pthread_create(threads + i, 0, grow, 0);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
  return 0;
}
"#;

#[test]
fn a_recording_that_ends_while_memory_is_filled_tells_nothing_of_what_comes() {
    let lab = Lab::new();
    let program = lab.compile(GROWTH, &["-pthread"]);
    let output = lab.record(&["--limit", "4000000"], &[program.to_str().unwrap()]);
    assert!(output.status.success(), "{}", stderr(&output));
    let (report, code) = why(&lab, &[]);
    assert_eq!((&report["verdict"], code), (&"not-known".into(), 5), "{}", report["sentence"]);
    assert_eq!(report["doubt"]["reason"], "growing", "{report}");
    let percent = report["doubt"]["percent"].as_f64().unwrap();
    assert!((20.0..30.0).contains(&percent), "a quarter is {percent} %");
}

/// Two threads fill and use blocks of 64 KiB in turn. Argument: the advice.
const BLOCKS: &str = r#"
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
enum { BYTES = 8 << 20, BLOCK = 1 << 16 };
static char *data;
static void *blocks(void *p) {
  for (int round = 0; round < 12; round++)
    for (long from = (long)p * BLOCK; from < BYTES; from += 2 * BLOCK)
      for (long i = from; i < from + BLOCK; i += 64) data[i] += round;
  return 0;
}
int main(int n, char **v) {
  data = aligned_alloc(2 << 20, BYTES);
  if (madvise(data, BYTES, atoi(v[1])) != 0) return 2;
  pthread_t threads[2];
  for (long i = 0; i < 2; i++) pthread_create(threads + i, 0, blocks, (void *)i);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
  return 0;
}
"#;

#[test]
fn huge_pages_that_the_program_asks_for_are_modelled() {
    const HUGE: &str = "14";
    const NOT_HUGE: &str = "15";
    let lab = Lab::new();
    let program = lab.compile(BLOCKS, &["-pthread"]);
    for (advice, verdict) in [(HUGE, "shared-huge-pages"), (NOT_HUGE, "not-numa")] {
        let output = lab.record(&[], &[program.to_str().unwrap(), advice]);
        if output.status.code() == Some(2) {
            println!("SKIPPED 1 check: this kernel knows no huge pages");
            continue;
        }
        assert!(output.status.success(), "{}", stderr(&output));
        let (report, _) = why(&lab, &[]);
        assert_eq!(report["verdict"], verdict, "{}", report["sentence"]);
    }
}

/// Two threads take jobs from a counter, each on memory of its own. Argument: jobs at a time.
const JOBS: &str = r#"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
enum { OWN = 2 << 20, JOBS = 400000 };
static atomic_long next;
static long at_a_time;
static void *take(void *p) {
  char *own = calloc(OWN, 1);
  for (long i = 0; i < OWN; i += 64) own[i] = 1;
  for (long job; (job = atomic_fetch_add(&next, at_a_time)) < JOBS;)
    for (long i = job; i < job + at_a_time; i++) own[i * 64 % OWN]++;
  return own;
}
int main(int n, char **v) {
  at_a_time = atol(v[1]);
  pthread_t threads[2];
  for (long i = 0; i < 2; i++) pthread_create(threads + i, 0, take, 0);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
  return 0;
}
"#;

#[test]
fn a_counter_that_one_thread_at_a_time_uses_leaves_a_doubt() {
    let lab = Lab::new();
    let program = lab.compile(JOBS, &["-pthread"]);
    for (at_a_time, verdict, code) in [("1", "not-known", 5), ("4096", "not-numa", 0)] {
        let output = lab.record(&[], &[program.to_str().unwrap(), at_a_time]);
        assert!(output.status.success(), "{}", stderr(&output));
        let (report, exit) = why(&lab, &[]);
        assert_eq!((&report["verdict"], exit), (&verdict.into(), code), "{}", report["sentence"]);
        if verdict == "not-known" {
            assert_eq!(report["doubt"]["reason"], "order", "{report}");
        }
    }
}
