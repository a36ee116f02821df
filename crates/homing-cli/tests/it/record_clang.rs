//! `--recorder clang` against programs that know their own references: loops of all kinds, compiled at several levels
//! of optimisation, give a trace with just the references that a build of the same source writes down itself, in their
//! order. Volatile accesses stay what they are; the others are compared byte by byte, since they may be vectorised.

use crate::tsan::build;
use crate::tsan::build::Compiler;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// By thread: address, bytes, whether it writes.
type References = BTreeMap<u32, Vec<(u64, u64, bool)>>;

/// A reference: array, offset in it, bytes, whether it writes.
type Reference = (usize, u64, u64, bool);

const HEAD: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef LOG
static __thread int array;
static void note(const volatile void *at, unsigned long bytes, int write);
#define R(x) (note(&(x), sizeof(x), 0), (x))
#define W(x, v) do { __typeof__((x) + 0) v_ = (v); note(&(x), sizeof(x), 1); (x) = v_; } while (0)
static void range(const volatile void *at, unsigned long bytes, int write) {
  for (unsigned long piece = 32, done = 0; piece > 0; piece /= 2)
    for (; bytes - done >= piece; done += piece) note((const volatile char *)at + done, piece, write);
}
#define COPY(to, from, n) do { range(from, n, 0); range(to, n, 1); memcpy((void *)(to), (void *)(from), n); } while (0)
#define FILL(to, n) do { range(to, n, 1); memset((void *)(to), 1, n); } while (0)
#else
#define R(x) (x)
#define W(x, v) ((x) = (v))
#define STAYS __asm__ volatile("" ::: "memory")
#define COPY(to, from, n) do { STAYS; memcpy((void *)(to), (void *)(from), n); STAYS; } while (0)
#define FILL(to, n) do { STAYS; memset((void *)(to), 1, n); STAYS; } while (0)
#endif
"#;

const TAIL: &str = r#"
#ifdef LOG
static void note(const volatile void *at, unsigned long bytes, int write) {
  for (unsigned i = 0; i < sizeof arrays / sizeof *arrays; i++)
    if ((unsigned long)at - (unsigned long)arrays[i].at < arrays[i].bytes) {
      printf("%d %u %lu %lu %d\n", array, i, (unsigned long)at - (unsigned long)arrays[i].at, bytes, write);
      return;
    }
  abort();
}
#endif
static void *other(void *unused) {
#ifdef LOG
  array = 1;
#endif
  second();
  return unused;
}
int main(void) {
#ifndef LOG
  for (unsigned i = 0; i < sizeof arrays / sizeof *arrays; i++)
    printf("%lu %lu\n", (unsigned long)arrays[i].at, arrays[i].bytes);
#endif
  fflush(stdout);
  pthread_t thread;
#ifdef LOG
  first();
  pthread_create(&thread, NULL, other, NULL);
#else
  pthread_create(&thread, NULL, other, NULL);
  first();
#endif
  pthread_join(thread, NULL);
  return 0;
}
"#;

/// Random numbers (SplitMix64): the same programs in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % n
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len() as u64) as usize]
    }
}

