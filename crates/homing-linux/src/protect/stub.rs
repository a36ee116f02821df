//! System calls that a window lets through: the kernel tells them by where they are made
//! (`PR_SET_SYSCALL_USER_DISPATCH` excepts one range of addresses). What runs in handlers of signals, and
//! returns from them, calls from here.

use std::arch::global_asm;

global_asm!(
    ".pushsection .text.homing_protect, \"ax\", @progbits",
    ".hidden homing_protect_begin",
    ".globl homing_protect_begin",
    "homing_protect_begin:",
    // (number, a, b, c, d, e)
    ".hidden homing_protect_call",
    ".globl homing_protect_call",
    "homing_protect_call:",
    "mov rax, rdi",
    "mov rdi, rsi",
    "mov rsi, rdx",
    "mov rdx, rcx",
    "mov r10, r8",
    "mov r8, r9",
    "xor r9d, r9d",
    "syscall",
    "ret",
    ".hidden homing_protect_return",
    ".globl homing_protect_return",
    "homing_protect_return:",
    "mov eax, 15", // rt_sigreturn
    "syscall",
    "ud2",
    ".hidden homing_protect_end",
    ".globl homing_protect_end",
    "homing_protect_end:",
    ".popsection",
);

extern "C" {
    fn homing_protect_begin();
    fn homing_protect_call(number: i64, a: u64, b: u64, c: u64, d: u64, e: u64) -> i64;
    fn homing_protect_return();
    fn homing_protect_end();
}

/// The excepted range: first address and length.
pub fn range() -> (u64, u64) {
    let begin = homing_protect_begin as *const () as u64;
    (begin, homing_protect_end as *const () as u64 - begin)
}

/// How a handler of signals returns (`sa_restorer`).
pub fn restorer() -> u64 {
    homing_protect_return as *const () as u64
}

/// A system call; an error is its negative number, and `errno` stays.
///
/// # Safety
/// That of the call.
pub unsafe fn call(number: i64, [a, b, c, d, e]: [u64; 5]) -> i64 {
    // SAFETY: the caller's promise.
    unsafe { homing_protect_call(number, a, b, c, d, e) }
}

/// Waits while the word has this value, or until somebody wakes, or for that long.
pub fn wait(word: &std::sync::atomic::AtomicU32, value: u32, nanoseconds: i64) {
    let most = libc::timespec { tv_sec: 0, tv_nsec: nanoseconds };
    let operation = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as u64;
    let arguments = [word.as_ptr() as u64, operation, u64::from(value), &raw const most as u64, 0];
    // SAFETY: both words live during the call. Whatever it gives, the caller looks again.
    unsafe { call(libc::SYS_futex, arguments) };
}

/// Wakes all who wait at the word.
pub fn wake(word: &std::sync::atomic::AtomicU32) {
    let operation = (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as u64;
    // SAFETY: reads nothing.
    unsafe { call(libc::SYS_futex, [word.as_ptr() as u64, operation, i32::MAX as u64, 0, 0]) };
}

/// Changes the protection of pages; 0, or a negative error.
///
/// # Safety
/// Whoever accesses the pages must stand what comes of it.
pub unsafe fn protect(start: u64, end: u64, protection: i32) -> i64 {
    // SAFETY: the caller's promise.
    unsafe { call(libc::SYS_mprotect, [start, end - start, protection as u64, 0, 0]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_made_from_the_range() {
        // SAFETY: asks for a number.
        assert_eq!(unsafe { call(libc::SYS_getpid, [0; 5]) }, i64::from(std::process::id()));
        // SAFETY: an error.
        assert_eq!(unsafe { call(libc::SYS_close, [u64::MAX, 0, 0, 0, 0]) }, -i64::from(libc::EBADF));
        let (begin, bytes) = range();
        assert!(bytes < 64 && (begin..begin + bytes).contains(&restorer()));
    }
}
