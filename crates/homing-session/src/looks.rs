//! Process scans: what changed since the last one.

use super::account::Placed;
use super::gain::Gain;
use super::input::{Looked, ThreadSeen};
use super::output::Output;
use super::pages::Key;
use super::payoff::Payoff;
use super::processes::{Moved, Seen};
use super::spread::Load;
use super::undo::Undo;
use super::Session;
use homing_core::engine::Observation;
use homing_core::ids::{Node, Page, Time};
use homing_core::policy::ThreadsChanged;
use homing_core::process::{self, ProcessId, Region, ThreadId};

impl Session<'_> {
    /// Takes what a process scan found.
    pub(super) fn looked(&mut self, looked: Looked) {
        let Looked { cost, ended, begun, remapped, allowed, held, threads, threads_ended, .. } = looked;
        let mut quiet = ended.is_empty() && begun.is_empty() && remapped.is_empty() && allowed.is_empty();
        self.kernel_moves_pages = looked.kernel_moves_pages;
        ended.iter().for_each(|&process| self.ended(process));
        begun.iter().for_each(|&process| self.begun(process));
        remapped.into_iter().for_each(|(process, regions)| self.remapped(process, regions));
        if let Some(held) = held {
            let numbered =
                held.into_iter().filter_map(|(object, why)| Some((self.processes.number(object)?, why)));
            let held = numbered.collect();
            self.engine.executor_mut().hold(held);
        }
        let widened = !allowed.is_empty();
        for (process, nodes) in allowed {
            self.engine.executor_mut().allow(process, nodes);
        }
        self.record_actions();
        for &(process, thread) in &threads_ended {
            self.processes.thread_ended(process, thread);
            self.wanderers.ended(thread);
        }
        let (new, moved) = self.see_threads(&threads);
        // What a new thread has used may be long ago.
        let ran = threads.iter().any(|seen| seen.ran && !new.contains(&seen.thread));
        self.account.sight.looked(self.t, ran, looked.resident_pages);
        quiet &= new.is_empty() && moved.is_empty();
        if !new.is_empty() || !begun.is_empty() {
            self.wanderers.grew(self.t);
        }
        new.into_iter().for_each(|thread| self.bind(thread));
        self.threads_moved(&moved);
        self.count_threads();
        let changes = &mut self.estimator.changes;
        let (divided, grown) = (changes.threads(self.threads), changes.pages(looked.resident_pages));
        if divided {
            self.forget_gains();
        }
        if divided || grown || widened || !begun.is_empty() {
            self.scan_pace.request(self.t);
        }
        self.keep_late();
        self.engine.executor_mut().set_room(&looked.room);
        self.look_pace.looked(self.t, cost, quiet && !grown);
        if self.settings.send_back {
            self.stays.over(self.t);
        }
    }

    fn begun(&mut self, process: ProcessId) {
        if self.processes.contains(process) {
            self.ended(process);
        }
        self.processes.begin(process);
        self.gains.insert(process, Gain::default());
        self.payoffs.insert(process, Payoff::default());
        self.undos.insert(process, Undo::default());
        self.loads.insert(process, Load::default());
    }

    fn ended(&mut self, process: ProcessId) {
        self.forget_areas(process);
        self.teams.remove(&process);
        self.gains.remove(&process);
        self.payoffs.remove(&process);
        self.undos.remove(&process);
        self.loads.remove(&process);
        self.wanderers.process_ended(process);
        self.processes.end(process);
        let placed = self.forget_pages(|of, _| of == process);
        self.account.placed.on_user += placed.on_user;
        self.account.placed.elsewhere += placed.elsewhere;
        self.engine.executor_mut().allow(process, Vec::new());
    }

    /// Takes the regions of a process anew and forgets the pages that are in none any more.
    fn remapped(&mut self, process: ProcessId, regions: Vec<Region>) {
        self.processes.remap(process, regions.clone());
        self.forget_pages(|of, address| of == process && process::find(&regions, address).is_none());
    }

    /// Forgets pages, and returns where they were.
    fn forget_pages(&mut self, gone: impl Fn(ProcessId, u64) -> bool) -> Placed {
        self.estimator.forget(&gone);
        let pages = self.orders().pages().iter().filter(|(_, entry)| {
            // What is mapped there now may be other memory.
            let another = || self.processes.key(entry.process, entry.address) != entry.key;
            gone(entry.process, entry.address) || another()
        });
        let gone: Vec<(Page, Key)> = pages.map(|(page, entry)| (page, entry.key)).collect();
        let shared = self.processes.shared();
        let mut placed = Placed::default();
        for (page, key) in gone {
            match shared.iter().find_map(|shown| shown.find(key)) {
                Some((process, address)) => {
                    self.engine.executor_mut().pages_mut().entry_mut(page).used_by(process, address);
                }
                None => {
                    let entry = self.orders().pages().entry(page);
                    placed.add(entry.at, entry.user());
                    self.page_gone(page);
                }
            }
        }
        placed
    }

    /// New threads, and those that have moved.
    fn see_threads(&mut self, threads: &[ThreadSeen]) -> (Vec<ThreadId>, Vec<Moved>) {
        let (mut new, mut moved) = (Vec::new(), Vec::new());
        for seen in threads.iter().filter(|seen| !self.stays.is_displaced(seen.thread)) {
            let node = seen.node.filter(|&node| self.exists(node));
            match self.processes.thread_seen(&ThreadSeen { node, ..*seen }) {
                Seen::New => new.push(seen.thread),
                Seen::Moved(thread) => moved.push(thread),
                Seen::Same => {}
            }
        }
        (new, moved)
    }

    /// Binds a new thread to the next CPU.
    fn bind(&mut self, thread: ThreadId) {
        let cpus = &self.settings.bind;
        if let Some(&cpu) = cpus.get(self.bound % cpus.len().max(1)) {
            self.bound += 1;
            self.out.push(Output::Bind { thread, cpu });
        }
    }

    /// Threads that do the work: those of the last parallel construct where that is known.
    pub(super) fn count_threads(&mut self) {
        let threads = match self.teams.is_empty() {
            true => self.processes.threads(),
            false => self.teams.values().sum(),
        };
        if std::mem::replace(&mut self.threads, threads) != threads {
            let changed = ThreadsChanged { threads, time: Time(self.t.0) };
            self.engine.observe(Observation::ThreadsChanged(changed));
            self.record_actions();
        }
    }

    /// True for a node of this machine.
    pub(super) fn exists(&self, node: Node) -> bool {
        node.index() < usize::from(self.settings.nodes)
    }
}
