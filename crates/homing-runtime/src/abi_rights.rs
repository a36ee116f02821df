//! What a program must not notice when it changes its rights. The C library changes users and groups in all threads at
//! once, and ends the program where they disagree. Capabilities belong to one thread: a program that changes its own
//! has no thread of ours beside it any more, and none that keeps rights which the program gave up.

use crate::library;
#[cfg(target_arch = "x86_64")]
use crate::rehearsal;
use std::ffi::{c_int, c_ulong, c_void, CStr};
use std::sync::atomic::{AtomicPtr, Ordering};

/// The functions of the next library of these names.
static NEXT_PRCTL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
static NEXT_CAPSET: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// The function of the next library of that name, once it is known.
pub(crate) fn next(known: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let found = known.load(Ordering::Relaxed);
    if !found.is_null() {
        return found;
    }
    // SAFETY: a constant text.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    known.store(found, Ordering::Relaxed);
    found
}

/// Ends the manager before the program's rights change.
fn rights_change() {
    library::rights_change();
    #[cfg(target_arch = "x86_64")]
    rehearsal::end();
}

/// Stands before the C library's function, which takes as many arguments however many there are.
///
/// # Safety
/// As for `prctl(2)`.
#[no_mangle]
pub unsafe extern "C" fn prctl(what: c_int, a: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong) -> c_int {
    type Function = unsafe extern "C" fn(c_int, c_ulong, c_ulong, c_ulong, c_ulong) -> c_int;
    if [libc::PR_SET_KEEPCAPS, libc::PR_SET_SECUREBITS].contains(&what) {
        rights_change();
    }
    let function = next(&NEXT_PRCTL, c"prctl");
    if function.is_null() {
        // SAFETY: the caller's promise.
        return unsafe { libc::syscall(libc::SYS_prctl, c_ulong::from(what as u32), a, b, c, d) } as c_int;
    }
    // SAFETY: the C library gives the function of that name this type; the caller's promise.
    unsafe { std::mem::transmute::<*mut c_void, Function>(function)(what, a, b, c, d) }
}

/// As [`prctl()`].
///
/// # Safety
/// As for `capset(2)`.
#[no_mangle]
pub unsafe extern "C" fn capset(header: *mut c_void, data: *const c_void) -> c_int {
    type Function = unsafe extern "C" fn(*mut c_void, *const c_void) -> c_int;
    rights_change();
    let function = next(&NEXT_CAPSET, c"capset");
    if function.is_null() {
        // SAFETY: the caller's promise.
        return unsafe { libc::syscall(libc::SYS_capset, header, data) } as c_int;
    }
    // SAFETY: the C library gives the function of that name this type; the caller's promise.
    unsafe { std::mem::transmute::<*mut c_void, Function>(function)(header, data) }
}
