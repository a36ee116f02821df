//! What the policy, or a plan, asked for: noted, carried out, settled.

use super::{Session, SessionError, PAGE};
use crate::executor::{Asked, Settled};
use crate::journal::{Line, Place};
use crate::plan::{Due, PLANNED};
use homing_core::action::{Action, Kind, Outcome};
use homing_core::engine::Executor;
use homing_core::ids::{Page, Time};
use homing_linux::proc::maps;
use homing_linux::proc::Pid;
use homing_linux::ptrace::standstill::Standstill;
use std::time::Instant;

impl Session<'_> {
    /// Orders what the plan has for now. What is not there yet waits: this run may be slower than the other.
    pub(super) fn follow_plan(&mut self, t: u64) {
        let mut waits = Vec::new();
        for due in self.plan.take(t) {
            match self.planned_page(&due, t) {
                Some(page) => {
                    let kind = Kind::Move { to: due.to };
                    self.engine.executor_mut().execute(&Action { page, kind, reason: PLANNED });
                }
                None => waits.push(due),
            }
        }
        self.plan.put_back(waits);
    }

    /// The page of a planned move, if its region is there and the page is somewhere.
    fn planned_page(&mut self, due: &Due, t: u64) -> Option<Page> {
        let (&pid, view) = self.views.iter().find(|(_, view)| view.number == due.place.process)?;
        let region = view.regions.iter().find(|region| region.name == due.place.region)?;
        let address = region.start.checked_add(due.place.offset).filter(|&address| address < region.end)?;
        let class = maps::find(&self.targets.processes().get(&pid)?.maps, address)?.class();
        let kernel = self.engine.executor_mut();
        let page = kernel.pages_mut().number(pid, address, due.place.bytes, class);
        if kernel.pages().entry(page).at.is_none() && !kernel.locate(&[page], t).is_empty() {
            kernel.forget(page);
            return None;
        }
        Some(page)
    }

    /// Moves of the plan that are left.
    pub fn planned(&self) -> usize {
        self.plan.len()
    }

    /// Writes down what the policy asked for.
    pub(super) fn note_asked(&mut self, t: u64) -> Result<(), SessionError> {
        for asked in self.engine.executor_mut().take_asked() {
            match asked.outcome {
                Outcome::Refused(why) => *self.account.refused.entry(why).or_default() += 1,
                Outcome::Pending => self.news.moves(),
                Outcome::Done if self.config.dry_run && matches!(asked.action.kind, Kind::Move { .. }) => {
                    self.would_move += 1;
                    self.news.moves();
                }
                _ => {}
            }
            if self.journal.is_some() {
                let line = self.action_line(&asked, t);
                self.put(&line)?;
            }
        }
        Ok(())
    }

    fn action_line(&self, asked: &Asked, t: u64) -> Line {
        let Action { page, kind, reason } = asked.action;
        let pages = self.kernel().pages();
        let entry = pages.alive(page).then(|| pages.entry(page));
        let place = entry.and_then(|entry| {
            let (process, region) = self.region(entry.pid, entry.address)?;
            let offset = entry.address.wrapping_sub(region.start);
            Some(Place { process, region: region.name.clone(), offset, bytes: entry.bytes })
        });
        Line::Action {
            t,
            page: page.0,
            action: kind,
            from: asked.from.map(|node| node.0),
            reason: reason.to_owned(),
            profile: entry.map(|entry| entry.seen.clone()).unwrap_or_default(),
            place: place.unwrap_or_default(),
            outcome: asked.outcome.into(),
        }
    }

    /// Accounts for what was moved, and has what waits moved, within the rate limit and the time budget.
    pub(super) fn carry_out(&mut self) -> Result<(), SessionError> {
        self.settle_all()?;
        let since = std::mem::replace(&mut self.flushed, Instant::now());
        let rate = |limit: u64| (limit as f64 * since.elapsed().as_secs_f64()) as u64;
        let bytes =
            if self.config.rate_limit == 0 { u64::MAX } else { rate(self.config.rate_limit).max(PAGE) };
        let begin = Instant::now();
        let until = Some(begin + self.config.time_for_moves());
        if !self.config.stop_world {
            self.engine.executor_mut().send(bytes, until);
            return Ok(());
        }
        if self.kernel().waiting() == 0 {
            return Ok(());
        }
        let held = self.hold()?;
        self.engine.executor_mut().send(bytes, until);
        self.engine.executor_mut().rest();
        if held.count().held > 0 {
            self.account.stopped_us += begin.elapsed().as_micros() as u64;
        }
        drop(held);
        self.settle_all()
    }

    /// Accounts for what was moved.
    pub(super) fn settle_all(&mut self) -> Result<(), SessionError> {
        self.account.moving_us = self.kernel().moving().0.as_micros() as u64;
        let settled = self.engine.executor_mut().settled();
        if settled.is_empty() {
            return Ok(());
        }
        let t = self.now();
        settled.iter().try_for_each(|settled| self.settle(settled, t))?;
        self.journal.as_mut().map_or(Ok(()), |journal| journal.flush().map_err(SessionError::Journal))
    }

    fn hold(&self) -> Result<Standstill, SessionError> {
        let ours = self.targets.processes().iter().filter(|(_, process)| process.ours);
        let pids: Vec<Pid> = ours.map(|(&pid, _)| pid).collect();
        // A process that cannot be held is moved while it runs: slower for it, never wrong.
        Standstill::of(self.targets.proc(), &pids).map_err(SessionError::Threads)
    }

    fn settle(&mut self, settled: &Settled, t: u64) -> Result<(), SessionError> {
        let Settled { action, outcome, gone, .. } = settled;
        self.account.settled(settled);
        if *gone {
            // Nothing is known of it any more.
            return Ok(());
        }
        self.put(&Line::Result { t, page: action.page.0, action: action.kind, outcome: (*outcome).into() })?;
        self.engine.settle(action, *outcome, Time(t));
        self.note_asked(t)
    }
}
