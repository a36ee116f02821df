//! SIGURG for a thread, sent so that no system call of the program ends early.
//!
//! A signal that is set pending wakes a thread that sleeps in a call, and ends a call that is under way. Nobody outside
//! can see in time whether a thread is about to enter the kernel. There are two ways that avoid it.
//!
//! * A timer of the thread's CPU time ([`Timers`]). The tick that finds it expired adds work for the thread, which the
//!   kernel does on the thread's way to user mode (`CONFIG_POSIX_CPU_TIMERS_TASK_WORK`, which x86-64 selects: read in
//!   the source of Linux 6.18, and tried there). That wakes no call (`TWA_RESUME`). The work sends the signal, to the
//!   thread itself, once its call is over. It takes a tick in which the thread runs: 4 ms at 250 Hz.
//! * A signal at once ([`at_once`]), where the kernel stops the thread's calls and the thread has been outside of all
//!   calls since then.

use super::{stub, Refusal};
use crate::fail::{self, Call};
use std::io;

/// `CPUCLOCK_SCHED | CPUCLOCK_PERTHREAD_MASK`: the time that a thread was on a CPU, in nanoseconds.
const TIME_OF_THREAD: i32 = 2 | 4;

/// Timers of the threads of this process, one each at most.
#[derive(Debug)]
pub struct Timers {
    /// Threads, and the kernel's numbers of their timers. It has room for all: nothing is allocated later.
    all: Vec<(i32, i32)>,
    /// Whose timers these are: a child after fork has none.
    process: u32,
}

impl Timers {
    /// No timers, with room for those of `most` threads.
    pub fn new(most: usize) -> Timers {
        Timers { all: Vec::with_capacity(most), process: std::process::id() }
    }

    /// Has SIGURG sent to a thread once, as soon as a tick has found it on a CPU and it is outside of all calls. For
    /// one that sleeps that is after it has woken up by itself. A thread that has ended is no error.
    ///
    /// # Errors
    /// [`Refusal::Timer`] if the kernel gives no timer (RLIMIT_SIGPENDING); [`Refusal::Threads`] without room.
    pub fn arm(&mut self, tid: i32) -> Result<(), Refusal> {
        if let Some(place) = self.all.iter().position(|(thread, _)| *thread == tid) {
            if start(self.all[place].1).is_ok() {
                return Ok(());
            }
            // It was another thread's of the same number.
            delete(self.all.swap_remove(place).1);
        }
        if self.all.len() == self.all.capacity() {
            return Err(Refusal::Threads);
        }
        let refused = |error: io::Error| Refusal::Timer(error.raw_os_error().unwrap_or_default());
        match fail::point(Call::Timer).and_then(|()| create(tid)) {
            Ok(timer) => {
                self.all.push((tid, timer));
                // The thread may have ended meanwhile.
                let _ = start(timer);
                Ok(())
            }
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
            Err(error) => Err(refused(error)),
        }
    }

    /// Deletes the timers of threads that are not among these.
    pub fn retain(&mut self, threads: &[i32]) {
        self.all.retain(|(thread, timer)| {
            let stays = threads.contains(thread);
            if !stays {
                delete(*timer);
            }
            stays
        });
    }
}

impl Drop for Timers {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            self.retain(&[]);
        }
    }
}

/// The kernel's number of a new timer, which is not started.
fn create(tid: i32) -> io::Result<i32> {
    // SAFETY: plain old data.
    let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
    event.sigev_notify = libc::SIGEV_THREAD_ID;
    event.sigev_signo = libc::SIGURG;
    event.sigev_notify_thread_id = tid;
    let (clock, mut timer) = (!tid << 3 | TIME_OF_THREAD, 0i32);
    // SAFETY: the kernel reads the first structure and fills the number.
    match unsafe { libc::syscall(libc::SYS_timer_create, clock, &raw const event, &raw mut timer) } {
        0 => Ok(timer),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Has a timer expire after the least time from now on. A time that is over already would send the signal at once.
fn start(timer: i32) -> io::Result<()> {
    let zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let time = libc::itimerspec { it_interval: zero, it_value: libc::timespec { tv_sec: 0, tv_nsec: 1 } };
    let none = std::ptr::null_mut::<libc::itimerspec>();
    // SAFETY: the kernel reads the structure.
    match unsafe { libc::syscall(libc::SYS_timer_settime, timer, 0, &raw const time, none) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn delete(timer: i32) {
    // SAFETY: a timer of this process that nobody else knows.
    unsafe { libc::syscall(libc::SYS_timer_delete, timer) };
}

/// Sends SIGURG to a thread that is outside of all calls, or to the calling one, which takes it before this returns.
pub fn at_once(tid: i32) {
    // SAFETY: a thread that has ended meanwhile is an error, which changes nothing.
    unsafe {
        let process = stub::call(libc::SYS_getpid, [0; 5]) as u64;
        stub::call(libc::SYS_tgkill, [process, tid as u64, libc::SIGURG as u64, 0, 0])
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Timers of this process for SIGURG. Other tests may have some, too, but for other threads.
    fn timers_of(tid: i32) -> usize {
        let text = std::fs::read_to_string("/proc/self/timers").unwrap_or_default();
        text.lines().filter(|line| *line == format!("notify: signal/tid.{tid}")).count()
    }

    #[test]
    fn each_thread_has_one_timer_and_none_is_left() {
        // SAFETY: asks for a number.
        let me = unsafe { libc::gettid() };
        let shown = std::path::Path::new("/proc/self/timers").exists();
        let mut timers = Timers::new(2);
        assert_eq!((timers.arm(me), timers.arm(me)), (Ok(()), Ok(())));
        assert_eq!((timers.all.len(), timers_of(me)), (1, usize::from(shown)));
        let other = std::thread::spawn(|| {
            // SAFETY: as above.
            unsafe { libc::gettid() }
        });
        let ended = other.join().unwrap();
        assert_eq!((timers.arm(ended), timers.all.len()), (Ok(()), 1), "a thread that has ended");
        timers.retain(&[me]);
        assert_eq!(timers.all.len(), 1);
        timers.retain(&[]);
        assert_eq!((timers.all.len(), timers_of(me)), (0, 0));
        assert_eq!(timers.arm(me), Ok(()));
        drop(timers);
        assert_eq!(timers_of(me), 0);
        assert_eq!(Timers::new(0).arm(me), Err(Refusal::Threads));
    }
}
