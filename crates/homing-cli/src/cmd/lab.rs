//! `homing lab`: a virtual ccNUMA machine with a real kernel, on any machine (`docs/lab.md`).

mod baseline;
mod flags;
mod observe;
mod run;
mod setup;
mod shell;
mod topologies;
mod trace_file;

use crate::exit::Result;
use homing_lab::session::Ends;
use homing_lab::watch::Watch;

/// Arguments of `homing lab`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    /// Run a program of this machine in a virtual NUMA machine
    Run(Box<run::Args>),
    /// Compare how first touch, interleaving, the kernel, numad and others place a program's memory
    Baseline(Box<baseline::Args>),
    /// Give a prompt in a virtual NUMA machine
    Shell(shell::Args),
    /// Install what the lab needs: QEMU, busybox, a kernel
    Setup(setup::Args),
    /// List the built-in topologies, with one line each
    Topologies(topologies::Args),
}

/// Does what the subcommand says.
pub fn run(args: Args) -> Result {
    match args.command {
        Command::Run(args) => run::run(*args),
        Command::Baseline(args) => baseline::run(*args),
        Command::Shell(args) => shell::run(args),
        Command::Setup(args) => setup::run(args),
        Command::Topologies(args) => topologies::run(args),
    }
}

/// Tells the user on stderr.
struct Stderr;

impl Watch for Stderr {
    fn say(&self, line: &str) {
        errln!("homing: {line}");
    }
}

/// The streams of this program for those of the command.
fn own_streams() -> Ends {
    let (output, errors) = (Box::new(std::io::stdout()), Box::new(std::io::stderr()));
    Ends { input: Some(Box::new(std::io::stdin())), output, errors }
}
