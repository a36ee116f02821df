//! How fast jobs go on, given where their threads and pages are.
//!
//! A thread's miss waits for the latency between its node and the page's, and queues at the page's memory. A memory
//! that is busy for b of each line and serves n of them a second has the utilisation u = n b, and a request waits
//! b u / (2 (1 - u)) there (M/D/1, as in [`crate::time`]). How many come depends on how long they wait: the waits are
//! found by iteration from the last ones. Above u = 0.95 the curve goes on along its tangent, so that every load has
//! one solution.

use super::super::layout::Hardware;
use super::job::Job;
use super::memory::Memory;
use crate::ids::Node;

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
}

/// What one thread's misses go to.
struct Thread {
    node: Node,
    /// Shares of its misses by memory.
    at: Vec<(usize, f64)>,
}

impl<'a> Paces<'a> {
    pub fn new(hardware: &'a Hardware) -> Paces<'a> {
        let queue_s = vec![0.0; hardware.layout.nodes()];
        Paces { hardware, queue_s, local_s: super::super::workload::local_s(hardware) }
    }

    /// Finds the pace of every job.
    pub fn find(&mut self, jobs: &mut [Job], memory: &Memory) {
        let threads: Vec<Vec<Thread>> = jobs.iter().map(|job| threads_of(job, memory)).collect();
        let crowding = jobs.iter().any(|job| job.runs() && !job.app.misses.is_empty());
        for _ in 0..if crowding { ROUNDS } else { 1 } {
            let mut lines = vec![0.0; self.queue_s.len()];
            for (job, threads) in jobs.iter_mut().zip(&threads).filter(|(job, _)| job.runs()) {
                self.pace(job, threads);
                let each = job.app.misses_on(threads.len() as u32) / threads.len() as f64 / job.iteration_s;
                for thread in threads {
                    thread.at.iter().for_each(|&(node, share)| lines[node] += each * share);
                }
            }
            if self.requeue(&lines) < CLOSE {
                break;
            }
        }
        jobs.iter_mut().zip(&threads).filter(|(job, _)| job.runs()).for_each(|(job, of)| self.pace(job, of));
    }

    /// Goes towards the waits of this load; returns the largest relative change.
    ///
    /// A longer wait w makes fewer requests come: the utilisation u falls by u / w at most for each second more. So the
    /// step is divided by one and the slope of the curve times that, which neither oscillates nor overshoots.
    fn requeue(&mut self, lines: &[f64]) -> f64 {
        let busy = self.hardware.memory_busy_s;
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

    fn pace(&self, job: &mut Job, threads: &[Thread]) {
        let p = threads.len() as u32;
        let misses = job.app.misses_on(p) / f64::from(p);
        let busy = job.app.busy_s(p);
        let exposed = self.hardware.exposed;
        let wait_of = |thread: &Thread| -> f64 {
            let each = |&(node, share): &(usize, f64)| {
                share * (self.hardware.wait(thread.node, Node(node as u16)) + exposed * self.queue_s[node])
            };
            thread.at.iter().map(each).sum()
        };
        let slowest = threads.iter().map(wait_of).fold(0.0, f64::max);
        let local = |thread: &Thread| -> f64 {
            thread.at.iter().filter(|(node, _)| *node == thread.node.index()).map(|(_, share)| share).sum()
        };
        job.local = threads.iter().map(local).sum::<f64>() / f64::from(p);
        job.iteration_s = busy + misses * slowest;
        job.ideal_s = busy + misses * self.local_s;
    }
}

/// Seconds of queueing at a memory of that utilisation.
fn wait(used: f64, busy: f64) -> f64 {
    let at = used.min(STEEP);
    let slope = busy / (2.0 * (1.0 - STEEP).powi(2));
    busy * at / (2.0 * (1.0 - at)) + slope * (used - at)
}

fn threads_of(job: &Job, memory: &Memory) -> Vec<Thread> {
    let shares = memory.shares(job);
    job.nodes.iter().zip(shares).map(|(&node, at)| Thread { node, at }).collect()
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
