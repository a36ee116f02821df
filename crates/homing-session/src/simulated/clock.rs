//! The session's time in a simulation: modelled ([`homing_core::time`]), reference by reference. What a stretch of the
//! trace took says how fast the next one goes by.

use homing_core::ids::Micros;

/// Session time of a stretch. The slowest CPU says how long one takes, as if threads met at its end: so it must be long
/// beside the turns in which a host lets threads run (some 10 ms), and short beside the 400 ms between scans.
const STRETCH_NS: f64 = 100e6;

/// References of the first stretch, of which nothing is known; each one is at most twice as long as the one before.
const FIRST: u64 = 1024;

/// How far the trace and the session's time have come.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    references: u64,
    ns: f64,
    /// Session time that each reference takes.
    each_ns: f64,
    /// Session time of a modelled nanosecond.
    slow: f64,
    /// When this stretch began and ends.
    began: u64,
    ends: u64,
}

impl Clock {
    /// At the beginning; `first_ns` is a guess at the modelled time of a reference.
    pub(super) fn new(first_ns: f64, slow: f64) -> Clock {
        Clock { references: 0, ns: 0.0, each_ns: (first_ns * slow).max(1e-6), slow, began: 0, ends: FIRST }
    }

    /// Session time.
    pub(super) fn now(&self) -> Micros {
        Micros((self.ns / 1000.0) as u64)
    }

    /// References so far.
    pub(super) fn references(&self) -> u64 {
        self.references
    }

    /// References go by.
    pub(super) fn pass(&mut self, references: u64) {
        self.references += references;
        self.ns += references as f64 * self.each_ns;
    }

    /// All threads stand still.
    pub(super) fn stand_still(&mut self, time: Micros) {
        self.ns += time.0 as f64 * 1000.0;
    }

    /// The program has lost some modelled nanoseconds.
    pub(super) fn lose(&mut self, ns: f64) {
        self.ns += ns * self.slow;
    }

    /// References until `t`, or until the end of the stretch if that is earlier; at least one.
    pub(super) fn until(&self, t: Micros) -> u64 {
        let left = (t.0 as f64 * 1000.0 - self.ns) / self.each_ns;
        (left.max(0.0).ceil() as u64).min(self.ends.saturating_sub(self.references)).max(1)
    }

    /// True if the stretch is over, so that it is to be measured.
    pub(super) fn stretch_is_over(&self) -> bool {
        self.references >= self.ends
    }

    /// The stretch took so much modelled time. Another one begins.
    pub(super) fn measured(&mut self, ns: f64) {
        let length = (self.references - self.began).max(1);
        if ns > 0.0 {
            self.each_ns = ns * self.slow / length as f64;
        }
        let next = ((STRETCH_NS / self.each_ns) as u64).clamp(FIRST, 2 * length.max(FIRST));
        (self.began, self.ends) = (self.references, self.references + next);
    }

    /// Modelled nanoseconds of a session time.
    pub(super) fn modelled_ns(&self, time: Micros) -> f64 {
        time.0 as f64 * 1000.0 / self.slow
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_tells_how_fast_the_next_one_goes() {
        let mut clock = Clock::new(1.0, 2.0);
        assert_eq!((clock.until(Micros(1)), clock.until(Micros(100))), (500, FIRST));
        clock.pass(FIRST);
        assert_eq!((clock.now(), clock.stretch_is_over()), (Micros(2), true));
        clock.measured(1000.0 * FIRST as f64);
        assert_eq!(clock.until(Micros::from_millis(1)), 499, "2 us each");
        assert_eq!(clock.until(Micros::from_millis(99)), 2 * FIRST, "not much longer than the one before");
        clock.stand_still(Micros(10));
        assert_eq!((clock.now(), clock.modelled_ns(Micros(10))), (Micros(12), 5000.0));
        clock.lose(1500.0);
        assert_eq!(clock.now(), Micros(15));
        assert_eq!(clock.until(Micros(0)), 1, "what is late is never more than one reference late");
    }
}
