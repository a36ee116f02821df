//! What `run` and `attach` take: a configuration file, and options that win over it; one for each setting of the table.

use crate::exit::{self, Code};
use crate::files::read_text;
use crate::names;
use anyhow::Context;
use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser};
use clap::{Arg, ArgAction, ArgMatches, Command};
use homing_live::config::{parse_duration, BadValue, Bind, Config, Setting, Takes, SETTINGS};
use std::path::PathBuf;
use std::time::Duration;

/// Settings of the live engine.
#[derive(clap::Args, Clone, Debug)]
pub struct Settings {
    #[command(flatten)]
    given: Given,
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

/// Values of the table of settings, as options gave them.
#[derive(Clone, Debug, Default)]
struct Given(Vec<(&'static Setting, Vec<String>)>);

impl Given {
    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(setting, _)| setting.name == name)
    }

    fn add(&mut self, name: &str, value: &str) {
        let setting = SETTINGS.iter().find(|setting| setting.name == name);
        self.0.extend(setting.map(|setting| (setting, vec![value.to_owned()])));
    }
}

/// The option of a setting.
fn option(setting: &'static Setting) -> Arg {
    let option = Arg::new(setting.name).long(setting.name).help(setting.help);
    let option = match setting.short {
        Some(letter) => option.short(letter),
        None => option,
    };
    match setting.takes {
        Takes::Flag(_) => option.action(ArgAction::SetTrue),
        Takes::One { value, choices, .. } => {
            let option = option.value_name(value);
            let choices = choices();
            if choices.is_empty() {
                option.value_parser(move |text: &str| {
                    let checked = setting.set(&mut Config::default(), vec![text.to_owned()]);
                    checked.map(|()| text.to_owned()).map_err(|bad| format!("expected {}", bad.expected))
                })
            } else {
                option
                    .hide_possible_values(choices.len() > MANY)
                    .value_parser(PossibleValuesParser::new(choices))
            }
        }
        Takes::List { value, commas, .. } => {
            let option = option.value_name(value).action(ArgAction::Append);
            let option = option.value_parser(NonEmptyStringValueParser::new());
            if commas {
                option.value_delimiter(',')
            } else {
                option
            }
        }
    }
}

/// More values than this are not listed in the help.
const MANY: usize = 8;

impl clap::Args for Given {
    fn augment_args(command: Command) -> Command {
        command.args(SETTINGS.iter().map(option))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for Given {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Given, clap::Error> {
        let mut given = Given::default();
        given.update_from_arg_matches(matches)?;
        Ok(given)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        let was_given = |setting: &&Setting| {
            matches.value_source(setting.name) == Some(clap::parser::ValueSource::CommandLine)
        };
        for setting in SETTINGS.iter().filter(was_given) {
            let values = match setting.takes {
                Takes::Flag(_) => Vec::new(),
                _ => matches.get_many::<String>(setting.name).unwrap_or_default().cloned().collect(),
            };
            self.0.push((setting, values));
        }
        Ok(())
    }
}

/// Parses a duration on the command line.
pub fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| format!("`{text}`: expected a duration such as 100ms or 2s"))
}

impl Settings {
    /// With another policy and source where none is given.
    pub fn or(&self, policy: &str, source: &str) -> Settings {
        let mut settings = self.clone();
        for (name, value) in [("policy", policy), ("source", source)] {
            if !settings.given.has(name) {
                settings.given.add(name, value);
            }
        }
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
        for (setting, values) in &self.given.0 {
            let bad = |error: BadValue| exit::error(Code::USAGE, error.to_string());
            setting.set(&mut config, values.clone()).map_err(bad)?;
        }
        Ok(config)
    }

    /// The settings; fails on what an engine inside of the program does not have.
    pub fn inside(&self) -> anyhow::Result<Config> {
        let config = self.config()?;
        let alone = [
            ("--stop-world", config.stop_world),
            ("--bind", config.bind.is_some_and(|how| how != Bind::None)),
            ("--regions", !config.regions.is_empty()),
            ("--journal", self.journal.is_some()),
            ("--tee", self.tee.is_some()),
            ("--machine", self.machine != "host"),
        ];
        match alone.iter().find(|(_, given)| *given) {
            None => Ok(config),
            Some((name, _)) => Err(exit::error(
                Code::USAGE,
                format!("{name} does not go with --runtime: the engine runs inside of the program"),
            )),
        }
    }

    /// The name of an option that is for the engine, if one was given.
    pub fn of_engine(&self) -> Option<String> {
        let others = [
            ("config", self.config.is_some()),
            ("journal", self.journal.is_some()),
            ("tee", self.tee.is_some()),
            ("machine", self.machine != "host"),
        ];
        let setting = self.given.0.first().map(|(setting, _)| setting.name);
        let other = others.iter().find(|(_, given)| *given).map(|(name, _)| *name);
        setting.or(other).map(|name| format!("--{name}"))
    }

    /// The file, if there is one, with the options over it, as a file.
    pub fn to_toml(&self) -> anyhow::Result<String> {
        let mut table = match &self.config {
            None => toml::Table::new(),
            Some(path) => {
                read_text(path, "configuration")?.parse().with_context(|| path.display().to_string())?
            }
        };
        for (setting, values) in &self.given.0 {
            let number = |text: &str| text.parse().map_or_else(|_| text.into(), toml::Value::Integer);
            let value = match setting.takes {
                Takes::Flag(_) => toml::Value::Boolean(true),
                Takes::One { number: true, .. } => number(&values[0]),
                Takes::One { .. } => toml::Value::from(values[0].as_str()),
                Takes::List { .. } => values.clone().into(),
            };
            table.insert(setting.name.to_owned(), value);
        }
        Ok(table.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        settings: Settings,
    }

    #[test]
    fn options_and_the_file_are_the_same_as_one_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("homing.toml");
        std::fs::write(&file, "interval = \"1s\"\nrate-limit = \"10M\"\n").unwrap();
        let options = "--interval 50ms --movers 3 --dry-run --set homing.wait=2 --set ace.moves=1";
        let line = format!("homing --config {} {options}", file.display());
        let settings = Line::parse_from(line.split_whitespace()).settings;
        let config = Config::from_toml(&settings.to_toml().unwrap()).unwrap();
        assert_eq!(config, settings.config().unwrap());
        assert!(config.dry_run && config.movers == 3 && config.set.len() == 2, "{config:?}");
    }
}
