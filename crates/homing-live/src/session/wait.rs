//! Waiting for the next step. The engine sleeps until then; it is woken by the end of a process, by a ring that fills
//! up, by the source's own dates, and by signals.

use super::{Session, SessionError};
use homing_linux::proc::Pid;
use homing_linux::wait::readable;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// The longest sleep: a signal that comes just before one is noticed then.
const NAP: Duration = Duration::from_millis(250);

/// Accesses whose pages are located together.
const AT_ONCE: usize = 2048;

/// Accesses that are kept for the next step; more are not asked for before that.
const KEPT: usize = 1 << 20;

impl Session<'_> {
    /// Waits until `until`, or until something happens: a process ends, or a signal comes. May return earlier.
    ///
    /// # Errors
    /// If the source fails.
    pub fn wait(&mut self, until: Instant) -> Result<(), SessionError> {
        let now = Instant::now();
        let due = self.source.due().map_or(until, |due| due.min(until));
        let due = if self.behind() { now } else { due };
        let limit = due.saturating_duration_since(now).min(NAP);
        let pids: Vec<Pid> = self.ends.keys().copied().collect();
        let mut descriptors: Vec<BorrowedFd<'_>> = self.ends.values().map(|end| end.as_fd()).collect();
        if !self.full() {
            descriptors.extend(self.source.wakers());
        }
        let ready = readable(&descriptors, limit).unwrap_or_else(|_| {
            // Out of memory or descriptors: a plain sleep is as good.
            std::thread::sleep(limit);
            Vec::new()
        });
        drop(descriptors);
        self.phases.lap("wait");
        for &place in &ready {
            match pids.get(place) {
                Some(pid) => {
                    // It stays readable for ever.
                    self.ends.remove(pid);
                    self.pace.at_once();
                }
                None => self.take_accesses(),
            }
        }
        self.let_source_work()
    }

    /// Lets the source do what is due.
    pub(super) fn let_source_work(&mut self) -> Result<(), SessionError> {
        if self.source.due().is_some_and(|due| due <= Instant::now()) {
            let fail = |error| SessionError::Source { name: self.entry.name, error };
            self.source.work(&self.targets, self.behind()).map_err(fail)?;
            self.phases.lap("scan");
        }
        Ok(())
    }

    /// Takes what the source saw, unless too much of it waits already: then the rings fill, and count what they lose.
    pub(super) fn take_accesses(&mut self) {
        if !self.full() {
            self.source.poll(&self.targets, &self.host, &mut self.accesses);
            self.phases.lap("take");
        }
    }

    fn full(&self) -> bool {
        self.accesses.len() - self.heard >= KEPT
    }

    /// True if accesses wait that the last step had no time for.
    pub fn behind(&self) -> bool {
        self.heard > 0
    }

    /// Hears accesses, for as long as an interval takes: what threads, processes and the source do meanwhile must not wait for long. The
    /// rest is heard in the next step.
    pub(super) fn hear_all(&mut self) -> Result<(), SessionError> {
        let begin = Instant::now();
        let accesses = std::mem::take(&mut self.accesses);
        for some in accesses[self.heard..].chunks(AT_ONCE) {
            self.hear(some)?;
            self.heard += some.len();
            if begin.elapsed() >= self.config.interval {
                break;
            }
        }
        self.accesses = accesses;
        if self.heard == self.accesses.len() {
            self.accesses.clear();
            self.heard = 0;
        } else if self.heard >= KEPT {
            self.accesses.drain(..self.heard);
            self.heard = 0;
        }
        Ok(())
    }
}
