//! Hint faults without kernel migration: which thread touches which page, on any kernel with NUMA balancing, in any
//! virtual machine, for programs that know nothing of it. [`scanner`] says how.
//!
//! Needs: the right to trace the process; NUMA balancing on, and its tunables in debugfs (root), because the
//! kernel must scan when the helper is at work, and not else. What is changed is put back at the end.

mod code;
mod inject;
pub mod own;
pub mod preload;
pub mod scanner;
pub mod shared;
pub mod stand;

use crate::clock;
use crate::policy;
use crate::proc::{Pid, Proc, Tid};
use crate::tunables::Tunables;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The name of the scanning helper in `/proc`.
pub const SCANNER_NAME: &str = "homing-scan";

/// Bytes of a page of the processors that this is made for.
const PAGE: u64 = 4096;

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
    // Came with the mode that this needs, as a file of its own beside the switch (Linux 6.1).
    if !paths.switch.with_file_name("numa_balancing_promote_rate_limit_MBps").exists() {
        return Some("the kernel has no balancing between tiers of memory: needs Linux 6.1".into());
    }
    let scan_size = paths.tunables.join("scan_size_mb");
    if !scan_size.exists() {
        let hint = "needs root and debugfs: mount -t debugfs none /sys/kernel/debug";
        return Some(format!("{} is not there or may not be read: {hint}", paths.tunables.display()));
    }
    for (path, tries) in [(&paths.switch, true), (&scan_size, false)] {
        // Root of a user namespace may open the switch, and is refused when it writes: nothing is written, and no more
        // than the right is asked for.
        let tried = std::fs::OpenOptions::new().write(true).open(path).and_then(|mut file| match tries {
            true => file.write(&[]).map(drop),
            false => Ok(()),
        });
        if let Err(error) = tried {
            return Some(format!("{} cannot be written: {error}", path.display()));
        }
    }
    None
}

/// Milliseconds. The kernel's floor under periods, which follows from [`IDLE_MB`], is above it.
const PERIOD: &str = "1";
/// Memory in a scan outside of windows, in MiB: with it periods are 10 ms, so that nobody keeps a scanner waiting for
/// longer.
const IDLE_MB: &str = "26";
/// Memory in a scan in a window, in MiB: all. Each scan begins anew, so that what one does not reach is never scanned.
const ALL_MB: &str = "1048576";
/// Ticks in which threads of other processes scan before pages are marked: where CPUs are virtual, ticks come late.
const TURN: u32 = 3;
/// Values of the switch: no balancing, balancing between equal nodes, and between tiers of memory alone.
const OFF: &str = "0";
const NORMAL: &str = "1";
const TIERS: &str = "2";

/// The kernel's settings while a session runs: nobody's pages are marked, except in the windows in which scanners work.
///
/// Between windows balancing is off, because of the threads. As long as it is on, in whatever mode, each fault on a
/// marked page counts for the node that the kernel would rather have the thread on (`task_numa_fault`), and it moves
/// the thread there, again at each tick with periods as short as these (`numa_migrate_preferred`): with all memory on
/// one node all threads are sent to that. And a thread that runs may scan itself, and keeps the scanner waiting for
/// its own period. To turn balancing on and off changes the code of the kernel, which interrupts each CPU a few
/// times. Where tiers are balanced anyway, that goes on, and threads are moved.
#[derive(Debug)]
pub struct Window {
    paths: Paths,
    tunables: Tunables,
    balanced: bool,
    /// What the switch is at between windows.
    rest: &'static str,
}

impl Window {
    /// Takes the settings over; dropping it puts them back.
    ///
    /// # Errors
    /// If a tunable is missing or may not be written (the switch: on kernels that [`missing`] tells of); what was
    /// changed is back by then.
    pub fn new(paths: &Paths, state: &Path) -> io::Result<Window> {
        let tunables = Tunables::begin(state)?;
        let before = std::fs::read_to_string(&paths.switch)?;
        // A sum of the two.
        let has = |mode: u32| before.trim().parse().is_ok_and(|modes: u32| modes & mode != 0);
        let rest = if has(2) { TIERS } else { OFF };
        let mut window = Window { paths: paths.clone(), tunables, balanced: has(1), rest };
        for name in ["scan_delay_ms", "scan_period_min_ms", "scan_period_max_ms"] {
            window.set(name, PERIOD)?;
        }
        window.close()?;
        Ok(window)
    }

