//! Verdicts that hold: threads by what they do, pages by who made the kernel place them, and "not known" where a trace
//! does not tell.

use crate::support::lab::{stderr, Lab};
use crate::support::{self, homing};
use serde_json::Value;
use std::path::Path;

/// Two nodes of two CPUs, whose caches hold 640 KiB.
const MACHINE: &str = r#"
name = "small"
nodes = 2
cpus_per_node = 2
page_size = "4K"
[latency]
local = 80.0
remote = 140.0
page_move = { per_byte = 0.25, overhead = 1000.0 }
[hierarchy]
l1 = { size = "16K", ways = 8, line = 64, ns = 1.5 }
l2 = { size = "64K", ways = 16, line = 64, ns = 5 }
l3 = { size = "256K", ways = 16, line = 64, ns = 20, cpus = 2 }
tlb = [{ entries = 64, ways = 4 }, { entries = 2048, ways = 16 }]
[time]
compute_ns = 0.5
exposed = 0.4
memory_busy_ns = 0.5
link_busy_ns = 1.3
tlb_miss_ns = 10.0
shootdown_ns = 2000.0
"#;

/// Four threads that each use a quarter of `data` six times. `made(how)` makes it, or lets the kernel do so.
const QUARTERS: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
enum { BYTES = 4 << 20, THREADS = 4 };
static char *data;
static long sums[THREADS][16];
static void *quarter(void *p) {
  long id = (long)p, sum = 0;
  for (int round = 0; round < 6; round++)
    for (long i = id * (BYTES / THREADS); i < (id + 1) * (BYTES / THREADS); i += 16) sum += ++data[i];
  sums[id][0] = sum;
  return 0;
}
static void *idle(void *p) { usleep(1000); return p; }
static int is(const char *how, const char *name) { return strcmp(how, name) == 0; }
int main(int n, char **v) {
  const char *how = v[1];
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | (is(how, "populate") ? MAP_POPULATE : is(how, "locked") ? MAP_LOCKED : 0);
  if (is(how, "mlockall-first") && mlockall(MCL_FUTURE) != 0) return 2;
  data = mmap(0, BYTES, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (data == MAP_FAILED) return 2;
  if (is(how, "mlock") && mlock(data, BYTES) != 0) return 2;
  if (is(how, "mlockall") && mlockall(MCL_CURRENT) != 0) return 2;
  if (is(how, "madvise") && madvise(data, BYTES, 23) != 0) return 2;
  if (is(how, "store") || is(how, "helpers"))
    for (long i = 0; i < BYTES; i += 8) *(volatile long *)(data + i) = 1;
  if (is(how, "read") || is(how, "fread")) {
    int file = open("/dev/zero", O_RDONLY);
    long got = 0;
    while (is(how, "read") && got < BYTES) got += read(file, data + got, BYTES - got);
    if (is(how, "fread") && fread(data, 1, BYTES, fdopen(file, "r")) != BYTES) return 2;
  }
  pthread_t threads[THREADS], helper;
  for (long i = 0; i < THREADS; i++) {
    if (is(how, "helpers")) pthread_create(&helper, 0, idle, 0);
    pthread_create(threads + i, 0, quarter, (void *)i);
  }
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], 0);
  if (is(how, "crash")) raise(SIGSEGV);
  return 0;
}
"#;

/// The diagnosis of what was recorded, and the exit code.
pub fn why(lab: &Lab, options: &[&str]) -> (Value, i32) {
    let machine = lab.path("small.toml");
    std::fs::write(&machine, MACHINE).unwrap();
    let trace = lab.path("out.trace");
    let fixed = ["why", trace.to_str().unwrap(), "--machine", machine.to_str().unwrap(), "--json"];
    let output = homing(1, &[&fixed[..], options].concat());
    let report =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", stderr(&output)));
    (report, output.status.code().unwrap())
}

fn recorded(lab: &Lab, how: &str) -> (Value, i32) {
    attempted(lab, how).unwrap_or_else(|| panic!("{how}: the kernel refuses it"))
}

/// Nothing where the kernel refuses what the program asks for: locked memory beyond a limit, advice that it lacks.
fn attempted(lab: &Lab, how: &str) -> Option<(Value, i32)> {
    let program = lab.path("program");
    let output = lab.record(&[], &[program.to_str().unwrap(), how]);
    if output.status.code() == Some(2) {
        println!("SKIPPED 1 check: {how} is refused here");
        return None;
    }
    assert!(output.status.success() || how == "crash", "{how}: {}", stderr(&output));
    Some(why(lab, &[]))
}

