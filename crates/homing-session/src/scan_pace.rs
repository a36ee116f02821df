//! When pages are scanned for hint faults: by what the last scan told, and soon after a change. Programs stand still
//! for a scan, so there is a limit to that. Where scans tell nothing that is new, they may cost next to nothing.

use super::input::Scanned;
use homing_core::ids::Micros;

/// A scan is worth another one soon if more than one in twenty of its samples was new.
const NEW: u64 = 20;

/// Scans that follow a change, whatever they tell. The first only makes mappings known that are new to the kernel:
/// what it has not seen before it leaves for `scan_delay_ms` (`task_numa_work`, Linux 6.4 and later).
const OWED: u32 = 2;

/// Time between scans while something changes, and the longest when nothing does.
const BUSY: Micros = Micros::from_millis(400);
const CALM: Micros = Micros::from_millis(8000);

/// ... but scans use at most 1/200 of a CPU when nothing does, up to this time between two.
const CALM_SHARE: u32 = 200;
const LONGEST: Micros = Micros::from_millis(60_000);

/// Time before a scan that a change asked for.
const SOON: Micros = Micros::from_millis(20);

/// In any stretch of time the programs stand still for at most this, a last scan, and 1/50 of it.
const BURST: Micros = Micros::from_millis(500);
const PART: u32 = 50;

/// The shortest time between scans where moves would gain nothing, whatever changes.
const NOTHING_TO_GAIN: Micros = Micros::from_millis(2000);

/// Programs run at least three times as long as they stood still for the last scan.
const REST: u32 = 3;

/// ... and for this time where it has marked pages: most are used within it. The next scan would mark again what nobody
/// has used yet, which tells nothing.
const FADES: Micros = Micros::from_millis(100);

/// What the scanner does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing, until then.
    Resting(Micros),
    /// It scans.
    Scanning,
}

/// When the next scan is due.
#[derive(Debug)]
pub(super) struct ScanPace {
    /// Time between scans.
    pace: Micros,
    /// Samples since the last scan, and how many were new.
    samples: u64,
    new: u64,
    /// Scans to come whatever the last one told.
    owed: u32,
    stage: Stage,
    /// Nothing could be scanned when it was last asked.
    idle: bool,
    /// The programs must not stand still again before that.
    not_before: Micros,
    /// Moves would gain nothing.
    no_gain: bool,
    /// Time from the last scan to the next.
    period: Micros,
    /// How long the programs may still stand still for scans, and when that was so; below 0 after a last scan.
    left: i64,
    at: Micros,
    /// CPU time of the last scan.
    cost: Micros,
}

impl ScanPace {
    /// The first scan is due.
    pub(super) fn new() -> ScanPace {
        ScanPace {
            pace: BUSY,
            samples: 0,
            new: 0,
            owed: OWED,
            stage: Stage::Resting(Micros(0)),
            idle: false,
            not_before: Micros(0),
            no_gain: false,
            period: BUSY,
            left: BURST.0 as i64,
            at: Micros(0),
            cost: Micros(0),
        }
    }

    /// Time from the last scan to the next.
    pub(super) fn period(&self) -> Micros {
        self.period
    }

    /// When the rest is over; `None` during a scan.
    pub(super) fn due(&self) -> Option<Micros> {
        match self.stage {
            Stage::Resting(until) => Some(until),
            Stage::Scanning => None,
        }
    }

    /// True if a scan is to begin. None begins while the session is behind: it would bring more than can be taken.
    pub(super) fn take_due(&mut self, t: Micros, behind: bool, scannable: bool) -> bool {
        let Stage::Resting(until) = self.stage else { return false };
        if !scannable {
            self.idle = true;
            self.stage = Stage::Resting(until.max(t.plus(BUSY)));
            return false;
        }
        if std::mem::take(&mut self.idle) {
            // What asked for a scan did so when nothing could be scanned.
            self.request(t);
        }
        let Stage::Resting(until) = self.stage else { return false };
        if t < until || behind {
            return false;
        }
        let more = self.rest_on();
        self.stage = more.map_or(Stage::Scanning, |more| Stage::Resting(until.plus(more)));
        more.is_none()
    }

    /// The rest is over: how much longer it is to be, since the last scan told little that was new.
    fn rest_on(&mut self) -> Option<Micros> {
        let (samples, new) = (std::mem::take(&mut self.samples), std::mem::take(&mut self.new));
        if self.owed > 0 {
            self.owed -= 1;
            return None;
        }
        if !self.no_gain && new.saturating_mul(NEW) > samples {
            self.pace = BUSY;
            return None;
        }
        let before = self.pace;
        let cheap = self.cost.times(CALM_SHARE).min(LONGEST);
        let longer = before.times(2).min(CALM);
        // What gains nothing in one phase may gain in the next: that is looked at some times before it is left alone.
        self.pace = if self.no_gain && longer < CALM { longer } else { longer.max(cheap) };
        Some(self.pace.since(before)).filter(|more| more.0 > 0)
    }

