//! Equal shares, which several managers begin with.

use super::{Allocation, JobView, Scene};
use crate::mapping::{deal, Wanted};
use crate::JobId;

/// The jobs that run if at most `level` may: those that have begun, then those that wait, in order. A job that is not
/// malleable begins only where its request is free beside the least that the others need.
pub fn admitted<'a>(scene: &'a Scene, level: usize) -> Vec<&'a JobView> {
    let mut jobs: Vec<&JobView> = scene.running().collect();
    let mut least: usize = jobs.iter().map(|job| least_of(job)).sum();
    for job in scene.waiting() {
        if jobs.len() >= level || least + least_of(job) > scene.layout.cpus() {
            break;
        }
        least += least_of(job);
        jobs.push(job);
    }
    jobs
}

/// Processors without which a job cannot run.
pub fn least_of(job: &JobView) -> usize {
    if job.malleable {
        1
    } else {
        job.request as usize
    }
}

/// Gives jobs that run and are not malleable, but have less than they ask for, what is free: the number of their
/// threads turned out not to follow.
pub fn complete(jobs: &[&JobView], counts: &mut [usize], cpus: usize) {
    for (at, job) in jobs.iter().enumerate() {
        let free = cpus.saturating_sub(counts.iter().sum());
        if job.running && !job.malleable && !job.cpus.is_empty() {
            counts[at] += free.min((job.request as usize).saturating_sub(counts[at]));
        }
    }
}

/// Equal shares of `cpus` processors, no job more than it asks for; what one leaves, others get. Jobs that are not
/// malleable get what they ask for.
pub fn equal(jobs: &[&JobView], cpus: usize) -> Vec<usize> {
    let mut shares: Vec<usize> = jobs.iter().map(|job| least_of(job)).collect();
    let mut left = cpus.saturating_sub(shares.iter().sum());
    while left > 0 {
        let wants = (0..jobs.len()).filter(|&i| shares[i] < jobs[i].request as usize);
        let Some(poorest) = wants.min_by_key(|&i| shares[i]) else { break };
        shares[poorest] += 1;
        left -= 1;
    }
    shares
}

/// CPUs for numbers of processors, with as few changes as possible.
pub fn mapped(
    scene: &Scene,
    jobs: &[&JobView],
    counts: &[usize],
    near_pages: bool,
) -> Vec<(JobId, Allocation)> {
    let wanted: Vec<Wanted> = jobs
        .iter()
        .zip(counts)
        .map(|(job, &count)| Wanted {
            job: job.id,
            has: job.cpus.clone(),
            count,
            pages: (near_pages && job.pages.iter().any(|&n| n > 0.0)).then(|| job.pages.clone()),
        })
        .collect();
    deal(scene.layout, &wanted).into_iter().map(|(job, cpus)| (job, Allocation::Cpus(cpus))).collect()
}