#[test]
fn whoever_makes_the_kernel_place_pages_has_made_them() {
    let lab = Lab::new();
    lab.compile(QUARTERS, &["-pthread"]);
    let (by_store, _) = recorded(&lab, "store");
    assert_eq!(by_store["verdict"], "initialised-by-one-thread", "{by_store}");
    for how in ["populate", "locked", "mlock", "mlockall", "mlockall-first", "madvise", "read", "fread"] {
        let Some((report, code)) = attempted(&lab, how) else { continue };
        assert_eq!((&report["verdict"], code), (&"initialised-by-one-thread".into(), 0), "{how}: {report}");
        let made = &report["areas"][0]["pages_made_by_node"];
        assert!(made[0].as_u64().unwrap() >= 1024 && made[1].as_u64().unwrap() < 8, "{how}: {made}");
    }
    // Each thread makes its own quarter.
    let (report, code) = recorded(&lab, "nobody");
    assert_eq!((&report["verdict"], code), (&"not-numa".into(), 0), "{report}");
}

#[test]
fn helpers_that_hardly_work_change_no_verdict() {
    let lab = Lab::new();
    lab.compile(QUARTERS, &["-pthread"]);
    let (plain, _) = recorded(&lab, "store");
    let (helped, _) = recorded(&lab, "helpers");
    assert_eq!(
        (&plain["verdict"], &plain["threads_on"]),
        (&"initialised-by-one-thread".into(), &"busy".into())
    );
    assert_eq!(helped["verdict"], plain["verdict"]);
    let high = |report: &Value| report["gain"]["high"].as_f64().unwrap();
    // How much depends on how far threads overlap, which differs from recording to recording.
    assert!(high(&plain) > 0.1 && high(&helped) > 0.1, "{} {}", high(&plain), high(&helped));
    // By their numbers, all workers are on one node.
    let (by_number, _) = why(&lab, &["--threads-on", "round-robin"]);
    assert_eq!(by_number["verdict"], "not-numa", "{by_number}");
    assert_eq!(helped["busy"]["threads"], 5, "{helped}");
}