    /// Pages were marked, or not everywhere.
    pub(super) fn scanned(&mut self, t: Micros, scan: &Scanned) {
        let Scanned { began, stopped, everywhere, cost } = *scan;
        self.left = self.left_at(t) - stopped.0 as i64;
        self.at = t;
        self.cost = cost;
        let rest = if everywhere && self.owed > 0 && !self.no_gain { self.soon(t) } else { self.pace };
        if !everywhere {
            // A scan that the kernel did not make says nothing.
            self.owed = self.owed.max(1);
        }
        let marked = everywhere && self.owed == 0;
        let owes = Micros(self.left.min(0).unsigned_abs()).times(PART);
        let of_program = owes.max(stopped.times(REST)).max(if marked { FADES } else { Micros(0) });
        self.not_before = t.plus(of_program);
        self.period = t.since(began).plus(of_program.max(self.pace));
        self.stage = Stage::Resting(t.plus(rest.max(of_program)));
    }

    /// What was known is no longer so: threads began, or memory grew. A scan should come soon.
    pub(super) fn request(&mut self, t: Micros) {
        self.owed = if self.no_gain { 1 } else { OWED };
        self.sooner(t);
    }

    /// As [`ScanPace::request`], where the kernel knows the mappings: threads have moved, and one scan tells.
    pub(super) fn request_one(&mut self, t: Micros) {
        self.owed = self.owed.max(1);
        self.sooner(t);
    }

    /// Whether moves would gain nothing, as far as it is known.
    pub(super) fn set_no_gain(&mut self, t: Micros, no_gain: bool) {
        let before = std::mem::replace(&mut self.no_gain, no_gain);
        if no_gain && !before {
            // What was asked for was to tell this.
            self.owed = 0;
        }
        if no_gain {
            self.pace = self.pace.max(NOTHING_TO_GAIN);
        } else if before {
            self.sooner(t);
        }
    }

    fn sooner(&mut self, t: Micros) {
        self.pace = if self.no_gain { NOTHING_TO_GAIN } else { BUSY };
        let soon = if self.no_gain { NOTHING_TO_GAIN } else { self.soon(t) };
        let soon = t.plus(soon).max(self.not_before);
        if let Stage::Resting(until) = &mut self.stage {
            *until = (*until).min(soon);
        }
    }

    /// Counts samples, and how many were new.
    pub(super) fn learnt(&mut self, samples: u64, new: u64) {
        self.samples += samples;
        self.new += new;
    }

    /// How long the programs may stand still at `t`.
    fn left_at(&self, t: Micros) -> i64 {
        (self.left + (t.since(self.at).0 / u64::from(PART)) as i64).min(BURST.0 as i64)
    }

