//! Processes, threads and mappings: what a look at them found, as the pure session takes it.

use super::{Departed, Session, SessionError};
use crate::targets::Changes;
use crate::{hot, regions, sharers};
use homing_core::ids::{Micros, Node};
use homing_core::process::{ProcessId, Region, ThreadId};
use homing_linux::pagemap::PageMap;
use homing_linux::proc::Pid;
use homing_linux::wait::end_of;
use homing_session::input::{Areas, Looked};

impl Session<'_> {
    /// Looks at processes, threads, mappings and what is resident.
    pub(super) fn look(&mut self) -> Result<Looked, SessionError> {
        self.targets.know_helpers(self.source.helpers());
        let changes = self.targets.look(&self.host)?;
        self.follow_processes(&changes);
        self.keeper.free_heirs(self.targets.proc(), &changes.new_tasks);
        if self.config.watch {
            self.keep_ended(&changes);
        }
        let fail = |error| SessionError::Source { name: self.entry.name, error };
        let before = self.phases.lap("look");
        self.source.follow(&self.targets, &changes).map_err(fail)?;
        let follows = self.phases.lap("follow");
        let Changes { begun, ended, remapped, .. } = &changes;
        let remap = !(begun.is_empty() && ended.is_empty() && remapped.is_empty());
        let held = self.sharers.follow(&self.targets, remap);
        if remap || held.is_some() {
            self.targets.mark_shared(self.sharers.to_mark(&self.targets));
        }
        let looked = Looked { held, ..self.looked(changes) };
        self.has_looked = true;
        let cost = before + follows + self.phases.lap("look");
        Ok(Looked { cost: Micros(cost.as_micros() as u64), ..looked })
    }

    /// Keeps what is known of processes that have ended: the pure session is about to forget it.
    fn keep_ended(&mut self, changes: &Changes) {
        for &pid in &changes.ended {
            let pages = self.known().filter(|entry| entry.process == id(pid)).cloned().collect();
            let regions = self.regions(pid).to_vec();
            self.departed.push(Departed { pid, pages, regions });
        }
    }

    /// Watches the ends of processes, and what tells their huge pages. A process without a descriptor is noticed to
    /// have ended by the looks alone.
    fn follow_processes(&mut self, changes: &Changes) {
        for pid in &changes.ended {
            self.found.remove(pid);
            self.named.remove(pid);
            self.ends.remove(pid);
            self.page_maps.remove(pid);
        }
        for &pid in &changes.begun {
            self.ends.extend(end_of(pid).ok().map(|end| (pid, end)));
        }
        for &pid in &changes.remapped {
            if !self.page_maps.contains_key(&pid) {
                self.page_maps.extend(PageMap::open(pid).ok().map(|map| (pid, map)));
            }
        }
    }

    /// The hot areas of processes that name none and whose areas are others than at the last look.
    pub(super) fn find_areas(&mut self, remapped: &[ProcessId]) -> Vec<Areas> {
        let Some(least) = self.config.hot_areas.filter(|least| *least > 0) else { return Vec::new() };
        let mut all = Vec::new();
        for &process in remapped {
            let pid = Pid(process.0);
            let Some(maps) = self.targets.processes().get(&pid).map(|process| &process.maps) else {
                continue;
            };
            if self.named.contains(&pid) {
                continue;
            }
            let symbols = self.symbols.of(self.targets.proc(), pid, maps, least);
            let mut areas = hot::find(maps, &regions::of(maps, 0), &symbols, least);
            areas.retain(|area| !self.own.iter().any(|own| (area.start..area.end()).contains(own)));
            if self.found.insert(pid, areas.clone()).as_ref() != Some(&areas) {
                all.push(Areas { process, areas });
            }
        }
        self.phases.lap("look");
        all
    }

    /// What has changed, of the processes that are still there.
    fn looked(&self, changes: Changes) -> Looked {
        let Changes { threads, ended_tasks, begun, ended, remapped, allowed, .. } = changes;
        let processes = self.targets.processes();
        let there = |pid: &Pid| processes.contains_key(pid);
        let regions = |pid: Pid| Some((id(pid), regions_of(self, pid)?));
        let nodes = |pid: Pid| {
            let memories = &processes.get(&pid)?.memories;
            Some((id(pid), memories.iter().filter_map(|&node| self.host.node(node)).collect()))
        };
        Looked {
            cost: Micros(0),
            ended: ended.into_iter().map(id).collect(),
            begun: begun.into_iter().filter(there).map(id).collect(),
            remapped: remapped.into_iter().filter_map(regions).collect(),
            allowed: allowed.into_iter().filter_map(nodes).collect(),
            threads: threads.into_iter().filter(|thread| there(&Pid(thread.process.0))).collect(),
            threads_ended: ended_tasks.into_iter().map(|(pid, tid)| (id(pid), ThreadId(tid.0))).collect(),
            held: None,
            resident_pages: processes.values().map(|process| process.resident_pages).sum(),
            room: (0..self.host.nodes()).map(|node| self.host.room(Node(node as u16))).collect(),
            kernel_moves_pages: self.source.kernel_may_move(),
        }
    }
}

fn regions_of(session: &Session<'_>, pid: Pid) -> Option<Vec<Region>> {
    let maps = &session.targets.processes().get(&pid)?.maps;
    Some(regions::of(maps, sharers::namespace(session.targets.proc(), pid, maps)))
}

fn id(pid: Pid) -> ProcessId {
    ProcessId(pid.0)
}
