//! `--recorder clang` against programs that know their own references: loops of all kinds, compiled at several levels
//! of optimisation, give a trace with just the references that a build of the same source writes down itself, in their
//! order. Volatile accesses stay what they are; the others are compared byte by byte, since they may be vectorised.

#[allow(dead_code)]
#[path = "tsan/build.rs"]
mod build;

use build::Compiler;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

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
    if ((const volatile char *)at >= (char *)arrays[i].at && (const volatile char *)at < (char *)arrays[i].at + arrays[i].bytes) {
      printf("%d %u %lu %lu %d\n", array, i, (unsigned long)((const volatile char *)at - (char *)arrays[i].at), bytes, write);
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
    match kernel % 12 {
        0 => format!("  for (long i = 0; i < {bound}; i += {step}) {{ long t = R({array}[i + {off}]); W({other}[i], t + 1); }}\n"),
        1 => format!("  for (long i = {bound}; i >= 0; i -= {step}) {{ W({array}[i + {off}], i); long t = R({other}[2 * i]); W({other}[2 * i + 1], t); }}\n"),
        2 => format!("  for (long i = 0; i < {few}; i++) W(@n[i], (i * {step} + m) % {few});\n  for (long i = 0; i < {few}; i++) {{ int t = R(@n[i]); long u = R({array}[t]); W({other}[i], u + t); }}\n"),
        3 => format!("  for (long i = 0; i < {few}; i++) W(@n[i], i + 1 < {few} ? i + 1 : 0);\n  int at = 0; do {{ at = R(@n[at]); }} while (at != 0);\n"),
        4 => format!("  for (long i = 0; i < {few}; i++) W({array}[i], 1);\n  W({array}[{few}], 0);\n  long i = 0; while (R({array}[i])) i++;\n  W(@x[0], i);\n"),
        5 => format!("  for (long i = 0; i < 20; i++) for (long j = 0; j < m; j++) {{ long t = R({array}[i * m + j]); W({array}[j * 20 + i], t); }}\n"),
        6 => format!("  for (long i = 0; i < 30; i++) {{ W({other}[i], i); for (long j = i; j < 30; j++) {{ long t = R({array}[j]); W({other}[i * 31 + j + 40], t); }} }}\n"),
        7 => format!("  for (long i = 0; i < {few}; i++) {{ W(@s[i].v, 1.5); double v = R(@s[i].v); W(@s[i].w, v); W(@s[i].k, 3); int k = R(@s[i].k); W(@s[i].c, k); }}\n"),
        8 => format!("  for (long i = 0; i < {few}; i++) {{ if (i % 3 == 0) {{ W({array}[i], i); continue; }} long t = R({other}[i * {step}]); if (t > 1000000) break; if (t == m) W({array}[t & 63], 1); }}\n"),
        9 => format!("  long n = {few}; for (long i = 0; n > 0; i += m + 1) {{ W({array}[i % 60000], i); n--; }}\n  unsigned short k = 65500; for (int i = 0; i < 60; i++, k++) W({other}[k], 1);\n"),
        10 => {
            let (n, m) = (1 + random.below(128), 129 + random.below(900));
            format!("  COPY(@t + {off}, @f + {step}, {n});\n  FILL(@t + {off}, {step});\n  COPY(@f, @t + 8, {m});\n  FILL(@f, m);\n  for (long i = 0; i < 9; i++) COPY(@t + i * 16, @f + i, 24);\n")
        }
        // More than a segment of irregular addresses in one loop.
        _ => format!("  unsigned at = {off}; for (int i = 0; i < {}; i++) {{ at = (at * 1103515245u + 12345u) % 69999u; long t = R({array}[at]); W(@n[i & 1023], t); }}\n", if kernel == 11 { 45000 } else { few }),
    }
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

    /// Compiles and links with `homing cc`, and records; returns what the program has printed and the references of the
    /// trace by thread: address, bytes, whether it writes.
    fn record(&self, source: &Path, options: &[&str]) -> (String, BTreeMap<u32, Vec<(u64, u64, bool)>>) {
        let (program, trace, table) = (self.path("program"), self.path("a.trace"), self.path("a.csv"));
        let mut compile = build::homing();
        compile.arg("cc").args(options).arg(source).arg("-pthread").arg("-o").arg(&program);
        succeeds(&mut compile);
        let mut record = build::homing();
        record.args(["record", "--quiet", "--recorder", "clang", "-o"]).arg(&trace).arg("--").arg(&program);
        let recorded = succeeds(&mut record);
        assert!(recorded.stderr.is_empty(), "{}", String::from_utf8_lossy(&recorded.stderr));
        succeeds(build::homing().args(["trace", "export"]).arg(&trace).arg("-o").arg(&table));
        let mut threads = BTreeMap::<u32, Vec<(u64, u64, bool)>>::new();
        for line in std::fs::read_to_string(&table).unwrap().lines().skip(1) {
            let fields: Vec<&str> = line.split(',').collect();
            let address = u64::from_str_radix(fields[1].trim_start_matches("0x"), 16).unwrap();
            let reference = (address, fields[2].parse().unwrap(), fields[3] == "w");
            threads.entry(fields[0].parse().unwrap()).or_default().push(reference);
        }
        (String::from_utf8(recorded.stdout).unwrap(), threads)
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
double a[N], b[N], c[N]; float f[N]; char d[N]; int ix[N], e[N];
struct { void *at; unsigned long bytes; } arrays[] = {{a, sizeof a}, {b, sizeof b}, {c, sizeof c}, {f, sizeof f}, {d, sizeof d}, {ix, sizeof ix}, {e, sizeof e}};
__attribute__((noinline)) void begin(void) { for (int i = 0; i < N; i++) ix[i] = (i * 1000L + 7) % N; }
__attribute__((noinline)) void add(double *restrict a, const double *restrict b, long n) { for (long i = 0; i < n; i++) a[i] = b[i] + 1; }
__attribute__((noinline)) void gather(double *restrict c, const double *restrict a, const int *restrict ix, long n) { for (long i = 0; i < n; i++) c[i] = a[ix[i]]; }
__attribute__((noinline)) void some(float *restrict f, const int *restrict e, long n) { for (long i = 0; i < n; i++) if (e[i] == 0) f[i] = i; }
__attribute__((noinline)) void chars(char *restrict d, long n) { for (long i = n - 1; i >= 0; i--) d[i] = i * 3; }
int main(void) {
  for (unsigned i = 0; i < sizeof arrays / sizeof *arrays; i++) printf("%lu %lu\n", (unsigned long)arrays[i].at, arrays[i].bytes);
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
