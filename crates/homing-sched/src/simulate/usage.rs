//! Who ran where: bursts of each CPU, and for pictures which job had which CPU and how local each job was.

use super::super::outcome::{Outcome, Point, Segment};
use super::super::JobId;
use super::job::Job;

/// Segments and points that are kept at most; what comes beyond is counted.
const MOST: usize = 200_000;

/// A kernel thread: of a job that has its CPUs for itself one a CPU, else one a thread.
type Process = (JobId, u32);

pub(super) struct Usage {
    /// What each CPU runs, and since when.
    runs: Vec<Option<(Process, f64)>>,
    bursts: u64,
    busy_s: f64,
    pictures: bool,
    segments: Vec<Segment>,
    points: Vec<Point>,
    left_out: u64,
}

impl Usage {
    pub fn new(cpus: usize, pictures: bool) -> Usage {
        Usage {
            runs: vec![None; cpus],
            bursts: 0,
            busy_s: 0.0,
            pictures,
            segments: Vec::new(),
            points: Vec::new(),
            left_out: 0,
        }
    }

    /// Takes what runs now.
    pub fn occupied(&mut self, now_s: f64, jobs: &[Job]) {
        let mut runs: Vec<Option<Process>> = vec![None; self.runs.len()];
        for job in jobs {
            for (thread, cpu) in job.cpus().iter().enumerate() {
                let number = if job.shared { thread as u32 } else { u32::from(cpu.0) };
                runs[cpu.index()] = Some((job.id, number));
            }
        }
        for (cpu, new) in runs.into_iter().enumerate() {
            if self.runs[cpu].map(|(process, _)| process) != new {
                self.ends(cpu, now_s);
                self.runs[cpu] = new.map(|process| (process, now_s));
            }
        }
    }

    fn ends(&mut self, cpu: usize, now_s: f64) {
        let Some(((job, _), since)) = self.runs[cpu].take() else { return };
        if now_s <= since {
            return;
        }
        self.bursts += 1;
        self.busy_s += now_s - since;
        if self.pictures {
            match self.segments.len() < MOST {
                true => self.segments.push(Segment { cpu: cpu as u16, job, from_s: since, to_s: now_s }),
                false => self.left_out += 1,
            }
        }
    }

    /// Takes how local each job's misses are.
    pub fn locality(&mut self, now_s: f64, jobs: &[Job]) {
        if !self.pictures {
            return;
        }
        for job in jobs.iter().filter(|job| job.runs() && job.first_page.is_some()) {
            match self.points.len() < MOST {
                true => self.points.push(Point {
                    at_s: now_s,
                    job: job.id,
                    local: job.local,
                    cpus: job.threads() as u32,
                }),
                false => self.left_out += 1,
            }
        }
    }

    pub fn finish(mut self, now_s: f64, outcome: &mut Outcome) {
        (0..self.runs.len()).for_each(|cpu| self.ends(cpu, now_s));
        outcome.bursts(self.bursts, self.busy_s, self.runs.len());
        outcome.segments = self.segments;
        outcome.locality = self.points;
        outcome.left_out_of_pictures = self.left_out;
    }
}
