//! Lets the running threads of this process stand still for the some 30 ms in which its scanning helper marks pages:
//! each takes a signal, whose handler waits.
//!
//! The signal is SIGURG, as for the preemption of Go programs: nobody is harmed by one too many, and where there is no
//! handler (after exec) it is ignored. Threads that sleep take no ticks and are left alone. The others take it outside
//! of the kernel ([`crate::perf::kick`]), so that no call is interrupted.

use crate::perf::kick::Kick;
use crate::proc::{Pid, Proc, Tid};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

const SIGNAL: i32 = libc::SIGURG;
/// Longest wait for the threads to arrive. One that waits for a CPU takes no tick either.
const ARRIVE: Duration = Duration::from_millis(40);
/// A thread waits for the manager so long at most, in naps: it goes on by itself if the manager hangs.
const NAPS: u32 = 50;
static NAP: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// The number of the present stand; 0 if there is none.
static STAND: AtomicU32 = AtomicU32::new(0);
/// Threads that wait, or have waited, in it.
static ARRIVED: AtomicU32 = AtomicU32::new(0);
/// The handler is there.
static READY: AtomicBool = AtomicBool::new(false);

fn futex(operation: i32, value: u32, timeout: *const libc::timespec) {
    // SAFETY: waits on a word that is always there, or wakes who waits. What it gives does not matter: all look again.
    unsafe {
        libc::syscall(libc::SYS_futex, STAND.as_ptr(), operation | libc::FUTEX_PRIVATE_FLAG, value, timeout)
    };
}

/// Waits until the stand is over. Does nothing that is not safe in a handler of signals.
pub(crate) extern "C" fn stand(_: i32) {
    // SAFETY: the calling thread's own.
    let errno = unsafe { *libc::__errno_location() };
    let present = STAND.load(Ordering::Acquire);
    if present != 0 {
        ARRIVED.fetch_add(1, Ordering::AcqRel);
        for _ in 0..NAPS {
            if STAND.load(Ordering::Acquire) != present {
                break;
            }
            futex(libc::FUTEX_WAIT, present, &raw const NAP);
        }
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// Installs the handler, unless the program has one of its own. It stays, also without a session: a signal may be on
/// its way.
fn prepare() -> io::Result<()> {
    if READY.load(Ordering::Acquire) {
        return Ok(());
    }
    // SAFETY: plain old data; the call fills the second, the handler is safe for signals.
    unsafe {
        let (mut ours, mut before): (libc::sigaction, libc::sigaction) =
            (std::mem::zeroed(), std::mem::zeroed());
        if libc::sigaction(SIGNAL, std::ptr::null(), &raw mut before) != 0 {
            return Err(io::Error::last_os_error());
        }
        #[cfg(target_arch = "x86_64")]
        if crate::protect::urge_is_ours() {
            // It serves stands, too.
            READY.store(true, Ordering::Release);
            return Ok(());
        }
        if ![libc::SIG_DFL, libc::SIG_IGN].contains(&before.sa_sigaction) {
            return Err(io::Error::other("the program has a handler of its own for SIGURG"));
        }
        ours.sa_sigaction = stand as *const () as usize;
        ours.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
        if libc::sigaction(SIGNAL, &raw const ours, std::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    READY.store(true, Ordering::Release);
    Ok(())
}

/// Threads of this process that run, are not the caller, and take the signal.
#[derive(Debug)]
pub struct Threads(Vec<Kick>);

impl Threads {
    /// Finds them.
    ///
    /// # Errors
    /// If the program has a handler of its own for the signal, `/proc` cannot be read, or this user may have no perf
    /// events.
    pub fn running(proc: &Proc) -> io::Result<Threads> {
        prepare()?;
        let me = Pid(std::process::id() as i32);
        // SAFETY: asks for a number.
        let caller = Tid(unsafe { libc::gettid() });
        let tasks = proc.tasks(me).map_err(crate::ptrace::to_io)?;
        let takes = |tid: Tid| {
            proc.thread_status(me, tid).is_ok_and(|status| status.blocked >> (SIGNAL - 1) & 1 == 0)
        };
        let runs = |tid: &Tid| {
            *tid != caller && proc.stat(me, *tid).is_ok_and(|stat| stat.state == 'R') && takes(*tid)
        };
        let mut kicks = Vec::new();
        for tid in tasks.into_iter().filter(runs) {
            match Kick::of(tid, SIGNAL) {
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                kick => kicks.push(kick?),
            }
        }
        Ok(Threads(kicks))
    }

    /// Has them stand still. Allocates nothing, and nothing may be allocated while it lasts: one of them may hold the
    /// allocator's lock.
    pub fn stand(self) -> Stand {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed).wrapping_add(1).max(1);
        ARRIVED.store(0, Ordering::Release);
        STAND.store(number, Ordering::Release);
        let sent = self.0.iter().filter(|kick| kick.send().is_ok()).count() as u32;
        let begin = Instant::now();
        while ARRIVED.load(Ordering::Acquire) < sent && begin.elapsed() < ARRIVE {
            std::thread::sleep(Duration::from_micros(200));
        }
        // Those that wake up meanwhile stand still, too.
        Stand { late: sent.saturating_sub(ARRIVED.load(Ordering::Acquire)), kicks: self.0 }
    }
}

/// Threads stand still until this is dropped.
#[derive(Debug)]
pub struct Stand {
    late: u32,
    kicks: Vec<Kick>,
}

impl Stand {
    /// Threads that had not arrived in time.
    pub fn late(&self) -> u32 {
        self.late
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        // Before they go on; it frees no memory.
        self.kicks.clear();
        STAND.store(0, Ordering::Release);
        futex(libc::FUTEX_WAKE, i32::MAX as u32, std::ptr::null());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn running_threads_stand_still_and_go_on() {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        static OVER: AtomicBool = AtomicBool::new(false);
        let thread = std::thread::spawn(|| {
            while !OVER.load(Ordering::Relaxed) {
                COUNT.fetch_add(1, Ordering::Relaxed);
            }
        });
        while COUNT.load(Ordering::Relaxed) == 0 {}
        // Other tests' threads run beside it.
        let threads = loop {
            let threads = Threads::running(&Proc::default()).unwrap();
            if !threads.0.is_empty() {
                break threads;
            }
        };
        let stand = threads.stand();
        let arrived = stand.late() == 0;
        let before = COUNT.load(Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(20));
        let during = COUNT.load(Ordering::Relaxed);
        drop(stand);
        while COUNT.load(Ordering::Relaxed) == during {}
        OVER.store(true, Ordering::Relaxed);
        thread.join().unwrap();
        assert!(!arrived || before == during, "{before} {during}");
    }
}
