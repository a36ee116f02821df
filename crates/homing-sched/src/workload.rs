//! What arrives when: a mix of applications with exponential times between arrivals (Corbalan 2003, section 6), or the
//! jobs of a log.
//!
//! The load is the processor time that jobs ask for, as a share of what the machine has: a job of an application asks
//! for the time that it takes, with all of its pages local and nobody beside it, on the processors that it requests.

use super::app::App;
use super::layout::Hardware;
use super::partition::file::Partition;
use super::partition::PartitionId;
use super::swf::{Entry, Log};
use super::BadInput;
use rand::{Rng, SeedableRng};
use rand_xoshiro::SplitMix64;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A job that will come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arrival {
    /// Seconds since the begin.
    pub at_s: f64,
    /// Index of its application.
    pub app: usize,
    /// Its iterations, as a multiple of the application's.
    pub scale: f64,
    /// Its partition.
    pub partition: PartitionId,
}

/// Applications and the jobs of them, by arrival.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Workload {
    /// Applications.
    pub apps: Vec<App>,
    /// Jobs.
    pub arrivals: Vec<Arrival>,
}

/// A mix of applications.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mix {
    /// Its name.
    pub name: String,
    /// Share of the jobs of each application, in any unit.
    pub shares: BTreeMap<String, f64>,
    /// Number of jobs at a load of 100 %; at less, fewer come in the same time.
    pub jobs: u32,
}

/// How the lengths of jobs of one application differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lengths {
    /// They are all the same.
    #[default]
    Same,
    /// They are exponentially distributed, with the application's length as the mean.
    Exponential,
}

/// What the generator makes.
#[derive(Clone, Copy, Debug)]
pub struct Arriving {
    /// Load, 1 for all processors busy.
    pub load: f64,
    /// Number of jobs at a load of 1, instead of the mix's.
    pub jobs: Option<u32>,
    /// Lengths of jobs.
    pub lengths: Lengths,
    /// Seed.
    pub seed: u64,
}

impl Workload {
    /// Jobs of a mix, with exponential times between arrivals.
    pub fn generate(
        mix: &Mix,
        apps: &[App],
        hardware: &Hardware,
        arriving: Arriving,
    ) -> Result<Workload, BadInput> {
        let bad = |message: String| BadInput { file: mix.name.clone(), line: None, message };
        let mut chosen = Vec::new();
        for (name, &share) in &mix.shares {
            let app = apps.iter().position(|app| app.name == *name);
            let app = app.ok_or_else(|| {
                let known: Vec<_> = apps.iter().map(|app| app.name.as_str()).collect();
                bad(format!("no application `{name}`: there are {}", known.join(", ")))
            })?;
            if !(share >= 0.0 && share.is_finite()) {
                return Err(bad(format!("share of {name} = {share}: expected 0 or more")));
            }
            chosen.push((app, share));
        }
        let total: f64 = chosen.iter().map(|(_, share)| share).sum();
        if total <= 0.0 || !(arriving.load > 0.0 && arriving.load.is_finite()) {
            return Err(bad("nothing arrives: expected shares and a load above 0".into()));
        }
        let mean: f64 =
            chosen.iter().map(|&(app, share)| share / total * demand_s(&apps[app], hardware)).sum();
        let between = mean / hardware.layout.cpus() as f64 / arriving.load;
        let full = f64::from(arriving.jobs.unwrap_or(mix.jobs));
        let count = if arriving.jobs.is_some() { full } else { (full * arriving.load.min(1.0)).round() };
        let mut random = SplitMix64::seed_from_u64(arriving.seed);
        let mut at_s = 0.0;
        // Each application gets its share of the jobs; their order is drawn.
        let mut order = dealt(&chosen, total, count as usize);
        for last in (1..order.len()).rev() {
            order.swap(last, random.gen_range(0..=last));
        }
        let arrivals = order.into_iter().map(|app| {
            at_s += exponential(&mut random) * between;
            let scale = match arriving.lengths {
                Lengths::Same => 1.0,
                Lengths::Exponential => exponential(&mut random),
            };
            Arrival { at_s, app, scale, partition: PartitionId::default() }
        });
        let arrivals = arrivals.collect();
        Ok(Workload { apps: apps.to_vec(), arrivals })
    }

