//! `homing record --only-program`: what code of system libraries refers to is left out, by each recorder, and orders
//! threads all the same; so both recorders find the same pages.

use crate::tsan::build;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

const PROGRAM: &str = r#"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
enum { OWN = 20000, LOCKS = 1000, FILLED = 1 << 20 };
static volatile long data[OWN];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long counter;
#ifdef LIBRARY
long own(volatile long *values, int count);
#else
long own(volatile long *values, int count) {
  long sum = 0;
  for (int i = 0; i < count; i++) sum += values[i];
  return sum;
}
#endif
static void *work(void *unused) {
  for (int i = 0; i < LOCKS; i++) {
    pthread_mutex_lock(&lock);
    counter++;
    pthread_mutex_unlock(&lock);
  }
  return unused;
}
int main(int count, char **arguments) {
  (void)arguments;
  for (int i = 0; i < OWN; i++) data[i] = i;
  char *volatile filled = malloc(FILLED);
  memset(filled, count, FILLED);
  pthread_t one;
  pthread_create(&one, NULL, work, NULL);
  work(NULL);
  pthread_join(one, NULL);
  return own(data, OWN) == (long)OWN * (OWN - 1) / 2 && counter == 2 * LOCKS && filled[FILLED / 2] == count ? 0 : 1;
}
"#;

const LIBRARY: &str = "long own(volatile long *values, int count) {\n\
    long sum = 0; for (int i = 0; i < count; i++) sum += values[i]; return sum; }\n";

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn flags(command: &str) -> Vec<String> {
    serde_json::from_str(&run(build::homing().args([command, "--json"]))).unwrap()
}

/// Builds a program with the runtime of `--recorder tsan`.
fn build_recompiled(options: &[&str], source: &Path, program: &Path) {
    let object = program.with_extension("o");
    let mut compile = Command::new("gcc");
    run(compile.args(options).args(flags("cflags")).arg("-c").arg(source).arg("-o").arg(&object));
    let mut link = Command::new("gcc");
    run(link.args(options).arg(&object).arg("-o").arg(program).args(flags("ldflags")).arg("-lm"));
}

/// A directory for one test's program.
fn directory(name: &str) -> PathBuf {
    let directory = build::directory().join(format!("only-program-{name}-{}", std::process::id()));
    std::fs::create_dir_all(directory.join("lib")).unwrap();
    directory
}

/// Builds the Valgrind recorder, once; says so when a test has to go without.
fn valgrind_is_there() -> bool {
    static BUILT: OnceLock<bool> = OnceLock::new();
    let build = || {
        let recorder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recorders/valgrind");
        let out = format!("OUT={}", build::directory().join("valgrind").display());
        Command::new("make").arg("-s").arg("-C").arg(recorder).arg(out).status().is_ok_and(|s| s.success())
    };
    let there = *BUILT.get_or_init(build);
    if !there {
        eprintln!("SKIPPED: 1 test: Valgrind's tool headers are not installed");
    }
    there
}

/// Records, and gives the trace and what `trace info` says of it.
fn record(recorder: &str, options: &[&str], program: &Path, arguments: &[&str]) -> (PathBuf, Value) {
    let out = program.with_extension(format!("{recorder}{}.trace", options.len()));
    let mut homing = build::homing();
    homing.args(["record", "--merge", "-q", "--exclude-startup", "--recorder", recorder]).args(options);
    homing.arg("-o").arg(&out).arg("--").arg(program).args(arguments).env("OMP_NUM_THREADS", "4");
    run(&mut homing);
    let info = run(build::homing().args(["trace", "info", "--json"]).arg(&out));
    (out, serde_json::from_str(&info).unwrap())
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("no number `{key}` in {value}"))
}

const ONLY: &[&str] = &["--only-program"];

