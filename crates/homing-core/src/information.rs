//! How much of the references a policy sees: everything, every Nth, or profiles at interval ends only. The levels work
//! on page runs, so that a long run costs no more than a short one.
//!
//! `every:N` is a monitor that takes each Nth reference of the whole program. What a page with a small share of all
//! references sees of that is one reference in N with gaps that vary; here the gaps are drawn per page, evenly from 1
//! to 2N - 1, from the seed. Each one seen has the weight N.

use crate::ids::{Page, Time};
use rand::{Rng, SeedableRng};
use rand_xoshiro::SplitMix64;
use std::fmt;
use std::str::FromStr;

/// Intervals of a trace unless said.
pub const INTERVALS: u64 = 100;

/// Which references are seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// All.
    All,
    /// One in this many.
    Every(u64),
}

/// How long a monitor's interval is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interval {
    /// This many intervals over the whole trace.
    Count(u64),
    /// This many references.
    Length(u64),
}

/// An information level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Information {
    /// Which references are seen.
    pub sampling: Sampling,
    /// Nothing is reported or decided before an interval ends.
    pub only_at_ends: bool,
    /// How long the intervals are.
    pub interval: Interval,
    /// Seed of the sampling.
    pub seed: u64,
}

impl Information {
    /// Everything at once, and 100 intervals.
    pub const PERFECT: Information = Information {
        sampling: Sampling::All,
        only_at_ends: false,
        interval: Interval::Count(INTERVALS),
        seed: 0,
    };

    /// References in an interval of a trace of that duration.
    pub fn interval_length(&self, duration: Time) -> u64 {
        match self.interval {
            Interval::Length(length) => length.max(1),
            Interval::Count(count) => duration.0.div_ceil(count.max(1)).max(1),
        }
    }

    /// References that one seen stands for.
    pub fn weight(&self) -> f64 {
        match self.sampling {
            Sampling::All => 1.0,
            Sampling::Every(period) => period as f64,
        }
    }

    /// True if references fault and are reported as they happen.
    pub fn is_perfect(&self) -> bool {
        self.sampling == Sampling::All && !self.only_at_ends
    }

    /// What decides which references of `page` are seen.
    pub fn sampler(&self, page: Page) -> Sampler {
        let mut rng =
            SplitMix64::seed_from_u64(self.seed ^ u64::from(page.0).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let period = match self.sampling {
            Sampling::All => 1,
            Sampling::Every(period) => period.max(1),
        };
        // Where a stream of such gaps stands at any reference: the least of two different numbers below 2N.
        let (a, b) = (rng.gen_range(0..2 * period), rng.gen_range(0..2 * period - 1));
        let left = a.min(b + u64::from(b >= a));
        Sampler { rng, period, left }
    }
}

/// Says which references of one page are seen.
#[derive(Clone, Debug)]
pub struct Sampler {
    rng: SplitMix64,
    period: u64,
    /// References that are not seen before the next one that is.
    left: u64,
}

impl Sampler {
    /// Of `count` further references, the index of the first that is seen; the sampler then stands behind it. `None` if
    /// none is, and the sampler stands behind all of them.
    #[inline]
    pub fn next(&mut self, count: u64) -> Option<u64> {
        if self.left >= count {
            self.left -= count;
            return None;
        }
        let seen = self.left;
        self.left = match self.period {
            1 => 0,
            period => self.rng.gen_range(0..2 * period - 1),
        };
        Some(seen)
    }
}

impl FromStr for Information {
    type Err = String;

    /// Parses `perfect`, `every:N`, `interval:N`, `intervals:K`, or several joined by `+`.
    fn from_str(text: &str) -> Result<Information, String> {
        let mut level = Information::PERFECT;
        for part in text.split('+') {
            let (name, number) = part.split_once(':').map_or((part, None), |(name, n)| (name, Some(n)));
            let number = number.map(|digits| digits.parse::<u64>().ok().filter(|&number| number > 0));
            match (name, number) {
                ("perfect", None) => {}
                ("every", Some(Some(period))) if period < 1 << 32 => level.sampling = Sampling::Every(period),
                ("interval", Some(Some(length))) => {
                    level.interval = Interval::Length(length);
                    level.only_at_ends = true;
                }
                ("intervals", Some(Some(count))) => {
                    level.interval = Interval::Count(count);
                    level.only_at_ends = true;
                }
                ("seed", Some(Some(seed))) => level.seed = seed,
                _ => {
                    return Err(format!(
                        "information `{text}`: expected perfect, every:N (one reference in N), interval:N (profiles \
                        every \
                         N references), intervals:K (K profiles over the trace), or several joined by +, such as \
                         every:64+intervals:100; +seed:S seeds the sampling"
                    ))
                }
            }
        }
        Ok(level)
    }
}

impl fmt::Display for Information {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if let Sampling::Every(period) = self.sampling {
            parts.push(format!("every:{period}"));
        }
        if self.only_at_ends {
            parts.push(match self.interval {
                Interval::Length(length) => format!("interval:{length}"),
                Interval::Count(count) => format!("intervals:{count}"),
            });
        }
        if parts.is_empty() {
            parts.push("perfect".into());
        }
        if self.seed != 0 {
            parts.push(format!("seed:{}", self.seed));
        }
        f.write_str(&parts.join("+"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_parse_and_print() {
        for text in
            ["perfect", "every:64", "interval:1000", "intervals:10", "every:8+intervals:3", "every:8+seed:2"]
        {
            assert_eq!(text.parse::<Information>().unwrap().to_string(), text);
        }
        for bad in ["", "every", "every:0", "every:x", "interval:-1", "perfect:1", "every:99999999999"] {
            assert!(bad.parse::<Information>().unwrap_err().contains("expected"), "{bad}");
        }
        let level: Information = "intervals:10".parse().unwrap();
        assert_eq!((level.interval_length(Time(95)), level.weight()), (10, 1.0));
    }

    #[test]
    fn samples_have_the_asked_mean_however_the_references_are_cut() {
        let level: Information = "every:64".parse().unwrap();
        let count = |pieces: &[u64]| {
            let mut total = 0;
            for page in 0..200 {
                let mut sampler = level.sampler(Page(page));
                for &piece in pieces {
                    let mut left = piece;
                    while let Some(seen) = sampler.next(left) {
                        total += 1;
                        left -= seen + 1;
                    }
                }
            }
            total
        };
        let whole = count(&[10_000]);
        assert_eq!(whole, count(&[1; 10_000]));
        assert_eq!(whole, count(&[4_000, 0, 5_999, 1]));
        let expected = 200 * 10_000 / 64;
        assert!((expected * 97 / 100..expected * 103 / 100).contains(&whole), "{whole} of {expected}");
    }
}
