//! The stops of a traced thread, waited for without taking its end from the process that waits for it.

use crate::proc::Tid;
use std::io;
use std::time::{Duration, Instant};

/// Why a thread stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It was asked to, or its whole process was stopped by a signal (`PTRACE_EVENT_STOP`). It is not about to deliver
    /// a signal: those that come stay pending.
    Event,
    /// It enters or leaves a system call.
    SystemCall,
    /// It is about to be given this signal.
    Signal(i32),
}

/// The event of [`Stop::Event`]; beyond the low byte of the status, as all events.
const PTRACE_EVENT_STOP: i32 = 128;
/// What `PTRACE_O_TRACESYSGOOD` adds to SIGTRAP at system calls.
const SYSTEM_CALL: i32 = 0x80;

impl Stop {
    /// From the status of a stop.
    fn of_status(status: i32) -> Stop {
        match (status >> 8, status & 0xff) {
            (PTRACE_EVENT_STOP, _) => Stop::Event,
            (_, trap) if trap == libc::SIGTRAP | SYSTEM_CALL => Stop::SystemCall,
            (_, signal) => Stop::Signal(signal),
        }
    }
}

/// What `waitid(2)` says of one of this thread's tracees: nothing yet, or its si_code and si_status.
fn ask(tid: Tid, options: i32) -> io::Result<Option<(i32, i32)>> {
    let options = options | libc::WNOHANG | libc::__WALL | libc::__WNOTHREAD;
    // SAFETY: an all-zero siginfo is a valid value of the plain structure, which the kernel fills.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one siginfo.
    if unsafe { libc::waitid(libc::P_PID, tid.0 as libc::id_t, &raw mut info, options) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: waitid fills these fields, or leaves zeros where there is nothing to tell.
    let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
    Ok((pid != 0).then_some((info.si_code, status)))
}

/// True if a thread is, or was until its end, the first of its process.
pub(super) fn is_first(tid: Tid) -> bool {
    // SAFETY: signal 0 asks whether there is such a thread in such a process.
    unsafe { libc::syscall(libc::SYS_tgkill, tid.0, tid.0, 0) == 0 }
}

/// Takes the end of a tracee of this thread, which must not be the first of its process, if it comes within moments.
pub(super) fn reap(tid: Tid) {
    for _ in 0..100 {
        match ask(tid, libc::WEXITED) {
            // It is about to end: it was killed.
            Ok(None) => std::thread::sleep(Duration::from_micros(100)),
            Ok(Some(_)) | Err(_) => return,
        }
    }
}

fn gone() -> io::Error {
    io::Error::from_raw_os_error(libc::ESRCH)
}

/// Waits for the next stop of a tracee, until `deadline`.
///
/// # Errors
/// ESRCH if it has ended, TimedOut if it does not stop in time: it has no CPU, or has not left the kernel.
pub fn wait(tid: Tid, deadline: Instant) -> io::Result<Stop> {
    let mut nap = Duration::from_micros(20);
    loop {
        // Looked at without being taken: the end of a thread belongs to its process's parent, which may be another part
        // of this program.
        match ask(tid, libc::WSTOPPED | libc::WEXITED | libc::WNOWAIT) {
            Ok(Some((libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED, _))) => return Err(gone()),
            Ok(Some((_, status))) => {
                // Gone in between if it was killed.
                ask(tid, libc::WSTOPPED)?.ok_or_else(gone)?;
                return Ok(Stop::of_status(status));
            }
            Ok(None) if Instant::now() >= deadline => {
                let message =
                    format!("thread {tid} does not stop: it has no CPU, or has not left the kernel");
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
            Ok(None) => {
                std::thread::sleep(nap);
                nap = (nap * 2).min(Duration::from_millis(1));
            }
            // Another thread's exec has taken its place, or ended it.
            Err(error) if error.raw_os_error() == Some(libc::ECHILD) => return Err(gone()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stops_are_told_apart_by_their_status() {
        assert_eq!(Stop::of_status(libc::SIGTRAP | 128 << 8), Stop::Event);
        assert_eq!(Stop::of_status(libc::SIGSTOP | 128 << 8), Stop::Event, "a stopped process");
        assert_eq!(Stop::of_status(libc::SIGTRAP | 0x80), Stop::SystemCall);
        assert_eq!(Stop::of_status(libc::SIGTRAP), Stop::Signal(libc::SIGTRAP), "the program's own");
        assert_eq!(Stop::of_status(libc::SIGRTMIN() + 3), Stop::Signal(libc::SIGRTMIN() + 3));
    }
}
