//! Sampling by protection, inside of a program: pages that may not be accessed for some milliseconds, a *window*, show
//! by a fault which thread accesses them. It needs no right, no counter of the processor, and no file system but
//! `/proc`.
//!
//! A window must not change what the program computes. Two things see to that.
//!
//! * **No call meets a protected page.** While there is a window the kernel stops every system call of the program's
//!   threads (`PR_SET_SYSCALL_USER_DISPATCH`, Linux 5.11), whoever makes it: the program, its libraries, the C library
//!   itself. The thread waits in the handler until the window is over, and makes its call then. So a window also ends
//!   before memory is unmapped or remapped, a thread or process begins, an action of a signal changes, or the process
//!   ends. Threads that sleep in calls are let sleep, and what their calls reach is left out ([`calls`], [`threads`]).
//! * **SIGSEGV is the program's outside of a window.** The handler is installed when nobody can change or ask for it,
//!   and taken back when no fault of a window can be on its way. What it is not responsible for comes again after the
//!   window, as it was, and meets the program's own action.
//!
//! Wherever that cannot be had there is no window, with a [`Refusal`].

mod action;
mod asynchronous;
mod calls;
mod handlers;
mod parts;
mod plan;
mod shared;
mod sharers;
mod stub;
mod threads;
mod undo;
mod urge;
mod window;

pub use parts::{Range, Segment};
pub use plan::Planner;
pub use shared::Caught;
pub use threads::{introduce, OfEngine};
pub use undo::data_are_limited;
pub use window::{stacks_for_signals, Protector, Window};

pub use action::is_hidden;
pub(crate) use action::urge_is_ours;

use std::fmt;
use std::sync::atomic::Ordering;

/// Why there was no window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// `/proc` could not be read, or had too much.
    Proc,
    /// There are more threads than are looked after.
    Threads,
    /// A thread did not say in time where it is.
    Running,
    /// A thread of the engine is at work.
    Engine,
    /// A thread made a call before the window was open.
    Call,
    /// A thread has read or written something a short time ago, and would end the window.
    Calls,
    /// The kernel does not stop a thread's calls, with its error.
    Dispatch(i32),
    /// The kernel gives no timer to ask a thread with, with its error.
    Timer(i32),
    /// A thread blocks SIGSEGV or SIGSYS.
    Blocked,
    /// The handler of this signal blocks them.
    Handler(i32),
    /// A thread has filters of system calls (seccomp) that the program had not when this began.
    Filter,
    /// A thread that is not known yet sleeps in this call.
    Unknown(i64),
    /// A thread sleeps in this call, of which it is not known what it reaches.
    Sleeps(i64),
    /// The kernel writes to memory by itself: io_uring, or asynchronous input and output.
    Asynchronous,
    /// A thread has an area for restartable sequences that is not the C library's.
    Restartable,
    /// Another process uses this memory.
    Shared,
    /// The handler of this signal would run on a stack of the program's own making, in memory that may be protected.
    Stack(i32),
    /// The program's data are limited: the kernel may not give pages back.
    Limit,
    /// The program has a handler of its own for SIGURG or SIGSYS.
    Taken,
    /// Of the memory that was chosen nothing could be protected.
    Nothing,
}

