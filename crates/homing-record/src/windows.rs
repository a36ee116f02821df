//! Recording in windows: one in each stretch of the program, at a random place in it, so that what is recorded stands
//! for what is not.
//!
//! Stretches and windows are counted in words of references, as threads count them in the wire's header: so each word
//! of a stretch is as likely to be in its window as any other, whatever the program's pace there. A stretch is as long
//! as its period at the pace that the program has had lately between windows. The recorder raises the window's number
//! itself when the count comes to a place that is set here beforehand.
//!
//! Where the program marks its iterations or phases, windows may go from one mark to the next instead, and stretches
//! are counted in marks.

use homing_linux::channel::Channel;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::fmt;
use std::time::{Duration, Instant};

/// When a program is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Windows {
    length: u64,
    period: u64,
    unit: Unit,
    seed: u64,
}

/// What the length of a window is counted in.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Unit {
    /// Nanoseconds that the program takes between windows.
    Time,
    References,
    /// Marks of this name: what lies between one and the next.
    Marks(String),
}

impl Windows {
    /// A window of this length in each period, in the time that the program takes between windows, at a place that the
    /// seed gives. `None`: the window does not fit.
    pub fn of_time(length: Duration, period: Duration, seed: u64) -> Option<Windows> {
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Windows::new(nanoseconds(length), nanoseconds(period), Unit::Time, seed)
    }

    /// The same with lengths in references. What that is in words, windows so far tell.
    pub fn of_references(length: u64, period: u64, seed: u64) -> Option<Windows> {
        Windows::new(length, period, Unit::References, seed)
    }

    /// Of each `each` stretches between marks of this name one is a window; the seed says which. What lies before the
    /// first mark is in no window.
    pub fn of_marks(name: &str, each: u64, seed: u64) -> Option<Windows> {
        Windows::new(1, each, Unit::Marks(name.to_owned()), seed)
    }

    /// The name of the mark that windows go by.
    pub fn mark(&self) -> Option<&str> {
        match &self.unit {
            Unit::Marks(name) => Some(name),
            Unit::Time | Unit::References => None,
        }
    }

    fn new(length: u64, period: u64, unit: Unit, seed: u64) -> Option<Windows> {
        (length > 0 && length < period).then_some(Windows { length, period, unit, seed })
    }

    /// Nothing is recorded through the channel until its first window opens.
    pub(crate) fn close(channel: &Channel) {
        channel.set_window(CLOSED);
    }
}

impl fmt::Display for Windows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.unit {
            Unit::Marks(name) => write!(f, "mark:{name}/{}", self.period)?,
            Unit::Time => {
                let [length, period] = [self.length, self.period].map(Duration::from_nanos);
                write!(f, "{length:?}/{period:?}")?;
            }
            Unit::References => write!(f, "{}/{} references", self.length, self.period)?,
        }
        write!(f, ", seed {}", self.seed)
    }
}

/// What stands in the wire's header before the first window opens: the number of that window is half of it. Each change
/// adds one: odd numbers are open windows.
const CLOSED: u32 = 2;
/// Before its first window a program's pace is taken from this part of a period,
const PACE_PART: u32 = 16;
/// and from no longer than this.
const PACE_TIME: Duration = Duration::from_millis(5);
/// The fewest words of a window: each thread begins and ends it where it next looks, some thousands of words later.
const LEAST: f64 = 4096.0;
/// What a mark adds to the count in the wire's header (`HOMING_PLACE`): places in it are no more exact.
const MARK: u64 = 256;
/// Between two looks.
const LOOKS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(20));

/// How far the program has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// What stands in the wire's header: the window, and words of references, or marks.
    pub window: u32,
    pub words: u64,
    /// References of the windows so far, and their words.
    pub references: u64,
    pub window_words: u64,
}

/// The windows of one recording.
#[derive(Debug)]
pub(crate) struct Schedule {
    windows: Windows,
    rng: Xoshiro256PlusPlus,
    /// Where the next stretch begins, in words, and the number that opens its window.
    stretch: f64,
    next: u32,
    /// A place that cannot be set yet.
    waits: Option<(u32, u64)>,
    last: Option<(Instant, Progress)>,
    /// Since the last stretch was chosen: what the program has taken between windows, and the words of that.
    closed: Duration,
    closed_words: u64,
    /// When that was, and how far the program had come; and the pace that was found, in words a nanosecond.
    chosen: Option<(Instant, u64)>,
    pace: f64,
}

