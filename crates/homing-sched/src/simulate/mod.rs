//! Plays a workload on a machine: modelled time, no clock.
//!
//! Between two events every job goes on at one pace: [`pace`] finds it from where the job's threads and pages are and
//! how crowded each memory is. Events are arrivals, the end of jobs, iterations that were to be measured, times that
//! the manager named, bursts of time-shared threads ([`native`]), and the intervals at which the page policy acts
//! ([`memory`]). The same seed gives the same result.
//!
//! What is left out: input and output, links between nodes (memories do queue), and the time in which processors are
//! handed over, since parallel regions are much shorter than what is modelled here.

mod job;
mod memory;
mod native;
mod pace;
#[cfg(test)]
mod tests;
mod usage;

use super::layout::Hardware;
use super::manager::{Allocation, Decision, Manager, Scene, Vacate, Why};
use super::outcome::Outcome;
use super::workload::{alone_s, Arrival, Workload};
use super::{JobId, MOST_S};
use homing_core::policy::Policy;
use job::Job;
use memory::Memory;
use native::Native;
use pace::Paces;
use rand::SeedableRng;
use rand_xoshiro::SplitMix64;
use usage::Usage;

/// What is played.
pub struct Setup<'a> {
    /// Applications and jobs.
    pub workload: &'a Workload,
    /// The machine.
    pub hardware: &'a Hardware,
    /// Mean seconds of a burst of a time-shared thread.
    pub burst_s: f64,
    /// Seconds between two decisions of the page policy.
    pub interval_s: f64,
    /// Seed of bursts.
    pub seed: u64,
    /// Whether to keep who ran where (processors by job, locality over time).
    pub pictures: bool,
}

/// Mean burst of a thread under IRIX (Corbalan 2003, table 2): a measured input, from which migrations follow.
pub const IRIX_BURST_S: f64 = 0.243;

/// Seconds between two decisions of the page policy, unless said otherwise.
pub const INTERVAL_S: f64 = 0.25;

/// Steps of a burst or of the page policy, whichever is shorter, that one job may take at most.
const MOST_STEPS: f64 = 1e8;

/// A simulation that cannot go on.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Stuck {
    /// Nothing runs and nothing will.
    #[error("nothing runs at {now_s:.0} s while {waiting} jobs wait, the first for {request} of {cpus} processors")]
    Nothing {
        /// When.
        now_s: f64,
        /// Jobs.
        waiting: usize,
        /// Processors that the first asks for.
        request: u32,
        /// Processors of the machine.
        cpus: usize,
    },
    /// The manager gave a processor twice, or one that is not there.
    #[error("the manager's decision cannot be carried out: {0}")]
    Decision(String),
    /// A job that takes too many steps, or comes too late.
    #[error(
        "job {} of {jobs} comes after {at_s:.0} s and computes for {run_s:.0} s: expected {MOST_S:.0} s and \
         {most_s:.0} s at most; correct or leave out that job, or let bursts and the page policy's intervals be longer",
        number + 1
    )]
    Long {
        /// Which, from 0 by arrival.
        number: usize,
        /// Of how many.
        jobs: usize,
        /// Seconds after the first job.
        at_s: f64,
        /// Seconds that it computes, alone.
        run_s: f64,
        /// Most seconds.
        most_s: f64,
    },
}

/// Plays a workload to its end.
///
/// # Errors
/// See [`Stuck`].
pub fn run(setup: &Setup, manager: &mut dyn Manager, policy: &mut dyn Policy) -> Result<Outcome, Stuck> {
    setup.ends()?;
    Run::new(setup, manager, policy).play()
}

impl Setup<'_> {
    /// Fails where one job takes more steps than [`MOST_STEPS`]: the time of a simulation follows from the number of
    /// jobs then, and not from a number in one of them.
    fn ends(&self) -> Result<(), Stuck> {
        let Workload { apps, arrivals } = self.workload;
        let most_s = MOST_STEPS * self.interval_s.min(self.burst_s / native::STEPS);
        let alone: Vec<f64> = apps.iter().map(|app| alone_s(app, self.hardware) * app.iterations).collect();
        for (number, arrival) in arrivals.iter().enumerate() {
            let (at_s, run_s) = (arrival.at_s, arrival.scale * alone[arrival.app]);
            // Neither holds for what is no number.
            if !(at_s <= MOST_S && run_s <= most_s) {
                return Err(Stuck::Long { number, jobs: arrivals.len(), at_s, run_s, most_s });
            }
        }
        Ok(())
    }
}

