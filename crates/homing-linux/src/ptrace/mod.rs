//! Threads held still, and system calls made in their name: `ptrace(2)`.
//!
//! | file | what it is |
//! |---|---|
//! | [`held`] | a thread that stands still until it is dropped |
//! | [`standstill`] | processes of which all threads do |
//! | [`call`] | system calls in the name of a held thread |
//! | [`interrupted`] | system calls that a stop would make fail |
//! | [`stop`], [`request`] | what the kernel reports of a traced thread, and what it is asked for |
//!
//! What is promised to the traced program: every signal is delivered to it once, with its siginfo; every system call
//! that was interrupted goes on or is begun again; a thread runs on when the engine lets it go, ends or is killed. A
//! dead tracer's tracees are let go by the kernel: that is why threads are stopped this way and never by SIGSTOP.

#[cfg(target_arch = "x86_64")]
pub mod call;
#[cfg(not(target_arch = "x86_64"))]
#[path = "call_elsewhere.rs"]
pub mod call;
#[cfg(target_arch = "x86_64")]
mod filters;
pub mod held;
#[cfg(target_arch = "x86_64")]
pub mod interrupted;
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
    use super::held::Held;
    use super::standstill::{Count, Standstill};
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Child, Command, Stdio};

    /// A shell that answers each line, so that it can be told whether it still works.
    struct Shell(Child, BufReader<std::process::ChildStdout>);

    impl Shell {
        fn new() -> Shell {
            let mut command = Command::new("sh");
            command.args(["-c", "while read line; do echo $line; done"]);
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let out = BufReader::new(child.stdout.take().unwrap());
            let mut shell = Shell(child, out);
            shell.echo("begin");
            shell
        }

        fn pid(&self) -> Pid {
            Pid(self.0.id() as i32)
        }

        fn echo(&mut self, word: &str) {
            writeln!(self.0.stdin.as_mut().unwrap(), "{word}").unwrap();
            let mut line = String::new();
            self.1.read_line(&mut line).unwrap();
            assert_eq!(line.trim(), word);
        }
    }

    impl Drop for Shell {
        fn drop(&mut self) {
            drop(self.0.stdin.take());
            self.0.wait().unwrap();
        }
    }

    #[test]
    fn calls_are_made_in_another_process_which_goes_on() {
        let mut shell = Shell::new();
        let (proc, pid) = (Proc::default(), shell.pid());
        assert!(may_trace(pid).unwrap());
        let memory = memory(pid).unwrap();
        for round in 0..20 {
            // The shell is blocked in read(2): the call must be restarted when it runs on.
            let mut caller = Caller::of_any(&proc, pid, &memory).unwrap();
            assert_eq!(caller.call(libc::SYS_getpid, &[]).unwrap(), pid.0 as u64);
            let error = caller.call(libc::SYS_close, &[9999]).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EBADF));
            drop(caller);
            shell.echo(&format!("round {round}"));
        }
    }

    #[test]
    fn a_held_process_stands_still_and_runs_on() {
        let mut shell = Shell::new();
        let held = Standstill::of(&Proc::default(), &[shell.pid()]).unwrap();
        assert_eq!(held.count(), Count { held: 1, ..Count::default() });
        let stat = Proc::default().stat(shell.pid(), Tid(shell.pid().0)).unwrap();
        assert_eq!(stat.state, 't');
        drop(held);
        shell.echo("again");
    }

    #[test]
    fn what_has_ended_cannot_be_held() {
        assert!(may_trace(Pid(i32::MAX)).is_err());
        assert_eq!(Held::hold(Tid(i32::MAX)).unwrap_err().raw_os_error(), Some(libc::ESRCH));
        let nobody = Standstill::of(&Proc::default(), &[Pid(i32::MAX)]).unwrap();
        assert_eq!(nobody.count(), Count::default());
    }
}