/// A program with kernels of all kinds for two threads, which use arrays of their own.
fn program(seed: u64) -> String {
    let mut random = Random(seed);
    let mut text = HEAD.to_owned();
    for set in ["first", "second"] {
        for (name, kind) in
            [("a", "double"), ("b", "int"), ("c", "short"), ("d", "char"), ("n", "int"), ("x", "long")]
        {
            let _ = writeln!(text, "static volatile {kind} {set}_{name}[70000];");
        }
        let _ = writeln!(text, "static volatile struct {{ int k; char c; double v, w; }} {set}_s[500];");
        let _ = writeln!(text, "static char {set}_f[4096], {set}_t[4096];");
    }
    let arrays = ["first", "second"].map(|set| {
        ["a", "b", "c", "d", "n", "x", "s", "f", "t"]
            .map(|n| format!("{{(void *){set}_{n}, sizeof {set}_{n}}}"))
            .join(", ")
    });
    let _ = writeln!(
        text,
        "static struct {{ void *at; unsigned long bytes; }} arrays[] = {{{}}};",
        arrays.join(", ")
    );
    let _ = writeln!(text, "int size = 1; /* not known when it is compiled */");
    for set in ["first", "second"] {
        let kernels = 24;
        for kernel in 0..kernels {
            let body = body(&mut random, kernel).replace('@', &format!("{set}_"));
            let inline = random.pick(&["__attribute__((noinline))", "inline"]);
            let _ = writeln!(text, "static {inline} void {set}_{kernel}(long m) {{ (void)m;\n{body}}}");
        }
        let calls: String =
            (0..kernels).map(|k| format!("  {set}_{k}({} * size);\n", random.below(60))).collect();
        let _ = writeln!(text, "static void {set}(void) {{\n{calls}}}");
    }
    text + TAIL
}

fn body(random: &mut Random, kernel: u64) -> String {
    let array = random.pick(&["@a", "@b", "@c", "@d", "@x"]);
    let other = random.pick(&["@a", "@b", "@c", "@d", "@x"]);
    let (step, off, few) = (1 + random.below(9), random.below(50), 3 + random.below(90));
    let bound = random.pick(&["m", "m + 20", "300"]);
    let text = match kernel % 12 {
        0 => "for (long i = 0; i < BOUND; i += STEP) { long t = R(A[i + OFF]); W(B[i], t + 1); }",
        1 => {
            "for (long i = BOUND; i >= 0; i -= STEP) {
               W(A[i + OFF], i); long t = R(B[2 * i]); W(B[2 * i + 1], t); }"
        }
        2 => {
            "for (long i = 0; i < FEW; i++) W(@n[i], (i * STEP + m) % FEW);
             for (long i = 0; i < FEW; i++) { int t = R(@n[i]); long u = R(A[t]); W(B[i], u + t); }"
        }
        3 => {
            "for (long i = 0; i < FEW; i++) W(@n[i], i + 1 < FEW ? i + 1 : 0);
             int at = 0; do { at = R(@n[at]); } while (at != 0);"
        }
        4 => {
            "for (long i = 0; i < FEW; i++) W(A[i], 1);
             W(A[FEW], 0); long i = 0; while (R(A[i])) i++;
             W(@x[0], i);"
        }
        5 => {
            "for (long i = 0; i < 20; i++)
               for (long j = 0; j < m; j++) { long t = R(A[i * m + j]); W(B[j * 20 + i], t); }"
        }
        6 => {
            "for (long i = 0; i < 30; i++) {
               W(B[i], i);
               for (long j = i; j < 30; j++) { long t = R(A[j]); W(B[i * 31 + j + 40], t); } }"
        }
        7 => {
            "for (long i = 0; i < FEW; i++) {
               W(@s[i].v, 1.5); double v = R(@s[i].v); W(@s[i].w, v); W(@s[i].k, 3); int k = R(@s[i].k);
               W(@s[i].c, k); }"
        }
        8 => {
            "for (long i = 0; i < FEW; i++) {
               if (i % 3 == 0) { W(A[i], i); continue; }
               long t = R(B[i * STEP]); if (t > 1000000) break;
               if (t == m) W(A[t & 63], 1); }"
        }
        9 => {
            "long n = FEW; for (long i = 0; n > 0; i += m + 1) { W(A[i % 60000], i); n--; }
             unsigned short k = 65500; for (int i = 0; i < 60; i++, k++) W(B[k], 1);"
        }
        10 => {
            "COPY(@t + OFF, @f + STEP, SMALL); FILL(@t + OFF, STEP); COPY(@f, @t + 8, LARGE); FILL(@f, m);
             for (long i = 0; i < 9; i++) COPY(@t + i * 16, @f + i, 24);"
        }
        _ => {
            "unsigned at = OFF;
             for (int i = 0; i < ROUNDS; i++) {
               at = (at * 1103515245u + 12345u) % 69999u; long t = R(A[at]); W(@n[i & 1023], t); }"
        }
    };
    // More than a segment of irregular addresses in one loop.
    let rounds = if kernel == 11 { 45_000 } else { few };
    let numbers = [
        ("STEP", step),
        ("OFF", off),
        ("FEW", few),
        ("SMALL", 1 + random.below(128)),
        ("LARGE", 129 + random.below(900)),
        ("ROUNDS", rounds),
    ];
    let mut text =
        text.replace("BOUND", bound).replace("A[", &format!("{array}[")).replace("B[", &format!("{other}["));
    for (name, number) in numbers {
        text = text.replace(name, &number.to_string());
    }
    text + "\n"
}

