//! How fast jobs go on, given where their threads and pages are.
//!
//! A thread's miss waits for the latency between its node and the page's, and queues at the page's memory. A memory
//! that is busy for b of each line and serves n of them a second has the utilisation u = n b, and a request waits b u /
//! (2 (1 - u)) there (M/D/1, as in [`homing_core::time`]). How many come depends on how long they wait: the waits are
//! found by iteration from the last ones. Above u = 0.95 the curve goes on along its tangent, so that every load has
//! one solution.

use super::super::layout::Hardware;
use super::super::JobId;
use super::job::Job;
use super::memory::Memory;
use homing_core::ids::Node;
use std::collections::BTreeMap;

/// Utilisation from which the wait rises along its tangent.
const STEEP: f64 = 0.95;
/// Rounds at most, and the relative change of the waits that is small enough.
const ROUNDS: usize = 200;
const CLOSE: f64 = 1e-5;

pub(super) struct Paces<'a> {
    hardware: &'a Hardware,
    /// Seconds of queueing at each memory.
    queue_s: Vec<f64>,
    local_s: f64,
    crews: BTreeMap<JobId, Crew>,
    /// The waits were those of the load to the last digit.
    exact: bool,
}

/// What a job's threads wait for, as long as neither they nor its pages move.
#[derive(Default)]
struct Crew {
    nodes: Vec<Node>,
    homes: Vec<Node>,
    /// What the misses of the first thread's serial work go to.
    serial: Vec<Part>,
    /// What the misses of each thread's parallel work go to, one thread after the other.
    parts: Vec<Part>,
    /// Where in `parts` each thread ends.
    ends: Vec<usize>,
    /// Share of all misses that are local.
    local: f64,
}

/// A share of a thread's misses that goes to one memory, and the seconds of each with that memory at rest.
struct Part {
    node: usize,
    share: f64,
    wait_s: f64,
}

impl Crew {
    /// Looks where threads and pages are; true if that changed.
    fn update(&mut self, job: &Job, memory: &Memory, hardware: &Hardware) -> bool {
        let homes = memory.homes(job);
        if self.nodes == job.nodes && self.homes == homes {
            return false;
        }
        self.nodes.clone_from(&job.nodes);
        self.homes.clear();
        self.homes.extend_from_slice(homes);
        self.parts.clear();
        self.ends.clear();
        let parts = |from: Node, at: Vec<(usize, f64)>| {
            at.into_iter().map(move |(node, share)| Part {
                node,
                share,
                wait_s: hardware.wait(from, Node(node as u16)),
            })
        };
        let local = |from: Node, at: &[(usize, f64)]| -> f64 {
            at.iter().filter(|(node, _)| *node == from.index()).map(|(_, share)| share).sum()
        };
        let first = self.nodes.first().copied().unwrap_or_default();
        let alone = job.app.serial_misses.on(self.nodes.len() as u32);
        let at = if alone > 0.0 { memory.serial_shares(job) } else { Vec::new() };
        self.local = alone * local(first, &at);
        self.serial = parts(first, at).collect();
        let each = (1.0 - alone) / f64::from(self.nodes.len() as u32);
        for (&from, at) in self.nodes.iter().zip(memory.shares(job)) {
            self.local += each * local(from, &at);
            self.parts.extend(parts(from, at));
            self.ends.push(self.parts.len());
        }
        true
    }

    /// What the misses of each thread's parallel work go to.
    fn threads(&self) -> impl Iterator<Item = &[Part]> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        begins.zip(&self.ends).map(|(begin, &end)| &self.parts[begin..end])
    }
}

