//! What a session is to do. Read from TOML (unknown fields are refused) and from the command line, which wins.

use crate::mover::Mover;
use homing_core::ids::parse_bytes;
use serde::Deserialize;
use std::time::Duration;

/// How new threads are bound to CPUs (Tikir 2008, section 3; Brock 2001, section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bind {
    /// Node after node.
    Fill,
    /// The nodes in turn.
    RoundRobin,
}

/// A session's settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Policy, or `auto` for the one that suits the source.
    pub policy: String,
    /// Source, or `auto`.
    pub source: String,
    /// How often decisions are made.
    pub interval: Duration,
    /// Most bytes moved a second; 0 for no limit.
    pub rate_limit: u64,
    /// Longest time in which moves may begin in one interval; `None`: all of it, and half of it where the program
    /// stands still.
    pub time_budget: Option<Duration>,
    /// Names of mappings (as tables show them) whose pages may move; empty for all.
    pub regions: Vec<String>,
    /// Stop the program's threads while pages move.
    pub stop_world: bool,
    /// How to bind new threads.
    pub bind: Option<Bind>,
    /// Decide, move nothing.
    pub dry_run: bool,
    /// References that a burst of use stands for, where the source does not count; `None`: derived from the cost of a
    /// move.
    pub weight: Option<f64>,
    /// Threads that move pages.
    pub movers: usize,
    /// Never split huge pages that several nodes use.
    pub keep_huge_pages: bool,
    /// Parameters of policies, `policy.name=value`.
    pub set: Vec<String>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            policy: "auto".into(),
            source: "auto".into(),
            interval: Duration::from_millis(100),
            rate_limit: 0,
            time_budget: None,
            regions: Vec::new(),
            stop_world: false,
            bind: None,
            dry_run: false,
            weight: None,
            movers: Mover::default().threads,
            keep_huge_pages: false,
            set: Vec::new(),
        }
    }
}

/// The file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct File {
    policy: Option<String>,
    source: Option<String>,
    interval: Option<String>,
    rate_limit: Option<String>,
    time_budget: Option<String>,
    regions: Option<Vec<String>>,
    stop_world: Option<bool>,
    bind: Option<Bind>,
    dry_run: Option<bool>,
    weight: Option<f64>,
    movers: Option<usize>,
    keep_huge_pages: Option<bool>,
    set: Option<Vec<String>>,
}

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Not TOML, or a field that does not exist.
    #[error("{0}")]
    Toml(#[from] toml::de::Error),
    /// A value that makes no sense.
    #[error("{field}: `{found}`: expected {expected}")]
    Value {
        /// The field.
        field: &'static str,
        /// What it says.
        found: String,
        /// What it should say.
        expected: &'static str,
    },
}

impl Config {
    /// Reads a file's text over the defaults.
    ///
    /// # Errors
    /// If it is not TOML, or has fields that do not exist, or values that make no sense.
    pub fn from_toml(text: &str) -> Result<Config, ConfigError> {
        let file: File = toml::from_str(text)?;
        let default = Config::default();
        let duration = |field, text: Option<String>| {
            let Some(text) = text else { return Ok(None) };
            let expected = "a duration such as 100ms or 2s";
            parse_duration(&text).map(Some).ok_or(ConfigError::Value { field, found: text, expected })
        };
        let rate = |text: Option<String>| {
            let Some(text) = text else { return Ok(default.rate_limit) };
            parse_bytes(&text).ok_or(ConfigError::Value {
                field: "rate-limit",
                found: text,
                expected: "bytes a second such as 100M",
            })
        };
        let config = Config {
            policy: file.policy.unwrap_or(default.policy),
            source: file.source.unwrap_or(default.source),
            interval: duration("interval", file.interval)?.unwrap_or(default.interval),
            rate_limit: rate(file.rate_limit)?,
            time_budget: duration("time-budget", file.time_budget)?,
            regions: file.regions.unwrap_or_default(),
            stop_world: file.stop_world.unwrap_or_default(),
            bind: file.bind,
            dry_run: file.dry_run.unwrap_or_default(),
            weight: file.weight,
            movers: file.movers.unwrap_or(default.movers),
            keep_huge_pages: file.keep_huge_pages.unwrap_or_default(),
            set: file.set.unwrap_or_default(),
        };
        config.check()?;
        Ok(config)
    }

    /// In each interval moves begin for so long.
    pub fn time_for_moves(&self) -> Duration {
        let all = if self.stop_world { self.interval / 2 } else { self.interval };
        self.time_budget.unwrap_or(all)
    }

    /// Refuses values that make no sense.
    ///
    /// # Errors
    /// The first of them.
    pub fn check(&self) -> Result<(), ConfigError> {
        let fail = |field, found: String, expected| Err(ConfigError::Value { field, found, expected });
        if self.interval < Duration::from_millis(1) || self.interval > Duration::from_secs(3600) {
            return fail("interval", format!("{:?}", self.interval), "1ms to 1h");
        }
        if let Some(weight) = self.weight.filter(|weight| !(*weight > 0.0 && weight.is_finite())) {
            return fail("weight", weight.to_string(), "a number above 0");
        }
        if self.time_budget.is_some_and(|budget| budget.is_zero()) {
            return fail("time-budget", "0s".into(), "more than nothing (`dry-run` moves nothing)");
        }
        if !(1..=64).contains(&self.movers) {
            return fail("movers", self.movers.to_string(), "1 to 64 threads");
        }
        Ok(())
    }
}

/// Parses a duration: `5ms`, `10s`, `250us`, `2m`.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
    let number: f64 = text[..digits].parse().ok()?;
    let seconds = match text[digits..].trim() {
        "us" => number / 1e6,
        "ms" => number / 1e3,
        "s" => number,
        "m" | "min" => number * 60.0,
        "h" => number * 3600.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        for (text, ms) in [("5ms", 5), ("10s", 10_000), ("1.5s", 1500), ("2m", 120_000), ("2000us", 2)] {
            assert_eq!(parse_duration(text), Some(Duration::from_millis(ms)), "{text}");
        }
        for bad in ["", "5", "ms", "-1s", "1x", "1e400s"] {
            assert_eq!(parse_duration(bad), None, "{bad}");
        }
    }

    #[test]
    fn files_set_what_they_say_and_unknown_fields_are_refused() {
        let text = "policy = \"work-function\"\ninterval = \"250ms\"\nrate-limit = \"64M\"\n\
            bind = \"round-robin\"\nregions = [\"heap\"]";
        let config = Config::from_toml(text).unwrap();
        assert_eq!((config.policy.as_str(), config.interval.as_millis()), ("work-function", 250));
        assert_eq!((config.rate_limit, config.bind), (64 << 20, Some(Bind::RoundRobin)));
        assert_eq!(config.regions, ["heap"]);
        assert_eq!(Config::from_toml("").unwrap(), Config::default());
        assert!(Config::from_toml("polcy = \"x\"").unwrap_err().to_string().contains("polcy"));
        for bad in [
            "interval = \"soon\"",
            "interval = \"0ms\"",
            "movers = 0",
            "rate-limit = \"fast\"",
            "weight = -1.0",
        ] {
            assert!(Config::from_toml(bad).unwrap_err().to_string().contains("expected"), "{bad}");
        }
    }
}
