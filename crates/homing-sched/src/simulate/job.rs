//! One job that has begun: how far it is, where its threads run, what was measured of it.

use super::super::app::App;
use super::super::layout::{Hardware, Layout};
use super::super::manager::{JobView, Measures};
use super::super::measure::{Analyzer, AGAIN_S, BASELINE, ITERATIONS, LEFT_OUT};
use super::super::outcome::JobEnded;
use super::super::partition::PartitionId;
use super::super::workload::Arrival;
use super::super::JobId;
use homing_core::ids::{Cpu, Node};

/// Iterations that are being measured, on the job's own clock.
#[derive(Clone, Copy, Debug)]
struct Watch {
    /// The first is the one that begins here.
    from: f64,
    /// When it began.
    since_s: Option<f64>,
}

/// A job.
#[derive(Debug)]
pub(super) struct Job<'a> {
    pub id: JobId,
    pub partition: PartitionId,
    pub app: &'a App,
    began_s: f64,
    /// Iterations that it has, and that are done.
    total: f64,
    pub done: f64,
    /// CPUs that it has: thread i runs on the i-th. The baseline leaves the last ones alone.
    cpus: Vec<Cpu>,
    /// The nodes of its threads.
    pub nodes: Vec<Node>,
    /// Misses of an iteration of that number of threads together, and seconds of one without any.
    pub misses: f64,
    pub busy_s: f64,
    /// Misses of its serial work, and of each thread in its parallel work.
    pub serial_misses: f64,
    pub parallel_misses: f64,
    /// Seconds of an iteration on one processor without misses.
    alone_s: f64,
    /// True if its threads are moved by the operating system, so that each keeps its number.
    pub shared: bool,
    /// Seconds of an iteration at this pace, and if all its pages were local and no memory crowded.
    pub iteration_s: f64,
    pub ideal_s: f64,
    /// Share of the misses that are local, now.
    pub local: f64,
    /// Seconds for which it stands still while pages move.
    pub debt_s: f64,
    /// First of its pages, if it has any.
    pub first_page: Option<u32>,
    analyzer: Analyzer,
    watch: Option<Watch>,
    measures: Measures,
    /// Seconds in which it had processors.
    ran_s: f64,
    ended: JobEnded,
}