    fn set(&mut self, name: &str, value: &str) -> io::Result<()> {
        self.tunables.set(&self.paths.tunables.join(name), value)
    }

    /// True if the kernel balanced between equal nodes before.
    pub fn was_balanced(&self) -> bool {
        self.balanced
    }

    /// Lets the kernel mark pages. `others`: threads of other processes run. Those that are due to scan do so at the
    /// next tick, after which their process has no turn for a second at least ([`ALL_MB`] gives periods of that). So
    /// they have it first, while the kernel marks no pages but those of slower tiers, and none beside the helper.
    /// Where the kernel balanced them before it may go on to.
    ///
    /// # Errors
    /// If a tunable may not be written.
    pub fn open(&mut self, others: bool) -> io::Result<()> {
        self.set("scan_size_mb", ALL_MB)?;
        if others && !self.balanced {
            self.tunables.set(&self.paths.switch, TIERS)?;
            std::thread::sleep(TURN * clock::tick());
        }
        self.tunables.set(&self.paths.switch, NORMAL)
    }

    /// Ends that.
    ///
    /// # Errors
    /// If a tunable may not be written.
    pub fn close(&mut self) -> io::Result<()> {
        self.tunables.set(&self.paths.switch, self.rest)?;
        self.set("scan_size_mb", IDLE_MB)
    }
}

/// What came of [`switch_policy`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switched {
    /// Threads that have the new policy now.
    pub changed: usize,
    /// Threads that keep the old one, since they sleep: no system call is interrupted.
    pub asleep: usize,
}

/// Gives every thread of a process whose memory policy is `from` the policy `to` ([`crate::policy::LOCAL`] or
/// [`crate::policy::DEFAULT`]), and leaves all others alone: who chose another policy keeps it. `scratch` is the
/// address of eight bytes in the process that nobody else uses. Threads that end meanwhile are left out.
///
/// # Errors
/// EPERM if the process may not be traced.
pub fn switch_policy(proc: &Proc, pid: Pid, from: i32, to: i32, scratch: u64) -> io::Result<Switched> {
    let switch = || switch_all(proc, pid, from, to, scratch);
    let [changed, asleep] =
        crate::guard::guarded(|| switch().map(|all| [all.changed as u64, all.asleep as u64]))?;
    Ok(Switched { changed: changed as usize, asleep: asleep as usize })
}

fn switch_all(proc: &Proc, pid: Pid, from: i32, to: i32, scratch: u64) -> io::Result<Switched> {
    use crate::ptrace::{self, call::Caller, held};
    use std::os::unix::fs::FileExt;
    let memory = ptrace::memory(pid)?;
    let deadline = Instant::now() + held::PATIENCE;
    let switch = |tid: Tid| -> io::Result<bool> {
        let mut caller = Caller::of(proc, pid, tid, &memory, deadline)?;
        caller.call(libc::SYS_get_mempolicy, &[scratch, 0, 0, 0, 0])?;
        let mut mode = [0; 4];
        memory.read_exact_at(&mut mode, scratch)?;
        if i32::from_ne_bytes(mode) != from {
            return Ok(false);
        }
        caller.call(libc::SYS_set_mempolicy, &[to as u64, 0, 0]).map(|_| true)
    };
    let mut seen = std::collections::BTreeSet::new();
    let mut all = Switched::default();
    // Threads that begin meanwhile inherit from one that may not have been reached yet: until nothing new is seen.
    loop {
        let tasks = proc.tasks(pid).map_err(ptrace::to_io)?;
        let before = seen.len();
        for tid in tasks.into_iter().filter(|tid| seen.insert(*tid)).collect::<Vec<_>>() {
            // Known without a stop.
            if proc.thread_policy(pid, tid).is_some_and(|policy| policy::mode(&policy) != Some(from)) {
                continue;
            }
            match switch(tid) {
                Ok(was) => all.changed += usize::from(was),
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(_) if proc.stat(pid, tid).map_or(true, |stat| matches!(stat.state, 'Z' | 'X')) => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    all.asleep += 1;
                }
                Err(error) => return Err(error),
            }
        }
        if seen.len() == before {
            return Ok(all);
        }
    }
}

