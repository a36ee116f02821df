//! Performance-driven processor allocation (Corbalan, Martorell & Labarta, OSDI 2000; Corbalan 2003, section 5): "tries
//! to allocate the maximum number of processors to the running applications that reach a given target efficiency",
//! from the speed-up that is measured at run time; "the multiprogramming level policy determines when it is convenient
//! to allow the execution of a new application".
//!
//! A job is in one of four states: without a measurement, growing, shrinking, or stable. Left open by the 2003 paper,
//! chosen here:
//! * A job begins on what is free, at most what it asks for. While fewer jobs run than the level allows, the largest
//!   ones give up processors until the new one has an equal share.
//! * It grows and shrinks by four processors. It grows while its efficiency is above 0.9, half-way from the target to
//!   what is super-linear by as much, and processors are free; one that fell below the target by growing goes back.
//! * A stable job grows or shrinks again when a later measurement says so.
//! * Beyond the level, a job begins as soon as processors are free and no job is still to be measured or growing.

use super::table::{Entry, Settings};
use super::{shares, Decision, JobView, Manager, Measures, Scene, Why};
use crate::partition::PartitionId;
use crate::JobId;
use std::collections::BTreeMap;

/// Processors of a step.
const STEP: usize = 4;
/// Efficiency above which a job grows.
const HIGH: f64 = 0.9;

pub(super) const ENTRY: Entry = Entry {
    name: "pdpa",
    source: "Corbalan 2000 (OSDI); Corbalan 2003, section 5",
    summary: "the most processors that a job uses with a target efficiency, measured while it runs",
    time_shares: false,
    build: |settings| Box::new(Pdpa { settings, jobs: BTreeMap::new() }),
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not measured yet.
    New,
    /// Got more processors than this number.
    Growing(usize),
    Shrinking,
    Stable,
}

struct Pdpa {
    settings: Settings,
    jobs: BTreeMap<JobId, State>,
}

impl Pdpa {
    /// The processors and the state of a job that was measured.
    fn judged(&self, job: &JobView, free: usize) -> (usize, State) {
        let (has, asked) = (job.cpus.len(), job.request as usize);
        let Some(found) = job.measured.speed_up(has as u32) else { return (has, self.jobs[&job.id]) };
        let (efficiency, target) = (found.efficiency(), self.settings.target_efficiency);
        let grown = (has + STEP).min(asked).min(has + free);
        let shrunk = has.saturating_sub(STEP).max(1);
        if efficiency < target {
            match self.jobs[&job.id] {
                State::Growing(before) => (before, State::Stable),
                _ if shrunk < has => (shrunk, State::Shrinking),
                _ => (has, State::Stable),
            }
        } else if efficiency > HIGH && grown > has && self.jobs[&job.id] != State::Shrinking {
            (grown, State::Growing(has))
        } else {
            (has, State::Stable)
        }
    }

    /// Jobs with their processors: those that run as they are, those that begin with what is free or given up.
    fn begin<'a>(&mut self, scene: &'a Scene) -> (Vec<&'a JobView>, Vec<usize>) {
        let mut jobs: Vec<&JobView> = scene.running().collect();
        let mut counts: Vec<usize> = jobs.iter().map(|job| job.cpus.len()).collect();
        let cpus = scene.layout.cpus();
        shares::complete(&jobs, &mut counts, cpus);
        for job in scene.waiting() {
            let free = cpus - counts.iter().sum::<usize>();
            let settled = self.jobs.values().all(|state| matches!(state, State::Stable | State::Shrinking));
            let within = jobs.len() < self.settings.level;
            if !(within || (free > 0 && settled)) {
                break;
            }
            let asked = (job.request as usize).min(cpus);
            let fair = if within { asked.min(cpus / (jobs.len() + 1)) } else { 1 };
            let least = if job.malleable { fair } else { asked };
            let mut missing = least.saturating_sub(free);
            while missing > 0 {
                let malleable = (0..jobs.len()).filter(|&i| jobs[i].malleable && counts[i] > least.max(1));
                let Some(largest) = malleable.max_by_key(|&i| counts[i]) else { break };
                counts[largest] -= 1;
                missing -= 1;
            }
            let free = cpus - counts.iter().sum::<usize>();
            if free == 0 || (!job.malleable && free < asked) {
                break;
            }
            jobs.push(job);
            counts.push(asked.min(free));
            self.jobs.insert(job.id, State::New);
        }
        (jobs, counts)
    }
}

impl Manager for Pdpa {
    fn decide(&mut self, scene: &Scene) -> Decision {
        self.jobs.retain(|id, _| scene.running().any(|job| job.id == *id));
        let (jobs, mut counts) = self.begin(scene);
        let mut free = scene.layout.cpus() - counts.iter().sum::<usize>();
        for (job, count) in jobs.iter().zip(&mut counts) {
            // Free processors let jobs grow that were measured before there were any.
            let asked = scene.why == Why::Report(job.id) || (free > 0 && scene.why == Why::Completion);
            if !asked || !job.malleable || job.cpus.len() != *count {
                continue;
            }
            let (now, state) = self.judged(job, free);
            free = free + *count - now.min(*count + free);
            *count = now;
            self.jobs.insert(job.id, state);
        }
        Decision { allocations: shares::mapped(scene, &jobs, &counts, false), ..Decision::default() }
    }

    fn measures(&self, _: PartitionId) -> Measures {
        Measures::FromBaseline
    }
}
