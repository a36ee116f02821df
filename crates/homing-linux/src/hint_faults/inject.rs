//! The scanning helper of a program that does not start it itself: its code is put into the program, and started in the
//! name of one of its threads.

use super::code::{at, code, words};
use super::scanner::{find_helper, Origin, Scanner};
use super::PAGE;
use crate::guard::{guarded, Values};
use crate::proc::{Pid, Proc};
use crate::ptrace::{self, call::Caller};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// How long the go-between is given, which makes six system calls.
const BETWEEN: Duration = Duration::from_secs(4);

impl Scanner {
    /// Starts a helper in the name of a thread of the program, which is stopped for that.
    ///
    /// # Errors
    /// EAGAIN if no thread of the process runs, EPERM if it may not be traced, ESRCH if it has ended, what `mmap`,
    /// `mprotect` and `clone` give inside it (a seccomp filter may forbid them).
    pub fn inject(proc: &Proc, pid: Pid) -> io::Result<Scanner> {
        let memory = ptrace::memory(pid)?;
        let [helper, control] = guarded(|| Scanner::make(proc, pid, &memory))?;
        let helper = find_helper(proc, pid, Pid(helper as i32))?;
        Ok(Scanner::new(pid, helper, Origin::Injected, memory, control))
    }

    /// Makes memory and helper; gives the helper, and the address of the control page.
    fn make(proc: &Proc, pid: Pid, memory: &File) -> io::Result<Values> {
        let mut caller = Caller::of_any(proc, pid, memory)?;
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
        let writable = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        let base = caller.call(libc::SYS_mmap, &[0, 2 * PAGE, writable, flags, u64::MAX, 0])?;
        // Best effort: the process keeps two unused pages at worst.
        let free = |caller: &mut Caller<'_>| drop(caller.call(libc::SYS_munmap, &[base, 2 * PAGE]));
        let between = Scanner::prepare(&mut caller, base).inspect_err(|_| free(&mut caller))?;
        Scanner::wait_for(&mut caller, between)?;
        let mut helper = [0; 8];
        memory.read_exact_at(&mut helper, base + PAGE + at::HELPER)?;
        match i64::from_ne_bytes(helper) {
            0 => Err(io::Error::other("something in the process keeps the scanning helper from being made")),
            error if error < 0 => {
                free(&mut caller);
                Err(io::Error::from_raw_os_error(-error as i32))
            }
            helper => Ok([helper as u64, base + PAGE]),
        }
    }

    /// Fills the two pages and starts the go-between.
    fn prepare(caller: &mut Caller<'_>, base: u64) -> io::Result<u64> {
        let (control, memory) = (base + PAGE, caller.memory());
        memory.write_all_at(code(), base)?;
        for [offset, word] in words() {
            memory.write_all_at(&word.to_ne_bytes(), control + offset)?;
        }
        let executable = (libc::PROT_READ | libc::PROT_EXEC) as u64;
        caller.call(libc::SYS_mprotect, &[base, PAGE, executable])?;
        caller.call_code(base, control)
    }

    /// Waits for the end of the go-between, which its program may have stopped: then it is killed.
    fn wait_for(caller: &mut Caller<'_>, between: u64) -> io::Result<()> {
        let begin = Instant::now();
        let wall = libc::__WALL as u64;
        while caller.call(libc::SYS_wait4, &[between, 0, wall | libc::WNOHANG as u64, 0])? == 0 {
            if begin.elapsed() >= BETWEEN {
                caller.call(libc::SYS_kill, &[between, libc::SIGKILL as u64])?;
                caller.call(libc::SYS_wait4, &[between, 0, wall, 0])?;
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// The helper takes its own memory away and ends: no thread of the program is needed for that.
    pub(super) fn take_back(&self, proc: &Proc) -> io::Result<Values> {
        let mut caller = Caller::of_helper(proc, self.helper(), self.memory())?;
        caller.call(libc::SYS_munmap, &[self.control() - PAGE, 2 * PAGE])?;
        caller.exit()?;
        Ok([0; 2])
    }
}
