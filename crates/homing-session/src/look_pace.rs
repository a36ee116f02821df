//! When processes are scanned: often while they change, seldom when all is quiet, and never so often that the scans
//! themselves cost much.

use homing_core::ids::Micros;

/// Time between two scans while something changes, and when nothing does.
const BUSY: Micros = Micros::from_millis(200);
const QUIET: Micros = Micros::from_millis(1600);

/// Scans use at most 1/20 of a CPU while something changes, and 1/400 when nothing does.
const BUSY_SHARE: u32 = 20;
const QUIET_SHARE: u32 = 400;

/// Threads that begin are looked for at once while all scans together have used no more than this and 1/20 of the time:
/// in a program's first second most is to be learnt, and what the first scan finds may be the shell that starts it.
const BURST: Micros = Micros::from_millis(300);

/// ... but are never further apart than this: nothing else reports a process that begins in a cgroup.
const LONGEST: Micros = Micros::from_millis(2000);

/// How soon a scan is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Urgency {
    /// At the pace of something that changes: an access came from where the last scan knew of nothing.
    Busy,
    /// As soon as scans are not too expensive: threads began.
    Soon,
    /// Now: a process has ended, or may use other nodes.
    Now,
}

/// When the next process scan is due.
#[derive(Debug)]
pub(super) struct LookPace {
    last: Option<Micros>,
    every: Micros,
    /// What all scans have used, and may use before threads that begin have to wait.
    used: Micros,
    burst: Micros,
    /// Least time between two scans, and if threads begin.
    rest: Micros,
    soon: Micros,
    /// A scan was asked for and has not been answered.
    asked: bool,
    /// The part of a CPU that scans use while something changes.
    busy_share: u32,
}

impl LookPace {
    /// The first scan is due. Who only watches decides nothing by what has changed: scans cost it no more then.
    pub(super) fn new(watch: bool) -> LookPace {
        let busy_share = if watch { QUIET_SHARE } else { BUSY_SHARE };
        let (none, burst) = (Micros(0), if watch { Micros(0) } else { BURST });
        LookPace {
            last: None,
            every: BUSY,
            used: none,
            burst,
            rest: none,
            soon: none,
            asked: false,
            busy_share,
        }
    }

    /// True if it is time to scan: then a scan counts as asked for.
    pub(super) fn take_due(&mut self, t: Micros) -> bool {
        let due = !self.asked && self.last.is_none_or(|last| t.since(last) >= self.every.max(self.rest));
        self.asked |= due;
        due
    }

    /// A scan was made, which used `cost`; `quiet`: and found nothing new.
    pub(super) fn looked(&mut self, t: Micros, cost: Micros, quiet: bool) {
        (self.last, self.asked) = (Some(t), false);
        self.used = self.used.plus(cost);
        let ahead = self.used > self.burst.plus(Micros(t.0 / u64::from(self.busy_share)));
        self.soon = if ahead { cost.times(self.busy_share) } else { cost };
        self.rest = cost.times(if quiet { QUIET_SHARE } else { self.busy_share }).min(LONGEST);
        self.every = if quiet { self.every.times(2).min(QUIET) } else { BUSY };
    }

    /// Asks for a scan.
    pub(super) fn request(&mut self, urgency: Urgency) {
        (self.every, self.rest) = match urgency {
            Urgency::Busy => (BUSY, self.rest.min(QUIET)),
            Urgency::Soon => (Micros(0), self.rest.min(self.soon)),
            Urgency::Now => (Micros(0), Micros(0)),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scans_come_further_apart_while_nothing_happens_and_at_once_when_something_ends() {
        let mut pace = LookPace::new(false);
        let t = Micros::from_millis(7);
        assert!(pace.take_due(t) && !pace.take_due(t), "one is on the way");
        for _ in 0..10 {
            pace.looked(t, Micros(10), true);
            assert!(!pace.take_due(t));
        }
        assert_eq!(pace.every, QUIET);
        pace.request(Urgency::Busy);
        assert_eq!(pace.every, BUSY);
        pace.looked(t, Micros(1_000_000), false);
        assert_eq!(pace.rest, LONGEST, "expensive scans are seldom");
        pace.request(Urgency::Soon);
        assert!(!pace.take_due(t), "whatever happens");
        pace.request(Urgency::Now);
        assert!(pace.take_due(t));
        pace.looked(t, Micros(1), true);
        pace.request(Urgency::Soon);
        assert_eq!((pace.every, pace.rest), (Micros(0), Micros(20)));
    }

    #[test]
    fn threads_that_begin_are_looked_for_at_once_in_the_first_second() {
        let mut pace = LookPace::new(false);
        let ms = Micros::from_millis;
        let mut rests = (1..10).map(|number| {
            pace.looked(ms(100 * number), ms(50), false);
            pace.request(Urgency::Soon);
            pace.rest
        });
        assert_eq!(rests.next(), Some(ms(50)), "the program runs as long");
        assert_eq!(rests.last(), Some(ms(1000)), "1/20 of a CPU");
    }

    #[test]
    fn who_only_watches_scans_seldom_also_while_something_changes() {
        let mut pace = LookPace::new(true);
        let t = Micros::from_millis(7);
        assert!(pace.take_due(t));
        pace.looked(t, Micros(1000), false);
        pace.request(Urgency::Soon);
        assert_eq!(pace.rest, Micros(400_000), "1/400 of a CPU");
    }
}