fn succeeds(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

struct Lab(tempfile::TempDir);

impl Lab {
    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Compiles and links with `homing cc`, or `homing c++`.
    fn build(&self, source: &Path, options: &[&str], name: &str) {
        let compiler = if source.extension().is_some_and(|e| e == "cpp") { "c++" } else { "cc" };
        succeeds(build::homing().arg(compiler).args(options).arg(source).arg("-o").arg(self.path(name)));
    }

    /// Records `program`; returns what it has printed, and its references.
    fn record_program(&self, arguments: &[PathBuf]) -> (String, References) {
        let mut record = build::homing();
        record
            .args(["record", "--merge", "--quiet", "--recorder", "clang", "-o"])
            .arg(self.path("a.trace"))
            .arg("--");
        let recorded = succeeds(record.arg(self.path("program")).args(arguments));
        assert!(recorded.stderr.is_empty(), "{}", String::from_utf8_lossy(&recorded.stderr));
        (String::from_utf8(recorded.stdout).unwrap(), self.references())
    }

    /// Those of the trace.
    fn references(&self) -> References {
        let table = self.path("a.csv");
        succeeds(build::homing().args(["trace", "export"]).arg(self.path("a.trace")).arg("-o").arg(&table));
        let mut threads = References::new();
        for line in std::fs::read_to_string(&table).unwrap().lines().skip(1) {
            let fields: Vec<&str> = line.split(',').collect();
            let address = u64::from_str_radix(fields[1].trim_start_matches("0x"), 16).unwrap();
            let reference = (address, fields[2].parse().unwrap(), fields[3] == "w");
            threads.entry(fields[0].parse().unwrap()).or_default().push(reference);
        }
        threads
    }

    fn record(&self, source: &Path, options: &[&str]) -> (String, References) {
        self.build(source, &[options, &["-pthread"]].concat(), "program");
        self.record_program(&[])
    }
}

/// Start and bytes of the arrays, which the program prints.
fn arrays(printed: &str) -> Vec<(u64, u64)> {
    let pair =
        |line: &str| line.split_once(' ').map(|(at, bytes)| (at.parse().unwrap(), bytes.parse().unwrap()));
    printed.lines().filter_map(pair).collect()
}

/// The references to arrays.
fn of_arrays(references: &[(u64, u64, bool)], arrays: &[(u64, u64)]) -> Vec<Reference> {
    let place = |&(address, bytes, write): &(u64, u64, bool)| {
        let array = arrays.iter().position(|&(at, length)| (at..at + length).contains(&address))?;
        Some((array, address - arrays[array].0, bytes, write))
    };
    references.iter().filter_map(place).collect()
}

fn check(seeds: std::ops::Range<u64>, options: &[&str]) {
    if !Compiler::ClangPass.there() {
        return;
    }
    for seed in seeds {
        let lab = Lab(tempfile::tempdir().unwrap());
        let (source, model) = (lab.path("program.c"), lab.path("model"));
        std::fs::write(&source, program(seed)).unwrap();
        succeeds(Command::new("clang").args(["-O1", "-DLOG", "-pthread"]).arg(&source).arg("-o").arg(&model));
        let said = String::from_utf8(succeeds(&mut Command::new(&model)).stdout).unwrap();
        let mut expected = [Vec::new(), Vec::new()];
        for line in said.lines() {
            let fields: Vec<u64> = line.split(' ').map(|field| field.parse().unwrap()).collect();
            expected[fields[0] as usize].push((fields[1] as usize, fields[2], fields[3], fields[4] == 1));
        }
        let (printed, threads) = lab.record(&source, options);
        let arrays = arrays(&printed);
        assert_eq!(arrays.len(), 18);
        for (thread, expected) in expected.iter().enumerate() {
            let found = of_arrays(&threads[&(thread as u32)], &arrays);
            let differs = found.iter().zip(expected).position(|(found, expected)| found != expected);
            if let Some(at) = differs {
                let around = at.saturating_sub(3)..at + 4;
                panic!(
                    "seed {seed} {options:?} thread {thread}: reference {at} differs: {:?}, expected {:?}",
                    &found.get(around.clone()),
                    &expected.get(around)
                );
            }
            assert_eq!(found.len(), expected.len(), "seed {seed} {options:?} thread {thread}");
            assert!(expected.len() > 50_000);
        }
    }
}

#[test]
fn unoptimised_programs_give_their_references_in_order() {
    check(0..2, &["-O0"]);
}

#[test]
fn optimised_programs_give_their_references_in_order() {
    check(2..6, &["-O1"]);
    check(6..10, &["-O2"]);
}

#[test]
fn most_optimised_programs_give_their_references_in_order() {
    check(10..14, &["-O3", "-funroll-loops"]);
    check(14..16, &["-Os"]);
}

const PLAIN: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
enum { N = 5003 };
double a[N], b[N], c[N];
float f[N];
char d[N];
int ix[N], e[N];
#define ARRAY(x) {x, sizeof x}
struct { void *at; unsigned long bytes; } arrays[] =
  {ARRAY(a), ARRAY(b), ARRAY(c), ARRAY(f), ARRAY(d), ARRAY(ix), ARRAY(e)};
#define KERNEL __attribute__((noinline)) void
KERNEL begin(void) { for (int i = 0; i < N; i++) ix[i] = (i * 1000L + 7) % N; }
KERNEL add(double *restrict a, const double *restrict b, long n) { for (long i = 0; i < n; i++) a[i] = b[i] + 1; }
KERNEL gather(double *restrict c, const double *restrict a, const int *restrict ix, long n) {
  for (long i = 0; i < n; i++) c[i] = a[ix[i]];
}
KERNEL some(float *restrict f, const int *restrict e, long n) { for (long i = 0; i < n; i++) if (e[i] == 0) f[i] = i; }
KERNEL chars(char *restrict d, long n) { for (long i = n - 1; i >= 0; i--) d[i] = i * 3; }
int main(void) {
  for (unsigned i = 0; i < sizeof arrays / sizeof *arrays; i++)
    printf("%lu %lu\n", (unsigned long)arrays[i].at, arrays[i].bytes);
  fflush(stdout);
  begin();
  add(a, b, N);
  gather(c, a, ix, N);
  some(f, e, N);
  chars(d, N);
  return 0;
}
"#;

/// Whether this processor has an extension.
fn has(flag: &str) -> bool {
    let facts = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    facts.split_whitespace().any(|word| word == flag)
}

#[test]
fn vectorised_loops_refer_to_each_byte_as_often() {
    if !Compiler::ClangPass.there() {
        return;
    }
    let mut built = vec![vec!["-O3"], vec!["-O3", "-fno-vectorize", "-fno-slp-vectorize"]];
    built.extend(has("avx2").then(|| vec!["-O3", "-mavx2", "-mfma"]));
    built.extend(has("avx512f").then(|| vec!["-O3", "-mavx512f", "-mavx512vl", "-mprefer-vector-width=512"]));
    for options in built {
        let lab = Lab(tempfile::tempdir().unwrap());
        let source = lab.path("plain.c");
        std::fs::write(&source, PLAIN).unwrap();
        let (printed, threads) = lab.record(&source, &options);
        let arrays = arrays(&printed);
        let mut counts: Vec<[Vec<u32>; 2]> =
            arrays.iter().map(|&(_, bytes)| [vec![0; bytes as usize], vec![0; bytes as usize]]).collect();
        for (array, offset, bytes, write) in of_arrays(&threads[&0], &arrays) {
            for count in &mut counts[array][usize::from(write)][offset as usize..(offset + bytes) as usize] {
                *count += 1;
            }
        }
        // Reads and writes of each byte of a, b, c, f, d, ix and e.
        for (array, expected) in
            [(1, 1), (1, 0), (0, 1), (0, 1), (0, 1), (1, 1), (1, 0)].into_iter().enumerate()
        {
            for (write, expected) in [expected.0, expected.1].into_iter().enumerate() {
                let differs = counts[array][write].iter().position(|&count| count != expected);
                assert_eq!(
                    differs,
                    None,
                    "{options:?}: array {array}, write {write}: {:?}",
                    differs.map(|at| counts[array][write][at])
                );
            }
        }
    }
}

const KILLED: &str = r#"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
static volatile char a[70000];
struct { void *at; unsigned long bytes; } arrays[] = {{(void *)a, sizeof a}};
static void *killer(void *unused) { usleep(200000); kill(getpid(), SIGKILL); return unused; }
int main(int count, char **words) {
  (void)count;
  printf("%lu %lu\n", (unsigned long)arrays[0].at, arrays[0].bytes);
  fflush(stdout);
  volatile unsigned long *done = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, open(words[1], O_RDWR), 0);
  pthread_t thread;
  pthread_create(&thread, NULL, killer, NULL);
  unsigned at = 1;
  for (unsigned long i = 1; i < 1000000000000; i++) {
    at = (at * 1103515245u + 12345u) % 69999u;
    (void)a[at];
    *done = i;
  }
  return 0;
}
"#;

