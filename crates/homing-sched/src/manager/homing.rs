//! Processors and pages decided together.
//!
//! A job that begins gets an equal share, from what is free and then from the largest jobs. What is free otherwise goes
//! processor by processor to the job that gains most by one more, in the logarithm of its speed (so that jobs which
//! scale alike get alike), as far as the speed-up that was measured says that the processor does half of a processor's
//! work at least. After a measurement two jobs trade processors if both together become faster by a tenth.
//!
//! Both are held against what they cost: a change of a job's processors leaves pages behind, which have to be moved or
//! read from far. It is made only if what is gained over the time that the job is expected to go on is more than its
//! pages' moves take; that time is the time that it has run (what has lasted long lasts long), and ten seconds at
//! least. CPUs are chosen near to the job's pages. Jobs are measured as they run: a baseline would leave processors
//! idle.
//!
//! A job begins while fewer run than the level allows, or while an equal share of the processors (or what it asks for)
//! is left that does not help those that run.

use super::table::{Entry, Settings};
use super::{shares, Decision, JobView, Manager, Measures, Scene, Why};
use crate::measure::SpeedUp;
use crate::partition::PartitionId;

/// Share of a processor's work that one more must do for a job.
const LEAST_WORK: f64 = 0.5;
/// Processors that change hands at once, and how much faster two jobs must become together, in logarithms.
const TRADED: usize = 4;
const FAR: f64 = 0.1;
/// Seconds that every job is expected to go on.
const LEAST_AHEAD_S: f64 = 10.0;

pub(super) const ENTRY: Entry = Entry {
    name: "homing",
    source: "this project; docs/scheduling.md",
    summary:
        "shares by measured gain, changed only where that is worth the pages left behind; CPUs near the pages",
    time_shares: false,
    build: |settings| Box::new(Together { settings }),
};

struct Together {
    settings: Settings,
}

/// Seconds of an iteration in units of the first measurement, as far as it is known: in proportion before.
fn seconds(job: &JobView, processors: usize) -> f64 {
    job.measured.expected_s(processors as u32).unwrap_or(1.0 / processors as f64)
}

/// How much of a processor's work the next one does for a job.
fn next_work(job: &JobView, has: usize) -> f64 {
    let base = job
        .measured
        .speed_up(job.cpus.len() as u32)
        .map_or(1.0, |found: SpeedUp| found.speed_up * seconds(job, job.cpus.len()));
    base / seconds(job, has + 1) - base / seconds(job, has)
}

impl Together {
    /// The shares that would be best if changes cost nothing.
    fn best(jobs: &[&JobView], cpus: usize) -> Vec<usize> {
        let mut counts: Vec<usize> = jobs.iter().map(|job| shares::least_of(job)).collect();
        let mut left = cpus.saturating_sub(counts.iter().sum());
        while left > 0 {
            let gain = |i: &usize| (seconds(jobs[*i], counts[*i]) / seconds(jobs[*i], counts[*i] + 1)).ln();
            let wants = (0..jobs.len()).filter(|&i| {
                counts[i] < jobs[i].request as usize && next_work(jobs[i], counts[i]) >= LEAST_WORK
            });
            let Some(first) = wants.max_by(|a, b| gain(a).total_cmp(&gain(b)).then(b.cmp(a))) else { break };
            counts[first] += 1;
            left -= 1;
        }
        counts
    }

    /// Jobs that run, and those that begin.
    fn admitted<'a>(&self, scene: &'a Scene) -> Vec<&'a JobView> {
        let mut jobs = shares::admitted(scene, self.settings.level);
        let cpus = scene.layout.cpus();
        for job in scene.waiting().skip(jobs.len() - scene.running().count()) {
            let unused = cpus - Self::best(&jobs, cpus).iter().sum::<usize>().min(cpus);
            let known = jobs.iter().all(|job| !job.measured.is_new());
            let enough = (cpus / self.settings.level).min(job.request as usize).max(shares::least_of(job));
            if !known || unused < enough {
                break;
            }
            jobs.push(job);
        }
        jobs
    }
}

/// Seconds that a job gains by another number of processors, less those that its pages' moves take.
fn worth_s(job: &JobView, to: usize) -> f64 {
    let from = job.cpus.len();
    let ahead = job.age_s.max(LEAST_AHEAD_S);
    let gained = ahead * (1.0 - seconds(job, to) / seconds(job, from));
    let left_behind = job.pages.iter().sum::<f64>() * (to.abs_diff(from) as f64 / to.max(from) as f64);
    gained - left_behind * job.move_s
}

