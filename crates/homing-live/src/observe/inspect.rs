//! One process's threads and pages, by node.

use super::snapshot::{NodeRow, OnNode, Pages, RegionRow, SymbolRow, TaskRow};
use super::symbols::Tables;
use crate::host::Host;
use crate::regions;
use homing_core::ids::Node;
use homing_core::process;
use homing_linux::proc::maps;
use homing_linux::proc::{Pid, Proc, ProcError, Tid};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Regions that are kept, largest first.
const REGIONS: usize = 64;

/// What was seen of a process.
pub struct View {
    at: Instant,
    took: Duration,
    /// Resident bytes by node.
    bytes: Vec<u64>,
    /// Threads by node.
    threads: Vec<u64>,
    regions: Vec<RegionRow>,
    left_out: usize,
    symbols: Vec<SymbolRow>,
    symbols_left_out: usize,
    tasks: Vec<TaskRow>,
}

impl View {
    /// Looks at a process. `ticks` has the CPU time of each thread at the look before, and afterwards that of this one.
    /// Static data is looked at by name if there are `tables`.
    ///
    /// # Errors
    /// If it has ended or this user may not look at it.
    pub fn of(
        proc: &Proc,
        host: &Host,
        pid: Pid,
        ticks: &mut BTreeMap<Tid, u64>,
        tables: Option<&mut Tables>,
    ) -> Result<View, ProcError> {
        let at = Instant::now();
        let ranges = proc.numa_maps(pid)?;
        let maps = proc.maps(pid)?;
        let named = regions::of(&maps, 0);
        let mut bytes = vec![0; host.nodes()];
        let mut all = Vec::new();
        for range in ranges.iter().filter(|range| !range.pages.is_empty()) {
            for (id, count) in range.bytes() {
                if let Some(node) = host.node(id) {
                    bytes[node.index()] += count;
                }
            }
            let region = process::find(&named, range.start);
            let mapping = maps::find(&maps, range.start);
            all.push(RegionRow {
                // A mapping may have come between the two files.
                name: region.map_or_else(|| format!("{:x}", range.start), |region| region.name.clone()),
                class: mapping.map_or("new", |mapping| mapping.class().name()),
                policy: range.policy.clone(),
                start: range.start,
                bytes: range.bytes().map(|(node, count)| OnNode { node, count }).collect(),
            });
        }
        all.sort_by_key(|region| std::cmp::Reverse(region.resident()));
        let left_out = all.len().saturating_sub(REGIONS);
        all.truncate(REGIONS);
        let (symbols, symbols_left_out) =
            tables.map(|tables| tables.rows(proc, host, pid, &maps)).unwrap_or_default();
        let tasks = tasks(proc, host, pid, ticks)?;
        let threads = threads(host, &tasks);
        Ok(View {
            at,
            took: at.elapsed(),
            bytes,
            threads,
            regions: all,
            left_out,
            symbols,
            symbols_left_out,
            tasks,
        })
    }

    /// Seconds since the look.
    pub fn age(&self) -> f64 {
        self.at.elapsed().as_secs_f64()
    }

    /// Adds what is on a node to its row.
    pub fn add_to(&self, node: Node, row: &mut NodeRow) {
        let (bytes, threads) = (self.bytes[node.index()], self.threads[node.index()]);
        row.threads += threads;
        row.resident_bytes += bytes;
        row.with_threads_bytes += if threads > 0 { bytes } else { 0 };
    }

    /// As it is shown, `detailed` with the threads.
    pub fn pages(&self, host: &Host, detailed: bool) -> Pages {
        let on = |counts: &[u64]| {
            let node = |index: usize| host.kernel_id(Node(index as u16));
            counts.iter().enumerate().map(|(index, &count)| OnNode { node: node(index), count }).collect()
        };
        let all: u64 = self.bytes.iter().sum();
        let near: u64 = self.bytes.iter().zip(&self.threads).filter(|(_, t)| **t > 0).map(|(b, _)| b).sum();
        Pages {
            age_seconds: self.age(),
            cost_ms: self.took.as_secs_f64() * 1e3,
            bytes: on(&self.bytes),
            residency_percent: (all > 0).then(|| 100.0 * near as f64 / all as f64),
            threads: on(&self.threads),
            regions: self.regions.clone(),
            regions_left_out: self.left_out,
            symbols: if detailed { self.symbols.clone() } else { Vec::new() },
            symbols_left_out: if detailed { self.symbols_left_out } else { 0 },
            tasks: if detailed { self.tasks.clone() } else { Vec::new() },
        }
    }
}

fn tasks(
    proc: &Proc,
    host: &Host,
    pid: Pid,
    ticks: &mut BTreeMap<Tid, u64>,
) -> Result<Vec<TaskRow>, ProcError> {
    let before = std::mem::take(ticks);
    let mut rows = Vec::new();
    for tid in proc.tasks(pid)? {
        // A thread that ended in between is left out.
        let Ok(stat) = proc.stat(pid, tid) else { continue };
        ticks.insert(tid, stat.cpu_ticks);
        let more = before.get(&tid).is_some_and(|&before| stat.cpu_ticks > before);
        rows.push(TaskRow {
            tid,
            name: stat.name,
            state: stat.state,
            cpu: stat.processor,
            node: host.node_of_cpu(stat.processor).map(|node| host.kernel_id(node)),
            ran: more || stat.state == 'R',
        });
    }
    Ok(rows)
}

/// Threads by node: those that ran; if none did, all.
fn threads(host: &Host, tasks: &[TaskRow]) -> Vec<u64> {
    let any = tasks.iter().any(|task| task.ran);
    let mut threads = vec![0; host.nodes()];
    for task in tasks.iter().filter(|task| task.ran || !any) {
        if let Some(node) = task.node.and_then(|id| host.node(id)) {
            threads[node.index()] += 1;
        }
    }
    threads
}
