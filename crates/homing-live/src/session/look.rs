//! Processes, threads and mappings: what changed since the last look.

use super::{Session, SessionError, View};
use crate::config::Bind;
use crate::journal::Line;
use crate::regions;
use crate::targets::Changes;
use homing_core::engine::Observation;
use homing_core::ids::{Node, Page, Time};
use homing_core::policy::ThreadsChanged;
use homing_linux::pagemap::PageMap;
use homing_linux::policy as affinity;
use homing_linux::proc::Pid;
use homing_linux::wait::end_of;

impl Session<'_> {
    /// Looks at processes, threads, mappings and what is resident. True if nothing has changed.
    pub(super) fn look(&mut self) -> Result<bool, SessionError> {
        self.targets.know_helpers(self.source.helpers());
        let changes = self.targets.look(&self.host)?;
        self.watch_ends(&changes);
        for pid in &changes.ended {
            self.views.remove(pid);
            self.drop_pages(|entry_pid, _| entry_pid == *pid)?;
            self.engine.executor_mut().allow(*pid, Vec::new());
        }
        for &pid in &changes.remapped {
            self.remapped(pid)?;
        }
        self.allowed(&changes.allowed)?;
        self.bind(&changes);
        self.threads_moved(&changes.moved)?;
        self.count_threads()?;
        let fail = |error| SessionError::Source { name: self.entry.name, error };
        self.source.follow(&self.targets, &changes).map_err(fail)?;
        let resident = self.targets.processes().values().map(|process| process.resident_pages).sum();
        let (divided, grown) = (self.news.threads(self.threads), self.news.pages(resident));
        if divided || grown || !changes.begun.is_empty() || !changes.allowed.is_empty() {
            self.source.hurry();
        }
        self.engine.executor_mut().look_at_memory();
        Ok(changes.is_empty() && !grown)
    }

    /// A process without a descriptor is noticed to have ended by the looks alone.
    fn watch_ends(&mut self, changes: &Changes) {
        for pid in &changes.ended {
            self.ends.remove(pid);
        }
        for &pid in &changes.begun {
            self.ends.extend(end_of(pid).ok().map(|end| (pid, end)));
        }
    }

    fn count_threads(&mut self) -> Result<(), SessionError> {
        let threads = self.targets.processes().values().map(|process| process.tasks.len() as u32).sum();
        if std::mem::replace(&mut self.threads, threads) == threads {
            return Ok(());
        }
        let t = self.now();
        self.put(&Line::ThreadsChanged { t, threads })?;
        self.engine.observe(Observation::ThreadsChanged(ThreadsChanged { threads, time: Time(t) }));
        self.note_asked(t)
    }

    /// These processes may use the memory of other nodes than before.
    fn allowed(&mut self, pids: &[Pid]) -> Result<(), SessionError> {
        for pid in pids {
            let Some(process) = self.targets.processes().get(pid) else { continue };
            let nodes = process.memories.iter().filter_map(|&id| self.host.node(id)).collect();
            self.engine.executor_mut().allow(*pid, nodes);
        }
        let t = self.now();
        self.note_asked(t)
    }

    /// Names the regions of a process anew and forgets the pages that are in none any more.
    fn remapped(&mut self, pid: Pid) -> Result<(), SessionError> {
        let Some(process) = self.targets.processes().get(&pid) else { return Ok(()) };
        let regions = regions::of(&process.maps);
        self.drop_pages(|of, address| of == pid && regions::find(&regions, address).is_none())?;
        match self.views.get_mut(&pid) {
            Some(view) => view.regions = regions,
            None => {
                let page_map = PageMap::open(pid).ok();
                self.views.insert(pid, View { number: self.processes, regions, page_map });
                self.processes += 1;
            }
        }
        Ok(())
    }

    fn drop_pages(&mut self, gone: impl Fn(Pid, u64) -> bool) -> Result<(), SessionError> {
        self.neighbours.forget(&gone);
        let pages = self.kernel().pages().iter();
        let gone: Vec<Page> =
            pages.filter(|(_, entry)| gone(entry.pid, entry.address)).map(|(page, _)| page).collect();
        gone.into_iter().try_for_each(|page| self.page_gone(page))
    }

    pub(super) fn page_gone(&mut self, page: Page) -> Result<(), SessionError> {
        self.put(&Line::Gone { page: page.0 })?;
        self.engine.observe(Observation::PageGone(page));
        self.engine.executor_mut().forget(page);
        Ok(())
    }

    /// Binds new threads to CPUs, in the order of their appearance.
    fn bind(&mut self, changes: &Changes) {
        let Some(how) = self.config.bind else { return };
        let nodes: Vec<&[u32]> = (0..self.host.nodes())
            .map(|node| self.host.cpus_of(Node(node as u16)))
            .filter(|c| !c.is_empty())
            .collect();
        let order: Vec<u32> = match how {
            Bind::Fill => nodes.concat(),
            Bind::RoundRobin => {
                let most = nodes.iter().map(|cpus| cpus.len()).max().unwrap_or(0);
                (0..most).flat_map(|i| nodes.iter().filter_map(move |cpus| cpus.get(i).copied())).collect()
            }
        };
        for &(_, tid) in &changes.new_tasks {
            let Some(&cpu) = order.get(self.bound % order.len().max(1)) else { return };
            self.bound += 1;
            if let Err(error) = affinity::set_affinity(tid, &[cpu]) {
                *self.account.failures.entry(error.raw_os_error().unwrap_or(0)).or_default() += 1;
            }
        }
    }
}
