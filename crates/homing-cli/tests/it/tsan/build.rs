//! Builds the runtime and the test programs, once a test run.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};

/// A compiler that instruments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compiler {
    Gcc,
    Clang,
    Gxx,
    ClangXx,
    Gfortran,
    /// With the pass of `--recorder clang`.
    ClangPass,
    ClangXxPass,
}

impl Compiler {
    fn program(self) -> &'static str {
        match self {
            Compiler::Gcc => "gcc",
            Compiler::Clang | Compiler::ClangPass => "clang",
            Compiler::Gxx => "g++",
            Compiler::ClangXx | Compiler::ClangXxPass => "clang++",
            Compiler::Gfortran => "gfortran",
        }
    }

    fn has_pass(self) -> bool {
        matches!(self, Compiler::ClangPass | Compiler::ClangXxPass)
    }

    /// Whether it is installed; says so when a test has to go without.
    pub fn there(self) -> bool {
        let there = Command::new(self.program()).arg("--version").output().is_ok_and(|o| o.status.success());
        let there = there && (!self.has_pass() || directory().join("clang/homing_pass.so").exists());
        if !there {
            eprintln!("SKIPPED: 1 compiler missing: {}", self.program());
        }
        there
    }
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/tsan")
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The directory that holds everything built here, with the runtime in `tsan/`.
pub fn directory() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tsan-tests");
        std::fs::create_dir_all(&directory).unwrap();
        let recorder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recorders/tsan");
        let out = format!("OUT={}", directory.join("tsan").display());
        run(Command::new("make").arg("-s").arg("-C").arg(&recorder).arg(out));
        // Without LLVM's headers there is no pass, and what needs it is skipped.
        let out = format!("OUT={}", directory.join("clang").display());
        let made = Command::new("make").args(["-s", "-C"]).arg(recorder.join("../clang")).arg(out).status();
        assert!(made.unwrap().success() || !has_llvm());
        directory
    })
}

/// Whether there is an LLVM to build the pass against.
fn has_llvm() -> bool {
    let version = "llvm-config-$(clang -dumpversion | cut -d. -f1) --version";
    Command::new("sh").args(["-c", version]).output().is_ok_and(|output| output.status.success())
}

/// `homing` with the runtime of this test run.
pub fn homing() -> Command {
    let mut homing = Command::new(env!("CARGO_BIN_EXE_homing"));
    homing.env("HOMING_LIB", directory());
    homing
}

fn flags(arguments: &[&str]) -> Vec<String> {
    serde_json::from_str(&run(homing().args(arguments).arg("--json"))).unwrap()
}

/// Compiles a test program, once; without `cflags` and `ldflags` if it is to be plain.
pub fn program(compiler: Compiler, source: &str, instrumented: bool) -> PathBuf {
    static BUILT: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    let kind = match (instrumented, compiler.has_pass()) {
        (true, true) => "pass",
        (true, false) => "tsan",
        (false, _) => "plain",
    };
    let program = directory().join(format!("{}-{source}-{kind}-{}", compiler.program(), std::process::id()));
    // Tests run side by side: none may execute what another still writes.
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    if built.contains(&program) {
        return program;
    }
    let object = program.with_extension("o");
    let mut compile = Command::new(compiler.program());
    compile.args(["-O2", "-fopenmp", "-c"]).arg(sources().join(source)).arg("-o").arg(&object);
    let mut link = Command::new(compiler.program());
    link.arg(&object).arg("-fopenmp").arg("-o").arg(&program);
    if instrumented {
        compile.args(flags(if compiler.has_pass() { &["cflags", "--clang"] } else { &["cflags"] }));
        link.args(flags(&["ldflags"]));
    }
    run(&mut compile);
    run(&mut link);
    built.insert(program.clone());
    program
}