impl Schedule {
    pub(crate) fn new(windows: Windows) -> Schedule {
        Schedule {
            rng: Xoshiro256PlusPlus::seed_from_u64(windows.seed),
            windows,
            stretch: 0.0,
            next: CLOSED + 1,
            waits: None,
            last: None,
            closed: Duration::ZERO,
            closed_words: 0,
            chosen: None,
            pace: 0.0,
        }
    }

    /// The most that is to pass between two looks.
    pub(crate) fn holds(&self) -> Duration {
        match self.windows.unit {
            Unit::Time => (Duration::from_nanos(self.windows.period) / PACE_PART).clamp(LOOKS.0, LOOKS.1),
            Unit::References | Unit::Marks(_) => LOOKS.0,
        }
    }

    /// The numbers that the window is to have from which word on, as far as they can be set now.
    pub(crate) fn look(&mut self, now: Instant, progress: Progress) -> [Option<(u32, u64)>; 2] {
        self.time(now, progress);
        let mut set = [None, None];
        let can_be_set = |number: u32| progress.window.wrapping_sub(number.wrapping_sub(2)) < u32::MAX / 2;
        set[0] = self.waits.take_if(|(number, _)| can_be_set(*number));
        if self.waits.is_none() && can_be_set(self.next) {
            if let Some((opens, closes)) = self.choose(now, progress) {
                set[1] = Some((self.next, opens));
                self.waits = Some((self.next.wrapping_add(1), closes));
                self.next = self.next.wrapping_add(2);
            }
        }
        if set[0].is_none() {
            set[0] = self.waits.take_if(|(number, _)| can_be_set(*number));
        }
        set
    }

    fn time(&mut self, now: Instant, progress: Progress) {
        if let Some((before, last)) = self.last.replace((now, progress)) {
            if last.window == progress.window && progress.window.is_multiple_of(2) {
                self.closed += now - before;
                let words = progress.words.saturating_sub(last.words);
                self.closed_words = self.closed_words.saturating_add(words);
            }
        }
    }

    /// Words of one nanosecond, or of one reference; `None`: that is not known yet.
    fn pace(&mut self, now: Instant, progress: Progress) -> Option<f64> {
        match self.windows.unit {
            Unit::Time => {
                let enough = (Duration::from_nanos(self.windows.period) / PACE_PART).min(PACE_TIME);
                let between = self.closed_words as f64 / self.closed.as_nanos().max(1) as f64;
                if self.closed_words > 0 && self.closed >= enough {
                    self.pace = between;
                } else if let Some((then, words)) = self.chosen {
                    // Windows came so fast that hardly a look was between two. With windows it is no less than:
                    let whole =
                        progress.words.saturating_sub(words) as f64 / (now - then).as_nanos().max(1) as f64;
                    self.pace = self.pace.max(whole);
                } else {
                    return None;
                }
                (self.closed, self.closed_words) = (Duration::ZERO, 0);
                self.chosen = Some((now, progress.words));
                Some(self.pace)
            }
            Unit::References if progress.references > 0 && progress.window_words > 0 => {
                Some(progress.window_words as f64 / progress.references as f64)
            }
            Unit::References | Unit::Marks(_) => Some(1.0),
        }
    }

    /// Where the window of the next stretch opens and closes.
    fn choose(&mut self, now: Instant, progress: Progress) -> Option<(u64, u64)> {
        if self.windows.mark().is_some() {
            return Some(self.choose_mark(progress));
        }
        let length = (self.windows.length as f64 * self.pace(now, progress)?).max(LEAST);
        let period = length * (self.windows.period as f64 / self.windows.length as f64);
        // Where a part of the stretch has passed, as at the start, its window is in the rest. A stretch that ended
        // before anybody looked has none.
        let now = progress.words as f64;
        if self.stretch + period - length < now {
            self.stretch = now;
        }
        let (first, last) = (self.stretch.max(now), self.stretch + period - length);
        let opens = if first < last { self.rng.gen_range(first..last) } else { last };
        self.stretch += period;
        Some((opens as u64, (opens + length) as u64))
    }

