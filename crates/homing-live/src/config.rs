//! What a session is to do: one table of settings, for the command line, TOML files (unknown fields are refused) and
//! the documents.

use crate::host::Host;
use crate::mover::Mover;
use crate::source::SOURCES;
use homing_core::ids::parse_bytes;
use homing_core::policy::table::POLICIES;
use homing_session::INTERVAL;
use serde::de::{DeserializeSeed, Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::time::Duration;

/// How new threads are bound to CPUs (Tikir 2008, section 3; Brock 2001, section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bind {
    /// Node after node.
    Fill,
    /// The nodes in turn.
    RoundRobin,
    /// None, but a thread that changes nodes is kept on the node of its memory.
    Auto,
    /// None, and no thread is kept either.
    None,
}

impl Bind {
    /// All of them, by their names.
    const ALL: [(&'static str, Bind); 4] =
        [("fill", Bind::Fill), ("round-robin", Bind::RoundRobin), ("auto", Bind::Auto), ("none", Bind::None)];
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
    /// Least bytes of a mapping, or of static data, that is looked after; 0 for all memory. `None`: nobody has said.
    pub hot_areas: Option<u64>,
    /// The CPU that the engine runs on; `None` for any.
    pub engine_cpu: Option<u32>,
    /// Stop the program's threads while pages move.
    pub stop_world: bool,
    /// How to bind new threads.
    pub bind: Option<Bind>,
    /// Decide, move nothing.
    pub dry_run: bool,
    /// Only see who uses which pages, and keep what was known of processes that end ([`Departed`]). For callers alone:
    /// neither an option nor a line in a file.
    ///
    /// [`Departed`]: crate::session::Departed
    pub watch: bool,
    /// References that a burst of use stands for, where the source does not count; `None`: derived from the cost of a
    /// move.
    pub weight: Option<f64>,
    /// Threads that move pages.
    pub movers: usize,
    /// Never split huge pages that several nodes use.
    pub keep_huge_pages: bool,
    /// Spread what all nodes use alike, where one node answers for all.
    pub spread: bool,
    /// Parameters of policies, `policy.name=value`.
    pub set: Vec<String>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            policy: "auto".into(),
            source: "auto".into(),
            interval: Duration::from_micros(INTERVAL.0),
            rate_limit: 0,
            time_budget: None,
            regions: Vec::new(),
            hot_areas: None,
            engine_cpu: None,
            stop_world: false,
            bind: None,
            dry_run: false,
            watch: false,
            weight: None,
            movers: Mover::default().threads,
            keep_huge_pages: false,
            spread: true,
            set: Vec::new(),
        }
    }
}

/// A value that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{setting}: `{found}`: expected {expected}")]
pub struct BadValue {
    /// The setting.
    pub setting: &'static str,
    /// What it says.
    pub found: String,
    /// What it should say.
    pub expected: &'static str,
}

/// One setting. Options, help, completion and configuration files are made of [`SETTINGS`].
#[derive(Debug)]
pub struct Setting {
    /// `--NAME` on the command line, `NAME` in files.
    pub name: &'static str,
    /// Its letter on the command line.
    pub short: Option<char>,
    /// One line for `--help`, with the default.
    pub help: &'static str,
    /// What it takes.
    pub takes: Takes,
}

/// What a setting takes, and how it is set.
#[derive(Debug)]
pub enum Takes {
    /// Nothing on the command line, `true` or `false` in files.
    Flag(fn(&mut Config)),
    /// One value.
    One {
        /// What the help calls the value.
        value: &'static str,
        /// Files give it as a number, else as text.
        number: bool,
        /// All values, if there are few enough to be named.
        choices: fn() -> Vec<&'static str>,
        /// Sets it, or says what was expected.
        set: fn(&mut Config, &str) -> Result<(), &'static str>,
    },
    /// Several: the option again and again, an array in files.
    List {
        /// What the help calls a value.
        value: &'static str,
        /// One option may hold several, separated by commas.
        commas: bool,
        /// Sets or extends it.
        set: fn(&mut Config, Vec<String>),
    },
}

const fn setting(name: &'static str, help: &'static str, takes: Takes) -> Setting {
    Setting { name, short: None, help, takes }
}

type Set = fn(&mut Config, &str) -> Result<(), &'static str>;

const fn text(value: &'static str, set: Set) -> Takes {
    Takes::One { value, number: false, choices: Vec::new, set }
}

