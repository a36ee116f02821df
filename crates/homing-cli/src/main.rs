//! The program `homing`: parses the command line, calls one file under `cmd/`, and decides the exit code once, here.

#[macro_use(errln)]
extern crate homing_linux;

#[macro_use]
mod stdout;

mod cmd;
mod exit;
mod files;
mod groups;
mod html;
mod names;
mod options;
mod page;
mod progress;
mod region;
mod tables;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser};
use homing_linux::visible;
use std::ffi::OsString;

/// Brings memory pages home: records, bounds, simulates and shows page placement on NUMA machines.
#[derive(Parser)]
#[command(name = "homing", version, propagate_version = true, max_term_width = 110, after_help = exit::CODES)]
struct Cli {
    #[command(subcommand)]
    command: cmd::Command,
}

/// All subcommands and their options.
pub fn table() -> clap::Command {
    let table = Cli::command();
    let help = groups::help(&table);
    table.help_template(help)
}

fn parse(table: &mut clap::Command, words: Vec<OsString>) -> Result<(Cli, ArgMatches), clap::Error> {
    let matches = table.try_get_matches_from_mut(words)?;
    Ok((Cli::from_arg_matches(&matches)?, matches))
}

/// An error with what it quotes of the command line made visible. Clap gives its messages colours, so that they cannot
/// be made so afterwards: the error is made again from words that can be shown.
fn visible_error(table: &mut clap::Command, error: clap::Error) -> clap::Error {
    let shown = std::env::args_os().map(|word| visible::name(&word.to_string_lossy()).into_owned().into());
    // No error where what was wrong with the words is what is visible now.
    parse(table, shown.collect()).err().unwrap_or(error)
}

fn main() -> std::process::ExitCode {
    exit::finish(run())
}

fn run() -> exit::Result {
    let mut table = table();
    let (cli, matches) = match parse(&mut table, std::env::args_os().collect()) {
        Ok(parsed) => parsed,
        Err(told) => return tell(visible_error(&mut table, told).format(&mut table)),
    };
    files::roles::check(&table, &matches)?;
    cli.command.run()
}

/// Prints help or the version, which was asked for, or says what is wrong with the command line.
fn tell(told: clap::Error) -> exit::Result {
    if told.use_stderr() {
        // Nobody is left to tell where this cannot be written.
        let _ = told.print();
        return Ok(exit::Code(told.exit_code() as u8));
    }
    stdout::checked(|_| told.print())?;
    Ok(exit::Code::OK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_after_the_program_belong_to_it() {
        const OWN: [&str; 8] = ["./app", "-o", "x", "--machine", "two", "--", "--help", "-q"];
        for command in [
            &["record", "-o", "FILE", "--quiet"][..],
            &["run", "--quiet"],
            &["lab", "run", "--topology", "2x2"],
            &["lab", "baseline", "--json"],
            &["replay", "LOG"],
        ] {
            for between in [&[][..], &["--"]] {
                let words = [&["homing"], command, between, &OWN].concat();
                let matches = table().try_get_matches_from(&words).unwrap_or_else(|error| panic!("{error}"));
                let mut inner = &matches;
                while let Some((_, deeper)) = inner.subcommand() {
                    inner = deeper;
                }
                let taken: Vec<_> = inner.get_many::<OsString>("command").unwrap().collect();
                assert_eq!(taken, OWN, "{words:?}");
            }
        }
    }
}
