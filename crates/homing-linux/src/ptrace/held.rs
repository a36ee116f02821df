//! A thread that stands still.
//!
//! No thread of a program is interrupted inside a system call: what it waits for there may come in parts, or be lost.
//! One that sleeps touches no memory and is left alone. One that runs is stopped by a signal that it takes outside of
//! the kernel only ([`crate::perf::kick`]).

use super::request::{self, Resume};
use super::stop::{self, Stop};
use crate::perf::kick::Kick;
use crate::proc::task::ThreadStatus;
use crate::proc::{Pid, Proc, Tid};
use std::io;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

/// How long a thread is given to stop. One that runs outside of the kernel takes a tenth of a millisecond; one that
/// waits for a CPU as long as that takes.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// What can be done with a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// It runs, or waits for a CPU, and takes this signal.
    Runs(i32),
    /// It runs, and takes no signal that could stop it unnoticed.
    Deaf,
    /// It waits in the kernel, or its process is stopped.
    Sleeps,
    /// It has ended.
    Ended,
}

/// Looks at a thread.
///
/// # Errors
/// If `/proc` cannot be read.
pub(super) fn look(proc: &Proc, pid: Pid, tid: Tid) -> io::Result<Found> {
    let state = match proc.stat(pid, tid) {
        Ok(stat) => stat.state,
        Err(error) if error.is_gone() => return Ok(Found::Ended),
        Err(error) => return Err(super::to_io(error)),
    };
    match state {
        'R' => {}
        'Z' | 'X' => return Ok(Found::Ended),
        _ => return Ok(Found::Sleeps),
    }
    match proc.thread_status(pid, tid) {
        Ok(status) => Ok(unnoticed(&status).map_or(Found::Deaf, Found::Runs)),
        Err(error) if error.is_gone() => Ok(Found::Ended),
        Err(error) => Err(super::to_io(error)),
    }
}

/// A signal that a thread takes, and of which its program notices nothing even if its tracer is killed before it takes
/// the signal back: one that is ignored by default and has no handler. Where a program has handlers for all signals, as
/// those in Go, the last real-time signal: two of them are never made one, and the handler stays unused otherwise.
fn unnoticed(status: &ThreadStatus) -> Option<i32> {
    let is_in = |mask: u64, signal: i32| mask >> (signal - 1) & 1 == 1;
    let taken = |signal: &i32| !is_in(status.blocked, *signal);
    let ignored = [libc::SIGURG, libc::SIGWINCH].into_iter().filter(|signal| !is_in(status.caught, *signal));
    let last = Some(libc::SIGRTMAX()).filter(|signal| is_in(status.caught, *signal));
    ignored.chain(last).find(taken)
}

/// A thread that stands still until this is dropped. Signals that come meanwhile stay pending in the kernel, each with
/// its siginfo, and are delivered when it runs on.
#[derive(Debug)]
pub struct Held {
    tid: Tid,
    /// What makes it stop, until it has.
    kick: Option<Kick>,
    /// It has not stopped in time. The kernel lets it go when the calling thread ends.
    runs: bool,
    /// Requests must come from the thread that seized it, so this must not go to another one.
    _here: PhantomData<*const ()>,
}

impl Held {
    /// Stops a thread of a program that runs outside of the kernel.
    ///
    /// # Errors
    /// EAGAIN if it sleeps, or takes no signal that could stop it; EPERM or EACCES if it may not be traced, or somebody
    /// else traces it; ESRCH if it has ended; TimedOut if it has not left the kernel by the deadline. The last one
    /// stays traced until the calling thread ends.
    pub fn hold(proc: &Proc, pid: Pid, tid: Tid, deadline: Instant) -> io::Result<Held> {
        let signal = match look(proc, pid, tid)? {
            Found::Runs(signal) => signal,
            Found::Ended => return Err(io::Error::from_raw_os_error(libc::ESRCH)),
            Found::Sleeps | Found::Deaf => return Err(io::Error::from_raw_os_error(libc::EAGAIN)),
        };
        let mut held = Held::ask(tid, Kick::of(tid, signal)?)?;
        held.settle(deadline)?;
        Ok(held)
    }

    /// Stops a helper of ours, whatever it waits in: it expects that.
    ///
    /// # Errors
    /// As for [`Held::hold`], but not EAGAIN.
    pub fn interrupt(tid: Tid) -> io::Result<Held> {
        request::seize(tid)?;
        let mut held = Held { tid, kick: None, runs: false, _here: PhantomData };
        request::interrupt(tid)?;
        held.settle(Instant::now() + PATIENCE)?;
        Ok(held)
    }

    /// Asks a thread to stop, with a signal that [`look`] gave.
    pub(super) fn ask(tid: Tid, kick: Kick) -> io::Result<Held> {
        request::seize(tid)?;
        let held = Held { tid, kick: Some(kick), runs: true, _here: PhantomData };
        held.kick.as_ref().map_or(Ok(()), Kick::send)?;
        Ok(held)
    }

    /// Waits until a thread that was asked to stop has done so. A signal that it took before is delivered on the way:
    /// its handler is set up, and the thread stops at its first instruction.
    pub(super) fn settle(&mut self, deadline: Instant) -> io::Result<()> {
        self.runs = false;
        let stands = self.wait(deadline);
        match &stands {
            Err(error) if error.kind() == io::ErrorKind::TimedOut => self.runs = true,
            _ => self.kick = None,
        }
        stands
    }

    /// Waits until a thread stands again that was resumed and interrupted.
    pub(super) fn wait(&self, deadline: Instant) -> io::Result<()> {
        loop {
            let signal = match stop::wait(self.tid, deadline)? {
                Stop::Event => return Ok(()),
                Stop::Signal(signal) if !self.was_kicked()? => signal,
                Stop::Signal(_) | Stop::SystemCall => 0,
            };
            // Any stop takes the place of the one that was asked for.
            request::interrupt(self.tid)?;
            request::resume(self.tid, Resume::Run, signal)?;
        }
    }

    /// True if the signal that the thread is about to take is ours.
    fn was_kicked(&self) -> io::Result<bool> {
        let Some(kick) = &self.kick else { return Ok(false) };
        Ok(kick.is(&request::signal_info(self.tid)?))
    }

    /// The thread.
    pub fn tid(&self) -> Tid {
        self.tid
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.runs {
            let_go(self.tid);
        }
    }
}

/// Lets a tracee of this thread go, also one that has ended: the process that it was in can execute no other program,
/// and nobody can begin to trace its threads, before that. Async-signal-safe.
pub(super) fn let_go(tid: Tid) {
    if request::detach(tid).is_ok() || stop::is_first(tid) {
        // The end of a first thread is the end of its process, which is reported to its parent alone.
        return;
    }
    stop::reap(tid);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_stopped_by_signals_that_nobody_notices() {
        let bit = |signal: i32| 1u64 << (signal - 1);
        let (urgent, window, last) = (libc::SIGURG, libc::SIGWINCH, libc::SIGRTMAX());
        let chosen =
            |blocked, caught| unnoticed(&ThreadStatus { blocked, caught, seccomp: false, filters: None });
        assert_eq!(chosen(0, 0), Some(urgent));
        assert_eq!(chosen(0, bit(urgent)), Some(window), "its handler would run");
        assert_eq!(chosen(bit(urgent), bit(window)), None, "the last one would end the program");
        assert_eq!(chosen(0, u64::MAX), Some(last));
        assert_eq!(chosen(bit(last), u64::MAX), None);
        assert_eq!(chosen(u64::MAX, 0), None);
    }
}
