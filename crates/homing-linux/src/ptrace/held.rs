//! A thread that stands still.

use super::request::{self, Resume};
use super::stop::{self, Stop};
use crate::proc::Tid;
use std::io;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

/// How long a thread is given to stop. One that runs, or waits in a call that can be interrupted, takes microseconds.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// A thread that stands still until this is dropped. Signals that come meanwhile stay pending in the kernel, each with
/// its siginfo, and are delivered when it runs on.
#[derive(Debug)]
pub struct Held {
    tid: Tid,
    /// Requests must come from the thread that seized it, so this must not go to another one.
    _here: PhantomData<*const ()>,
}

impl Held {
    /// Stops a thread.
    ///
    /// # Errors
    /// EPERM if it may not be traced, or somebody else traces it; ESRCH if it has ended; TimedOut if it waits for
    /// something that cannot be interrupted. The last one stays traced, and stops for a moment at the end of its wait,
    /// until the calling thread ends.
    pub fn hold(tid: Tid) -> io::Result<Held> {
        let held = Held::ask(tid)?;
        held.settle(Instant::now() + PATIENCE)?;
        Ok(held)
    }

    /// Asks a thread to stop, which it does when it next runs.
    pub(super) fn ask(tid: Tid) -> io::Result<Held> {
        request::seize(tid)?;
        let held = Held { tid, _here: PhantomData };
        request::interrupt(tid)?;
        Ok(held)
    }

    /// Waits until a thread that was asked to stop has done so. A signal that it took before is delivered on the way:
    /// its handler is set up, and the thread stops at its first instruction.
    pub(super) fn settle(&self, deadline: Instant) -> io::Result<()> {
        loop {
            let signal = match stop::wait(self.tid, deadline)? {
                Stop::Event => break,
                Stop::Signal(signal) => signal,
                Stop::SystemCall => 0,
            };
            // Any stop takes the place of the one that was asked for.
            request::interrupt(self.tid)?;
            request::resume(self.tid, Resume::Run, signal)?;
        }
        #[cfg(target_arch = "x86_64")]
        super::interrupted::restart(self.tid)?;
        Ok(())
    }

    /// The thread.
    pub fn tid(&self) -> Tid {
        self.tid
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let_go(self.tid);
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
