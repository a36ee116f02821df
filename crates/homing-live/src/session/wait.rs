//! Waiting for the next step. The engine sleeps until then; it is woken by the end of a process, by a ring that fills
//! up, by the source's own dates, and by signals.

use super::{Session, SessionError};
use homing_linux::proc::Pid;
use homing_linux::wait::readable;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// The longest sleep: a signal that comes just before one is noticed then.
const NAP: Duration = Duration::from_millis(250);

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
        let limit = due.saturating_duration_since(now).min(NAP);
        let pids: Vec<Pid> = self.ends.keys().copied().collect();
        let mut descriptors: Vec<BorrowedFd<'_>> = self.ends.values().map(|end| end.as_fd()).collect();
        if self.accesses.len() < KEPT {
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
        if self.source.due().is_some_and(|due| due <= Instant::now()) {
            let fail = |error| SessionError::Source { name: self.entry.name, error };
            self.source.work(&self.targets).map_err(fail)?;
            self.phases.lap("scan");
        }
        Ok(())
    }

    /// Takes what the source saw.
    pub(super) fn take_accesses(&mut self) {
        self.source.poll(&self.targets, &self.host, &mut self.accesses);
        self.phases.lap("take");
    }
}
