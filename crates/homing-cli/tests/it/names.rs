//! What data are called: by the program's own code, whichever recorder recorded it, in C, C++, Rust and Python.

use crate::tsan::build;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

const RECORDERS: [&str; 2] = ["tsan", "valgrind"];

/// A wrapper, an allocator that is inlined where the compiler optimises, one line for two callers, and a recursion.
const C: &str = "#include <stdlib.h>\n\
    static void* xmalloc(size_t bytes) { return malloc(bytes); }\n\
    static inline long* rows(int n) { return calloc(n, sizeof(long)); }\n\
    __attribute__((noinline)) double* grid(int n) {\n\
      double* g = xmalloc(n * sizeof *g);\n\
      for (int i = 0; i < n; i++) g[i] = i;\n\
      return g;\n\
    }\n\
    __attribute__((noinline)) long* tree(int depth) {\n\
      if (depth > 0) return depth % 2 ? tree(depth - 1) : (long*)(1 + (char*)tree(depth - 1) - 1);\n\
      long* t = malloc(80000); for (int i = 0; i < 10000; i++) t[i] = i; return t;\n\
    }\n\
    volatile long sum;\n\
    int main(void) {\n\
      double* first = grid(30000);\n\
      double* second = grid(20000);\n\
      long* r = rows(10000); for (int i = 0; i < 10000; i++) r[i] = i;\n\
      sum = tree(5)[3] + tree(2)[4] + (long)first[7] + (long)second[8] + r[9];\n\
      return 0;\n\
    }\n";
const CPP: &str = "#include <vector>\n#include <memory>\n\
    namespace app {\n\
    long table[4096];\n\
    struct Grid {\n\
      std::vector<double> cells;\n\
      __attribute__((noinline)) explicit Grid(int n)\n\
        : cells(n) {}\n\
    };\n\
    }\n\
    volatile double sum;\n\
    __attribute__((noinline)) void grow(std::vector<int>& v) {\n\
      for (int i = 0; i < 40000; i++)\n\
        v.push_back(i);\n\
    }\n\
    int main() {\n\
      app::Grid grid(50000); std::vector<int> v;\n\
      auto raw = new double[30000];\n\
      auto owned = std::make_unique<double[]>(20000);\n\
      grow(v);\n\
      for (int i = 0; i < 20000; i++) { raw[i] = i; owned[i] = raw[i]; app::table[i % 4096] = i; }\n\
      for (auto& c : grid.cells) sum = sum + c;\n\
      sum = sum + v[5] + owned[3] + raw[4]; delete[] raw;\n\
    }\n";
const RUST: &str = "fn load(n: usize) -> Vec<u64> {\n    vec![1; n]\n}\n\
    fn main() {\n    let mut v = load(40000);\n    let mut grown = Vec::new();\n    for i in 0..30000u64 {\n\
            grown.push(i);\n    }\n    let text = Box::new([7u64; 5000]);\n    v[3] = grown[4] + text[5];\n\
    std::process::exit((std::hint::black_box(v)[3] == 0) as i32);\n}\n";
const PYTHON: &str = "class Model:\n    def load(self, n):\n        self.cells = bytearray(n)\n\
    \x20       self.items = [0] * n\n\
    def build():\n    rows = []\n    for i in range(8):\n        rows.append(\n\
    \x20           bytearray(40000))\n    return rows\n\
    model = Model()\nmodel.load(200000)\nrows = build()\n";

/// Loads an instrumented library, which makes the pages known.
const WITH_LIBRARY: &str = "import ctypes, sys\nfill = ctypes.CDLL(sys.argv[1]).fill\n\
    def load(n):\n    data = bytearray(n)\n    view = (ctypes.c_char * n).from_buffer(data)\n\
    \x20   fill(ctypes.c_void_p(ctypes.addressof(view)), n)\n    return data\nrows = load(400000)\n";
const LIBRARY: &str = "void fill(char* data, int n) { for (int i = 0; i < n; i++) data[i] = i; }\n";

struct Lab {
    directory: tempfile::TempDir,
}

fn valgrind_is_there() -> bool {
    static BUILT: OnceLock<bool> = OnceLock::new();
    let build = || {
        let recorder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recorders/valgrind");
        let out = format!("OUT={}", build::directory().join("valgrind").display());
        Command::new("make").arg("-s").arg("-C").arg(recorder).arg(out).status().is_ok_and(|s| s.success())
    };
    let there = *BUILT.get_or_init(build);
    if !there {
        eprintln!("SKIPPED: 1 recorder: Valgrind's tool headers are not installed");
    }
    there
}

