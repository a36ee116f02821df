//! Looking without touching: processes, their threads' nodes and their pages by node, for `homing top`.
//!
//! `/proc/PID/numa_maps` makes the kernel walk the page tables, which takes milliseconds for a small process and
//! seconds for a very large one. So looking has a budget: a share of the time that passes. It is spent on what is shown
//! first, and everything says how old it is.

mod inspect;
pub mod snapshot;
pub mod symbols;

use crate::host::Host;
use homing_core::ids::Node;
use homing_linux::proc::sharing::same_memory;
use homing_linux::proc::task::Stat;
use homing_linux::proc::vmstat::VmStat;
use homing_linux::proc::{Pid, Proc, ProcError, Tid};
use homing_linux::{clock, hint_faults};
use inspect::View;
use snapshot::{Moves, NodeRow, ProcessRow, Snapshot, SCHEMA};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;
use symbols::Tables;

/// Seconds that looking may take at first, so that the first page is full.
const FIRST: f64 = 0.2;

/// Seconds that can be saved up.
const SAVED: f64 = 0.1;

/// Age in seconds at which pages of processes that are not shown are looked at again.
const OLD: f64 = 10.0;

/// Whose pages to look at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The process whose threads are listed; its pages are looked at first.
    pub selected: Option<Pid>,
    /// Those on the screen: their pages are looked at next.
    pub visible: Vec<Pid>,
    /// Whether what is left of the budget goes to all others.
    pub others: bool,
}

/// What is known of a process.
struct Known {
    start_ticks: u64,
    cpu_ticks: u64,
    name: String,
    command: String,
    denied: bool,
    /// CPU time of each thread when it was last looked at.
    tasks: BTreeMap<Tid, u64>,
    view: Option<View>,
}

/// Looks.
pub struct Observer {
    proc: Proc,
    host: Host,
    /// Share of the time that looking at pages may take; infinite for no limit.
    share: f64,
    /// Seconds that may be spent now; below 0, what has to be saved up first.
    credit: f64,
    before: Option<(Instant, VmStat)>,
    known: BTreeMap<Pid, Known>,
    tables: Tables,
}

impl Observer {
    /// Has seen nothing yet. `share` is the part of one CPU's time that looking at pages may take.
    pub fn new(proc: Proc, host: Host, share: f64) -> Observer {
        Observer {
            proc,
            host,
            share,
            credit: FIRST,
            before: None,
            known: BTreeMap::new(),
            tables: Tables::default(),
        }
    }

    /// Looks at processes, nodes and counters; of pages it tells what is known. `only` these processes, or all if it is
    /// empty.
    ///
    /// # Errors
    /// If `/proc` cannot be read at all. Processes that end meanwhile are none.
    pub fn look(&mut self, only: &[Pid]) -> Result<Snapshot, ProcError> {
        let now = Instant::now();
        let counters = self.proc.vmstat()?;
        let before = self.before.replace((now, counters));
        let seconds = before.map_or(0.0, |(then, _)| (now - then).as_secs_f64());
        let stats = self.stats(only)?;
        self.known.retain(|pid, _| stats.contains_key(pid));
        let mut rows = Vec::with_capacity(stats.len());
        for (&pid, stat) in &stats {
            rows.push(self.row(pid, stat, seconds));
        }
        let saved = if self.share.is_finite() { seconds * self.share } else { 0.0 };
        self.credit = (self.credit + saved).min(SAVED.max(self.credit));
        let mut snapshot = Snapshot {
            schema: SCHEMA,
            seconds,
            moves: before.map(|(_, then)| rates(&then, &counters, seconds)).unwrap_or_default(),
            processes: rows,
            ..Snapshot::default()
        };
        self.fill(&mut snapshot, None);
        Ok(snapshot)
    }

    /// Looks at pages while that is within the budget: first the selected process, then the visible ones, then the
    /// others that are old, oldest first.
    pub fn inspect(&mut self, wanted: &Wanted, snapshot: &mut Snapshot) {
        let first: Vec<Pid> = wanted.selected.iter().chain(&wanted.visible).copied().collect();
        let age = |known: &Known| known.view.as_ref().map_or(f64::INFINITY, View::age);
        let ages = self.known.iter().map(|(&pid, known)| (age(known), pid));
        let mut others: Vec<(f64, Pid)> = ages.filter(|(age, _)| wanted.others && *age > OLD).collect();
        others.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut done = BTreeSet::new();
        for pid in first.into_iter().chain(others.into_iter().map(|(_, pid)| pid)) {
            if self.credit <= 0.0 {
                break;
            }
            if self.known.get(&pid).is_some_and(|known| !known.denied) && done.insert(pid) {
                let begin = Instant::now();
                self.inspect_one(pid, wanted.selected == Some(pid));
                self.credit -= if self.share.is_finite() { begin.elapsed().as_secs_f64() } else { 0.0 };
            }
        }
        self.fill(snapshot, wanted.selected);
    }

