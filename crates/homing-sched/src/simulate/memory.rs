//! Where jobs' pages are, and the page policy that moves them.
//!
//! A job's data is cut into 64 bands by address, of which p threads use 64 / p each, and eight parts that all threads
//! use. One page stands for all of a band: it has the misses of one page, so that the policy sees what it would see of
//! each, and its move costs that of all. The policy is one of [`homing_core::policy`], driven by
//! [`homing_core::engine`] as everywhere; it gets the counts of each interval as profiles, and is told which threads a
//! manager moved to another node. No band belongs to two threads, since few of the real pages do.

use super::super::app::Init;
use super::super::layout::{Hardware, Layout};
use super::super::manager::Vacate;
use super::super::outcome::Outcome;
use super::job::Job;
use homing_core::action::{Action, Kind, Locations, Outcome as Came};
use homing_core::engine::{Engine, Executor, Observation};
use homing_core::ids::{Node, Page, Thread, Time};
use homing_core::policy::{Context, Policy, Sample, ThreadMoved};
use std::collections::BTreeMap;
use std::ops::Range;

/// Bands of a job's own data.
const BANDS: usize = 64;
/// Parts of the data that all its threads use.
const SHARED: usize = 8;
/// What policies that count time in references are told: their default rate.
const REFERENCES_A_SECOND: f64 = 7e6;
/// Samples of a page in an interval at most: each stands for as many misses as that takes, and for this many at least.
const SAMPLES: f64 = 16.0;
const WEIGHT: f64 = 16.0;

/// Where pages are, and which were moved since it was last asked.
struct Homes {
    home: Vec<Node>,
    moved: Vec<Page>,
}

impl Executor for Homes {
    fn at(&self, page: Page) -> Locations {
        Locations::single(self.home[page.index()])
    }

    fn execute(&mut self, action: &Action) -> Came {
        if let Kind::Move { to } | Kind::Collapse { keep: to } = action.kind {
            if self.home[action.page.index()] == to {
                return Came::Refused("the page is there");
            }
            self.home[action.page.index()] = to;
            self.moved.push(action.page);
        }
        if matches!(action.kind, Kind::Replicate { .. }) {
            return Came::Refused("one copy a page");
        }
        Came::Done
    }
}

/// Misses of a page.
struct Counts {
    by_node: Vec<f64>,
    /// The nodes that have some: few of many.
    nodes: Vec<u16>,
}

impl Counts {
    fn add(&mut self, node: Node, misses: f64) {
        let count = &mut self.by_node[node.index()];
        if *count == 0.0 && misses > 0.0 {
            self.nodes.push(node.0);
        }
        *count += misses;
    }

    /// What a policy is told of them in each of several parts, by node; counting begins anew. `writes` is their share.
    fn tell(&mut self, parts: u32, writes: f64, told: &mut Vec<Sample>) {
        told.clear();
        self.nodes.sort_unstable();
        let misses = self.nodes.iter().map(|&node| self.by_node[usize::from(node)]);
        let weight = (misses.sum::<f64>() / SAMPLES).max(WEIGHT);
        for node in self.nodes.drain(..) {
            let misses = std::mem::take(&mut self.by_node[usize::from(node)]);
            if misses >= weight {
                let seen = round(misses / f64::from(parts) / weight);
                let writes = round(seen as f64 * writes);
                let (page, time, at) = (Page(0), Time(0), Locations::single(Node(0)));
                told.push(Sample { page, node: Node(node), reads: seen - writes, writes, weight, time, at });
            }
        }
    }
}

/// Misses of a job's pages in this interval.
struct JobCounts {
    first_page: u32,
    writes: f64,
    bands: Vec<Counts>,
    /// Of each of the parts that all threads use: they are used alike.
    shared: Counts,
}

pub(super) struct Memory<'p> {
    engine: Engine<'p, Homes>,
    /// Parts in which the counts of an interval are told. A policy that takes them one by one stands for hardware that
    /// would have raised many interrupts in it; two satisfy one that waits for the second.
    parts: u32,
    nodes: usize,
    page_bytes: u64,
    /// By the first page of a job.
    counts: Vec<JobCounts>,
    /// The nodes of a job's threads when they were last looked at.
    last: BTreeMap<u32, Vec<Node>>,
    move_s: f64,
    shootdown_s: f64,
    pages_moved: f64,
}

