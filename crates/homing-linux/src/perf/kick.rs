//! A signal that a thread takes outside of the kernel only.
//!
//! Whatever sets a signal pending (`tgkill(2)`, `PTRACE_INTERRUPT`, the freezer of cgroups) wakes a thread that waits
//! in a system call. The call then ends early: `write(2)` returns the part that it has written, `epoll_wait(2)` EINTR,
//! even if no handler runs. Nobody outside can see in time whether a thread is about to enter the kernel. So the kernel
//! sends the signal itself: a timer of perf that counts while the thread runs, and takes notice in user mode alone
//! (`exclude_kernel`), sends it from the very interrupt that finds the thread there. The thread takes it before its
//! next instruction. One that sleeps is left alone, and takes it soon after it is back.

use super::{descriptor, Event, Watch};
use crate::proc::Tid;
use perf_event_open_sys::{bindings, ioctls};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Between two looks of the timer, in nanoseconds of CPU time. The kernel has 10 us at least.
const PERIOD: u64 = 50_000;

/// `fcntl(2)`: which signal, and to whom.
const F_SETSIG: libc::c_int = 10;
const F_SETOWN_EX: libc::c_int = 15;

/// `struct f_owner_ex` of fcntl(2).
#[repr(C)]
struct Owner {
    kind: libc::c_int,
    pid: libc::pid_t,
}
/// `F_OWNER_TID`: one thread.
const THREAD: libc::c_int = 0;

/// `siginfo_t` of such a signal: fields of sigaction(2).
#[repr(C)]
struct Info {
    signal: libc::c_int,
    errno: libc::c_int,
    code: libc::c_int,
    band: libc::c_long,
    file: libc::c_int,
}

/// A signal for one thread. Dropping it takes back what was not sent.
#[derive(Debug)]
pub struct Kick {
    event: OwnedFd,
    signal: i32,
}

impl Kick {
    /// Sets one up. Nothing is sent yet.
    ///
    /// # Errors
    /// EACCES and EPERM without the right (`perf_event_paranoid`, ptrace access to the thread), ESRCH if the thread has
    /// ended, EMFILE, ENOSYS where the kernel has no perf events.
    pub fn of(tid: Tid, signal: i32) -> io::Result<Kick> {
        let mut attributes = bindings::perf_event_attr {
            type_: Event::CPU_CLOCK.kind,
            size: size_of::<bindings::perf_event_attr>() as u32,
            config: Event::CPU_CLOCK.config,
            ..Default::default()
        };
        attributes.__bindgen_anon_1.sample_period = PERIOD;
        attributes.__bindgen_anon_2.wakeup_events = 1;
        attributes.set_disabled(1);
        attributes.set_exclude_kernel(1);
        attributes.set_exclude_hv(1);
        let event = descriptor(&mut attributes, Watch::Thread(tid))?;
        let owner = Owner { kind: THREAD, pid: tid.0 };
        let file = event.as_raw_fd();
        // SAFETY: numbers, and a structure that the kernel reads meanwhile.
        let done = unsafe {
            libc::fcntl(file, F_SETSIG, signal) == 0
                && libc::fcntl(file, F_SETOWN_EX, &raw const owner) == 0
                && libc::fcntl(file, libc::F_SETFL, libc::O_ASYNC) == 0
        };
        if done {
            Ok(Kick { event, signal })
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Has it sent as soon as the thread is found outside of the kernel, and again as long as it runs on there.
    ///
    /// # Errors
    /// Those of `ioctl(2)`.
    pub fn send(&self) -> io::Result<()> {
        // SAFETY: a request without arguments.
        match unsafe { ioctls::ENABLE(self.event.as_raw_fd(), 0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// True if a signal is this one, and not one of the program's own.
    pub fn is(&self, info: &libc::siginfo_t) -> bool {
        const POLL_IN: i32 = 1;
        const { assert!(size_of::<Info>() <= size_of::<libc::siginfo_t>()) };
        // SAFETY: plain old data of that size at least. The last fields mean something for this code alone, and any
        // bytes are a value of theirs.
        let info = unsafe { &*std::ptr::from_ref(info).cast::<Info>() };
        (info.signal, info.code, info.file) == (self.signal, POLL_IN, self.event.as_raw_fd())
    }
}
