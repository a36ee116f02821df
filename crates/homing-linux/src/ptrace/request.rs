//! The requests of `ptrace(2)` that are used here, one function each. All of them must come from the thread that seized
//! the tracee, and all but [`seize`] and [`interrupt`] need it to be in a ptrace-stop: otherwise they give ESRCH.

use crate::fail::{self, Call};
use crate::proc::Tid;
use std::io;

fn request(request: libc::c_uint, tid: Tid, address: usize, data: usize) -> io::Result<()> {
    // SAFETY: the requests of this file take integers, or point to a structure that the caller owns for the call.
    match unsafe { libc::ptrace(request, tid.0, address, data) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Begins to trace a thread, without stopping it. Its system-call stops are told from signals
/// (`PTRACE_O_TRACESYSGOOD`).
pub fn seize(tid: Tid) -> io::Result<()> {
    fail::point(Call::Ptrace)?;
    request(libc::PTRACE_SEIZE, tid, 0, libc::PTRACE_O_TRACESYSGOOD as usize)
}

/// Asks a thread to stop: a `PTRACE_EVENT_STOP` follows, before any further signal is taken. A system call that it
/// waits in is cut short: only for threads that stand, or expect that.
pub fn interrupt(tid: Tid) -> io::Result<()> {
    request(libc::PTRACE_INTERRUPT, tid, 0, 0)
}

/// How a stopped thread goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    /// Until something else stops it.
    Run,
    /// Until it enters or leaves a system call.
    ToSystemCall,
}

/// Lets a stopped thread go on. `signal` is delivered to it if it was stopped to deliver one, with the siginfo that
/// came with it; 0 drops that signal.
pub fn resume(tid: Tid, how: Resume, signal: i32) -> io::Result<()> {
    let how = match how {
        Resume::Run => libc::PTRACE_CONT,
        Resume::ToSystemCall => libc::PTRACE_SYSCALL,
    };
    request(how, tid, 0, signal as usize)
}

/// Ends tracing; the thread runs on.
pub fn detach(tid: Tid) -> io::Result<()> {
    request(libc::PTRACE_DETACH, tid, 0, 0)
}

/// The signals that a thread blocks, as the kernel's bits: signal n is bit n - 1. While a call such as `sigsuspend` has
/// put another mask in its place for a time, this is the one that comes back after it.
pub fn signal_mask(tid: Tid) -> io::Result<u64> {
    let mut mask = 0u64;
    request(libc::PTRACE_GETSIGMASK, tid, std::mem::size_of_val(&mask), &raw mut mask as usize)?;
    Ok(mask)
}

/// Sets the signals that a thread blocks.
pub fn set_signal_mask(tid: Tid, mask: u64) -> io::Result<()> {
    request(libc::PTRACE_SETSIGMASK, tid, std::mem::size_of_val(&mask), &raw const mask as usize)
}

/// The signal that a thread was stopped to deliver, as its handler would be told: `si_code` is positive if the kernel
/// made it.
pub fn signal_info(tid: Tid) -> io::Result<libc::siginfo_t> {
    // SAFETY: an all-zero siginfo is a valid value of the plain structure, which the kernel fills.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    request(libc::PTRACE_GETSIGINFO, tid, 0, &raw mut info as usize)?;
    Ok(info)
}

/// Takes a thread's seccomp filters out of force while it is traced: `PTRACE_O_SUSPEND_SECCOMP`, which needs
/// CAP_SYS_ADMIN.
#[cfg(target_arch = "x86_64")]
pub fn suspend_seccomp(tid: Tid) -> io::Result<()> {
    const PTRACE_O_SUSPEND_SECCOMP: usize = 1 << 21;
    request(libc::PTRACE_SETOPTIONS, tid, 0, libc::PTRACE_O_TRACESYSGOOD as usize | PTRACE_O_SUSPEND_SECCOMP)
}

/// A thread's registers.
#[cfg(target_arch = "x86_64")]
pub fn registers(tid: Tid) -> io::Result<libc::user_regs_struct> {
    // SAFETY: all-zero registers are a valid value of the plain structure, which the kernel fills.
    let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    request(libc::PTRACE_GETREGS, tid, 0, &raw mut registers as usize)?;
    Ok(registers)
}

/// Sets a thread's registers.
#[cfg(target_arch = "x86_64")]
pub fn set_registers(tid: Tid, registers: &libc::user_regs_struct) -> io::Result<()> {
    request(libc::PTRACE_SETREGS, tid, 0, std::ptr::from_ref(registers) as usize)
}

/// Where a thread has its area for restartable sequences, `struct rseq`; 0 if it has none.
///
/// # Errors
/// EIO on kernels before 5.13, and on those without restartable sequences.
#[cfg(target_arch = "x86_64")]
pub fn rseq_area(tid: Tid) -> io::Result<u64> {
    // struct ptrace_rseq_configuration of linux/ptrace.h.
    #[repr(C)]
    #[derive(Default)]
    struct Configuration {
        area: u64,
        size: u32,
        signature: u32,
        flags: u32,
        pad: u32,
    }
    let mut found = Configuration::default();
    let bytes = std::mem::size_of_val(&found);
    request(libc::PTRACE_GET_RSEQ_CONFIGURATION, tid, bytes, &raw mut found as usize)?;
    Ok(found.area)
}