impl<'p> Memory<'p> {
    pub fn new(hardware: &Hardware, policy: &'p mut dyn Policy) -> Memory<'p> {
        let parts = if policy.wants_profiles() { 1 } else { 2 };
        let mut engine = Engine::new(policy, Homes { home: Vec::new(), moved: Vec::new() }, false);
        engine.begin(&Context {
            monitor: "misses".into(),
            weight: WEIGHT,
            interval: None,
            iterations: false,
            phases: false,
            page_bytes: hardware.page_bytes,
            nodes: hardware.layout.nodes() as u16,
            loads: false,
            moves: None,
        });
        Memory {
            engine,
            parts,
            nodes: hardware.layout.nodes(),
            page_bytes: hardware.page_bytes,
            counts: Vec::new(),
            last: BTreeMap::new(),
            move_s: hardware.move_s,
            shootdown_s: hardware.shootdown_s,
            pages_moved: 0.0,
        }
    }

    /// Pages that one of the job's own bands stands for, and one of the shared parts.
    fn sizes(&self, job: &Job) -> (f64, f64) {
        let pages = job.app.data.0.div_ceil(self.page_bytes) as f64;
        (pages * (1.0 - job.app.shared) / BANDS as f64, pages * job.app.shared / SHARED as f64)
    }

    /// The job touches its data for the first time. All of its CPUs take part, also those that the baseline of a
    /// measurement leaves alone afterwards.
    pub fn begin(&mut self, job: &mut Job, layout: &Layout) {
        if job.app.data.0 == 0 || job.cpus().is_empty() {
            return;
        }
        let nodes: Vec<Node> = job.cpus().iter().map(|&cpu| layout.node(cpu)).collect();
        let first = self.engine.executor().home.len() as u32;
        job.first_page = Some(first);
        let threads = nodes.len();
        for part in 0..BANDS + SHARED {
            let thread = match job.app.init {
                Init::Serial => 0,
                Init::Parallel if part < BANDS => part * threads / BANDS,
                Init::Parallel => (part - BANDS) * threads / SHARED,
            };
            self.engine.executor_mut().home.push(nodes[thread]);
            let address = u64::from(first) * self.page_bytes + part as u64 * self.page_bytes;
            self.engine.observe(Observation::PageNew(Page(first + part as u32), address));
        }
        self.last.insert(job.id.0, job.nodes.clone());
        let new = || Counts { by_node: vec![0.0; self.nodes], nodes: Vec::new() };
        let bands = (0..BANDS).map(|_| new()).collect();
        self.counts.push(JobCounts { first_page: first, writes: job.app.writes, bands, shared: new() });
    }

    /// Pages of jobs leave a node for the nearest of others, by turns where several are as near. Each takes the time of
    /// a move of the node's own CPUs, which stand idle, and interrupts the job's. Gives their number.
    pub fn vacate(&mut self, jobs: &mut [Job], vacate: &Vacate, layout: &Layout) -> f64 {
        let far = |node: &Node| layout.distance(vacate.node, *node);
        let least = vacate.to.iter().map(far).fold(f64::INFINITY, f64::min);
        let nearest: Vec<Node> = vacate.to.iter().copied().filter(|node| far(node) <= least).collect();
        let (mut left, mut all) = (nearest.iter().cycle(), 0.0);
        for job in jobs.iter_mut().filter(|job| vacate.jobs.contains(&job.id)) {
            let Some(first) = job.first_page.map(|first| first as usize) else { continue };
            let (own, shared) = self.sizes(job);
            let homes = &mut self.engine.executor_mut().home[first..first + BANDS + SHARED];
            let mut pages = 0.0;
            for (part, home) in homes.iter_mut().enumerate().filter(|(_, home)| **home == vacate.node) {
                let Some(&to) = left.next() else { break };
                *home = to;
                pages += if part < BANDS { own } else { shared };
            }
            job.moved(pages, pages * self.shootdown_s);
            all += pages;
        }
        self.pages_moved += all;
        all
    }

    /// The job's pages go away.
    pub fn end(&mut self, job: &Job) {
        self.last.remove(&job.id.0);
        let Some(first) = job.first_page else { return };
        self.counts.retain(|counts| counts.first_page != first);
        for page in first..first + (BANDS + SHARED) as u32 {
            self.engine.observe(Observation::PageGone(Page(page)));
        }
    }

    /// The nodes of the job's pages: of its bands, then of what all threads use.
    pub fn homes(&self, job: &Job) -> &[Node] {
        let of_job =
            |first: u32| &self.engine.executor().home[first as usize..first as usize + BANDS + SHARED];
        job.first_page.map_or(&[], of_job)
    }

    /// The job's pages at each node.
    pub fn held(&self, job: &Job) -> Vec<f64> {
        let mut held = vec![0.0; self.nodes];
        let (own, shared) = self.sizes(job);
        for (part, home) in self.homes(job).iter().enumerate() {
            held[home.index()] += if part < BANDS { own } else { shared };
        }
        held
    }

    /// The shares of the misses of a job's serial work by memory: they go to all of its data.
    pub fn serial_shares(&self, job: &Job) -> Vec<(usize, f64)> {
        let held = self.held(job);
        let pages: f64 = held.iter().sum();
        held.into_iter().map(|held| held / pages).enumerate().filter(|(_, share)| *share > 0.0).collect()
    }

    /// For each thread of a job the shares of its misses in parallel work by memory.
    pub fn shares(&self, job: &Job) -> Vec<Vec<(usize, f64)>> {
        let threads = job.nodes.len();
        let Some(first) = job.first_page.map(|first| first as usize) else {
            return vec![Vec::new(); threads];
        };
        let homes = &self.engine.executor().home;
        let mut of_all = vec![0.0; self.nodes];
        for home in &homes[first + BANDS..first + BANDS + SHARED] {
            of_all[home.index()] += job.app.shared / SHARED as f64;
        }
        let of_all: Vec<(usize, f64)> =
            of_all.into_iter().enumerate().filter(|(_, share)| *share > 0.0).collect();
        let of_thread = |thread: usize| {
            let mut at = of_all.clone();
            let (bands, share) = bands(thread, threads);
            let share = share * (1.0 - job.app.shared);
            for home in &homes[first..][bands] {
                let home = home.index();
                match at.iter_mut().find(|(node, _)| *node == home) {
                    Some((_, sum)) => *sum += share,
                    None => at.push((home, share)),
                }
            }
            at
        };
        (0..threads).map(of_thread).collect()
    }

    /// Counts the misses of some iterations.
    pub fn count(&mut self, job: &Job, iterations: f64) {
        let (Some(first), threads) = (job.first_page, job.nodes.len()) else { return };
        let misses = iterations * job.parallel_misses;
        let (own, shared) = self.sizes(job);
        let pages = own * BANDS as f64 + shared * SHARED as f64;
        let Some(counts) = self.counts.iter_mut().find(|counts| counts.first_page == first) else { return };
        let of_all = misses * job.app.shared / SHARED as f64 / shared;
        if let Some(&node) = job.nodes.first().filter(|_| job.serial_misses > 0.0) {
            let each = iterations * job.serial_misses / pages;
            counts.bands.iter_mut().for_each(|band| band.add(node, each));
            if shared > 0.0 {
                counts.shared.add(node, each);
            }
        }
        for (thread, &node) in job.nodes.iter().enumerate() {
            let (bands, share) = bands(thread, threads);
            let each = misses * (1.0 - job.app.shared) * share / own;
            counts.bands[bands].iter_mut().for_each(|band| band.add(node, each));
            if shared > 0.0 {
                counts.shared.add(node, of_all);
            }
        }
    }

    /// Tells the policy of threads that a manager moved.
    pub fn threads_moved(&mut self, jobs: &mut [Job], now_s: f64) {
        let time = time(now_s);
        for job in jobs.iter_mut().filter(|job| job.first_page.is_some() && !job.shared) {
            let last = self.last.insert(job.id.0, job.nodes.clone()).unwrap_or_default();
            let moved = last.iter().zip(&job.nodes).enumerate().filter(|(_, (from, to))| from != to);
            for (thread, (&from, &to)) in moved {
                let thread = Thread(job.id.0 * 1024 + thread as u32);
                self.engine.observe(Observation::ThreadMoved(ThreadMoved { thread, from, to, time }));
            }
        }
        self.charge(jobs);
    }

    /// An interval is over: the policy gets the counts and moves pages.
    pub fn interval(&mut self, jobs: &mut [Job], now_s: f64) {
        let time = time(now_s);
        let (mut profile, mut told) = (Vec::new(), Vec::new());
        for JobCounts { first_page, writes, bands, shared } in &mut self.counts {
            let mut pages = (*first_page..).map(Page);
            let alike = bands.iter_mut().map(|band| (band, 1)).chain([(shared, SHARED)]);
            for (counts, same) in alike {
                counts.tell(self.parts, *writes, &mut told);
                for page in pages.by_ref().take(same) {
                    let at = self.engine.at(page);
                    profile.extend(told.iter().map(|sample| Sample { page, time, at, ..*sample }));
                }
            }
        }
        for _ in 1..self.parts {
            self.engine.profiles(&mut profile.clone());
        }
        self.engine.profiles(&mut profile);
        self.engine.observe(Observation::IntervalEnd(time));
        self.charge(jobs);
    }

    /// Lets jobs pay for the pages that moved.
    fn charge(&mut self, jobs: &mut [Job]) {
        let moved = std::mem::take(&mut self.engine.executor_mut().moved);
        for page in moved {
            let of = |job: &&mut Job| {
                job.first_page.is_some_and(|first| (first..first + (BANDS + SHARED) as u32).contains(&page.0))
            };
            let Some(job) = jobs.iter_mut().find(of) else { continue };
            let (own, shared) = self.sizes(job);
            let band = page.0 - job.first_page.unwrap_or_default();
            let pages = if (band as usize) < BANDS { own } else { shared };
            let each = self.move_s / job.threads().max(1) as f64 + self.shootdown_s;
            job.moved(pages, pages * each);
            self.pages_moved += pages;
        }
    }

    pub fn finish(&self, outcome: &mut Outcome) {
        outcome.pages_moved = self.pages_moved;
    }
}

/// The bands that a thread of several uses, and the share of the thread's data that each is.
fn bands(thread: usize, threads: usize) -> (Range<usize>, f64) {
    let from = (thread * BANDS / threads).min(BANDS - 1);
    let to = ((thread + 1) * BANDS / threads).clamp(from + 1, BANDS);
    (from..to, 1.0 / (to - from) as f64)
}

/// The nearest whole number, of two the higher one. (`f64::round` is a call of a library.)
fn round(positive: f64) -> u64 {
    let below = positive as u64;
    below + u64::from(positive - below as f64 >= 0.5)
}

fn time(now_s: f64) -> Time {
    Time((now_s * REFERENCES_A_SECOND) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_share_out_all_bands() {
        for threads in 1..=2 * BANDS {
            let mut users = [0; BANDS];
            for thread in 0..threads {
                let (mine, share) = bands(thread, threads);
                assert!((mine.len() as f64 * share - 1.0).abs() < 1e-9);
                mine.for_each(|band| users[band] += 1);
            }
            assert!(users.iter().all(|&users| users >= 1), "{threads}: every band is used");
            assert!(threads > BANDS || users.iter().all(|&users| users == 1), "{threads}: by one thread");
        }
        assert_eq!(bands(1, 2), (32..64, 1.0 / 32.0));
    }

    #[test]
    fn rounding_is_that_of_the_library() {
        for value in [0.0, 0.49999999999999994, 0.5, 0.9, 1.0, 1.5, 2.4999999999999996, 2.5, 1e9 + 0.5] {
            assert_eq!(round(value) as f64, f64::round(value), "{value}");
        }
    }
}
