//! The program `homing`: parses the command line, calls one file under `cmd/`, and decides the exit code once, here.

#[macro_use(errln)]
extern crate homing_linux;

#[macro_use]
mod stdout;

mod cmd;
mod exit;
mod files;
mod options;
mod page;
mod progress;
mod tables;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use homing_linux::visible;
use std::ffi::OsString;

/// Brings memory pages home: records, bounds, simulates and shows page placement on NUMA machines.
#[derive(Parser)]
#[command(name = "homing", version, propagate_version = true, max_term_width = 110, after_help = exit::CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Bring the pages of running processes home
    Attach(Box<cmd::live::attach::Args>),
    /// Measure latency and bandwidth between the nodes of this machine
    Bench(cmd::bench::Args),
    /// Print a script that completes homing's commands in a shell
    Completions(cmd::manual::CompletionArgs),
    /// Print a manual page, or write all of them
    Man(cmd::manual::ManArgs),
    /// Compare placement policies with the best any policy could do
    Compare(cmd::compare::Args),
    /// Print what to compile a program with for `record --recorder tsan`
    Cflags(cmd::flags::CompileArgs),
    /// Bring the pages of cgroups home, as a service
    Daemon(cmd::daemon::Args),
    /// Probe what works on this machine for the live engine, and what is missing
    Doctor(cmd::doctor::Args),
    /// Move threads and pages of processes off a node, and keep new ones from landing there
    Evacuate(cmd::live::evacuate::Args),
    /// Print what to link a program with for `record --recorder tsan`
    Ldflags(cmd::flags::LinkArgs),
    /// A virtual NUMA machine with a real kernel, to run programs in
    Lab(cmd::lab::Args),
    /// List the machine models, with one line each
    Machines(cmd::machines::Args),
    /// List the monitors that policies can take profiles from, with one line each
    Monitors(cmd::monitors::Args),
    /// The cheapest placement of a trace's pages, its cost, its actions and its exact cost curve
    Optimal(cmd::optimal::Args),
    /// Look into traces and make new ones of them
    Trace(cmd::trace::Args),
    /// List the placement policies, with one line each
    Policies(cmd::policies::Args),
    /// Give an evacuated node back
    Restore(cmd::live::evacuate::RestoreArgs),
    /// Make the moves of an earlier live run again, or its decisions
    Replay(Box<cmd::replay::Args>),
    /// Run a program and bring its pages home while it runs
    Run(Box<cmd::live::launch::Args>),
    /// Reproduce the papers' tables and figures beside the published numbers
    Reproduce(cmd::reproduce::Args),
    /// Simulate a placement policy on a trace
    Simulate(cmd::simulate::Args),
    /// Policies on a grid of traces, machines, starts and information levels; resumable
    Study(cmd::study::Args),
    /// Show where pages and threads are, process by process and node by node
    Top(cmd::top::Args),
    /// Run a program and record every data reference of all its threads
    Record(cmd::record::Args),
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
    let mut table = Cli::command();
    let (cli, matches) = match parse(&mut table, std::env::args_os().collect()) {
        Ok(parsed) => parsed,
        Err(told) => return tell(visible_error(&mut table, told).format(&mut table)),
    };
    files::roles::check(&table, &matches)?;
    match cli.command {
        Command::Attach(args) => cmd::live::attach::run(*args),
        Command::Bench(args) => cmd::bench::run(args),
        Command::Completions(args) => cmd::manual::completions(args, Cli::command()),
        Command::Man(args) => cmd::manual::man(args, Cli::command()),
        Command::Compare(args) => cmd::compare::run(args),
        Command::Cflags(args) => cmd::flags::compile(args),
        Command::Daemon(args) => cmd::daemon::run(args),
        Command::Doctor(args) => cmd::doctor::run(args),
        Command::Evacuate(args) => cmd::live::evacuate::run(args),
        Command::Ldflags(args) => cmd::flags::link(args),
        Command::Lab(args) => cmd::lab::run(args),
        Command::Machines(args) => cmd::machines::run(args),
        Command::Monitors(args) => cmd::monitors::run(args),
        Command::Optimal(args) => cmd::optimal::run(args),
        Command::Trace(args) => cmd::trace::run(args),
        Command::Policies(args) => cmd::policies::run(args),
        Command::Replay(args) => cmd::replay::run(*args),
        Command::Restore(args) => cmd::live::evacuate::run_restore(args),
        Command::Run(args) => cmd::live::launch::run(*args),
        Command::Reproduce(args) => cmd::reproduce::run(args),
        Command::Simulate(args) => cmd::simulate::run(args),
        Command::Study(args) => cmd::study::run(args),
        Command::Top(args) => cmd::top::run(args),
        Command::Record(args) => cmd::record::run(args),
    }
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