impl Together {
    /// Processors for who begins: an equal share, from what is free, then from who has most.
    fn begin(jobs: &[&JobView], counts: &mut [usize], cpus: usize) {
        for new in 0..jobs.len() {
            if !jobs[new].cpus.is_empty() {
                continue;
            }
            let fair = (cpus / jobs.len()).min(jobs[new].request as usize).max(shares::least_of(jobs[new]));
            let mut free = cpus - counts.iter().sum::<usize>();
            while free < fair {
                let most = (0..jobs.len()).filter(|&i| jobs[i].malleable && counts[i] > fair);
                let Some(most) = most.max_by_key(|&i| counts[i]) else { break };
                counts[most] -= 1;
                free += 1;
            }
            counts[new] = fair.min(free);
        }
    }

    /// Deals out what is free to who gains most, as far as it is worth the pages left behind.
    fn grow(jobs: &[&JobView], counts: &mut [usize], cpus: usize) {
        let before = counts.to_vec();
        let mut left = cpus - counts.iter().sum::<usize>();
        while left > 0 {
            let wants = (0..jobs.len()).filter(|&i| {
                let malleable = jobs[i].malleable && counts[i] < jobs[i].request as usize;
                malleable && next_work(jobs[i], counts[i]) >= LEAST_WORK
            });
            let gain = |i: usize| (seconds(jobs[i], counts[i]) / seconds(jobs[i], counts[i] + 1)).ln();
            let Some(first) = wants.max_by(|&a, &b| gain(a).total_cmp(&gain(b)).then(b.cmp(&a))) else {
                break;
            };
            counts[first] += 1;
            left -= 1;
        }
        for i in 0..jobs.len() {
            if !jobs[i].cpus.is_empty() && counts[i] > before[i] && worth_s(jobs[i], counts[i]) <= 0.0 {
                counts[i] = before[i];
            }
        }
    }

    /// Lets the job that was just measured trade processors with another one, if both together are faster by far.
    fn trade(scene: &Scene, jobs: &[&JobView], counts: &mut [usize]) {
        let Why::Report(asked) = scene.why else { return };
        let change = |i: usize, to: usize| (seconds(jobs[i], counts[i]) / seconds(jobs[i], to)).ln();
        let trades =
            |i: usize| jobs[i].malleable && !jobs[i].measured.is_new() && jobs[i].cpus.len() == counts[i];
        let pairs = (0..jobs.len()).flat_map(|poor| (0..jobs.len()).map(move |rich| (poor, rich)));
        let pairs = pairs.filter(|&(poor, rich)| {
            poor != rich
                && [poor, rich].iter().any(|&i| jobs[i].id == asked)
                && [poor, rich].iter().all(|&i| trades(i))
                && counts[rich] >= 2 * TRADED
                && counts[poor] + TRADED <= jobs[poor].request as usize
        });
        let gain = |&(poor, rich): &(usize, usize)| {
            change(poor, counts[poor] + TRADED) + change(rich, counts[rich] - TRADED)
        };
        let worth = |&(poor, rich): &(usize, usize)| {
            worth_s(jobs[poor], counts[poor] + TRADED) + worth_s(jobs[rich], counts[rich] - TRADED)
        };
        let best = pairs.filter(|pair| gain(pair) > FAR && worth(pair) > 0.0);
        if let Some((poor, rich)) = best.max_by(|a, b| gain(a).total_cmp(&gain(b))) {
            counts[poor] += TRADED;
            counts[rich] -= TRADED;
        }
    }
}

impl Manager for Together {
    fn decide(&mut self, scene: &Scene) -> Decision {
        let jobs = self.admitted(scene);
        let cpus = scene.layout.cpus();
        let mut counts: Vec<usize> = jobs.iter().map(|job| job.cpus.len()).collect();
        shares::complete(&jobs, &mut counts, cpus);
        Self::begin(&jobs, &mut counts, cpus);
        Self::grow(&jobs, &mut counts, cpus);
        Self::trade(scene, &jobs, &mut counts);
        let (jobs, counts): (Vec<&JobView>, Vec<usize>) =
            jobs.into_iter().zip(counts).filter(|(_, count)| *count > 0).unzip();
        Decision { allocations: shares::mapped(scene, &jobs, &counts, true), ..Decision::default() }
    }

    fn measures(&self, _: PartitionId) -> Measures {
        Measures::AsTheyRun
    }
}