#[test]
fn a_crash_leaves_nothing_to_judge() {
    let lab = Lab::new();
    lab.compile(QUARTERS, &["-pthread"]);
    let (report, code) = recorded(&lab, "crash");
    assert_eq!((&report["verdict"], code), (&"not-known".into(), 5), "{report}");
    assert_eq!((&report["doubt"]["reason"], &report["doubt"]["signal"]), (&"crashed".into(), &11.into()));
    let text = homing(1, &["why", lab.path("out.trace").to_str().unwrap()]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(
        text.starts_with("Not known: signal 11 ended the program. Repair the crash, then record again: "),
        "{text}"
    );
    assert!(text.contains("homing why -- PROGRAM") && !text.contains("avoidable"), "{text}");
}

#[test]
fn data_that_caches_hold_tell_nothing_of_larger_data() {
    let lab = Lab::new();
    lab.compile(QUARTERS, &["-pthread"]);
    recorded(&lab, "nobody");
    let output = homing(1, &["why", lab.path("out.trace").to_str().unwrap(), "-m", "two-socket"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.starts_with("Not known: the program uses 4 MiB, and caches hold 64 MiB (modelled)."),
        "{text}"
    );
    assert_eq!(output.status.code(), Some(5));
}

/// A parent fills shared memory, and its children use it, each a half.
const PREFORK: &str = r#"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
enum { BYTES = 4 << 20 };
int main(void) {
  char *data = mmap(0, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  memset(data, 1, BYTES);
  for (long child = 0; child < 2; child++)
    if (fork() == 0) {
      volatile long sum = 0;
      for (int round = 0; round < 8; round++)
        for (long i = child * (BYTES / 2); i < (child + 1) * (BYTES / 2); i += 16) sum += data[i];
      _exit(0);
    }
  while (wait(0) > 0) {}
  return 0;
}
"#;

#[test]
fn memory_that_processes_share_is_judged_by_all_of_them() {
    let lab = Lab::new();
    let program = lab.compile(PREFORK, &[]);
    // Of the parent alone nobody knows what its children use.
    lab.record(&[], &[program.to_str().unwrap()]);
    let (parent, code) = why(&lab, &[]);
    assert_eq!((&parent["verdict"], code), (&"not-known".into(), 5), "{parent}");
    assert_eq!(parent["doubt"]["reason"], "shared-memory", "{parent}");
    let recorder = lab.homing(&[], &[]);
    let library = recorder.get_envs().find(|(name, _)| *name == "HOMING_LIB").unwrap().1.unwrap();
    let homing = |args: &[&std::ffi::OsStr]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_homing"));
        command.env("HOMING_LIB", library).env("TMPDIR", lab.path("")).current_dir(lab.path("")).args(args);
        command.output().unwrap()
    };
    let of = |output: &std::process::Output| -> Value {
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", stderr(output)))
    };
    let is_of_all = |report: &Value| {
        assert_eq!(report["verdict"], "initialised-by-one-thread", "{report}");
        assert_eq!(
            (&report["trace"]["threads"], &report["busy"]["threads"]),
            (&3.into(), &3.into()),
            "{report}"
        );
        assert!(report["areas"][0]["bytes"].as_u64().unwrap() >= 4 << 20, "{report}");
    };
    let words = |text: &str| text.split(' ').map(std::ffi::OsString::from).collect::<Vec<_>>();
    let run = |text: &str, more: &[&Path]| {
        let words = words(text);
        let more = more.iter().map(|path| path.as_os_str());
        homing(&words.iter().map(std::ffi::OsString::as_os_str).chain(more).collect::<Vec<_>>())
    };
    let judged = run("why --json --machine small.toml --", &[&program]);
    is_of_all(&of(&judged));
    let notes = of(&judged)["notes"].to_string();
    assert!(notes.contains("3 processes were recorded: judged are 3 that share memory, as one"), "{notes}");
    // By hand, of the traces that --follow leaves.
    let recorded = run("record --follow -o family.trace --", &[&program]);
    assert!(recorded.status.success(), "{}", stderr(&recorded));
    assert!(
        stderr(&recorded).contains("homing trace join family.trace family.*.trace -o"),
        "{}",
        stderr(&recorded)
    );
    let names = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().path();
    let children: Vec<_> = std::fs::read_dir(lab.path("")).unwrap().map(names).collect();
    let is_child = |path: &&std::path::PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with("family.") && name != "family.trace"
    };
    let mut traces: Vec<&Path> = children.iter().filter(is_child).map(std::path::PathBuf::as_path).collect();
    assert_eq!(traces.len(), 2, "{children:?}");
    let root = lab.path("family.trace");
    traces.insert(0, &root);
    let joined = run("trace join --json -o all.trace", &traces);
    let told = of(&joined);
    assert_eq!(
        [&told["processes"], &told["forked"], &told["shared"]],
        [3, 2, 1].map(Value::from).each_ref(),
        "{told}"
    );
    let by_hand = run("why --json --machine small.toml all.trace", &[]);
    is_of_all(&of(&by_hand));
    let avoidable = |report: &Value| report["areas"][0]["avoidable_percent"].as_f64().unwrap();
    assert!(avoidable(&of(&by_hand)) > 90.0, "{}", of(&by_hand));
}

/// Two threads read a mapped file, each a half.
const MAPPED: &str = r#"
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>
enum { BYTES = 4 << 20 };
static const char *data;
static void *half(void *p) {
  volatile long sum = 0;
  for (int round = 0; round < 6; round++)
    for (long i = (long)p * (BYTES / 2); i < ((long)p + 1) * (BYTES / 2); i += 16) sum += data[i];
  return 0;
}
int main(int n, char **v) {
  data = mmap(0, BYTES, PROT_READ, MAP_PRIVATE, open(v[1], O_RDONLY), 0);
  pthread_t threads[2];
  for (long i = 0; i < 2; i++) pthread_create(threads + i, 0, half, (void *)i);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
  return 0;
}
"#;

#[test]
fn where_the_page_cache_has_a_file_is_not_known() {
    let lab = Lab::new();
    let program = lab.compile(MAPPED, &["-pthread"]);
    let weights = lab.path("weights");
    std::fs::write(&weights, vec![7u8; 4 << 20]).unwrap();
    lab.record(&[], &[program.to_str().unwrap(), weights.to_str().unwrap()]);
    let (report, code) = why(&lab, &[]);
    assert_eq!((&report["verdict"], code), (&"not-known".into(), 5), "{report}");
    assert_eq!(report["doubt"]["reason"], "page-cache", "{report}");
    assert!(report["sentence"].as_str().unwrap().contains(weights.to_str().unwrap()), "{report}");
}

/// Four threads count in turn, two on each node, each in its own eight bytes: side by side, or on lines of their own.
/// The order is given, as how far threads overlap differs from recording to recording.
#[test]
fn padding_saves_what_it_was_said_to_save() {
    let lab = Lab::new();
    let counted = |apart: u64| {
        let count = |thread: u64| format!("{thread},{},8,w\n", (1 << 20) + thread * apart);
        let turn: String = (0..4).map(count).collect();
        support::import(&lab.path(""), "out.trace", &turn.repeat(30_000));
        why(&lab, &[]).0
    };
    let (side_by_side, padded) = (counted(8), counted(128));
    assert_eq!(side_by_side["verdict"], "falsely-shared-lines", "{side_by_side}");
    let time = |report: &Value| report["elapsed"]["now"]["seconds"].as_f64().unwrap();
    let saved = 1.0 - time(&padded) / time(&side_by_side);
    let gain = |end: &str| side_by_side["gain"][end].as_f64().unwrap();
    let within = gain("low") - 0.01..gain("high") + 0.01;
    assert!(within.contains(&saved) && saved > 0.5, "{saved} in {within:?}");
}