const fn number(set: Set) -> Takes {
    Takes::One { value: "N", number: true, choices: Vec::new, set }
}

/// All settings, in the order of `--help`. To add one: a field of [`Config`], its default, and a line here.
pub const SETTINGS: &[Setting] = &[
    Setting {
        short: Some('p'),
        ..setting(
            "policy",
            "Policy (see `homing policies`) [default: auto, the one that suits the source: homing where it counts, \
             else work-function]",
            Takes::One {
                value: "POLICY",
                number: false,
                choices: || named_or_auto(&mut POLICIES.iter().map(|entry| entry.name)),
                set: |config, name| {
                    name.clone_into(&mut config.policy);
                    Ok(())
                },
            },
        )
    },
    setting(
        "source",
        "Source of accesses (see `homing doctor`) [default: auto, the first that works]",
        Takes::One {
            value: "SOURCE",
            number: false,
            choices: || named_or_auto(&mut SOURCES.iter().map(|entry| entry.name)),
            set: |config, name| {
                name.clone_into(&mut config.source);
                Ok(())
            },
        },
    ),
    setting(
        "interval",
        "How often decisions are made [default: 100ms]",
        text("DURATION", |config, text| {
            let range = Duration::from_millis(1)..=Duration::from_secs(3600);
            let expected = "a duration from 1ms to 1h, such as 100ms or 2s";
            config.interval = parse_duration(text).filter(|time| range.contains(time)).ok_or(expected)?;
            Ok(())
        }),
    ),
    setting(
        "rate-limit",
        "Move at most this many bytes a second; 0 is no limit [default: 0]",
        text("SIZE", |config, text| {
            config.rate_limit = parse_bytes(text).ok_or("bytes a second such as 100M")?;
            Ok(())
        }),
    ),
    setting(
        "time-budget",
        "Begin moves for at most this long in each interval [default: all of it; half of it with --stop-world]",
        text("DURATION", |config, text| {
            let expected = "a duration above 0 such as 20ms (`dry-run` moves nothing)";
            config.time_budget =
                Some(parse_duration(text).filter(|budget| !budget.is_zero()).ok_or(expected)?);
            Ok(())
        }),
    ),
    setting(
        "regions",
        "Move pages of these regions only: heap, stack, anonymous, a file's name, or one of them such as anonymous#3",
        Takes::List { value: "NAME", commas: true, set: |config, names| config.regions = names },
    ),
    setting(
        "hot-areas",
        "Look after mappings and static data of at least this size only; 0 is all memory [default: 0; 256K with \
         --runtime]",
        text("SIZE", |config, text| {
            config.hot_areas = Some(parse_bytes(text).ok_or("bytes such as 256K, or 0")?);
            Ok(())
        }),
    ),
    setting(
        "engine-cpu",
        "Run the engine on this CPU alone, which --runtime takes from the program [default: any]",
        number(|config, text| {
            config.engine_cpu = Some(text.parse().map_err(|_| "the number of a CPU")?);
            Ok(())
        }),
    ),
    setting(
        "stop-world",
        "Stop the program's threads while pages move",
        Takes::Flag(|config| config.stop_world = true),
    ),
    setting(
        "bind",
        "Bind new threads to CPUs, node after node or the nodes in turn; auto: keep threads that change nodes on the \
         node of their memory; none: leave them alone [default: none]",
        Takes::One {
            value: "HOW",
            number: false,
            choices: || Bind::ALL.map(|(name, _)| name).to_vec(),
            set: |config, text| {
                let how = Bind::ALL.iter().find(|(name, _)| *name == text);
                config.bind = Some(how.ok_or("fill, round-robin, auto or none")?.1);
                Ok(())
            },
        },
    ),
    setting(
        "dry-run",
        "Decide and account, move nothing",
        Takes::Flag(|config| config.dry_run = true),
    ),
    setting(
        "weight",
        "References that one burst of use of a page stands for, for sources that cannot count [default: from the \
         cost of a move]",
        number(|config, text| {
            let positive = |weight: &f64| *weight > 0.0 && weight.is_finite();
            config.weight = Some(text.parse().ok().filter(positive).ok_or("a number above 0")?);
            Ok(())
        }),
    ),
    setting(
        "movers",
        "Threads that move pages [default: 4]",
        number(|config, text| {
            let threads = text.parse().ok().filter(|threads| (1..=64).contains(threads));
            config.movers = threads.ok_or("1 to 64 threads")?;
            Ok(())
        }),
    ),
    setting(
        "keep-huge-pages",
        "Never split huge pages that several nodes use",
        Takes::Flag(|config| config.keep_huge_pages = true),
    ),
    setting(
        "no-spread",
        "Never spread what all nodes use alike over the nodes, where one node has it all",
        Takes::Flag(|config| config.spread = false),
    ),
    setting(
        "set",
        "Set a policy's parameter (POLICY.PARAM=VALUE)",
        Takes::List {
            value: "POLICY.PARAM=VALUE",
            commas: false,
            set: |config, mut values| config.set.append(&mut values),
        },
    ),
];

