//! Time-sharing by the operating system: threads run in bursts, and after each on whatever CPU is free.
//!
//! The lengths of bursts are exponentially distributed. At the end of a step of half a mean burst, the threads whose
//! bursts have ended get the CPUs that are free then, in a random order: "jobs suffer a lot of unneeded kernel thread
//! migrations" (Corbalan 2003, section 6.1.3).

use super::super::layout::Layout;
use super::super::JobId;
use super::job::Job;
use homing_core::ids::Cpu;
use rand::Rng;
use rand_xoshiro::SplitMix64;
use std::collections::BTreeMap;

/// Steps in a mean burst.
pub(super) const STEPS: f64 = 2.0;

pub(super) struct Native {
    burst_s: f64,
    random: SplitMix64,
    /// Threads of each job that is time-shared.
    threads: BTreeMap<JobId, usize>,
    next_s: Option<f64>,
}

impl Native {
    pub fn new(burst_s: f64, random: SplitMix64) -> Native {
        Native { burst_s, random, threads: BTreeMap::new(), next_s: None }
    }

    pub fn is_used(&self) -> bool {
        !self.threads.is_empty()
    }

    /// When threads change CPUs next.
    pub fn next_s(&self) -> Option<f64> {
        self.next_s
    }

    /// The job's threads are time-shared from now on.
    pub fn share(&mut self, job: JobId, threads: usize) {
        self.threads.insert(job, threads);
    }

    /// The job has CPUs of its own, or none, or ended.
    pub fn leave(&mut self, job: JobId) {
        self.threads.remove(&job);
    }

    /// Gives a CPU to every thread that has none, and takes those of threads that went away. Returns how many threads
    /// changed CPUs.
    pub fn place(&mut self, jobs: &mut [Job], layout: &Layout, now_s: f64) -> u64 {
        self.next_s = self.is_used().then(|| self.next_s.unwrap_or(now_s + self.burst_s / STEPS));
        if !self.is_used() {
            return 0;
        }
        let own = jobs.iter().filter(|job| !self.threads.contains_key(&job.id));
        let mut free = free_beside(own, layout);
        let mut keeps: BTreeMap<JobId, Vec<Cpu>> = BTreeMap::new();
        let mut migrated = 0;
        for job in jobs.iter().filter(|job| self.threads.contains_key(&job.id)) {
            let count = self.threads[&job.id];
            let kept: Vec<Cpu> =
                job.cpus().iter().copied().filter(|cpu| free.contains(cpu)).take(count).collect();
            migrated += (job.cpus().len().min(count) - kept.len()) as u64;
            free.retain(|cpu| !kept.contains(cpu));
            keeps.insert(job.id, kept);
        }
        for job in jobs.iter_mut().filter(|job| self.threads.contains_key(&job.id)) {
            let mut cpus = keeps.remove(&job.id).expect("kept above");
            while cpus.len() < self.threads[&job.id] {
                cpus.push(free.swap_remove(self.random.gen_range(0..free.len())));
            }
            job.put(cpus, layout);
        }
        migrated
    }

    /// Ends bursts. Returns how many threads went to another CPU.
    pub fn shuffle(&mut self, jobs: &mut [Job], layout: &Layout, now_s: f64) -> u64 {
        let step = self.burst_s / STEPS;
        self.next_s = self.is_used().then_some(now_s + step);
        let ends = 1.0 - (-1.0 / STEPS).exp();
        let mut free = free_beside(jobs.iter(), layout);
        let mut ended = Vec::new();
        for (index, job) in jobs.iter().enumerate().filter(|(_, job)| self.threads.contains_key(&job.id)) {
            for (thread, &cpu) in job.cpus().iter().enumerate() {
                if self.random.gen_bool(ends) {
                    ended.push((index, thread));
                    free.push(cpu);
                }
            }
        }
        let mut cpus: Vec<Vec<Cpu>> = jobs.iter().map(|job| job.cpus().to_vec()).collect();
        let mut migrated = 0;
        for (job, thread) in ended {
            let cpu = free.swap_remove(self.random.gen_range(0..free.len()));
            migrated += u64::from(cpus[job][thread] != cpu);
            cpus[job][thread] = cpu;
        }
        for (job, cpus) in jobs.iter_mut().zip(cpus) {
            if self.threads.contains_key(&job.id) {
                job.put(cpus, layout);
            }
        }
        migrated
    }
}

/// The CPUs that none of these jobs has.
fn free_beside<'a>(jobs: impl Iterator<Item = &'a Job<'a>>, layout: &Layout) -> Vec<Cpu> {
    let mut taken = vec![false; layout.cpus()];
    jobs.flat_map(Job::cpus).for_each(|cpu| taken[cpu.index()] = true);
    layout.all().filter(|cpu| !taken[cpu.index()]).collect()
}
