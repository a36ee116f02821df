//! System calls that a stop would make fail. Most calls that a stop interrupts are begun again by the kernel without
//! the program's knowledge. Some return EINTR instead, even if no signal handler has run (signal(7), "Interruption of
//! system calls and library functions by stop signals"), and some programs do not expect that. So threads that wait in
//! one are not stopped, and one that was stopped on the way into it begins it again.

use super::request;
use crate::proc::{Pid, Proc, Tid};
use std::io;

/// `io_pgetevents(2)`, which the library of constants lacks.
const SYS_IO_PGETEVENTS: i64 = 333;

/// Calls that end with EINTR when they are interrupted, although they have done nothing yet: they can be begun again.
const REPEATABLE: &[i64] = &[
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_io_getevents,
    SYS_IO_PGETEVENTS,
    libc::SYS_io_uring_enter,
];

/// Calls whose waiting must not be interrupted: those of [`REPEATABLE`] with a time limit of their own, which would
/// begin anew, those that cannot be begun again, and those that wait for a child which has this memory until it calls
/// exec.
const UNDISTURBED: &[i64] = &[
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_connect,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_io_getevents,
    SYS_IO_PGETEVENTS,
    libc::SYS_io_uring_enter,
    libc::SYS_close,
    libc::SYS_vfork,
    libc::SYS_clone,
    libc::SYS_clone3,
];

/// The kernel's own error number for a call that is begun again unless a signal handler runs first.
const ERESTARTNOHAND: i64 = 514;

/// True if the thread waits in a call that a stop would disturb. It runs nothing meanwhile, so it need not be stopped.
pub fn must_not_be_disturbed(proc: &Proc, pid: Pid, tid: Tid) -> bool {
    let call = proc.system_call(pid, tid).ok().flatten();
    call.is_some_and(|call| UNDISTURBED.contains(&call))
}

/// Lets a stopped thread begin its system call again if the stop made it fail.
pub fn restart(tid: Tid) -> io::Result<()> {
    let mut registers = request::registers(tid)?;
    let failed = registers.rax as i64 == -i64::from(libc::EINTR);
    if failed && REPEATABLE.contains(&(registers.orig_rax as i64)) && is_long_mode(&registers) {
        registers.rax = -ERESTARTNOHAND as u64;
        request::set_registers(tid, &registers)?;
    }
    Ok(())
}

/// True if the thread runs 64-bit code: other code has other numbers for system calls.
pub fn is_long_mode(registers: &libc::user_regs_struct) -> bool {
    const USER_CS: u64 = 0x33;
    const X32: u64 = 0x4000_0000;
    registers.cs == USER_CS && (registers.orig_rax == u64::MAX || registers.orig_rax & X32 == 0)
}

/// True if the kernel will begin this thread's system call again.
pub fn restarts(registers: &libc::user_regs_struct) -> bool {
    // ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND, ERESTART_RESTARTBLOCK of linux/errno.h.
    registers.orig_rax != u64::MAX && [-512, -513, -514, -516].contains(&(registers.rax as i64))
}
