//! Small C programs recorded under Valgrind, for the tests of `homing record`.

use super::executable;
use homing_core::trace::Trace;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

/// The recorder, built once for all tests.
pub fn recorder() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("lib");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../recorders/valgrind");
        let status = Command::new("make")
            .args(["-s", "-C", source])
            .arg(format!("OUT={}", out.join("valgrind").display()))
            .status()
            .unwrap();
        assert!(status.success(), "the recorder does not build");
        out
    })
}

/// A directory with a compiled C program in it.
pub struct Lab {
    directory: tempfile::TempDir,
}

impl Lab {
    pub fn new() -> Lab {
        Lab { directory: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn script(&self, name: &str, text: &str) -> PathBuf {
        let file = self.path(name);
        executable::write(&file, text);
        file
    }

    pub fn compile(&self, source: &str, flags: &[&str]) -> PathBuf {
        let (file, program) = (self.path("program.c"), self.path("program"));
        std::fs::write(&file, source).unwrap();
        let mut gcc = Command::new("gcc");
        gcc.args(["-O1", "-g", "-o"]).arg(&program).arg(&file).args(flags);
        assert!(gcc.status().unwrap().success());
        program
    }

    pub fn homing(&self, options: &[&str], command: &[&str]) -> Command {
        let mut homing = self.begin(options);
        homing.arg("--").args(command);
        homing
    }

    /// The command line up to the program.
    pub fn begin(&self, options: &[&str]) -> Command {
        let mut homing = Command::new(env!("CARGO_BIN_EXE_homing"));
        homing.env("HOMING_LIB", recorder()).env("OMP_NUM_THREADS", "2");
        homing.args(["record", "--merge", "-o"]).arg(self.path("out.trace")).args(options);
        homing
    }

    pub fn record(&self, options: &[&str], command: &[&str]) -> Output {
        self.homing(options, command).output().unwrap()
    }

    pub fn trace<T>(&self, look: impl FnOnce(&Trace<'_>) -> T) -> T {
        let bytes = std::fs::read(self.path("out.trace")).unwrap();
        let trace = Trace::open(&bytes).unwrap();
        assert!(trace.complete() && trace.ordered() && trace.damage().is_empty());
        assert_eq!((trace.summary().malformed, trace.summary().lost_segments), (0, 0));
        look(&trace)
    }

    /// Starts a recording that SIGINT reaches. A test runner in the background may have SIGINT ignored, and that is
    /// inherited: it is set back to the default.
    pub fn start(&self, options: &[&str], command: &[&str]) -> Child {
        let homing = self.homing(options, command);
        let mut child = Command::new("env")
            .args(["--default-signal=INT", "--ignore-signal=XFSZ"])
            .arg(homing.get_program())
            .args(homing.get_args())
            .envs(homing.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The program says that it runs.
        let mut ready = [0];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut ready).unwrap();
        child
    }
}

/// Sends SIGINT to a recording.
pub fn interrupt(child: &Child) {
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
