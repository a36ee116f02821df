//! How representative samples are: the distance metric of Tikir & Hollingsworth 2008, section 5.1. For a CPU,
//! D = |R_sample - R_all| / R_all, where R is its share of the sampled and of all transactions.

use super::Observed;
use serde::Serialize;

/// Counts of transactions and samples by CPU, and of pages.
#[derive(Clone, Debug, Default)]
pub struct Representation {
    all: Vec<u64>,
    sampled: Vec<u64>,
    pages: Vec<bool>,
    sampled_pages: Vec<bool>,
}

/// What the metric says.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Distance {
    /// D of each CPU that made transactions.
    pub by_cpu: Vec<f64>,
    /// Their mean.
    pub mean: f64,
    /// Transactions sampled, of all, in per cent.
    pub sampled_percent: f64,
    /// Pages with a sample, of those with a transaction, in per cent.
    pub pages_percent: f64,
}

impl Representation {
    /// For this number of CPUs and pages.
    pub fn new(cpus: usize, pages: u32) -> Representation {
        let pages = vec![false; pages as usize];
        Representation {
            all: vec![0; cpus],
            sampled: vec![0; cpus],
            pages: pages.clone(),
            sampled_pages: pages,
        }
    }

    /// A transaction that a thread waits for.
    pub fn transaction(&mut self, cpu: u16, page: u32) {
        self.all[cpu as usize] += 1;
        self.pages[page as usize] = true;
    }

    /// Something that a monitor reports.
    pub fn sample(&mut self, sample: &Observed) {
        if let Some(cpu) = sample.cpu {
            self.sampled[cpu as usize] += sample.reads + sample.writes;
        }
        self.sampled_pages[sample.page as usize] = true;
    }

    /// The metric; distances only if the monitor tells CPUs apart.
    pub fn distance(&self) -> Distance {
        let sum = |counts: &[u64]| counts.iter().sum::<u64>() as f64;
        let (all, sampled) = (sum(&self.all), sum(&self.sampled));
        let share = |count: u64, of: f64| if of > 0.0 { count as f64 / of } else { 0.0 };
        let pairs = self.all.iter().zip(&self.sampled).filter(|(&all, _)| all > 0 && sampled > 0.0);
        let by_cpu: Vec<f64> =
            pairs.map(|(&a, &s)| (share(s, sampled) - share(a, all)).abs() / share(a, all)).collect();
        let pages = |set: &[bool]| set.iter().filter(|&&page| page).count() as u64;
        Distance {
            // `sum` would be -0 where there is nothing.
            mean: by_cpu.iter().fold(0.0, |sum, distance| sum + distance) / (by_cpu.len() as f64).max(1.0),
            by_cpu,
            sampled_percent: 100.0 * if all > 0.0 { sampled / all } else { 0.0 },
            pages_percent: 100.0 * share(pages(&self.sampled_pages), pages(&self.pages) as f64),
        }
    }
}
