//! What `run`, `attach` and `daemon` take: a configuration file, and options that win over it.

use crate::exit::{self, Code};
use crate::files::read_text;
use crate::names;
use clap::builder::NonEmptyStringValueParser;
use homing_core::ids::parse_bytes;
use homing_live::config::{parse_duration, Bind, Config};
use std::path::PathBuf;
use std::time::Duration;

/// Settings of the live engine.
#[derive(clap::Args, Clone, Debug)]
pub struct Settings {
    /// Policy (see `homing policies`) [default: auto, the one that suits the source: homing where it counts, else
    /// work-function]
    #[arg(long, short, value_parser = names::POLICY, hide_possible_values = true)]
    policy: Option<String>,
    /// Source of accesses: auto, pmu, hint-faults, page-faults, none (see `homing doctor`) [default: auto]
    #[arg(long, value_name = "SOURCE", value_parser = names::SOURCE, hide_possible_values = true)]
    source: Option<String>,
    /// How often decisions are made [default: 100ms]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    interval: Option<Duration>,
    /// Move at most this many bytes a second; 0 is no limit [default: 0]
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    rate_limit: Option<u64>,
    /// Begin moves for at most this long in each interval [default: all of it; half of it with --stop-world]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    time_budget: Option<Duration>,
    /// Move pages of these regions only: heap, stack, anonymous, a file's name, or one of them such as anonymous#3
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = NonEmptyStringValueParser::new())]
    regions: Vec<String>,
    /// Stop the program's threads while pages move
    #[arg(long)]
    stop_world: bool,
    /// Bind new threads to CPUs, node after node or the nodes in turn
    #[arg(long, value_enum, value_name = "HOW")]
    bind: Option<BindHow>,
    /// Decide and account, move nothing
    #[arg(long)]
    dry_run: bool,
    /// References that one burst of use of a page stands for, for sources that cannot count [default: from the cost of
    /// a move]
    #[arg(long, value_name = "N")]
    weight: Option<f64>,
    /// Threads that move pages [default: 4]
    #[arg(long, value_name = "N")]
    movers: Option<usize>,
    /// Never split huge pages that several nodes use
    #[arg(long)]
    keep_huge_pages: bool,
    /// Set a policy's parameter (POLICY.PARAM=VALUE)
    #[arg(long, value_name = "POLICY.PARAM=VALUE")]
    set: Vec<String>,
    /// Read settings from a TOML file; options win over it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// What accesses and moves cost: a machine model (see `homing machines`) with as many nodes as this machine
    #[arg(long, short, value_name = "MACHINE", default_value = "host", value_parser = names::MACHINE,
          hide_possible_values = true)]
    pub machine: String,
    /// Write every decision and what came of it, for `homing replay`
    #[arg(long, value_name = "FILE")]
    pub journal: Option<PathBuf>,
    /// As --journal, and everything that the session was told and asked for, for `homing replay --check`
    #[arg(long, value_name = "FILE", conflicts_with = "journal")]
    pub tee: Option<PathBuf>,
    /// Write the exit summary as JSON to a file
    #[arg(long, value_name = "FILE")]
    pub summary: Option<PathBuf>,
    /// Print the exit summary as JSON to stdout
    #[arg(long)]
    pub json: bool,
    /// Print no exit summary
    #[arg(long, short)]
    pub quiet: bool,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum BindHow {
    Fill,
    RoundRobin,
}

/// Parses a duration on the command line.
pub fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| format!("`{text}`: expected a duration such as 100ms or 2s"))
}

fn bytes(text: &str) -> Result<u64, String> {
    parse_bytes(text).ok_or_else(|| format!("`{text}`: expected bytes such as 100M"))
}

impl Settings {
    /// With another policy and source where none is given.
    pub fn or(&self, policy: &str, source: &str) -> Settings {
        let mut settings = self.clone();
        settings.policy.get_or_insert_with(|| policy.to_owned());
        settings.source.get_or_insert_with(|| source.to_owned());
        settings
    }

    /// The file, if there is one, with the options over it.
    pub fn config(&self) -> anyhow::Result<Config> {
        let mut config = match &self.config {
            None => Config::default(),
            Some(path) => {
                let text = read_text(path, "configuration")?;
                let usage = |error| exit::error(Code::USAGE, format!("{}: {error}", path.display()));
                Config::from_toml(&text).map_err(usage)?
            }
        };
        let given = self.clone();
        config.policy = given.policy.unwrap_or(config.policy);
        config.source = given.source.unwrap_or(config.source);
        config.interval = given.interval.unwrap_or(config.interval);
        config.rate_limit = given.rate_limit.unwrap_or(config.rate_limit);
        config.time_budget = given.time_budget.or(config.time_budget);
        config.stop_world |= given.stop_world;
        config.dry_run |= given.dry_run;
        config.keep_huge_pages |= given.keep_huge_pages;
        config.weight = given.weight.or(config.weight);
        config.movers = given.movers.unwrap_or(config.movers);
        if !given.regions.is_empty() {
            config.regions = given.regions;
        }
        if let Some(how) = given.bind {
            config.bind = Some(match how {
                BindHow::Fill => Bind::Fill,
                BindHow::RoundRobin => Bind::RoundRobin,
            });
        }
        config.set.extend(given.set);
        config.check().map_err(|error| exit::error(Code::USAGE, error.to_string()))?;
        Ok(config)
    }
}
