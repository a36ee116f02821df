//! Batch: jobs run one after the other, by arrival, each on as many processors as it asks for, to its end. The
//! reference in which nothing is shared and nothing moves.

use super::table::Entry;
use super::{shares, Decision, Manager, Scene};

pub(super) const ENTRY: Entry = Entry {
    name: "batch",
    source: "reference: first come, first served",
    summary: "a job waits until all processors that it asks for are free, and keeps them to its end",
    time_shares: false,
    build: |_| Box::new(Batch),
};

struct Batch;

impl Manager for Batch {
    fn decide(&mut self, scene: &Scene) -> Decision {
        let mut jobs: Vec<_> = scene.running().collect();
        let asked = |job: &super::JobView| (job.request as usize).min(scene.layout.cpus());
        let mut free = scene.layout.cpus().saturating_sub(jobs.iter().map(|job| asked(job)).sum());
        for job in scene.waiting() {
            if asked(job) > free {
                break;
            }
            free -= asked(job);
            jobs.push(job);
        }
        let counts: Vec<usize> = jobs.iter().map(|job| asked(job)).collect();
        Decision { allocations: shares::mapped(scene, &jobs, &counts, false), ..Decision::default() }
    }
}