    /// Fills in what is known of pages, with the threads of the selected process.
    fn fill(&self, snapshot: &mut Snapshot, selected: Option<Pid>) {
        for row in &mut snapshot.processes {
            let Some((pid, known)) = row.pid.and_then(|pid| Some((pid, self.known.get(&pid)?))) else {
                continue;
            };
            row.denied = known.denied;
            row.pages = known.view.as_ref().map(|view| view.pages(&self.host, selected == Some(pid)));
        }
        snapshot.nodes = self.nodes();
        snapshot.own_cpu_seconds = clock::cpu_time().as_secs_f64();
        let waits = |known: &&Known| known.view.is_none() && !known.denied;
        snapshot.waiting = self.known.values().filter(waits).count();
    }

    /// `stat` of these processes, or of all, without kernel threads and the engine's helpers.
    fn stats(&self, only: &[Pid]) -> Result<BTreeMap<Pid, Stat>, ProcError> {
        let pids = if only.is_empty() { self.proc.processes()? } else { only.to_vec() };
        let stat = |pid: Pid| Some((pid, self.proc.process_stat(pid).ok()?));
        let mut stats: BTreeMap<Pid, Stat> =
            pids.into_iter().filter_map(stat).filter(|(_, stat)| stat.resident_pages > 0).collect();
        let (helpers, programs): (Vec<_>, Vec<_>) =
            stats.iter().partition(|(_, stat)| stat.name == hint_faults::SCANNER_NAME);
        // Anybody can take the name, but a helper shares the memory of a process that is shown.
        let shares = |(pid, stat): &(&Pid, &Stat)| {
            let mut alike = programs.iter().filter(|(_, other)| other.may_share_memory(stat));
            alike.any(|(other, _)| same_memory(**pid, **other) == Some(true))
        };
        let hidden: Vec<Pid> = helpers.into_iter().filter(shares).map(|(pid, _)| *pid).collect();
        hidden.iter().for_each(|pid| drop(stats.remove(pid)));
        Ok(stats)
    }

    fn row(&mut self, pid: Pid, stat: &Stat, seconds: f64) -> ProcessRow {
        let same = |known: &&mut Known| known.start_ticks == stat.start_ticks && known.name == stat.name;
        let mut cpu_percent = None;
        match self.known.get_mut(&pid).filter(same) {
            Some(known) => {
                let cpu = clock::ticks(stat.cpu_ticks.saturating_sub(known.cpu_ticks)).as_secs_f64();
                cpu_percent = (seconds > 0.0).then(|| 100.0 * cpu / seconds);
                known.cpu_ticks = stat.cpu_ticks;
            }
            None => {
                self.known.insert(pid, self.meet(pid, stat));
            }
        }
        ProcessRow {
            pid: Some(pid),
            name: stat.name.clone(),
            command: self.known[&pid].command.clone(),
            threads: stat.threads,
            cpu_percent,
            resident_bytes: stat.resident_pages * 4096,
            ..ProcessRow::default()
        }
    }

    fn meet(&self, pid: Pid, stat: &Stat) -> Known {
        let command = self.proc.command(pid).unwrap_or_default();
        Known {
            start_ticks: stat.start_ticks,
            cpu_ticks: stat.cpu_ticks,
            name: stat.name.clone(),
            command: if command.is_empty() { format!("[{}]", stat.name) } else { command },
            denied: false,
            tasks: BTreeMap::new(),
            view: None,
        }
    }

    fn inspect_one(&mut self, pid: Pid, detailed: bool) {
        let Some(known) = self.known.get_mut(&pid) else { return };
        let tables = detailed.then_some(&mut self.tables);
        match View::of(&self.proc, &self.host, pid, &mut known.tasks, tables) {
            Ok(view) => known.view = Some(view),
            Err(ProcError::Denied { .. }) => known.denied = true,
            // It has ended, which the next look notices.
            Err(_) => {}
        }
    }

    fn nodes(&self) -> Vec<NodeRow> {
        let all = (0..self.host.nodes()).map(|node| Node(node as u16));
        all.map(|node| {
            let memory = self.host.memory(node);
            let mut row = NodeRow {
                node: self.host.kernel_id(node),
                cpus: self.host.cpus_of(node).len(),
                memory_bytes: memory.map(|(_, total)| total),
                free_bytes: memory.map(|(free, _)| free),
                ..NodeRow::default()
            };
            for view in self.known.values().filter_map(|known| known.view.as_ref()) {
                view.add_to(node, &mut row);
            }
            let (near, all) = (row.with_threads_bytes as f64, row.resident_bytes as f64);
            row.residency_percent = (all > 0.0).then(|| 100.0 * near / all);
            row
        })
        .collect()
    }
}

fn rates(before: &VmStat, now: &VmStat, seconds: f64) -> Moves {
    let rate = |before: Option<u64>, now: Option<u64>| {
        let count = now?.saturating_sub(before?);
        (seconds > 0.0).then(|| count as f64 / seconds)
    };
    Moves {
        moved_per_second: rate(before.moved, now.moved),
        balanced_per_second: rate(before.balanced, now.balanced),
        failed_per_second: rate(before.failed, now.failed),
        hint_faults_per_second: rate(before.hint_faults, now.hint_faults),
    }
}

#[cfg(test)]
mod tests;