/// A loop that goes on for longer than segments, and is killed: the trace ends where the program did.
#[test]
fn a_loop_that_is_killed_leaves_all_that_it_did() {
    if !Compiler::ClangPass.there() {
        return;
    }
    let lab = Lab(tempfile::tempdir().unwrap());
    let (source, done) = (lab.path("killed.c"), lab.path("done"));
    std::fs::write(&source, KILLED).unwrap();
    std::fs::write(&done, [0; 4096]).unwrap();
    lab.build(&source, &["-O2", "-pthread"], "program");
    let mut record = build::homing();
    record
        .args(["record", "--merge", "--quiet", "--recorder", "clang", "-o"])
        .arg(lab.path("a.trace"))
        .arg("--");
    let recorded = record.arg(lab.path("program")).arg(&done).output().unwrap();
    assert_eq!(recorded.status.code(), Some(128 + 9), "{}", String::from_utf8_lossy(&recorded.stderr));
    let arrays = arrays(&String::from_utf8(recorded.stdout).unwrap());
    let found = of_arrays(&lab.references()[&0], &arrays);
    let done = std::fs::read(&done).unwrap();
    let done = u64::from_le_bytes(done[..8].try_into().unwrap());
    assert!(done > 10_000, "{done} rounds");
    let missing = done.abs_diff(found.len() as u64);
    assert!(missing <= 2, "{done} rounds, {} references", found.len());
    let mut at = 1u32;
    for (i, reference) in found.iter().enumerate() {
        at = at.wrapping_mul(1_103_515_245).wrapping_add(12345) % 69_999;
        assert_eq!(*reference, (0, u64::from(at), 1, false), "round {i}");
    }
}