#[test]
fn under_valgrind_libraries_of_the_program_count_and_those_of_the_system_do_not() {
    if !valgrind_is_there() {
        return;
    }
    let directory = directory("valgrind");
    let (program, library) = (directory.join("program"), directory.join("lib/libown.so"));
    std::fs::write(directory.join("program.c"), PROGRAM).unwrap();
    std::fs::write(directory.join("own.c"), LIBRARY).unwrap();
    run(Command::new("gcc")
        .args(["-O1", "-shared", "-fPIC"])
        .arg(directory.join("own.c"))
        .arg("-o")
        .arg(&library));
    run(Command::new("gcc")
        .args(["-O1", "-pthread", "-DLIBRARY", "-Wl,-rpath,$ORIGIN/lib"])
        .arg(directory.join("program.c"))
        .arg(&library)
        .arg("-o")
        .arg(&program));
    let (trace, only) = record("valgrind", ONLY, &program, &[]);
    let (_, full) = record("valgrind", &[], &program, &[]);
    assert_eq!(
        (&only["header"]["only_program"], &full["header"]["only_program"]),
        (&true.into(), &Value::Null)
    );
    // Two arrays of 20,000, and for each of 2000 locks some references of the loop.
    assert!((20_000..32_000).contains(&number(&only, "reads")), "{only}");
    assert!((20_000..32_000).contains(&number(&only, "writes")), "{only}");
    assert_eq!(number(&only, "malformed") + number(&only, "lost_segments"), 0);
    assert!(number(&full, "references") > number(&only, "references") + 50_000, "{full}");
    // What memset fills is not there.
    assert!(number(&full, "pages") > number(&only, "pages") + 200, "{full}");
    // Locks and unlocks are atomic accesses of the C library.
    let synchronisations = number(&only["events"], "sync");
    assert!(synchronisations >= 2 * 2000, "{only}");
    assert!(synchronisations.abs_diff(number(&full["events"], "sync")) < 200, "{full}");
    // Which file's code made a reference is known.
    let of = |info: &Value, wanted: &str| {
        let files = info["by_file"].as_object().unwrap().iter();
        files.filter(|(file, _)| file.contains(wanted)).map(|(_, count)| count.as_u64().unwrap()).sum::<u64>()
    };
    for info in [&full, &only] {
        assert_eq!(of(info, ""), number(info, "references"), "{info}");
        assert!((20_000..21_000).contains(&of(info, "/lib/libown.so")), "{info}");
        let own = of(info, "/only-program-valgrind-") - of(info, "/lib/libown.so");
        assert!((20_000..40_000).contains(&own), "{info}");
    }
    assert!(of(&full, "/libc.so") > 10_000 && of(&only, "/libc.so") == 0, "{only}");
    let optimal = ["optimal", "--machine", "two-socket", "--json"];
    let report = run(build::homing().args(optimal).arg(&trace));
    assert!(report.contains("(--only-program)"), "{report}");
    let table = run(build::homing().args(["trace", "info"]).arg(&trace));
    assert!(table.contains("the program's own; that of system libraries is left out"), "{table}");
}

#[test]
fn of_recompiled_programs_the_ranges_of_the_c_library_are_left_out() {
    let directory = directory("tsan");
    let (source, program) = (directory.join("program.c"), directory.join("program"));
    std::fs::write(&source, PROGRAM).unwrap();
    build_recompiled(&["-O1", "-pthread"], &source, &program);
    let (_, only) = record("tsan", ONLY, &program, &[]);
    let (_, full) = record("tsan", &[], &program, &[]);
    // memset is recorded in pieces of 32 bytes.
    assert_eq!(number(&full, "references") - number(&only, "references"), (1 << 20) / 32);
    assert_eq!(only["events"], full["events"]);
    assert!(number(&full, "pages") >= number(&only, "pages") + 250, "{full}");
}

#[test]
fn both_recorders_find_the_same_pages() {
    if !valgrind_is_there() {
        return;
    }
    let directory = directory("both");
    let workloads = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads");
    for (name, arguments) in [
        ("cg", &["-n", "14000", "-i", "3", "-t", "4"][..]),
        ("is", &["-i", "1", "-t", "4"]),
        ("mg", &["-n", "64", "-i", "1", "-t", "4"]),
    ] {
        let source = workloads.join(format!("{name}.c"));
        let [plain, built] = ["plain", "tsan"].map(|kind| directory.join(format!("{name}-{kind}")));
        run(Command::new("gcc").args(["-O2", "-fopenmp"]).arg(&source).arg("-lm").arg("-o").arg(&plain));
        build_recompiled(&["-O2", "-fopenmp"], &source, &built);
        let differ = |options: &[&str]| {
            let pages = |recorder, program: &PathBuf| {
                number(&record(recorder, options, program, arguments).1, "pages") as f64
            };
            (pages("valgrind", &plain) / pages("tsan", &built) - 1.0).abs()
        };
        let (full, only) = (differ(&[]), differ(ONLY));
        assert!(only < 0.03 && only < full, "{name}: {only:.3}, {full:.3} with libraries");
    }
}