struct Run<'a, 'p> {
    setup: &'a Setup<'a>,
    manager: &'a mut dyn Manager,
    memory: Memory<'p>,
    native: Native,
    paces: Paces<'a>,
    usage: Usage,
    now_s: f64,
    /// Jobs that have begun and not ended, by arrival.
    running: Vec<Job<'a>>,
    /// Jobs that wait, by arrival.
    waiting: Vec<JobId>,
    /// Arrivals that came.
    arrived: usize,
    due_s: Option<f64>,
    /// When a node is left, and the pages that leave it.
    vacated: Option<(f64, u64)>,
    next_interval_s: f64,
    outcome: Outcome,
}

impl<'a, 'p> Run<'a, 'p> {
    fn new(setup: &'a Setup<'a>, manager: &'a mut dyn Manager, policy: &'p mut dyn Policy) -> Self {
        Run {
            manager,
            memory: Memory::new(setup.hardware, policy),
            native: Native::new(setup.burst_s, SplitMix64::seed_from_u64(setup.seed)),
            paces: Paces::new(setup.hardware),
            usage: Usage::new(setup.hardware.layout.cpus(), setup.pictures),
            now_s: 0.0,
            running: Vec::new(),
            waiting: Vec::new(),
            arrived: 0,
            due_s: None,
            vacated: None,
            next_interval_s: setup.interval_s,
            outcome: Outcome::new(setup.workload),
            setup,
        }
    }

    fn play(mut self) -> Result<Outcome, Stuck> {
        loop {
            let arrivals = &self.setup.workload.arrivals;
            if self.arrived == arrivals.len() && self.running.is_empty() && self.waiting.is_empty() {
                break;
            }
            self.paces.find(&mut self.running, &self.memory);
            let next = self.next_event()?;
            self.advance(next);
            self.handle()?;
        }
        self.usage.finish(self.now_s, &mut self.outcome);
        self.memory.finish(&mut self.outcome);
        self.outcome.ended(self.now_s, self.setup.hardware.layout.cpus());
        self.outcome.divided(self.manager.division(self.now_s));
        Ok(self.outcome)
    }

    /// When the next thing happens.
    fn next_event(&self) -> Result<f64, Stuck> {
        let active = self.running.iter().any(Job::runs);
        let arrival = self.setup.workload.arrivals.get(self.arrived).map(|arrival| arrival.at_s);
        if !active && arrival.is_none() && self.due_s.is_none() && self.vacated.is_none() {
            let first = self.running.first().map(|job| job.id).or(self.waiting.first().copied());
            let request = first.map_or(0, |id| self.app_of(id).request);
            let (now_s, waiting) = (self.now_s, self.waiting.len() + self.running.len());
            let cpus = self.setup.hardware.layout.cpus();
            return Err(Stuck::Nothing { now_s, waiting, request, cpus });
        }
        let jobs = self.running.iter().filter(|job| job.runs()).map(|job| self.now_s + job.until_s());
        // Where no job has pages there is nothing to look at.
        let interval = self.running.iter().any(|job| job.runs() && job.first_page.is_some());
        let interval = interval.then_some(self.next_interval_s);
        let vacated = self.vacated.map(|(at_s, _)| at_s);
        let others = [arrival, self.due_s, vacated, interval, self.native.next_s()];
        let next = jobs.chain(others.into_iter().flatten()).fold(f64::INFINITY, f64::min);
        Ok(next.max(self.now_s))
    }

    /// All jobs go on until a time.
    fn advance(&mut self, to_s: f64) {
        let dt = to_s - self.now_s;
        let present = self.running.len() + self.waiting.len();
        self.outcome.present(dt, present);
        for job in self.running.iter_mut().filter(|job| job.runs()) {
            let progress = job.advance(dt);
            self.memory.count(job, progress);
        }
        self.now_s = to_s;
    }

