//! Threads that moved. Their pages are forwarded at once (Nikolopoulos 2000, sections 3.2 and 4), whatever the policy: those
//! that nobody else was seen to use, and that are where the thread was.

use super::{Session, SessionError};
use crate::journal::Line;
use crate::targets::Moved;
use homing_core::action::{Action, Kind};
use homing_core::engine::{Executor, Observation};
use homing_core::ids::{Node, Page, Time};
use homing_core::policy::ThreadMoved;
use homing_linux::clock;
use std::collections::HashMap;

/// The reason of moves that no policy asked for.
pub(crate) const FORWARDED: &str = "the only thread that uses the page has moved there";

impl Session<'_> {
    /// Looks for threads that moved or began since the last time, without a look at the processes.
    pub(super) fn follow_threads(&mut self) -> Result<(), SessionError> {
        let happened = self.migrations.poll(&self.targets, &self.host, clock::monotonic());
        if happened.unknown {
            self.pace.soon();
        }
        let targets = &mut self.targets;
        let moved = happened.moved.into_iter().filter_map(|(pid, tid, node)| targets.moved(pid, tid, node));
        let moved: Vec<Moved> = moved.collect();
        self.threads_moved(&moved)
    }

    /// Threads stay on other nodes now.
    pub(super) fn threads_moved(&mut self, moved: &[Moved]) -> Result<(), SessionError> {
        if moved.is_empty() {
            return Ok(());
        }
        for moved in moved {
            let t = self.now();
            let (from, to) = (moved.from, moved.to);
            self.put(&Line::ThreadMoved { t, thread: moved.thread.0, from: from.0, to: to.0 })?;
            let moved = ThreadMoved { thread: moved.thread, from, to, time: Time(t) };
            self.engine.observe(Observation::ThreadMoved(moved));
            self.account.threads_moved += 1;
            self.news.moved();
            self.note_asked(t)?;
        }
        self.source.hurry();
        self.forward(moved)
    }

    fn forward(&mut self, moved: &[Moved]) -> Result<(), SessionError> {
        let moved: HashMap<_, _> = moved.iter().map(|moved| (moved.thread, moved)).collect();
        let era = self.news.era();
        let pages = self.kernel().pages().iter().filter_map(|(page, entry)| {
            let thread = moved.get(&entry.users.owner(era)?)?;
            let follows = entry.class.movable()
                && entry.seen_at() == Some(thread.from)
                && self.chosen(entry.pid, entry.address);
            follows.then_some((page, entry.address, thread.to))
        });
        let pages: Vec<(Page, u64, Node)> = pages.collect();
        for (page, address, to) in pages {
            // What is known of it is about the node that the thread has left.
            self.put(&Line::Gone { page: page.0 })?;
            self.engine.observe(Observation::PageGone(page));
            self.put(&Line::New { page: page.0, address })?;
            self.engine.observe(Observation::PageNew(page, address));
            let kind = Kind::Move { to };
            self.engine.executor_mut().execute(&Action { page, kind, reason: FORWARDED });
            self.account.forwarded += 1;
        }
        let t = self.now();
        self.note_asked(t)
    }
}