const THROWS: &str = r#"
#include <cstdio>
#include <csetjmp>
#include <stdexcept>
static volatile long a[100];
struct { void *at; unsigned long bytes; } arrays[] = {{(void *)a, sizeof a}};
static jmp_buf out;
struct Guard { int i; ~Guard() { a[i] = 3; } };
__attribute__((noinline)) void deep(int i) {
  Guard guard{i};
  a[i] = 1;
  if (i % 3 == 0) throw std::runtime_error("no");
  a[i] = 2;
}
__attribute__((noinline)) void jump(int i) { a[i] = 5; longjmp(out, i); }
int main() {
  std::printf("%lu %lu\n", (unsigned long)arrays[0].at, arrays[0].bytes);
  std::fflush(stdout);
  for (int i = 0; i < 30; i++) {
    try { deep(i); } catch (const std::runtime_error &) { a[i] = 4; }
  }
  for (volatile int i = 50; i < 60; i++) { if (setjmp(out) == 0) jump(i); else a[i] = 6; }
}
"#;

#[test]
fn exceptions_and_jumps_leave_records_whole() {
    if !Compiler::ClangXxPass.there() {
        return;
    }
    let lab = Lab(tempfile::tempdir().unwrap());
    let source = lab.path("throws.cpp");
    std::fs::write(&source, THROWS).unwrap();
    for level in ["-O0", "-O2"] {
        lab.build(&source, &[level], "program");
        let (printed, threads) = lab.record_program(&[]);
        let found = of_arrays(&threads[&0], &arrays(&printed));
        // 1, then 2 or an exception; the guard's 3, and 4 behind an exception.
        let expected = (0..30).flat_map(|i| [i; 3]).chain((50..60).flat_map(|i| [i; 2]));
        let expected: Vec<Reference> = expected.map(|i| (0, 8 * i, 8, true)).collect();
        assert_eq!(found, expected, "{level}");
    }
}

