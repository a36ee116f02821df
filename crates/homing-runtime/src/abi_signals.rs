//! What a program must not notice of the source `protect`: its threads have a stack for signals, and two signals have
//! handlers. And what happens when the library is loaded.

use crate::abi_rights::next;
use crate::{abi, rehearsal};
use homing_linux::environment::is_foreign;
use homing_linux::protect::{is_hidden, stacks_for_signals, will_handle};
use std::ffi::c_int;
use std::sync::atomic::AtomicPtr;

/// Stands before the C library's function: a stack that a window gave a thread is none to the program.
///
/// # Safety
/// As for `sigaltstack(2)`.
#[no_mangle]
pub unsafe extern "C" fn sigaltstack(new: *const libc::stack_t, old: *mut libc::stack_t) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { stacks_for_signals(new, old) } {
        0 => 0,
        error => {
            // SAFETY: the calling thread's own.
            unsafe { *libc::__errno_location() = -error as c_int };
            -1
        }
    }
}

/// The functions of the next library of these names, looked up when this one is loaded.
static NEXT_SIGACTION: AtomicPtr<libc::c_void> = AtomicPtr::new(std::ptr::null_mut());
static NEXT_SIGNAL: AtomicPtr<libc::c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Stands before the C library's function: a handler of windows is none to the program.
///
/// # Safety
/// As for `sigaction(2)`.
#[no_mangle]
pub unsafe extern "C" fn sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    type Function = unsafe extern "C" fn(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int;
    let function = next(&NEXT_SIGACTION, c"sigaction");
    if function.is_null() {
        return -1;
    }
    // SAFETY: the C library gives the function of that name this type.
    let function = unsafe { std::mem::transmute::<*mut libc::c_void, Function>(function) };
    let hidden = is_hidden(signal);
    // SAFETY: the caller's promise.
    unsafe {
        let _no_window = (!new.is_null()).then(|| will_handle(signal, &(*new).sa_mask));
        let keeps = hidden && !new.is_null() && (*new).sa_sigaction == libc::SIG_DFL;
        let result = function(signal, if keeps { std::ptr::null() } else { new }, old);
        if hidden && result == 0 && !old.is_null() {
            *old = std::mem::zeroed();
        }
        result
    }
}

/// As [`sigaction()`].
///
/// # Safety
/// As for `signal(2)`.
#[no_mangle]
pub unsafe extern "C" fn signal(signal: c_int, handler: libc::sighandler_t) -> libc::sighandler_t {
    type Function = unsafe extern "C" fn(c_int, libc::sighandler_t) -> libc::sighandler_t;
    let function = next(&NEXT_SIGNAL, c"signal");
    if function.is_null() {
        return libc::SIG_ERR;
    }
    let hidden = is_hidden(signal);
    if hidden && handler == libc::SIG_DFL {
        return libc::SIG_DFL;
    }
    // SAFETY: an empty set.
    let _no_window = will_handle(signal, &unsafe { std::mem::zeroed() });
    // SAFETY: the C library gives the function of that name this type; the caller's promise.
    let before = unsafe { std::mem::transmute::<*mut libc::c_void, Function>(function)(signal, handler) };
    if hidden && before != libc::SIG_ERR {
        libc::SIG_DFL
    } else {
        before
    }
}

extern "C" fn begin() {
    next(&NEXT_SIGACTION, c"sigaction");
    next(&NEXT_SIGNAL, c"signal");
    // What a user's variables ask for is not done with the rights of another.
    if is_foreign() {
        return;
    }
    rehearsal::begin();
    abi::loaded_into_program();
}

extern "C" fn end() {
    rehearsal::end();
}

#[used]
#[link_section = ".init_array"]
static BEGIN: extern "C" fn() = begin;

#[used]
#[link_section = ".fini_array"]
static END: extern "C" fn() = end;