/// A child that has made its last mapping, runs, and ends with 0 at SIGTERM: right after `spawn` it may be in the
/// middle of exec, with nothing mapped yet.
#[cfg(test)]
pub(crate) fn busy_child() -> std::process::Child {
    use std::io::Read;
    use std::process::{Command, Stdio};
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap 'exit 0' TERM; echo x; while :; do :; done"]);
    let mut child = shell.stdout(Stdio::piped()).spawn().unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0; 1]).unwrap();
    child
}

/// Ends one of [`busy_child`], which must not have been harmed.
#[cfg(test)]
pub(crate) fn end_busy(mut child: std::process::Child) {
    crate::interrupts::signal_child(&child, libc::SIGTERM).unwrap();
    assert!(child.wait().unwrap().success());
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
        assert!(missing(&paths).unwrap().contains("6.1"));
        fs::write(root.path().join("numa_balancing_promote_rate_limit_MBps"), "65536\n").unwrap();
        assert!(missing(&paths).unwrap().contains("debugfs"));
        fs::create_dir(&paths.tunables).unwrap();
        for name in ["scan_delay_ms", "scan_period_min_ms", "scan_period_max_ms", "scan_size_mb"] {
            fs::write(paths.tunables.join(name), "1000\n").unwrap();
        }
        assert_eq!(missing(&paths), None);
        // May be opened to be written, and refuses it, as the switch does to root of a user namespace.
        fs::rename(&paths.switch, root.path().join("kept")).unwrap();
        std::os::unix::fs::symlink("/proc/self/oom_score_adj", &paths.switch).unwrap();
        assert!(missing(&paths).unwrap().contains("numa_balancing cannot be written"));
        fs::rename(root.path().join("kept"), &paths.switch).unwrap();
        let state = root.path().join("state");
        let mut window = Window::new(&paths, &state).unwrap();
        assert!(!window.was_balanced());
        let read = |name: &str| fs::read_to_string(paths.tunables.join(name)).unwrap();
        let switch = || fs::read_to_string(&paths.switch).unwrap().trim().to_owned();
        let now = || (read("scan_delay_ms"), read("scan_size_mb"), switch());
        assert_eq!(now(), (PERIOD.into(), IDLE_MB.into(), OFF.into()));
        for others in [false, true] {
            window.open(others).unwrap();
            assert_eq!(now(), (PERIOD.into(), ALL_MB.into(), NORMAL.into()));
            window.close().unwrap();
            assert_eq!(now(), (PERIOD.into(), IDLE_MB.into(), OFF.into()));
        }
        drop(window);
        assert_eq!((read("scan_delay_ms"), read("scan_size_mb")), ("1000".into(), "1000".into()));
        assert_eq!(switch(), "0");
        fs::write(&paths.switch, "3\n").unwrap();
        let window = Window::new(&paths, &state).unwrap();
        assert!(window.was_balanced());
        assert_eq!(switch(), TIERS, "balancing between tiers goes on");
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn threads_of_default_policy_are_switched_and_others_left() {
        use crate::policy::{BIND, DEFAULT, LOCAL};
        let mut child = busy_child();
        let (proc, pid) = (Proc::default(), Pid(child.id() as i32));
        let scanner = scanner::tests::started(&proc, pid);
        let scratch = scanner.scratch();
        let switched = |from, to| loop {
            let switched = switch_policy(&proc, pid, from, to, scratch).unwrap();
            if switched.asleep == 0 {
                return switched.changed;
            }
        };
        assert_eq!(switched(DEFAULT, LOCAL), 1);
        assert_eq!((switched(DEFAULT, LOCAL), switched(BIND, DEFAULT), switched(LOCAL, DEFAULT)), (0, 0, 1));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(switch_policy(&proc, pid, DEFAULT, LOCAL, scratch).is_err());
    }
}
