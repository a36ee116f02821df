//! Signals that ask the program to end, counted instead of dying of them: a recording first finishes its file.

use crate::clock::monotonic;
use std::io;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// The signals that are counted.
const CAUGHT: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// The signal that asks a process to end.
pub const SIGTERM: i32 = libc::SIGTERM;

/// The signal that ends a process at once.
pub const SIGKILL: i32 = libc::SIGKILL;

static COUNT: AtomicU32 = AtomicU32::new(0);
/// When the first of them came, in nanoseconds of the monotonic clock.
static FIRST: AtomicU64 = AtomicU64::new(0);
/// ... those that were SIGHUP.
static HANGUPS: AtomicU32 = AtomicU32::new(0);
/// The last one that was sent to this process alone (not by the terminal to the whole group); 0: none.
static TO_FORWARD: AtomicI32 = AtomicI32::new(0);
static LAST: AtomicI32 = AtomicI32::new(0);

extern "C" fn count(signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    if signal == libc::SIGHUP {
        HANGUPS.fetch_add(1, Ordering::Relaxed);
    }
    // Before the count: whoever sees that asks which signal it was, and when the first came.
    LAST.store(signal, Ordering::SeqCst);
    if COUNT.load(Ordering::SeqCst) == 0 {
        FIRST.store(now(), Ordering::SeqCst);
    }
    COUNT.fetch_add(1, Ordering::SeqCst);
    // SAFETY: the kernel passes a valid siginfo to a handler installed with SA_SIGINFO.
    if unsafe { (*info).si_code } != libc::SI_KERNEL {
        TO_FORWARD.store(signal, Ordering::Relaxed);
    }
}

/// Nanoseconds of the monotonic clock.
fn now() -> u64 {
    monotonic().as_nanos() as u64
}

/// Whether a signal that is counted came this long ago, or another one after it: what goes on since then is to end.
pub fn overdue(patience: Duration) -> bool {
    match COUNT.load(Ordering::SeqCst) {
        0 => false,
        1 => Duration::from_nanos(now().saturating_sub(FIRST.load(Ordering::SeqCst))) >= patience,
        _ => true,
    }
}

/// While this lives, SIGINT, SIGTERM, SIGHUP and SIGQUIT are counted. They interrupt blocking calls (no SA_RESTART).
/// Dropping it restores what was before.
#[derive(Debug)]
pub struct Interrupts {
    before: Vec<(i32, libc::sigaction)>,
}

impl std::panic::UnwindSafe for Interrupts {}

impl Interrupts {
    /// Begins to count, from 0. A signal that was ignored before, as under nohup, stays ignored. At most one should
    /// live at a time.
    pub fn catch() -> io::Result<Interrupts> {
        Interrupts::begin(|before| before.sa_sigaction != libc::SIG_IGN)
    }

    /// The same for a service, which is told what to do by these signals: they count however it was started.
    pub fn catch_for_service() -> io::Result<Interrupts> {
        Interrupts::begin(|_| true)
    }

    fn begin(counts: impl Fn(&libc::sigaction) -> bool) -> io::Result<Interrupts> {
        HANGUPS.store(0, Ordering::Relaxed);
        COUNT.store(0, Ordering::Relaxed);
        TO_FORWARD.store(0, Ordering::Relaxed);
        let mut caught = Interrupts { before: Vec::new() };
        for signal in CAUGHT {
            let before = action(signal, None)?;
            if !counts(&before) {
                continue;
            }
            // SAFETY: an all-zero sigaction is valid: default action, empty mask, no flags.
            let mut ours: libc::sigaction = unsafe { std::mem::zeroed() };
            ours.sa_sigaction = count as *const () as usize;
            ours.sa_flags = libc::SA_SIGINFO;
            action(signal, Some(&ours))?;
            caught.before.push((signal, before));
        }
        Ok(caught)
    }

    /// How many have come.
    pub fn count(&self) -> u32 {
        COUNT.load(Ordering::Relaxed)
    }

    /// How many of them were SIGHUP, by which services are told to read their configuration again.
    pub fn hangups(&self) -> u32 {
        HANGUPS.load(Ordering::Relaxed)
    }

    /// The last one that came, 0 if none has.
    pub fn last(&self) -> i32 {
        LAST.load(Ordering::Relaxed)
    }

    /// A signal that somebody sent to this process alone, to be passed on to the child; each is given once. What the
    /// terminal sends reaches the child by itself.
    pub fn to_forward(&self) -> Option<i32> {
        Some(TO_FORWARD.swap(0, Ordering::Relaxed)).filter(|&signal| signal != 0)
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        for (signal, before) in &self.before {
            // Restoring an action that the kernel gave us does not fail.
            let _ = action(*signal, Some(before));
        }
    }
}

/// Gives the action for a signal, after setting a new one if there is one.
fn action(signal: i32, new: Option<&libc::sigaction>) -> io::Result<libc::sigaction> {
    // SAFETY: as in `catch`.
    let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
    let new = new.map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: both pointers are null or valid sigactions for the time of the call; the handler `count` only touches
    // atomics, which is async-signal-safe.
    match unsafe { libc::sigaction(signal, new, &mut before) } {
        0 => Ok(before),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sends a signal to a child that has not been waited for.
pub fn signal_child(child: &std::process::Child, signal: i32) -> io::Result<()> {
    // SAFETY: kill has no memory effects; the child has not been reaped, so the id is still its own.
    match unsafe { libc::kill(child.id() as libc::pid_t, signal) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_counted_and_forwarded_once() {
        // SAFETY: no handler. Where the tests run without a terminal the signal may be ignored, and stay so.
        unsafe { libc::signal(libc::SIGHUP, libc::SIG_DFL) };
        let caught = Interrupts::catch().unwrap();
        assert_eq!((caught.count(), caught.to_forward()), (0, None));
        assert!(!overdue(Duration::ZERO));
        // SAFETY: raising a signal whose handler only touches atomics.
        unsafe { libc::raise(libc::SIGHUP) };
        assert_eq!((caught.count(), caught.hangups(), caught.last()), (1, 1, libc::SIGHUP));
        assert_eq!(caught.to_forward(), Some(libc::SIGHUP));
        assert_eq!(caught.to_forward(), None);
        let hour = Duration::from_secs(3600);
        assert!(overdue(Duration::ZERO) && !overdue(hour));
        // SAFETY: as above.
        unsafe { libc::raise(libc::SIGHUP) };
        assert!(overdue(hour));
    }
}
