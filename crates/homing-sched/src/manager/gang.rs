//! Gang scheduling (Ousterhout 1982): all threads of a job run at the same time, on the same CPUs each time, and rows
//! of jobs that fit beside each other take turns.
//!
//! A row is filled with jobs by arrival as long as their requests fit. Chosen here: a turn takes one second; where the
//! number of CPUs changes, rows are filled anew.

use super::table::{Entry, Settings};
use super::{Allocation, Decision, JobView, Manager, Scene};
use crate::JobId;
use homing_core::ids::Cpu;
use std::collections::BTreeMap;

/// Seconds of a turn.
const TURN_S: f64 = 1.0;

pub(super) const ENTRY: Entry = Entry {
    name: "gang",
    source: "reference: Ousterhout 1982",
    summary: "rows of whole jobs take turns of a second on the same CPUs",
    time_shares: false,
    build: |settings| Box::new(Gang { settings, rows: Vec::new(), row: 0, next_s: 0.0, cpus: 0 }),
};

struct Gang {
    settings: Settings,
    /// The jobs of each row with their CPUs.
    rows: Vec<BTreeMap<JobId, Vec<Cpu>>>,
    row: usize,
    next_s: f64,
    /// CPUs that the rows were filled for.
    cpus: usize,
}

impl Gang {
    /// Puts a job into the first row with room.
    fn place(&mut self, job: &JobView, cpus: usize) {
        let asked = (job.request as usize).min(cpus);
        let free = |row: &BTreeMap<JobId, Vec<Cpu>>| -> Vec<Cpu> {
            let taken = |cpu: &Cpu| row.values().flatten().any(|other| other == cpu);
            (0..cpus as u16).map(Cpu).filter(|cpu| !taken(cpu)).collect()
        };
        for row in &mut self.rows {
            let mut free = free(row);
            if free.len() >= asked {
                free.truncate(asked);
                row.insert(job.id, free);
                return;
            }
        }
        self.rows.push(BTreeMap::from([(job.id, (0..asked as u16).map(Cpu).collect())]));
    }
}

impl Manager for Gang {
    fn decide(&mut self, scene: &Scene) -> Decision {
        let lives = |id: &JobId| scene.jobs.iter().any(|job| job.id == *id);
        self.rows.iter_mut().for_each(|row| row.retain(|id, _| lives(id)));
        self.rows.retain(|row| !row.is_empty());
        if std::mem::replace(&mut self.cpus, scene.layout.cpus()) != scene.layout.cpus() {
            self.rows.clear();
        }
        let placed: usize = self.rows.iter().map(BTreeMap::len).sum();
        let room = self.settings.level.saturating_sub(placed);
        let is_new = |job: &&JobView| !self.rows.iter().any(|row| row.contains_key(&job.id));
        let new: Vec<&JobView> = scene.jobs.iter().filter(is_new).take(room).collect();
        new.iter().for_each(|job| self.place(job, scene.layout.cpus()));
        if self.rows.is_empty() {
            return Decision::default();
        }
        if scene.now_s >= self.next_s {
            self.row += 1;
            self.next_s = scene.now_s + TURN_S;
        }
        self.row %= self.rows.len();
        let allocations =
            self.rows[self.row].iter().map(|(&job, cpus)| (job, Allocation::Cpus(cpus.clone())));
        let wake_s = (self.rows.len() > 1).then_some(self.next_s);
        Decision { allocations: allocations.collect(), wake_s, ..Decision::default() }
    }
}
