//! Recording in windows: one in each period, at a random place in it, so that what is recorded stands for what is not.

use homing_linux::channel::Channel;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::fmt;
use std::time::{Duration, Instant};

/// When a program is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    length: Duration,
    period: Duration,
    seed: u64,
}

impl Windows {
    /// A window of this length in each period, at a place that the seed gives. `None`: the window does not fit.
    pub fn new(length: Duration, period: Duration, seed: u64) -> Option<Windows> {
        (!length.is_zero() && length < period).then_some(Windows { length, period, seed })
    }

    /// Nothing is recorded through the channel until its first window opens.
    pub(crate) fn close(channel: &Channel) {
        channel.set_window(CLOSED);
    }
}

impl fmt::Display for Windows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}/{:?}, seed {}", self.length, self.period, self.seed)
    }
}

/// What stands in the wire's header before the first window opens: the number of that window is half of it. Each change
/// adds one: odd numbers are open windows.
const CLOSED: u32 = 2;

/// The windows of one recording.
#[derive(Debug)]
pub(crate) struct Schedule {
    windows: Windows,
    rng: Xoshiro256PlusPlus,
    /// When the period begins that the next window is in, and when that opens.
    period: Instant,
    next: Instant,
    /// When the one that is open closes.
    closes: Option<Instant>,
    state: u32,
}

impl Schedule {
    pub(crate) fn new(windows: Windows, now: Instant) -> Schedule {
        let rng = Xoshiro256PlusPlus::seed_from_u64(windows.seed);
        let mut schedule = Schedule { windows, rng, period: now, next: now, closes: None, state: CLOSED };
        schedule.choose();
        schedule
    }

    fn choose(&mut self) {
        let room = (self.windows.period - self.windows.length).as_nanos() as u64;
        self.next = self.period + Duration::from_nanos(self.rng.gen_range(0..=room));
    }

    /// Opens or closes a window if it is time. Gives the number for the header, and how long it holds.
    pub(crate) fn turn(&mut self, now: Instant) -> (u32, Duration) {
        match self.closes {
            Some(closes) if now >= closes => {
                self.closes = None;
                self.state += 1;
                while self.period + self.windows.period <= now {
                    self.period += self.windows.period;
                }
                if self.next >= self.period {
                    self.period += self.windows.period;
                }
                self.choose();
            }
            None if now >= self.next => {
                self.closes = Some(now + self.windows.length);
                self.state += 1;
            }
            _ => {}
        }
        (self.state, self.closes.unwrap_or(self.next).saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the header says, and when it changed, where homing looks every `step`.
    fn changes(windows: Windows, step: Duration, looks: u32) -> Vec<(u32, Duration)> {
        let begin = Instant::now();
        let mut schedule = Schedule::new(windows, begin);
        let mut seen = vec![(CLOSED, Duration::ZERO)];
        for look in 0..looks {
            let at = step * look;
            let (state, _) = schedule.turn(begin + at);
            if seen.last().is_some_and(|&(last, _)| last != state) {
                seen.push((state, at));
            }
        }
        seen
    }

    #[test]
    fn one_window_in_each_period_wherever_the_seed_puts_it() {
        let ms = Duration::from_millis;
        let windows = Windows::new(ms(50), ms(1000), 7).unwrap();
        let seen = changes(windows, ms(1), 100_000);
        let opened: Vec<Duration> =
            seen.iter().filter(|(state, _)| state % 2 == 1).map(|&(_, at)| at).collect();
        assert!((99..=100).contains(&opened.len()), "{}", opened.len());
        assert!(seen.windows(2).all(|pair| pair[1].0 == pair[0].0 + 1));
        let places: Vec<u128> = opened.iter().map(|at| at.as_millis() % 1000).collect();
        let periods: Vec<u128> = opened.iter().map(|at| at.as_millis() / 1000).collect();
        assert!(periods.windows(2).all(|pair| pair[1] == pair[0] + 1), "{periods:?}");
        assert!(places.iter().all(|&place| place <= 951));
        let mean = places.iter().sum::<u128>() / places.len() as u128;
        assert!((400..550).contains(&mean), "windows gather at {mean} ms of their periods");
        for pair in seen.windows(2).filter(|pair| pair[0].0 % 2 == 1) {
            assert!((50..=51).contains(&(pair[1].1 - pair[0].1).as_millis()));
        }
        assert_ne!(
            changes(Windows::new(ms(50), ms(1000), 8).unwrap(), ms(1), 3000),
            changes(windows, ms(1), 3000)
        );
    }

    #[test]
    fn a_late_look_leaves_periods_out() {
        let ms = Duration::from_millis;
        let seen = changes(Windows::new(ms(1), ms(10), 0).unwrap(), ms(25), 40);
        assert!(seen.len() > 30 && seen.windows(2).all(|pair| pair[1].0 == pair[0].0 + 1));
    }

    #[test]
    fn a_window_is_shorter_than_its_period() {
        let ms = Duration::from_millis;
        assert_eq!(Windows::new(ms(0), ms(10), 0), None);
        assert_eq!(Windows::new(ms(10), ms(10), 0), None);
        assert_eq!(Windows::new(ms(5), ms(10), 3).unwrap().to_string(), "5ms/10ms, seed 3");
    }
}
