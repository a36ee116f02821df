//! A job's speed-up, measured while it runs (Corbalan 2003, section 4: "the Performance Analysis library
//! (SelfAnalyzer)"; Corbalan et al., OSDI 2000).
//!
//! The first iterations run on few processors, the *baseline*; later iterations on p processors have the speed-up
//! S(p) = baseline T(baseline) / T(p): on the baseline the job is taken to be perfectly parallel. An iteration that
//! was running when the processors changed is not counted, nor is the one after it, in which caches and pages follow.
//!
//! Left open by the paper, chosen here: a baseline of four processors for two iterations, and two iterations for each
//! measurement.

use std::collections::BTreeMap;

/// Processors of the baseline.
pub const BASELINE: u32 = 4;
/// Iterations that a measurement needs.
pub const ITERATIONS: u32 = 2;
/// Iterations after a change of processors that are left out.
pub const LEFT_OUT: u32 = 1;

/// Seconds after which a job is measured again.
pub const AGAIN_S: f64 = 10.0;

/// Iterations of a job that are being measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Watch {
    /// The first is the one that begins after this number of iterations.
    from: u64,
    /// How many had ended, and when, once it was so.
    since: Option<(u64, f64)>,
}

impl Watch {
    /// Of iterations after a change of processors, which came when `done` had ended: the one that was running then is
    /// not counted.
    pub fn after_change(done: u64) -> Watch {
        Watch { from: done + 1 + u64::from(LEFT_OUT), since: None }
    }

    /// Takes that `done` iterations have ended, the last of them at `at_s`. Gives the mean seconds of an iteration once
    /// they are known, and then begins again after a while.
    pub fn ended(&mut self, done: u64, at_s: f64) -> Option<f64> {
        let Some((before, since_s)) = self.since else {
            self.since = (done >= self.from).then_some((done, at_s));
            return None;
        };
        if done < before + u64::from(ITERATIONS) || at_s <= since_s {
            return None;
        }
        let seconds = (at_s - since_s) / (done - before) as f64;
        *self = Watch { from: done + (AGAIN_S / seconds).ceil() as u64, since: None };
        Some(seconds)
    }
}

/// What was measured of one job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Analyzer {
    /// The processors of the first measurement, and seconds of an iteration on them.
    baseline: Option<(u32, f64)>,
    /// The last seconds of an iteration by number of processors.
    seconds: BTreeMap<u32, f64>,
}

/// A measured speed-up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpeedUp {
    /// Processors.
    pub processors: u32,
    /// How many times faster than one, as far as the baseline is perfectly parallel.
    pub speed_up: f64,
}

impl SpeedUp {
    /// Speed-up for each processor.
    pub fn efficiency(&self) -> f64 {
        self.speed_up / f64::from(self.processors)
    }
}

impl Analyzer {
    /// Takes the mean seconds of iterations on a number of processors.
    pub fn measured(&mut self, processors: u32, seconds: f64) {
        if seconds > 0.0 && processors > 0 {
            self.baseline.get_or_insert((processors, seconds));
            self.seconds.insert(processors, seconds);
        }
    }

    /// True until the first measurement.
    pub fn is_new(&self) -> bool {
        self.baseline.is_none()
    }

    /// The speed-up on a number of processors that was measured.
    pub fn speed_up(&self, processors: u32) -> Option<SpeedUp> {
        let (base, first) = self.baseline?;
        // The baseline measured anew tells more: pages have come home since.
        let base_s = self.seconds.get(&base).copied().unwrap_or(first);
        let seconds = self.seconds.get(&processors)?;
        Some(SpeedUp { processors, speed_up: f64::from(base) * base_s / seconds })
    }

    /// Seconds of an iteration on a number of processors: as measured, else as `a + b / p` through the two
    /// measurements on both sides of it, or else in proportion to the only one.
    pub fn expected_s(&self, processors: u32) -> Option<f64> {
        let p = f64::from(processors.max(1));
        if let Some(&seconds) = self.seconds.get(&processors) {
            return Some(seconds);
        }
        let below = self.seconds.range(..processors).next_back();
        let above = self.seconds.range(processors..).next();
        let outside = || {
            let mut known: Vec<_> = self.seconds.iter().collect();
            if above.is_none() {
                known.reverse();
            }
            (known.first().copied(), known.get(1).copied())
        };
        let (one, two) = if below.is_some() && above.is_some() { (below, above) } else { outside() };
        let (&p1, &t1) = one?;
        let x = |p: f64| 1.0 / p;
        let Some((&p2, &t2)) = two else { return Some(t1 * f64::from(p1) / p) };
        let slope = (t2 - t1) / (x(f64::from(p2)) - x(f64::from(p1)));
        // Never faster than in proportion to the nearer one, never slower than on the fewer processors.
        let straight = t1 + slope * (x(p) - x(f64::from(p1)));
        let bounds = (t1 * f64::from(p1) / p, t1);
        Some(straight.clamp(bounds.0.min(bounds.1), bounds.0.max(bounds.1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speed_ups_by_hand() {
        let mut job = Analyzer::default();
        assert_eq!((job.speed_up(4), job.expected_s(4)), (None, None));
        job.measured(4, 10.0);
        assert_eq!(job.expected_s(8), Some(5.0), "in proportion");
        job.measured(16, 4.0);
        assert_eq!(job.speed_up(16).unwrap().speed_up, 10.0);
        assert_eq!(job.speed_up(16).unwrap().efficiency(), 0.625);
        // a + b / p through (4, 10) and (16, 4): a = 2, b = 32.
        assert!((job.expected_s(8).unwrap() - 6.0).abs() < 1e-12);
        assert!((job.expected_s(32).unwrap() - 3.0).abs() < 1e-12);
        // The baseline again: faster, since pages came home.
        job.measured(4, 8.0);
        assert_eq!(job.speed_up(16).unwrap().speed_up, 8.0);
        assert_eq!(job.speed_up(8), None);
    }

    #[test]
    fn iterations_around_a_change_are_not_counted_and_the_next_measurement_comes_later() {
        let mut watch = Watch::after_change(10);
        // 11 was running at the change, 12 follows it.
        let found: Vec<_> = (11..=14).map(|done| watch.ended(done, done as f64 * 2.0)).collect();
        assert_eq!(found, [None, None, None, Some(2.0)]);
        assert_eq!(watch.ended(18, 36.0), None, "ten seconds are five iterations");
        assert_eq!((watch.ended(19, 38.0), watch.ended(20, 40.0)), (None, None));
        assert_eq!(watch.ended(29, 43.0), Some(0.5), "many that ended since the last look count all");
    }

    #[test]
    fn more_processors_are_never_expected_to_be_slower_than_fewer_measured_ones() {
        let mut job = Analyzer::default();
        job.measured(4, 10.0);
        job.measured(8, 12.0);
        let at_16 = job.expected_s(16).unwrap();
        assert!((6.0..=12.0).contains(&at_16), "{at_16}");
    }
}