    /// The jobs of a log: each computes for the time that it ran on the processors that it had. What is said of an
    /// executable's number in `like` behaves as that application instead, as long as it ran.
    pub fn of_log(log: &Log, like: &BTreeMap<i64, App>, most: u32, hardware: &Hardware) -> Workload {
        let known = |job: &Entry| job.executable.and_then(|number| like.get(&number));
        let asked = |job: &Entry| job.processors.unwrap_or(1);
        let app_of = |job: &Entry| App {
            request: asked(job).min(most),
            ..known(job).cloned().unwrap_or_else(|| App::of_log(asked(job), false))
        };
        // Tables go from few processors to many.
        let mut apps: Vec<App> = log.jobs.iter().map(app_of).collect();
        apps.sort_by(|a, b| (a.request, &a.name).cmp(&(b.request, &b.name)));
        apps.dedup();
        let first = log.jobs.first().map_or(0.0, |job| job.submit_s);
        let arrival = |job: &Entry| {
            let app = app_of(job);
            let alone = alone_s(&app, hardware) * app.iterations;
            // On a machine that is smaller than the job's, the same work takes longer.
            let longer =
                if known(job).is_some() { 1.0 } else { f64::from(asked(job)) / f64::from(app.request) };
            Arrival {
                at_s: job.submit_s - first,
                app: apps.iter().position(|other| *other == app).expect("that of each job is there"),
                scale: job.run_s.unwrap_or(0.0) / alone * longer,
                partition: PartitionId::default(),
            }
        };
        let arrivals = log.jobs.iter().map(arrival).collect();
        Workload { apps, arrivals }
    }

    /// Jobs of a log that had more processors than the machine has.
    pub fn wider(log: &Log, hardware: &Hardware) -> usize {
        let most = hardware.layout.cpus() as u32;
        log.jobs.iter().filter(|job| job.processors.is_some_and(|had| had > most)).count()
    }

    /// Sends jobs to the partitions of their applications, or of their queues in the log that they are from; others
    /// go to the first.
    ///
    /// # Errors
    /// If a partition names an application or a queue of which there is no job.
    pub fn divide(&mut self, partitions: &[Partition], log: Option<&Log>) -> Result<(), BadInput> {
        for (index, partition) in partitions.iter().enumerate() {
            let to = PartitionId(index as u32);
            let none = |message: String| BadInput {
                file: format!("partition `{}`", partition.name),
                line: None,
                message,
            };
            for name in &partition.apps {
                let app = self.apps.iter().position(|app| app.name == *name).ok_or_else(|| {
                    let known: Vec<_> = self.apps.iter().map(|app| app.name.as_str()).collect();
                    none(format!("no application `{name}`: there are {}", known.join(", ")))
                })?;
                let jobs = self.arrivals.iter_mut().filter(|arrival| arrival.app == app);
                jobs.for_each(|arrival| arrival.partition = to);
            }
            for &queue in &partition.queues {
                let of_log = log.map_or(&[][..], |log| &log.jobs);
                let mine = |at: usize| of_log.get(at).is_some_and(|job| job.queue == Some(queue));
                let jobs: Vec<usize> = (0..self.arrivals.len()).filter(|&at| mine(at)).collect();
                if jobs.is_empty() {
                    return Err(none(format!(
                        "queue {queue}: expected the number of a queue of the log's jobs"
                    )));
                }
                jobs.into_iter().for_each(|at| self.arrivals[at].partition = to);
            }
        }
        Ok(())
    }

    /// The load: processor time that is asked for until the last arrival, of what there is.
    pub fn load(&self, hardware: &Hardware) -> f64 {
        let last = self.arrivals.last().map_or(0.0, |arrival| arrival.at_s);
        let asked = self.arrivals.iter().map(|job| job.scale * demand_s(&self.apps[job.app], hardware));
        asked.sum::<f64>() / (last * hardware.layout.cpus() as f64)
    }
}

/// Seconds of an iteration on the processors that it asks for, alone with local pages.
pub fn alone_s(app: &App, hardware: &Hardware) -> f64 {
    let p = app.request.min(hardware.layout.cpus() as u32);
    app.iteration_s(p, local_s(hardware))
}

