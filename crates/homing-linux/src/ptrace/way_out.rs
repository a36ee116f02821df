//! What a tracing thread does when a request to the kernel hangs: it is interrupted by a signal, and lets go all
//! that it traces.
//!
//! `PTRACE_SEIZE` waits while the process executes another program, and that exec waits for the end of the process's
//! other threads, each of which ends only when its tracer takes notice. A tracer that holds one of them and asks for
//! another one waits for itself.

use super::held;
use crate::proc::Tid;
use std::cell::Cell;
use std::os::unix::thread::JoinHandleExt;
use std::sync::Once;
use std::thread::JoinHandle;

/// The signal that interrupts a tracer. By default it does nothing.
const SIGNAL: libc::c_int = libc::SIGURG;

thread_local! {
    /// The tracees of this thread while it makes a request that may hang.
    static TRACED: Cell<(*const Tid, usize)> = const { Cell::new((std::ptr::null(), 0)) };
}

/// Only calls that are async-signal-safe.
extern "C" fn let_all_go(_: libc::c_int) {
    // SAFETY: the kernel's error number of this thread.
    let errno = unsafe { *libc::__errno_location() };
    let (first, count) = TRACED.get();
    for index in 0..count {
        // SAFETY: `beside` has lent a slice of that many, which lives until it takes it back.
        held::let_go(unsafe { *first.add(index) });
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// Sets up the signal's handler.
pub(super) fn prepare() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: an all-zero action is a valid value of the plain structure; the handler is of the type that it needs
        // without SA_SIGINFO. The action lives for the call.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = let_all_go as *const () as usize;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(SIGNAL, &raw const action, std::ptr::null_mut());
        }
    });
}

/// Makes a request that may hang, of a thread that traces these already.
pub(super) fn beside<T>(traced: &[Tid], request: impl FnOnce() -> T) -> T {
    TRACED.set((traced.as_ptr(), traced.len()));
    let answer = request();
    TRACED.set((std::ptr::null(), 0));
    answer
}

/// Interrupts a thread that makes such a request: it lets go all that it traces. Where it makes none, this does
/// nothing.
pub(super) fn take(tracer: &JoinHandle<()>) {
    // SAFETY: the handle is that of a thread that has not been joined.
    unsafe { libc::pthread_kill(tracer.as_pthread_t(), SIGNAL) };
}
