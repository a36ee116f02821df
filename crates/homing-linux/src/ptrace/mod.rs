//! Threads held still, and system calls made in their name: `ptrace(2)`.
//!
//! | file | what it is |
//! |---|---|
//! | [`held`] | a thread that stands still until it is dropped |
//! | [`standstill`] | processes of which all threads do |
//! | [`call`] | system calls in the name of a held thread |
//! | [`stop`], [`request`] | what the kernel reports of a traced thread, and what it is asked for |
//!
//! What is promised to the traced program: every signal is delivered to it once, with its siginfo; no system call is
//! interrupted; a thread runs on when the engine releases it, ends or is killed. The kernel releases what a dead tracer
//! traced: that is why threads are stopped this way and never by SIGSTOP.

#[cfg(target_arch = "x86_64")]
pub mod call;
#[cfg(not(target_arch = "x86_64"))]
#[path = "call_elsewhere.rs"]
pub mod call;
#[cfg(target_arch = "x86_64")]
mod filters;
pub mod held;
pub mod request;
pub mod standstill;
pub mod stop;
mod way_out;

use crate::proc::{Pid, Proc, ProcError, Tid};
use std::fs::{File, OpenOptions};
use std::io;

fn ended(proc: &Proc, pid: Pid, tid: Tid) -> bool {
    proc.stat(pid, tid).map_or(true, |stat| matches!(stat.state, 'Z' | 'X'))
}

/// True if this user may trace the process: what decides whether the engine acts on it.
///
/// # Errors
/// If the process has ended, or cannot be asked about: it is then neither ours nor denied.
pub fn may_trace(pid: Pid) -> io::Result<bool> {
    // The kernel checks PTRACE_MODE_ATTACH when a process's memory is opened for writing.
    match memory(pid) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(false),
        Err(error) => Err(error),
    }
}

/// The memory of a process, for reading and writing.
pub fn memory(pid: Pid) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(format!("/proc/{pid}/mem"))
}

/// A `/proc` error as an I/O error, with its kind.
pub fn to_io(error: ProcError) -> io::Error {
    let kind = match &error {
        ProcError::Gone { .. } => return io::Error::from_raw_os_error(libc::ESRCH),
        ProcError::Denied { .. } => io::ErrorKind::PermissionDenied,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

/// What this program or kernel cannot give.
#[cfg(target_arch = "x86_64")]
fn unsupported(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, message)
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::call::Caller;
    use super::held::{self, Held};
    use super::standstill::{Count, Standstill};
    use super::*;
    use crate::hint_faults::{busy_child, end_busy};
    use std::process::{Command, Stdio};
    use std::time::Instant;

    /// Tries until the machine has given the thread a CPU.
    fn awake<T>(mut attempt: impl FnMut() -> io::Result<T>) -> T {
        let begin = Instant::now();
        loop {
            match attempt() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    assert!(begin.elapsed().as_secs() < 60, "it does not run");
                }
                result => return result.unwrap(),
            }
        }
    }

    #[test]
    fn calls_are_made_in_another_process_which_goes_on() {
        let child = busy_child();
        let (proc, pid) = (Proc::default(), Pid(child.id() as i32));
        assert!(may_trace(pid).unwrap());
        let memory = memory(pid).unwrap();
        for _ in 0..20 {
            let mut caller = awake(|| Caller::of_any(&proc, pid, &memory));
            assert_eq!(caller.call(libc::SYS_getpid, &[]).unwrap(), pid.0 as u64);
            let error = caller.call(libc::SYS_close, &[9999]).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EBADF));
        }
        end_busy(child);
    }

    #[test]
    fn a_held_process_stands_still_and_runs_on() {
        let child = busy_child();
        let (proc, pid) = (Proc::default(), Pid(child.id() as i32));
        let held = awake(|| match Standstill::of(&proc, &[pid]).unwrap() {
            held if held.count().held == 1 => Ok(held),
            _ => Err(io::Error::from(io::ErrorKind::WouldBlock)),
        });
        assert_eq!(held.count(), Count { held: 1, ..Count::default() });
        assert_eq!(proc.stat(pid, Tid(pid.0)).unwrap().state, 't');
        drop(held);
        end_busy(child);
    }

    #[test]
    fn who_sleeps_is_left_alone() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let (proc, pid) = (Proc::default(), Pid(child.id() as i32));
        while proc.stat(pid, Tid(pid.0)).unwrap().state != 'S' || proc.command(pid).unwrap() != "cat" {
            std::thread::yield_now();
        }
        let held = Held::hold(&proc, pid, Tid(pid.0), Instant::now() + held::PATIENCE);
        assert_eq!(held.unwrap_err().raw_os_error(), Some(libc::EAGAIN));
        let caller = Caller::of_any(&proc, pid, &memory(pid).unwrap()).map(drop);
        assert_eq!(caller.unwrap_err().raw_os_error(), Some(libc::EAGAIN));
        let held = Standstill::of(&proc, &[pid]).unwrap();
        assert_eq!(held.count(), Count { waiting: 1, ..Count::default() });
        let status = std::fs::read_to_string(proc.path(pid, "status")).unwrap();
        assert!(status.contains("TracerPid:\t0\n"), "a signal that it ignores would wake it");
        drop(held);
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }

    #[test]
    fn what_has_ended_cannot_be_held() {
        let (proc, nobody) = (Proc::default(), Pid(i32::MAX));
        assert!(may_trace(nobody).is_err());
        let held = Held::hold(&proc, nobody, Tid(nobody.0), Instant::now());
        assert_eq!(held.unwrap_err().raw_os_error(), Some(libc::ESRCH));
        assert_eq!(Standstill::of(&proc, &[nobody]).unwrap().count(), Count::default());
    }
}
