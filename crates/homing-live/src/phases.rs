//! The engine's own CPU time, by what it was used for.

use homing_linux::clock;
use std::collections::BTreeMap;
use std::time::Duration;

/// CPU time of the session's thread since it began, and of its helpers.
#[derive(Debug)]
pub struct Phases {
    last: Duration,
    by: BTreeMap<&'static str, Duration>,
}

impl Phases {
    /// Begins now.
    pub fn begin() -> Phases {
        Phases { last: clock::thread_cpu_time(), by: BTreeMap::new() }
    }

    /// Counts what was used since the last lap, or since the beginning, for `phase`, and returns it.
    pub fn lap(&mut self, phase: &'static str) -> Duration {
        let now = clock::thread_cpu_time();
        let used = now.saturating_sub(std::mem::replace(&mut self.last, now));
        *self.by.entry(phase).or_default() += used;
        used
    }

    /// Adds what others used.
    pub fn add(&mut self, phase: &'static str, used: Duration) {
        *self.by.entry(phase).or_default() += used;
    }

    /// All of it.
    pub fn total(&self) -> Duration {
        self.by.values().sum()
    }

    /// Seconds by phase.
    pub fn seconds(&self) -> BTreeMap<String, f64> {
        self.by.iter().map(|(phase, used)| ((*phase).to_owned(), used.as_secs_f64())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn laps_make_up_the_whole() {
        let mut phases = Phases::begin();
        let begin = clock::thread_cpu_time();
        while clock::thread_cpu_time() < begin + Duration::from_millis(3) {}
        assert!(phases.lap("work") >= Duration::from_millis(3));
        phases.lap("rest");
        phases.add("helpers", Duration::from_millis(5));
        assert!(phases.total() >= Duration::from_millis(8));
        assert_eq!(phases.seconds().len(), 3);
        assert_eq!(phases.seconds()["helpers"], 0.005);
    }
}
