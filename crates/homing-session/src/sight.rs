//! How much a session was shown of its programs: whether what it knows of them rests on anything, and since when it was
//! shown nothing although it asked.

use super::gain::EVIDENCE;
use homing_core::ids::Micros;
use serde::Serialize;

/// Scans that must have been answered before anything can be decided: a page that was used once need not have a user.
const ANSWERS: u64 = 2;

/// Fewer samples than a verdict on gains needs are too few where memory has more than this many pages for each.
const PAGES: u64 = 8;

/// What a session was shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sight {
    /// Accesses that made sense.
    pub samples: u64,
    /// Scans that were asked for.
    pub asked: u64,
    /// ... after which accesses were seen.
    pub answered: u64,
    /// Time in which a thread ran, as process scans tell.
    pub ran: Micros,
    /// Since when a scan is due, or under way, and nothing was seen; `None` if nothing is waited for.
    pub since: Option<Micros>,
    /// ... and how much of that a thread ran.
    pub waited: Micros,
    /// Most pages that were in memory.
    pub resident: u64,
    /// A scan was made, and no access seen since.
    #[serde(skip)]
    made: bool,
    /// When processes were last looked at.
    #[serde(skip)]
    looked: Micros,
}

impl Sight {
    /// A scan is due or under way.
    pub(super) fn waits(&mut self, t: Micros) {
        self.since.get_or_insert(t);
    }

    /// A scan begins.
    pub(super) fn asks(&mut self, t: Micros) {
        self.asked += 1;
        self.waits(t);
    }

    /// A scan is over, and has marked all pages or not.
    pub(super) fn scanned(&mut self, everywhere: bool) {
        self.made |= everywhere;
    }

    /// Accesses were seen.
    pub(super) fn sees(&mut self, samples: u64) {
        if samples == 0 {
            return;
        }
        self.samples += samples;
        if std::mem::take(&mut self.made) {
            self.answered += 1;
            (self.since, self.waited) = (None, Micros(0));
        }
    }

    /// Processes were looked at: a thread has run since they were last, or none has.
    pub(super) fn looked(&mut self, t: Micros, ran: bool, resident: u64) {
        self.resident = self.resident.max(resident);
        let before = std::mem::replace(&mut self.looked, t);
        if ran {
            self.ran = self.ran.plus(t.since(before));
            if let Some(since) = self.since {
                self.waited = self.waited.plus(t.since(since.max(before)));
            }
        }
    }

    /// What is missing for anything to be decided, by a source that scans or does not; `None` if nothing is, or no
    /// thread ran that could have been seen.
    pub fn missing(&self, scans: bool) -> Option<Missing> {
        let since = self.since.unwrap_or(Micros(0));
        if self.ran == Micros(0) {
            None
        } else if self.samples == 0 {
            Some(Missing { what: "no use of a page was seen", since })
        } else if scans && self.answered < ANSWERS {
            Some(Missing { what: "fewer than two scans for hint faults were answered", since })
        } else if scans && self.waited > self.ran.since(self.waited) {
            Some(Missing { what: "the source has gone silent: no scan was answered any more", since })
        } else if self.samples < EVIDENCE && self.samples * PAGES < self.resident {
            Some(Missing { what: "hardly a page in memory was seen in use", since: Micros(0) })
        } else {
            None
        }
    }
}

/// What is missing, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// In words.
    pub what: &'static str,
    /// Time of the session.
    pub since: Micros,
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Micros {
        Micros::from_millis(ms)
    }

    /// A session of ten seconds that scans each second, looks each 200 ms, and of which the scans in a range are
    /// answered, by that many samples each.
    fn session(answered: std::ops::Range<u64>, samples: u64, ran: bool) -> Sight {
        let mut sight = Sight::default();
        for t in (0..10_000).step_by(200) {
            if t % 1000 == 0 {
                sight.asks(ms(t));
                sight.scanned(answered.contains(&(t / 1000)));
            }
            if t % 1000 == 400 && answered.contains(&(t / 1000)) {
                sight.sees(samples);
            }
            sight.looked(ms(t), ran, 1000);
        }
        sight
    }

    #[test]
    fn a_source_that_never_speaks_or_falls_silent_is_told_with_its_time() {
        let what = |sight: Sight| sight.missing(true).map(|missing| (missing.what, missing.since));
        assert_eq!(what(session(0..10, 500, true)), None);
        assert_eq!(what(session(0..0, 500, true)), Some(("no use of a page was seen", ms(0))));
        let (one, at) = what(session(0..1, 500, true)).unwrap();
        assert!(one.contains("fewer than two scans") && at == ms(1000));
        let (silent, at) = what(session(0..3, 500, true)).unwrap();
        assert!(silent.contains("gone silent") && at == ms(3000), "{silent} {at:?}");
        assert_eq!(what(session(0..8, 500, true)), None, "the last scans may be late");
        let (few, _) = what(session(0..10, 3, true)).unwrap();
        assert!(few.contains("hardly a page"), "30 samples of 1000 pages are no knowledge");
        assert_eq!(what(session(0..0, 500, false)), None, "a program that sleeps uses no page");
        assert_eq!(session(0..1, 500, true).missing(false), None, "a source that does not scan is not asked");
    }

    #[test]
    fn what_is_seen_before_the_scan_is_over_is_no_answer() {
        let mut sight = Sight::default();
        sight.asks(ms(0));
        sight.sees(7);
        sight.scanned(false);
        sight.sees(7);
        assert_eq!((sight.samples, sight.answered, sight.since), (14, 0, Some(ms(0))));
        sight.scanned(true);
        sight.sees(0);
        assert_eq!(sight.answered, 0);
        sight.sees(1);
        assert_eq!((sight.answered, sight.since), (1, None));
    }
}
