//! Hint faults without kernel migration: which thread touches which page, on any kernel with NUMA balancing, in any
//! virtual machine, for programs that know nothing of it. [`scanner`] says how.
//!
//! Needs: the right to trace the process; NUMA balancing on, and its tunables in debugfs (root), because a thread's scan
//! period must be short for the scanning helper alone. What is changed is put back at the end.

#[cfg(target_arch = "x86_64")]
pub mod scanner;

use crate::proc::{Pid, Proc, Tid};
use crate::tunables::Tunables;
use std::io;
use std::path::{Path, PathBuf};

/// The name of the scanning helper in `/proc`.
pub const SCANNER_NAME: &str = "homing-scan";

/// Where the kernel keeps the switch and the tunables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// `/proc/sys/kernel/numa_balancing`.
    pub switch: PathBuf,
    /// The directory of the tunables in debugfs.
    pub tunables: PathBuf,
}

impl Default for Paths {
    fn default() -> Self {
        Paths {
            switch: "/proc/sys/kernel/numa_balancing".into(),
            tunables: "/sys/kernel/debug/sched/numa_balancing".into(),
        }
    }
}

/// What is missing for hint faults, if anything.
pub fn missing(paths: &Paths) -> Option<String> {
    if !cfg!(target_arch = "x86_64") {
        return Some("made for x86-64 so far: the scanning thread is machine code".into());
    }
    if !paths.switch.exists() {
        return Some("the kernel is built without CONFIG_NUMA_BALANCING".into());
    }
    let scan_size = paths.tunables.join("scan_size_mb");
    if !scan_size.exists() {
        let hint = "needs root and debugfs: mount -t debugfs none /sys/kernel/debug";
        return Some(format!("{} is not there or may not be read: {hint}", paths.tunables.display()));
    }
    for path in [&paths.switch, &scan_size] {
        if let Err(error) = std::fs::OpenOptions::new().write(true).open(path) {
            return Some(format!("{} cannot be written: {error}", path.display()));
        }
    }
    None
}

/// Milliseconds: a scan at every tick of the scanning helper, and none by others.
const SCANNER_PERIOD: &str = "1";
const NEVER: &str = "3600000";

/// Turns balancing on with periods for one scanning helper a process: short for threads that begin now, endless for all
/// whose period is computed anew. `scan_mb` is how much memory one scan covers.
///
/// # Errors
/// If a tunable is missing or may not be written; what was changed is back by then.
pub fn prepare(paths: &Paths, state: &Path, scan_mb: u64) -> io::Result<Tunables> {
    let mut tunables = Tunables::begin(state)?;
    let file = |name: &str| paths.tunables.join(name);
    tunables.set(&file("scan_delay_ms"), SCANNER_PERIOD)?;
    tunables.set(&file("scan_period_max_ms"), NEVER)?;
    tunables.set(&file("scan_period_min_ms"), NEVER)?;
    tunables.set(&file("scan_size_mb"), &scan_mb.max(1).to_string())?;
    tunables.set(&paths.switch, "1")?;
    Ok(tunables)
}

/// Gives every thread of a process whose memory policy is `from` the policy `to` ([`crate::policy::LOCAL`] or
/// [`crate::policy::DEFAULT`]), and leaves all others alone: who chose another policy keeps it. `scratch` is the address of eight
/// bytes in the process that nobody else uses. Returns how many threads were changed; those that end meanwhile are
/// left out.
///
/// # Errors
/// EPERM if the process may not be traced.
#[cfg(target_arch = "x86_64")]
pub fn switch_policy(proc: &Proc, pid: Pid, from: i32, to: i32, scratch: u64) -> io::Result<usize> {
    use crate::ptrace::{self, Held};
    use std::os::unix::fs::FileExt;
    let memory = ptrace::memory(pid)?;
    let instruction = ptrace::syscall_instruction(proc, pid, &memory)?;
    let switch = |tid: Tid| -> io::Result<bool> {
        let mut held = Held::hold(tid)?;
        held.call(instruction, libc::SYS_get_mempolicy, &[scratch, 0, 0, 0, 0])?;
        let mut mode = [0; 4];
        memory.read_exact_at(&mut mode, scratch)?;
        if i32::from_ne_bytes(mode) != from {
            return Ok(false);
        }
        held.call(instruction, libc::SYS_set_mempolicy, &[to as u64, 0, 0]).map(|_| true)
    };
    let mut seen = std::collections::BTreeSet::new();
    let mut changed = 0;
    // Threads that begin meanwhile inherit from one that may not have been reached yet: until nothing new is seen.
    loop {
        let tasks = proc.tasks(pid).map_err(ptrace::to_io)?;
        let before = seen.len();
        for tid in tasks.into_iter().filter(|tid| seen.insert(*tid)).collect::<Vec<_>>() {
            match switch(tid) {
                Ok(was) => changed += usize::from(was),
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(_) if proc.stat(pid, tid).map_or(true, |stat| matches!(stat.state, 'Z' | 'X')) => {}
                Err(error) => return Err(error),
            }
        }
        if seen.len() == before {
            return Ok(changed);
        }
    }
}

/// A child that has made its last mapping: right after `spawn` it may be in the middle of exec, with nothing mapped yet.
#[cfg(test)]
fn settled_child() -> std::process::Child {
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};
    let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0; 1]).unwrap();
    child
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn snapshot() -> (tempfile::TempDir, Paths) {
        let root = tempfile::tempdir().unwrap();
        let paths = Paths { switch: root.path().join("numa_balancing"), tunables: root.path().join("debug") };
        (root, paths)
    }

    #[test]
    fn what_is_missing_is_said_and_what_is_changed_comes_back() {
        let (root, paths) = snapshot();
        assert!(missing(&paths).unwrap().contains("CONFIG_NUMA_BALANCING"));
        fs::write(&paths.switch, "0\n").unwrap();
        assert!(missing(&paths).unwrap().contains("debugfs"));
        fs::create_dir(&paths.tunables).unwrap();
        for name in ["scan_delay_ms", "scan_period_min_ms", "scan_period_max_ms", "scan_size_mb"] {
            fs::write(paths.tunables.join(name), "1000\n").unwrap();
        }
        assert_eq!(missing(&paths), None);
        let state = root.path().join("state");
        let prepared = prepare(&paths, &state, 256).unwrap();
        let read = |name: &str| fs::read_to_string(paths.tunables.join(name)).unwrap();
        assert_eq!((read("scan_delay_ms"), read("scan_size_mb")), ("1".into(), "256".into()));
        assert_eq!(fs::read_to_string(&paths.switch).unwrap(), "1");
        drop(prepared);
        assert_eq!((read("scan_delay_ms"), read("scan_size_mb")), ("1000".into(), "1000".into()));
        assert_eq!(fs::read_to_string(&paths.switch).unwrap(), "0");
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn threads_of_default_policy_are_switched_and_others_left() {
        use crate::policy::{BIND, DEFAULT, LOCAL};
        let mut child = settled_child();
        let (proc, pid) = (Proc::default(), Pid(child.id() as i32));
        let scanner = scanner::Scanner::start(&proc, pid).unwrap();
        let switch = |from, to| switch_policy(&proc, pid, from, to, scanner.scratch()).unwrap();
        assert_eq!(switch(DEFAULT, LOCAL), 1);
        assert_eq!((switch(DEFAULT, LOCAL), switch(BIND, DEFAULT), switch(LOCAL, DEFAULT)), (0, 0, 1));
        let scratch = scanner.scratch();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(switch_policy(&proc, pid, DEFAULT, LOCAL, scratch).is_err());
    }
}
