//! What the policy, or a plan, asked for: recorded, handed out, settled.

use super::accesses::Then;
use super::input::Landed;
use super::orders::{Asked, Settled};
use super::output::{Decided, Output, Question, Settlement};
use super::plan::{Due, Place, PLANNED};
use super::{Session, HUGE, MANY, PAGE};
use homing_core::action::{Action, Kind, Outcome};
use homing_core::engine::Executor;
use homing_core::ids::{Micros, Page, Time};
use homing_core::process::ProcessId;

impl Session<'_> {
    /// Orders what the plan has for now. What is not there yet waits: this run may be slower than the other.
    pub(super) fn follow_plan(&mut self) {
        let due = self.plan.take(self.t);
        if due.is_empty() {
            return;
        }
        let questions = due.iter().filter_map(|due| {
            let (process, address) = self.planned_address(due)?;
            let known = self.planned_page(due).is_some();
            (!known).then_some(Question { process, address, maybe_huge: due.place.bytes == HUGE })
        });
        let questions = questions.collect();
        self.ask(questions, Then::Order(due));
    }

    /// Where the page of a planned move is in this run.
    fn planned_address(&self, due: &Due) -> Option<(ProcessId, u64)> {
        let (process, region) = self.processes.named(due.place.process, &due.place.region)?;
        let address = region.start.checked_add(due.place.offset).filter(|&address| address < region.end)?;
        Some((process, address))
    }

    /// Orders planned moves whose pages are somewhere; the others wait.
    pub(super) fn order_planned(&mut self, planned: Vec<Due>) {
        let mut wait = Vec::new();
        for due in planned {
            match self.planned_page(&due) {
                Some(page) => {
                    let kind = Kind::Move { to: due.to };
                    self.engine.executor_mut().execute(&Action { page, kind, reason: PLANNED });
                }
                None => wait.push(due),
            }
        }
        self.plan.put_back(wait);
        self.record_actions();
    }

    fn planned_page(&self, due: &Due) -> Option<Page> {
        let (process, address) = self.planned_address(due)?;
        let page = self.page_at(process, address)?;
        self.orders().pages().entry(page).at.map(|_| page)
    }

    /// Records what was asked for.
    pub(super) fn record_actions(&mut self) {
        let mut all = self.engine.executor_mut().take_asked();
        for asked in all.drain(..) {
            self.count_asked(asked.action.page, asked.action.kind, asked.outcome);
            match asked.outcome {
                Outcome::Refused(_) if asked.again => {}
                Outcome::Refused(why) => *self.account.refused.entry(why).or_default() += 1,
                Outcome::Pending => self.estimator.changes.page_moves(),
                Outcome::Done if self.settings.dry_run && matches!(asked.action.kind, Kind::Move { .. }) => {
                    self.account.would_move += 1;
                    self.estimator.changes.page_moves();
                }
                _ => {}
            }
            if self.record {
                let decided = self.decided(&asked);
                self.out.push(Output::Decided(decided));
            }
        }
        self.engine.executor_mut().take_room(all);
    }

    fn decided(&self, asked: &Asked) -> Decided {
        let Action { page, kind, reason } = asked.action;
        let pages = self.orders().pages();
        let entry = pages.alive(page).then(|| pages.entry(page));
        Decided {
            t: self.t,
            page: page.0,
            action: kind,
            from: asked.from.map(|node| node.0),
            reason: reason.into(),
            profile: entry.map(|entry| entry.seen.to_vec()).unwrap_or_default(),
            place: self.place(page).unwrap_or_default(),
            outcome: asked.outcome.into(),
        }
    }

    /// Where a page is, for people and for another run.
    pub(super) fn place(&self, page: Page) -> Option<Place> {
        let pages = self.orders().pages();
        let entry = pages.alive(page).then(|| pages.entry(page))?;
        let (process, region) = self.processes.region(entry.process, entry.address)?;
        let offset = entry.address.wrapping_sub(region.start);
        Some(Place { process, region: region.name.clone(), offset, bytes: entry.bytes })
    }

    /// The movers have nothing to begin with: hands them what waits, if that is much. A call costs much by itself, so
    /// less waits for the end of the interval.
    pub(super) fn movers_idle(&mut self) {
        if self.settings.rate_limit == 0 && self.orders().waiting() >= MANY {
            self.judge_gains();
            self.send_orders();
        }
    }

    /// Hands out what waits, within the rate limit and the time budget.
    pub(super) fn send_orders(&mut self) {
        let since = self.t.since(std::mem::replace(&mut self.sent, self.t));
        let bytes = match self.settings.rate_limit {
            0 => u64::MAX,
            limit => ((limit as f64 * since.seconds()) as u64).max(PAGE),
        };
        // What the movers cannot begin in time comes back, and costs as much as a move.
        let most = 2 * self.landed.max(MANY);
        self.landed = 0;
        let orders = self.engine.executor_mut().send(bytes, most);
        if self.orders().under_way() > 0 {
            let until = self.t.plus(self.settings.time_for_moves);
            self.out.push(Output::Move { orders, until });
        }
    }

    /// Takes what came of orders.
    pub(super) fn landed(&mut self, results: &[(u32, Landed)], moving: Micros, stopped: Micros) {
        self.account.moving = moving;
        self.account.stopped = self.account.stopped.plus(stopped);
        self.landed += results.iter().filter(|(_, landed)| *landed != Landed::Later).count();
        for &(tag, landed) in results {
            if let Some(settled) = self.engine.executor_mut().settle(tag, landed) {
                self.settle(&settled);
            }
        }
    }

    fn settle(&mut self, settled: &Settled) {
        let Settled { action, outcome, gone, .. } = *settled;
        self.account.settled(settled);
        if gone {
            // Nothing is known of it any more.
            return;
        }
        if outcome == Outcome::Done {
            self.count_moved(action.page);
        }
        self.settled(&action, outcome);
    }

    /// Orders were taken back before they were handed out.
    pub(super) fn taken_back(&mut self, actions: Vec<(Action, &'static str)>) {
        for (action, why) in actions {
            *self.account.refused.entry(why).or_default() += 1;
            self.settled(&action, Outcome::Refused(why));
        }
    }

    /// Records what came of an action that was pending, and tells the policy.
    pub(super) fn settled(&mut self, action: &Action, outcome: Outcome) {
        if self.record {
            let (page, kind) = (action.page.0, action.kind);
            let settlement = Settlement { t: self.t, page, action: kind, outcome: outcome.into() };
            self.out.push(Output::Settled(settlement));
        }
        self.engine.settle(action, outcome, Time(self.t.0));
        self.record_actions();
    }
}