const LIMITED: &str = "the program's data are limited (RLIMIT_DATA)";

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Proc => f.write_str("/proc could not be read, or has too much"),
            Refusal::Threads => f.write_str("too many threads"),
            Refusal::Running => f.write_str("a thread did not answer in time"),
            Refusal::Engine => f.write_str("the engine was moving pages"),
            Refusal::Call => f.write_str("a thread made a system call"),
            Refusal::Calls => f.write_str("a thread reads or writes"),
            Refusal::Dispatch(errno) => write!(f, "the kernel does not stop system calls (error {errno})"),
            Refusal::Timer(libc::EAGAIN) => f.write_str(
                "the kernel gives no timer to ask a thread with (error 11): see `ulimit -i` (RLIMIT_SIGPENDING)",
            ),
            Refusal::Timer(errno) => {
                write!(f, "the kernel gives no timer to ask a thread with (error {errno})")
            }
            Refusal::Blocked => f.write_str("a thread blocks SIGSEGV or SIGSYS"),
            Refusal::Handler(signal) => write!(f, "the handler of signal {signal} blocks SIGSEGV or SIGSYS"),
            Refusal::Filter => f.write_str("a thread has a new filter of system calls"),
            Refusal::Unknown(call) => write!(f, "a thread that never ran sleeps in system call {call}"),
            Refusal::Sleeps(call) => write!(f, "a thread sleeps in system call {call}"),
            Refusal::Asynchronous => f.write_str("io_uring or asynchronous input and output is in use"),
            Refusal::Restartable => f.write_str(
                "a thread has an area for restartable sequences (rseq) that is not the C library's",
            ),
            Refusal::Shared => f.write_str("another process uses the program's memory (clone with CLONE_VM)"),
            Refusal::Stack(signal) => {
                write!(f, "the handler of signal {signal} would run on a stack of the program's own making")
            }
            Refusal::Limit => f.write_str(LIMITED),
            Refusal::Taken => f.write_str("the program has a handler of its own for SIGURG or SIGSYS"),
            Refusal::Nothing => f.write_str("nothing of it may be protected"),
        }
    }
}

/// Gives the calling thread, and those that it starts, a table of descriptors of its own with standard error alone.
/// What it opens takes no number that the program would have had, and what the program closes, or puts a file of its
/// own in the place of, is not the engine's.
///
/// # Errors
/// If the kernel refuses (Linux 5.9 can).
pub fn own_descriptors() -> std::io::Result<()> {
    // SAFETY: the descriptors of this thread alone, none of which belongs to anything that it has.
    let closed = unsafe {
        let closed = libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_UNSHARE);
        // Whoever reads the program's output sees its end when the program closes it.
        if closed == 0 {
            libc::close(0);
            libc::close(1);
            // Nobody writes to what comes next by its number.
            libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
            libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        }
        closed
    };
    match closed {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// How often a thread waited for the end of a window, and for how long in all, in nanoseconds.
pub fn waits() -> (u64, u64) {
    (shared::WAITS.load(Ordering::Relaxed), shared::WAITED.load(Ordering::Relaxed))
}

/// While this lives no window begins, and no call is stopped.
#[derive(Debug)]
pub struct NoWindow(());

impl Drop for NoWindow {
    fn drop(&mut self) {
        shared::KEPT_OFF.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The program is about to handle a signal with this set blocked. If that is one that windows live by, or the signal is
/// SIGSYS, a window that there is ends first, and none begins before the action is there: then it prevents windows.
pub fn will_handle(signal: i32, set: &libc::sigset_t) -> Option<NoWindow> {
    // SAFETY: 64 signals are the first word of the set.
    let blocked = unsafe { *std::ptr::from_ref(set).cast::<u64>() };
    (blocked & action::OURS != 0 || signal == libc::SIGSYS).then(|| {
        handlers::keep_off();
        shared::let_through();
        NoWindow(())
    })
}

/// What is missing for it here, if anything.
pub fn missing() -> Option<String> {
    // Turns off what is not on: an error where the kernel does not know it.
    // SAFETY: changes nothing.
    let known = unsafe { libc::prctl(handlers::PR_SET_SYSCALL_USER_DISPATCH as i32, 0, 0, 0, 0) };
    if known != 0 {
        let why = std::io::Error::last_os_error();
        return Some(format!("the kernel does not stop system calls ({why}): needs Linux 5.11"));
    }
    if undo::data_are_limited() {
        return Some(format!("{LIMITED}: the kernel may not give protected pages back; see `ulimit -d`"));
    }
    if !std::path::Path::new("/proc/self/task").exists() {
        return Some("/proc is not mounted".into());
    }
    None
}
