//! Waiting for the next step. The engine sleeps until then; it is woken by the end of a process, by a ring that fills
//! up, by scans that are due, by the source's own dates, and by signals.

use super::{Session, SessionError};
use homing_linux::clock;
use homing_linux::policy::Preferred;
use homing_linux::proc::Pid;
use homing_linux::wait::readable;
use homing_session::input::{Input, Noticed};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// The longest sleep: a signal that comes just before one is noticed then.
const NAP: Duration = Duration::from_millis(250);

/// How often a scan that is due, and cannot begin, is tried.
const ASK: Duration = Duration::from_millis(12);

/// Accesses that are handed to the session together.
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
        let dates = [self.source.due(), self.scan_due()];
        let due = dates.into_iter().flatten().min().map_or(until, |due| due.min(until));
        let due = if self.behind() { now } else { due };
        let limit = due.saturating_duration_since(now).min(NAP);
        let pids: Vec<Pid> = self.ends.keys().copied().collect();
        let mut descriptors: Vec<BorrowedFd<'_>> = self.ends.values().map(|end| end.as_fd()).collect();
        if !self.full() {
            descriptors.extend(self.source.wakers());
        }
        descriptors.extend(self.waker.as_ref().map(|waker| waker.as_fd()));
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
                    self.feed(Input::Noticed(Noticed::ProcessEnded))?;
                }
                None => self.take_accesses(),
            }
        }
        if self.scan_due().is_some_and(|due| due <= Instant::now()) {
            self.tick()?;
        }
        self.let_source_work()
    }

    /// When the next scan is due, by the clock of waiting.
    fn scan_due(&self) -> Option<Instant> {
        let since_begin = Duration::from_micros(self.pure.due()?.0);
        let left = (self.begin + since_begin).saturating_sub(clock::monotonic());
        Some((Instant::now() + left).max(self.ticked + ASK))
    }

    /// Has the session do what is due.
    pub(super) fn tick(&mut self) -> Result<(), SessionError> {
        self.ticked = Instant::now();
        let (behind, scannable) = (self.behind(), self.source.scannable());
        self.feed(Input::Tick { behind, scannable })
    }

    /// Lets the source do what is due.
    pub(super) fn let_source_work(&mut self) -> Result<(), SessionError> {
        if self.source.due().is_some_and(|due| due <= Instant::now()) {
            let fail = |error| SessionError::Source { name: self.entry.name, error };
            let scanned = self.source.work(&self.targets, self.begin).map_err(fail)?;
            self.phases.lap("scan");
            if let Some(scanned) = scanned {
                self.feed(Input::Scanned(scanned))?;
            }
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
        self.accesses.len() - self.processed >= KEPT
    }

    /// True if accesses wait that the last step had no time for.
    pub fn behind(&self) -> bool {
        self.processed > 0
    }

    /// Hands accesses to the session, for as long as an interval takes: what threads, processes and the source do
    /// meanwhile must not wait for long. The rest waits for the next step. What is known to belong elsewhere does not
    /// wait for the rest.
    pub(super) fn process_accesses(&mut self) -> Result<(), SessionError> {
        let begin = Instant::now();
        // Where all CPUs are busy it would have a small part of one, and pages would come home late.
        let _preferred = (self.accesses.len() - self.processed > AT_ONCE).then(Preferred::begin);
        while self.processed < self.accesses.len() {
            let end = self.accesses.len().min(self.processed + AT_ONCE);
            let some = self.accesses[self.processed..end].to_vec();
            self.processed = end;
            self.feed(Input::Accesses(some))?;
            self.settle()?;
            if self.movers.queue_empty() {
                self.feed(Input::MoversIdle)?;
            }
            if begin.elapsed() >= self.config.interval {
                break;
            }
        }
        if self.processed == self.accesses.len() {
            self.accesses.clear();
            self.processed = 0;
        } else if self.processed >= KEPT {
            self.accesses.drain(..self.processed);
            self.processed = 0;
        }
        Ok(())
    }
}
