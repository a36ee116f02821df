//! Samples of memory that is allocated for this, by a thread of our own.

use crate::source::{pmu, Places};
use homing_linux::perf::record::Record;
use homing_linux::perf::{self, Sampling, Watch};
use homing_linux::proc::Tid;
use serde::Serialize;
use std::time::{Duration, Instant};

/// Samples that are taken at most, and how long that may take.
const MOST: usize = 1000;
const LONGEST: Duration = Duration::from_secs(5);
/// Memory that is read: more than caches hold.
const BYTES: usize = 256 << 20;
const LINE: usize = 64;
/// Lines that are read before the ring is looked at.
const TURN: usize = 1 << 16;
const RING_PAGES: usize = 64;

/// Samples, or why there are none.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Samples {
    /// Why there are none, or fewer than there could be.
    pub why: Option<String>,
    /// Samples of other memory, which are left out.
    pub of_other_memory: usize,
    /// The samples, in order.
    pub taken: Vec<Sample>,
    /// When the first was taken.
    #[serde(skip)]
    begun: u64,
}

/// A sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Sample {
    /// In ns, from the first.
    pub time: u64,
    /// Offset in the memory.
    pub offset: u64,
    /// The CPU.
    pub cpu: u32,
    /// Latency in cycles.
    pub latency: u64,
    /// `union perf_mem_data_src`.
    pub data_src: u64,
    /// Events that it stands for.
    pub period: u64,
}

impl Samples {
    /// Reads memory at random and samples that. For the first thread of a program.
    pub fn take(places: &Places) -> Samples {
        let none = |why: String| Samples { why: Some(why), ..Samples::default() };
        // What is missing may name files.
        let Ok((event, sampling)) = pmu::event(places) else {
            return none("no PMU here that Homing can sample memory accesses with".into());
        };
        let sampling = Sampling { ring_pages: RING_PAGES, ..sampling };
        let me = Watch::Thread(Tid(std::process::id() as i32));
        let mut ring = match perf::open_with_room(event, me, sampling) {
            Ok(ring) => ring,
            Err(error) => return none(format!("perf_event_open: {:?}", error.kind())),
        };
        let memory = vec![1u8; BYTES];
        let start = memory.as_ptr() as u64;
        let mut samples = Samples::default();
        let (begin, mut place) = (Instant::now(), 0usize);
        while samples.taken.len() < MOST && begin.elapsed() < LONGEST {
            for _ in 0..TURN {
                place = place.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let at = (place >> 20) % (BYTES / LINE) * LINE;
                place = place.wrapping_add(usize::from(std::hint::black_box(memory[at])));
            }
            ring.drain(|record| {
                if let Record::Sample(sample) = record {
                    samples.add(sample, start);
                }
            });
        }
        if samples.taken.len() < MOST {
            samples.why = Some(format!("fewer than {MOST} came in {} s", LONGEST.as_secs()));
        }
        samples
    }

    fn add(&mut self, sample: perf::record::Sample, start: u64) {
        let offset = sample.address.wrapping_sub(start);
        if offset >= BYTES as u64 || self.taken.len() >= MOST {
            self.of_other_memory += usize::from(offset >= BYTES as u64);
            return;
        }
        let perf::record::Sample { cpu, weight: latency, data_src, period, .. } = sample;
        if self.taken.is_empty() {
            self.begun = sample.time;
        }
        let time = sample.time.saturating_sub(self.begun);
        self.taken.push(Sample { time, offset, cpu, latency, data_src, period });
    }

    /// What there is, for people.
    pub fn words(&self) -> String {
        let why = self.why.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
        format!(
            "samples: {}{why} of memory that was allocated for this: offset, CPU, latency, source, time from the first",
            self.taken.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_offsets_and_times_begin_with_the_first() {
        let mut samples = Samples::default();
        let at = |address, time| perf::record::Sample { address, time, weight: 300, ..Default::default() };
        for sample in [at(0x7000_0040, 500), at(0x6fff_ffff, 600), at(0x7000_1000, 700)] {
            samples.add(sample, 0x7000_0000);
        }
        let found: Vec<(u64, u64)> = samples.taken.iter().map(|one| (one.offset, one.time)).collect();
        assert_eq!((found, samples.of_other_memory), (vec![(0x40, 0), (0x1000, 200)], 1));
        (0..2 * MOST).for_each(|_| samples.add(at(0x7000_0000, 900), 0x7000_0000));
        assert_eq!(samples.taken.len(), MOST);
        assert!(!serde_json::to_string(&samples).unwrap().contains("begun"));
    }
}