fn named_or_auto(names: &mut dyn Iterator<Item = &'static str>) -> Vec<&'static str> {
    std::iter::once("auto").chain(names).collect()
}

impl Setting {
    /// Sets a value of [`Takes::One`].
    ///
    /// # Errors
    /// If it makes no sense.
    fn set_one(&'static self, set: Set, config: &mut Config, text: &str) -> Result<(), BadValue> {
        let bad = |expected| BadValue { setting: self.name, found: text.to_owned(), expected };
        set(config, text).map_err(bad)
    }

    /// Sets it as the command line gives it: no values for a flag that is there, one, or several.
    ///
    /// # Errors
    /// If a value makes no sense.
    pub fn set(&'static self, config: &mut Config, values: Vec<String>) -> Result<(), BadValue> {
        match &self.takes {
            Takes::Flag(set) => set(config),
            Takes::One { set, .. } => {
                values.iter().try_for_each(|value| self.set_one(*set, config, value))?;
            }
            Takes::List { set, .. } => set(config, values),
        }
        Ok(())
    }
}

impl Config {
    /// Reads a file's text over the defaults.
    ///
    /// # Errors
    /// If it is not TOML, or has fields that do not exist, or values that make no sense.
    pub fn from_toml(text: &str) -> Result<Config, toml::de::Error> {
        toml::from_str(text)
    }

    /// Fails on what this machine does not have.
    ///
    /// # Errors
    /// A CPU for the engine that is none.
    pub fn fits(&self, host: &Host) -> Result<(), BadValue> {
        match self.engine_cpu.filter(|&cpu| host.node_of_cpu(cpu).is_none()) {
            None => Ok(()),
            Some(cpu) => Err(BadValue {
                setting: "engine-cpu",
                found: cpu.to_string(),
                expected: "a CPU of this machine",
            }),
        }
    }

    /// In each interval moves begin for so long.
    pub fn time_for_moves(&self) -> Duration {
        let all = if self.stop_world { self.interval / 2 } else { self.interval };
        self.time_budget.unwrap_or(all)
    }
}

impl<'de> Deserialize<'de> for Config {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Config, D::Error> {
        deserializer.deserialize_map(Fields)
    }
}

/// Reads a file field by field. Names and values are checked where they are read, so that errors have their line.
struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = Config;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("settings of the live engine")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Config, M::Error> {
        let mut config = Config::default();
        while let Some(Name(setting)) = map.next_key()? {
            map.next_value_seed(Value { setting, config: &mut config })?;
        }
        Ok(config)
    }
}

/// The name of a setting.
struct Name(&'static Setting);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Name, D::Error> {
        let name = String::deserialize(deserializer)?;
        SETTINGS.iter().find(|setting| setting.name == name).map(Name).ok_or_else(|| {
            let names: Vec<&str> = SETTINGS.iter().map(|setting| setting.name).collect();
            D::Error::custom(format!("unknown field `{name}`: expected one of {}", names.join(", ")))
        })
    }
}

/// A value of a setting, which is set.
struct Value<'c> {
    setting: &'static Setting,
    config: &'c mut Config,
}

impl<'de> DeserializeSeed<'de> for Value<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let Value { setting, config } = self;
        match &setting.takes {
            Takes::Flag(set) => {
                if bool::deserialize(deserializer)? {
                    set(config);
                }
            }
            Takes::One { number, set, .. } => {
                let text = match number {
                    true => f64::deserialize(deserializer)?.to_string(),
                    false => String::deserialize(deserializer)?,
                };
                setting.set_one(*set, config, &text).map_err(D::Error::custom)?;
            }
            Takes::List { set, .. } => set(config, Vec::deserialize(deserializer)?),
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
mod tests;
