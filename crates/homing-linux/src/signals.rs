//! Signals that a thread does not take: those of a program belong to its own threads.

use std::io;
use std::mem::MaybeUninit;

/// All signals are blocked for the calling thread while this lives, and for the threads that it starts meanwhile.
#[derive(Debug)]
pub struct Blocked {
    before: libc::sigset_t,
    /// The mask is of the thread that made it.
    _stays: std::marker::PhantomData<*const ()>,
}

impl Blocked {
    /// Blocks them.
    ///
    /// # Errors
    /// What `pthread_sigmask(3)` gives.
    pub fn all() -> io::Result<Blocked> {
        let mut all = MaybeUninit::uninit();
        let mut before = MaybeUninit::uninit();
        // SAFETY: both sets are this function's own; the second is filled where the call succeeds.
        let error = unsafe {
            libc::sigfillset(all.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr())
        };
        match error {
            // SAFETY: filled by the call.
            0 => Ok(Blocked { before: unsafe { before.assume_init() }, _stays: std::marker::PhantomData }),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: the set is the one that the kernel gave.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks_term() -> bool {
        let mut now = MaybeUninit::uninit();
        // SAFETY: asks only.
        unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), now.as_mut_ptr());
            libc::sigismember(now.as_ptr(), libc::SIGTERM) == 1
        }
    }

    #[test]
    fn a_thread_that_is_started_meanwhile_takes_no_signals_and_its_parent_does_again() {
        let before = blocks_term();
        let blocked = Blocked::all().unwrap();
        assert!(std::thread::spawn(blocks_term).join().unwrap());
        drop(blocked);
        assert_eq!(blocks_term(), before);
    }
}