fn succeeds(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

impl Lab {
    fn new() -> Lab {
        build::directory();
        Lab { directory: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Compiles for a recorder.
    fn compile(&self, compiler: &str, source: &str, recorder: &str, optimise: &str) -> PathBuf {
        let extension = if compiler == "g++" { "cpp" } else { "c" };
        let (file, object) = (self.path(&format!("app.{extension}")), self.path("app.o"));
        std::fs::write(&file, source).unwrap();
        let flags = |which: &str| -> Vec<String> {
            match recorder {
                "tsan" => {
                    serde_json::from_slice(&succeeds(build::homing().args([which, "--json"])).stdout).unwrap()
                }
                _ => vec!["-g".into()],
            }
        };
        let program = self.path("app");
        succeeds(
            Command::new(compiler)
                .args([optimise, "-c"])
                .arg(&file)
                .arg("-o")
                .arg(&object)
                .args(flags("cflags")),
        );
        succeeds(Command::new(compiler).arg(&object).arg("-o").arg(&program).args(flags("ldflags")));
        program
    }

    /// Records and returns the areas of `homing why --json`.
    fn areas(&self, recorder: &str, command: &[&Path]) -> Vec<Value> {
        let trace = self.path("out.trace");
        let record = ["record", "--quiet", "--recorder", recorder, "-o"];
        succeeds(build::homing().args(record).arg(&trace).arg("--").args(command));
        // Programs too small to be judged have names all the same.
        let why = build::homing()
            .arg("why")
            .arg(&trace)
            .args(["--machine", "butterfly", "--json"])
            .output()
            .unwrap();
        assert!(matches!(why.status.code(), Some(0 | 5)), "{}", String::from_utf8_lossy(&why.stderr));
        let why: Value = serde_json::from_slice(&why.stdout).unwrap();
        why["areas"].as_array().unwrap().clone()
    }
}

/// `homing trace info` calls allocations as `homing why` does.
#[test]
fn a_trace_says_what_its_allocations_are_called() {
    let lab = Lab::new();
    let program = lab.compile("gcc", C, "tsan", "-O1");
    lab.areas("tsan", &[&program]);
    let info = succeeds(build::homing().args(["trace", "info", "--json"]).arg(lab.path("out.trace")));
    let info: Value = serde_json::from_slice(&info.stdout).unwrap();
    let top = &info["allocations"]["top"];
    assert_eq!(
        (&top[0]["site"], &top[0]["bytes"]),
        (&"grid (app.c:5) < main (app.c:15)".into(), &240_000.into())
    );
    assert!(
        top.as_array().unwrap().iter().any(|of| of["site"] == "tree (app.c:11)" && of["count"] == 2),
        "{top}"
    );
}

/// The area of a name, of at least `bytes`: a page at either end of a block may be called after its neighbour.
fn area<'a>(areas: &'a [Value], name: &str, bytes: u64, what: &str) -> &'a Value {
    let names: Vec<&Value> = areas.iter().map(|area| &area["name"]).collect();
    let found = areas.iter().find(|area| area["name"] == name && area["bytes"].as_u64() >= Some(bytes));
    found.unwrap_or_else(|| panic!("{what}: no {name} of {bytes} bytes in {names:?}"))
}

/// Every combination that can be tried here.
fn each(compiler: &str, source: &str, check: impl Fn(&[Value], &str)) {
    for recorder in RECORDERS.into_iter().filter(|&recorder| recorder == "tsan" || valgrind_is_there()) {
        for optimise in ["-O0", "-O2"] {
            let lab = Lab::new();
            let program = lab.compile(compiler, source, recorder, optimise);
            check(&lab.areas(recorder, &[&program]), &format!("{recorder} {optimise}"));
        }
    }
}

#[test]
fn c_data_are_called_after_the_callers_of_wrappers() {
    each("gcc", C, |areas, what| {
        let first = area(areas, "grid (app.c:5) < main (app.c:15)", 230_000, what);
        area(areas, "grid (app.c:5) < main (app.c:16)", 150_000, what);
        area(areas, "rows (app.c:3)", 70_000, what);
        area(areas, "tree (app.c:11)", 140_000, what);
        let stack: Vec<&str> = first["stack"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert_eq!(stack.last(), Some(&"main (app.c:15)"), "{what}: {stack:?}");
        assert!(stack.contains(&"grid (app.c:5)"), "{what}: {stack:?}");
        assert!(stack[0] != "grid (app.c:5)" || what.contains("-O2"), "{what}: {stack:?}");
    });
}

#[test]
fn cpp_data_are_called_after_own_code_and_demangled() {
    each("g++", CPP, |areas, what| {
        for (name, bytes) in
            [("main (app.cpp:18)", 150_000), ("main (app.cpp:19)", 150_000), ("app::table", 32_768)]
        {
            area(areas, name, bytes, what);
        }
        area(areas, "app::Grid::Grid(int) (app.cpp:8)", 390_000, what);
        area(areas, "grow(std::vector<int, std::allocator<int> >&) (app.cpp:14)", 150_000, what);
    });
}

#[test]
fn libraries_come_together_where_they_do_not_matter() {
    if !valgrind_is_there() {
        return;
    }
    let lab = Lab::new();
    let program = lab.compile("gcc", C, "valgrind", "-O1");
    let areas = lab.areas("valgrind", &[&program]);
    let other = area(&areas, "other", 4096, "valgrind");
    assert!(other["areas_folded"].as_u64() > Some(2) && other["remedy"].is_null(), "{other}");
    let library = |area: &&Value| area["name"].as_str().is_some_and(|name| name.contains("libc.so"));
    assert!(areas.iter().find(library).is_none(), "{areas:?}");
}

#[test]
fn rust_data_are_called_after_own_code() {
    let there = Command::new("rustc").arg("--version").output().is_ok_and(|output| output.status.success());
    if !there || !valgrind_is_there() {
        eprintln!("SKIPPED: 1 test: needs rustc and Valgrind");
        return;
    }
    for optimise in ["opt-level=0", "opt-level=2"] {
        let lab = Lab::new();
        let (file, program) = (lab.path("app.rs"), lab.path("app"));
        std::fs::write(&file, RUST).unwrap();
        succeeds(Command::new("rustc").args(["-g", "-C", optimise, "-o"]).arg(&program).arg(&file));
        let areas = lab.areas("valgrind", &[&program]);
        let own = |line: &str| {
            let of = |area: &&Value| area["name"].as_str().is_some_and(|name| name.contains(line));
            areas.iter().filter(of).filter_map(|area| area["bytes"].as_u64()).sum::<u64>()
        };
        let names: Vec<&Value> = areas.iter().map(|area| &area["name"]).collect();
        assert!(own("load (app.rs:2)") >= 300_000, "{optimise} {names:?}");
        assert!(own("main (app.rs:8)") >= 200_000, "{optimise} {names:?}");
    }
}

/// The interpreter, if its version is one whose frames are known.
fn python() -> Option<PathBuf> {
    let known =
        "import sys; print(sys.executable if (3, 11) <= sys.version_info[:2] <= (3, 13) else '', end='')";
    let output = Command::new("python3").args(["-c", known]).output();
    let path = output.map_or(String::new(), |output| String::from_utf8_lossy(&output.stdout).into_owned());
    if path.is_empty() {
        eprintln!("SKIPPED: 1 test: needs Python 3.11 to 3.13");
    }
    (!path.is_empty()).then(|| path.into())
}

#[test]
fn python_data_are_called_after_the_line() {
    let Some(interpreter) = python().filter(|_| valgrind_is_there()) else { return };
    let lab = Lab::new();
    let script = lab.path("train.py");
    std::fs::write(&script, PYTHON).unwrap();
    let areas = lab.areas("valgrind", &[&interpreter, Path::new("-S"), Path::new("-E"), &script]);
    for (name, bytes) in [
        ("train.py:3 in Model.load", 190_000),
        ("train.py:4 in Model.load", 1_590_000),
        ("train.py:9 in build", 280_000),
    ] {
        let found = area(&areas, name, bytes, "python");
        let stack = found["stack"].to_string();
        assert!(stack.contains("train.py:12 in <module>") || name.contains("build"), "{stack}");
        assert!(!stack.contains("_PyEval_Eval"), "{stack}");
    }
}

#[test]
fn python_data_are_called_after_the_line_where_a_library_is_instrumented() {
    let Some(interpreter) = python() else { return };
    let lab = Lab::new();
    let (script, library) = (lab.path("train.py"), lab.path("libfill.so"));
    std::fs::write(&script, WITH_LIBRARY).unwrap();
    std::fs::write(lab.path("fill.c"), LIBRARY).unwrap();
    let (source, object) = (lab.path("fill.c"), lab.path("fill.o"));
    let compile = ["-O1", "-fPIC", "-g", "-fsanitize=thread", "-c", "-o"];
    succeeds(Command::new("gcc").args(compile).arg(&object).arg(&source));
    succeeds(Command::new("gcc").args(["-shared", "-o"]).arg(&library).arg(&object));
    let preload = format!("LD_PRELOAD={}", build::directory().join("tsan/libhoming_tsan.so").display());
    let command = [Path::new("env"), Path::new(&preload), &interpreter, Path::new("-S"), &script, &library];
    area(&lab.areas("tsan", &command), "train.py:4 in load", 390_000, "python");
}