/// Seconds of a miss to the own node's memory at rest.
pub fn local_s(hardware: &Hardware) -> f64 {
    let own = hardware.layout.all().map(|cpu| {
        let node = hardware.layout.node(cpu);
        hardware.wait(node, node)
    });
    own.fold(f64::INFINITY, f64::min)
}

/// Processor seconds that a job of an application asks for.
fn demand_s(app: &App, hardware: &Hardware) -> f64 {
    let p = app.request.min(hardware.layout.cpus() as u32);
    alone_s(app, hardware) * app.iterations * f64::from(p)
}

/// `count` jobs, dealt out by shares: the largest remainders get what is left.
fn dealt(chosen: &[(usize, f64)], total: f64, count: usize) -> Vec<usize> {
    let exact: Vec<f64> = chosen.iter().map(|(_, share)| share / total * count as f64).collect();
    let mut counts: Vec<usize> = exact.iter().map(|n| n.floor() as usize).collect();
    let mut by_rest: Vec<usize> = (0..chosen.len()).collect();
    by_rest.sort_by(|&a, &b| (exact[b] - exact[b].floor()).total_cmp(&(exact[a] - exact[a].floor())));
    let missing = count - counts.iter().sum::<usize>();
    by_rest.iter().take(missing).for_each(|&index| counts[index] += 1);
    let each = chosen.iter().zip(counts);
    each.flat_map(|(&(app, _), n)| std::iter::repeat_n(app, n)).collect()
}

/// A number from the exponential distribution with mean 1.
pub(super) fn exponential(random: &mut SplitMix64) -> f64 {
    -(1.0 - random.gen::<f64>()).ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use homing_core::machine::Machine;

    fn origin() -> Hardware {
        Hardware::new(&Machine::builtin("origin2000-64").unwrap()).unwrap()
    }

    fn apps() -> Vec<App> {
        vec![
            App { name: "a".into(), ..App::of_log(32, true) },
            App { name: "b".into(), ..App::of_log(2, true) },
        ]
    }

    fn mix(shares: &[(&str, f64)]) -> Mix {
        let shares = shares.iter().map(|&(name, share)| (name.to_string(), share)).collect();
        Mix { name: "mix".into(), shares, jobs: 4000 }
    }

    #[test]
    fn generated_loads_are_what_was_asked_for() {
        for load in [0.6, 1.0] {
            let arriving = Arriving { load, jobs: None, lengths: Lengths::Same, seed: 7 };
            let made =
                Workload::generate(&mix(&[("a", 1.0), ("b", 3.0)]), &apps(), &origin(), arriving).unwrap();
            assert_eq!(made.arrivals.len(), (4000.0 * load) as usize);
            assert_eq!(made.arrivals.iter().filter(|job| job.app == 0).count() * 4, made.arrivals.len());
            assert!((made.load(&origin()) / load - 1.0).abs() < 0.1, "{}", made.load(&origin()));
        }
    }

    #[test]
    fn wrong_mixes_are_refused() {
        let arriving = Arriving { load: 1.0, jobs: None, lengths: Lengths::Same, seed: 1 };
        let made = |shares: &[(&str, f64)]| Workload::generate(&mix(shares), &apps(), &origin(), arriving);
        assert!(made(&[("c", 1.0)]).unwrap_err().message.contains("there are a, b"));
        assert!(made(&[("a", 0.0)]).unwrap_err().message.contains("above 0"));
        assert!(made(&[("a", -1.0)]).unwrap_err().message.contains("0 or more"));
    }

    #[test]
    fn jobs_of_a_log_take_as_long_as_they_did() {
        let log =
            super::super::swf::read("1 100 5 50 128 90 512 32 200 -1 1 3 1 7 1 1 -1 -1\n", "x").unwrap();
        let made = Workload::of_log(&log, &BTreeMap::new(), 64, &origin());
        let (job, app) = (made.arrivals[0], &made.apps[0]);
        assert_eq!((job.at_s, app.request), (0.0, 64));
        assert!(
            (alone_s(app, &origin()) * app.iterations * job.scale - 100.0).abs() < 1e-9,
            "half of the processors"
        );
    }
}