impl<'a> Paces<'a> {
    pub fn new(hardware: &'a Hardware) -> Paces<'a> {
        let queue_s = vec![0.0; hardware.layout.nodes()];
        let local_s = super::super::workload::local_s(hardware);
        Paces { hardware, queue_s, local_s, crews: BTreeMap::new(), exact: false }
    }

    /// Finds the pace of every job.
    pub fn find(&mut self, jobs: &mut [Job], memory: &Memory) {
        let mut changed = self.crews.len() != jobs.len();
        if self.crews.len() > jobs.len() {
            self.crews.retain(|id, _| jobs.iter().any(|job| job.id == *id));
        }
        for job in jobs.iter() {
            changed |= self.crews.entry(job.id).or_default().update(job, memory, self.hardware);
        }
        if self.exact && !changed {
            return;
        }
        let crews = std::mem::take(&mut self.crews);
        let mut running: Vec<(&mut Job, &Crew)> = jobs
            .iter_mut()
            .filter(|job| job.runs())
            .map(|job| {
                let crew = &crews[&job.id];
                (job, crew)
            })
            .collect();
        let crowding = running.iter().any(|(job, _)| !job.app.misses.is_empty());
        self.exact = false;
        let mut lines = vec![0.0; self.queue_s.len()];
        for _ in 0..if crowding { ROUNDS } else { 1 } {
            lines.fill(0.0);
            self.pace(&mut running);
            for (job, crew) in &running {
                let (serial, each) =
                    (job.serial_misses / job.iteration_s, job.parallel_misses / job.iteration_s);
                crew.serial.iter().for_each(|part| lines[part.node] += serial * part.share);
                crew.parts.iter().for_each(|part| lines[part.node] += each * part.share);
            }
            let change = self.requeue(&lines);
            if change < CLOSE {
                self.exact = change == 0.0;
                break;
            }
        }
        self.pace(&mut running);
        self.crews = crews;
    }

    /// Goes towards the waits of this load; returns the largest relative change. At memories that take no time for a
    /// line nobody waits.
    ///
    /// A longer wait w makes fewer requests come: the utilisation u falls by u / w at most for each second more. So the
    /// step is divided by one and the slope of the curve times that, which neither oscillates nor overshoots.
    fn requeue(&mut self, lines: &[f64]) -> f64 {
        let busy = self.hardware.memory_busy_s;
        if busy <= 0.0 {
            return 0.0;
        }
        let mut change = 0.0f64;
        for (queue, lines) in self.queue_s.iter_mut().zip(lines) {
            let used = lines * busy;
            let slope = busy / (2.0 * (1.0 - used.min(STEEP)).powi(2));
            let step = (wait(used, busy) - *queue) / (1.0 + slope * used / (*queue + busy));
            change = change.max(step.abs() / (busy + *queue));
            *queue += step;
        }
        change
    }

    fn pace(&self, running: &mut [(&mut Job, &Crew)]) {
        let queued_s: Vec<f64> = self.queue_s.iter().map(|queue_s| self.hardware.exposed * queue_s).collect();
        for (job, crew) in running {
            let wait = |part: &Part| part.share * (part.wait_s + queued_s[part.node]);
            let slowest = crew.threads().map(|parts| parts.iter().map(wait).sum()).fold(0.0, f64::max);
            let serial: f64 = crew.serial.iter().map(wait).sum();
            job.local = crew.local;
            job.iteration_s = job.busy_s + job.serial_misses * serial + job.parallel_misses * slowest;
            job.ideal_s = job.busy_s + (job.serial_misses + job.parallel_misses) * self.local_s;
        }
    }
}

/// Seconds of queueing at a memory of that utilisation.
fn wait(used: f64, busy: f64) -> f64 {
    let at = used.min(STEEP);
    let slope = busy / (2.0 * (1.0 - STEEP).powi(2));
    busy * at / (2.0 * (1.0 - at)) + slope * (used - at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_follow_the_queue_and_never_end() {
        assert_eq!(wait(0.0, 2.0), 0.0);
        assert_eq!(wait(0.5, 2.0), 1.0);
        assert!((wait(0.95, 2.0) - 19.0).abs() < 1e-9);
        assert!((wait(0.951, 2.0) - 19.4).abs() < 1e-6, "the tangent: 400 a unit");
        assert!(wait(3.0, 2.0).is_finite());
    }
}
