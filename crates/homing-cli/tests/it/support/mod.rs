//! What several tests share: running `homing` with a number of workers, and traces from CSV.

pub mod executable;
#[cfg(target_arch = "x86_64")]
pub mod lab;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// `homing` with these arguments and this many worker threads.
pub fn command(workers: usize, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_homing"));
    command.args(args).env("RAYON_NUM_THREADS", workers.to_string());
    command
}

/// What it printed, and how it ended.
pub fn homing(workers: usize, args: &[&str]) -> Output {
    command(workers, args).output().expect("homing runs")
}

/// The same of a run that succeeds.
pub fn succeeds(workers: usize, args: &[&str]) -> Output {
    let output = homing(workers, args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// What `homing why` printed, whether the trace tells anything (0) or not (5).
pub fn judged(args: &[&str]) -> String {
    let output = homing(1, args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 5)), "{args:?}: {stderr}");
    String::from_utf8(output.stdout).expect("text")
}

/// Imports references (`thread,addr,size,kind`) as trace `name`, a file in `dir`.
pub fn import(dir: &Path, name: &str, csv: &str) -> PathBuf {
    let (input, output) = (dir.join(format!("{name}.csv")), dir.join(name));
    std::fs::write(&input, format!("thread,addr,size,kind\n{csv}"))
        .expect("a file in a directory of the test's own");
    let path = |path: &Path| path.to_str().expect("names of tests are plain").to_owned();
    succeeds(1, &["trace", "import", &path(&input), "-o", &path(&output)]);
    output
}
