//! How often the processes are looked at: often while they change, seldom when all is quiet, and never so often that the looks
//! themselves cost much.

use std::time::{Duration, Instant};

/// Time between two looks while something changes, and when nothing does.
const BUSY: Duration = Duration::from_millis(200);
const QUIET: Duration = Duration::from_millis(1600);

/// Of so many parts of a CPU's time looks may use one: while something changes, and when nothing does.
const BUSY_SHARE: u32 = 20;
const QUIET_SHARE: u32 = 400;

/// ... but are never further apart than this: a process that begins in a cgroup is told by nothing else.
const LONGEST: Duration = Duration::from_secs(2);

/// When to look next.
#[derive(Debug)]
pub(super) struct Pace {
    looked: Option<Instant>,
    every: Duration,
    /// What the last look used.
    cost: Duration,
    /// Between looks, whatever happens.
    rest: Duration,
}

impl Pace {
    /// The first look is due.
    pub(super) fn new() -> Pace {
        Pace { looked: None, every: BUSY, cost: Duration::ZERO, rest: Duration::ZERO }
    }

    /// True once a look was made.
    pub(super) fn has_looked(&self) -> bool {
        self.looked.is_some()
    }

    /// True if it is time to look.
    pub(super) fn due(&self) -> bool {
        self.looked.is_none_or(|looked| looked.elapsed() >= self.every.max(self.rest))
    }

    /// A look was made, which used `cost`; `quiet`: and found nothing new.
    pub(super) fn looked(&mut self, cost: Duration, quiet: bool) {
        self.looked = Some(Instant::now());
        self.cost = cost;
        self.rest = (cost * if quiet { QUIET_SHARE } else { BUSY_SHARE }).min(LONGEST);
        self.every = if quiet { (self.every * 2).min(QUIET) } else { BUSY };
    }

    /// Something was seen that the last look did not know of.
    pub(super) fn hurry(&mut self) {
        self.every = BUSY;
        self.rest = self.rest.min(QUIET);
    }

    /// Threads began: the next look is due, if looks do not cost too much.
    pub(super) fn soon(&mut self) {
        (self.every, self.rest) = (Duration::ZERO, self.rest.min(self.cost * BUSY_SHARE));
    }

    /// A process has ended: the next look is due.
    pub(super) fn at_once(&mut self) {
        (self.every, self.rest) = (Duration::ZERO, Duration::ZERO);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_come_further_apart_while_nothing_happens_and_at_once_when_something_ends() {
        let mut pace = Pace::new();
        assert!(pace.due() && !pace.has_looked());
        for _ in 0..10 {
            pace.looked(Duration::from_micros(10), true);
            assert!(!pace.due());
        }
        assert_eq!(pace.every, QUIET);
        pace.hurry();
        assert_eq!(pace.every, BUSY);
        pace.looked(Duration::from_secs(1), false);
        assert_eq!(pace.rest, LONGEST, "dear looks are seldom");
        pace.soon();
        assert!(!pace.due(), "whatever happens");
        pace.at_once();
        assert!(pace.due());
        pace.looked(Duration::from_nanos(1), true);
        pace.soon();
        assert_eq!((pace.every, pace.rest), (Duration::ZERO, Duration::from_nanos(20)));
    }
}