    /// Time before a scan that a change asks for. A program that changes all the time has scans at the common pace.
    fn soon(&self, t: Micros) -> Micros {
        if self.left_at(t) > 0 {
            SOON
        } else {
            BUSY
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(began: u64, stopped: u64, everywhere: bool) -> Scanned {
        let [began, stopped] = [began, stopped].map(Micros::from_millis);
        Scanned { began, stopped, everywhere, cost: Micros(0) }
    }

    #[test]
    fn what_can_be_scanned_at_last_is_scanned_soon() {
        let mut scans = ScanPace::new();
        let busy = BUSY.0;
        assert!(!scans.take_due(Micros(0), false, false) && !scans.take_due(Micros(10), false, false));
        assert!(!scans.take_due(Micros(20), false, true), "it is asked for now");
        assert!(scans.take_due(Micros(20 + SOON.0), false, true) && SOON.0 < busy);
    }

    #[test]
    fn scans_come_soon_while_they_tell_something_new_and_seldom_when_not() {
        let mut scans = ScanPace::new();
        let mut rests = |samples, new, owed: Option<u32>| {
            scans.owed = owed.unwrap_or(scans.owed);
            (scans.samples, scans.new) = (samples, new);
            scans.rest_on()
        };
        assert_eq!(rests(0, 0, None), None, "nothing was scanned yet");
        assert_eq!(rests(100, 0, None), None, "and new mappings need a second scan");
        assert_eq!(rests(1000, 51, None), None);
        assert_eq!(rests(1000, 50, None), Some(BUSY), "twice as long");
        assert_eq!(rests(0, 0, Some(1)), None, "a missed scan is no calm");
        let more: Vec<_> = (0..6).map(|_| rests(1000, 0, None)).collect();
        assert_eq!((more[0], more[4], more[5]), (Some(BUSY.times(2)), None, None), "{more:?}");
        assert_eq!((rests(10, 10, None), rests(1000, 0, None)), (None, Some(BUSY)));
    }

    #[test]
    fn programs_that_change_all_the_time_do_not_stand_still_all_the_time() {
        let mut scans = ScanPace::new();
        let (mut t, mut stopped) = (0, 0);
        while t < 60_000 {
            scans.request(Micros::from_millis(t));
            if scans.take_due(Micros::from_millis(t), false, true) {
                scans.scanned(Micros::from_millis(t + 30), &scan(t, 20, true));
                stopped += 20;
            }
            t += 10;
        }
        assert!((1200..=1720).contains(&stopped), "{stopped} ms of a minute");
        scans.learnt(10, 10);
        let (before, begin) = (stopped, t + 600_000);
        t = begin;
        while t < begin + 10_000 {
            scans.learnt(10, 10);
            if scans.take_due(Micros::from_millis(t), false, true) {
                scans.scanned(Micros::from_millis(t + 50), &scan(t, 50, true));
                stopped += 50;
            }
            t += 10;
        }
        let stopped = stopped - before;
        assert!((550..=750).contains(&stopped), "{stopped} ms of ten seconds after ten calm minutes");
    }

    #[test]
    fn no_scan_begins_while_there_is_nothing_to_scan_or_much_to_take() {
        let mut scans = ScanPace::new();
        let ms = Micros::from_millis;
        assert!(!scans.take_due(ms(0), false, false));
        assert_eq!(scans.due(), Some(BUSY));
        scans.request(ms(100));
        assert_eq!(scans.due(), Some(ms(120)));
        assert!(!scans.take_due(ms(120), true, true) && scans.take_due(ms(121), false, true));
        assert_eq!(scans.due(), None);
        scans.scanned(ms(150), &scan(121, 10, false));
        assert_eq!(scans.due(), Some(ms(550)), "what was missed is made again at the common pace");
    }

    #[test]
    fn where_moves_would_gain_nothing_new_memory_and_new_users_bring_few_scans() {
        let mut scans = ScanPace::new();
        let ms = Micros::from_millis;
        let mut made = |from: u64, to: u64, no_gain: bool| {
            let mut made = 0;
            for t in (from..to).step_by(10).map(ms) {
                scans.set_no_gain(t, no_gain);
                scans.learnt(10, 10);
                scans.request(t);
                if scans.take_due(t, false, true) {
                    made += 1;
                    scans.scanned(t, &Scanned { began: t, stopped: ms(1), everywhere: true, cost: ms(1) });
                }
            }
            made
        };
        let (before, without, after) =
            (made(0, 10_000, false), made(10_000, 20_000, true), made(20_000, 30_000, false));
        assert!(before > 20 && (4..=6).contains(&without) && after > 20, "{before}, {without}, {after}");
    }

    #[test]
    fn scans_that_were_asked_for_are_not_made_once_nothing_is_known_to_be_gained() {
        let made = |no_gain: bool| {
            let mut scans = ScanPace::new();
            let ms = Micros::from_millis;
            assert!(scans.take_due(ms(0), false, true));
            scans.scanned(ms(50), &scan(0, 50, true));
            scans.set_no_gain(ms(60), no_gain);
            (60..1900).any(|t| scans.take_due(ms(t), false, true))
        };
        assert!(made(false) && !made(true));
    }

    #[test]
    fn where_nothing_is_new_scans_cost_next_to_nothing() {
        let mut scans = ScanPace::new();
        let ms = Micros::from_millis;
        let (mut t, mut made, mut last) = (0, 0, 0);
        while t < 600_000 {
            if scans.take_due(ms(t), false, true) {
                (made, last) = (made + 1, t);
                scans.scanned(ms(t), &Scanned { cost: ms(100), ..scan(t, 0, true) });
            }
            t += 10;
        }
        assert!((25..=33).contains(&made), "{made} scans of 100 ms in ten minutes: 1/200 of a CPU");
        scans.request_one(ms(last + 100));
        assert!(
            scans.due().unwrap() <= ms(last + 600) && scans.owed == 1,
            "threads that move are followed soon"
        );
        scans.request(ms(last + 100));
        assert!(scans.due().unwrap() <= ms(last + 600) && scans.owed == OWED, "and new memory");
    }
}