impl<'a> Job<'a> {
    pub fn begin(id: JobId, app: &'a App, arrival: &Arrival, now_s: f64, measures: Measures) -> Job<'a> {
        Job {
            id,
            partition: arrival.partition,
            app,
            began_s: now_s,
            total: app.iterations * arrival.scale,
            done: 0.0,
            cpus: Vec::new(),
            nodes: Vec::new(),
            misses: 0.0,
            busy_s: 0.0,
            serial_misses: 0.0,
            parallel_misses: 0.0,
            alone_s: app.iteration_s(1, 0.0).max(0.0),
            shared: false,
            iteration_s: f64::INFINITY,
            ideal_s: f64::INFINITY,
            local: 1.0,
            debt_s: 0.0,
            first_page: None,
            analyzer: Analyzer::default(),
            watch: None,
            measures,
            ran_s: 0.0,
            ended: JobEnded {
                app: arrival.app,
                partition: arrival.partition,
                arrived_s: arrival.at_s,
                ..JobEnded::default()
            },
        }
    }

    /// A job that has not begun, for managers.
    pub fn waiting(id: JobId, partition: PartitionId, app: &App) -> JobView {
        JobView { partition, ..JobView::waiting(id, app.request, app.malleable) }
    }

    /// The job, for managers.
    pub fn view(&self, now_s: f64, pages: Vec<f64>, hardware: &Hardware) -> JobView {
        JobView {
            running: true,
            age_s: now_s - self.began_s,
            cpus: self.cpus.clone(),
            measured: self.analyzer.clone(),
            pages,
            move_s: self.move_s(hardware),
            ..Job::waiting(self.id, self.partition, self.app)
        }
    }

    /// Seconds that a page's move takes of the whole job: one of its CPUs does it, all are interrupted.
    pub fn move_s(&self, hardware: &Hardware) -> f64 {
        hardware.move_s / self.threads().max(1) as f64 + hardware.shootdown_s
    }

    /// CPUs that it has, whether it uses all or not.
    pub fn cpus(&self) -> &[Cpu] {
        &self.cpus
    }

    /// Threads that run.
    pub fn threads(&self) -> usize {
        match self.measures == Measures::FromBaseline && self.analyzer.is_new() {
            true => self.cpus.len().min(BASELINE as usize),
            false => self.cpus.len(),
        }
    }

    /// True if it has processors.
    pub fn runs(&self) -> bool {
        !self.cpus.is_empty()
    }

    pub fn is_done(&self) -> bool {
        self.done >= self.total * (1.0 - 1e-12)
    }

    /// Gets CPUs; says how many kernel threads went to another CPU.
    pub fn take(&mut self, cpus: Vec<Cpu>, layout: &Layout) -> usize {
        let stays = |list: &[Cpu], other: &[Cpu]| list.iter().filter(|cpu| !other.contains(cpu)).count();
        let migrated = stays(&self.cpus, &cpus).min(stays(&cpus, &self.cpus));
        let threads = self.nodes.len();
        self.cpus = cpus;
        self.shared = false;
        self.settle(layout);
        if self.nodes.len() != threads {
            self.watch_from(self.done.ceil() + f64::from(LEFT_OUT));
        }
        migrated
    }

    /// The operating system put its threads on these CPUs.
    pub fn put(&mut self, cpus: Vec<Cpu>, layout: &Layout) {
        self.cpus = cpus;
        self.shared = true;
        self.settle(layout);
    }

    fn settle(&mut self, layout: &Layout) {
        let threads = self.threads();
        if threads != self.nodes.len() {
            self.misses = self.app.misses_on(threads as u32);
            (self.serial_misses, self.parallel_misses) = self.app.misses_of_threads_on(threads as u32);
            self.busy_s = self.app.busy_s(threads as u32);
        }
        self.nodes.clear();
        self.nodes.extend(self.cpus[..threads].iter().map(|&cpu| layout.node(cpu)));
    }

    /// Has no processors until the next decision.
    pub fn stand_still(&mut self) {
        self.cpus.clear();
        self.nodes.clear();
    }

    fn watch_from(&mut self, from: f64) {
        self.watch = (self.measures != Measures::Nothing).then_some(Watch { from, since_s: None });
    }

    /// Seconds until something happens to it by itself.
    pub fn until_s(&self) -> f64 {
        let mut next = self.total;
        if let Some(watch) = self.watch {
            let at = if watch.since_s.is_some() { watch.from + f64::from(ITERATIONS) } else { watch.from };
            next = next.min(at.max(self.done));
        }
        self.debt_s + (next - self.done) * self.iteration_s
    }

    /// True if that number of iterations is done, up to a microsecond: late in a run rounding is not finer.
    fn reached(&self, iterations: f64) -> bool {
        (iterations - self.done) * self.iteration_s < 1e-6 || self.done >= iterations * (1.0 - 1e-12)
    }

    /// Goes on; returns the iterations that were done.
    pub fn advance(&mut self, dt: f64) -> f64 {
        let worked = (dt - self.debt_s).max(0.0);
        self.debt_s = (self.debt_s - dt).max(0.0);
        let progress = if self.iteration_s > 0.0 { worked / self.iteration_s } else { self.total };
        let before = self.done;
        self.done = (self.done + progress).min(self.total);
        if self.reached(self.total) {
            self.done = self.total;
        }
        let progress = self.done - before;
        self.ran_s += dt;
        let cpus = self.cpus.len() as f64;
        self.ended.cpu_s += dt * cpus;
        self.ended.ideal_cpu_s += progress * self.ideal_s * cpus;
        self.ended.alone_s += progress * self.alone_s;
        let misses = progress * self.misses;
        self.ended.misses += misses;
        self.ended.local_misses += misses * self.local;
        progress
    }

    /// Moves on with its measurement; true if one is complete.
    pub fn measured(&mut self) -> bool {
        let Some(watch) = self.watch else { return false };
        match watch.since_s {
            None if self.reached(watch.from) => {
                self.watch = Some(Watch { since_s: Some(self.ran_s), ..watch });
                false
            }
            Some(since_s) if self.reached(watch.from + f64::from(ITERATIONS)) => {
                let seconds = (self.ran_s - since_s) / f64::from(ITERATIONS);
                self.analyzer.measured(self.threads() as u32, seconds);
                self.watch_from(self.done.ceil() + (AGAIN_S / seconds).ceil());
                true
            }
            _ => false,
        }
    }

    /// What there is to say at its end.
    pub fn ended(self, now_s: f64) -> JobEnded {
        JobEnded { began_s: self.began_s, ended_s: now_s, ran_s: self.ran_s, ..self.ended }
    }

    /// Adds page moves to what it did.
    pub fn moved(&mut self, pages: f64, seconds: f64) {
        self.ended.pages_moved += pages;
        self.debt_s += seconds;
    }
}
