//! Threads that moved. Their pages are forwarded at once (Nikolopoulos 2000, sections 3.2 and 4), whatever the policy:
//! those that nobody else was seen to use, and that are where the thread was. Policies that follow threads themselves
//! do that alone.

use super::input::{Access, Arrival, Constructs, InConstructs};
use super::output::Output;
use super::processes::Moved;
use super::stays::Back;
use super::undo::Undo;
use super::Session;
use homing_core::action::{Action, Kind};
use homing_core::engine::{Executor, Observation};
use homing_core::ids::{Node, Page, Time};
use homing_core::policy::ThreadMoved;
use homing_core::process::ProcessId;
use std::collections::BTreeMap;

/// The reason of moves that no policy asked for.
pub const FORWARDED: &str = "the only thread that uses the page has moved there";

impl Session<'_> {
    /// Threads came to CPUs.
    pub(super) fn migrated(&mut self, arrivals: &[Arrival]) {
        for arrival in arrivals {
            let home = self.processes.task(arrival.process, arrival.thread).and_then(|task| task.home);
            if self.exists(arrival.node) {
                self.stays.came(*arrival, home);
                self.wanderers.came(arrival.thread, arrival.bound);
            }
        }
    }

    /// A process says where its threads are in its parallel constructs.
    pub(super) fn in_constructs(&mut self, constructs: &Constructs) {
        let process = constructs.process;
        if !self.processes.contains(process) {
            return;
        }
        for &InConstructs { thread, node, ended } in &constructs.threads {
            let home = self.processes.task(process, thread).and_then(|task| task.home);
            if self.exists(node) {
                self.stays.works(Arrival { process, thread, node, at: self.t, bound: false }, ended, home);
            }
        }
        if constructs.team > 0 {
            self.teams.insert(process, constructs.team);
            self.count_threads();
        }
        self.settle_threads();
    }

    /// Threads that stay on other nodes by now.
    pub(super) fn settle_threads(&mut self) {
        self.keep_displaced();
        let mut moved = Vec::new();
        let taken = self.stays.take(self.t, |thread| self.wanderers.kept(thread));
        for (process, thread, node) in taken.stay {
            moved.extend(self.processes.thread_stays(process, thread, node));
        }
        self.threads_moved(&moved);
        for Back { process, thread, first } in taken.back {
            let Some(node) = self.processes.task(process, thread).and_then(|task| task.home) else {
                continue;
            };
            if self.wanderers.kept(thread).is_none() {
                self.account.sent_back += u64::from(first);
                self.out.push(Output::SendBack { process, thread, node });
            }
        }
    }

    /// The node that an access by this thread counts for: that of its CPU, and of one that is displaced the one
    /// where it was.
    pub(super) fn node_of(&self, access: &Access) -> Node {
        let home = || self.processes.task(access.process, access.thread)?.home;
        if self.stays.is_displaced(access.thread) {
            home().unwrap_or(access.node)
        } else {
            access.node
        }
    }

    /// Threads stay on other nodes now.
    pub(super) fn threads_moved(&mut self, moved: &[Moved]) {
        if moved.is_empty() {
            return;
        }
        let era = self.estimator.changes.era();
        let mut followed = Vec::new();
        for &one in moved {
            let Moved { process, thread, from, to, used, .. } = one;
            let seen = ThreadMoved { thread, from, to, time: Time(self.t.0) };
            self.engine.observe(Observation::ThreadMoved(seen));
            self.account.threads_moved += 1;
            if self.thread_wanders(&one).is_none_or(|kept| kept == to) {
                followed.push(one);
            }
            if used {
                self.estimator.changes.thread_moved();
                if let Some(gain) = self.gains.get_mut(&process) {
                    gain.thread_moved(self.threads);
                }
            }
            self.record_actions();
        }
        if self.estimator.changes.era() == era {
            self.judge_gains();
        } else {
            self.forget_gains();
        }
        // One that sleeps is woken by each scan, and may move each time.
        if moved.iter().any(|moved| moved.used) {
            self.scan_pace.request_one(self.t);
        }
        self.forward(&followed);
    }

    /// Threads of a process are put on other nodes, all at once: what is known of nodes that use its pages is void.
    pub(super) fn users_go_elsewhere(&mut self, process: ProcessId) {
        self.estimator.changes.threads_go_elsewhere();
        let pages = self.orders().pages().iter().filter(|(_, entry)| entry.process == process);
        let pages: Vec<(Page, u64)> = pages.map(|(page, entry)| (page, entry.address)).collect();
        for (page, address) in pages {
            self.engine.observe(Observation::Forget(page, address));
            let entry = self.engine.executor_mut().pages_mut().entry_mut(page);
            (entry.last, entry.met_at_home, entry.first, entry.rounds, entry.stay) = Default::default();
        }
        self.undos.insert(process, Undo::default());
        let taken_back = self.engine.executor_mut().void(process);
        self.taken_back(taken_back);
        self.forget_gains();
    }

    /// Sends the pages of threads that have moved after them.
    pub(super) fn forward(&mut self, moved: &[Moved]) {
        if self.engine.policy_forwards() || moved.is_empty() {
            return;
        }
        let moved: BTreeMap<_, _> = moved.iter().map(|moved| (moved.thread, moved)).collect();
        let era = self.estimator.changes.era();
        let pages = self.orders().pages().iter().filter_map(|(page, entry)| {
            let thread = moved.get(&entry.users.owner(era)?)?;
            let follows = self.orders().stays(page).is_none()
                && entry.seen_at() == Some(thread.from)
                && self.may_move(entry.process, entry.address);
            follows.then_some((page, entry.address, thread.to))
        });
        let pages: Vec<(Page, u64, Node)> = pages.collect();
        for (page, address, to) in pages {
            // What the policy knows of it is about the node that the thread has left.
            self.engine.observe(Observation::Forget(page, address));
            let kind = Kind::Move { to };
            self.engine.executor_mut().pages_mut().entry_mut(page).rounds = Default::default();
            self.engine.executor_mut().execute(&Action { page, kind, reason: FORWARDED });
            self.account.forwarded += 1;
        }
        self.record_actions();
    }
}
