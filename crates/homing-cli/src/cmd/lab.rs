//! `homing lab`: a virtual ccNUMA machine with a real kernel, on any machine (`docs/lab.md`).

mod baseline;
mod flags;
mod observe;
mod run;
mod session;
mod setup;
mod shell;
mod topologies;
mod trace_file;

use crate::exit::{self, Code, Result};
use homing_lab::LabError;

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

/// The exit code that an error of the lab asks for.
fn coded(error: LabError) -> anyhow::Error {
    let code = match &error {
        LabError::Missing { .. } => Code::UNSUPPORTED,
        LabError::Topology { .. } => Code::USAGE,
        LabError::Program { why, .. } => Code(why.status()),
        LabError::Io { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
            Code::PERMISSION
        }
        LabError::Io { .. } | LabError::Died { .. } | LabError::Result { .. } => Code::FAILURE,
    };
    exit::error(code, error.to_string())
}