    /// At which marks the next window opens and closes: stretches have as many marks as a period.
    fn choose_mark(&mut self, progress: Progress) -> (u64, u64) {
        let (now, period) = (progress.words / MARK, self.windows.period);
        // Of a stretch of which marks have passed, one of the others; if there is none, the next stretch begins here.
        let stretch = if self.stretch as u64 + period <= now { now } else { self.stretch as u64 };
        let opens = self.rng.gen_range(stretch.max(now) + 1..=stretch + period);
        self.stretch = (stretch + period) as f64;
        (opens.saturating_mul(MARK), (opens + 1).saturating_mul(MARK))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program that makes `pace(t)` words in millisecond t. Returns where each window opened and closed, in words.
    fn run(windows: Windows, pace: impl Fn(u64) -> u64, milliseconds: u64) -> Vec<(u64, u64)> {
        let begin = Instant::now();
        let mut schedule = Schedule::new(windows);
        let (mut progress, mut places) =
            (Progress { window: CLOSED, words: 0, references: 0, window_words: 0 }, [None, None]);
        let (mut found, mut opened) = (Vec::new(), 0);
        for millisecond in 0..milliseconds {
            let set = schedule.look(begin + Duration::from_millis(millisecond), progress);
            for (number, place) in set.into_iter().flatten() {
                assert!(number > progress.window && number <= progress.window + 2, "{number} {progress:?}");
                places[number as usize % 2] = Some((number, place));
            }
            // In a window the program is slower, as it is recorded.
            let words = if progress.window % 2 == 1 { pace(millisecond) / 8 } else { pace(millisecond) };
            for _ in 0..words {
                progress.words += 1;
                progress.window_words += u64::from(progress.window % 2 == 1);
                progress.references += 3 * u64::from(progress.window % 2 == 1);
                let next = progress.window + 1;
                if places[next as usize % 2]
                    .is_some_and(|(number, at)| number == next && progress.words >= at)
                {
                    progress.window = next;
                    match next % 2 {
                        1 => opened = progress.words,
                        _ => found.push((opened, progress.words)),
                    }
                }
            }
        }
        found
    }

    #[test]
    fn one_window_in_each_stretch_wherever_the_seed_puts_it() {
        let ms = Duration::from_millis;
        let windows = Windows::of_time(ms(5), ms(100), 7).unwrap();
        let found = run(windows, |_| 20_000, 20_000);
        // Stretches of 2 million words, windows of 100,000, which take up to 40 ms as they are recorded.
        assert!((145..=156).contains(&found.len()), "{}", found.len());
        for (stretch, (opened, closed)) in found.iter().enumerate() {
            assert!((99_000..=101_000).contains(&(closed - opened)), "{opened} {closed}");
            assert!(
                opened.abs_diff(2_000_000 * stretch as u64 + 950_000) <= 1_000_000,
                "{stretch}: {opened}"
            );
        }
        let mean = found.iter().map(|(opened, _)| opened % 2_000_000).sum::<u64>() / found.len() as u64;
        assert!((840_000..1_060_000).contains(&mean), "windows gather at {mean} words of their stretches");
        let other = run(Windows::of_time(ms(5), ms(100), 8).unwrap(), |_| 20_000, 500);
        assert_ne!(other, found[..other.len()]);
    }

    #[test]
    fn windows_are_counted_in_words_whatever_the_pace() {
        // Half of the time the program is ten times as slow, as it begins. It has as many words a window there.
        let ms = Duration::from_millis;
        let slow = |millisecond: u64| (millisecond / 500).is_multiple_of(2);
        let pace = |millisecond| if slow(millisecond) { 10_000 } else { 100_000 };
        let found = run(Windows::of_time(ms(1), ms(20), 0).unwrap(), pace, 10_000);
        let covered: u64 = found.iter().map(|(opened, closed)| closed - opened).sum();
        let all = found.last().unwrap().1;
        assert!((0.045..0.055).contains(&(covered as f64 / all as f64)), "{covered} of {all}");
        // As many stretches as there are periods, but for the changes of pace, and what windows take.
        assert!((200..500).contains(&found.len()), "{}", found.len());
    }

    #[test]
    fn a_slow_start_does_not_make_short_windows_for_ever() {
        let ms = Duration::from_millis;
        let pace = |millisecond| if millisecond < 20 { 10 } else { 100_000 };
        let found = run(Windows::of_time(ms(5), ms(100), 0).unwrap(), pace, 3000);
        assert!((20..45).contains(&found.len()), "{}", found.len());
        let (opened, closed) = found[found.len() / 2];
        assert!((400_000..600_000).contains(&(closed - opened)));
    }

    /// Iterations of long and short ways between meetings, in words, and what a word costs there; windows open and
    /// close at meetings. Returns how far the mean cost in windows is from that of all.
    fn error_of_iterations(windows: Windows) -> f64 {
        let ways: Vec<(u64, f64)> = [(10_000, 1.0), (8_000, 1.02), (2_500, 1.05), (800, 1.2)]
            .into_iter()
            .chain([(150, 1.6); 12])
            .chain([(800, 1.2), (2_500, 1.05), (9_000, 1.02)])
            .collect();
        let mut schedule = Schedule::new(windows);
        let mut progress = Progress { window: CLOSED, words: 0, references: 0, window_words: 0 };
        let (begin, mut places) = (Instant::now(), [None, None]);
        let (mut all, mut seen) = (0.0, 0.0);
        for &(words, cost) in ways.iter().cycle().take(ways.len() * 20_000) {
            // A word takes 10 ns.
            let now = begin + Duration::from_nanos(progress.words * 10);
            for (number, place) in schedule.look(now, progress).into_iter().flatten() {
                places[number as usize % 2] = Some((number, place));
            }
            let next = progress.window + 1;
            if places[next as usize % 2].is_some_and(|(number, at)| number == next && progress.words >= at) {
                progress.window = next;
            }
            progress.words += words;
            all += words as f64 * cost;
            if progress.window % 2 == 1 {
                progress.window_words += words;
                progress.references += words;
                seen += words as f64 * cost;
            }
        }
        (seen / progress.window_words as f64) / (all / progress.words as f64) - 1.0
    }

    #[test]
    fn parts_of_iterations_are_as_often_in_windows_as_they_should_be() {
        // Windows of a quarter of an iteration to five of them. A way between meetings is in a window if the window's
        // first word is among the last `length` words before it, whatever lies before and behind.
        for length in [100, 200, 350, 500, 1_000, 2_000] {
            let length = Duration::from_micros(length);
            let of = |seed| error_of_iterations(Windows::of_time(length, 10 * length, seed).unwrap());
            let mean = (0..4).map(of).sum::<f64>() / 4.0;
            println!("{length:?}: {:.3} %", 100.0 * mean);
            assert!(mean.abs() < 0.001, "{length:?}: {mean}");
        }
    }

    #[test]
    fn lengths_in_references_become_words_by_what_windows_show() {
        // Three references a word.
        let found = run(Windows::of_references(600_000, 6_000_000, 1).unwrap(), |_| 20_000, 4000);
        let lengths: Vec<u64> = found.iter().map(|(opened, closed)| closed - opened).collect();
        assert!(lengths.len() > 15, "{lengths:?}");
        assert!((599_000..602_000).contains(&lengths[0]), "{lengths:?}");
        assert!(lengths[3..].iter().all(|length| (199_000..202_000).contains(length)), "{lengths:?}");
    }

    #[test]
    fn of_so_many_marks_one_opens_a_window() {
        let windows = Windows::of_marks("step", 4, 3).unwrap();
        // One mark in five milliseconds, and five in one.
        for (every, marks) in [(5, 1), (1, 5)] {
            let found = run(
                windows.clone(),
                |millisecond| 8 * MARK * marks * u64::from(millisecond % every == 0),
                4000,
            );
            let found: Vec<_> = found.iter().map(|(opened, closed)| (opened / MARK, closed / MARK)).collect();
            let all = 4000 / every * marks;
            assert!(found.len() as u64 > all / 8, "{} of {all}", found.len());
            assert!(found.iter().all(|(opened, closed)| opened + 1 == *closed), "{found:?}");
            assert!(found.windows(2).all(|two| two[0].1 <= two[1].0), "{found:?}");
            if every == 5 {
                assert!(found.len() as u64 >= all / 4 - 1);
                let part = |n| found.iter().filter(|(opened, _)| opened % 4 == n).count();
                assert!((0..4).all(|n| part(n) > 20), "{:?}", [part(0), part(1), part(2), part(3)]);
            }
        }
        assert_eq!(Windows::of_marks("step", 1, 0), None);
        assert_eq!(windows.to_string(), "mark:step/4, seed 3");
    }

    #[test]
    fn a_window_is_shorter_than_its_period() {
        let ms = Duration::from_millis;
        assert_eq!(Windows::of_time(ms(0), ms(10), 0), None);
        assert_eq!(Windows::of_time(ms(10), ms(10), 0), None);
        assert_eq!(Windows::of_references(5, 5, 0), None);
        assert_eq!(Windows::of_time(ms(5), ms(10), 3).unwrap().to_string(), "5ms/10ms, seed 3");
        assert_eq!(Windows::of_references(5, 10, 3).unwrap().to_string(), "5/10 references, seed 3");
    }
}