const LOADS: &str = r#"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
static void *call(void *function) { ((void (*)(void))function)(); return NULL; }
int main(int count, char **words) {
  for (int round = 0; round < 2; round++)
    for (int i = 1; i < count; i++) {
      void *library = dlopen(words[i], RTLD_NOW);
      if (!library) { fprintf(stderr, "%s\n", dlerror()); return 1; }
      pthread_t thread;
      pthread_create(&thread, NULL, call, dlsym(library, "fill"));
      pthread_join(thread, NULL);
      printf("%lu %d\n", (unsigned long)dlsym(library, "a"), 80000);
      dlclose(library);
    }
  return 0;
}
"#;

/// Libraries that are loaded later, and again, define blocks of their own; one that is not compiled so does no harm.
#[test]
fn libraries_that_are_loaded_later_record() {
    if !Compiler::ClangPass.there() {
        return;
    }
    let lab = Lab(tempfile::tempdir().unwrap());
    let (source, library) = (lab.path("loads.c"), lab.path("library.c"));
    std::fs::write(&source, LOADS).unwrap();
    std::fs::write(
        &library,
        "long a[10000];\nvoid fill(void) { for (long i = 0; i < 10000; i++) a[i] = i; }\n",
    )
    .unwrap();
    lab.build(&source, &["-O2", "-pthread", "-ldl"], "program");
    for name in ["one.so", "two.so"] {
        lab.build(&library, &["-O2", "-fPIC", "-shared"], name);
    }
    let plain = lab.path("plain.so");
    succeeds(Command::new("clang").args(["-O2", "-fPIC", "-shared", "-o"]).arg(&plain).arg(&library));
    let (printed, threads) = lab.record_program(&[lab.path("one.so"), lab.path("two.so"), plain]);
    let arrays = arrays(&printed);
    assert_eq!((arrays.len(), threads.len()), (6, 5), "the threads in plain.so refer to nothing");
    for (thread, array) in [(1, 0), (2, 1), (4, 3), (5, 4)] {
        let bytes: u64 = of_arrays(&threads[&thread], &arrays[array..=array])
            .iter()
            .map(|&(_, _, bytes, write)| if write { bytes } else { 0 })
            .sum();
        assert_eq!(bytes, 80_000, "thread {thread}");
    }
}
