//! Actions of signals as the kernel keeps them. Handlers return by a call that a window lets through, which the C
//! library's do not.

use super::{handlers, stub};
use libc::c_int;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The kernel's `struct sigaction`: handler, flags, what the handler returns by, mask.
pub type Action = [u64; 4];

/// The signals that a window lives by.
pub const OURS: u64 = bit(libc::SIGSEGV) | bit(libc::SIGSYS);

/// What happens to a signal that nobody handles.
pub const DEFAULT: Action = [libc::SIG_DFL as u64, 0, 0, 0];

const SA_RESTORER: u64 = 0x0400_0000;
/// Signals, and bytes of a set of them.
pub const SIGNALS: c_int = 64;
const SET: u64 = 8;

/// The bit of a signal in a set.
pub const fn bit(signal: c_int) -> u64 {
    1 << (signal - 1)
}

fn change(signal: c_int, new: *const Action, before: *mut Action) -> i64 {
    // SAFETY: null, or the kernel's structure; the handlers are safe for signals.
    unsafe { stub::call(libc::SYS_rt_sigaction, [signal as u64, new as u64, before as u64, SET, 0]) }
}

/// The action of a signal. What there is none of has the default.
pub fn of(signal: c_int) -> Action {
    let mut before = DEFAULT;
    change(signal, std::ptr::null(), &raw mut before);
    before
}

/// Sets an action.
pub fn set(signal: c_int, action: Action) {
    // It fails for signals that have no actions, which nobody asks for.
    change(signal, &raw const action, std::ptr::null_mut());
}

fn ours(handler: unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut libc::c_void)) -> Action {
    let flags = (libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART) as u64;
    [handler as *const () as u64, flags | SA_RESTORER, stub::restorer(), u64::MAX]
}

/// True for an action of a window's own.
pub fn is_ours(action: &Action) -> bool {
    [handlers::on_fault, handlers::on_call, handlers::on_urge]
        .iter()
        .any(|handler| *handler as *const () as u64 == action[0])
}

/// True for a handler: neither the default, nor ignored.
fn handles(action: &Action) -> bool {
    ![libc::SIG_DFL as u64, libc::SIG_IGN as u64].contains(&action[0])
}

/// A signal whose handler would run with SIGSEGV or SIGSYS blocked: a fault or a call in it would end the program. That
/// of SIGSEGV itself begins in no window.
pub fn blocks_ours() -> Option<c_int> {
    (1..=SIGNALS).find(|signal| {
        let action = of(*signal);
        *signal != libc::SIGSEGV && handles(&action) && !is_ours(&action) && action[3] & OURS != 0
    })
}

/// A signal whose handler runs on the stack that the thread is on.
pub fn runs_anywhere() -> Option<c_int> {
    (1..=SIGNALS).find(|signal| {
        let action = of(*signal);
        *signal != libc::SIGSEGV && handles(&action) && action[1] & libc::SA_ONSTACK as u64 == 0
    })
}

/// Installs the handlers that stay: those of SIGURG and SIGSYS, which hardly any program handles.
///
/// # Errors
/// If this one does.
pub fn prepare() -> io::Result<()> {
    for (signal, name, action) in
        [(libc::SIGURG, "SIGURG", ours(handlers::on_urge)), (libc::SIGSYS, "SIGSYS", ours(handlers::on_call))]
    {
        let before = of(signal);
        let stands = before[0] == crate::hint_faults::stand::stand as *const () as u64;
        if before[0] != action[0] && (handles(&before) && !stands) {
            return Err(io::Error::other(format!("the program has a handler of its own for {name}")));
        }
        if before[0] != action[0] {
            set(signal, action);
        }
    }
    Ok(())
}

/// True if SIGURG has the handler of windows, which serves stands, too.
pub(crate) fn urge_is_ours() -> bool {
    is_ours(&of(libc::SIGURG))
}

/// True for a signal that has one of the handlers that stay: to the program it has none.
pub fn is_hidden(signal: c_int) -> bool {
    [libc::SIGURG, libc::SIGSYS].contains(&signal) && is_ours(&of(signal))
}

/// True while the handlers that stay are there.
pub fn prepared() -> bool {
    is_ours(&of(libc::SIGURG)) && is_ours(&of(libc::SIGSYS))
}

/// The program's action for SIGSEGV while it has another.
static BEFORE: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Takes SIGSEGV over.
pub fn take() {
    let before = of(libc::SIGSEGV);
    if !is_ours(&before) {
        BEFORE.iter().zip(before).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
    }
    TAKEN.store(true, Ordering::Release);
    set(libc::SIGSEGV, ours(handlers::on_fault));
}

/// Gives SIGSEGV back, if it is still taken.
pub fn give_back() {
    if TAKEN.swap(false, Ordering::AcqRel) && is_ours(&of(libc::SIGSEGV)) {
        let mut before = DEFAULT;
        before.iter_mut().zip(&BEFORE).for_each(|(value, word)| *value = word.load(Ordering::Relaxed));
        set(libc::SIGSEGV, before);
    }
}