    /// What has come due by now.
    fn handle(&mut self) -> Result<(), Stuck> {
        self.end_jobs()?;
        for index in 0..self.running.len() {
            if self.running.get_mut(index).is_some_and(|job| job.measured()) {
                let id = self.running[index].id;
                self.decide(Why::Report(id))?;
            }
        }
        let arrivals = &self.setup.workload.arrivals;
        while arrivals.get(self.arrived).is_some_and(|arrival| arrival.at_s <= self.now_s) {
            self.waiting.push(JobId(self.arrived as u32));
            self.arrived += 1;
            self.decide(Why::Arrival)?;
        }
        if self.due_s.is_some_and(|due| due <= self.now_s) {
            self.due_s = None;
            self.decide(Why::Due)?;
        }
        if let Some((_, moved)) = self.vacated.take_if(|(at_s, _)| *at_s <= self.now_s) {
            self.decide(Why::Vacated { moved, left: 0 })?;
        }
        if self.native.next_s().is_some_and(|next| next <= self.now_s) {
            let layout = &self.setup.hardware.layout;
            self.outcome.process_migrations += self.native.shuffle(&mut self.running, layout, self.now_s);
            self.usage.occupied(self.now_s, &self.running);
        }
        if self.next_interval_s <= self.now_s {
            self.memory.interval(&mut self.running, self.now_s);
            self.usage.locality(self.now_s, &self.running);
            self.next_interval_s = self.now_s + self.setup.interval_s;
        }
        Ok(())
    }

    fn end_jobs(&mut self) -> Result<(), Stuck> {
        let ended: Vec<usize> = (0..self.running.len()).filter(|&i| self.running[i].is_done()).collect();
        for &index in ended.iter().rev() {
            let job = self.running.remove(index);
            self.native.leave(job.id);
            self.memory.end(&job);
            self.outcome.job_ended(&job.ended(self.now_s));
        }
        if !ended.is_empty() {
            self.usage.occupied(self.now_s, &self.running);
            self.decide(Why::Completion)?;
        }
        Ok(())
    }

    fn arrival(&self, id: JobId) -> &'a Arrival {
        &self.setup.workload.arrivals[id.index()]
    }

    fn app_of(&self, id: JobId) -> &'a super::app::App {
        &self.setup.workload.apps[self.arrival(id).app]
    }

    fn decide(&mut self, why: Why) -> Result<(), Stuck> {
        let mut views: Vec<_> = self
            .running
            .iter()
            .map(|job| job.view(self.now_s, self.memory.held(job), self.setup.hardware))
            .collect();
        views.extend(
            self.waiting.iter().map(|&id| Job::waiting(id, self.arrival(id).partition, self.app_of(id))),
        );
        let layout = &self.setup.hardware.layout;
        let decision = self.manager.decide(&Scene { now_s: self.now_s, why, layout, jobs: &views });
        self.check(&decision)?;
        self.carry_out(decision);
        Ok(())
    }

    /// Refuses decisions that no machine could carry out.
    fn check(&self, decision: &Decision) -> Result<(), Stuck> {
        let is_there = |id| self.running.iter().any(|job| job.id == id) || self.waiting.contains(&id);
        decision.check(&self.setup.hardware.layout, is_there).map_err(Stuck::Decision)
    }

    fn carry_out(&mut self, decision: Decision) {
        let layout = &self.setup.hardware.layout;
        self.due_s = decision.wake_s.filter(|&wake| wake > self.now_s);
        for job in &mut self.running {
            if !decision.allocations.iter().any(|(id, _)| *id == job.id) {
                self.native.leave(job.id);
                job.stand_still();
            }
        }
        let mut begun = Vec::new();
        for (id, allocation) in decision.allocations {
            let index = self.running.iter().position(|job| job.id == id).unwrap_or_else(|| {
                self.waiting.retain(|&waiting| waiting != id);
                let arrival = self.arrival(id);
                let measures = self.manager.measures(arrival.partition);
                self.running.push(Job::begin(id, self.app_of(id), arrival, self.now_s, measures));
                begun.push(id);
                self.running.len() - 1
            });
            let job = &mut self.running[index];
            let migrated = match allocation {
                Allocation::Cpus(cpus) => {
                    self.native.leave(id);
                    job.take(cpus, layout)
                }
                Allocation::Shared(threads) => {
                    self.native.share(id, threads as usize);
                    0
                }
            };
            self.outcome.process_migrations += migrated as u64;
        }
        self.outcome.process_migrations += self.native.place(&mut self.running, layout, self.now_s);
        self.running
            .iter_mut()
            .filter(|job| begun.contains(&job.id))
            .for_each(|job| self.memory.begin(job, layout));
        self.memory.threads_moved(&mut self.running, self.now_s);
        if let Some(vacate) = decision.vacate {
            self.vacate(&vacate);
        }
        self.usage.occupied(self.now_s, &self.running);
        self.next_interval_s = self.next_interval_s.min(self.now_s + self.setup.interval_s);
    }

    fn vacate(&mut self, vacate: &Vacate) {
        let hardware = self.setup.hardware;
        let pages = self.memory.vacate(&mut self.running, vacate, &hardware.layout);
        self.vacated = Some((self.now_s + pages * hardware.move_s, pages.round() as u64));
    }
}
