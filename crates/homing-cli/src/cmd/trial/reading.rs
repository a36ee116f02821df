//! What is compared: the wall time, or a number of the program's output.

use regex::Regex;
use std::str::FromStr;

/// Where a number stands in a line.
#[derive(Clone, Debug)]
pub struct Number(Regex);

impl FromStr for Number {
    type Err = String;

    fn from_str(text: &str) -> Result<Number, String> {
        Regex::new(text).map(Number).map_err(|error| error.to_string())
    }
}

impl Number {
    /// The number in a line: the first group of the pattern, or all that it fits.
    fn read(&self, line: &str) -> Option<f64> {
        let found = self.0.captures(line)?;
        found.get(1).or_else(|| found.get(0))?.as_str().trim().parse().ok()
    }
}

/// What is compared.
#[derive(Clone, Debug)]
pub enum Measure {
    /// Seconds from start to end.
    Wall,
    /// A time that the program prints.
    Time(Number),
    /// A rate that the program prints; its inverse is compared.
    Rate(Number),
}

impl Measure {
    /// Whether the program's output is read.
    pub fn reads(&self) -> bool {
        !matches!(self, Measure::Wall)
    }

    /// Whether higher is better.
    pub fn is_rate(&self) -> bool {
        matches!(self, Measure::Rate(_))
    }

    /// The time in a line of output.
    pub fn number(&self, line: &str) -> Option<f64> {
        match self {
            Measure::Wall => None,
            Measure::Time(number) => number.read(line),
            Measure::Rate(number) => number.read(line).map(f64::recip),
        }
    }

    /// What times are in JSON.
    pub fn unit(&self) -> &'static str {
        match self {
            Measure::Wall => "seconds",
            Measure::Time(_) => "printed-time",
            Measure::Rate(_) => "inverse-of-printed-rate",
        }
    }

    /// A time for people.
    pub fn show(&self, time: f64) -> String {
        match self {
            Measure::Wall if time < 1e-3 => format!("{:.0} us", time * 1e6),
            Measure::Wall if time < 1.0 => format!("{:.1} ms", time * 1e3),
            Measure::Wall => format!("{time:.2} s"),
            Measure::Time(_) => digits(time),
            Measure::Rate(_) => digits(time.recip()),
        }
    }
}

/// Four digits of a number of unknown size.
fn digits(number: f64) -> String {
    let places = (3 - number.abs().log10().floor() as i32).clamp(0, 9);
    format!("{number:.*}", places as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_in_lines() {
        let number = |pattern: &str, line: &str| pattern.parse::<Number>().unwrap().read(line);
        assert_eq!(number(r"time: (\S+) s", "time: 1.5e-2 s"), Some(0.015));
        assert_eq!(number(r"[0-9.]+", "took 12.25 s of 40"), Some(12.25));
        assert_eq!(number(r"time: (\S+)", "time: unknown"), None);
        assert_eq!(number(r"time: (\S+)", "nothing"), None);
        assert!("(".parse::<Number>().is_err());
    }

    #[test]
    fn times_are_shown_in_their_unit() {
        let rate = Measure::Rate("x".parse().unwrap());
        assert_eq!(
            (Measure::Wall.show(0.0123), Measure::Wall.show(75.0)),
            ("12.3 ms".into(), "75.00 s".into())
        );
        assert_eq!(
            (rate.show(0.25), digits(123456.0), digits(0.5)),
            ("4.000".into(), "123456".into(), "0.5000".into())
        );
    }
}
